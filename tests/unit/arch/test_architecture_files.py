import copy
import re
from pathlib import Path
from typing import Any

import pytest

import codesign
from codesign.arch.architecture import AccessEnergy, Fanout, LevelKind, Links, Ports
from codesign.arch.files import architecture_from_json, architecture_to_json
from codesign.core.errors import UserError

EDGE: dict[str, Any] = {
    "name": "edge",
    "clock_hz": "5e8",
    "technology": "generic-45nm",
    "extra_area_mm2": 0.5,
    "levels": [
        {
            "name": "DRAM",
            "kind": "dram",
            "word_bits": 64,
            "bandwidth_bytes_per_cycle": 16,
            "energy": {"read_pj": 512, "fill_pj": 512, "update_pj": 520},
        },
        {
            "name": "Buffer",
            "capacity_words": 8192,
            "word_bits": 64,
            "banks": 4,
            "read_bandwidth_words_per_cycle": 8,
            "write_bandwidth_bytes_per_cycle": 32,
            "keep": ["input", "weight", "O"],
            "energy": {"read_pj": 20, "fill_pj": 24},
            "area_mm2": 0.3,
            "leakage_mw": 1.5,
            "fanout": {"x": 4, "y": 2, "links": "systolic", "hop_pj_per_bit": 0.01},
        },
        {"name": "Regs", "kind": "registers", "capacity_bytes": 32, "word_bits": 8, "one_element_per_word": True},
    ],
    "mac": {"bits": 8, "energy_pj": 0.25, "area_mm2": 0.0003},
}


def test_every_field_lands_where_it_belongs() -> None:
    edge = architecture_from_json(EDGE)
    dram, buffer, regs = edge.levels
    assert (edge.name, edge.clock_hz, edge.technology, edge.extra_area_mm2) == ("edge", 5e8, "generic-45nm", 0.5)
    assert (dram.kind, dram.capacity_bytes) == (LevelKind.DRAM, None)
    assert (dram.read_bandwidth_words_per_cycle, dram.write_bandwidth_words_per_cycle) == (2.0, 2.0)
    assert (buffer.capacity_bytes, buffer.banks, buffer.area_mm2, buffer.leakage_mw) == (65536.0, 4, 0.3, 1.5)
    assert (buffer.read_bandwidth_words_per_cycle, buffer.write_bandwidth_words_per_cycle) == (8.0, 4.0)
    assert buffer.energy == AccessEnergy(20, 24, 24)  # updates cost a fill when nothing is said
    assert buffer.fanout == Fanout(4, 2, Links.SYSTOLIC, 0.01)
    assert buffer.keep == {"input", "weight", "O"}
    assert (regs.kind, regs.one_element_per_word, regs.energy) == (LevelKind.REGISTERS, True, None)
    assert (edge.mac.bits, edge.mac.energy_pj, edge.mac.area_mm2) == (8, 0.25, 0.0003)


def test_one_port_is_said_by_a_word() -> None:
    assert {v.ports for v in architecture_from_json(EDGE).levels} == {Ports.SEPARATE}
    one_port = copy.deepcopy(EDGE)
    one_port["levels"][0]["ports"] = "shared"
    edge = architecture_from_json(one_port)
    assert edge.levels[0].ports is Ports.SHARED
    assert architecture_from_json(architecture_to_json(edge)) == edge
    assert edge.levels[0].busy_cycles(6.0, 3.0) == 4.5  # two words a cycle, either way
    assert edge.with_dram_ports(Ports.SEPARATE).levels[0].busy_cycles(6.0, 3.0) == 3.0


def test_what_is_written_is_read_back_equal() -> None:
    edge = architecture_from_json(EDGE)
    assert architecture_from_json(architecture_to_json(edge)) == edge


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            ("levels", 1, "capacity_words"),
            -5,
            r"`capacity_words` must be a number > 0, got -5 \(f.yaml: level 'Buffer'\)",
        ),
        (("levels", 1, "capacity_bytes"), 9, "`capacity_bytes` and `capacity_words` say the same thing"),
        (("levels", 1, "capcity"), 9, r"unknown key 'capcity' \(f.yaml: level 'Buffer'\)"),
        (("levels", 1, "banks"), 1.5, "`banks` must be an integer >= 1, got 1.5"),
        (("levels", 1, "name"), "DRAM", "two levels are named 'DRAM'"),
        (("levels", 1, "energy"), {"read_pj": 1}, r"`fill_pj` is missing \(f.yaml: level 'Buffer', `energy`\)"),
        (("levels", 1, "fanout", "links"), "sistolic", "unknown `links` 'sistolic'.*did you mean 'systolic'"),
        (("levels", 1, "fanout", "x"), 0, "`x` must be an integer >= 1, got 0"),
        (("levels", 0, "kind"), "ddr", "unknown `kind` 'ddr'"),
        (("levels", 0, "bandwidth_bytes_per_cycle"), "fast", "must be a number > 0, got 'fast'"),
        (("levels", 0, "ports"), "half", "unknown `ports` 'half'.*known: separate, shared"),
        (("levels",), [], "at least one storage level"),
        (("levels",), "none", "`levels` must be a list, got 'none'"),
        (("clock_hz",), 0, "`clock_hz` must be a number > 0, got 0"),
        (("mac", "energy"), 1, r"unknown key 'energy' \(f.yaml: architecture, `mac`\); did you mean 'energy_pj'"),
        (("mac", "by_width"), [{"bits": [8, "x"], "energy_pj": 1}], r"`bits` must be two widths, got \[8, 'x'\]"),
        (("mac", "bits"), 0, r"`bits` must be an integer >= 1, got 0 \(f.yaml: architecture, `mac`\)"),
        (("mac",), 3, "expected keys and values, got 3"),
    ],
)
def test_a_wrong_field_is_named(path: tuple[Any, ...], value: Any, message: str) -> None:
    broken = copy.deepcopy(EDGE)
    place = broken
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(UserError, match=message):
        architecture_from_json(broken, "f.yaml")


COPIES = {"evaluation/robust.py", "bounds/searches.py"}
"""Files that hand the bandwidths of a level on to another level."""


def test_how_fast_ports_are_is_read_at_one_place() -> None:
    """So that an attribute that slows ports is one change: all others ask `StorageLevel.words_per_cycle`."""
    root = Path(codesign.__file__).parent
    reading = re.compile(r"\.(read|write)_bandwidth_words_per_cycle\b")
    found = {str(p.relative_to(root)) for p in root.rglob("*.py") if reading.search(p.read_text("utf-8"))}
    assert found == COPIES | {"arch/architecture.py"}
