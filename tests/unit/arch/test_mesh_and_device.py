"""`links: mesh` and `device:` in architecture files: what is read, written back, and refused."""

from typing import Any

import pytest

from codesign.arch.architecture import Fanout, Links
from codesign.arch.files import architecture_from_json, architecture_to_json
from codesign.arch.memory_device import DramUse, PagePolicy
from codesign.arch.mesh import MeshLinks
from codesign.core.errors import UserError
from codesign.timing.dram.device import device_from_json, known_devices, load_device
from codesign.timing.dram.layout import read_layout


def document(**changes: Any) -> dict[str, Any]:
    """A small architecture; `dram` and `fanout` are merged into its levels."""
    dram = {"name": "DRAM", "kind": "dram", "energy": {"read_pj": 1, "fill_pj": 1}} | changes.get("dram", {})
    fanout = {"x": 4, "y": 2, "links": "mesh"} | changes.get("fanout", {})
    buffer = {"name": "Buffer", "energy": {"read_pj": 1, "fill_pj": 1}, "fanout": fanout}
    return {"name": "a", "levels": [dram, buffer], "mac": {"energy_pj": 1}}


def test_a_mesh_is_by_default_as_large_as_its_fanout() -> None:
    assert architecture_from_json(document()).levels[1].fanout.mesh == MeshLinks(4, 2)


def test_everything_is_written_back() -> None:
    given = document(
        dram={"device": "hbm2_ch", "page_policy": "closed", "channels": 4, "layout": {"input": "0, 2, 3, 1"}},
        fanout={"mesh": {"width": 5, "parents": [4, 9], "trees": False, "packet_flits": 16, "speculative": True}},
    )
    made = architecture_from_json(given)
    assert made.levels[0].dram == DramUse("hbm2_ch", PagePolicy.CLOSED, 4, (("input", "0, 2, 3, 1"),))
    assert made.levels[1].fanout.mesh == MeshLinks(5, 2, parents=(4, 9), trees=False, packet_flits=16, speculative=True)
    assert architecture_from_json(architecture_to_json(made)) == made


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fanout": {"mesh": {"width": 3}}}, "must hold the fan-out of 4 x 2, got a mesh of 3 x 2"),
        ({"fanout": {"links": "multicast", "mesh": {}}}, "`mesh` needs `links: mesh`, got `links: multicast`"),
        ({"fanout": {"mesh": {"parents": [8]}}}, "`parents` must be nodes from 0 to 7, got 8"),
        ({"fanout": {"mesh": {"parents": []}}}, "`parents` must be different nodes, at least one"),
        ({"fanout": {"mesh": {"parents": ["a"]}}}, "`parents` must be a list of nodes"),
        ({"fanout": {"mesh": {"buffer_flits": 4}}}, "`packet_flits` must be <= `buffer_flits` with `trees`, got 8 > 4"),
        ({"fanout": {"mesh": {"flit_bits": 0}}}, "`flit_bits` must be an integer >= 1, got 0"),
        ({"fanout": {"mesh": {"credit_cycles": -1}}}, "`credit_cycles` must be an integer >= 0, got -1"),
        ({"fanout": {"mesh": {"flits": 8}}}, "flits"),
        ({"dram": {"page_policy": "open"}}, "`page_policy` needs `device`"),
        ({"dram": {"device": "hbm2_ch", "page_policy": "opne"}}, "unknown `page_policy` 'opne'"),
        ({"dram": {"device": "hbm2_ch", "channels": 3}}, "`channels` must be a power of two, got 3"),
        ({"dram": {"device": "hbm2_ch", "layout": 3}}, "`layout` must be a layout"),
        ({"dram": {"device": "hbm2_ch", "kind": "sram"}}, "`device` needs `kind: dram`, got `kind: sram`"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        architecture_from_json(document(**changes), "a.yaml")
    assert message in str(caught.value)
    assert "a.yaml" in str(caught.value)


def test_a_fanout_without_a_mesh_has_none() -> None:
    assert Fanout(2, 2).mesh is None
    assert Fanout(2, 2, Links.MESH, mesh=MeshLinks(2, 2, trees=False)).shares is False


def test_layouts() -> None:
    shape, tile = (2, 6, 3), (1, 4, 3)
    parts, size = read_layout("row-major", shape, tile, "x").parts()
    assert [list(p) for p in parts] == [[0, 18], [0, 3, 6, 9, 12, 15], [0, 1, 2]]
    assert size == 36
    parts, size = read_layout("0, 2, 1", shape, tile, "x").parts()
    assert [list(p) for p in parts] == [[0, 18], [0, 1, 2, 3, 4, 5], [0, 6, 12]]
    # blocks of four of axis 1: the last block is padded
    parts, size = read_layout("0, 1/4, 2, 1%4", shape, tile, "x").parts()
    assert [list(p) for p in parts] == [[0, 24], [0, 1, 2, 3, 12, 13], [0, 4, 8]]
    assert size == 48
    parts, size = read_layout("tiled", shape, tile, "x").parts()
    assert [list(p) for p in parts] == [[0, 24], [0, 3, 6, 9, 12, 15], [0, 1, 2]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rowmajor", "`layout` must be row-major, tiled, or digits"),
        ("0, 1", "`layout` must hold every digit of axis 2 once"),
        ("0, 1, 2, 2", "`layout` must hold every digit of axis 2 once"),
        ("0, 1/4, 2, 1%8", "`layout` must hold every digit of axis 1 once"),
        ("0, 1%4, 2", "`layout` must hold every digit of axis 1 once"),
        ("0, 1, 2, 3", "`layout` names axis 3, but the tensor has 3 axes"),
    ],
)
def test_layouts_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_layout(text, (2, 6, 3), (1, 1, 1), "level 'DRAM'")


def test_unknown_device() -> None:
    with pytest.raises(UserError, match="unknown DRAM device 'ddr4_2400_x17'"):
        load_device("ddr4_2400_x17")


def test_contradicting_timings() -> None:
    entry = _entry("ddr4_2400_x16")
    entry["timing"]["tRAS"] = 10
    with pytest.raises(UserError, match="`tRAS` must be >= `tRCDRD`, got 10 < 17"):
        device_from_json(entry, "mine.yaml")


def _entry(name: str) -> dict[str, Any]:
    """A device of the table as its file has it."""
    import yaml

    from codesign.timing.dram import device

    entries = yaml.safe_load(device._TABLE.read_text())["devices"]
    assert name in known_devices()
    return dict(next(e for e in entries if e["id"] == name))
