"""Exact orders by best-first search over what has run and what lies in the scratchpad.

A state is (operators done, tensors resident, tensors with a copy off chip). Evicting a tensor that is still needed
is charged at once with the retrieval it makes certain and, the first time, with the write; states are visited in
order of cost, so the first complete one is optimal. What keeps the search small, without losing an optimum:

- Evictions are made only when an operator does not fit, and only in sets of which no member can be spared.
- Of two states with the same operators done, one that can be turned into the other by evicting and writing (and
  paying for it) without becoming dearer makes the other superfluous: a tensor that is off chip, its retrieval
  paid, is never worse than one that takes up room.
- An operator that fits as things lie and leaves no more behind than it frees is run at once (`_harmless`).
"""

import heapq
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from codesign.core import clock
from codesign.scheduling.cosma.local_problem import SegmentProblem, members
from codesign.scheduling.cosma.objective import TrafficWeights

VISITS_BETWEEN_LOOKS = 100
"""States visited between two looks at the clock."""
_ANY = -1


@dataclass(frozen=True)
class Boundary:
    """A situation before or after a segment.

    Args:
        value: Weighted traffic so far, or the peak so far.
        resident: Mask of the live tensors in the scratchpad.
        host: Mask of the live tensors with a copy off chip.
        steps: How the segment ran: per operator (local) the mask of tensors retrieved for it.
        entry: Position of the entry the segment was started from.
    """

    value: int
    resident: int
    host: int
    steps: tuple[tuple[int, int], ...] = ()
    entry: int = 0


@dataclass(frozen=True)
class Exploration:
    """What a search found.

    Args:
        exits: Situations after the segment, cheapest first; none of them makes another superfluous.
        bound: No exit has a smaller value.
        complete: Whether the search ended by itself rather than at its limit.
    """

    exits: tuple[Boundary, ...]
    bound: int
    complete: bool


@dataclass(slots=True, eq=False)
class _Node:
    value: int
    done: int
    ready: int
    resident: int
    host: int
    parent: int
    operator: int
    retrieved: int


class TrafficSearch:
    """Search for the order and evictions of least weighted traffic through one segment."""

    def __init__(self, problem: SegmentProblem, capacity_bytes: int, weights: TrafficWeights) -> None:
        self._problem = problem
        self._capacity = capacity_bytes
        self._weights = weights
        self._fronts: dict[int, list[_Node]] = {}
        smallest = min(problem.size_bytes, default=0)
        self._least_read, self._least_write = weights.read * smallest, weights.write * smallest

    def run(
        self,
        entries: Sequence[Boundary],
        state_limit: int,
        *,
        every_exit: bool = False,
        deadline: float = math.inf,
    ) -> Exploration:
        """Search from `entries` to the end of the segment.

        Args:
            entries: Situations before the segment.
            state_limit: States made before giving up.
            every_exit: Look for all exits that matter to what follows, not only the cheapest.
            deadline: time (`clock.wall_seconds`) after which to give up too.
        """
        problem = self._problem
        everything = (1 << len(problem.operators)) - 1
        nodes: list[_Node] = []
        queue: list[tuple[int, int, int, int]] = []  # least value, operators left, node, operator to run next or _ANY
        left = everything.bit_count()

        def enter(node: _Node) -> None:
            if self._admit(node):
                heapq.heappush(queue, (node.value, left - node.done.bit_count(), len(nodes), _ANY))
                nodes.append(node)

        for position, entry in enumerate(entries):
            enter(_Node(entry.value, 0, _first_ready(problem), entry.resident, entry.host, -1 - position, -1, 0))
        exits, bound, complete = list[Boundary](), 0, True
        # An exit dearer than the first by more than evicting everything live cannot matter to what follows.
        margin = (self._weights.read + self._weights.write) * problem.bytes_of(problem.live_out) if every_exit else 0
        for visited in itertools.count():
            if not queue or (exits and queue[0][0] > exits[0].value + margin):
                break
            late = visited % VISITS_BETWEEN_LOOKS == 0 and clock.wall_seconds() > deadline
            if late or len(nodes) > state_limit:
                complete = False
                break
            bound, _, number, operator = heapq.heappop(queue)
            node = nodes[number]
            if node not in self._fronts[node.done]:
                continue
            if operator != _ANY:
                for following in self._evictions(node, number, operator):
                    enter(following)
            elif node.done == everything:
                exits.append(_boundary(nodes, number))
                if not every_exit:
                    break
            else:
                for operator in self._worth_trying(node):
                    excess = self._excess_bytes(node, operator)
                    if excess <= 0:
                        enter(self._successor(node, number, operator, 0))
                    else:
                        # Sets of evictions are many: they are formed when nothing cheaper is left to look at.
                        least = node.value + self._least_cost(node, operator, excess)
                        heapq.heappush(queue, (least, left - node.done.bit_count(), number, operator))
        return Exploration(tuple(exits), exits[0].value if exits else bound, complete)

    def _worth_trying(self, node: _Node) -> Iterable[int]:
        """The operators that may run next: one that costs nothing where there is one, else all that are ready."""
        harmless = _harmless(self._problem, node, self._capacity)
        return members(node.ready) if harmless is None else (harmless,)

    def _admit(self, node: _Node) -> bool:
        """Enter the node among those with the same operators done, unless one of them makes it superfluous."""
        front = self._fronts.setdefault(node.done, [])
        if any(self._covers(known, node) for known in front):
            return False
        front[:] = [known for known in front if not self._covers(node, known)]
        front.append(node)
        return True

    def _covers(self, one: _Node, other: _Node) -> bool:
        """Whether evicting what only `one` holds, and writing what only `other` has off chip, leaves it no dearer."""
        spare = other.value - one.value
        if spare < 0:
            return False
        gone = one.resident & ~other.resident
        written = (gone | other.host) & one.resident & ~one.host
        if not gone | written:
            return True
        # Most pairs are told apart without adding up sizes.
        if spare < (self._least_read if gone else 0) + (self._least_write if written else 0):
            return False
        bytes_of = self._problem.bytes_of
        return self._weights.read * bytes_of(gone) + self._weights.write * bytes_of(written) <= spare

    def _excess_bytes(self, node: _Node, operator: int) -> int:
        """Bytes that must leave before the operator fits."""
        problem = self._problem
        needed = node.resident | problem.needs[operator]
        return problem.bytes_of(needed) + problem.parameter_bytes[operator] - self._capacity

    def _least_cost(self, node: _Node, operator: int, excess: int) -> int:
        """No evictions that free `excess` bytes for the operator cost less."""
        written = self._problem.bytes_of(node.resident & node.host & ~self._problem.needs[operator])
        return self._weights.read * excess + self._weights.write * max(0, excess - written)

    def _evictions(self, node: _Node, number: int, operator: int) -> Iterator[_Node]:
        """Run the operator after each set of evictions that makes room for it."""
        others = node.resident & ~self._problem.needs[operator]
        for evicted in _unsparing_sets(self._problem, others, self._excess_bytes(node, operator)):
            yield self._successor(node, number, operator, evicted)

    def _successor(self, node: _Node, number: int, operator: int, evicted: int) -> _Node:
        problem = self._problem
        needs = problem.needs[operator]
        after = node.done | 1 << operator
        dead = problem.dead(needs, after)
        cost = self._weights.read * problem.bytes_of(evicted)
        cost += self._weights.write * problem.bytes_of(evicted & ~node.host)
        return _Node(
            value=node.value + cost,
            done=after,
            ready=_next_ready(problem, node.ready, operator, after),
            resident=(node.resident | needs) & ~evicted & ~dead,
            host=(node.host | evicted) & ~dead,
            parent=number,
            operator=operator,
            retrieved=problem.reads[operator] & ~node.resident,
        )


def lowest_peak(problem: SegmentProblem, state_limit: int) -> Exploration:
    """The order of least peak footprint without spills (eq. 13-15); its exit's value is the peak in bytes."""
    everything = (1 << len(problem.operators)) - 1
    live = problem.live_in
    nodes = [_Node(problem.bytes_of(live), 0, _first_ready(problem), live, 0, -1, -1, 0)]
    queue = [(nodes[0].value, 0, 0)]
    best = {0: nodes[0].value}
    bound = 0
    while queue and len(nodes) <= state_limit:
        bound, _, number = heapq.heappop(queue)
        node = nodes[number]
        if node.done == everything:
            return Exploration((_boundary(nodes, number),), bound, True)
        if node.value > best[node.done]:
            continue
        harmless = _harmless(problem, node, node.value)
        for operator in members(node.ready) if harmless is None else (harmless,):
            during = node.resident | problem.makes[operator]
            after = node.done | 1 << operator
            peak = max(node.value, problem.bytes_of(during) + problem.parameter_bytes[operator])
            if peak < best.get(after, peak + 1):
                best[after] = peak
                ready = _next_ready(problem, node.ready, operator, after)
                live = during & ~problem.dead(problem.needs[operator], after)
                heapq.heappush(queue, (peak, -after.bit_count(), len(nodes)))
                nodes.append(_Node(peak, after, ready, live, 0, number, operator, 0))
    return Exploration((), bound, False)


def _harmless(problem: SegmentProblem, node: _Node, capacity_bytes: int) -> int | None:
    """An operator that some optimal completion runs now, if there is an evident one.

    It fits beside everything resident, and what it leaves is no larger than the smallest of the inputs it frees,
    one of which has no copy off chip. Wherever a completion keeps one of those inputs, the output can be kept
    instead; wherever it has evicted them all, the output can be evicted at no greater cost.
    """
    for operator in members(node.ready):
        if problem.reads[operator] & ~node.resident:
            continue
        after = node.done | 1 << operator
        made = problem.makes[operator] & ~problem.dead(problem.makes[operator], after)
        if made:
            freed = problem.dead(problem.reads[operator], after)
            if not freed & ~node.host:
                continue
            if problem.bytes_of(made) > min(problem.size_bytes[t] for t in members(freed)):
                continue
        during = problem.bytes_of(node.resident | problem.makes[operator]) + problem.parameter_bytes[operator]
        if during <= capacity_bytes:
            return operator
    return None


def _first_ready(problem: SegmentProblem) -> int:
    ready = 0
    for operator, predecessors in enumerate(problem.predecessors):
        if not predecessors:
            ready |= 1 << operator
    return ready


def _next_ready(problem: SegmentProblem, ready: int, operator: int, done: int) -> int:
    """The mask of ready operators once `operator`, the last of `done`, has run."""
    ready &= ~(1 << operator)
    for follower in members(problem.successors[operator]):
        if not problem.predecessors[follower] & ~done:
            ready |= 1 << follower
    return ready


def _unsparing_sets(problem: SegmentProblem, candidates: int, excess_bytes: int) -> Iterator[int]:
    """Every set of `candidates` that frees at least `excess_bytes` > 0 and of which no member can be spared."""
    sizes = problem.size_bytes
    # Largest first: a set is complete as soon as it frees enough, so its last and smallest member was needed.
    ordered = sorted(members(candidates), key=lambda t: -sizes[t])
    suffix = [0] * (len(ordered) + 1)
    for position in reversed(range(len(ordered))):
        suffix[position] = suffix[position + 1] + sizes[ordered[position]]

    def extend(position: int, mask: int, missing: int) -> Iterator[int]:
        if missing <= 0:
            yield mask
            return
        if suffix[position] < missing:
            return
        yield from extend(position + 1, mask | 1 << ordered[position], missing - sizes[ordered[position]])
        yield from extend(position + 1, mask, missing)

    yield from extend(0, 0, excess_bytes)


def _boundary(nodes: Sequence[_Node], number: int) -> Boundary:
    last = nodes[number]
    steps = []
    node = last
    while node.operator >= 0:
        steps.append((node.operator, node.retrieved))
        node = nodes[node.parent]
    return Boundary(last.value, last.resident, last.host, tuple(reversed(steps)), -1 - node.parent)
