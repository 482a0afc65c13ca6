"""The states of the dynamic program: which tensors still wait for the loop that makes their tile change.

Going from the MACs outwards, a *boundary* (a tensor kept at a level below the outermost) is *open* until the first
loop that indexes its tensor; until then every loop is free for it. A state counts the open boundaries of each
tensor (the newest ones are the open ones) and, for tensors whose windows slide, how many of them have met no loop
at all. The tables depend on keep sets and constraints only, never on tile sizes, so they are cached.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from codesign.mapping.nest import IntArray

FREE_STAGE = -1


@dataclass(frozen=True)
class LevelRules:
    """What the constraints leave of one level's temporal loops, over the dimensions of the lattice.

    Args:
        ordered: Dimensions that must be innermost, innermost first.
        free: Dimensions that may be looped over with any factor (ordered ones included).
        fixed: Pairs (dimension, factor > 1) that must be looped over.
    """

    ordered: tuple[int, ...] = ()
    free: frozenset[int] = frozenset()
    fixed: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, eq=False)
class States:
    """Tables of the state machine. S in-level states then V untouched ones share one index; T tensors, D dimensions.

    In-level states come in an order in which each depends only on earlier ones of its level and on outer levels.

    Attributes:
        n_inner: S.
        level: ``S + V`` level of each state.
        open: ``S + V`` bit mask of the tensors with open boundaries.
        count: ``(S + V) x T`` open boundaries.
        virgin: ``(S + V) x T`` of these, how many have met no loop; 0 for in-level states.
        close: ``(S + V) x T`` state after closing a tensor, -1 if it is not open.
        stage_dim: ``S + V`` dimension whose loop the state decides next, -1 in the stage of free order.
        advance: ``S + V`` state after that decision, -1 in the stage of free order.
        waiting: ``S + V`` bit mask of fixed loops (in the level's list) still to be placed.
        place: ``(S + V) x F`` state after placing one of them, -1.
        outer: ``S + V`` state at the start of the next level out when this level ends here; -1 if it may not
            end here, -2 at the outermost level.
        body: ``S + V`` the in-level state with the same counts (itself for in-level states).
        start: state at the start of the innermost level.
        first: ``L + 1`` where the in-level states of each level begin, outermost level first.
        first_virgin: ``L + 1`` the same of the untouched states.
        fixed_dim: ``L x F`` and
        fixed_factor: ``L x F`` the fixed loops of each level, -1 padded.
    """

    n_inner: int
    level: IntArray
    open: IntArray
    count: IntArray
    virgin: IntArray
    close: IntArray
    stage_dim: IntArray
    advance: IntArray
    waiting: IntArray
    place: IntArray
    outer: IntArray
    body: IntArray
    start: int
    first: IntArray
    first_virgin: IntArray
    fixed_dim: IntArray
    fixed_factor: IntArray


Counts = tuple[int, ...]
_Inner = tuple[int, Counts, int, int]  # level, counts, stage, waiting
_Virgin = tuple[int, Counts, Counts, int]  # level, counts, virgin, stage


@lru_cache(maxsize=4096)
def make_states(keep: tuple[tuple[bool, ...], ...], slides: tuple[bool, ...], rules: tuple[LevelRules, ...]) -> States:
    """Build the tables.

    Args:
        keep: ``L x T`` whether a level keeps a tensor, outermost first.
        slides: ``T`` whether windows of the tensor overlap.
        rules: One entry a level.
    """
    builder = _Builder(keep, slides, rules)
    builder.explore()
    return builder.tables()


class _Builder:
    """Collects the states reachable from the innermost level, then numbers them."""

    def __init__(
        self, keep: tuple[tuple[bool, ...], ...], slides: tuple[bool, ...], rules: tuple[LevelRules, ...]
    ) -> None:
        self.keep, self.slides, self.rules = keep, slides, rules
        self.n_levels, self.n_tensors = len(keep), len(slides)
        self.inner: list[set[Counts]] = [set() for _ in keep]  # counts at any point inside a level
        self.starts: list[set[tuple[Counts, Counts]]] = [set() for _ in keep]

    def outer_start(self, level: int, count: Counts, virgin: Counts, touched: bool) -> tuple[Counts, Counts]:
        """Counts at the start of the next level out."""
        kept = self.keep[level]
        after = tuple(c + k for c, k in zip(count, kept, strict=True))
        fresh = tuple(
            ((0 if touched else j) + k) if s else 0 for j, k, s in zip(virgin, kept, self.slides, strict=True)
        )
        return after, fresh

    def explore(self) -> None:
        zero = (0,) * self.n_tensors
        self.starts[-1].add((zero, zero))
        for level in range(self.n_levels - 1, -1, -1):
            for count, virgin in self.starts[level]:
                for closed in product(*[(c,) if c == 0 else (c, 0) for c in count]):
                    self.inner[level].add(closed)
                if level:
                    self.starts[level - 1].add(self.outer_start(level, count, virgin, touched=False))
            if level:
                for count in self.inner[level]:
                    self.starts[level - 1].add(self.outer_start(level, count, zero, touched=True))

    def tables(self) -> States:
        inner: list[_Inner] = []
        virgin: list[_Virgin] = []
        first, first_virgin = [0], [0]
        for level, rule in enumerate(self.rules):
            stages, fixed = len(rule.ordered), self.free_fixed(level)
            for stage in range(stages, -1, -1):
                masks = range(1 << len(fixed)) if stage == stages else [(1 << len(fixed)) - 1]
                for count in sorted(self.inner[level], key=lambda c: (sum(x > 0 for x in c), c)):
                    inner.extend((level, count, stage, mask) for mask in masks)
                virgin.extend((level, c, j, stage) for c, j in sorted(self.starts[level]) if any(j))
            first.append(len(inner))
            first_virgin.append(len(virgin))
        return self.fill(inner, virgin, first, first_virgin)

    def free_fixed(self, level: int) -> list[tuple[int, int]]:
        """Fixed loops whose place in the order is free."""
        rule = self.rules[level]
        return [(d, f) for d, f in rule.fixed if d not in rule.ordered]

    def fill(self, inner: list[_Inner], virgin: list[_Virgin], first: list[int], first_virgin: list[int]) -> States:
        keys: list[_Inner | _Virgin] = [*inner, *virgin]
        where = {key: i for i, key in enumerate(keys)}
        total, zero = len(where), (0,) * self.n_tensors
        width = max(1, max(len(self.free_fixed(v)) for v in range(self.n_levels)))
        full = [(1 << len(self.free_fixed(v))) - 1 for v in range(self.n_levels)]

        def start_of(level: int, count: Counts, fresh: Counts) -> int:
            if any(fresh):
                return where[level, count, fresh, 0]
            return where[level, count, 0, full[level]]

        rows = {n: np.full(total, -1, np.int64) for n in ("level", "open", "stage", "advance", "wait", "outer", "body")}
        count_of, virgin_of, close = (np.zeros((total, self.n_tensors), np.int64) for _ in range(3))
        place = np.full((total, width), -1, np.int64)
        close[:] = -1
        for i, key in enumerate(keys):
            level, count, rule = key[0], key[1], self.rules[key[0]]
            fresh, stage, mask = self.parts(key, full[level])
            last = stage == len(rule.ordered)
            rows["level"][i], rows["wait"][i] = level, mask
            rows["open"][i] = sum(1 << t for t, c in enumerate(count) if c)
            rows["body"][i] = where[level, count, stage, mask]
            rows["stage"][i] = FREE_STAGE if last else rule.ordered[stage]
            count_of[i], virgin_of[i] = count, fresh
            for t, c in enumerate(count):
                if c:
                    close[i, t] = where[level, (*count[:t], 0, *count[t + 1 :]), stage, mask]
            if not last:
                following = (level, count, fresh, stage + 1) if i >= len(inner) else None
                rows["advance"][i] = where[following or (level, count, stage + 1, full[level])]
            for f in range(len(self.free_fixed(level))):
                if last and mask >> f & 1:
                    place[i, f] = where[level, count, stage, mask & ~(1 << f)]
            if last and mask == 0:
                touched = i < len(inner)
                rows["outer"][i] = start_of(level - 1, *self.outer_start(level, count, fresh, touched)) if level else -2
        return States(
            n_inner=len(inner),
            level=rows["level"],
            open=rows["open"],
            count=count_of,
            virgin=virgin_of,
            close=close,
            stage_dim=rows["stage"],
            advance=rows["advance"],
            waiting=rows["wait"],
            place=place,
            outer=rows["outer"],
            body=rows["body"],
            start=start_of(self.n_levels - 1, zero, zero),
            first=np.array(first, np.int64),
            first_virgin=np.array(first_virgin, np.int64),
            fixed_dim=self.padded(width, 0),
            fixed_factor=self.padded(width, 1),
        )

    def parts(self, key: _Inner | _Virgin, full: int) -> tuple[Counts, int, int]:
        """Untouched counts, stage and waiting loops of a state."""
        if isinstance(key[2], tuple):
            return key[2], key[3], full
        return (0,) * self.n_tensors, key[2], key[3]

    def padded(self, width: int, column: int) -> IntArray:
        table = np.full((self.n_levels, width), -1, np.int64)
        for v in range(self.n_levels):
            for i, pair in enumerate(self.free_fixed(v)):
                table[v, i] = pair[column]
        return table
