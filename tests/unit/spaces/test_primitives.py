import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.cost.cost import Infeasible
from codesign.tensorization.encoding import SoftwareProblem
from codesign.tensorization.program_cost import program_cost
from codesign.tensorization.scoring import LATENCY
from codesign.workloads.computation import Computation
from spaces.cores import GEMM_CORE, core_of
from spaces.primitives import Fuse, Primitive, Reorder, Split, Tensorize, apply_sequence, score_sequences, to_program

POINT = dict(GEMM_CORE.space.presets[0])


@pytest.fixture(scope="module")
def gemm() -> SoftwareProblem:
    computation = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=64, j=48, k=40, partial_bits=32)
    return SoftwareProblem.of(computation, core_of(GEMM_CORE, POINT))


SEQUENCE: list[Primitive] = [
    Split("i", 32),
    Split("j", 16),
    Reorder(("j.o", "i.o", "i.i", "k", "j.i")),
    Fuse(("j.o", "i.o")),
    Tensorize(0, "i.i"),
]


def test_a_sequence_becomes_the_schedule_it_says(gemm: SoftwareProblem) -> None:
    program = to_program(gemm, SEQUENCE)
    schedule = program.schedule
    assert schedule.host == (("j", 3), ("i", 2))
    assert schedule.inner == (("i", 2), ("k", 3))  # 40 = 3 calls of 16, the last one padded; j.i is one call
    assert schedule.padded.sizes == {"i": 64, "j": 48, "k": 48}
    assert program.fused == (2,)
    assert program.trips == (6,)


def test_a_split_that_does_not_divide_pads(gemm: SoftwareProblem) -> None:
    program = to_program(gemm, [Split("i", 48), Reorder(("i.o", "i.i")), Tensorize(0, "i.i")])
    assert program.schedule.padded.sizes["i"] == 96
    cost = program_cost(program)
    assert not isinstance(cost, Infeasible)
    assert cost.calls == 4 * 3 * 3  # iterations wholly beyond the bound make no call
    assert cost.padding_waste == pytest.approx(1 - 40 / 48)


def test_repeated_splits_give_three_loops(gemm: SoftwareProblem) -> None:
    sequence = [
        Split("i", 32),
        Split("i.o", 1),
        Split("i.i", 16),
        Reorder(("i.o.o", "i.o.i", "i.i.o")),
        Tensorize(0, "i.i.i"),
    ]
    loops = apply_sequence(gemm, sequence)
    assert [(d, n) for d, n, _ in loops.rows] == [(0, 2), (0, 2), (1, 3), (2, 3)]
    assert loops.host == 2


def test_fusing_loops_of_one_iteration_fuses_what_remains(gemm: SoftwareProblem) -> None:
    sequence = [
        Split("i", 64),
        Split("j", 16),
        Reorder(("i.o", "j.o", "i.i", "j.i")),
        Fuse(("i.o", "j.o")),
        Tensorize(0, "i.i"),
    ]
    assert apply_sequence(gemm, sequence).rows[0] == (1, 3, 0)


def test_batches_of_different_lengths_are_scored_like_single_ones(gemm: SoftwareProblem) -> None:
    plain: list[Primitive] = [Tensorize(0, "i")]
    both = score_sequences(gemm, [SEQUENCE, plain, SEQUENCE])
    assert np.array_equal(both[0], both[2])
    assert both[1, LATENCY] == score_sequences(gemm, [plain])[0, LATENCY]


@pytest.mark.parametrize(
    ("sequence", "message"),
    [
        ([], "a sequence ends with tensorize"),
        ([Split("i", 4)], "a sequence ends with tensorize"),
        ([Split("q", 4), Tensorize(0, "i")], "unknown loop 'q'"),
        ([Split("i", 65), Tensorize(0, "i.i")], r"factor must be an integer in 1\.\.64, got 65"),
        ([Split("i", 0), Tensorize(0, "i.i")], r"factor must be an integer in 1\.\.64, got 0"),
        ([Reorder(("i", "i")), Tensorize(0, "i")], "a loop is named twice"),
        ([Fuse(("i", "k")), Tensorize(0, "i")], "must stand next to each other"),
        ([Fuse(("i",)), Tensorize(0, "i")], "at least two loops"),
        ([Fuse(("i", "j")), Tensorize(0, "i")], "fused and tensorized"),
        ([Tensorize(9, "i")], r"choice must be in 0\.\.1, got 9"),
        ([Tensorize(0, "x")], "unknown loop 'x'"),
        ([Tensorize(0, "j")], "'i' belongs to the intrinsic"),
        ([Tensorize(0, "i"), Tensorize(0, "i")], "tensorize stands once"),
        ([Split("i", 16), Reorder(("i.i", "i.o")), Tensorize(0, "i.i")], "stands outside 'i.o'"),
        ([Fuse(("i", "j")), Split("k", 2), Tensorize(0, "i")], "split stands after fuse"),
        ([Fuse(("i", "j")), Reorder(("k", "i")), Tensorize(0, "i")], "reorder stands after fuse"),
    ],
)
def test_bad_sequences_say_which_primitive(gemm: SoftwareProblem, sequence: list[Primitive], message: str) -> None:
    with pytest.raises(UserError, match=message):
        apply_sequence(gemm, sequence)
