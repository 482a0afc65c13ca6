"""Bounds of the mappings that a judge chooses: no slower, or no worse in product, than any mapping known (rule LB18).

Power is energy over time. Over all mappings it has no useful bound, for a mapping may be slow on purpose. The mapping that a judge takes may not:
it is optimal for the judge's objective, so a mapping that is known limits what it takes.

Let a layer's mappings have at least energy `a`, cycles `c` and, for some weights s, `E + s L >= V(s)` (LB15). Some
mapping is known.

Objective `edp`: The known mapping has the product u, so the chosen one has `E L <= u`.

1. `L <= u / E <= u / a`, and `E <= u / c`.
2. `V(s) <= E + s L <= E + s u / E`, a quadratic inequality in E. With `r1 <= r2` the roots of `x^2 - V(s) x + s u`,
   no E lies strictly between r1 and r2. Likewise no L lies between `r1 / s` and `r2 / s`.
3. If `r1 <= a < r2`, then `E >= r2`; if `r1 < u / c <= r2`, then `E <= r1`. For L likewise. Repeated, that gives `E
   >= e`, and L between l and m.
4. If the known mapping (E*, L*) is the best for some `s < E* / L*` too, then `V(s) = E* + s L*`, and the roots are `s
   L*` and `E*`. Where `s L* <= a` that shows `E >= E*` and `L <= L*`: the bound is exact.

Objective `latency`: `L <= u`, the cycles of the known mapping, and `E >= V(s) - s u` for every s.

Sums: Energies add up and cycles add up, so power is at least leakage + (sum of all e) / (sum of all m), vector
operators in both.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from codesign.arch.architecture import Architecture, Links
from codesign.bounds.machine_searches import MachineSearches
from codesign.bounds.searches import CYCLES, PRODUCT, WEIGHTED, LayerSearches, whole_cycles
from codesign.core.goals import Budget, Objective
from codesign.evaluation.network import EvaluationOptions

Floats = NDArray[np.float64]

COVERED = (Objective.EDP, Objective.LATENCY)
"""Objectives of a judge that limit how slow its mappings are. Of all mappings of least energy any may be chosen, be it slow."""

_ROUNDED = 3e-11
"""Relative; rounding of sums and tolerance of searches, taken off what is known of a layer."""

_REAL = 1e-14
"""Share of V^2 above which a discriminant is taken to be positive."""

_STEP = 2.0**0.125
"""Weights of cycles are powers of it, so that machines share their searches."""

_RISE = 1.1
"""How far above its bound the energy of a layer without a mapping is expected to be."""


def chosen_by(options: EvaluationOptions, mapper: str) -> Objective | None:
    """The objective that every layer's mapping is optimal for, where that bounds power (rule LB18); None elsewhere."""
    free = options.budget == Budget() and options.constraints == EvaluationOptions().constraints
    return options.objective if mapper == "exact" and free and options.objective in COVERED else None


@final
@dataclass(frozen=True)
class Range:
    """Where the energy and the cycles of a layer's chosen mapping lie.

    Args:
        least_pj: Least energy.
        least: Least cycles.
        most: Most cycles.
    """

    least_pj: float
    least: float
    most: float


@final
@dataclass(frozen=True)
class LayerKnown:
    """What is known of a layer on a machine.

    Args:
        least_pj: Energy that no mapping is below.
        least: Cycles that no mapping is below.
        product: Energy times cycles that no mapping is below.
        lines: Weights s, and energy + s x cycles that no mapping is below: ``k x 2``.
        scores: Energy and cycles of mappings that fit.
    """

    least_pj: float
    least: float
    product: float
    lines: Floats
    scores: tuple[tuple[float, float], ...]

    def best(self, objective: Objective) -> tuple[float, float] | None:
        """Energy and cycles of the known mapping that is best for a judge; None without one."""
        return min(self.scores, key=lambda s: (objective.score(*s), s[0]), default=None)


def range_of(known: LayerKnown, objective: Objective) -> Range:
    """Bounds of a layer's mapping that is optimal for the objective (rule LB18).

    Args:
        known: Of the layer.
        objective: One of `COVERED`.
    """
    best = known.best(objective)
    if best is None or not known.least_pj > 0.0 or not known.least > 0.0:
        return Range(known.least_pj, known.least, math.inf)
    lines = [(s, v * (1.0 - _ROUNDED)) for s, v in known.lines.tolist() if s > 0.0]
    low_pj, low = known.least_pj * (1.0 - _ROUNDED), known.least
    if objective == Objective.LATENCY:
        low_pj = max([low_pj, *(v - s * best[1] for s, v in lines)])
        return Range(low_pj, low, best[1])
    top = best[0] * best[1] * (1.0 + _ROUNDED)
    low_pj, high_pj = _outside([_forbidden(s, v, top) for s, v in lines], low_pj, top / low)
    low = max(low, known.product * (1.0 - _ROUNDED) / high_pj)
    beyond = [_forbidden(s, v, top) for s, v in lines]
    cut = [(e1 / s, e2 / s) for (e1, e2), (s, _) in zip(beyond, lines, strict=True)]
    low, most = _outside(cut, low, top / low_pj)
    return Range(low_pj, max(known.least, math.ceil(low * (1.0 - 1e-9))), math.floor(most * (1.0 + 1e-9)))


def _forbidden(slope: float, value: float, product: float) -> tuple[float, float]:
    """Energies between which no mapping has energy + slope x cycles >= value and energy x cycles <= product.

    The energy x of such a mapping has x + slope x product / x >= value, a quadratic inequality. Divided by the slope, the same two numbers
    are the cycles between which there is none.
    """
    inside = value * value - 4.0 * slope * product
    if inside <= _REAL * value * value:
        return value / 2.0, value / 2.0
    root = math.sqrt(inside)
    return (value - root) / 2.0, (value + root) / 2.0


def _outside(gaps: Sequence[tuple[float, float]], low: float, high: float) -> tuple[float, float]:
    """The ends of an interval, moved out of gaps that reach over them."""
    for _ in gaps:  # one gap may lead into the next
        for first, last in gaps:
            if first <= low < last <= high:
                low = last
            if low <= first < high <= last:
                high = first
    return low, high


@final
class ChosenMappings:
    """What is known of the mappings that a judge chooses for all layers.

    Args:
        searches: Of the workload's layers.
        counts: How often each occurs: ``layers``.
        objective: What every layer's mapping is optimal for.
    """

    def __init__(self, searches: MachineSearches, counts: Floats, objective: Objective) -> None:
        self._searches, self._counts, self._objective = searches, counts, objective

    @staticmethod
    def covers(machine: Architecture) -> bool:
        """Whether the exact mapper's own proof holds on a machine: no words from neighbours, no mesh."""
        return all(level.fanout.links not in (Links.MESH, Links.PEER) for level in machine.levels)

    def sharpen(
        self, machine: Architecture, floors: tuple[Floats, Floats], enough: Callable[[Floats, Floats, Floats], bool]
    ) -> tuple[Floats, Floats, Floats]:
        """Search layers until the bounds are enough, or every layer has a mapping and they cannot be expected to become so.

        Returns the least energy in pJ, the least and the most cycles of each layer's chosen mapping: ``layers`` each.

        Args:
            machine: Any that is covered.
            floors: Energy in pJ and cycles of each layer that are known otherwise: ``layers`` twice.
            enough: Whether energies, least cycles and most cycles of the layers are: ``layers`` each.
        """
        layers = self._searches.of(machine)
        known = [self._known(s, machine, *f) for s, f in zip(layers, np.stack(floors, axis=1).tolist(), strict=True)]
        tried: list[set[tuple[int, float]]] = [set() for _ in layers]
        while True:
            ranges = [range_of(k, self._objective) for k in known]
            found = _columns(ranges)
            hoped = [self._hoped(k, r) for k, r in zip(known, ranges, strict=True)]
            mapped = np.isfinite(found[2]).all()
            if enough(*found) or (mapped and not enough(*_columns(hoped))):
                return found
            searches = [self._next(*layer) for layer in zip(known, ranges, tried, strict=True)]
            k = self._furthest(ranges, hoped, [s is not None for s in searches])
            if k is None or (search := searches[k]) is None:
                return found
            tried[k].add(search)
            layers[k].search(search[0], machine, search[1])
            known[k] = self._known(layers[k], machine, float(floors[0][k]), float(floors[1][k]))

    @staticmethod
    def _known(searches: LayerSearches, machine: Architecture, floor_pj: float, floor: float) -> LayerKnown:
        least_pj, least = searches.known(machine, floor)
        least_pj, least = max(least_pj, floor_pj), whole_cycles(least)
        product = searches.known_product(machine, least_pj, least)
        lines, scores = searches.known_weighted(machine, least), searches.scores(machine)
        return LayerKnown(least_pj, least, product, lines, tuple(scores))

    def _hoped(self, known: LayerKnown, now: Range) -> Range:
        """What searches may be expected to show: that the best mapping known is the one chosen."""
        best = known.best(self._objective)
        if best is None:
            return Range(now.least_pj * _RISE, now.least, now.least)
        return Range(max(best[0], now.least_pj), max(best[1], now.least), min(best[1], now.most))

    def _furthest(self, ranges: Sequence[Range], hoped: Sequence[Range], open_: Sequence[bool]) -> int | None:
        """The layer with a search left whose range is furthest from what is hoped for; None where there is none."""
        energy, cycles = (float(self._counts @ c) for c in _columns(hoped)[:2])
        gaps = [
            (h.least_pj - r.least_pj) / energy + (h.least - r.least + min(r.most - h.most, cycles)) / cycles
            for r, h in zip(ranges, hoped, strict=True)
        ]
        far = np.where(open_, self._counts * np.array(gaps), 0.0)  # cycles without a limit count once
        return int(np.argmax(far)) if far.max() > _ROUNDED else None

    def _next(self, known: LayerKnown, now: Range, tried: set[tuple[int, float]]) -> tuple[int, float] | None:
        """The search that may narrow a range: of weighted sums on both sides of the slope of the best mapping, then of the objective."""
        best, itself = known.best(self._objective), (PRODUCT if self._objective == Objective.EDP else CYCLES, 0.0)
        if best is None:
            return WEIGHTED, _power_of_step(now.least_pj / now.least, -1)
        wanted = []
        if best[0] > now.least_pj * (1.0 + _ROUNDED):
            wanted.append((WEIGHTED, _power_of_step(now.least_pj / best[1], -1)))
        if best[1] > now.least:
            wanted.append((WEIGHTED, _power_of_step(best[0] / now.least, 1)))
        return next((s for s in (*wanted, itself) if s not in tried), None)


def _columns(ranges: Sequence[Range]) -> tuple[Floats, Floats, Floats]:
    """Least energies, least cycles and most cycles: ``layers`` each."""
    table = np.array([(r.least_pj, r.least, r.most) for r in ranges], dtype=np.float64)
    return table[:, 0], table[:, 1], table[:, 2]


def _power_of_step(weight: float, side: int) -> float:
    """The power of the step next to a weight, below (-1) or above (1)."""
    exponent = math.log(weight, _STEP)
    return float(_STEP ** (math.floor(exponent) if side < 0 else math.ceil(exponent)))
