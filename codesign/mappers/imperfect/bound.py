"""What no mapping with imperfect factors can beat: a bound level by level (rules IB1 to IB6).

Along one dimension of bound N a tile of x needs at least ceil(N / x) steps, and of all tiles with the same number of steps the
least one is best. So at most 2 sqrt(N) tiles matter, whatever the loops around them.

* IB1: A tile of x takes at least ceil(N / x) steps. Of tiles with equal steps only the least matters: at most 2
  sqrt(N).
* IB2: With a spatial factor s a dimension takes at least ceil(N / s) steps.
* IB3: A word sent to the MACs serves at most the children that share links.
* IB4: A tensor that the loop directly outside a level indexes arrives at least (its words) x (product of ceil(N / x)
  over dimensions that do not index it); any other once. The parent sends ceil(steps / s) times its words, s children
  sharing.
* IB5: Energy is at least MACs, IB3 and IB4, the least over keep sets.
* IB6: Latency is at least IB2 and the compulsory words at the outermost port; a product that of both.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from codesign.core.factors import tile_counts
from codesign.core.goals import Objective
from codesign.cost.arrays import Problem, encode_problem
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.space import kept_and_free
from codesign.workloads.computation import Computation
from codesign.workloads.touched import touched_words

Ints = NDArray[np.int64]

_MOST_CHILDREN = 4096
"""Fan-outs above this are taken as one factor for every class."""


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


@dataclass(frozen=True)
class _Bound:
    """The tables of one problem with its keep sets given."""

    problem: MappingProblem
    arrays: Problem
    keep: Ints

    @cached_property
    def classes(self) -> list[tuple[tuple[bool, ...], list[int]]]:
        """Dimensions by the tensors they index."""
        found: dict[tuple[bool, ...], list[int]] = {}
        computation = self.problem.computation
        for d, dim in enumerate(computation.dims):
            found.setdefault(tuple(dim in t.dims for t in computation.tensors), []).append(d)
        return list(found.items())

    @cached_property
    def words(self) -> Ints:
        """Words of every tensor that are used at all."""
        computation = self.problem.computation
        return np.array([touched_words(computation, t) for t in computation.tensors], np.int64)

    def energy(self) -> float:
        """A bound on the energy."""
        total = float(self.arrays.macs * self.arrays.mac_energy) + self._at_macs()
        levels = len(self.problem.architecture.levels)
        return total + sum(self._entering(v) for v in range(1, levels))

    def cycles(self) -> float:
        """A bound on the cycles: of computing, and of the port of the outermost level (rule IB6)."""
        least = float(fewest_steps(self.problem.computation, self.problem.architecture.mac_units))
        read_rate, write_rate = self.arrays.bandwidth[0]
        words = self.words * self.arrays.words[0]
        reading = float(words[:-1].sum()) / read_rate if read_rate > 0.0 else 0.0
        writing = float(words[-1]) / write_rate if write_rate > 0.0 else 0.0
        port = reading + writing if self.arrays.one_port[0] else max(reading, writing)
        return max(least, math.ceil(port * (1.0 - 1e-12)))

    def _parent(self, v: int, t: int) -> int:
        """The next level out of v that keeps t; -1 if v is the outermost."""
        return next((u for u in range(v - 1, -1, -1) if self.keep[u, t]), -1)

    def _fan(self, outer: int, inner: int) -> tuple[int, int]:
        """Children between two levels, and those that links share words among."""
        every, sharing = 1, 1
        for m in range(outer, inner):
            children = int(self.arrays.fanout[m].prod())
            every *= children
            sharing *= children if self.arrays.shares[m] else 1
        return every, sharing

    def _price(self, u: int, v: int, t: int) -> tuple[float, float]:
        """Energy of a word that u sends towards v, and of one that arrives at v (at the MACs if v is past the last level)."""
        read, _, update = self.arrays.energy[u, t]
        output = t == len(self.words) - 1
        sent = float(update + read if output else read)
        arrived = 0.0 if v == len(self.keep) else float(self.arrays.energy[v, t, 1])
        for m in range(u, v):
            fixed, copied = self.arrays.hops[m] * self.arrays.hop_energy[m, t]
            sent += float(fixed + (copied if m < v - 1 else 0.0))
            arrived += float(copied if m == v - 1 else 0.0)
        return sent, arrived

    def _at_macs(self) -> float:
        """Energy of what the innermost levels send to the MACs: every step, shared by children that want the same word (rule IB3)."""
        levels, total = len(self.keep), 0.0
        macs = self.arrays.macs
        for t, words in enumerate(self.words):
            u = max(v for v in range(levels) if self.keep[v, t])
            _, sharing = self._fan(u, levels)
            sent_pj, arrived_pj = self._price(u, levels, t)
            sent = max(float(words), macs / sharing)
            total += sent * sent_pj + macs * arrived_pj
            if t == len(self.words) - 1:
                total -= float(self.arrays.energy[u, t, 0]) * min(sent, float(words) * self._fan(0, u)[0])
        return total

    @cached_property
    def _longest(self) -> int:
        """Of the dimensions that stand alone on every axis the one with most tiles; -1 if there is none.

        The bits of all tiles are linear in its tile, so its largest one that fits is a division.
        """
        computation = self.problem.computation
        shared = {d for t in computation.tensors for a in t.axes if len(a.terms) > 1 for d, _ in a.terms}
        shared |= {d for t in computation.tensors for a in t.axes for d, c in a.terms if c > 1}
        alone = [d for d, dim in enumerate(computation.dims) if dim not in shared]
        return max(alone, key=lambda d: computation.bounds[d], default=-1)

    def _options(self, v: int) -> Ints:
        """Undominated (steps of every class) of the tiles that fit level v: ``n x C`` (rule IB1)."""
        computation = self.problem.computation
        kept = [t for t in range(len(computation.tensors)) if self.keep[v, t]]
        limit = int(self.arrays.capacity_bits[v])
        class_of = {d: c for c, (_, dims) in enumerate(self.classes) for d in dims}
        grid = np.ones((1, 0), np.int64)
        steps = np.ones((1, len(self.classes)), np.int64)
        placed: list[int] = []
        for d in sorted(class_of, key=lambda d: computation.bounds[d]):
            if d == self._longest:
                continue
            table = np.array(least_tiles(computation.bounds[d]), np.int64)
            rows, columns = len(grid), len(table)
            grid = np.hstack([np.repeat(grid, columns, axis=0), np.tile(table[:, 1], rows)[:, None]])
            steps = np.repeat(steps, columns, axis=0)
            steps[:, class_of[d]] *= np.tile(table[:, 0], rows)
            placed.append(d)
            fits = self._bits(v, kept, grid, placed) <= limit
            grid, steps = grid[fits], steps[fits]
        if self._longest >= 0 and len(grid):
            placed.append(self._longest)
            bits = [self._bits(v, kept, np.hstack([grid, np.full((len(grid), 1), n)]), placed) for n in (1, 2)]
            bound = computation.bounds[self._longest]
            more = np.maximum(0, limit - bits[0]) // np.maximum(1, bits[1] - bits[0])
            tile = np.where(bits[1] > bits[0], np.minimum(bound, 1 + more), bound)
            steps[:, class_of[self._longest]] *= -(-bound // tile)
        return _undominated(steps)

    def _bits(self, v: int, kept: list[int], grid: Ints, placed: list[int]) -> Ints:
        """Bits of the tiles; dimensions not placed yet count as 1."""
        total = np.zeros(len(grid), np.int64)
        computation = self.problem.computation
        for t in kept:
            words = np.ones(len(grid), np.int64)
            for axis in computation.tensors[t].axes:
                extent = np.ones(len(grid), np.int64)
                for dim, coefficient in axis.terms:
                    d = computation.dims.index(dim)
                    if d in placed:
                        extent += coefficient * (grid[:, placed.index(d)] - 1)
                words *= extent
            total += words * int(self.arrays.element_bits[v, t])
        return total

    def _entering(self, v: int) -> float:
        """Least energy of all that enters level v and of its parents that send it (rules IB4 and IB5)."""
        tensors = [t for t in range(len(self.words)) if self.keep[v, t] and self._parent(v, t) >= 0]
        if not tensors:
            return 0.0
        options = self._options(v)
        if not len(options):
            return math.inf
        best = math.inf
        parents = {self._parent(v, t) for t in tensors}
        together = max(self._fan(u, v)[1] for u in parents)
        splits = _splits(together, len(self.classes))
        for indexed, _ in [*self.classes, ((False,) * len(self.words), [])]:
            best = min(best, self._least(v, tensors, indexed, options, splits))
        return best

    def _least(self, v: int, tensors: list[int], indexed: tuple[bool, ...], options: Ints, splits: Ints) -> float:
        """The least over tiles and spatial factors when the loop directly outside moves the tensors `indexed`."""
        moving = [t for t in tensors if indexed[t]]
        total = np.zeros((len(options), len(splits)))
        for t in tensors:
            u = self._parent(v, t)
            sent_pj, arrived_pj = self._price(u, v, t)
            words = float(self.words[t])
            still = [c for c, (index, _) in enumerate(self.classes) if not index[t]]
            if t in moving and still:
                steps = options[:, still].prod(axis=1).astype(float)
                shared = splits[:, still].prod(axis=1).astype(float)
                arrived = words * steps[:, None] * np.ones((1, len(splits)))
                sent = words * np.maximum(1.0, np.ceil(steps[:, None] / shared[None, :] - 1e-9))
            else:
                arrived = sent = np.full(total.shape, words)
            if t == len(self.words) - 1:
                read, fill = float(self.arrays.energy[u, t, 0]), float(self.arrays.energy[v, t, 1])
                total -= read * np.minimum(sent, words * self._fan(0, u)[0]) + fill * np.minimum(
                    arrived, words * self._fan(0, v)[0]
                )
            total += sent * sent_pj + arrived * arrived_pj
        return float(total.min())


def _splits(children: int, classes: int) -> Ints:
    """Largest integer factors of every class whose product is at most `children`: ``n x C``."""
    if children > _MOST_CHILDREN:
        return np.full((1, classes), children, np.int64)
    found = np.ones((1, 0), np.int64)
    left = np.full(1, children, np.int64)
    for c in range(classes):
        rows = []
        for row, room in zip(found, left, strict=True):
            values = {room // (room // k) for k in range(1, room + 1)} if c < classes - 1 else {room}
            rows += [(*row, value) for value in values]
        found = np.array(rows, np.int64).reshape(-1, c + 1)
        left = children // found.prod(axis=1)
    return found


def _undominated(rows: Ints) -> Ints:
    """Distinct rows that no other row is below or equal to in every column."""
    if len(rows) < 2:
        return rows
    from moocore import is_nondominated

    unique = np.unique(rows, axis=0)
    kept: Ints = unique[is_nondominated(unique.astype(float), keep_weakly=False)]
    return kept


def keep_sets(keep: Ints, free: Ints) -> Iterator[Ints]:
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
    if len(free) > 6:
        return 0.0
    energy = math.inf
    cycles = math.inf
    for chosen in keep_sets(keep, free):
        bound = _Bound(problem, arrays, chosen)
        energy, cycles = min(energy, bound.energy()), min(cycles, bound.cycles())
    return objective.score(energy, cycles)
