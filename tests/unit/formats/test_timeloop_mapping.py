import math
from typing import Any

import pytest

from codesign.arch.architecture import Architecture, Fanout, StorageLevel
from codesign.core.errors import UserError
from codesign.formats.timeloop.mapping import (
    constraints_from_timeloop,
    constraints_to_timeloop,
    mapping_from_timeloop,
)
from codesign.mapping.constraints import Constraints, FactorRange, LevelConstraints
from codesign.mapping.mapping import LevelMapping, Mapping, Spatial, Storage, Temporal
from codesign.mapping.validate import check_mapping
from codesign.workloads.computation import Computation
from tests.timeloop_reference import mapping_to_timeloop

GEMM = Computation.parse("Z[M,N] += A[M,K] * B[K,N]", M=8, N=8, K=4)
WORDY = Computation.parse("Z[MM,NN] += A[MM,KK] * B[KK,NN]", MM=8, NN=8, KK=4)
MACHINE = Architecture("m", (StorageLevel("DRAM"), StorageLevel("Buffer", fanout=Fanout(4, 2)), StorageLevel("Regs")))

NEST = Mapping(
    (
        *(Storage(t, "DRAM") for t in "ABZ"),
        Temporal("M", 2),
        *(Storage(t, "Buffer") for t in "ABZ"),
        Temporal("N", 4),
        Temporal("M", 4),
        Spatial("K", 4, "x", "Buffer"),
        Spatial("N", 2, "y", "Buffer"),
        *(Storage(t, "Regs") for t in "ABZ"),
    )
)
DRAM_LOOPS = {"target": "DRAM", "type": "temporal"}
BUFFER_LOOPS = {"target": "Buffer", "type": "temporal"}
BUFFER_SPACE = {"target": "Buffer", "type": "spatial"}


@pytest.mark.parametrize(
    "loops",
    [
        [
            {"factors": "M2 N1 K1"},
            {"factors": "M4 N4", "permutation": "MNK"},
            {"factors": "K4 N2", "permutation": "KNM", "split": 1},
        ],
        [
            {"factors": "M=2"},
            {"factors": ["M=4", "N=4"], "permutation": ["M", "N"]},
            {"factors": {"K": 4, "N": 2}, "permutation": "K"},
        ],
        [
            {"factors": "M=2,N=1"},
            {"factors": "M = 4 N = 4 K=0", "permutation": "M N"},
            {"factors": "K4,N2", "permutation": "K,N"},
        ],
    ],
    ids=["v0.3", "lists", "commas"],
)
def test_every_spelling_of_loops_is_the_same_nest(loops: list[dict[str, Any]]) -> None:
    entries = [head | tail for head, tail in zip((DRAM_LOOPS, BUFFER_LOOPS, BUFFER_SPACE), loops, strict=True)]
    assert mapping_from_timeloop(entries, GEMM, MACHINE) == NEST
    assert mapping_from_timeloop({"version": 0.4, "nodes": entries}, GEMM, MACHINE) == NEST
    check_mapping(GEMM, MACHINE, NEST)


def test_names_of_several_letters_may_be_strung_together_or_apart() -> None:
    entries = [BUFFER_LOOPS | {"factors": "MM=8 NN=8 KK4", "permutation": order} for order in ("KKMMNN", "KK MM NN")]
    nests = [mapping_from_timeloop([entry], WORDY, MACHINE) for entry in entries]
    assert nests[0] == nests[1]
    assert [n.dim for n in nests[0].loops] == ["NN", "MM", "KK"]


@pytest.mark.parametrize("kind", ["bypass", "datatype", "dataspace"])
def test_a_tensor_is_kept_unless_the_file_says_otherwise(kind: str) -> None:
    entries = [{"target": "Buffer", "type": kind, "keep": ["A"], "bypass": ["Z"]}]
    mapping = mapping_from_timeloop(entries, GEMM, MACHINE)
    assert [n.tensor for n in mapping.storage if n.level == "Buffer"] == ["A", "B"]
    assert [n.tensor for n in mapping.storage if n.level == "Regs"] == ["A", "B", "Z"]


def test_without_split_loops_lie_along_x_while_the_mesh_holds_them() -> None:
    entries = [BUFFER_SPACE | {"factors": "M2 N2 K2", "permutation": "MNK"}]
    mapping = mapping_from_timeloop(entries, GEMM, MACHINE)
    assert [(n.dim, n.axis) for n in mapping.loops if isinstance(n, Spatial)] == [("M", "x"), ("N", "x"), ("K", "y")]


def test_targets_may_carry_their_path_and_containers_their_alias() -> None:
    entries = [{"target": "system.PE[0..7]", "type": "spatial", "factors": "M2"}]
    mapping = mapping_from_timeloop(entries, GEMM, MACHINE, aliases={"PE": "Buffer"})
    assert [n.level for n in mapping.loops if isinstance(n, Spatial)] == ["Buffer"]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            [DRAM_LOOPS | {"factors": "M2", "permutaton": "M"}],
            r"unknown key 'permutaton' \(f, entry 1 \(temporal of 'DRAM'\)\)",
        ),
        ([{"type": "temporal"}], "`target` is missing"),
        ([{"target": "DRAM", "type": "tempral"}], "unknown type 'tempral'.*did you mean 'temporal'"),
        ([{"target": "Bufer", "type": "temporal"}], "unknown level 'Bufer'.*did you mean 'Buffer'"),
        ([DRAM_LOOPS | {"factors": "X2"}], "unknown dimension 'X'"),
        ([DRAM_LOOPS | {"factors": "M2 M4"}], "names dimension 'M' twice"),
        ([DRAM_LOOPS | {"factors": "M-2"}], "factor of 'M' must be >= 0, got -2"),
        ([DRAM_LOOPS | {"factors": "M4,2"}], "a remainder .* cannot be expressed"),
        ([DRAM_LOOPS | {"factors": "M<=4"}], "a range cannot be expressed in a mapping"),
        ([DRAM_LOOPS | {"factors": "M"}], "`factors` must be like R3, R=3, R<=3 or R>=3, got 'M'"),
        ([DRAM_LOOPS | {"factors": 3}], "`factors` must be text or a list, got 3"),
        ([DRAM_LOOPS | {"permutation": "MX"}], "unknown dimension 'X'"),
        ([DRAM_LOOPS | {"permutation": "MM"}], "a dimension is named twice"),
        ([DRAM_LOOPS, DRAM_LOOPS], "two temporal entries for level 'DRAM'"),
        ([{"target": "DRAM", "type": "bypass", "keep": ["C"]}], "unknown tensor 'C'"),
        ([{"target": "DRAM", "type": "bypass", "keep": ["A"], "bypass": ["A"]}], "'A' is both kept and bypassed"),
        ([BUFFER_SPACE | {"split": -1}], "`split` must be an integer >= 0, got -1"),
        ("M2", "expected a list of entries, got 'M2'"),
    ],
)
def test_a_wrong_entry_is_refused(entries: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        mapping_from_timeloop(entries, GEMM, MACHINE, "f")


def test_a_nest_is_written_and_read_back_equal() -> None:
    assert mapping_from_timeloop(mapping_to_timeloop(NEST, GEMM, MACHINE), GEMM, MACHINE) == NEST


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ((Storage("A", "DRAM"), Temporal("M", 8), Storage("B", "DRAM")), "'B' is kept at 'DRAM' inside loops"),
        (
            (Storage("A", "Buffer"), Spatial("M", 4, "x", "Buffer"), Temporal("N", 2), Storage("B", "Regs")),
            "the loops of level 'Buffer' need an added level",
        ),
        ((Storage("A", "DRAM"), Temporal("M", 2), Temporal("N", 8), Temporal("M", 4)), "a dimension has two loops"),
    ],
)
def test_an_uneven_nest_cannot_be_written(nodes: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        mapping_to_timeloop(Mapping(nodes), GEMM, MACHINE)


def test_constraints_of_every_kind() -> None:
    entries = [
        {"target": "Buffer", "type": "datatype", "keep": ["A"], "bypass": ["B"]},
        {"target": "Buffer", "type": "spatial", "factors": "K=0 N1", "permutation": "KN", "split": 1},
        {"target": "DRAM", "type": "temporal", "factors": "M2", "permutation": "KM"},
    ]
    got = constraints_from_timeloop({"targets": entries}, GEMM, MACHINE)
    assert got == Constraints(
        (
            LevelConstraints("DRAM", temporal=(("M", 2),), order=("K", "M")),
            LevelConstraints(
                "Buffer",
                keep=frozenset("A"),
                bypass=frozenset("B"),
                spatial=(("K", 4), ("N", 1)),
                along_x=frozenset("K"),
            ),
        ),
        free_bypass=True,
    )
    again = constraints_from_timeloop(constraints_to_timeloop(got, GEMM, MACHINE), GEMM, MACHINE)
    assert again.by_level["Buffer"] == got.by_level["Buffer"]
    assert again.by_level["DRAM"].order == ("K", "M")
    assert again.by_level["DRAM"].keep == frozenset("ABZ")  # the outermost level keeps everything


def test_ranges_and_utilization_are_read_and_written() -> None:
    entries = [
        {"target": "Buffer", "type": "temporal", "factors": "M<=4 K>=2"},
        {"target": "Buffer", "type": "spatial", "factors": ["N>=2", "N<=4"]},
        {"type": "utilization", "min": 0.25},
    ]
    got = constraints_from_timeloop(entries, GEMM, MACHINE)
    assert got.by_level["Buffer"].ranges == (
        FactorRange("M", 1, 4), FactorRange("K", 2, None), FactorRange("N", 2, 4, spatial=True),
    )  # fmt: skip
    assert got.min_utilization == 0.25
    again = constraints_from_timeloop(constraints_to_timeloop(got, GEMM, MACHINE), GEMM, MACHINE)
    assert (again.by_level["Buffer"].ranges, again.min_utilization) == (got.by_level["Buffer"].ranges, 0.25)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"target": "Buffer", "type": "spatial", "split": 2, "permutation": "K"}, "`split` 2 needs a `permutation`"),
        ({"target": "Buffer", "type": "temporal", "factors": "M<=4 M<=2"}, "names dimension 'M' twice"),
        ({"target": "Buffer", "type": "temporal", "factors": "M<=0"}, "the range of 'M' holds no factor"),
        ({"target": "Buffer", "type": "temporal", "factors": "M<4"}, "must be like R3, R=3, R<=3 or R>=3"),
        ({"target": "Buffer", "type": "utilization", "min": 1.5}, "`min` must be a share"),
        ({"type": "utilization"}, "`min` is missing"),
        (
            {"target": "Buffer", "type": "spatial", "no_multicast_no_reduction": True},
            "unknown key 'no_multicast_no_reduction'",
        ),
    ],
)
def test_constraints_that_cannot_be_expressed_are_refused(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        constraints_from_timeloop([entry], GEMM, MACHINE)


def test_even_levels_may_skip_a_level_that_keeps_nothing() -> None:
    levels = [
        LevelMapping("DRAM", ("A", "B", "Z"), (("M", 8),)),
        LevelMapping("Buffer", (), (), (("N", 4, "x"),)),
        LevelMapping("Regs", ("B",), (("K", 4), ("N", 2))),
    ]
    nest = Mapping.from_levels(levels)
    assert mapping_from_timeloop(mapping_to_timeloop(nest, GEMM, MACHINE), GEMM, MACHINE) == nest


def test_a_dimension_unrolled_along_both_axes_is_laid_along_one() -> None:
    def nest(*loops: Spatial) -> Mapping:
        stores = [Storage(t, "DRAM") for t in "ABZ"]
        rest = [Temporal(d, b // math.prod(n.factor for n in loops if n.dim == d)) for d, b in GEMM.sizes.items()]
        return Mapping((*stores, *loops, *(Storage(t, "Regs") for t in "ABZ"), *rest))

    mapping = nest(Spatial("M", 2, "x", "Buffer"), Spatial("N", 2, "x", "Buffer"), Spatial("M", 2, "y", "Buffer"))
    again = mapping_from_timeloop(mapping_to_timeloop(mapping, GEMM, MACHINE), GEMM, MACHINE)
    assert [n for n in again.loops if isinstance(n, Spatial)] == [
        Spatial("M", 4, "x", "Buffer"),
        Spatial("N", 2, "y", "Buffer"),
    ]
    check_mapping(GEMM, MACHINE, again)
    with pytest.raises(UserError, match="level 'Buffer' need an added level below it: 'M' is unrolled along both axes"):
        mapping_to_timeloop(nest(Spatial("M", 4, "x", "Buffer"), Spatial("M", 2, "y", "Buffer")), GEMM, MACHINE)
