"""A space as a YAML file: what its parameters set, what is refused, and that a study can build it again."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import yaml

from codesign.core.errors import UserError
from codesign.evaluation.design import describe_space, load_design_space, space_of_record
from codesign.evaluation.own_metrics import JudgedDesign
from spaces.design import DesignSpace
from spaces.expressions import Expression
from spaces.space_file import load_space_file, space_from_json

FILE = Path(__file__).parents[2] / "data" / "spaces" / "clustered.yaml"
PRESET = {"pe_rows": 16, "pe_cols": 8, "buffer_bytes": 65536, "cluster": "off", "bus_bits": 128, "keep": "weights"}


def raw() -> Any:
    return yaml.safe_load(FILE.read_text())["space"]


def test_every_parameter_sets_what_the_file_says() -> None:
    space = load_space_file(FILE)
    plain = space.build(PRESET)
    assert [v.name for v in plain.levels] == ["DRAM", "Buffer", "Regs"]
    assert (
        plain.clock_hz == 500e6 and plain.level("Buffer").capacity_bytes == 65536 and plain.level("Buffer").banks == 4
    )
    assert (plain.level("Buffer").fanout.x, plain.level("Buffer").fanout.y) == (8, 16)
    assert plain.level("DRAM").read_bandwidth_words_per_cycle == 2 and plain.level("Regs").keep == frozenset({"weight"})
    assert plain.area_mm2 is not None and plain.level("Regs").energy is not None
    deep = space.build({**PRESET, "cluster": "on", "cluster_bytes": 4096, "keep": "outputs"})
    assert [v.name for v in deep.levels] == ["DRAM", "Buffer", "Cluster", "Regs"]
    assert deep.level("Cluster").capacity_bytes == 4096 and deep.level("Buffer").fanout.size == 1
    assert deep.mac_units == plain.mac_units == 128


def test_rules_and_sizes_have_units() -> None:
    space = load_space_file(FILE).space
    assert space.violations({**PRESET, "pe_rows": 32, "pe_cols": 32}) == [
        "pe_rows * pe_cols <= 512: pe_rows * pe_cols <= 512"
    ]
    small = {**PRESET, "buffer_bytes": 16384, "bus_bits": 256}
    assert space.violations(small) == ["buffer_bytes >= 64KiB or bus_bits <= 128: a small buffer has a narrow bus"]


def test_metrics_and_objectives_come_from_the_file() -> None:
    space = load_space_file(FILE)
    assert space.objectives == ("latency", "energy", "cost")
    [(name, metric)] = space.metrics
    metrics = {"latency_s": 1.0, "energy_j": 1.0, "power_w": 1.0, "area_mm2": 2.0, "edp_js": 1.0}
    assert name == "cost" and metric(JudgedDesign(PRESET, metrics, space.build(PRESET), {})) == pytest.approx(
        3 * 2 + 1.28
    )


def test_a_study_builds_the_space_again_without_its_file(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(FILE.read_text())
    space = load_design_space(str(tmp_path / "mine.yaml"))
    recorded = describe_space(space, str(tmp_path / "mine.yaml"))
    (tmp_path / "mine.yaml").unlink()
    again = space_of_record(recorded)
    assert again.build(PRESET) == space.build(PRESET) and again.to_json() == recorded


def test_other_processes_can_have_it() -> None:
    space = load_space_file(FILE)
    assert pickle.loads(pickle.dumps(space)).build(PRESET) == space.build(PRESET)


@pytest.mark.parametrize("base", ["eyeriss", "own.yaml", "timeloop.yaml"])
def test_a_preset_or_a_file_can_be_what_is_varied(base: str, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(
        "architecture: {name: o, levels: [{name: DRAM, kind: dram}, {name: GlobalBuffer, capacity_bytes: 4KiB}], mac: {bits: 8}}"
    )
    (tmp_path / "timeloop.yaml").write_text(
        "architecture:\n  arithmetic: {name: MAC, instances: 4, meshX: 4, word-bits: 8}\n  storage:\n"
        "  - {name: GlobalBuffer, instances: 1, word-bits: 8, entries: 64}\n  - {name: DRAM, instances: 1, word-bits: 8, technology: DRAM}\n"
    )
    value = {
        "name": "v",
        "parameters": {"size": ["8KiB", "16KiB"]},
        "architecture": base,
        "set": {"GlobalBuffer.capacity_bytes": "size"},
    }
    space = space_from_json(value, "v.yaml", tmp_path)
    assert [space.build({"size": s}).level("GlobalBuffer").capacity_bytes for s in (8192, 16384)] == [8192, 16384]


def changed(path: str, value: Any) -> Any:
    document = raw()
    target = document
    *way, last = path.split("/")
    for key in way:
        target = target[int(key)] if isinstance(target, list) else target[key]
    if value is None:
        del target[last]
    elif isinstance(target, list):
        target[int(last)] = value
    else:
        target[last] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("parametres", {}, r"unknown key 'parametres' .*; did you mean 'parameters'"),
        ("name", None, r"`name` is missing"),
        (
            "parameters/pe_rows",
            {"power_of_two": [4, 8]},
            r"unknown key 'power_of_two' .*parameter 'pe_rows'.*did you mean 'powers_of_two'",
        ),
        ("parameters/pe_rows", {"powers_of_two": [4, 9]}, r"`high` must be a power of two, got 9"),
        ("parameters/pe_rows", {"powers_of_two": [4]}, r"the lowest and the highest value, got 1"),
        ("parameters/pe_rows", 8, r"expected a list of values or one of .*, got 8 .*pe_rows"),
        ("parameters/idle", [1, 2], r"parameter 'idle' changes nothing"),
        ("constraints/0", "pe_row * 2 <= 4", r"unknown parameter 'pe_row'.*did you mean 'pe_rows'"),
        ("presets/0/pe_rows", 5, r"preset 1.*'pe_rows'|'pe_rows': expected one of 4, 8, 16, 32, got 5"),
        ("metrics/cost", "3 * area_mm", r"unknown metric or parameter 'area_mm'.*did you mean 'area_mm2'"),
        ("metrics/cost", "__import__('os')", r"expected a call of one of min, max"),
        ("metrics/latency", "1", r"a metric needs a name of its own"),
        ("set/Bufer.fanout.x", "1", r"unknown level or field 'Bufer' .*did you mean 'Buffer'"),
        ("set/Buffer", "1", r"expected a field of level 'Buffer'"),
        ("set/Buffer.capacity", "1", r"unknown key 'capacity' .*Buffer.*did you mean"),
        ("set/Buffer.fanout.x", "pe_cols / 3", r"`x` must be an integer >= 1, got 5\.33.*design pe_rows=16"),
        ("set/Buffer.fanout.x", "pe_cols // 0", r"cannot compute 'pe_cols // 0' for pe_cols=16: .*zero"),
        ("set/Buffer.fanout.x", "pe_cols +", r"not an expression: 'pe_cols \+'"),
        ("set/Buffer.fanout.x", "(lambda: 1)()", r"expected a call of one of|expected arithmetic"),
        (
            "set/Buffer.fanout.x",
            "pe_cols.real",
            r"expected arithmetic, comparison, logic or a table, got 'pe_cols\.real'",
        ),
        ("set/Buffer.fanout.x", "9 ** 9 ** 9", r"an exponent must be at most 1024"),
        ("set/Buffer.fanout.x", "'a' * 999999999", r"expected a number, got 'a'"),
        ("architecture", "eyeris", r"unknown architecture 'eyeris' .*did you mean 'eyeriss'"),
        ("architecture/levels/1/capacity_bytes", "=buffer_bytes * 2KB", r"not an expression|KiB"),
        ("architecture/levels/1/capacity_bytes", "64KB2", r"unknown unit 'KB2'"),
        ("architecture/levels/2/when", "cluster == 1", r"'off' and 1 cannot be compared.*put them in quotes"),
        ("architecture/levels/2/capacity_bytes", "=cluster_byte", r"unknown parameter 'cluster_byte'"),
        ("bits", 0, r"`bits` must be an integer >= 1, got 0"),
    ],
)
def test_mistakes_name_field_place_and_mend(path: str, value: Any, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        space_from_json(changed(path, value), "mine.yaml", FILE.parent)
    assert "mine.yaml" in str(error.value)


def test_what_is_no_space_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.yaml").write_text("architecture: {}")
    with pytest.raises(UserError, match="expected the key `space` at the top, got keys architecture"):
        load_design_space(str(tmp_path / "other.yaml"))
    with pytest.raises(UserError, match="no such file"):
        load_design_space(str(tmp_path / "none.yaml"))
    (tmp_path / "half_a_space.py").write_text(
        "MINE = 3\nimport spaces.scratchpad\nGOOD = spaces.scratchpad.SCRATCHPAD\n"
    )
    (tmp_path / "broken_space.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"expected a hardware space, got int without name.*half_a_space:MINE"):
        load_design_space("half_a_space:MINE")
    with pytest.raises(UserError, match=r"unknown attribute 'GODO'.*did you mean 'GOOD'"):
        load_design_space("half_a_space:GODO")
    with pytest.raises(UserError, match=r"cannot load space 'broken_space:X': ZeroDivisionError"):
        load_design_space("broken_space:X")
    assert load_design_space("half_a_space:GOOD").name == "scratchpad"
    with pytest.raises(UserError, match=r"unknown space 'scratchpd'.*a space of your own is a file"):
        load_design_space("scratchpd")


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("a if b else c", {"a": 1, "b": False, "c": 3}, 3),
        ("{'ws': 4, 'os': 8}[flow]", {"flow": "os"}, 8),
        ("min(a, 2) + max(a, 5) - abs(-a)", {"a": 3}, 4),
        ("ceil(a / 2) + floor(a / 2) + round(2.6) + int(1.9) + sqrt(9) + log2(8)", {"a": 5}, 15),
        ("1.5KiB + 2GHz / 1e9", {}, 1538),
        ("flow in ['ws', 'rs'] and not a > 3", {"flow": "rs", "a": 3}, True),
        ("a < b <= 4 or 1KiB == 0", {"a": 1, "b": 5}, False),
        ("'5KiB' == x", {"x": "5KiB"}, True),
    ],
)
def test_expressions(text: str, values: dict[str, Any], expected: Any) -> None:
    assert Expression(text).value(values) == expected
    assert Expression(text).names == frozenset(values)


def test_a_space_in_python_may_have_all_that_a_file_has() -> None:
    assert isinstance(load_design_space("spaces.scratchpad:SCRATCHPAD"), DesignSpace)
