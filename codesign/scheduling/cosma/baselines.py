"""What frameworks do: a given order, a linear allocator, and a rule for who leaves when there is no room.

The order is the default one or that of least peak (which the paper takes from HMCOS). The allocator, like TensorFlow
Lite's, keeps the tensors sorted by address and takes the first gap that is large enough. When none is, the rule evicts:

- BELADY the tensor whose next use is furthest away, one after another until a gap opens;
- LRU the one whose last use is furthest back;
- GREEDY the set of tensors whose traffic (write, if not yet written, and retrieval) is least among all sets that
  make room for everything the operator needs: the paper's locally optimal choice, found by enumeration in order of
  traffic rather than by an integer program.

If nothing can leave and operands still split the memory so that the rest does not fit, they all move: each is spilled
and retrieved to another address, at the price of both.
"""

import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from codesign.scheduling.cosma.graph import GraphIndex, OperatorGraph
from codesign.scheduling.cosma.objective import BYTES, TrafficWeights
from codesign.scheduling.cosma.peak import lowest_peak_order
from codesign.scheduling.cosma.plan import Plan, residencies, uses
from codesign.scheduling.cosma.result import Schedule, TooSmall, priced_schedule

SETS_TRIED = 20_000
"""Sets of victims GREEDY looks at for one operator, cheapest first, before it falls back on Belady's rule."""


class Replacement(Enum):
    """Who leaves when there is no room."""

    BELADY = "belady"
    LRU = "lru"
    GREEDY = "greedy"


@dataclass(frozen=True)
class _Block:
    """Something in the scratchpad: a tensor, or (None) the parameters of the operator at hand."""

    start: int
    end: int
    tensor: int | None


def schedule_baseline(
    graph: OperatorGraph,
    capacity_bytes: int,
    order: Sequence[int],
    policy: Replacement,
    *,
    weights: TrafficWeights = BYTES,
) -> Schedule | TooSmall:
    """Run `order` with the linear allocator and a replacement rule.

    Args:
        graph: With parameters if these share the scratchpad.
        capacity_bytes: Scratchpad size.
        order: A runnable order of the operators.
        policy: Who leaves.
        weights: What a byte written and a byte read cost.
    """
    if capacity_bytes < graph.minimum_bytes:
        return TooSmall(graph.largest_operator.name, graph.minimum_bytes, capacity_bytes)
    machine = _Allocator(graph.index, capacity_bytes, order, policy, weights)
    for step in range(len(order)):
        machine.run(step)
    plan = Plan(tuple(order), tuple(tuple(sorted(r)) for r in machine.retrieved))
    offsets = tuple(
        machine.parameter_offsets[stay.first_step]
        if stay.tensor is None
        else machine.tensor_offsets[stay.tensor, stay.first_step]
        for stay in residencies(graph.index, plan)
    )
    return priced_schedule(
        graph, capacity_bytes, weights, plan, offsets, None, method=f"{policy.value} replacement", placement="first gap"
    )


def baseline_orders(graph: OperatorGraph) -> dict[str, tuple[int, ...]]:
    """The two orders that baselines run: as listed, and that of least peak."""
    return {"default": tuple(range(len(graph.operators))), "minimum-peak": lowest_peak_order(graph.index).order}


def baseline_traffic(graph: OperatorGraph, capacity_bytes: int) -> dict[tuple[str, Replacement], int]:
    """Non-compulsory bytes of every order with every replacement rule; empty when an operator does not fit."""
    found = {}
    for name, order in baseline_orders(graph).items():
        for policy in Replacement:
            done = schedule_baseline(graph, capacity_bytes, order, policy)
            if isinstance(done, Schedule):
                found[name, policy] = done.noncompulsory_bytes
    return found


class _Allocator:
    """The scratchpad while an order runs."""

    def __init__(
        self, index: GraphIndex, capacity: int, order: Sequence[int], policy: Replacement, weights: TrafficWeights
    ) -> None:
        self._index, self._capacity, self._order = index, capacity, order
        self._policy, self._weights = policy, weights
        self._uses = uses(index, order)
        self._blocks: list[_Block] = []
        self._written: set[int] = set()
        self.retrieved: list[set[int]] = [set() for _ in order]
        self.tensor_offsets: dict[tuple[int, int], int] = {}
        self.parameter_offsets: dict[int, int] = {}

    def run(self, step: int) -> None:
        """Make room for what the operator needs, place it, and free what is dead afterwards."""
        operator = self._order[step]
        needed = {*self._index.inputs[operator], *self._index.outputs[operator]}
        present = {b.tensor for b in self._blocks}
        missing: list[int | None] = [
            t for t in (*self._index.inputs[operator], *self._index.outputs[operator]) if t not in present
        ]
        if self._index.parameter_bytes[operator]:
            missing.append(None)
        if self._policy is Replacement.GREEDY:
            missing.sort(key=lambda t: -self._size(t, operator))
            self._make_room(operator, needed, missing)
        if not all(self._place(tensor, operator, needed, step) for tensor in missing):
            self._move_all(operator, step)
        self.retrieved[step] |= {t for t in self._index.inputs[operator] if t not in present}
        self._blocks = [b for b in self._blocks if b.tensor is not None and self._uses[b.tensor][-1] > step]

    def _place(self, tensor: int | None, operator: int, needed: set[int], step: int) -> bool:
        """Put the tensor (or the parameters) into the first gap, evicting until there is one; False if none opens."""
        size = self._size(tensor, operator)
        while True:
            start = next((a for a, b in self._gaps() if b - a >= size), None)
            if start is not None:
                self._put(start, tensor, operator, step)
                return True
            victims = [b for b in self._blocks if b.tensor is not None and b.tensor not in needed]
            if not victims:
                return False
            self._evict([max(victims, key=lambda b: self._reluctance(b, step))])

    def _reluctance(self, block: _Block, step: int) -> tuple[int, int]:
        """Greatest for the block to evict; the larger of two equals."""
        steps = self._uses[block.tensor] if block.tensor is not None else [step]
        if self._policy is Replacement.LRU:
            return step - max(s for s in steps if s < step), block.end - block.start
        return min(s for s in steps if s >= step), block.end - block.start

    def _make_room(self, operator: int, needed: set[int], missing: Sequence[int | None]) -> None:
        """Evict the cheapest set of tensors after which everything missing fits into the gaps."""
        sizes = sorted((self._size(t, operator) for t in missing), reverse=True)
        victims = [b for b in self._blocks if b.tensor is not None and b.tensor not in needed]
        for chosen in itertools.islice(_sets_by_cost([self._price(b) for b in victims]), SETS_TRIED):
            leaving = [victims[i] for i in chosen]
            gaps = [b - a for a, b in self._gaps(leaving)]
            if _packs(sizes, gaps):
                self._evict(leaving)
                return

    def _price(self, block: _Block) -> int:
        """Traffic that evicting a live tensor causes."""
        write = 0 if block.tensor in self._written else self._weights.write
        return (write + self._weights.read) * (block.end - block.start)

    def _move_all(self, operator: int, step: int) -> None:
        """Operands split the memory: spill and retrieve them to the bottom, one after another."""
        inputs = self._index.inputs[operator]
        self._written.update(inputs)
        self.retrieved[step].update(inputs)
        self._blocks = []
        start = 0
        for tensor in (*inputs, *self._index.outputs[operator], None):
            if tensor is not None or self._index.parameter_bytes[operator]:
                self._put(start, tensor, operator, step)
                start += self._size(tensor, operator)

    def _put(self, start: int, tensor: int | None, operator: int, step: int) -> None:
        self._blocks.append(_Block(start, start + self._size(tensor, operator), tensor))
        self._blocks.sort(key=lambda b: b.start)
        if tensor is None:
            self.parameter_offsets[step] = start
        else:
            self.tensor_offsets[tensor, step] = start

    def _evict(self, blocks: Iterable[_Block]) -> None:
        leaving = set(blocks)
        self._written.update(b.tensor for b in leaving if b.tensor is not None)
        self._blocks = [b for b in self._blocks if b not in leaving]

    def _gaps(self, without: Sequence[_Block] = ()) -> list[tuple[int, int]]:
        """Free stretches by address, as if the blocks `without` had left."""
        staying = [b for b in self._blocks if b not in without]
        starts = [0, *(b.end for b in staying)]
        ends = [*(b.start for b in staying), self._capacity]
        return [(a, b) for a, b in zip(starts, ends, strict=True) if b > a]

    def _size(self, tensor: int | None, operator: int) -> int:
        return self._index.parameter_bytes[operator] if tensor is None else self._index.size_bytes[tensor]


def _sets_by_cost(costs: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every set of positions, the cheapest first."""
    by_cost = sorted(range(len(costs)), key=lambda i: costs[i])
    yield ()
    queue: list[tuple[int, tuple[int, ...]]] = [(costs[by_cost[0]], (0,))] if by_cost else []
    while queue:
        cost, chosen = heapq.heappop(queue)
        yield tuple(by_cost[i] for i in chosen)
        last = chosen[-1]
        if last + 1 < len(by_cost):
            following = costs[by_cost[last + 1]]
            heapq.heappush(queue, (cost + following, (*chosen, last + 1)))
            heapq.heappush(queue, (cost + following - costs[by_cost[last]], (*chosen[:-1], last + 1)))


def _packs(sizes: Sequence[int], gaps: Sequence[int]) -> bool:
    """Whether pieces of the given sizes, largest first, fit into the gaps side by side."""
    if not sizes:
        return True
    tried: set[int] = set()
    for i, gap in enumerate(gaps):
        if gap >= sizes[0] and gap not in tried:
            tried.add(gap)
            if _packs(sizes[1:], [*gaps[:i], gap - sizes[0], *gaps[i + 1 :]]):
                return True
    return False
