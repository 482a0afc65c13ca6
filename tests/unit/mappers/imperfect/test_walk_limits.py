"""Limits on what a walk over numbers of tiles may cost drop nothing that is below them."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from codesign.arch.architecture import Fanout, Links
from codesign.arch.presets import load_preset
from codesign.cost.arrays import Reuse, encode_problem
from codesign.library.inputs import as_computation
from codesign.mappers.imperfect.joint.joint_problem import JointProblem
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.space import kept_and_free
from experiments.attacks.imperfect_problems import draw


def _of_preset(preset: str, layer: str) -> JointProblem:
    problem = MappingProblem(as_computation(layer), load_preset(preset), imperfect=True)
    arrays = encode_problem(problem.computation, problem.architecture, Reuse.TIMELOOP)
    return JointProblem(problem, arrays, kept_and_free(problem)[0])


def _of_random_machine(rng: random.Random) -> JointProblem:
    """Three levels with a fan-out at the outermost one; tensors pass level 1 at times."""
    while True:
        problem = draw(rng)
        first, *others = problem.architecture.levels
        if len(others) == 2:
            break
    wide = replace(first, fanout=Fanout(4, 3, links=Links.MULTICAST))
    problem = replace(problem, architecture=replace(problem.architecture, levels=(wide, *others)))
    keep = np.ones((3, len(problem.computation.tensors)), np.int64)
    keep[1, rng.randrange(keep.shape[1])] = rng.randrange(2)
    return JointProblem(problem, encode_problem(problem.computation, problem.architecture, Reuse.TIMELOOP), keep)


def _compare(joint: JointProblem, number: int, rng: random.Random) -> tuple[int, int]:
    """Bounds of profiles with and without a limit: how many are equal, how many exceed the limit.

    A limit may also drop nests that leave children of a fan-out idle: they belong to another profile.
    """
    assert joint.fan_outs is not None
    pools = [rng.sample(range(n), min(6, n)) for n in np.diff(joint.fan_outs.start).tolist()]
    rows = [np.array([rng.choice(pool) for pool in pools]) for _ in range(number)]
    equal = beyond = 0
    for row in rows:
        profile = joint.prepare(row, joint.energy)
        least = joint.least(profile, joint.thresholds(profile, 100.0 * profile.base))[0]
        limit = rng.choice([0.99, 1.001, 1.2]) * min(least, 2.0 * profile.base)
        within = joint.least(profile, joint.thresholds(profile, limit))[0]
        equal += within == pytest.approx(least, rel=1e-12) and math.isfinite(within)
        beyond += math.isinf(within) and math.isfinite(least) and limit < least
        assert within >= least * (1.0 - 1e-12)
    return equal, beyond


LAYERS = (
    "conv K=24 C=18 P=9 Q=9 R=3 S=3 stride=2",
    "conv K=30 C=20 P=7 Q=7 R=1 S=3",
    "conv K=32 C=16 P=7 Q=7 stride=2",
    "gemm M=37 N=60 K=45",
)


@pytest.mark.parametrize("preset", ["eyeriss", "simba"])
@pytest.mark.parametrize("layer", ["conv K=24 C=16 P=7 Q=7 stride=2", "conv K=12 C=8 P=5 Q=5 R=3 S=3"])
def test_limits_change_no_bound(preset: str, layer: str) -> None:
    equal, beyond = _compare(_of_preset(preset, layer), 60, random.Random(0))
    assert equal > 15 and beyond > 3


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("preset", ["eyeriss", "simba", "gemmini"])
@pytest.mark.parametrize("layer", LAYERS)
def test_limits_change_no_bound_of_many_profiles(preset: str, layer: str) -> None:
    for seed in range(1, 6):
        _compare(_of_preset(preset, layer), 100, random.Random(seed))


def _compare_random_machines(seeds: range) -> tuple[int, int]:
    results = []
    for seed in seeds:
        rng = random.Random(seed)
        results.append(_compare(_of_random_machine(rng), 60, rng))
    return sum(equal for equal, _ in results), sum(beyond for _, beyond in results)


def test_limits_change_no_bound_on_random_machines() -> None:
    equal, beyond = _compare_random_machines(range(30))
    assert equal > 300 and beyond > 200


@pytest.mark.slow("oracle")
def test_limits_change_no_bound_on_many_random_machines() -> None:
    equal, beyond = _compare_random_machines(range(1000, 1600))
    assert equal > 6_000 and beyond > 4_000
