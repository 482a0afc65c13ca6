"""What no mapping can beat, whatever its fan-outs do and whether its factors are perfect or not.

* IB2: With a spatial factor s a dimension takes at least ceil(N / s) steps. Of the factors with equal steps only the least
  matters: at most 2 sqrt(N).
* IB3: A word sent to the MACs serves at most the children that share links, and all words are sent.
* IB5: Energy is at least that of the MACs, of what they ask for (IB3), and of the fewest words across every other boundary: IB11
  with no fan-out decided, the least over keep sets.
* IB6: Latency is at least IB2 and the compulsory words at the outermost port; a product that of both.
"""

import math
from collections.abc import Iterator
from itertools import product

import numpy as np

from codesign.core.factors import tile_counts
from codesign.core.goals import Objective
from codesign.cost.arrays import Problem, encode_problem
from codesign.mappers.imperfect.joint.joint_problem import JointProblem
from codesign.mappers.imperfect.joint.least_costs import base_of, words_of
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.nest import IntArray
from codesign.mapping.space import kept_and_free
from codesign.workloads.computation import Computation
from codesign.workloads.touched import touched_words

MOST_FREE = 6
"""Free bypasses up to which energy is bounded."""


def least_tiles(bound: int) -> tuple[tuple[int, int], ...]:
    """(steps, least tile with so many steps) of one dimension, fewest steps first.

    >>> least_tiles(7)
    ((1, 7), (2, 4), (3, 3), (4, 2), (7, 1))
    """
    return tuple((steps, -(-bound // steps)) for steps in reversed(tile_counts(bound)))


def fewest_steps(computation: Computation, units: int) -> int:
    """Fewest steps of any spatial split over so many units: the product over dimensions of ceil(N / factor) (rule IB2)."""
    best: dict[int, int] = {1: 1}  # units taken -> steps
    for bound in computation.bounds:
        more: dict[int, int] = {}
        for used, steps in best.items():
            for count, factor in least_tiles(bound):
                if used * factor <= units:
                    taken = used * factor
                    more[taken] = min(more.get(taken, 1 << 62), steps * count)
        best = {}
        least = 1 << 62
        for taken in sorted(more):
            if more[taken] < least:
                least = best[taken] = more[taken]
    return max(min(best.values()), -(-computation.macs // units))


def least_cycles(problem: MappingProblem, arrays: Problem) -> float:
    """Cycles of computing, and of the port of the outermost level (rule IB6)."""
    computation = problem.computation
    least = float(fewest_steps(computation, problem.architecture.mac_units))
    read_rate, write_rate = arrays.bandwidth[0]
    words = np.array([touched_words(computation, t) for t in computation.tensors]) * arrays.words[0]
    reading = float(words[:-1].sum()) / read_rate if read_rate > 0.0 else 0.0
    writing = float(words[-1]) / write_rate if write_rate > 0.0 else 0.0
    port = reading + writing if arrays.one_port[0] else max(reading, writing)
    return max(least, math.ceil(port * (1.0 - 1e-12)))


def least_energy(joint: JointProblem) -> float:
    """Energy of a keep set with no fan-out decided (rule IB5); infinite where not even tiles of one word fit.

    Windows of a perfect mapping may slide along several loops, so a tensor with holes that they may pass over counts at the MACs alone.
    """
    arrays, data = joint.arrays, joint.data
    if ((arrays.element_bits * joint.keep).sum(axis=1) > arrays.capacity_bits)[1:].any():
        return math.inf
    spread, each = joint.undecided(), np.zeros(len(data.level))
    base_of(data, joint.energy, spread, joint.output_words, each)
    for t, distinct in enumerate(data.distinct):
        if distinct < words_of(t, data, spread, 0):
            each[data.first[t] + 1 : data.first[t + 1]] = 0.0
    return float(arrays.macs * arrays.mac_energy + each.sum())


def keep_sets(keep: IntArray, free: IntArray) -> Iterator[IntArray]:
    """Every ``L x T`` choice of what may be kept, given what is decided and the pairs (level, tensor) that are free."""
    for choice in product((0, 1), repeat=len(free)):
        chosen = keep.copy()
        chosen[free[:, 0], free[:, 1]] = choice
        yield chosen


def least_value(problem: MappingProblem, objective: Objective) -> float:
    """A value of the objective that no mapping of the problem, perfect or imperfect, is below; 0 where none is known.

    With free bypasses the least over all keep sets counts (rule IB5), if there are at most 64.
    """
    arrays = encode_problem(problem.computation, problem.architecture)
    keep, free = kept_and_free(problem)
    if len(free) > MOST_FREE:
        return 0.0
    energy = min(least_energy(JointProblem(problem, arrays, chosen)) for chosen in keep_sets(keep, free))
    return objective.score(energy, least_cycles(problem, arrays))
