"""Bounds of boxes of a hardware space for a workload: the tables of designs, asked for optimistic machines (rule LB12)."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from codesign.bounds.boxes import BoxFigures, why_no_boxes
from codesign.bounds.buffered import is_buffered
from codesign.bounds.layer import LayerFacts
from codesign.bounds.machine_searches import Beside, MachineSearches
from codesign.bounds.parts import BuiltSpace, Figures
from codesign.bounds.vector import VectorWork
from codesign.evaluation.metrics import OBJECTIVES
from codesign.mapping.nest import Nest

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


TRIED = 9
"""Choices of a parameter that are tried with known mappings."""

_LEAST_RISE = 1e-3
"""Of the rise of a bound that is worth something, what no rise at all counts as."""

_PRODUCT = "edp_js"

_SLACK = 2e-8
"""Relative; sums are rounded in another order here than in an evaluation."""


class Values(Protocol):
    """What is needed of a table of bounds (`codesign.bounds.design.BoundTable`)."""

    def values(self, metrics: Sequence[str]) -> Floats:
        """Bounds by metric: ``n x m``."""


class Tables(Protocol):
    """What is needed of the bounds of designs (`codesign.bounds.design.DesignBounds`)."""

    layers: list[LayerFacts]
    counts: Floats
    machines: MachineSearches
    vector: VectorWork

    def table_of(self, found: Sequence[Figures], area: Floats, leakage: Floats) -> Values:
        """The bounds of machines whose area and leakage are known."""

    def plain_table(
        self, latency_s: Floats, dynamic_j: Floats, area: Floats, leakage: Floats, clock_hz: Floats, zeros: Floats
    ) -> Values:
        """Bounds that are known already."""


@final
class BoxBounds:
    """Bounds of boxes; see `codesign.optim.boxed.BoxedBounds`.

    Args:
        space: With `parts`.
        model: Tables that bound the designs of the boxes.
    """

    def __init__(self, space: BuiltSpace, model: Tables) -> None:
        self._space, self._model = space, model
        self._searches = model.machines

    @property
    def why_not(self) -> str:
        """Why boxes have no bounds; empty where they have."""
        return why_no_boxes(self._space)

    @cached_property
    def _figures(self) -> BoxFigures:
        return BoxFigures(self._space)

    @cached_property
    def slow(self) -> bool:
        """Whether a bound takes about as long as an evaluation, because no table is shared by all machines."""
        row = self._space.space.sample(1, np.random.default_rng(0))
        return not is_buffered(self._figures.of(row, row)[0], self._model.layers)

    def roots(self, low: Indices, high: Indices) -> list[tuple[Indices, Indices]]:
        """A box as boxes that have bounds."""
        return self._figures.roots(low, high)

    def lower_bounds(self, low: Indices, high: Indices, metrics: Sequence[str]) -> Floats:
        """Values that no design of a box is evaluated below: ``n x d`` twice to ``n x m``."""
        figures, area, leakage = self._figures.of(low, high)
        if not self.slow:
            return self._model.table_of([figures], area, leakage).values(metrics)
        found = [self._searches.known(figures.architecture(k)) for k in range(len(low))]
        return self._values(figures, area, leakage, found, metrics)

    def _values(
        self,
        figures: Figures,
        area: Floats,
        leakage: Floats,
        found: Sequence[tuple[float, float]],
        metrics: Sequence[str],
        *,
        exactly: bool = True,
    ) -> Floats:
        """Bounds from the energy in pJ and the cycles of all layers on some machines: ``n x m``; with `exactly` products from searches too."""
        cycles, energy_pj = np.array([c for _, c in found]), np.array([e for e, _ in found])
        more_cycles, more_pj = self._model.vector.on(figures)
        latency = (cycles + more_cycles) / figures.clock_hz
        zeros = np.zeros(len(found))
        table = self._model.plain_table(latency, (energy_pj + more_pj) * 1e-12, area, leakage, figures.clock_hz, zeros)
        values = table.values(metrics)
        for column, name in enumerate(metrics):
            if exactly and OBJECTIVES.get(name, name) == _PRODUCT:
                products = [
                    self._searches.known_product(figures.architecture(k), beside)
                    for k, beside in enumerate(self._beside(figures, leakage))
                ]
                shown = np.array(products) * 1e-12 / figures.clock_hz * (1.0 - _SLACK)
                values[:, column] = np.maximum(values[:, column], shown)
        return values

    def sharpened(
        self,
        low: Indices,
        high: Indices,
        metrics: Sequence[str],
        tolerance: float = 0.0,
        enough: Callable[[], bool] | None = None,
        goal: Floats | None = None,
    ) -> Floats:
        """Bounds of one box from exact searches of its optimistic machine, layer by layer: ``d`` twice to ``m``.

        A layer is not searched where mappings found elsewhere show that all layers left together can raise a sum by no more than
        the share `tolerance`. What is known counts once it is `enough`, asked between searches, or once a product reaches its `goal`.
        """
        figures, area, leakage = self._figures.of(low[None], high[None])
        machine = figures.architecture(0)
        names = [OBJECTIVES.get(m, m) for m in metrics]
        if any(name != _PRODUCT for name in names):
            for column in (0, 1):  # energy first: its mappings are mostly as quick as any
                self._searches.search(machine, column, tolerance, enough)
        if _PRODUCT in names:
            reach = math.inf if goal is None else float(goal[names.index(_PRODUCT)]) / (1.0 - _SLACK)
            beside = self._beside(figures, leakage)[0]
            self._searches.search_products(machine, beside, tolerance, enough, reach * 1e12 * machine.clock_hz)
        return np.asarray(self._values(figures, area, leakage, [self._searches.known(machine)], metrics)[0])

    def _beside(self, figures: Figures, leakage: Floats) -> list[Beside]:
        """What machines spend beside the mappings of their layers: ``n``."""
        cycles, energy_pj = self._model.vector.on(figures)
        per_cycle = leakage * 1e12 / figures.clock_hz
        return [Beside(float(e), float(c), float(w)) for e, c, w in zip(energy_pj, cycles, per_cycle, strict=True)]

    def cut(self, low: Indices, high: Indices, metrics: Sequence[str], most: float) -> tuple[int, int] | None:
        """Where to split a box: a parameter, and the first choice of the upper half; None without mappings to go by.

        The choices at which a mapping known ceases to fit are tried: below, the layer needs another mapping; above, all prices are those of
        what it needs. Of each half the mappings known tell about how far its bound may rise.

        Args:
            low: Of the box: ``d``.
            high: ``d``.
            metrics: That are bounded.
            most: A rise (of logarithms) from which more is no better.
        """
        machine = self._figures.of(low[None], high[None])[0].architecture(0)
        nests = [searches.best_mapping(machine) for searches in self._searches.of(machine)]
        whole = self._expected(low, high, metrics, nests)
        if not np.isfinite(whole).all():
            return None
        best, chosen = 0.0, None
        for column in np.flatnonzero(high > low).tolist():
            for first in self._needs(low, high, column, nests) | {int(low[column] + high[column]) // 2 + 1}:
                under, over = high.copy(), low.copy()
                under[column], over[column] = first - 1, first
                halves = (self._expected(*half, metrics, nests) for half in ((low, under), (over, high)))
                rises = [min(float(np.log(half / whole).max()), most) for half in halves]
                score = math.prod(
                    max(rise, _LEAST_RISE * most) for rise in rises
                )  # the product rule of strong branching
                if score > best:
                    best, chosen = score, (column, first)
        return chosen

    def _expected(self, low: Indices, high: Indices, metrics: Sequence[str], nests: Sequence[Nest | None]) -> Floats:
        """About what the bounds of a box would be after searches: by mappings that fit, else others known, infinite without."""
        figures, area, leakage = self._figures.of(low[None], high[None])
        found = self._searches.best_products(figures.architecture(0), nests)
        return np.asarray(self._values(figures, area, leakage, [found], metrics, exactly=False)[0])

    def _needs(self, low: Indices, high: Indices, column: int, nests: Sequence[Nest | None]) -> set[int]:
        """Of a mapping of each layer, the first choice of a parameter with which it fits, if that is not the first in the box."""
        machine = self._figures.of(low[None], high[None])[0].architecture(0)
        searches = self._searches.of(machine)
        fits: dict[int, list[bool]] = {}

        def fitting(choice: int) -> list[bool]:
            if choice not in fits:
                top = high.copy()
                top[column] = choice
                smaller = self._figures.of(low[None], top[None])[0].architecture(0)
                scored = (s.score(smaller, n)[0] if n else 0.0 for s, n in zip(searches, nests, strict=True))
                fits[choice] = [math.isfinite(energy) for energy in scored]
            return fits[choice]

        found = set()
        for k in range(len(searches)):
            first, last = int(low[column]), int(high[column])
            while first < last:
                middle = (first + last) // 2
                first, last = (first, middle) if fitting(middle)[k] else (middle + 1, last)
            found.add(first)
        return found - {int(low[column])}

    def suggested(self, low: Indices, high: Indices, metrics: Sequence[str]) -> tuple[Indices, Floats] | None:
        """The design of a box on which mappings found by searches are best, parameter by parameter, and its metrics with them.

        ``d`` and ``m``; None without mappings.
        """
        figures, _, _ = self._figures.of(low[None], high[None])
        machine = figures.architecture(0)
        searches = self._searches.of(machine)
        mappings = [s.best_mapping(machine) for s in searches]
        if any(m is None for m in mappings):
            return None

        def score(rows: Indices) -> Floats:
            figures, area, leakage = self._figures.of(rows, rows)
            found = []
            for k in range(len(rows)):
                machine = figures.architecture(k)
                each = np.array([s.score(machine, m) for s, m in zip(searches, mappings, strict=True) if m])
                found.append(tuple(float(v) for v in self._model.counts @ each))
            values = self._values(figures, area, leakage, [(e, c) for e, c in found], metrics, exactly=False)
            return np.asarray(values)

        row, best = high.copy(), np.full(len(metrics), np.inf)
        for column in np.flatnonzero(high > low).tolist() * 2:
            choices = np.unique(np.round(np.linspace(low[column], high[column], TRIED)).astype(np.int64))
            rows = np.repeat(row[None], len(choices), axis=0)
            rows[:, column] = choices
            values = score(rows)
            sums = np.log(values).sum(axis=1)
            if not np.isfinite(sums).any():
                return None
            row, best = rows[int(np.argmin(sums))], values[int(np.argmin(sums))]
        return row, best
