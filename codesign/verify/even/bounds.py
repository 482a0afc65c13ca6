"""Bounds of one profile by its tables, and the walk over the nests that tables leave (rules K7 and K8)."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codesign.core.goals import Objective
from codesign.cost.cost import Infeasible, evaluate
from codesign.mapping.mapping import Axis, LevelMapping, Mapping
from codesign.mapping.nest import FloatArray
from codesign.verify.even.prices import Profile, lowered, whole_cycles
from codesign.verify.even.problem import divisors
from codesign.verify.even.program import step
from codesign.verify.even.tiles import Program

_ROOM = 1.0 + 1e-6
"""Searches look a little further than they must, so that what is cut off is above the limit after all rounding."""

Loop = tuple[int, int, int]
"""Level, dimension, factor."""


@dataclass(frozen=True, eq=False)
class Measure:
    """A sum over a nest's words: prices of the boundaries, what is fixed, and the least from every state on."""

    price: FloatArray
    fixed: float
    table: FloatArray

    @property
    def least(self) -> float:
        """The least value of the sum over all nests of the profile."""
        return self.fixed + float(self.table[-1, 0, 0])


@dataclass(frozen=True, eq=False)
class Bounded:
    """What the tables say of one profile.

    Args:
        program: The tables of the profile.
        objective: What is minimised.
    """

    program: Program
    objective: Objective

    @property
    def profile(self) -> Profile:
        """The profile whose nests the tables bound."""
        return self.program.profile

    @cached_property
    def _energy_prices(self) -> tuple[FloatArray, float]:
        p = self.profile
        return np.array([p.price(b)[0] for b in p.boundaries]), p.fixed_energy()

    @cached_property
    def _port_prices(self) -> tuple[tuple[FloatArray, float], ...]:
        p = self.profile
        return tuple(
            (np.array([p.demand(b, port)[0] for b in p.boundaries]), p.fixed_cycles(port)) for port in p.ports()
        )

    @cached_property
    def energy(self) -> Measure:
        """Energy as a sum over the words of boundaries, in pJ."""
        return self._measure(*self._energy_prices)

    @cached_property
    def cycles(self) -> tuple[Measure, ...]:
        """Busy cycles of every port with a bandwidth, each as such a sum."""
        return tuple(self._measure(*prices) for prices in self._port_prices)

    @cached_property
    def sums(self) -> tuple[tuple[float, Measure], ...]:
        """Energy plus a weight times the cycles of a port, for every port that may bind."""
        energy, floor = self.energy.least, self._floor()
        weight = energy / max(floor, 1.0) if np.isfinite(energy) else 0.0
        return tuple(
            (
                weight,
                self._measure(self.energy.price + weight * port.price, self.energy.fixed + weight * port.fixed),
            )
            for port in self.cycles
        )

    def _measure(self, price: FloatArray, fixed: float) -> Measure:
        return Measure(price, fixed, self.program.table(price))

    def _floor(self) -> float:
        return max([self.profile.compute, *(whole_cycles(port.least) for port in self.cycles)])

    def least(self, wanted: float) -> float:
        """A bound of the objective over all nests, sharp up to `wanted`; some value from there on where it is above."""
        n, m = self.objective.energy_exponent, self.objective.latency_exponent
        energy, cycles, fewest = 1.0, 1.0, self.program.fewest
        ports: list[tuple[float, FloatArray, float]] = []
        if m:  # the port that is likely to bind comes first
            ports = [(fixed + float(price @ fewest), price, fixed) for price, fixed in self._port_prices]
            ports.sort(key=lambda port: -port[0])
            cycles = max([self.profile.compute, *(whole_cycles(port[0]) for port in ports[:1])])
        if n:
            energy = lowered(self.program.cheapest(*self._energy_prices, (wanted / cycles**m) ** (1.0 / n)))
        best = self.objective.score(energy, cycles)
        for _, price, fixed in ports:
            if best >= wanted:
                return best
            busy = self.program.cheapest(price, fixed, (wanted / energy**n) ** (1.0 / m))
            cycles = max(cycles, whole_cycles(busy))
            best = self.objective.score(energy, cycles)
        if best >= wanted or not n or not ports:
            return best
        return max(best, *(least_score(self.objective, energy, cycles, w, lowered(s.least)) for w, s in self.sums))

    def below(self, limit: float, stop: float) -> Mapping | None:
        """A mapping of the profile below `limit`, if there is one.

        Raises:
            TimeoutError: CPU seconds ran out.
        """
        if not self.program.starts:
            return None
        for loops in _Walk(self, limit, stop).nests():
            mapping = self.mapping(loops)
            p = self.profile.space.source
            cost = evaluate(p.computation, p.architecture, mapping)
            if not isinstance(cost, Infeasible) and self.objective.of(cost) < limit:
                return mapping
        return None

    def mapping(self, loops: tuple[Loop, ...]) -> Mapping:
        """The nest of these loops in time, from the inside out."""
        s = self.profile.space
        names = s.source.computation.dims
        return Mapping.from_levels(
            LevelMapping(
                level.name,
                tuple(t.name for t, k in zip(s.source.computation.tensors, self.profile.kept[v], strict=True) if k),
                tuple((names[s.dims[d]], f) for u, d, f in reversed(loops) if u == v),
                tuple((names[s.dims[d]], f, axis) for d, f, axis in laid_out(self.profile, v)),
            )
            for v, level in enumerate(s.source.architecture.levels)
        )


def least_score(objective: Objective, energy: float, cycles: float, weight: float, total: float) -> float:
    """Least objective where energy, cycles and energy + weight x cycles are at least so much.

    Along a line of constant sum the objective is least at an end, as its logarithm is concave.
    """
    if total <= energy + weight * cycles:
        return objective.score(energy, cycles)
    return min(objective.score(energy, (total - energy) / weight), objective.score(total - weight * cycles, cycles))


def sharpened(
    objective: Objective,
    closed: tuple[float, float],
    ports: int,
    cheapest: Callable[[int | None, float | None, float], float],
    limit: float,
) -> float:
    """A value that no mapping of a profile is below, sharp below `limit` only: by energy, cycles of ports, and weighted sums of both.

    Args:
        objective: What is minimised.
        closed: Energy and cycles that no mapping is below.
        ports: Ports that may bind.
        cheapest: From a port, a weight and a limit to the least of a sum over words, infinite where it is not below the limit: without a
            port energy, without a weight cycles of the port, else energy + weight x cycles.
        limit: What matters.

    Raises:
        TimeoutError: As `cheapest`.
    """
    n, m = objective.energy_exponent, objective.latency_exponent
    energy, cycles = closed
    if n:
        energy = max(energy, cheapest(None, None, (limit / cycles**m) ** (1.0 / n) * _ROOM))
    for port in range(ports if m and np.isfinite(energy) else 0):
        if objective.score(energy, cycles) >= limit:
            break
        most = (limit / (energy**n if n else 1.0)) ** (1.0 / m) * _ROOM
        cycles = max(cycles, whole_cycles(cheapest(port, None, most)))
    best = objective.score(energy, cycles)
    for port in range(ports if m and n and best < limit else 0):
        weight = energy / cycles
        # a mapping below the limit has its sum below one end of the line or the other
        ends = (limit / cycles**m) ** (1.0 / n) + weight * cycles, energy + weight * (limit / energy**n) ** (1.0 / m)
        total = cheapest(port, weight, max(ends) * _ROOM)
        best = max(best, least_score(objective, energy, cycles, weight, total))
    return best


def laid_out(profile: Profile, level: int) -> Iterator[tuple[int, int, Axis]]:
    """Spatial loops of a fan-out: dimension, factor, axis; X before Y."""
    space = profile.space
    vector, rule = profile.vectors[level], space.rules[level]
    names = space.source.computation.dims
    x, y = (int(n) for n in space.arrays.fanout[level])
    rest = int(np.prod(vector))
    along = next(a for a in reversed(divisors(rest)) if a <= x and (rest // a <= y or rule.along_x is not None))
    in_y: list[tuple[int, int, Axis]] = []
    for d, f in enumerate(vector):
        if rule.along_x is not None:
            part = f if names[space.dims[d]] in rule.along_x else 1
        else:
            part = int(np.gcd(f, along))
            along //= part
        if part > 1:
            yield d, part, "x"
        if f // part > 1:
            in_y.append((d, f // part, "y"))
    yield from in_y


class _Walk:
    """Nests of one profile from the inside out, loop by loop, those left out that the tables show to be no better."""

    def __init__(self, bounded: Bounded, limit: float, stop: float) -> None:
        self.bounded, self.limit, self.stop = bounded, limit, stop
        self.space = bounded.profile.space
        self.grid, self.states = bounded.program.grid, bounded.program.states
        self.weights = [w for w, _ in bounded.sums] if self._product else []
        self.measures = [bounded.energy, *bounded.cycles, *([m for _, m in bounded.sums] if self._product else [])]
        position = self.space.position
        self.rank = [{position[n]: k for k, n in enumerate(r.order) if n in position} for r in self.space.rules]
        self.fixed = [{position[n]: f for n, f in r.temporal if n in position} for r in self.space.rules]

    @property
    def _product(self) -> bool:
        objective = self.bounded.objective
        return bool(objective.energy_exponent and objective.latency_exponent and self.bounded.cycles)

    def nests(self) -> Iterator[tuple[Loop, ...]]:
        """Loops in time from the inside out."""
        start = [m.fixed for m in self.measures]
        yield from self._level(self.space.n_levels - 1, 0, 0, start, ())

    def _hopeless(self, v: int, x: int, state: int, spent: list[float]) -> bool:
        found = [a + float(m.table[v, x, state]) for a, m in zip(spent, self.measures, strict=True)]
        if not np.isfinite(found).all():
            return True
        n = len(self.bounded.cycles)
        objective, energy = self.bounded.objective, lowered(found[0])
        cycles = max([self.bounded.profile.compute, *(whole_cycles(c) for c in found[1 : n + 1])])
        best = objective.score(energy, cycles)
        for weight, total in zip(self.weights, found[n + 1 :], strict=True):
            best = max(best, least_score(objective, energy, cycles, weight, lowered(total)))
        return best >= self.limit

    def _level(
        self, v: int, x: int, state: int, spent: list[float], loops: tuple[Loop, ...]
    ) -> Iterator[tuple[Loop, ...]]:
        if time.process_time() > self.stop:
            raise TimeoutError
        if self._hopeless(v, x, state, spent):
            return
        here = {d: f for u, d, f in loops if u == v}
        if all(here.get(d, 1) == f for d, f in self.fixed[v].items()):
            yield from self._end(v, x, state, spent, loops)
        rank = self.rank[v]
        reached = max((rank.get(d, len(rank)) for d in here), default=0)
        for d in range(len(self.space.dims)):
            if d in here or not self.grid.allowed[v, d] or rank.get(d, len(rank)) < reached:
                continue
            i = (x // int(self.grid.stride[d])) % int(self.grid.n_sizes[d])
            for j in range(i + 1, int(self.grid.n_sizes[d])):
                factor, rest = divmod(int(self.grid.sizes[d, j]), int(self.grid.sizes[d, i]))
                if rest or self.fixed[v].get(d, factor) != factor:
                    continue
                moved = [step(self.grid, self.states, m.price, v, x, state, d, j) for m in self.measures]
                yield from self._level(
                    v,
                    x + (j - i) * int(self.grid.stride[d]),
                    int(self.states.after[state, d]),
                    [a + b for a, b in zip(spent, moved, strict=True)],
                    (*loops, (v, d, factor)),
                )

    def _end(
        self, v: int, x: int, state: int, spent: list[float], loops: tuple[Loop, ...]
    ) -> Iterator[tuple[Loop, ...]]:
        if v == 0:
            if x == len(self.bounded.program.tiles) - 1:
                yield loops
        elif self.grid.fits[v, x]:
            yield from self._level(v - 1, x, int(self.states.ended[v, state]), spent, loops)
