"""From the tables of the dynamic program back to a loop nest."""

from dataclasses import dataclass, field

import numpy as np

from codesign.mappers.exact.one_keep_set.dynamic_program import cross_point
from codesign.mappers.exact.one_keep_set.fixed_keep_set import FixedKeep, KeepSets
from codesign.mappers.exact.one_keep_set.loop_step import after_loop, may_loop, most_after, slide_cost, slides_here
from codesign.mappers.exact.problem.instance import Instance
from codesign.mappers.exact.problem.loop_rows import LoopRows
from codesign.mappers.exact.problem.tables import Charges, Machine
from codesign.mapping.nest import FloatArray, IntArray, Nest

_EXACT = 1e-12


@dataclass
class LevelLoops:
    """Loops of one level: temporal innermost first, spatial as factor by dimension."""

    temporal: list[tuple[int, int]] = field(default_factory=list)
    spatial: dict[int, int] = field(default_factory=dict)

    def add(self, dim: int, factor: int) -> None:
        """Append a temporal loop; a second loop over a dimension joins the first, which never costs more."""
        for i, (d, f) in enumerate(self.temporal):
            if d == dim:
                self.temporal[i] = (d, f * factor)
                return
        self.temporal.append((dim, factor))


@dataclass(frozen=True, eq=False)
class Traced:
    """A nest read off the tables.

    Attributes:
        nest: Its arrays.
        count: Its number of loops.
        words: ``B`` words the dynamic program counted across every boundary.
        optimistic: Whether it counted on a chain going on, so that the nest may cost more.
    """

    nest: Nest
    count: int
    words: FloatArray
    optimistic: bool


def trace_nest(fixed: FixedKeep, charges: Charges, tight: bool = True) -> Traced:
    """The nest of the least cost in the tables that `FixedKeep.run` has just filled for these charges."""
    tracer = _Tracer(fixed, charges, tight)
    nest, count = build_nest(fixed.instance, fixed.keep, tracer.walk())
    return Traced(nest, count, tracer.words, tracer.optimistic)


def build_nest(instance: Instance, keep: KeepSets, levels: list[LevelLoops]) -> tuple[Nest, int]:
    """The nest of a full set of loops, and their number."""
    rows = LoopRows(instance)
    for v, loops in enumerate(levels):
        for tensor in np.flatnonzero(keep[v]):
            rows.node(v, int(tensor))
        for d, f in reversed(loops.temporal):
            rows.temporal(d, f)
        rows.fanout(v, loops.spatial)
    return rows.nest()


class _Tracer:
    """Follows equal values from the innermost level outwards."""

    def __init__(self, fixed: FixedKeep, charges: Charges, tight: bool) -> None:
        self.fixed, self.charges, self.tight = fixed, charges, tight
        self.table: FloatArray = fixed.table[0]
        self.machine: Machine = fixed.machine
        self.lattice = fixed.instance.lattice
        self.grid = self.lattice.grid
        self.chains = fixed.chains()
        self.words = np.zeros(len(fixed.boundaries))
        self.optimistic = False
        self.whole = 0.0
        self.levels = [LevelLoops() for _ in range(fixed.instance.n_levels)]

    def walk(self) -> list[LevelLoops]:
        states = self.fixed.states
        level = self.fixed.instance.n_levels - 1
        s = states.start
        self.whole = abs(self.value_across(s, 0, level))
        x = self.enter(s, 0, level)
        while s != -2:
            s, x = self.step(s, x, int(states.level[s]))
        return self.levels

    def value_across(self, s: int, x: int, m: int) -> float:
        c = self.charges
        return float(cross_point(self.table[s], x, m, self.grid, c.group, c.vector, c.factors))

    def enter(self, s: int, x: int, m: int) -> int:
        """Cross fan-out m into state s: choose the vectors, record them, return the tile outside."""
        wanted = self.value_across(s, x, m)
        found = self.search_vectors(s, x, int(self.charges.group[m]), int(self.charges.group[m + 1]), wanted)
        if found is None:
            raise AssertionError("the tables of the dynamic program do not add up")
        divisors = self.fixed.instance.lattice.divisors
        for vector in found[1]:
            for d, j in enumerate(vector):
                if j > 0:
                    self.levels[m].spatial[d] = divisors[d][int(j)]
        return found[0]

    def search_vectors(self, s: int, x: int, g: int, past: int, wanted: float) -> tuple[int, list[IntArray]] | None:
        if g == past:
            return (x, []) if self.table[s, x] == wanted else None
        for v in range(int(self.charges.vector[g]), int(self.charges.vector[g + 1])):
            vector, y = self.charges.factors[v], x
            for d, j in enumerate(vector):
                y = self.lattice.grown(y, d, int(j)) if j > 0 and y >= 0 else y
            rest = self.search_vectors(s, y, g + 1, past, wanted) if y >= 0 else None
            if rest is not None:
                return rest[0], [vector, *rest[1]]
        return None

    def step(self, s: int, x: int, level: int) -> tuple[int, int]:
        """One transition that keeps the value: the state and tile after it; state -2 when the nest is complete."""
        states = self.fixed.states
        wanted = float(self.table[s, x])
        found = self.end_level(s, x, level, wanted)
        if found is not None:
            return found
        if s >= states.n_inner:
            return self.step_untouched(s, x, level, wanted)
        for t in range(self.fixed.instance.n_tensors):
            if states.open[s] >> t & 1 and self.same(self.closed_value(s, t, x, level), wanted):
                self.count_words(s, t, x, level)
                return int(states.close[s, t]), x
        loosely = None if self.tight else self.step_loosely(s, x, level, wanted)
        if loosely is not None:
            return loosely
        chained = self.step_loop(s, x, level, wanted) if self.tight else None
        if chained is not None:
            return chained
        d = int(states.stage_dim[s])
        if d >= 0:
            return self.step_ordered(s, x, level, d, wanted)
        for f in range(states.place.shape[1]):
            after, d = int(states.place[s, f]), int(states.fixed_dim[level, f])
            if after >= 0 and self.machine.relevant[d] & states.open[s] == 0:
                y = self.lattice.grown(x, d, int(self.machine.fixed_place[level, f]))
                if y >= 0 and self.table[after, y] == wanted:
                    self.levels[level].add(d, int(states.fixed_factor[level, f]))
                    return after, y
        return self.step_free(s, x, level, wanted)

    def same(self, value: float, wanted: float) -> bool:
        return abs(value - wanted) <= _EXACT * max(abs(wanted), self.whole)

    def end_level(self, s: int, x: int, level: int, wanted: float) -> tuple[int, int] | None:
        """End the level here if that keeps the value."""
        outer = int(self.fixed.states.outer[s])
        if outer == -1:
            return None
        if level == 0:
            done = x == self.table.shape[1] - 1 and self.fixed.states.open[s] == 0 and s < self.fixed.states.n_inner
            return (-2, x) if done else None
        if self.charges.penalty[level, x] > 0.0 or self.value_across(outer, x, level - 1) != wanted:
            return None
        return outer, self.enter(outer, x, level - 1)

    def closed_value(self, s: int, t: int, x: int, level: int) -> float:
        c, states = self.charges, self.fixed.states
        value = float(self.table[states.close[s, t], x])
        for i in range(int(states.count[s, t])):
            b = int(self.machine.boundary[level, t, i])
            words = float(c.base[c.base_of[level, b], x])
            total = float(c.scale[level, b]) * words
            if (c.least[b] > 0.0 or c.most[b] < np.inf) and not c.least[b] <= total <= c.most[b]:
                return float("inf")
            value += float(c.scale[level, b] * c.price[b]) * words
        return value

    def count_words(self, s: int, t: int, x: int, level: int, d: int = -1, j: int = 0) -> None:
        """Record the words of the boundaries of t that close here; with d, by a loop along a sliding axis."""
        c, h = self.charges, self.chains
        for i in range(int(self.fixed.states.count[s, t])):
            b = int(self.machine.boundary[level, t, i])
            words = float(c.base[c.base_of[level, b], x])
            chain = int(c.chain_of[level, t, d]) if d >= 0 else -1
            kind = int(i < self.fixed.states.virgin[s, t] and d >= 0 and c.slide_of[level, b, d] >= 0)
            more = float(h.table[chain, kind, j, h.axis_index[h.row_of[t, d], x]]) if chain >= 0 else 0.0
            self.optimistic = self.optimistic or more > 0.0
            if kind:
                kept = 1.0 - 1.0 / float(self.grid.divisor[d, j])
                words -= float(c.base[c.slide_of[level, b, d], x]) * (kept + more)
            else:
                words *= 1.0 - more
            self.words[b] = words * float(c.scale[level, b])

    def step_untouched(self, v: int, x: int, level: int, wanted: float) -> tuple[int, int]:
        states = self.fixed.states
        if self.same(float(self.table[states.body[v], x]), wanted):
            return int(states.body[v]), x
        if states.stage_dim[v] >= 0 and self.same(float(self.table[states.advance[v], x]), wanted):
            return int(states.advance[v]), x
        found = self.step_loop(v, x, level, wanted)
        if found is None:
            raise AssertionError("the tables of the dynamic program do not add up")
        return found

    def step_loosely(self, s: int, x: int, level: int, wanted: float) -> tuple[int, int] | None:
        """Close a tensor at the least its chains could make of it."""
        states, c = self.fixed.states, self.charges
        for t in range(self.fixed.instance.n_tensors):
            if not states.open[s] >> t & 1:
                continue
            for row in range(self.chains.tiles.shape[0]):
                share = 1.0 - float(most_after(level, t, row, c, self.chains)[self.chains.axis_index[row, x]])
                boundaries = [int(b) for b in self.machine.boundary[level, t, : int(states.count[s, t])]]
                words = {b: float(c.base[c.base_of[level, b], x] * c.scale[level, b]) * share for b in boundaries}
                cost = sum(w * float(c.price[b]) for b, w in words.items())
                allowed = all(c.least[b] <= w <= c.most[b] for b, w in words.items())
                if share < 1.0 and allowed and self.same(float(self.table[states.close[s, t], x]) + cost, wanted):
                    self.optimistic = True
                    for b, w in words.items():
                        self.words[b] = w
                    return int(states.close[s, t]), x
        return None

    def step_loop(self, s: int, x: int, level: int, wanted: float) -> tuple[int, int] | None:
        """Place one loop along a sliding axis if that keeps the value."""
        c, divisors = self.charges, self.fixed.instance.lattice.divisors
        for d in range(len(divisors)):
            if c.chain_of[level, :, d].max() < 0 and not slides_here(s, d, self.machine, c):
                continue
            for j in range(1, len(divisors[d])):
                y = self.lattice.grown(x, d, j) if may_loop(s, d, j, self.machine) else -1
                if y < 0:
                    continue
                following = after_loop(s, d, self.machine)
                cost = slide_cost(s, d, j, x, self.grid, self.machine, c, self.chains)
                if self.same(float(self.table[following, y]) + cost, wanted):
                    for t in range(self.fixed.instance.n_tensors):
                        if self.machine.relevant[d] >> t & 1:
                            self.count_words(s, t, x, level, d, j)
                    self.levels[level].add(d, divisors[d][j])
                    return following, y
        return None

    def step_ordered(self, s: int, x: int, level: int, d: int, wanted: float) -> tuple[int, int]:
        states = self.fixed.states
        after = int(states.advance[s])
        for j, factor in enumerate(self.fixed.instance.lattice.divisors[d]):
            y = self.lattice.grown(x, d, j)
            if y >= 0 and self.table[after, y] == wanted:
                if j > 0:
                    self.levels[level].add(d, factor)
                return after, y
        raise AssertionError("the tables of the dynamic program do not add up")

    def step_free(self, s: int, x: int, level: int, wanted: float) -> tuple[int, int]:
        machine, grid = self.machine, self.grid
        sizes = self.fixed.instance.lattice.divisors
        for a in range(len(grid.axis_dim)):
            d = int(grid.axis_dim[a])
            if machine.loose[level, d] != 1 or machine.relevant[d] & machine.open[s] != 0:
                continue
            stride, size = int(grid.axis_stride[a]), int(grid.axis_size[a])
            if x // stride % size < size - 1 and self.table[s, x + stride] == wanted:
                here = x // int(grid.stride[d]) % int(grid.n_divisors[d])
                there = (x + stride) // int(grid.stride[d]) % int(grid.n_divisors[d])
                self.levels[level].add(d, sizes[d][there] // sizes[d][here])
                return s, x + stride
        raise AssertionError("the tables of the dynamic program do not add up")
