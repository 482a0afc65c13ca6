"""Recorded runs of SET and Gemini as systems, networks and trees of this project."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from codesign.arch.many_core import Buffer, Dies, Links, ManyCore, Memories, VectorMacCore
from codesign.core.errors import UserError
from codesign.core.files import read_structured
from codesign.core.kernel_library import FloatArray
from codesign.scheduling.segments.evaluate import (
    GEMINI_RULES,
    GEMINI_START_RULES,
    OWN_RULES,
    SET_RULES,
    Evaluator,
    Semantics,
)
from codesign.scheduling.segments.layers import LayerKind, SegmentLayer, SegmentNetwork
from codesign.scheduling.segments.segment_tree import DIMENSIONS, Cut, CutKind, GivenLayout, Group, Leaf, Node

KINDS = {kind.name.lower(): kind for kind in LayerKind}
SIZES = {**{key: key for key in "CKRSHW"}, "stride_h": "sH", "stride_w": "sW", "operands": "N", "groups": "G"}
CORE_PARTS = ("energy", "cycles", "ubuf", "buf", "bus", "mac")


@dataclass(frozen=True)
class Scheme:
    """A recorded tree.

    Attributes:
        name: Mode of the search.
        tree: It.
        rows: Recorded figures of every node, in preorder.
        semantics: Rules by which they were found.
        core_figures: Recorded figures of one core for each layer.
    """

    name: str
    tree: Cut
    rows: tuple[dict[str, Any], ...]
    semantics: Semantics
    core_figures: dict[int, FloatArray]

    @property
    def cycles(self) -> int:
        """Recorded time of the whole."""
        figures = self.rows[0]["eval"]
        return int(figures["cycles" if "cycles" in figures else "time"])

    @property
    def energy_pj(self) -> float:
        """Recorded energy of the whole."""
        return float(self.rows[0]["eval"]["energy_pj"])


@dataclass(frozen=True)
class Run:
    """A recorded run.

    Attributes:
        name: Of the file.
        program: ``set`` or ``gemini``.
        system: The machine.
        network: The layers.
        batch: Samples of the whole.
        schemes: Trees that were recorded.
        cpu_seconds: The search took, all modes together.
        core_known: Whether its core mapper is the template of this project.
        money: Recorded costs in USD and areas; empty for none.
        unit_times: Recorded unit time of each layer.
    """

    name: str
    program: str
    system: ManyCore
    network: SegmentNetwork
    batch: int
    schemes: tuple[Scheme, ...]
    cpu_seconds: float
    core_known: bool
    money: dict[str, Any]
    unit_times: tuple[float, ...]


def read_runs(folder: Path, program: str) -> list[Run]:
    """All recorded runs of a program in a folder, or in its subfolder of that name.

    Raises:
        UserError: There are none.
    """
    place = folder / program if (folder / program).is_dir() else folder
    runs = []
    for path in sorted(place.glob("*.json")):
        record = read_structured(path)
        if isinstance(record, dict) and record.get("program") == program and "schemes" in record:
            runs.append(read_run(record, path.stem))
    if not runs:
        raise UserError(
            f"no recorded runs of {program} in {place}", hint="--data, a folder with the program's JSON files"
        )
    return runs


def read_run(record: dict[str, Any], name: str) -> Run:
    """A recorded run."""
    config, program = record["config"], record["program"]
    network = SegmentNetwork(record["net_name"], tuple(_layer(d) for d in record["network"]))
    known = config["core"]["kind"] == "polar"
    schemes = tuple(_scheme(scheme, tree, program) for scheme, tree in record["schemes"].items())
    return Run(
        name,
        program,
        _system(name, config),
        network,
        int(config["batch"]),
        schemes,
        float(record["seconds"]["user"]),
        known,
        record.get("money", {}),
        tuple(float(d["unit_time"]) for d in record["network"]),
    )


def _layer(d: dict[str, Any]) -> SegmentLayer:
    a, b, c = (int(axis) for axis in d.get("order") or (0, 1, 2))
    sizes = {name: int(d.get(key) or 1) for name, key in SIZES.items()}
    sizes["C"] = int(d.get("C") or d["ifmap_chw"][0])
    return replace(
        SegmentLayer(d["name"], KINDS[d["type"]], **sizes),  # type: ignore[arg-type]
        pad_h=int(d.get("pad_h") or 0),
        pad_w=int(d.get("pad_w") or 0),
        in_h=int(d["ifmap_chw"][1]),
        in_w=int(d["ifmap_chw"][2]),
        weight_words=int(d["weight_words"]),
        external_c=int(d["external_C"]),
        axes=(a, b, c),
        inputs=tuple(d["ifm_prevs"]),
        weight_inputs=tuple(d["wgt_prevs"]),
    )


def _buffer(d: dict[str, Any] | None) -> Buffer:
    return Buffer(int(d["bytes"]), float(d["read_pj"]), float(d["write_pj"])) if d else Buffer(1, 0.0, 0.0)


def _core(core: dict[str, Any]) -> VectorMacCore:
    buffers, bus = core["buffers"], core["bus"]
    a, o = core["array"] if "array" in core else (bus["a"], bus["o"])
    return VectorMacCore(
        _buffer(buffers["al1"]),
        _buffer(buffers["wl1"]),
        _buffer(buffers.get("ol1")),
        _buffer(buffers.get("ol2")),
        _buffer(buffers.get("ul3") or buffers["ul2"]),
        int(core.get("vector", 1)),
        int(core.get("lanes", 1)),
        int(a),
        int(o),
        int(bus["words_per_cycle"]),
        float(bus["pj_per_word"]),
        float(core["mac_pj"]),
        int(core["vector_unit_macs"]),
        float(core["vector_unit_pj"]),
        int(core["buffer_words_per_cycle"]),
        int(core["ofmap_buffer_bytes"]),
    )


def _whole(value: float, what: str) -> int:
    if value != int(value):
        raise UserError(f"{what} must be a whole number of words a cycle, got {value}")
    return int(value)


def _system(name: str, config: dict[str, Any]) -> ManyCore:
    mesh, noc, dram = config["mesh"], config["noc"], config["dram"]
    chiplets, d2d = config.get("chiplets"), config.get("d2d")
    dies = Dies()
    if chiplets and d2d:
        serial = d2d.get("serdes") or {}
        dies = Dies(
            int(chiplets["x"]),
            int(chiplets["y"]),
            _whole(d2d["link_words_per_cycle"], "bandwidth between dies"),
            float(d2d["pj_per_word_hop"]),
            d2d["interface"],
            config["package"],
            int(serial.get("lanes", 0)),
            float(serial.get("mw_per_lane", 0.0)),
        )
    ports = tuple(tuple(tuple(int(v) for v in at) for at in group) for group in dram["ports"])
    each = _whole(dram["words_per_cycle_each"], "DRAM bandwidth")
    return ManyCore(
        name,
        int(mesh["x"]),
        int(mesh["y"]),
        int(mesh["stride"]),
        _core(config["core"]),
        Links(_whole(noc["link_words_per_cycle"], "link bandwidth"), float(noc["pj_per_word_hop"])),
        Memories(ports, each, float(dram["pj_per_word"]), dram.get("kind", "")),
        dies,
        float(config.get("frequency_ghz", 1)),
        int(config.get("technology_nm", 12)),
    )


def one_memory(system: ManyCore) -> ManyCore:
    """The system as Gemini sees it before annealing: one DRAM through all ports beside the mesh."""
    sides = [(-1, y) for y in range(system.height)] + [(system.width, y) for y in range(system.height)]
    words = system.memories.words_per_cycle_each * 4
    return replace(system, memories=replace(system.memories, ports=(tuple(sides),), words_per_cycle_each=words))


def _scheme(name: str, tree: dict[str, Any], program: str) -> Scheme:
    rows: list[dict[str, Any]] = []
    cores: dict[int, FloatArray] = {}
    root = _node(tree, rows, cores)
    if not isinstance(root, Cut):
        raise UserError(f"the root of scheme {name!r} must be a cut")
    rules = SET_RULES if program == "set" else GEMINI_START_RULES if name == "init" else GEMINI_RULES
    return Scheme(name, root, tuple(rows), rules, cores)


def _node(n: dict[str, Any], rows: list[dict[str, Any]], cores: dict[int, FloatArray]) -> Node:
    rows.append(n)
    if n["type"] != "L":
        children = tuple(_node(child, rows, cores) for child in n["children"])
        return Cut(CutKind.SPACE if n["type"] == "S" else CutKind.TIME, int(n["batch"]), children)
    core = n["core"]
    time = core["cycles"] if "cycles" in core else core["time"]
    cores[n["layer"]] = np.array([core["energy"], time, *(core[part] for part in CORE_PARTS[2:])], np.float64)
    k, b, h, w = (int(n["part"][d]) for d in DIMENSIONS)
    order = tuple(DIMENSIONS.index(d) for d in n.get("order", DIMENSIONS))
    d0, d1, d2 = n.get("dram_ids") or (-2, -2, -2)
    fetch = n.get("fetch")
    pieces = tuple(int(fetch[key]) for key in (*DIMENSIONS, "ifm", "wgt")) if fetch else None
    return Leaf(n["layer"], int(n["batch"]), (k, b, h, w), order, (d0, d1, d2), pieces, _given(n))


def _given(n: dict[str, Any]) -> GivenLayout | None:
    if "ofm_layout" not in n:
        return None
    tiles = tuple(Group(tuple(t[2:]), ((t[0], t[1]),)) for t in n["ofm_layout"])
    return GivenLayout(tiles, _groups(n["ifm_groups"]), _groups(n["wgt_groups"]))


def _groups(groups: list[Any]) -> tuple[Group, ...]:
    return tuple(Group(tuple(box), tuple(zip(at[::2], at[1::2], strict=True))) for box, at in groups)


def evaluator_of(run: Run, scheme: Scheme) -> Evaluator:
    """The evaluator of a recorded scheme under its own rules."""
    system = one_memory(run.system) if scheme.semantics == GEMINI_START_RULES else run.system
    figures = None if run.core_known else scheme.core_figures
    return Evaluator(system, run.network, scheme.semantics, figures)


def their_evaluator(run: Run, scheme: Scheme) -> Evaluator:
    """The evaluator of a scheme under its program's last rules on its own system: Gemini's first trees too."""
    rules = GEMINI_RULES if scheme.semantics == GEMINI_START_RULES else scheme.semantics
    return Evaluator(run.system, run.network, rules, None if run.core_known else scheme.core_figures)


def own_evaluator(run: Run, scheme: Scheme) -> Evaluator:
    """The evaluator of a scheme under our own rules on its own system."""
    return Evaluator(run.system, run.network, OWN_RULES, None if run.core_known else scheme.core_figures)
