"""The cost of one uneven nest under LoopTree's rules (U1-U9, docs/explanation/exact-mapper.md), node by node.

The search computes the same charges over whole lattices at once (`codesign.mappers.uneven.space`); tests hold the two equal.
"""

import itertools
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from codesign.core.errors import UserError
from codesign.mapping.looptree import Goal, Machine, Operand, Operator

SHARED = 1
"""The level that intermediates stay in (F2)."""


@dataclass(frozen=True)
class Loop:
    """A loop.

    Args:
        dim: Dimension.
        steps: Iterations, the last of which may be short if it is the outermost of its dimension.
        tile: Size inside.
        level: The level it fans out to (the number of memories: the compute units); none for a temporal loop.
        axis: Name of the axis, for a spatial loop.
    """

    dim: str
    steps: int
    tile: int
    level: int | None = None
    axis: str = ""


@dataclass(frozen=True)
class Store:
    """A tensor is fetched to a level here; `held` says whether its space is taken here too, or at a later `Hold`."""

    level: int
    tensor: str
    held: bool = True


@dataclass(frozen=True)
class Hold:
    """The space of a line buffer (U7)."""

    level: int
    tensor: str


Nest = tuple[Loop | Store | Hold, ...]


@dataclass(frozen=True)
class NestCost:
    """What a nest costs.

    Args:
        energy: Without leakage.
        seconds: Latency.
        reads, writes: Bits by level and tensor.
        held: Bits by level.
    """

    energy: float
    seconds: float
    reads: dict[tuple[int, str], float]
    writes: dict[tuple[int, str], float]
    held: dict[int, float]

    def value(self, goal: Goal, leak_w: float) -> float:
        """What an objective says of the nest's energy and time."""
        return goal.of(self.energy, self.seconds, leak_w)


def evaluate(operator: Operator, machine: Machine, nest: Nest, on_chip: frozenset[str] = frozenset()) -> NestCost:
    """Cost of a nest; the outermost memory holds every tensor whole, above all loops.

    Args:
        operator, machine, nest: What runs, on what, how.
        on_chip: Intermediates that the outermost memory does not hold: nothing of them is moved outside their first node (F2).
            Their room at the shared level is the whole schedule's, not this nest's (`codesign.cost.looptree_graph`).

    Raises:
        UserError: The nest breaks a rule; the message names it.
    """
    check(operator, machine, nest, on_chip)
    n = len(machine.memories)
    reads: dict[tuple[int, str], float] = defaultdict(float)
    writes: dict[tuple[int, str], float] = defaultdict(float)
    held: dict[int, float] = defaultdict(float)
    own: dict[int, float] = defaultdict(float)
    for tensor in operator.operands:
        places = [(x.level, i) for i, x in enumerate(nest) if isinstance(x, Store) and x.tensor == tensor.name]
        begin = [] if tensor.name in on_chip else [(0, -1)]
        chain = [*begin, *places, (n, len(nest))]
        for (outer, start), (inner, stop) in itertools.pairwise(chain):
            fill, back, copies = _moved(operator, machine, nest, tensor, (outer, start), (inner, stop))
            away = machine.memories[outer].width(tensor) / copies
            here = machine.memories[inner].width(tensor) if inner < n else 0.0
            if tensor.output:
                writes[outer, tensor.name] += fill * away
                reads[outer, tensor.name] += back * away
                reads[inner, tensor.name] += fill * here
                writes[inner, tensor.name] += back * here
            else:
                reads[outer, tensor.name] += fill * away
                writes[inner, tensor.name] += fill * here
    for i, x in enumerate(nest):
        if isinstance(x, Hold) or (isinstance(x, Store) and x.held):
            operand = next(t for t in operator.operands if t.name == x.tensor)
            bits = operand.words(_tile(operator, nest, i)) * machine.memories[x.level].width(operand)
            held[x.level] += bits
            if x.level > SHARED or x.tensor not in on_chip:
                own[x.level] += bits
    for level, bits in own.items():
        if bits > machine.memories[level].capacity * (1 + 1e-12):
            raise UserError(
                f"level '{machine.memories[level].name}' holds {bits:g} bits, its capacity is {machine.memories[level].capacity:g}"
            )
    return _summed(operator, machine, nest, dict(reads), dict(writes), dict(held))


def _summed(
    operator: Operator,
    machine: Machine,
    nest: Nest,
    reads: dict[tuple[int, str], float],
    writes: dict[tuple[int, str], float],
    held: dict[int, float],
) -> NestCost:
    energy = machine.mac_energy * operator.macs
    seconds = compute_seconds(operator, machine, nest)
    for level, memory in enumerate(machine.memories):
        read = sum(v for (m, _), v in reads.items() if m == level)
        write = sum(v for (m, _), v in writes.items() if m == level)
        energy += read * memory.read + write * memory.write
        for a, b in memory.ports:
            seconds = max(seconds, (read * a + write * b) / _used(operator, nest, level))
    return NestCost(energy, seconds, reads, writes, held)


def compute_seconds(operator: Operator, machine: Machine, nest: Nest) -> float:
    """Time of the operations alone."""
    return operator.macs / _used(operator, nest, len(machine.memories)) * machine.mac_seconds


def _tile(operator: Operator, nest: Nest, position: int) -> dict[str, float]:
    """Sizes inside everything before `position`."""
    sizes = {d: float(b) for d, b in operator.bounds.items()}
    for x in nest[:position]:
        if isinstance(x, Loop):
            sizes[x.dim] = float(x.tile)
    return sizes


def _moved(
    operator: Operator, machine: Machine, nest: Nest, tensor: Operand, outer: tuple[int, int], inner: tuple[int, int]
) -> tuple[float, float, float]:
    """Words filled by all instances, words that came back, and instances that share one transfer."""
    tile = _tile(operator, nest, inner[1])
    times, spread, copies = 1.0, 1.0, 1.0
    for dim, bound in operator.bounds.items():
        if dim in tensor.dims:
            times *= bound / tile[dim]
            continue
        for i, x in enumerate(nest[: max(inner[1], 0)]):
            if isinstance(x, Loop) and x.dim == dim:
                times *= x.steps
                if x.level is not None:
                    spread *= x.steps
                    if i > outer[1] and outer[0] < x.level <= inner[0] and tensor.name in _axis(machine, x).shared:
                        copies *= x.steps
    fill = times * tensor.words(tile)
    size = tensor.words(operator.bounds)
    return fill, (fill - size * spread if tensor.output else 0.0), copies


def _axis(machine: Machine, loop: Loop) -> Any:
    for axis in machine.fanouts[loop.level or 0]:
        if axis.name == loop.axis:
            return axis
    raise UserError(f"the machine has no axis '{loop.axis}' above level {loop.level}")


def _used(operator: Operator, nest: Nest, level: int) -> float:
    """Instances of a level in use, the mean if the last has less to do."""
    used = 1.0
    size = {d: float(b) for d, b in operator.bounds.items()}
    for x in nest:
        if isinstance(x, Loop):
            if x.level is not None and x.level <= level:
                used *= size[x.dim] / x.tile
            size[x.dim] = float(x.tile)
    return used


def check(operator: Operator, machine: Machine, nest: Nest, on_chip: frozenset[str] = frozenset()) -> None:
    """Whether a nest keeps the rules of its form (U1, U4, U7, U9); tensors `on_chip` are not in the outermost memory.

    Raises:
        UserError: It does not.
    """
    n = len(machine.memories)
    size = dict(operator.bounds)
    started: set[str] = set()
    deepest, used = 0, defaultdict[tuple[int, str], int](lambda: 1)
    for x in nest:
        if isinstance(x, Loop):
            if x.dim not in size:
                raise UserError(f"the nest loops over '{x.dim}', which '{operator.name}' does not have")
            short = x.steps * x.tile != size[x.dim]
            if (
                x.tile < 1
                or -(-size[x.dim] // x.tile) != x.steps
                or (short and (x.dim in started or x.dim not in operator.simple))
            ):
                raise UserError(
                    f"a loop of {x.steps} steps with tiles of {x.tile} does not cut {size[x.dim]} of '{x.dim}'"
                )
            if x.level is not None:
                axis = _axis(machine, x)
                used[x.level, x.axis] *= x.steps
                if x.dim not in axis.dims or used[x.level, x.axis] > axis.size or x.level < deepest:
                    raise UserError(f"a loop over '{x.dim}' cannot lie on axis '{x.axis}' above level {x.level} here")
            size[x.dim] = x.tile
            started.add(x.dim)
        else:
            if x.level < deepest:
                raise UserError(f"a node of level {x.level} stands inside one of level {deepest}")
            deepest = max(deepest, x.level)
    if any(v != 1 for v in size.values()):
        raise UserError("the loops do not cover the operator", where=operator.name)
    keeps = tuple(
        frozenset(x.tensor for x in nest if isinstance(x, Store) and x.level == m)
        if m
        else frozenset(t.name for t in operator.operands) - on_chip
        for m in range(n)
    )
    if keeps not in machine.keeps:
        raise UserError("the nest keeps tensors where the machine does not", where=operator.name)
    _check_windows(operator, nest)


def _check_windows(operator: Operator, nest: Nest) -> None:
    for i, x in enumerate(nest):
        if isinstance(x, Store) and not x.held:
            operand = next(t for t in operator.operands if t.name == x.tensor)
            j = i + 1
            while j < len(nest) and isinstance(nest[j], Loop):
                j += 1
            loops = [y for y in nest[i + 1 : j] if isinstance(y, Loop)]
            good = j < len(nest) and nest[j] == Hold(x.level, x.tensor) and len({y.dim for y in loops}) == 1
            if not good or loops[0].dim not in operand.sliding or any(y.level is not None for y in loops):
                raise UserError(f"the window of '{x.tensor}' must be held under loops of one of its sliding dimensions")
