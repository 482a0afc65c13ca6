"""Blocks of a core's stationary operand: which of them an element holds together, and how many words they are."""

import math
from fractions import Fraction

from codesign.hardware.agreement import Accesses
from codesign.tensorization.intrinsic_core import Core
from codesign.tensorization.program import Call
from codesign.tensorization.schedule import Schedule
from codesign.workloads.computation import AffineIndex


def tile_sizes(core: Core, schedule: Schedule) -> dict[str, int]:
    """By dimension, the iterations that the loops inside the local memories, and the calls, cover (Q3)."""
    sizes = {d: schedule.choice.tile[d] for d in schedule.choice.computation.dims}
    for dim, count in schedule.inner[core.local_start(schedule.choice, schedule.inner) :]:
        sizes[dim] *= count
    return sizes


def local_words(core: Core, schedule: Schedule) -> tuple[int, int] | None:
    """Words of the stationary operand that an element holds together: in the program's calls, and in the cost model's nest.

    A call gives neighbouring positions of an axis to neighbouring elements, the nest gives them to one. Both hold as many words, except
    where two loops slide along the axis: then neighbouring positions overlap, and blocks that are a call apart do not.

    Returns:
        Both, or None where the choice leaves that operand out.
    """
    choice = schedule.choice
    name = core.stationary_tensor(choice)
    if name is None:
        return None
    axes = choice.computation.tensor(name).axes
    whole = tile_sizes(core, schedule)
    calls = {d: range(0, n, choice.tile[d]) for d, n in whole.items()}
    follow = {dim: core.follow[i] for i, dim in choice.index_map.items()}
    nest = {d: len(calls[d]) * follow.get(d, 1) for d in whole}
    blocks = math.prod(len(_positions(axis, calls)) for axis in axes)
    stationary = core.intrinsic.computation.tensor(core.stationary)
    block = math.prod(n for i, n in core.follow.items() if i in stationary.dims)
    return blocks * block, math.prod(axis.extent(nest) for axis in axes)


def _positions(axis: AffineIndex, steps: dict[str, range]) -> set[int]:
    """Where blocks begin along an axis."""
    found = {0}
    for dim, coefficient in axis.terms:
        found = {at + coefficient * step for at in found for step in steps[dim]}
    return found


def by_blocks(core: Core, schedule: Schedule, counted: Accesses) -> Accesses:
    """The cost model's accesses with the stationary operand's fills, and the reads that serve them, as blocks of calls.

    Args:
        core: Runs the program.
        schedule: Its loops.
        counted: Under reuse rule `whole`: every fill brings a whole tile.
    """
    words, name = local_words(core, schedule), core.stationary_tensor(schedule.choice)
    if words is None or name is None or words[0] == words[1] or schedule.choice.computation.tensor(name).is_output:
        return counted
    share = Fraction(*words)
    changed = dict(counted)
    reads, fills, updates = counted["scratchpad", name]
    changed["scratchpad", name] = int(reads * share), fills, updates
    reads, fills, updates = counted["local", name]
    changed["local", name] = reads, int(fills * share), updates
    return changed


class LocalTiles:
    """Which local tile of the stationary operand a call's block lies in: where the tile begins in the operand's buffer.

    Args:
        core: Runs the program.
        schedule: Its loops.
        name: Of the operand's tensor. A dimension that is nowhere an axis by itself has its steps counted by the length of the tile.
    """

    def __init__(self, core: Core, schedule: Schedule, name: str) -> None:
        sizes, computation = tile_sizes(core, schedule), schedule.choice.computation
        alone: dict[str, tuple[str, int, int]] = {}  # by dimension that is an axis: operand, axis, coefficient
        for o in schedule.choice.match.operands:
            for k, axis in enumerate(computation.tensor(o.tensor).axes if o.tensor is not None else ()):
                if len(axis.terms) == 1:
                    alone[axis.terms[0][0]] = (o.intrinsic_tensor, k, axis.terms[0][1])
            if o.tensor == name:
                self.operand = o.intrinsic_tensor
        self.axes = []
        for axis in computation.tensor(name).axes:
            terms = [(*alone[d], c, sizes[d]) for d, c in axis.terms if d in alone]
            self.axes.append((terms, 1 if len(terms) == len(axis.terms) else axis.extent(sizes)))

    def of(self, call: Call) -> tuple[int, ...]:
        """The tile of a call whose operand is in a buffer."""
        at = {o.name: o.at for o in (*call.operands, call.output)}
        begins = []
        for position, (terms, length) in zip(at[self.operand], self.axes, strict=True):
            begin = position
            for operand, axis, coefficient, c, size in terms:
                begin -= c * (at[operand][axis] // coefficient % size)
            begins.append(begin // length)
        return tuple(begins)
