"""The uneven mapping of least energy, latency or energy-delay product, profile by profile (P8, docs/explanation/exact-mapper.md)."""

import math
from collections import OrderedDict
from dataclasses import replace

import numpy as np

from codesign.core.errors import UserError
from codesign.core.goals import Objective
from codesign.core.labels.program import sweep_limit
from codesign.cost.arrays import UNBOUNDED, Reuse
from codesign.cost.sparse.bounds import is_rescaled
from codesign.mappers.exact.even.profile_queue import CHAINS, Part, ProfileQueue
from codesign.mappers.exact.incumbent import TOLERANCE, Incumbent
from codesign.mappers.exact.mesh import has_mesh
from codesign.mappers.exact.problem.instance import Instance
from codesign.mappers.exact.problem.loop_rows import LoopRows
from codesign.mappers.exact.uneven.places import Places, Step
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.nest import FloatArray, Nest

EXACT = 100
"""Stage at which a profile whose windows were relaxed is bounded again, exactly; sweeps follow."""

_READY = 32
"""Profiles whose arrays stay in memory."""

_ROUNDING = 1e-10
"""Relative difference below which the walk's value and the kernel's are one."""


def refuse_uncovered(problem: MappingProblem, reuse: Reuse) -> None:
    """Refuse what uneven search does not cover, by name.

    Raises:
        UserError: With the first such thing.
    """
    architecture, constraints = problem.architecture, problem.constraints
    problem.need_exact_factors()
    asked = {
        "imperfect factors": problem.imperfect,
        "a least utilisation": problem.least_units > 1,
        "hardware that knows zeros": is_rescaled(problem.computation, architecture),
        "links 'mesh'": has_mesh(architecture),
        "links 'peer'": any(level.fanout.links.value == "peer" for level in architecture.levels),
        f"reuse rule {reuse.name.lower()!r}": reuse is not Reuse.TIMELOOP,
        "fixed factors of temporal loops": any(item.temporal for item in constraints.levels),
        "fixed orders of loops": any(item.order for item in constraints.levels),
    }
    for what, given in asked.items():
        if given:
            raise UserError(f"uneven search does not cover {what}", hint="leave out --uneven")


def refuse_windows(instance: Instance) -> None:
    """Refuse windows that uneven search does not cover.

    Raises:
        UserError: With the tensors.
    """
    sliding = [t for t, axes in enumerate(instance.sliding_axes) if axes]
    names = [instance.source.computation.tensors[t].name for t in sliding]
    if len(sliding) > 1:
        raise UserError(f"uneven search covers one tensor with sliding windows, got {', '.join(names)}")
    if any(instance.problem.entangled[t] for t in sliding):
        raise UserError(f"uneven search does not cover a dimension on two axes of a tensor ({names[0]!r})")


def search_places(instance: Instance, best: Incumbent) -> float:
    """Search all profiles, keep sets and places; returns a lower bound on what was not searched (infinite if nothing)."""
    problem = instance.problem
    whole, most = (problem.tensor_words * problem.element_bits[0]).sum(), problem.capacity_bits[0]
    if most != UNBOUNDED and whole > most:
        return math.inf  # the outermost level holds everything
    return PlaceSearch(instance, best).run()


class PlaceSearch:
    """Sweeps profiles in the order of their bounds until none can be better; `places` makes a profile's stages."""

    def __init__(self, instance: Instance, best: Incumbent, places: type[Places] = Places) -> None:
        self._make = places
        self.best, self.queue = best, ProfileQueue(instance, best)
        self._first = CHAINS if any(instance.sliding_axes) else EXACT
        self._ready: OrderedDict[tuple[tuple[int, ...], bool], Places] = OrderedDict()
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
        key = part.row, part.stage < EXACT
        found = self._ready.get(key)
        if found is None:
            counts_energy = self.best.goal.objective is not Objective.LATENCY
            found = self._make(self.queue.problem, np.array(part.row), part.cycles, counts_energy, relaxed=key[1])
            self._ready[key] = found
            if len(self._ready) > _READY:
                self._ready.popitem(last=False)
        self._ready.move_to_end(key)
        return found

    def _bound(self, part: Part) -> None:
        """Bound a profile by the least each charge can come to (U11)."""
        places = self._places(part)
        energy, cycles = places.least()
        self.best.count(places.cells)
        energy, cycles = max(part.energy, energy), max(part.cycles, cycles)
        value = max(part.value, self.best.goal.value(energy, cycles))
        self.queue.push(replace(part, stage=part.stage + 1, energy=energy, cycles=cycles, value=value))

    def _sweep(self, part: Part) -> None:
        """Sweep a profile up to a limit; go on with a higher one, exactly, or with one more port, if that may pay."""
        places, top = self._places(part), self.best.value * (1.0 - TOLERANCE)
        limit = sweep_limit(part.value, part.stage % EXACT - 1, top)
        walk = places.best(self.best.goal, limit)
        self.best.count(places.spent)
        if walk is None:
            if limit < top:
                self.queue.push(replace(part, stage=part.stage + 1, value=limit))
            return
        nest = _write_nest(self.queue.problem.instance, places.profile.spatial, walk.steps)
        energy, cycles = self.best.offer(nest)
        if self.best.goal.value(energy, cycles) <= walk.value * (1.0 + _ROUNDING):
            return
        value = max(part.value, walk.value)
        slow = places.slowest_unwatched(walk)
        if slow is not None:
            places.also_watch(slow)
            self.queue.push(replace(part, stage=part.stage // EXACT * EXACT, value=value))
        elif part.stage < EXACT:
            self.queue.push(replace(part, stage=EXACT, value=value))
        else:
            self._unsearched = min(self._unsearched, value)


class _Writer(LoopRows):
    """Steps over one dimension that follow each other become one loop."""

    pending = (-1, 1)

    def step(self, d: int, factor: int) -> None:
        """A part of a loop in time."""
        if self.pending[0] != d:
            self.flush()
        self.pending = d, self.pending[1] * factor

    def flush(self) -> None:
        """Write the loop that might have grown."""
        (d, factor), self.pending = self.pending, (-1, 1)
        if d >= 0:
            self.temporal(d, factor)


def _write_nest(instance: Instance, spatial: FloatArray, steps: tuple[Step, ...]) -> Nest:
    """The nest of a walk, its steps outermost first; `spatial` is ``L x D`` factors of every fan-out."""
    writer, next_fanout = _Writer(instance), 0

    def cross(m: int) -> None:
        """Write the spatial loops of a level."""
        writer.flush()
        writer.fanout(m, spatial[m])

    for step in steps:
        while not step.segment.outermost and next_fanout < step.segment.first:  # what stands outside the segment
            cross(next_fanout)
            next_fanout += 1
        if step.loop is not None:
            writer.step(*step.loop)
        if step.action is not None:
            if step.action.places or step.action.slides or step.action.shares or step.action.only:
                writer.flush()  # a run is a loop of its own (P10)
            for level in sorted(step.action.places):
                writer.node(level, step.action.tensor)
    for m in range(next_fanout, instance.n_levels):
        cross(m)
    return writer.nest()
