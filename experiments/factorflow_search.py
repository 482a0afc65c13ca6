"""The best mapping under FactorFlow's rules, proven: everything laid out in space is enumerated, loops in time by tables and a pruned walk."""

import heapq
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import final

import numpy as np
from scipy.optimize import linprog

from experiments.factorflow_rules import ACROSS, Fanout, Figures, LevelLoops, Machine, Memory, Sizes, evaluate
from experiments.factorflow_tables import BIG, Floats, Nesting, fill, product_bound, trace, walk

MOST_STATES = 50_000_000
"""States that the walk of one layout may look at."""

ROUNDS = 12
"""Cutting planes of one layout at most."""

SAME = 1.0 - 1e-9
"""Products that are better by less do not count."""


@final
@dataclass(frozen=True)
class Found:
    """The best mapping of a product.

    Args:
        loops: By level; None where nothing fits.
        figures: Its cost.
        value: Of what was minimised.
        bound: No mapping is below it.
    """

    loops: tuple[LevelLoops, ...] | None
    figures: Figures | None
    value: float
    bound: float

    @property
    def proven(self) -> bool:
        """Whether no mapping is better."""
        return self.loops is not None and self.value * SAME <= self.bound


def divisors(n: int) -> list[int]:
    """Of a positive number, ascending."""
    return [d for d in range(1, n + 1) if n % d == 0]


def _cut(wanted: int | None, left: int) -> int | None:
    """A factor that is given, cut down to the largest one that divides what is left."""
    return None if wanted is None else max(d for d in divisors(left) if d <= wanted)


def fixed_loops(machine: Machine, sizes: Sizes) -> list[tuple[int | None, int | None, int | None]]:
    """Factors that are given at every level, from the inside out cut down to what divides the sizes."""
    left = list(sizes)
    found: list[tuple[int | None, int | None, int | None]] = []
    for level in reversed(machine.levels):
        row: list[int | None] = []
        for d in range(3):
            value = _cut(level.fixed[d], left[d])
            left[d] //= value or 1
            row.append(value)
        found.append((row[0], row[1], row[2]))
    return found[::-1]


def layouts(machine: Machine, sizes: Sizes) -> Iterator[dict[int, Sizes]]:
    """Factors of every fan-out, by level."""
    given = fixed_loops(machine, sizes)
    fans = [v for v, level in enumerate(machine.levels) if isinstance(level, Fanout)]

    def choose(rest: list[int], left: Sizes) -> Iterator[dict[int, Sizes]]:
        if not rest:
            yield {}
            return
        v, level = rest[0], machine.levels[rest[0]]
        assert isinstance(level, Fanout)
        options = []
        for d in range(3):
            value = given[v][d]
            free = [f for f in divisors(left[d]) if f <= level.mesh] if level.dims[d] else [1]
            options.append([value] if value is not None else free)
        for a, b, c in product(*options):
            if a * b * c > level.mesh or left[0] % a or left[1] % b or left[2] % c:
                continue
            for more in choose(rest[1:], (left[0] // a, left[1] // b, left[2] // c)):
                yield {v: (a, b, c), **more}

    yield from choose(fans, sizes)


@final
@dataclass
class Layout:
    """A problem with everything laid out in space fixed.

    Args:
        machine: The machine.
        sizes: M, K, N.
        space: Factors of the fan-outs, by level.
        nesting: For the compiled part.
        base: What every mapping costs in energy and at every port.
        floor: Cycles of the MACs.
        utilisation: Share of them in use.
    """

    machine: Machine
    sizes: Sizes
    space: dict[int, Sizes]
    nesting: Nesting
    base: Floats
    floor: float
    utilisation: float

    @classmethod
    def of(cls, machine: Machine, sizes: Sizes, space: dict[int, Sizes]) -> "Layout":
        """Everything that follows from what is laid out."""
        memories = [v for v, m in enumerate(machine.levels) if isinstance(m, Memory)][::-1]
        used = math.prod(math.prod(f) for f in space.values())
        bounds = [n // math.prod(f[d] for f in space.values()) for d, n in enumerate(sizes)]
        lists = [divisors(b) for b in bounds]
        table = np.zeros((3, max(map(len, lists))), np.int64)
        for d, values in enumerate(lists):
            table[d, : len(values)] = values
        scale, price, base = _prices(machine, sizes, space, memories)
        given = fixed_loops(machine, sizes)
        items = [machine.levels[v] for v in memories]
        nesting = Nesting(
            divisors=table,
            many=np.array([len(v) for v in lists]),
            holds=np.array([m.holds for m in items if isinstance(m, Memory)], np.int64),
            given=_given(items),
            taker=_takers(items),
            scale=scale,
            price=price,
            inside=np.array([[_within(space, v, d) for d in range(3)] for v in memories], np.int64),
            size=np.array([m.size if isinstance(m, Memory) and m.size is not None else BIG for m in items], np.float64),
            fixed=np.array([[f or 0 for f in given[v]] for v in memories], np.int64),
            order=np.array([_order(m) for m in items], np.int64),
        )
        whole = float(sizes[0]) * sizes[1] * sizes[2]
        base[0] += machine.mac_pj * whole
        return cls(machine, sizes, space, nesting, base, whole / used * machine.mac_cycles, used / machine.mesh)

    @cached_property
    def energy(self) -> Floats:
        """Least energy of every state."""
        return self.table(np.eye(len(self.base))[0])

    @property
    def least(self) -> float:
        """Energy that no mapping is below; `BIG` or more where nothing fits."""
        return float(self.base[0]) + _start(self.energy)

    @property
    def of_macs(self) -> float:
        """What the MACs alone take of the product."""
        return self.machine.mac_pj * math.prod(float(n) for n in self.sizes) * self.floor

    def share(self, by_use: bool) -> float:
        """What the product is divided by."""
        return self.utilisation if by_use else 1.0

    def table(self, weight: Floats) -> Floats:
        """Least weighted cost of every state."""
        n = self.nesting
        found = np.empty((len(n.holds) + 1, 8, *(int(c) for c in n.many)))
        fill(n, weight, found)
        return found

    def loops(self, found: np.ndarray) -> tuple[LevelLoops, ...]:
        """The mapping of a walk."""
        rows = [LevelLoops(self.space.get(v, (1, 1, 1))) for v in range(len(self.machine.levels))]
        memories = [v for v, m in enumerate(self.machine.levels) if isinstance(m, Memory)][::-1]
        before = [1, 1, 1]
        for step, v in enumerate(memories):
            after = [int(self.nesting.divisors[d, found[step, d]]) for d in range(3)]
            factors = [a // b for a, b in zip(after, before, strict=True)]
            inner = int(found[step, 3])
            rows[v] = LevelLoops((factors[0], factors[1], factors[2]), inner if inner >= 0 else None)
            before = after
        return tuple(rows)


def _order(memory: Memory | Fanout) -> list[int]:
    given = [("M", "K", "N").index(d) for d in memory.order] if isinstance(memory, Memory) else []
    return given + [-1] * (3 - len(given))


def _within(space: dict[int, Sizes], level: int, d: int) -> int:
    """What is laid out of a dimension inside a level."""
    return math.prod(f[d] for v, f in space.items() if v > level)


def _takers(items: list[Memory | Fanout]) -> np.ndarray:
    rows, current = [], [0, 0, 0]
    for step, item in enumerate(items):
        rows.append(list(current))
        for t in range(3):
            if isinstance(item, Memory) and item.holds[t]:
                current[t] = step + 1
    return np.array(rows, np.int64)


def _given(items: list[Memory | Fanout]) -> np.ndarray:
    return np.array(
        [[any(isinstance(m, Memory) and m.holds[t] for m in items[s:]) for t in range(3)] for s in range(len(items))],
        np.int64,
    )


def _prices(
    machine: Machine, sizes: Sizes, space: dict[int, Sizes], memories: list[int]
) -> tuple[Floats, Floats, Floats]:
    """Values sent for a tile of 1, what one of them costs in energy (pJ) and at every port (cycles), and what all mappings cost."""
    steps, n = len(memories), len(machine.levels)
    measures = 1 + 2 * steps
    scale, price, base = np.zeros((3, steps + 1)), np.zeros((3, steps + 1, measures)), np.zeros(measures)
    step_of = {v: s for s, v in enumerate(memories)}
    read, write = np.zeros((n, measures)), np.zeros((n, measures))
    for v, s in step_of.items():
        item = machine.levels[v]
        assert isinstance(item, Memory)
        instances = math.prod(math.prod(f) for u, f in space.items() if u < v)
        read[v, 0], write[v, 0] = item.read_pj, item.write_pj
        read[v, 1 + 2 * s], write[v, 2 + 2 * s] = 1.0 / instances / item.read_rate, 1.0 / instances / item.write_rate
    whole = float(sizes[0]) * sizes[1] * sizes[2]
    for t in range(3):
        d = ACROSS[t]
        holders = [v for v in memories[::-1] if machine.levels[v].holds[t]]  # type: ignore[union-attr]
        chain = [*holders, n]
        spread = [math.prod(f[d] for v, f in space.items() if a < v < b) for a, b in pairwise(chain)]
        for i, giver in enumerate(holders):
            taker = chain[i + 1]
            slot = 0 if taker == n else step_of[taker] + 1
            scale[t, slot] = whole / (_within(space, taker, d) * spread[i])
            up = np.zeros(measures)
            down = read[giver].copy()
            if taker < n:
                down += write[taker] * spread[i]
            if t == 2:
                up += write[giver] + (read[taker] * spread[i] if taker < n else 0.0)
                if taker < n and chain[i + 2] < n:
                    down += read[chain[i + 2]] * spread[i] * spread[i + 1]
                above = math.prod(f[1] for v, f in space.items() if v < giver)
                base -= down * float(sizes[0]) * sizes[2] * above
            price[t, slot] = up + down
    return scale, price, base


def _start(table: Floats) -> float:
    return float(table[0, 7, 0, 0, 0])


def prepare(machine: Machine, sizes: Sizes) -> list[Layout]:
    """Every layout of a product, for `solve`; what two searches need of a layout is made once."""
    return [Layout.of(machine, sizes, space) for space in layouts(machine, sizes)]


def solve(
    machine: Machine,
    sizes: Sizes,
    *,
    by_use: bool,
    time_limit_s: float = math.inf,
    prepared: Sequence[Layout] | None = None,
) -> Found:
    """The mapping with the least product of energy and latency, divided by the share of MACs in use or not.

    Layouts wait by a bound of their product: of the MACs alone, then of least energy. The one with the lowest is next.

    Args:
        machine: The machine.
        sizes: M, K, N.
        by_use: Whether the share of MACs in use counts, as in what FactorFlow minimises.
        time_limit_s: CPU seconds.
        prepared: Of the same product.
    """
    stop = time.process_time() + time_limit_s
    every = prepare(machine, sizes) if prepared is None else prepared
    waiting = [(v.of_macs / v.share(by_use), False, place) for place, v in enumerate(every)]
    heapq.heapify(waiting)
    best, answer, bound = math.inf, None, math.inf
    while waiting:
        lower, ready, place = heapq.heappop(waiting)
        if lower >= best * SAME or (time.process_time() > stop and answer is not None):
            bound = min(bound, lower)
            break
        layout = every[place]
        share = layout.share(by_use)
        if not ready:
            heapq.heappush(waiting, (max(lower, layout.least * layout.floor / share), True, place))
        elif layout.least < BIG:
            value, rows, complete, shown = _search(layout, best * share, stop)
            if rows is not None:
                best, answer = value / share, layout.loops(rows)
            if not complete:
                bound = min(bound, max(lower, shown / share))
    if answer is None:
        return Found(None, None, math.inf, bound)
    figures = evaluate(machine, sizes, answer)
    scaled = figures.energy_pj * figures.latency_cycles / (figures.utilisation if by_use else 1.0)
    return Found(answer, figures, scaled, min(bound, best))


@final
@dataclass
class _Relaxed:
    """A bound of a layout's product with a price on every port, and the best mapping that was met.

    Args:
        least: Energy that no mapping is below.
        floor: Cycles that no mapping is below.
        bound: No product is below it.
        weight: The prices that gave it, by measure; 1 for energy.
        table: Least costs under them.
        value: Product of the mapping.
        rows: The mapping.
    """

    least: float
    floor: float
    bound: float
    weight: Floats
    table: Floats
    value: float
    rows: np.ndarray

    @classmethod
    def of(cls, layout: Layout, floor: float, best: float, stop: float) -> "_Relaxed":
        """Raise the prices by cutting planes, until the bound reaches `best` or rises no more."""
        least, weight = layout.least, np.eye(len(layout.base))[0]
        paid, rows = _traced(layout, weight, layout.energy)
        found = cls(least, floor, least * floor, weight, layout.energy, float(paid[0] * max(floor, *paid[1:])), rows)
        pool = [paid]
        for _ in range(ROUNDS):
            if found.bound >= min(best, found.value) * SAME or time.process_time() > stop:
                break
            weight, hoped = _prices_of_ports(np.array(pool), least, floor)
            table = layout.table(weight)
            both, ports = float(layout.base @ weight) + _start(table), float(weight[1:].sum())
            shown = product_bound(least, floor, both, ports)
            if shown > found.bound:
                found.bound, found.weight, found.table = shown, weight, table
            paid, rows = _traced(layout, weight, table)
            pool.append(paid)
            value = float(paid[0] * max(floor, *paid[1:]))
            if value < found.value:
                found.value, found.rows = value, rows
            if both - ports * floor >= hoped * SAME:
                break
        return found


def _traced(layout: Layout, weight: Floats, table: Floats) -> tuple[Floats, np.ndarray]:
    """What the mapping of least weighted cost takes in every measure, and the mapping."""
    paid, rows = layout.base.copy(), np.zeros((len(layout.nesting.holds), 4), np.int64)
    trace(layout.nesting, weight, table, paid, rows)
    return paid, rows


def _prices_of_ports(pool: Floats, least: float, floor: float) -> tuple[Floats, float]:
    """Prices under which the mappings of a pool take most energy at `floor` cycles, and that energy.

    All prices together are at most the slope of the product, ``least / floor``. In units of `least` and `floor`.
    """
    mappings, ports = pool.shape[0], pool.shape[1] - 1
    above = np.hstack([np.ones((mappings, 1)), -(pool[:, 1:] / floor - 1.0)])
    found = linprog(
        np.r_[-1.0, np.zeros(ports)],
        A_ub=np.vstack([above, np.r_[0.0, np.ones(ports)]]),
        b_ub=np.r_[pool[:, 0] / least, 1.0],
        bounds=[(None, None), *[(0.0, None)] * ports],
    )
    return np.r_[1.0, np.maximum(found.x[1:], 0.0) * least / floor], float(found.x[0]) * least


def _search(layout: Layout, best: float, stop: float) -> tuple[float, np.ndarray | None, bool, float]:
    """The least product of a layout below `best`: its value, the walk's rows if there is one, whether that is proven, and a bound."""
    measures = len(layout.base)
    ports = [layout.table(row) for row in np.eye(measures)[1:]]
    cycles = [float(b) + _start(t) for b, t in zip(layout.base[1:], ports, strict=True)]
    relaxed = _Relaxed.of(layout, max(layout.floor, *cycles), best, stop)
    found, rows = (relaxed.value, relaxed.rows) if relaxed.value < best * SAME else (best, None)
    if relaxed.bound >= found * SAME:
        return found, rows, True, relaxed.bound
    tables = np.stack([layout.energy, *ports, relaxed.table])
    looked, met = 0, np.zeros_like(relaxed.rows)
    for share in (1.0, 1.001, 1.01, 1.1, math.inf):  # first what is near the bound, so that the walk over all is short
        cap = min(found, relaxed.bound * share * (1.0 + 1e-9))
        if time.process_time() > stop:
            return found, rows, False, relaxed.bound
        value, more = walk(
            layout.nesting, layout.base, relaxed.floor, tables, relaxed.weight, cap, MOST_STATES - looked, met
        )
        looked += more
        if value < cap:
            found, rows = value, met
        if looked > MOST_STATES:
            return found, rows, False, relaxed.bound
        if value < cap or cap >= found:
            break  # nothing below the cap is left out, so this is the least
    return found, rows, True, found
