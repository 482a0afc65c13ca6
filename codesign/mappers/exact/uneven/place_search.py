"""The uneven mapping of least energy, latency or energy-delay product, profile by profile (P8, docs/explanation/exact-mapper.md)."""

import math
from collections import defaultdict
from dataclasses import replace

import numpy as np

from codesign.core.goals import Objective
from codesign.cost.arrays import UNBOUNDED
from codesign.mappers.exact.even.profile_queue import CHAINS, Part, ProfileQueue
from codesign.mappers.exact.incumbent import TOLERANCE, Incumbent
from codesign.mappers.exact.problem.instance import Instance
from codesign.mappers.exact.uneven.nests import write_nest
from codesign.mappers.exact.uneven.places import Places, Walk
from codesign.mapping.nest import Nest

EXACT = 2
"""Stage at which a profile whose windows were relaxed is bounded again, exactly; a bound is followed by a sweep."""

_ROUNDING = 1e-10
"""Relative difference below which the walk's value and the kernel's are one."""


def search_places(instance: Instance, best: Incumbent) -> float:
    """Search all profiles, keep sets and places; returns a lower bound on what was not searched (infinite if nothing)."""
    whole = sum(int(instance.fewest_of_all(t)) * int(b) for t, b in enumerate(instance.problem.element_bits[0]))
    if instance.problem.capacity_bits[0] != UNBOUNDED and whole > instance.problem.capacity_bits[0]:
        return math.inf  # the outermost level holds everything
    return PlaceSearch(instance, best).run()


class PlaceSearch:
    """Sweeps profiles in the order of their bounds until none can be better; `places` makes a profile's stages."""

    def __init__(self, instance: Instance, best: Incumbent, places: type[Places] = Places) -> None:
        self._make = places
        self.best, self.queue = best, ProfileQueue(instance, best)
        self._first = CHAINS if any(instance.sliding_axes) else EXACT
        self._slow = defaultdict[tuple[int, ...], set[int]](set)  # ports that turned out too slow, by profile
        self._unsearched = math.inf

    def run(self) -> float:
        """Search; returns a lower bound on what was not searched (infinite if nothing)."""
        while self.best.beaten_by(self.queue.bound):
            if self.best.late:
                return min(self._unsearched, self.queue.bound)
            part = self.queue.next_part()
            if part is None:
                continue
            stage = max(part.stage, self._first)
            try:
                if stage in (CHAINS, EXACT):
                    self._bound(replace(part, stage=stage))
                else:
                    self._sweep(part)
            except OverflowError:
                self._unsearched = min(self._unsearched, part.value)
        return self._unsearched

    def _places(self, part: Part) -> Places:
        counts_energy = self.best.goal.objective is not Objective.LATENCY
        row, relaxed = np.array(part.row), part.stage < EXACT
        places = self._make(self.queue.problem, row, part.cycles, counts_energy, relaxed=relaxed)
        places.watch = sorted(self._slow[part.row])
        return places

    def _bound(self, part: Part) -> None:
        """Bound a profile by the least each charge can come to (U11)."""
        places = self._places(part)
        energy, cycles = places.least()
        self.best.count(places.cells)
        energy, cycles = max(part.energy, energy), max(part.cycles, cycles)
        value = max(part.value, self.best.goal.value(energy, cycles))
        self.queue.push(replace(part, stage=part.stage + 1, energy=energy, cycles=cycles, value=value))

    def _sweep(self, part: Part) -> None:
        """Sweep a profile; it goes back with one more port, or exactly, if that may pay."""
        places = self._places(part)
        walk = places.best(self.best.goal, self.best.value * (1.0 - TOLERANCE))
        self.best.count(places.spent)
        if walk is None:
            return
        energy, cycles = self.best.offer(*self.nest(places, walk))
        if self.best.goal.value(energy, cycles) <= walk.value * (1.0 + _ROUNDING):
            return
        value, slow = max(part.value, walk.value), places.slowest_unwatched(walk)
        if slow is not None:
            self._slow[part.row].add(slow)
            self.queue.push(replace(part, stage=part.stage - 1, value=value))
        elif part.stage < EXACT:
            self.queue.push(replace(part, stage=EXACT, value=value))
        else:
            self._unsearched = min(self._unsearched, value)

    def nest(self, places: Places, walk: Walk) -> tuple[Nest, int]:
        """The nest of a walk as the cost kernel scores it."""
        return write_nest(self.queue.problem.instance, places.spatial, walk.steps)
