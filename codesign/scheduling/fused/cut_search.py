"""The best schedule among all ways of cutting one run of windows, and none (H6): one best-first search over the cuts.

Cuts share their operators' fronts: rows set aside only take room in the shared level, and the rows of a front say what they hold. All cuts are
searched within one limit, in the order of their bounds (`codesign.scheduling.fused.group_bounds`), before the limit is raised.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import final

from codesign.core import clock
from codesign.mapping.looptree import Goal
from codesign.scheduling.fused.alike import Front
from codesign.scheduling.fused.group_bounds import Chip, GroupBounds, Outside, Pair
from codesign.scheduling.fused.halos import HaloTiling, distinct_tilings, single_steps, tiled
from codesign.scheduling.fused.loop_tree import BEAM, Fusion
from codesign.scheduling.fused.network_operators import FusedGraph
from codesign.scheduling.fused.operator_front import Limits, TimeUp
from codesign.scheduling.fused.schedule import Schedule

SLACKS = (0.1, 0.5)
"""How far above its least each operator may be in good schedules, one attempt after the other."""

TIE = 1e-9
"""Relative difference below which a bound is reached."""

RISE = 1.4
"""How much the limit rises at a time; the first is by its root above the least bound."""


@final
@dataclass
class Cut:
    """A way of cutting a run.

    Args:
        tiling: The run in steps; none where no run is cut.
        graph: Rewritten.
        search: Its schedules.
        groups: Their bounds.
        bound: None of its schedules is below.
        close: Whether the bounds are of mappings that fit, not of the fewest words alone.
        given_up: Whether it took more sequences than may be joined.
    """

    tiling: HaloTiling | None
    graph: FusedGraph
    search: Fusion
    groups: GroupBounds
    bound: float
    close: bool = False
    given_up: bool = False


@final
@dataclass(frozen=True)
class BestCut:
    """What the search over cuts made.

    Args:
        schedule: The best schedule, with what none is below.
        tiling: The run that is cut; none where no run is.
        graph: Rewritten.
        posed: Ways of cutting a run that were searched or shown to be no better, mirror images left out.
    """

    schedule: Schedule
    tiling: HaloTiling | None
    graph: FusedGraph
    posed: int


class CutSearch:
    """All cuts of one graph.

    Args:
        graph: The operators.
        goal: What is minimised.
        loops_per_dim: As of `Fusion`.
        sequences: Sequences of operators that are joined at most for one cut within one limit.
        plain: What a search without cuts found and proved.
    """

    def __init__(self, graph: FusedGraph, goal: Goal, loops_per_dim: int, sequences: float, plain: Schedule) -> None:
        self.graph, self.goal, self.loops_per_dim, self.sequences = graph, goal, loops_per_dim, sequences
        self.known: dict[object, Front] = {}
        self.limit = 0.0
        self.cuts: list[Cut] = []
        self.complete, self._plain = False, plain.bound
        self.best = BestCut(plain, None, graph, 0)

    @property
    def value(self) -> float:
        """Of the best schedule so far."""
        return self.best.schedule.value

    def pose(self, stop: float) -> None:
        """Bound every cut by its fewest words, until the process has used `stop` CPU seconds."""
        try:
            for tiling in itertools.chain([None], distinct_tilings(self.graph)):
                if clock.cpu_seconds() > stop:
                    return
                graph = self.graph if tiling is None else tiled(self.graph, tiling)
                if graph is not None:
                    self.cuts.append(self._posed(tiling, graph, stop))
        except TimeUp:
            return
        self.complete = True

    def _posed(self, tiling: HaloTiling | None, graph: FusedGraph, stop: float) -> Cut:
        single = frozenset[str]() if tiling is None else single_steps(tiling)
        aside = self.graph.capacity_bits - graph.capacity_bits
        search = Fusion(
            graph.operators, graph.machines, graph.between, self.goal, self.loops_per_dim,
            single=single, known=self.known, aside=aside,
        )  # fmt: skip
        groups = search.group_bounds([front.quick_on(stop) for front in search.fronts])
        return Cut(tiling, graph, search, groups, max(groups.bound, self._plain if tiling is None else 0.0))

    def _bound_closely(self, cut: Cut, stop: float) -> None:
        if not cut.close:
            cut.groups = cut.search.group_bounds([front.least_on(stop) for front in cut.search.fronts])
            cut.bound, cut.close = max(cut.bound, cut.groups.bound), True

    def improve(self, stop: float) -> None:
        """Look for good schedules in part of the space of each cut that is bounded closely."""
        for slack in SLACKS:
            if not self._pass([c for c in self.cuts if c.close], self.value, stop, slack):
                return

    def prove(self, stop: float) -> None:
        """Search all cuts within limits that rise to the best value, until the process has used `stop` CPU seconds."""
        try:
            while self.cuts and self._low() < self.value * (1 - TIE):
                cut = min(self.cuts, key=lambda c: c.bound)
                if cut.given_up:
                    return
                if not cut.close:
                    self._bound_closely(cut, stop)
                    continue
                top = self.value * (1 + 1e-12)
                limit = cut.bound * math.sqrt(RISE) if self.limit < cut.bound else self.limit * RISE
                limit = limit if 0 < limit < top / math.sqrt(RISE) else top
                for cut in sorted(self.cuts, key=lambda c: c.bound):
                    if cut.bound < limit:
                        self._bound_closely(cut, stop)
                if not self._pass(self.cuts, limit, stop):
                    return
                self.limit = limit
        except TimeUp:
            return

    def result(self) -> BestCut:
        """The best schedule and its bound; cuts that were not posed may be anywhere above 0."""
        bound = min(self._low(), self.value) if self.complete else 0.0
        schedule = replace(self.best.schedule, bound=bound)
        if self.goal is Goal.LATENCY and self.best.graph.machines[0][0].leak_w == 0:
            schedule = replace(schedule, energy=None)
        return replace(self.best, schedule=schedule, posed=max(len(self.cuts) - 1, 0))

    def _low(self) -> float:
        return min(cut.bound for cut in self.cuts)

    def _pass(self, cuts: list[Cut], limit: float, stop: float, slack: float | None = None) -> bool:
        """Search every cut whose bound is within the limit; whether the time was enough.

        Args:
            cuts: Those that are searched.
            limit: Of the whole.
            stop: CPU seconds of the process.
            slack: How far above its least each operator may be; none for all of the space.
        """
        open_cuts = [(c, c.groups.within(limit)) for c in cuts if c.bound < min(limit, self.value) * (1 - TIE)]
        shared = _shared(open_cuts)
        for cut, outside in sorted(open_cuts, key=lambda entry: entry[0].bound):
            now = min(limit, self.value * (1 + 1e-12))
            if outside is None or cut.bound >= now * (1 - TIE) or cut.given_up:
                cut.bound = cut.bound if cut.given_up else max(cut.bound, min(limit, now))
                continue
            try:
                found = self._searched(cut, outside, shared, now, stop, slack)
            except TimeUp:
                if clock.cpu_seconds() > stop:
                    return False
                cut.given_up = slack is None
                continue
            if slack is None:
                cut.bound = max(cut.bound, found.value if found is not None else now)
            if found is not None and found.value < self.value:
                self.best = BestCut(found, cut.tiling, cut.graph, 0)
        return True

    def _searched(
        self,
        cut: Cut,
        outside: Outside,
        shared: Mapping[tuple[object, frozenset[int]], Pair],
        limit: float,
        stop: float,
        slack: float | None,
    ) -> Schedule | None:
        """The best schedule of a cut within the limit."""
        search = cut.search
        search.outside, search.limit, search.stop = outside, limit, stop
        search.most, search.scored, search.beam = self.sequences, 0, math.inf if slack is None else BEAM
        for i, (front, shape) in enumerate(zip(search.fronts, search.shapes, strict=True)):
            limits = {}
            for chip, least in front.least_on(stop).items():
                if (i, chip) in outside.on:
                    energy, seconds = shared[shape, _places(front, chip)]
                    near = math.inf
                    if slack is not None:
                        near = self.goal.of(energy + least[0], seconds + least[1], search.leak) * (1 + slack)
                    limits[chip] = Limits(search.goal, energy, seconds, min(limit, near), search.leak)
            front.prepare_on(limits, stop)
        return search.least_of_fronts()


def _shared(cuts: list[tuple[Cut, Outside | None]]) -> dict[tuple[object, frozenset[int]], Pair]:
    """What is outside an operator with tensors on the chip at least, whichever the cut."""
    found: dict[tuple[object, frozenset[int]], Pair] = {}
    for cut, outside in cuts:
        if outside is None:
            continue
        for (i, chip), (energy, seconds) in outside.on.items():
            key = cut.search.shapes[i], _places(cut.search.fronts[i], chip)
            known = found.get(key, (math.inf, math.inf))
            found[key] = min(known[0], energy), min(known[1], seconds)
    return found


def _places(front: Front, chip: Chip) -> frozenset[int]:
    """Tensors of an operator by their places, which operators of one shape share."""
    return frozenset(i for i, t in enumerate(front.operator.operands) if t.name in chip)
