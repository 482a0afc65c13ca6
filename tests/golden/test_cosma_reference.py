"""COSMA against every recorded optimum, peak and baseline of the reference graphs."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from codesign.core.goals import Proof
from codesign.scheduling.cosma.baselines import Replacement, schedule_baseline
from codesign.scheduling.cosma.fusion import fuse_operators
from codesign.scheduling.cosma.graph import OperatorGraph
from codesign.scheduling.cosma.integer_program import solve_program
from codesign.scheduling.cosma.load import load_graph
from codesign.scheduling.cosma.peak import lowest_peak_order
from codesign.scheduling.cosma.replacement import best_replacement
from codesign.scheduling.cosma.result import Schedule
from codesign.scheduling.cosma.solve import Route, schedule_cosma
from tests.cosma_executor import common_divisor, execute
from tests.reference_data import REFERENCE, lacks, needs_data, supporting_files

DATA = REFERENCE / "cosma"
GRAPHS = {path.stem: path for path in supporting_files("cosma/graphs", "*.json")}
ROWS: list[dict[str, Any]] = [
    row
    for path in sorted(DATA.glob("*.json"))
    for row in json.loads(path.read_text())
    if row["graph"].removesuffix("+p") in GRAPHS
]
SEARCHED_BY_NAS = ("nasnet", "pnasnet", "amoebanet", "darts", "randwire")
RUN_AT_MOST = 30_000_000
"""Bytes moved through the executor's memory in one test."""


@cache
def graph_of(name: str) -> OperatorGraph:
    graph = load_graph(GRAPHS[name.removesuffix("+p")])
    return graph if name.endswith("+p") else graph.without_parameters()


def best_known() -> dict[tuple[str, int], int]:
    """Fewest bytes over the recorded schemes that solve for replacement, per graph and budget in bytes."""
    best: dict[tuple[str, int], int] = {}
    for row in ROWS:
        measured = row.get("M") is not None and row["bytes"] is not None
        if measured and not row["scheme"].endswith(("belady", "greedy", "lru")):
            key = row["graph"], row["M"]
            best[key] = min(row["bytes"], best.get(key, row["bytes"]))
    return best


def is_slow(graph: str, capacity: int) -> bool:
    """RandWire at M_R is searched up to the time limit."""
    return graph.startswith("randwire") and capacity == graph_of(graph).minimum_bytes


CASES = [
    pytest.param(
        name,
        capacity,
        most,
        id=f"{name}-{capacity}",
        marks=[pytest.mark.slow("oracle")] if is_slow(name, capacity) else [],
    )
    for (name, capacity), most in sorted(best_known().items())
]


@pytest.mark.parametrize(("name", "capacity", "most"), CASES)
@pytest.mark.thinned(3)
def test_no_more_traffic_than_the_best_known(name: str, capacity: int, most: int) -> None:
    graph = graph_of(name)
    found = schedule_cosma(graph, capacity)
    assert isinstance(found, Schedule)
    assert found.noncompulsory_bytes <= most
    if not name.startswith(SEARCHED_BY_NAS):
        assert found.noncompulsory_bytes == most
        assert (found.proof, found.bound) == (Proof.OPTIMAL, most)
    unit = common_divisor(graph, capacity, *found.offsets)
    if sum(s.size_bytes for s in found.stays) // unit <= RUN_AT_MOST:
        run = execute(graph, found.plan, found.stays, found.offsets, capacity)
        assert run.written_bytes + run.read_bytes == found.noncompulsory_bytes
        assert run.compulsory_bytes == graph.compulsory_bytes


PEAKS = [row for row in ROWS if row["scheme"].startswith("min-peak")]


@pytest.mark.parametrize("row", PEAKS, ids=lambda row: row["graph"])
@pytest.mark.thinned(3)
def test_lowest_peak(row: dict[str, Any]) -> None:
    found = lowest_peak_order(graph_of(row["graph"]).index)
    assert found.peak_bytes == found.bound_bytes
    if row["scheme"] == "min-peak":
        assert found.peak_bytes == row["bytes"]
    else:
        assert found.peak_bytes <= row["bytes"]


FIXED = [row for row in ROWS if row["scheme"] in ("FS-cap(default)", "FS-cap(mpmf)") and row["bytes"] is not None]


@pytest.mark.parametrize("row", FIXED, ids=lambda row: f"{row['graph']}-{row['budget']}-{row['scheme']}")
def test_replacement_for_a_fixed_order(row: dict[str, Any]) -> None:
    index = graph_of(row["graph"]).index
    order = range(len(index.inputs))
    if "mpmf" in row["scheme"]:
        orders = [r["order"] for r in PEAKS if r["graph"] == row["graph"]]
        if not orders:
            lacks("order of that graph")
        order = orders[0]
    found = best_replacement(index, order, row["M"])
    assert found is not None
    assert (found.value, found.bound) == (row["bytes"], row["bytes"])


BELADY = [row for row in ROWS if row["scheme"] == "default+belady" and not row["flush"]]


@pytest.mark.parametrize("row", BELADY, ids=lambda row: f"{row['graph']}-{row['budget']}")
def test_belady_with_a_linear_allocator(row: dict[str, Any]) -> None:
    """Where no operands had to move, two independent implementations of the baseline agree."""
    graph = graph_of(row["graph"])
    found = schedule_baseline(graph, row["M"], range(len(graph.operators)), Replacement.BELADY)
    assert isinstance(found, Schedule)
    assert found.noncompulsory_bytes == row["bytes"]


@pytest.mark.parametrize(
    ("name", "capacity"), [("resnet50+p", 2486784), ("r2plus1d_18", 41746432), ("deeplabv3_resnet50+p", 6525952)]
)
def test_the_full_program_agrees(name: str, capacity: int) -> None:
    if name not in {row["graph"] for row in ROWS}:
        lacks(f"results of {name}")
    graph = graph_of(name)
    whole = schedule_cosma(graph, capacity, route=Route.MONOLITHIC)
    parts = schedule_cosma(graph, capacity)
    assert isinstance(whole, Schedule) and isinstance(parts, Schedule)
    assert (whole.value, whole.proof) == (parts.value, Proof.OPTIMAL)


@pytest.mark.parametrize(
    ("name", "capacity"), [("resnet50+p", 2486784), ("densenet121", 1605632), ("vit_b_16+p", 3118848)]
)
def test_the_joint_program_agrees(name: str, capacity: int) -> None:
    if (name, capacity) not in best_known():
        lacks(f"results of {name}")
    joint = solve_program(graph_of(name).index, capacity, addresses=False)
    assert joint.value == joint.bound == best_known()[name, capacity]


@pytest.mark.parametrize("path", sorted((DATA / "graphs").glob("*.json")), ids=lambda p: p.stem)
def test_working_sets_are_those_recorded(path: Path) -> None:
    recorded = json.loads(path.read_text())
    graph = load_graph(path)
    assert graph.minimum_bytes == recorded["M_R_with_params"]
    assert graph.without_parameters().minimum_bytes == recorded["M_R"]
    index = graph.index
    edges = [[index.producer[t], reader] for t, readers in enumerate(index.consumers) for reader in readers]
    assert sorted(edges) == sorted(recorded["edges"])


@pytest.mark.parametrize("path", sorted((DATA / "graphs").glob("*.raw.json")), ids=lambda p: p.stem)
def test_fusion_gives_the_fused_graph(path: Path) -> None:
    fused = fuse_operators(load_graph(path))
    recorded = load_graph(GRAPHS[path.stem.removesuffix(".raw")])
    assert {(o.kind, o.inputs, o.outputs, o.parameter_bytes) for o in fused.operators} == {
        (o.kind, o.inputs, o.outputs, o.parameter_bytes) for o in recorded.operators
    }
    assert set(fused.tensors) == set(recorded.tensors)


def test_there_are_results() -> None:
    needs_data("cosma", ROWS)
