"""Further mappings from exact search: proven optima of the machine with some of its buffers halved.

The k least values of an analytical objective are k copies of one mapping: they differ in loops that change no count. What
the copies share is that tiles fill their buffers, so that no second tile fits beside the first one, and transfers wait. The
optimum with a halved buffer leaves that room. It runs on the whole machine as well, for tiles that fit into half fit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from codesign.arch.architecture import Architecture
from codesign.core.goals import Budget, Objective
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost, evaluate
from codesign.mappers.exact.mapper import ExactMapper
from codesign.mappers.protocol import MapResult
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import Mapping

FURTHER_EFFORT = 5e7
"""Cells of each further search at most, about half a second: cut short, it gives its incumbent."""


def map_with_room(
    mapper: ExactMapper,
    problem: MappingProblem,
    objective: Objective,
    levels: Sequence[str],
    count: int,
    *,
    budget: Budget,
    seed: int,
    reuse: Reuse = Reuse.TIMELOOP,
) -> MapResult:
    """The exact mapper's result with up to `count` alternatives, best first.

    Args:
        mapper: Of the optimum; further searches have `FURTHER_EFFORT` at most.
        levels: Names of the buffers that may be halved.
        count: How many machines with halved buffers are searched at most.
    """
    first = mapper.map(problem, objective, budget=budget, seed=seed, reuse=reuse)
    if first.mapping is None:
        return first
    quick = replace(mapper, effort=min(FURTHER_EFFORT, mapper.effort or FURTHER_EFFORT))
    found: dict[Mapping, float] = {}
    evaluated = first.evaluated
    for machine in _halved(problem.architecture, levels, count):
        result = quick.map(replace(problem, architecture=machine), objective, budget=budget, seed=seed, reuse=reuse)
        evaluated += result.evaluated
        if result.mapping is None or result.mapping == first.mapping:
            continue
        cost = evaluate(problem.computation, problem.architecture, result.mapping, reuse=reuse)
        assert isinstance(cost, Cost)  # its tiles fit into less
        found[result.mapping] = objective.of(cost)
    return replace(first, evaluated=evaluated, alternatives=tuple(sorted(found, key=found.__getitem__)))


def _halved(architecture: Architecture, levels: Sequence[str], count: int) -> Iterator[Architecture]:
    """The machine with buffers halved: all of them, each alone, then the sets between; buffers of one word stay whole."""
    wide = [name for name in levels if _can_halve(architecture, name)]
    sizes = dict.fromkeys((len(wide), *range(1, len(wide)))) if wide else {}
    subsets = (subset for size in sizes for subset in combinations(wide, size))
    for subset, _ in zip(subsets, range(count), strict=False):
        machine = architecture
        for name in subset:
            capacity = machine.level(name).capacity_bytes
            assert capacity is not None
            machine = machine.with_level(name, capacity_bytes=capacity / 2)
        yield machine


def _can_halve(architecture: Architecture, name: str) -> bool:
    level = architecture.level(name)
    return level.capacity_bytes is not None and level.capacity_bytes * 8 >= 2 * level.word_bits
