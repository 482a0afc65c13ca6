"""What a word costs that crosses a boundary, in energy and in cycles of every port, and the fewest words there are (rules K3 and K5)."""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codesign.cost.columns import FILL, READ, UPDATE
from codesign.mapping.nest import FloatArray
from codesign.verify.even.problem import Kept, Space, Vector

_ROUNDING = 1e-9
"""Relative rounding of sums; bounds are lowered by it."""


@dataclass(frozen=True)
class Boundary:
    """A tensor kept at a level (L: the MACs) and the next level out that keeps it."""

    tensor: int
    level: int
    parent: int


@dataclass(frozen=True, eq=False)
class Profile:
    """What every fan-out does under one keep set.

    Args:
        space: All mappings.
        kept: By level and tensor.
        vectors: Spatial factors, by level and dimension.
        distinct: By level and tensor, children that take different words (rules S2 to S4); in a bound, at least so many.
    """

    space: Space
    kept: Kept
    vectors: tuple[Vector, ...]
    distinct: tuple[tuple[float, ...], ...]

    @cached_property
    def outside(self) -> FloatArray:
        """``(L + 1) x D`` spatial factors outside a level."""
        rows = np.array([[1] * len(self.space.dims), *self.vectors], np.float64)
        return np.asarray(rows.cumprod(axis=0), np.float64)

    @cached_property
    def instances(self) -> FloatArray:
        """``L + 1`` instances of a level in use; the last are the MACs."""
        return np.asarray(self.outside.prod(axis=1), np.float64)

    @cached_property
    def boundaries(self) -> tuple[Boundary, ...]:
        """Tensor by tensor, from the inside out; those at the MACs are not among them."""
        found = []
        for t in range(self.space.n_tensors):
            levels = [v for v in range(self.space.n_levels) if self.kept[v][t]]
            found += [Boundary(t, v, p) for p, v in reversed(list(itertools.pairwise(levels)))]
        return tuple(found)

    def at_macs(self) -> tuple[Boundary, ...]:
        """The boundary at the MACs of every tensor, with the innermost level that keeps it as parent."""
        n = self.space.n_levels
        return tuple(Boundary(t, n, max(v for v in range(n) if self.kept[v][t])) for t in range(self.space.n_tensors))

    def copies(self, b: Boundary) -> float:
        """Different words that one parent sends for each that enters an instance (T2)."""
        return math.prod(self.distinct[m][b.tensor] for m in range(b.parent, b.level))

    def share(self, level: int) -> float:
        """Words of the output that one instance is responsible for (O3)."""
        t = self.space.n_tensors - 1
        words = float(self.space.arrays.tensor_words[t])
        return words / float(self.outside[level][self.space.relevant[t] == 1].prod())

    def price(self, b: Boundary) -> tuple[float, float]:
        """Energy for a word that enters every instance of the level, and what first visits save, both in pJ (T, O and N)."""
        a = self.space.arrays
        t, is_output = b.tensor, b.tensor == self.space.n_tensors - 1
        sent, parents = self.copies(b), self.instances[b.parent]
        cost = parents * sent * a.energy[b.parent, t, READ]
        for m in range(b.parent, b.level):
            through = self.instances[m] * math.prod(self.distinct[k][t] for k in range(m, b.level))
            per_copy = math.prod(self.vectors[m]) / self.distinct[m][t]
            cost += through * (a.hops[m, 0] + a.hops[m, 1] * per_copy) * a.hop_energy[m, t]
        saved = 0.0
        if b.level < self.space.n_levels:
            cost += self.instances[b.level] * a.energy[b.level, t, FILL]
        if is_output:
            cost += parents * sent * a.energy[b.parent, t, UPDATE]
            saved = self.share(b.parent) * parents * a.energy[b.parent, t, READ]
            if b.level < self.space.n_levels:
                saved += self.share(b.level) * self.instances[b.level] * a.energy[b.level, t, FILL]
        return cost, saved

    def ports(self) -> list[tuple[int, int]]:
        """(level, 0 for reads or both, 1 for writes) of every port of limited width."""
        a = self.space.arrays
        found = []
        for v in range(self.space.n_levels):
            if a.one_port[v]:
                found += [(v, 0)] if a.bandwidth[v].any() else []
            else:
                found += [(v, side) for side in (0, 1) if a.bandwidth[v, side]]
        return found

    def demand(self, b: Boundary, port: tuple[int, int]) -> tuple[float, float]:
        """Cycles of a port for a word that enters every instance of the level, and what first visits save (L2, L4)."""
        a, (level, side) = self.space.arrays, port
        t, is_output = b.tensor, b.tensor == self.space.n_tensors - 1
        cost = saved = 0.0
        for used, direction in ((b.parent, 0), (b.parent, 1), (b.level, 2)):
            if used != level or used == self.space.n_levels or (direction == 1 and not is_output):
                continue
            width = min(direction, 1)
            if a.one_port[level] == 0 and width != side:
                continue
            if a.bandwidth[level, width] == 0.0:
                continue
            word = a.words[level, t] / a.bandwidth[level, width]
            cost += word if direction == 2 else word * self.copies(b)
            if is_output and direction != 1:
                saved += word * self.share(level)
        return cost, saved

    def fewest(self, b: Boundary) -> float:
        """Fewest words that enter an instance: those its part of the nest touches; at the MACs one a cycle (T1)."""
        if b.level == self.space.n_levels:
            return float(self.space.arrays.macs) / float(self.instances[-1])
        return self._fewest[b]

    @cached_property
    def _fewest(self) -> dict[Boundary, float]:
        return {b: self._touched(b) for b in self.boundaries}

    def _touched(self, b: Boundary) -> float:
        outside, words = self.outside[b.level], 1.0
        for row, offsets in zip(self.space.coef[b.tensor] > 0, self.space.offsets[b.tensor], strict=True):
            least = 1.0 + float((self.space.bounds[row] / outside[row] - 1.0).sum())
            words *= max(least, float(offsets / outside[row].prod()))
        return words

    @property
    def compute(self) -> float:
        """Cycles of the MACs (L1)."""
        return float(self.space.arrays.macs) / float(self.instances[-1])

    def fixed_energy(self) -> float:
        """Energy in pJ that no order or tile changes: MACs, words at the MACs, first visits."""
        total = float(self.space.arrays.macs * self.space.arrays.mac_energy)
        for b in self.at_macs():
            price, saved = self.price(b)
            total += price * self.fewest(b) - saved
        return total - sum(self.price(b)[1] for b in self.boundaries)

    def fixed_cycles(self, port: tuple[int, int]) -> float:
        """Likewise cycles of a port."""
        total = 0.0
        for b in self.at_macs():
            demand, saved = self.demand(b, port)
            total += demand * self.fewest(b) - saved
        return total - sum(self.demand(b, port)[1] for b in self.boundaries)

    def closed_energy(self) -> float:
        """Least energy by the fewest words."""
        return lowered(self.fixed_energy() + sum(self.price(b)[0] * self.fewest(b) for b in self.boundaries))

    def closed_cycles(self) -> float:
        """Least cycles by the fewest words."""
        cycles = self.compute
        for port in self.ports():
            busy = self.fixed_cycles(port) + sum(self.demand(b, port)[0] * self.fewest(b) for b in self.boundaries)
            cycles = max(cycles, whole_cycles(busy))
        return cycles


def lowered(value: float) -> float:
    """Below every rounding of the sum."""
    return value * (1.0 - _ROUNDING)


def whole_cycles(busy: float) -> float:
    """Cycles are whole; what is over by rounding alone is taken off."""
    return float(np.ceil(max(0.0, lowered(busy))))
