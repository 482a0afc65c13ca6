import time

import gymnasium
import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.tensorization.encoding import SoftwareProblem
from codesign.tensorization.revisions import CHOICE, FIRST_CALLS, FUSE_LESS, FUSE_MORE, REVISIONS, fits, mask_revisions
from codesign.workloads.computation import Computation
from envs import ENVIRONMENT_ID, ScheduleEnv
from spaces.cores import GEMM_CORE, core_of
from spaces.primitives import apply_sequence
from spaces.software import SoftwareSpace


@pytest.fixture(scope="module")
def space() -> SoftwareSpace:
    computation = Computation.parse(
        "C[k,x,y] += A[c,x+r,y+s] * B[k,c,r,s]", k=64, x=56, y=56, c=64, r=3, s=3, partial_bits=32
    )
    return SoftwareSpace(SoftwareProblem.of(computation, core_of(GEMM_CORE, GEMM_CORE.space.presets[0])))


def test_samples_fit_repeat_and_spread(space: SoftwareSpace) -> None:
    rows = space.sample(200, 7)
    assert np.array_equal(rows, space.sample(200, 7))
    assert not np.array_equal(rows, space.sample(200, 8))
    assert all(fits(space.problem.arrays, row) for row in rows)
    assert set(rows[:, CHOICE]) == set(range(8))  # the sound choices of a convolution on a matrix unit
    assert len(np.unique(rows, axis=0)) > 190


def test_candidates_and_their_sequences_have_the_same_loops(space: SoftwareSpace) -> None:
    for row in space.sample(60, 1):
        assert apply_sequence(space.problem, space.sequence(row)) == space.loops(row)


def test_splits_never_pad_more_than_the_calls_must(space: SoftwareSpace) -> None:
    """Along every dimension the last host iteration has at least one call to make, through any revisions."""
    rng = np.random.default_rng(0)
    for row in space.sample(20, 2):
        for revision in rng.integers(0, REVISIONS, size=200):
            revised = space.revised(row, int(revision))
            row = row if revised is None else revised
            program = space.program(row)
            bounds, tile = space.problem.computation.sizes, program.schedule.choice.tile
            for dim, bound in bounds.items():
                trips = np.prod([n for d, n in program.schedule.host if d == dim], initial=1)
                inside = np.prod([n for d, n in program.schedule.inner if d == dim], initial=1)
                assert (trips - 1) * inside * tile[dim] < bound


def test_the_mask_says_which_revisions_change_the_program_and_fit(space: SoftwareSpace) -> None:
    mask, room = np.zeros(REVISIONS, np.int64), np.zeros(space.sample(1, 0).shape[1], np.int64)
    for row in space.sample(15, 3):
        mask_revisions(space.problem.arrays, row, room, mask)
        for revision in range(REVISIONS):
            revised = space.revised(row, revision)
            if mask[revision]:
                assert revised is not None
                assert fits(space.problem.arrays, revised)
                assert space.loops(revised) != space.loops(row)
            elif revised is not None:
                assert not fits(space.problem.arrays, revised)


def test_revisions_reach_every_order_and_fusion(space: SoftwareSpace) -> None:
    row = space.sample(1, 5)[0]
    row[FIRST_CALLS : FIRST_CALLS + 6] = 1
    hosts = space.loops(row).host
    more = row
    for _ in range(hosts):
        revised = space.revised(more, FUSE_MORE)
        more = more if revised is None else revised
    assert sum(j for _, _, j in space.loops(more).rows) == hosts - 1
    assert space.revised(more, FUSE_MORE) is None
    less = space.revised(more, FUSE_LESS)
    assert less is not None
    assert sum(j for _, _, j in space.loops(less).rows) == hosts - 2


def test_bad_revisions_are_refused(space: SoftwareSpace) -> None:
    with pytest.raises(UserError, match=f"revision must be in 0..{REVISIONS - 1}, got {REVISIONS}"):
        space.revised(space.sample(1, 0)[0], REVISIONS)


def test_an_intrinsic_that_matches_nothing_is_one_message() -> None:
    mttkrp = Computation.parse("D[i,j] += A[i,k,l] * B[l,j] * C[k,j]", i=8, j=8, k=8, l=8, partial_bits=32)
    with pytest.raises(UserError, match="gemm"):
        SoftwareProblem.of(mttkrp, core_of(GEMM_CORE, GEMM_CORE.space.presets[0]))


@pytest.mark.slow("speed")
def test_candidates_per_second_through_the_primitive_path(space: SoftwareSpace) -> None:
    rows = space.sample(4000, 0)
    space.score([space.sequence(row) for row in rows[:5]])
    started = time.process_time()
    space.score([space.sequence(row) for row in rows])
    assert 4000 / (time.process_time() - started) >= 10_000


@pytest.mark.slow("speed")
def test_environment_steps_per_second() -> None:
    env = gymnasium.make(ENVIRONMENT_ID, count=16).unwrapped
    assert isinstance(env, ScheduleEnv)
    rng = np.random.default_rng(0)

    def steps(count: int) -> None:
        env.reset(seed=0)
        for _ in range(count):
            _, _, ended, cut, _ = env.step(np.int64(rng.choice(np.flatnonzero(env.action_masks()))))
            if ended or cut:
                env.reset()

    steps(600)
    started = time.process_time()
    steps(5000)
    assert 5000 / (time.process_time() - started) >= 5_000
