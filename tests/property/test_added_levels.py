"""Mappings with loops anywhere, written as Timeloop's files: read back, they move the same words."""

import math

import hypothesis.strategies as st
import pytest
from hypothesis import given

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, LevelKind, StorageLevel
from codesign.core.errors import CodesignError, UserError
from codesign.evaluation.exchange import check_same_counts, counts_of, timeloop_files
from codesign.formats.load import Inputs
from codesign.formats.timeloop.added_levels import level_by_level
from codesign.mapping.constraints import NO_CONSTRAINTS, Constraints, LevelConstraints
from codesign.mapping.mapping import Mapping, Node, Spatial, Storage, Temporal
from codesign.mapping.validate import check_mapping
from codesign.workloads.computation import Computation
from tests.examples import examples

FREE = AccessEnergy(1.0, 1.0, 1.0)
CONV = Computation.parse("O[k,p] += I[c,2*p+r] * W[k,c,r]", {"k": 16, "p": 16, "c": 16, "r": 4})
MACHINE = Architecture(
    "square",
    (
        StorageLevel("DRAM", LevelKind.DRAM, word_bits=8, energy=FREE, fanout=Fanout(2, 1)),
        StorageLevel("Buffer", capacity_bytes=1e6, word_bits=8, energy=FREE, fanout=Fanout(8, 4)),
        StorageLevel("Regs", capacity_bytes=1e4, word_bits=8, energy=FREE, fanout=Fanout(2, 2)),
    ),
    Arithmetic(bits=8, energy_pj=1.0),
)


def inputs(mapping: Mapping, machine: Architecture = MACHINE) -> Inputs:
    check_mapping(CONV, machine, mapping)
    return Inputs(machine, CONV, mapping, NO_CONSTRAINTS, ())


@st.composite
def mappings(draw: st.DrawFn) -> Mapping:
    """Even storage, loops over time and space in any order between it, dimensions several times and on both axes."""
    left = dict(CONV.sizes)
    nodes: list[Node] = []
    for level in MACHINE.levels:
        keep = [t.name for t in CONV.tensors if level.name == "DRAM" or draw(st.booleans())]
        nodes += [Storage(tensor, level.name) for tensor in keep]
        used = {"x": 1, "y": 1}
        for kinds in (["time"], ["x", "y"], ["time"]):  # the spatial loops of a level stand together
            for _ in range(draw(st.integers(0, 3))):
                dim, kind = draw(st.sampled_from(sorted(left))), draw(st.sampled_from(kinds))
                if left[dim] % 2 or (kind != "time" and used[kind] * 2 > getattr(level.fanout, kind)):
                    continue
                left[dim] //= 2
                if kind == "time":
                    nodes.append(Temporal(dim, 2))
                else:
                    used[kind] *= 2
                    nodes.append(Spatial(dim, 2, kind, level.name))  # type: ignore[arg-type]
    return Mapping((*nodes, *(Temporal(dim, size) for dim, size in left.items())))


@examples(150)
@given(mappings())
def test_what_is_read_back_moves_the_same_words(mapping: Mapping) -> None:
    texts = timeloop_files(inputs(mapping))  # raises where a count differs
    assert {"arch.yaml", "problem.yaml", "mapping.yaml", "ert.yaml"} <= set(texts)


@examples(150)
@given(mappings())
def test_added_levels_keep_nothing_and_split_fanouts(mapping: Mapping) -> None:
    found = level_by_level(mapping, MACHINE)
    assert found.architecture.mac_units == MACHINE.mac_units and found.architecture.mesh == MACHINE.mesh
    assert not any(
        found.mapping.levels_of(t.name) for t in CONV.tensors if set(found.mapping.levels_of(t.name)) & set(found.added)
    )
    for dim in CONV.dims:
        assert found.mapping.iterations(dim) == mapping.iterations(dim)
    for item in found.levels:
        assert len({d for d, _, _ in item.spatial}) == len(item.spatial) and len(dict(item.temporal)) == len(
            item.temporal
        )


BOTH = Mapping(
    (
        *(Storage(t, "DRAM") for t in ("I", "W", "O")),
        Temporal("p", 16),
        *(Storage(t, "Buffer") for t in ("I", "W", "O")),
        Spatial("k", 4, "x", "Buffer"),
        Spatial("c", 2, "x", "Buffer"),
        Spatial("k", 4, "y", "Buffer"),
        *(Storage(t, "Regs") for t in ("I", "W", "O")),
        Temporal("c", 8),
        Temporal("r", 4),
    )
)


def test_a_dimension_along_both_axes_takes_one_added_level() -> None:
    found = level_by_level(BOTH, MACHINE)
    assert found.added == ("Buffer_part2",)
    assert [(v.name, v.fanout.x, v.fanout.y) for v in found.architecture.levels[1:3]] == [
        ("Buffer", 8, 1),
        ("Buffer_part2", 1, 4),
    ]


def test_added_levels_can_be_forbidden() -> None:
    with pytest.raises(UserError, match=r"'Buffer' need an added level below it: 'k' is unrolled along both axes"):
        timeloop_files(inputs(BOTH), allow_added=False)


def test_constraints_on_the_loops_of_a_split_level_are_refused() -> None:
    constrained = Inputs(MACHINE, CONV, BOTH, Constraints((LevelConstraints("Buffer", spatial=(("k", 16),)),)), ())
    with pytest.raises(UserError, match="the loops of level 'Buffer' are constrained"):
        timeloop_files(constrained)


def test_a_writer_that_loses_a_factor_would_be_found() -> None:
    texts = timeloop_files(inputs(BOTH))
    damaged = {**texts, "mapping.yaml": texts["mapping.yaml"].replace("c8", "c4")}
    assert damaged != texts
    with pytest.raises((CodesignError, UserError)):
        check_same_counts(inputs(BOTH), damaged)
    start, found, end = texts["mapping.yaml"].rpartition("keep: [I, W, O]\n  bypass: []")  # of Regs
    assert found
    moved = {**texts, "mapping.yaml": f"{start}keep: [I, W]\n  bypass: [O]{end}"}
    with pytest.raises(CodesignError, match="count otherwise: reads of O of Buffer"):
        check_same_counts(inputs(BOTH), moved)


def test_counts_are_those_of_the_cost_model() -> None:
    counts = counts_of(inputs(BOTH))
    assert counts["compute cycles",] == CONV.macs // 32
    assert counts["reads", "W", "DRAM"] == math.prod((16, 16, 4)) and len(counts) == 1 + 3 * 3 * 4
