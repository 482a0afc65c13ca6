import json
import subprocess
import sys
from pathlib import Path

import pytest

from codesign.arch import technology_files
from tests.command_line import Outcome, run

ARCH = """
architecture:
  name: edge
  clock_hz: 5e8
  levels:
  - name: DRAM
    kind: dram
    word_bits: 64
    bandwidth_bytes_per_cycle: 16
    energy: {read_pj: 512, fill_pj: 512, update_pj: 520}
  - name: Buffer
    capacity_bytes: 4096
    word_bits: 64
    energy: {read_pj: 20, fill_pj: 24}
    fanout: {x: 4, y: 2, links: systolic, hop_pj_per_bit: 0.01}
  - name: Regs
    kind: registers
    capacity_words: 32
    word_bits: 8
    keep: [weight]
    energy: {read_pj: 0.1, fill_pj: 0.1, update_pj: 0.1}
  mac: {bits: 8, energy_pj: 0.25}
"""
PROBLEM = """
problem:
  notation: "O[k,p] += I[c,p+r] * W[k,c,r]"
  bounds: {k: 8, p: 16, c: 4, r: 3}
"""
MAPPING = """
mapping:
- {store: DRAM, tensors: [I, W, O]}
- {for: k, factor: 2}
- {store: Buffer, tensors: [I, W, O]}
- {for: p, factor: 16}
- {parallel: k, factor: 4, axis: x, level: Buffer}
- {parallel: c, factor: 2, axis: y, level: Buffer}
- {store: Regs, tensors: [W]}
- {for: c, factor: 2}
- {for: r, factor: 3}
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    paths = {}
    for name, text in (("arch", ARCH), ("problem", PROBLEM), ("mapping", MAPPING)):
        paths[name] = tmp_path / f"{name}.yaml"
        paths[name].write_text(text)
    return paths


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new, 1))


def refused(outcome: Outcome) -> str:
    """The message of a run that a user's mistake stopped."""
    assert outcome.code == 2 and outcome.out == ""
    assert outcome.err.startswith("error: ") and "Traceback" not in outcome.err
    return outcome.err


def test_json_has_every_field(files: dict[str, Path]) -> None:
    got = run("evaluate", files["mapping"], files["problem"], files["arch"], "--format", "json").json
    assert (got["status"], got["latency_cycles"], got["utilization"]) == ("ok", 192, 1.0)
    assert got["latency_s"] == 192 / 5e8
    assert got["compute"]["macs"] == 1536 and got["compute"]["energy_pj"] == 1536 * 0.25
    assert set(got["levels"]) == {"DRAM", "Buffer", "Regs"}
    weights = got["levels"]["Regs"]["tensors"]["W"]
    assert weights == {"tile_words": 6, "reads": 1536, "fills": 96, "updates": 0, "energy_pj": pytest.approx(163.2)}
    parts = [level["energy_pj"] + level["network_pj"] for level in got["levels"].values()]
    assert got["energy_pj"] == pytest.approx(sum(parts) + got["compute"]["energy_pj"])
    assert "parallel for k in 0..3 (Buffer.x)" in got["loopnest"]


def test_text_shows_nest_table_units_and_what_bounds_the_latency(files: dict[str, Path]) -> None:
    text = run("evaluate", *files.values()).out
    assert "[Buffer: I, W, O]" in text and "parallel for c in 0..1 (Buffer.y)" in text
    assert "192 cycles = 3.84e-07 s at 500 MHz" in text
    assert "bound by compute: 1,536 MACs on 8 units" in text
    assert "energy (pJ)" in text and "network below" in text
    (row,) = [line.split() for line in text.splitlines() if line.split()[:2] == ["Regs", "W"]]
    assert row == ["Regs", "W", "6", "1,536", "96", "0", "163.2", "0.6%"]
    edit(files["arch"], "bandwidth_bytes_per_cycle: 16", "bandwidth_bytes_per_cycle: 0.5")
    assert "bound by the bandwidth of DRAM; compute alone needs 192 cycles" in run("evaluate", *files.values()).out


def test_a_layer_may_stand_for_the_problem_and_the_clock_may_be_set(files: dict[str, Path]) -> None:
    layer = "O[k,p] += I[c,p+r] * W[k,c,r] k=8 p=16 c=4 r=3"
    got = run("evaluate", layer, files["arch"], files["mapping"], "--format", "json", "--clock-hz", "1e6").json
    assert (got["latency_cycles"], got["latency_s"]) == (192, 192e-6)


def test_reuse_rules_are_passed_on(files: dict[str, Path]) -> None:
    nest = MAPPING.replace("- {for: p, factor: 16}\n", "").replace(
        "- {for: k, factor: 2}", "- {for: p, factor: 16}\n- {for: k, factor: 2}"
    )
    files["mapping"].write_text(nest)
    fills = {}
    for rule in ("timeloop", "walk", "resident"):
        got = run("evaluate", *files.values(), "--reuse", rule, "--format", "json").json
        assert got["reuse"] == rule
        fills[rule] = got["levels"]["Buffer"]["tensors"]["I"]["fills"]
    assert fills["resident"] < fills["timeloop"]  # k wraps between steps of p: only what is resident is reused


def test_an_infeasible_mapping_is_a_result(files: dict[str, Path]) -> None:
    edit(files["arch"], "capacity_bytes: 4096", "capacity_bytes: 100")
    outcome = run("evaluate", *files.values(), "--format", "json")
    assert outcome.code == 0
    got = outcome.json
    assert (got["status"], got["resource"], got["limit"]) == ("infeasible", "capacity of level 'Buffer'", 100)
    assert got["demand"] > 100
    text = run("evaluate", *files.values())
    assert text.code == 0 and text.out.startswith("infeasible: capacity of level 'Buffer': needs ")


BROKEN = [
    ("arch", "capacity_bytes", "capacity_byte", "unknown key 'capacity_byte' (FILE: level 'Buffer'); did you mean 'capacity_bytes'?"),
    ("arch", "4096", "-5", "`capacity_bytes` must be a number > 0, got -5 (FILE: level 'Buffer')"),
    ("arch", "systolic", "sistolic", "unknown `links` 'sistolic' (FILE: level 'Buffer', `fanout`); did you mean 'systolic'?"),
    ("arch", "mac: {bits: 8, energy_pj: 0.25}", "mac: {bits: 8", "not valid YAML or JSON"),
    ("arch", "energy_pj: 0.25", "bits: 9", "key 'bits' stands twice (FILE, line"),
    ("arch", "architecture:", "architektur:", "unknown top-level key 'architektur' (FILE); did you mean 'architecture'?"),
    ("arch", "x: 4", "x: 2000000", "a fan-out must have at most 1048576 children, got 4000000 below level 'Buffer'"),
    ("arch", "4096", "1e300", "capacity of level 'Buffer' must be at most 2**53 bits, got 8e+300"),
    ("problem", "k: 8", "k: 1e30", "must have at most 2**53 multiply-accumulates, got 1.92e+32"),
    ("problem", "p+r", "9999999999999999999*p+r", "tensor 'I' is too large"),
    ("problem", "k: 8", "k: none", "`k` must be an integer >= 1, got 'none' (FILE: problem, `bounds`)"),
    ("problem", "I[c,p+r]", "I[c,p+]", "expected a name, got ']' at character"),
    ("mapping", "{for: k, factor: 2}", "{for: k, factor: 3}", "factors of dimension 'k' must multiply to its bound 8, got 12 (FILE: mapping)"),
    ("mapping", "{parallel: k, factor: 4, axis: x", "{parallel: k, factor: 4, axis: y", "spatial loops along y need 8 children, the fan-out has 2"),
    ("mapping", "[I, W, O]", "[I, W]", "'O' is kept at 'Buffer'|loops stand outside the outermost storage of 'O'"),
    ("mapping", "tensors: [W]", "tensors: [V]", "unknown tensor 'V' (FILE: mapping, level 'Regs')"),
    ("mapping", "tensors: [W]", "tensors: [I]", "level 'Regs' may keep weight, not 'I' (input) (FILE: mapping)"),
    ("mapping", "level: Buffer", "level: Bufer", "unknown level 'Bufer' (FILE: mapping); did you mean 'Buffer'?"),
    ("mapping", "axis: x", "axs: x", "unknown key 'axs' (FILE, node 5); did you mean 'axis'?"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "message"), BROKEN, ids=[f"{b[0]}-{b[2]}" for b in BROKEN])
def test_a_broken_file_gets_one_message_and_exit_code_2(
    files: dict[str, Path], name: str, old: str, new: str, message: str
) -> None:
    edit(files[name], old, new)
    error = refused(run("evaluate", *files.values()))
    assert any(part.replace("FILE", str(files[name])) in error for part in message.split("|"))


def test_sizes_are_refused_before_a_technology_is_asked_about_them(files: dict[str, Path]) -> None:
    edit(files["arch"], "4096", "1e300")
    edit(files["arch"], "word_bits: 64", "word_bits: 2147483648")
    error = refused(run("evaluate", *files.values(), "--technology", "cmos-45nm"))
    assert "capacity of level 'Buffer' must be at most 2**53 bits" in error


def test_a_tensor_kept_nowhere_is_named(files: dict[str, Path]) -> None:
    files["mapping"].write_text(MAPPING.replace("[I, W, O]", "[I, W]"))
    error = refused(run("evaluate", *files.values()))
    assert f"tensor 'O' is kept nowhere ({files['mapping']}: mapping); keep it at least at 'DRAM'" in error


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ARCH.encode()[:150], "(FILE"),  # cut inside a level
        (b"\x7fELF\x02\x01\x01\xff\xfe\x00", "expected a text file, got binary data: FILE"),
        (b"a: \x00\x01", "expected a text file, got binary data (FILE)"),
        (b"", "the file is empty (FILE)"),
        (b"[1, 2]", "got a list of 2 (FILE)"),
        (b"architecture:\n\t- a", "not valid YAML or JSON"),
    ],
)
def test_a_file_that_is_none_of_the_known_is_refused(files: dict[str, Path], content: bytes, message: str) -> None:
    files["arch"].write_bytes(content)
    assert message.replace("FILE", str(files["arch"])) in refused(run("evaluate", *files.values()))


def test_missing_double_and_unknown_things_are_named(files: dict[str, Path]) -> None:
    arch, problem, mapping = files.values()
    assert "no such file: nowhere.yaml" in refused(run("evaluate", "nowhere.yaml", problem))
    without = refused(run("evaluate", arch, problem))
    assert "no file describes a mapping" in without and "`codesign map ... --out FILE` writes one" in without
    assert "no file describes an architecture" in refused(run("evaluate", problem, mapping))
    assert "two files describe the architecture" in refused(run("evaluate", arch, arch, problem, mapping))
    assert "given by a file and by name" in refused(run("evaluate", *files.values(), "gemm M=2 N=2 K=2"))
    assert "unknown reuse rule 'all'" in refused(run("evaluate", *files.values(), "--reuse", "all"))
    assert "--format must be text or json" in refused(run("evaluate", *files.values(), "--format", "xml"))
    assert "--clock-hz must be > 0, got -1" in refused(run("evaluate", *files.values(), "--clock-hz", "-1"))


def test_an_architecture_without_energies_says_what_to_give(files: dict[str, Path]) -> None:
    edit(files["arch"], "    energy: {read_pj: 20, fill_pj: 24}\n", "")
    assert "level 'Buffer' has no energy per access" in refused(run("evaluate", *files.values()))


def test_the_installed_command_exits_with_2_and_no_traceback(files: dict[str, Path]) -> None:
    edit(files["arch"], "4096", "-5")
    command = [sys.executable, "-m", "codesign.cli.app", "evaluate", *(str(f) for f in files.values())]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 2 and outcome.stdout == ""
    assert outcome.stderr.count("\n") == 1 and outcome.stderr.startswith("error: `capacity_bytes` must be a number > 0")


SEARCH = ("--evaluations", 2000, "--seed", 3)


@pytest.mark.parametrize("objective", ["energy", "latency", "edp"])
def test_the_saved_mapping_evaluates_to_the_numbers_that_map_printed(
    files: dict[str, Path], tmp_path: Path, objective: str
) -> None:
    out = tmp_path / "best.yaml"
    options = (*SEARCH, "--objective", objective, "--format", "json", "--out", out)
    found = run("map", files["problem"], files["arch"], *options).json
    assert (found["status"], found["proof"], found["objective"], found["seed"]) == ("ok", "none", objective, 3)
    assert 0 < found["evaluated"] <= 2000 and found["seconds"] > 0
    again = run("evaluate", files["arch"], out, files["problem"], "--format", "json").json
    for key in ("latency_cycles", "energy_pj", "edp", "utilization"):
        assert again[key] == found[key]
    saved = tmp_path / "printed.json"  # what was printed is itself a mapping file
    saved.write_text(json.dumps(found))
    assert run("evaluate", saved, files["arch"], files["problem"], "--format", "json").json == again


def test_map_obeys_constraints_and_leaves_bypass_free_only_when_asked(files: dict[str, Path], tmp_path: Path) -> None:
    limits = tmp_path / "limits.yaml"
    limits.write_text("constraints: {levels: [{level: Buffer, bypass: [W], spatial: {k: 2}, along_x: [k]}]}")
    found = run("map", files["arch"], files["problem"], limits, *SEARCH, "--format", "json").json
    stores = {node["store"]: node["tensors"] for node in found["mapping"] if "store" in node}
    assert stores["Buffer"] == ["I", "O"]
    (spatial,) = [n for n in found["mapping"] if "parallel" in n and n["parallel"] == "k"]
    assert (spatial["factor"], spatial["axis"]) == (2, "x")
    free = run("map", files["arch"], files["problem"], *SEARCH, "--free-bypass", "--format", "json").json
    kept = run("map", files["arch"], files["problem"], *SEARCH, "--format", "json").json
    assert {n["store"]: n["tensors"] for n in kept["mapping"] if "store" in n}["Buffer"] == ["I", "W", "O"]
    assert free["edp"] <= kept["edp"]


def test_map_prints_the_nest_and_what_is_known_of_it(files: dict[str, Path]) -> None:
    text = run("map", files["arch"], files["problem"], *SEARCH, "--mapper", "random").out
    assert "[DRAM: " in text and "mappings scored in" in text and "proof: none" in text


def test_a_layer_that_fits_nowhere_is_an_infeasible_result(files: dict[str, Path], tmp_path: Path) -> None:
    edit(files["arch"], "capacity_bytes: 4096", "capacity_bytes: 1")
    out = tmp_path / "best.yaml"
    outcome = run("map", files["arch"], files["problem"], *SEARCH, "--format", "json", "--out", out)
    assert outcome.code == 0 and not out.exists() and "no mapping was found" in outcome.err
    assert (outcome.json["status"], outcome.json["mapping"]) == ("infeasible", None)
    assert outcome.json["resource"] == "capacity of level 'Buffer'"


def test_wrong_options_of_map_are_refused(files: dict[str, Path]) -> None:
    both = (files["arch"], files["problem"])
    assert "unknown mapper 'aneal'" in refused(run("map", *both, "--mapper", "aneal"))
    assert "unknown objective 'speed'" in refused(run("map", *both, "--objective", "speed"))
    assert "time limit must be > 0" in refused(run("map", *both, "--time-limit", "0"))
    assert "evaluations must be >= 1" in refused(run("map", *both, "--evaluations", "0"))
    assert "--seed must be >= 0" in refused(run("map", *both, "--seed", "-1"))
    assert "has no option 'mvs'; did you mean 'moves'?" in refused(run("map", *both, "--option", "mvs=3"))
    assert "--option must be NAME=VALUE, got 'moves'" in refused(run("map", *both, "--option", "moves"))
    without = refused(run("map", files["arch"]))
    assert "no file describes a problem" in without and "--layer" in without
    assert "no file describes an architecture" in refused(run("map", "--layer", "gemm M=2 N=2 K=2"))
    assert "unknown operator 'cnv'" in refused(run("map", files["arch"], "--layer", "cnv K=2"))


def test_convert_to_timeloop_and_back_costs_the_same(files: dict[str, Path], tmp_path: Path) -> None:
    edit(files["arch"], "links: systolic, hop_pj_per_bit: 0.01", "links: multicast")
    before = run("evaluate", *files.values(), "--format", "json").json
    outcome = run("convert", *files.values(), "--to", "timeloop", "--out", tmp_path / "tl")
    assert outcome.code == 0 and "the clock of 5e+08 Hz is left out" in outcome.err
    written = {Path(line).name: Path(line) for line in outcome.out.split()}
    assert set(written) == {"arch.yaml", "problem.yaml", "mapping.yaml", "constraints.yaml", "ert.yaml"}
    after = run("evaluate", *written.values(), "--format", "json", "--clock-hz", "5e8").json
    for level, entry in before["levels"].items():
        for tensor, counts in entry["tensors"].items():
            assert after["levels"][level]["tensors"][tensor] == pytest.approx(counts, rel=1e-12)
    assert after["latency_cycles"] == before["latency_cycles"]
    assert after["energy_pj"] == pytest.approx(before["energy_pj"], rel=1e-12)
    outcome = run("convert", *written.values(), "--to", "own", "--out", tmp_path / "own")
    again = run("evaluate", *outcome.out.split(), "--format", "json", "--clock-hz", "5e8").json
    assert again == after


def test_convert_warns_of_what_is_lost_and_refuses_what_cannot_be_said(files: dict[str, Path], tmp_path: Path) -> None:
    edit(files["problem"], "bounds:", "partial_bits: 24\n  bounds:")
    error = run("convert", *files.values(), "--to", "timeloop", "--out", tmp_path / "tl").err
    assert "links 'systolic' below 'Buffer' become multicast" in error
    assert "the energy of the wires below 'Buffer' is left out" in error
    assert "level 'Buffer': elements of 8 and 24 bits" in error
    assert "needs their width" in refused(run("convert", files["arch"], "--to", "timeloop", "--out", tmp_path / "b"))
    assert "nothing to write (no files given)" in refused(run("convert", "--to", "own", "--out", tmp_path / "b"))
    assert "unknown form 'zigzag'" in refused(run("convert", files["arch"], "--to", "zigzag", "--out", tmp_path / "b"))
    edit(files["mapping"], "- {store: Buffer, tensors: [I, W, O]}\n", "- {store: Buffer, tensors: [I, O]}\n")
    edit(files["mapping"], "- {for: p, factor: 16}\n", "- {for: p, factor: 16}\n- {store: Buffer, tensors: [W]}\n")
    outcome = run("convert", *files.values(), "--to", "timeloop", "--out", tmp_path / "b")
    message = refused(Outcome(outcome.code, outcome.out, outcome.err.splitlines()[-1]))
    assert "'W' is kept at 'Buffer' inside loops of that level" in message


def test_a_preset_and_a_layer_are_mapped_and_evaluated_by_name(tmp_path: Path) -> None:
    out = tmp_path / "best.yaml"
    layer = "conv K=16 C=8 P=14 Q=14 R=3 S=3"
    found = run("map", "--arch", "simba", "--layer", layer, *SEARCH, "--format", "json", "--out", out)
    assert (found.code, found.err) == (0, "")
    again = run("evaluate", out, layer, "simba", "--format", "json").json
    assert (again["latency_cycles"], again["energy_pj"]) == (found.json["latency_cycles"], found.json["energy_pj"])
    assert "unknown architecture 'simbaa'; did you mean 'simba'?" in refused(run("evaluate", out, layer, "simbaa"))
    assert "two names for the architecture: 'simba' and 'eyeriss'" in refused(run("map", "simba", "--arch", "eyeriss"))


def test_a_technology_fills_in_what_the_files_leave_open(files: dict[str, Path]) -> None:
    edit(files["arch"], "    energy: {read_pj: 20, fill_pj: 24}\n", "")
    got = run("evaluate", *files.values(), "--technology", "cmos-45nm", "--format", "json").json
    assert got["levels"]["Buffer"]["energy_pj"] > 0
    assert got["levels"]["DRAM"]["tensors"]["I"]["energy_pj"] == 72 * 512 / 8  # what the file gives stays
    edit(files["arch"], "name: edge", "name: edge\n  technology: cmos-45nm")
    assert run("evaluate", *files.values(), "--format", "json").json == got
    assert "unknown technology 'cmos-45'" in refused(run("evaluate", *files.values(), "--technology", "cmos-45"))


def test_a_padded_mapping_is_saved_with_its_problem(tmp_path: Path) -> None:
    out = tmp_path / "padded.yaml"
    arguments = ["--arch", "gemmini", "--layer", "gemm M=64 N=127 K=127", "--mapper", "exact", "--pad"]
    found = json.loads(run("map", *arguments, "--format", "json", "--out", str(out)).out)
    assert found["padding"]["bounds"] == {"N": {"bound": 127, "padded": 128}, "K": {"bound": 127, "padded": 128}}
    assert found["padding"]["proof"] == "optimal among the paddings tried"
    assert found["proof"] == "none"
    again = json.loads(run("evaluate", "gemmini", str(out), "--format", "json").out)
    assert again["energy_pj"] == found["energy_pj"]
    assert again["latency_cycles"] == found["latency_cycles"]
    text = run("map", *arguments).out
    assert "padded: N 127 -> 128, K 127 -> 128" in text


def test_an_imperfect_mapping_is_found_saved_and_evaluated(tmp_path: Path) -> None:
    out = tmp_path / "imperfect.yaml"
    arguments = ["--arch", "gemmini", "--layer", "gemm M=64 N=127 K=127"]
    found = run("map", *arguments, "--imperfect", "--format", "json", "--out", str(out)).json
    assert found["latency_cycles"] == 4096
    given = ["--arch", "gemmini", "--layer", "gemm M=64 N=127 K=127", str(out)]
    again = run("evaluate", *given, "--imperfect", "--format", "json").json
    assert (again["energy_pj"], again["latency_cycles"]) == (found["energy_pj"], found["latency_cycles"])
    assert "last pass" in again["loopnest"]
    assert "an imperfect mapping needs --imperfect" in refused(run("evaluate", *given))
    for more in (["--pad"], ["--mapper", "cosa"], ["--reuse", "resident"]):
        assert refused(run("map", *arguments, "--imperfect", *more))
    proven = run("map", *arguments, "--imperfect", "--mapper", "exact", "--format", "json").json
    assert proven["gap"] < 0.1 and (proven["proof"] == "optimal") == (proven["gap"] == 0.0)


def test_a_technology_named_in_a_file_counts_from_its_folder(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(files["arch"], "    energy: {read_pj: 20, fill_pj: 24}\n", "")
    wanted = run("evaluate", *files.values(), "--technology", "cmos-45nm", "--format", "json").json
    place = tmp_path / "tables"
    place.mkdir()
    table = Path(technology_files.__file__).parent / "technologies" / "cmos.yaml"
    (place / "mine.yaml").write_text(table.read_text())
    edit(files["arch"], "name: edge", "name: edge\n  technology: tables/mine.yaml")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert run("evaluate", *files.values(), "--format", "json").json == wanted
    converted = run("convert", files["arch"], "--to", "own", "--out", elsewhere / "own")
    assert converted.code == 0
    again = run("evaluate", elsewhere / "own" / "arch.yaml", files["problem"], files["mapping"], "--format", "json")
    assert again.json == wanted
    (place / "mine.yaml").unlink()
    message = refused(run("evaluate", *files.values()))
    assert f"no such file: {place / 'mine.yaml'}" in message and "technology of architecture 'edge'" in message


def test_what_needs_a_problem_is_said_not_to_be_read(files: dict[str, Path], tmp_path: Path) -> None:
    constraints = tmp_path / "constraints.yaml"
    constraints.write_text("constraints: {levels: [{level: Buffer, keep: [W]}]}\n")
    outcome = run("convert", files["arch"], constraints, "--to", "own", "--out", tmp_path / "own")
    assert outcome.code == 0
    assert f"warning: {constraints}: constraints not read, since no file describes a problem" in outcome.err
    outcome = run("convert", files["arch"], files["mapping"], "--to", "own", "--out", tmp_path / "own")
    assert f"{files['mapping']}: mapping not read, since no file describes a problem" in outcome.err
    whole = run("convert", files["arch"], files["problem"], constraints, "--to", "own", "--out", tmp_path / "own")
    assert "not read" not in whole.err and "constraints.yaml" in whole.out


def test_a_mapping_along_both_axes_is_written_with_an_added_level(tmp_path: Path) -> None:
    (tmp_path / "arch.yaml").write_text(ARCH)
    (tmp_path / "problem.yaml").write_text(PROBLEM)
    both = MAPPING.replace("{for: k, factor: 2}", "{for: c, factor: 2}").replace("{parallel: c,", "{parallel: k,")
    (tmp_path / "mapping.yaml").write_text(both)
    files = [tmp_path / f"{name}.yaml" for name in ("arch", "problem", "mapping")]
    done = run("convert", *files, "--to", "timeloop", "--out", tmp_path / "tl")
    assert done.code == 0 and "added level 'Buffer_part2'" in done.err
    written = [tmp_path / "tl" / f"{name}.yaml" for name in ("arch", "problem", "mapping", "ert")]
    again = run("evaluate", *written, "--format", "json")
    given = run("evaluate", *files, "--format", "json")
    assert again.code == 0, again.err
    for level, entry in given.json["levels"].items():
        for tensor, counts in entry["tensors"].items():
            read = again.json["levels"][level]["tensors"][tensor]
            assert all(read[key] == counts[key] for key in ("reads", "fills", "updates", "tile_words"))
    refused = run("convert", *files, "--to", "timeloop", "--out", tmp_path / "no", "--no-added-levels")
    assert refused.code == 2 and "'k' is unrolled along both axes" in refused.err and not (tmp_path / "no").exists()
    refused = run("convert", *files, "--to", "own", "--out", tmp_path / "no", "--no-added-levels")
    assert refused.code == 2 and "--no-added-levels is an option of --to timeloop" in refused.err


def test_an_uneven_mapping_is_proven_saved_and_evaluated(tmp_path: Path) -> None:
    out = tmp_path / "uneven.yaml"
    layer = ["--arch", "eyeriss", "--layer", "gemm M=12 N=8 K=30"]
    arguments = [*layer, "--objective", "energy"]
    found = run("map", *arguments, "--mapper", "exact", "--uneven", "--format", "json", "--out", str(out)).json
    even = run("map", *arguments, "--mapper", "exact", "--format", "json").json
    assert found["proof"] == "optimal" and found["energy_pj"] <= even["energy_pj"]
    again = run("evaluate", str(out), *layer, "--format", "json").json
    assert again["energy_pj"] == pytest.approx(found["energy_pj"])
    assert "--uneven needs the mapper exact" in refused(run("map", *arguments, "--uneven"))
