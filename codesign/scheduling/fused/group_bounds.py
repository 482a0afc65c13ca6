"""What a fused schedule costs at least, group after group: a tensor on the chip is whole, or its users share a loop (F2).

The outermost sequence of a schedule is a walk over groups. A group of several operators needs a loop that all of them share, and at each place
between two of them a tensor stays. So each operator of a group may only have certain tensors on the chip, and costs at least its least with those.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from codesign.mapping.looptree import Goal
from codesign.scheduling.fused.sharing import Sharing, State

Pair = tuple[float, float]
"""Energy and seconds."""

Chip = frozenset[str]


@dataclass(frozen=True)
class Group:
    """A group after a state.

    Args:
        source, target: The states before and after it.
        options: For each of its operators the sets of tensors that may be on the chip, with the least of each.
        least: Of each operator.
    """

    source: State
    target: State
    options: tuple[dict[Chip, Pair], ...]
    least: tuple[Pair, ...]


@dataclass(frozen=True)
class Outside:
    """What the operators outside some of them cost at least.

    Args:
        before, after: Of the operators before each place and after it.
        on: For an operator and its tensors on the chip, of all others.
        chips: For each operator the sets of tensors that may be on the chip.
    """

    before: tuple[Pair, ...]
    after: tuple[Pair, ...]
    on: dict[tuple[int, Chip], Pair]
    chips: tuple[frozenset[Chip], ...]

    def rest(self, first: int, last: int) -> Pair:
        """Of all operators outside first..last."""
        return _sum(self.before[first], self.after[last + 1])


class GroupBounds:
    """Least energy and seconds of all walks over groups.

    Args:
        sharing: What the operators share.
        capacity: Bits of the shared level.
        goal, leak: What is minimised.
        least: For each operator and set of its tensors on the chip the least energy and seconds, each alone.
    """

    def __init__(
        self, sharing: Sharing, capacity: float, goal: Goal, leak: float, least: Sequence[Mapping[Chip, Pair]]
    ) -> None:
        self.sharing, self.capacity, self.goal, self.leak, self.least = sharing, capacity, goal, leak, least
        self.count = len(sharing.operators)
        self.start: State = (0, frozenset())
        self.end: State = (self.count, frozenset())
        self.groups: list[Group] = []
        ahead: dict[State, list[Pair]] = {self.start: [(0.0, 0.0)]}
        for at in range(self.count):
            for state in [s for s in ahead if s[0] == at]:
                for group in self._groups(state):
                    self.groups.append(group)
                    more = [_sum(pair, _total(group.least)) for pair in ahead[state]]
                    ahead[group.target] = _undominated([*ahead.get(group.target, []), *more])
        values = [goal.of(*pair, leak) for pair in ahead.get(self.end, [])]
        self.bound = min(values, default=math.inf)

    def _groups(self, state: State) -> Iterator[Group]:
        at, live = state
        for end, grown, stay in self.sharing.next_parts(0, self.count - 1, at, live, ()):
            if self.sharing.held(grown, ()) > self.capacity:
                continue
            forced = self._forced(at, end)
            if forced is None:
                continue
            options = tuple(self._options(i, at, end, grown, forced) for i in range(at, end + 1))
            if all(options):
                yield Group(state, (end + 1, stay), options, tuple(_least(o.values()) for o in options))

    def _forced(self, first: int, last: int) -> Chip | None:
        """Tensors that must stay inside a group, being the only ones between two of its operators; None where there is none."""
        inside = [t for t in self.sharing.touching(first, last) if self.sharing.inside(t, first, last)]
        found = set()
        for place in range(first, last):
            crossing = [t for t in inside if self.sharing.users[t][0] <= place < self.sharing.users[t][-1]]
            if not crossing:
                return None
            if len(crossing) == 1:
                found.add(crossing[0])
        return frozenset(found)

    def _options(self, operator: int, first: int, last: int, grown: Chip, forced: Chip) -> dict[Chip, Pair]:
        """Sets of an operator's tensors on the chip as part of a group; what is not inside the group is decided."""
        own = frozenset(self.sharing.touching(operator, operator))
        decided = frozenset(t for t in own if not self.sharing.inside(t, first, last))
        return {
            chip: least
            for chip, least in self.least[operator].items()
            if chip & decided == grown & decided and forced & own <= chip
        }

    def within(self, limit: float) -> Outside | None:
        """What operators outside others cost at least in a schedule of at most `limit`; None where there is none."""
        ahead, behind = self._sums(self.groups, False), self._sums(self.groups, True)
        of, leak = self.goal.of, self.leak
        kept = []
        for group in self.groups:
            around = _sum(ahead[group.source], behind.get(group.target, (math.inf, math.inf)))
            if of(*_sum(around, _total(group.least)), leak) <= limit:
                kept.append(group)
        ahead, behind = self._sums(kept, False), self._sums(kept, True)
        if self.end not in ahead:
            return None
        count = self.count
        before, after = [(math.inf, math.inf)] * (count + 1), [(math.inf, math.inf)] * (count + 1)
        on: dict[tuple[int, Chip], Pair] = {}
        for group in kept:
            if group.source not in ahead or group.target not in behind:
                continue
            first, front, back = group.source[0], ahead[group.source], behind[group.target]
            for place in range(len(group.least) + 1):
                k = first + place
                before[k] = _lesser(before[k], _sum(front, _total(group.least[:place])))
                after[k] = _lesser(after[k], _sum(back, _total(group.least[place:])))
            for i, options in enumerate(group.options):
                others = _sum(_sum(front, back), _total((*group.least[:i], *group.least[i + 1 :])))
                for chip, least in options.items():
                    if of(*_sum(others, least), leak) <= limit:
                        key = first + i, chip
                        on[key] = _lesser(on.get(key, (math.inf, math.inf)), others)
        chips = tuple(frozenset(chip for i, chip in on if i == operator) for operator in range(count))
        return Outside(tuple(before), tuple(after), on, chips)

    def _sums(self, groups: Sequence[Group], backwards: bool) -> dict[State, Pair]:
        """Least energy and least seconds from the start to every state, or from it to the end."""
        found: dict[State, Pair] = {self.end if backwards else self.start: (0.0, 0.0)}
        for group in reversed(groups) if backwards else groups:
            here, there = (group.target, group.source) if backwards else (group.source, group.target)
            if here in found:
                more = _sum(found[here], _total(group.least))
                found[there] = _lesser(found.get(there, (math.inf, math.inf)), more)
        return found


def _sum(a: Pair, b: Pair) -> Pair:
    return a[0] + b[0], a[1] + b[1]


def _total(pairs: Sequence[Pair]) -> Pair:
    return sum(e for e, _ in pairs), sum(s for _, s in pairs)


def _lesser(a: Pair, b: Pair) -> Pair:
    return min(a[0], b[0]), min(a[1], b[1])


def _least(pairs: Iterable[Pair]) -> Pair:
    every = list(pairs)
    return min(e for e, _ in every), min(s for _, s in every)


def _undominated(pairs: list[Pair]) -> list[Pair]:
    found: list[Pair] = []
    for pair in sorted(pairs):
        if not found or pair[1] < found[-1][1]:
            found.append(pair)
    return found
