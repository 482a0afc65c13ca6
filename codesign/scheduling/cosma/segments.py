"""Where a graph falls apart: stretches of operators that can be scheduled one after another.

An operator that every other operator must precede or follow, and after which nothing but its own outputs is
live, cuts the problem exactly: what happens before it and after it meet only in those outputs, which lie in the
scratchpad at that moment in every schedule. The optimum of the whole is then the sum (the minimum peak, the
maximum) of the optima of the parts. Cuts of the default order where a few tensors are live are cheaper to find
in irregular networks, and only good guesses (the "break nodes" of Section IV of the paper, chosen automatically).
"""

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from codesign.scheduling.cosma.graph import GraphIndex


@dataclass(frozen=True)
class Segment:
    """A stretch of operators with what is live at its ends.

    Args:
        operators: In default order.
        live_in: Tensors that lie in the scratchpad when it starts and are read in it or after it.
        live_out: Tensors made in it or before it and read after it.
    """

    operators: tuple[int, ...]
    live_in: tuple[int, ...]
    live_out: tuple[int, ...]


def exact_segments(index: GraphIndex) -> tuple[Segment, ...]:
    """The finest exact division of the graph, in order."""
    count = len(index.inputs)
    everything = (1 << count) - 1
    cuts = []
    for operator in range(count - 1):
        before = index.ancestors[operator]
        after = index.descendants[operator]
        if before | after | 1 << operator == everything and not _crosses(index, before, after):
            cuts.append(before.bit_count() + 1)
    # All others precede or follow an operator that cuts, so that the number of its ancestors tells its segment.
    cuts.sort()
    order = sorted(range(count), key=lambda o: (bisect.bisect_right(cuts, index.ancestors[o].bit_count()), o))
    return _cut(index, order, [operators - 1 for operators in cuts])


def narrow_segments(index: GraphIndex, order: Sequence[int], live_limit: int) -> tuple[Segment, ...]:
    """A division of `order` at every step after which at most `live_limit` tensors are live.

    Args:
        index: The graph in numbers.
        order: A runnable order of all operators.
        live_limit: Largest number of tensors that may be live at a cut.
    """
    live = live_counts(index, order)
    return _cut(index, order, [step for step in range(len(order) - 1) if live[step] <= live_limit])


def window_segments(
    index: GraphIndex, order: Sequence[int], shortest: int, longest: int, first: int
) -> tuple[Segment, ...]:
    """A division of `order` into stretches of bounded length, each cut where fewest tensors are live.

    Args:
        index: The graph in numbers.
        order: A runnable order of all operators.
        shortest: Fewest operators in a stretch (the first and the last may have fewer).
        longest: Most operators in a stretch.
        first: Operators in the first stretch, at least 1.
    """
    live = live_counts(index, order)
    cuts = []
    step = first - 1
    while step < len(order) - 1:
        cuts.append(step)
        choices = range(step + shortest, min(step + longest, len(order) - 1) + 1)
        step = min(choices, key=lambda s: (live[s], -s), default=len(order))
    return _cut(index, order, cuts)


def live_counts(index: GraphIndex, order: Sequence[int]) -> list[int]:
    """How many tensors are made and still to be read after each step of `order`."""
    remaining = [len(c) for c in index.consumers]
    live = 0
    counts = []
    for operator in order:
        live += sum(1 for t in index.outputs[operator] if remaining[t])
        for tensor in index.inputs[operator]:
            remaining[tensor] -= 1
            live -= remaining[tensor] == 0
        counts.append(live)
    return counts


def _cut(index: GraphIndex, order: Sequence[int], steps: Sequence[int]) -> tuple[Segment, ...]:
    """The division of `order` after each of `steps`, operators of a segment as they come in `order`."""
    bounds = [0, *(step + 1 for step in steps), len(order)]
    done = 0
    live: tuple[int, ...] = ()
    segments = []
    for start, end in itertools.pairwise(bounds):
        for operator in order[start:end]:
            done |= 1 << operator
        after = live_tensors(index, done)
        segments.append(Segment(tuple(order[start:end]), live, after))
        live = after
    return tuple(segments)


def _crosses(index: GraphIndex, before: int, after: int) -> bool:
    """Whether a tensor made in `before` is read in `after`."""
    return any(
        before >> producer & 1 and any(after >> reader & 1 for reader in readers)
        for producer, readers in zip(index.producer, index.consumers, strict=True)
    )


def live_tensors(index: GraphIndex, done: int) -> tuple[int, ...]:
    """Tensors made by the operators in the mask `done` that operators outside it read."""
    return tuple(
        t
        for t, (producer, readers) in enumerate(zip(index.producer, index.consumers, strict=True))
        if done >> producer & 1 and any(not done >> r & 1 for r in readers)
    )
