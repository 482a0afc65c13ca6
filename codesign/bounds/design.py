"""Lower bounds on what a workload costs on the designs of a space, whatever the mappings (docs/explanation/bounds.md)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from codesign.arch.architecture import Architecture, Fanout
from codesign.bounds.box_bounds import BoxBounds
from codesign.bounds.buffered import BufferedTables, Split, is_buffered
from codesign.bounds.chain import ChainTables
from codesign.bounds.chosen import ChosenMappings
from codesign.bounds.dram import DramTables
from codesign.bounds.layer import LayerFacts
from codesign.bounds.machine_searches import MachineSearches, optimistic
from codesign.bounds.parts import BuiltSpace, Figures, Parts, PartTables, area_mm2, figures_of, leakage_w, projected
from codesign.bounds.structure import prices_of, with_prices
from codesign.bounds.vector import VectorWork
from codesign.core.errors import UserError
from codesign.core.goals import Objective
from codesign.cost.arrays import Reuse
from codesign.evaluation.metrics import OBJECTIVES
from codesign.evaluation.network import EvaluationOptions
from codesign.workloads.network import Network
from codesign.workloads.traffic import Activations, Weights
from codesign.workloads.workload import Workload

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

SLACK = 1e-8
"""Relative; bounds are lowered by it, for sums are rounded in another order here than in an evaluation."""

METRICS = frozenset({"latency_s", "energy_j", "area_mm2", "power_w", "edp_js", "leakage_w"})

SLOPES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Slopes of the lines that bound trade-offs, in units of a design's own energy over latency."""

WORTH_A_SEARCH = 3
"""Open machines that must differ in sizes and prices alone, before one that stands for all of them is searched."""

LEFT = 1e-3
"""Share of a machine's energy that layers left out of a search may still add together."""

PART = 0.1
"""Of the share asked to be proven, that searches of layers may be off by."""

_PLENTY = 1e100
"""Seconds and joules beyond any design's."""

RELATIVES = 64
"""Designs beside it that are looked at again after searches for one."""

EVEN_MAPPERS = frozenset({"exact", "genetic", "hybrid", "cosa", "anneal", "random"})
"""Mappers whose mappings the bounds hold for: even ones with perfect factors, every level keeping what it may keep."""


_COVERED = frozenset({"objective", "budget", "seed", "reuse", "rules", "activation_bytes", "constraints"})
"""Options that bounds take into account, or hold whatever their value; others must be at their default."""


def why_not(options: EvaluationOptions, mapper: str) -> str | None:
    """Why designs judged like this have no bounds; None where they have (rule LB9)."""
    if mapper not in EVEN_MAPPERS:
        return f"mapper {mapper!r} also finds mappings that the bounds do not cover"
    if options.reuse is Reuse.RESIDENT:
        return "buffers keep what is resident"
    if options.constraints.free_bypass:
        return "memories may be bypassed freely"
    if options.rules.activations is not Activations.DRAM or options.rules.weights is not Weights.PER_RUN:
        return "activations or weights stay on chip between layers"
    for item in fields(options):
        if item.name not in _COVERED and getattr(options, item.name) != getattr(EvaluationOptions(), item.name):
            return f"evaluation option {item.name!r} is not covered"
    return None


def bounds_of(
    space: BuiltSpace, workload: Workload | Network, options: EvaluationOptions | None = None, mapper: str = "exact"
) -> "DesignBounds":
    """The bounds of a space for a workload.

    Raises:
        UserError: Designs judged like this have no bounds.
    """
    reason = why_not(options or EvaluationOptions(), mapper)
    if reason is not None:
        raise UserError(f"no bounds: {reason}")
    return DesignBounds(space, workload, options)


@final
class DesignBounds:
    """Bounds of designs, from tables that are shared and filled when first needed.

    Args:
        space: Where designs come from; one with `parts` is bounded by parts, others design by design.
        workload: What they run, every layer alone, everything between layers through DRAM.
        options: How they are judged; constraints that name X or Y tell a machine from its quarter turn.
        run_cycles: Of designs judged by generated machines: cycles of every layer's run beside those of its busiest resource (rule LB17).
            Such machines tell all designs apart.
        chosen: What the mapping of every layer is optimal for (`chosen_by`); None where bounds are to hold for all mappings.
    """

    exact_metrics = frozenset({"area_mm2", "leakage_w"})

    def __init__(
        self,
        space: BuiltSpace,
        workload: Workload | Network,
        options: EvaluationOptions | None = None,
        run_cycles: float | None = None,
        chosen: Objective | None = None,
    ) -> None:
        self._space = space
        self._objective = (options or EvaluationOptions()).objective
        self.turns = options is None or all(c.along_x is None for c in options.constraints.levels)
        self._workload = workload if isinstance(workload, Workload) else Workload.of([workload])
        groups = self._workload.distinct_layers()
        self.layers = [LayerFacts(g.computation) for g in groups]
        self.counts = np.array([g.count for g in groups], dtype=np.float64)
        self.dram = DramTables(self.layers)
        self.buffered = BufferedTables(self.layers, self.dram)
        self.chain = ChainTables(self.layers, self.counts, self.dram)
        self.machines = MachineSearches(self.layers, self.counts, self.chain)
        self.chosen = None if chosen is None else ChosenMappings(self.machines, self.counts, chosen)
        self.told_apart = run_cycles is not None
        fixed = float(self.counts.sum()) * (run_cycles or 0.0)
        self.vector = replace(VectorWork.of(self._workload), fixed_cycles=fixed)

    @property
    def parts(self) -> Parts | None:
        """Which parameters each part of an architecture depends on, where the space says so."""
        found: Parts | None = getattr(self._space, "parts", None)
        return found

    @cached_property
    def boxes(self) -> BoxBounds:
        """Bounds of boxes of designs, for spaces too large to be listed."""
        return BoxBounds(self._space, self)

    def lower_bounds(self, indices: Indices, metrics: Sequence[str]) -> Floats:
        """Bounds of some designs, NaN for a metric without one: ``n x d`` rows to ``n x m``."""
        return self.table(indices).values(metrics)

    def expected(self, indices: Indices, metrics: Sequence[str]) -> Floats:
        """What to expect of some designs without a search, nowhere below their bounds: ``n x d`` rows to ``n x m``.

        Where memories form a chain, the spatial split that is best for the judge's objective stands for the mapping of each layer.
        """
        return self.table_of_designs(self.figures(indices), likely=True).values(metrics)

    def table(self, indices: Indices) -> "BoundTable":
        """The bounds of some designs, to be looked at and sharpened: ``n x d`` rows."""
        return self.table_of_designs(self.figures(indices))

    def figures(self, indices: Indices) -> list[Figures]:
        """The parts of some designs: ``n x d`` rows."""
        return figures_of(self._space.space, self._space.build, indices, self._part_tables) if len(indices) else []

    @cached_property
    def _part_tables(self) -> PartTables | None:
        return None if self.parts is None else PartTables(self._space.space, self._space.build, self.parts)

    def table_of_designs(self, found: Sequence[Figures], likely: bool = False) -> "BoundTable":
        """The bounds of designs whose parts are known, or what is likely."""
        count = sum(len(figures.rows) for figures in found)
        area, leakage = np.zeros(count), np.zeros(count)
        for figures in found:
            area[figures.rows], leakage[figures.rows] = area_mm2(figures), leakage_w(figures)
        return self.table_of(found, area, leakage, likely)

    def table_of(self, found: Sequence[Figures], area: Floats, leakage: Floats, likely: bool = False) -> "BoundTable":
        """The bounds of designs whose figures, area in mm2 and leakage in W are known, or what is likely: ``n`` each."""
        count = len(area)
        cycles, energy, clock = np.zeros(count), np.zeros(count), np.ones(count)
        vector_cycles, vector_pj = np.zeros(count), np.zeros(count)
        pieces = []
        if count:
            for figures in found:
                at = figures.rows
                split = self.buffered.bound(figures) if is_buffered(figures, self.layers) else None
                if split is None:
                    energy[at], cycles[at] = self._one_by_one(figures, likely)
                else:
                    energy[at], cycles[at] = split.energy_pj(self.counts), split.cycles(self.counts)
                vector_cycles[at], vector_pj[at] = self.vector.on(figures)
                cycles[at] += vector_cycles[at]
                energy[at] += vector_pj[at]
                clock[at] = figures.clock_hz
                pieces.append((figures, split))
        return BoundTable(self, pieces, cycles / clock, energy * 1e-12, area, leakage, clock, vector_cycles, vector_pj)

    def plain_table(
        self, latency_s: Floats, dynamic_j: Floats, area: Floats, leakage: Floats, clock_hz: Floats, zeros: Floats
    ) -> "BoundTable":
        """Bounds that are known already, as a table that cannot be sharpened."""
        return BoundTable(self, [], latency_s, dynamic_j, area, leakage, clock_hz, zeros, zeros)

    def _one_by_one(self, figures: Figures, likely: bool) -> tuple[Floats, Floats]:
        """Bounds of designs of no special family, each distinct machine once: dynamic energy and cycles, ``n`` each."""
        seen: dict[Architecture, tuple[float, float]] = {}
        energy, cycles = np.zeros(len(figures.rows)), np.zeros(len(figures.rows))
        for design in range(len(figures.rows)):
            machine = replace(figures.architecture(design), extra_area_mm2=0.0, extra_leakage_mw=0.0)
            if machine not in seen:
                spent, by_layer = self.chain.likely(machine, self._objective) if likely else self.chain.bound(machine)
                whole = np.ceil(by_layer * (1.0 - 1e-12) - 1e-6)
                seen[machine] = float(self.counts @ spent), float((self.counts * whole).sum())
            energy[design], cycles[design] = seen[machine]
        return energy, cycles


@final
class BoundTable:
    """Bounds of a fixed list of designs. Sharpening raises them in place; they never fall.

    Args:
        model: Where the tables are.
        pieces: Figures of the designs, with what their family knows.
        latency_s: ``n``.
        dynamic_j: ``n``.
        area_mm2: ``n``, exact.
        leakage_w: ``n``, exact.
        clock_hz: ``n``.
        vector_cycles: Of vector operators: ``n``.
        vector_pj: Likewise, and of fused functions: ``n``.
    """

    def __init__(
        self, model: DesignBounds, pieces: list[tuple[Figures, Split | None]], latency_s: Floats, dynamic_j: Floats, area_mm2: Floats,
        leakage_w: Floats, clock_hz: Floats, vector_cycles: Floats, vector_pj: Floats,
    ) -> None:  # fmt: skip
        self._model, self._pieces = model, pieces
        self.latency_s, self.dynamic_j, self.area_mm2, self.leakage_w = latency_s, dynamic_j, area_mm2, leakage_w
        self._clock_hz, self.vector_cycles, self.vector_pj = clock_hz, vector_cycles, vector_pj
        self._piece = np.zeros(len(latency_s), dtype=np.int64)
        self._within = np.zeros(len(latency_s), dtype=np.int64)
        for k, (figures, _) in enumerate(pieces):
            self._piece[figures.rows] = k
            self._within[figures.rows] = np.arange(len(figures.rows))
        self._sharp = np.full(len(latency_s), np.inf)  # the share within which searches are done
        self._power_w = leakage_w.copy()

    exact_metrics = DesignBounds.exact_metrics

    def values(self, metrics: Sequence[str], at: Indices | None = None) -> Floats:
        """Bounds by metric, NaN for one without: ``n x m``, or the rows `at`."""
        rows = slice(None) if at is None else at
        latency, leakage = self.latency_s[rows], self.leakage_w[rows]
        with np.errstate(invalid="ignore"):
            energy = np.where(np.isfinite(latency), self.dynamic_j[rows] + leakage * latency, np.inf)
            known: dict[str, Callable[[], Floats]] = {
                "latency_s": lambda: latency * (1.0 - SLACK),
                "energy_j": lambda: energy * (1.0 - SLACK),
                "edp_js": lambda: energy * latency * (1.0 - 2.0 * SLACK),
                "area_mm2": lambda: self.area_mm2[rows] * (1.0 - 1e-12),
                "power_w": lambda: self._power_w[rows] * (1.0 - SLACK),
                "leakage_w": lambda: leakage * (1.0 - SLACK),
            }
            columns = [
                known[m]() if (m := OBJECTIVES.get(name, name)) in known else np.full(len(latency), np.nan)
                for name in metrics
            ]
        return np.stack(columns, axis=1) if columns else np.zeros((len(latency), 0))

    # ---- what a design may still reach -----------------------------------------------------------

    def supports(self, at: Indices) -> tuple[Floats, Floats]:
        """Lines below all (latency, energy) of a design: slopes in W and least of slope x latency + energy in J: ``n x q`` each."""
        slopes = np.zeros((len(at), len(SLOPES)))
        least = np.full((len(at), len(SLOPES)), -np.inf)
        energy = self.dynamic_j[at] + self.leakage_w[at] * self.latency_s[at]
        slopes[:] = (energy / self.latency_s[at])[:, None] * np.array(SLOPES)
        for k, (_, split) in enumerate(self._pieces):
            mine = np.flatnonzero(self._piece[at] == k)
            if split is None or not len(mine):
                continue
            designs = at[mine]
            per_cycle = (slopes[mine] + self.leakage_w[designs][:, None]) / self._clock_hz[designs][:, None] * 1e12
            value = split.supports(self._within[designs], per_cycle, self._model.counts)
            value += per_cycle * self.vector_cycles[designs][:, None] + self.vector_pj[designs][:, None]
            least[mine] = value * 1e-12 * (1.0 - SLACK)
        return slopes, least

    def reaches(
        self, at: Indices, corners: Floats, metrics: Sequence[str], limits: Mapping[str, float]
    ) -> NDArray[np.bool_]:
        """Whether some mapping of a design may lie below a corner in every metric and keep all limits: ``n x k``.

        Latency and energy trade against each other: besides each one's own bound the lines of `supports` hold, and power is
        energy over latency (rule LB10).

        Args:
            at: Designs: ``n``.
            corners: Values to be below, infinite where anything goes: ``k x m``.
            metrics: Their names.
            limits: Largest allowed value of further metrics.
        """
        slopes, least = self.supports(at)
        caps = {name: np.full((1, len(corners)), math.inf) for name in METRICS}
        for short, limit in limits.items():
            name = OBJECTIVES.get(short, short)
            if name in caps:
                caps[name] = np.minimum(caps[name], limit)
        for column, short in enumerate(metrics):
            name = OBJECTIVES.get(short, short)
            if name in caps:
                caps[name] = np.minimum(caps[name], corners[None, :, column])
        latency = self.latency_s[at][:, None] * (1.0 - SLACK)
        leakage = self.leakage_w[at][:, None]
        energy = (self.dynamic_j[at][:, None] + leakage * self.latency_s[at][:, None]) * (1.0 - SLACK)
        top_latency = np.minimum(caps["latency_s"], caps["edp_js"] / energy)
        top_energy = np.minimum(caps["energy_j"], caps["edp_js"] / latency)
        top_energy = np.minimum(top_energy, caps["power_w"] * top_latency)
        latency = np.maximum(latency, energy / caps["power_w"])
        reachable = (latency < top_latency) & (energy < top_energy)
        reachable &= self.area_mm2[at][:, None] * (1.0 - 1e-12) < caps["area_mm2"]
        reachable &= leakage * (1.0 - SLACK) < caps["leakage_w"]
        reachable &= self._power_w[at][:, None] * (1.0 - SLACK) < caps["power_w"]
        for q in range(slopes.shape[1]):
            with np.errstate(invalid="ignore"):
                reachable &= ~(slopes[:, q : q + 1] * top_latency + top_energy <= least[:, q : q + 1])
        return np.asarray(reachable)

    def alike(self) -> Indices:
        """Equal numbers for designs whose machines differ by exchanging X and Y at most, with equal area and leakage (rule LB11): ``n``."""
        if self._model.told_apart:
            return np.arange(len(self.latency_s))
        found = np.zeros(len(self.latency_s), dtype=np.int64)
        offset = 0
        for figures, _ in self._pieces:
            turned = []
            for depth in range(figures.depth):
                shapes: dict[Fanout, int] = {}
                upright = [self._upright(f) for f in figures.fanouts[depth]]
                number = np.array([shapes.setdefault(f, len(shapes)) for f in upright], dtype=np.int64)
                turned.append(number[figures.fanout[depth]])
            _, machine = projected([*figures.level, figures.mac, *turned])
            floats = [figures.clock_hz, self.area_mm2[figures.rows], self.leakage_w[figures.rows]]
            which = _numbered(
                machine, [np.round(np.log(np.maximum(f, 1e-300)) * 1e11).astype(np.int64) for f in floats]
            )
            found[figures.rows] = offset + which
            offset += int(which.max()) + 1
        return found

    def _upright(self, fanout: Fanout) -> Fanout:
        """The same for a fan-out and its quarter turn, unless mappings or the places of routers tell them apart."""
        if not self._model.turns or fanout.mesh is not None:
            return fanout
        return replace(fanout, x=min(fanout.x, fanout.y), y=max(fanout.x, fanout.y))

    # ---- sharper bounds --------------------------------------------------------------------------

    def sharpen(self, at: int, peers: Indices, within: float = 0.0, enough: Callable[[], bool] = lambda: False) -> bool:
        """Raise the energy bound of a design and of related ones among the peers by exact searches (rule LB8).

        Args:
            at: The design to sharpen.
            peers: Designs still of interest, for which a search should hold too.
            within: What is asked to be proven, as a share: searches of layers need be no closer than a part of it.
            enough: Whether the bounds of the design are sharp enough as they are.

        Returns:
            Whether anything was done: False once the sharpest bound is known.
        """
        left = max(LEFT, PART * within)
        if self._sharp[at] <= left:
            return self._of_chosen(at, enough)
        related = self._related(at, peers)
        machines: dict[Architecture, list[int]] = {}
        for k in related:
            architecture = self._architecture(int(k))
            machines.setdefault(with_prices(architecture, prices_of(architecture)), []).append(int(k))
        own = next(m for m, designs in machines.items() if at in designs)
        searches, split = self._model.machines, self._pieces[int(self._piece[at])][1]
        if split is None and len(machines) >= WORTH_A_SEARCH:
            for dear in (False, True):
                searches.search(optimistic(list(machines), dear=dear), 0, left)
        searches.sharpen_energy(own, self._layers(at)[0], left, lambda pj: self._would_do(at, pj, enough))
        for machine, designs in machines.items():
            for k in designs:
                self._raise(k, float(self._model.counts @ searches.least_pj(machine, self._layers(k)[0])))
        self._sharp[machines[own]] = left
        self._of_chosen(at, enough)
        return True

    def _of_chosen(self, at: int, enough: Callable[[], bool]) -> bool:
        """Raise the bounds of a design by what the judge chooses, if its power matters (rule LB18); whether that did."""
        chosen, machine = self._model.chosen, self._architecture(at)
        everything = np.array([_PLENTY, _PLENTY, 0.0])  # enough where no power is asked for
        if chosen is None or not chosen.covers(machine) or self._would(at, everything, enough):
            return False
        floors = self._layers(at)
        found = chosen.sharpen(machine, floors, lambda *found: self._would(at, self._judged(at, *found), enough))
        before, after = self._columns(at), self._judged(at, *found)
        self.latency_s[at], self.dynamic_j[at], self._power_w[at] = after
        return bool((after > before).any())

    def _judged(self, design: int, least_pj: Floats, least: Floats, most: Floats) -> Floats:
        """Bounds of latency, dynamic energy and power from ranges of the layers' chosen mappings, nowhere below those known: ``3``."""
        counts, clock, beside = self._model.counts, self._clock_hz[design], self.vector_cycles[design]
        latency, dynamic, power = self._columns(design)
        latency = max(latency, (float(counts @ least) + beside) / clock)
        dynamic = max(dynamic, (float(counts @ least_pj) + self.vector_pj[design]) * 1e-12)
        slowest = (float(counts @ most) + beside) / clock
        return np.array([latency, dynamic, max(power, dynamic / slowest + self.leakage_w[design])])

    def _columns(self, design: int) -> Floats:
        return np.array([self.latency_s[design], self.dynamic_j[design], self._power_w[design]])

    def _would(self, design: int, columns: Floats, enough: Callable[[], bool]) -> bool:
        """Whether these bounds of latency, dynamic energy and power would be enough."""
        before = self._columns(design)
        self.latency_s[design], self.dynamic_j[design], self._power_w[design] = columns
        found = enough()
        self.latency_s[design], self.dynamic_j[design], self._power_w[design] = before
        return found

    def _layers(self, design: int) -> tuple[Floats, Floats]:
        """Bounds on the energy in pJ and the cycles of each layer without a search: ``layers`` twice."""
        split = self._pieces[int(self._piece[design])][1]
        if split is None:
            return self._model.chain.bound(self._architecture(design))
        return split.layers(int(self._within[design]))

    def _would_do(self, design: int, energy_pj: float, enough: Callable[[], bool]) -> bool:
        """Whether a bound on the energy of a design's layers would be enough."""
        latency, dynamic, power = self._columns(design)
        raised = max(dynamic, (energy_pj + self.vector_pj[design]) * 1e-12)
        return self._would(design, np.array([latency, raised, power]), enough)

    def _related(self, design: int, peers: Indices) -> Indices:
        """A design and at most `RELATIVES` peers whose machines its searches may say something of."""
        figures, split = self._pieces[int(self._piece[design])]
        same = self._alike_arrays(design, peers)
        if split is not None:
            mine, at = int(self._within[design]), self._within[same]
            like = np.ones(len(same), dtype=np.bool_)
            for depth in range(1, figures.depth):
                sizes = np.array([v.capacity_bytes or np.inf for v in figures.levels[depth]])
                like &= sizes[figures.level[depth, at]] == sizes[figures.level[depth, mine]]
            same = same[like]
        return np.union1d([design], same[:RELATIVES]).astype(np.int64)

    def _alike_arrays(self, design: int, peers: Indices) -> Indices:
        """Peers with the arrays of a design, and levels that differ in sizes and prices at most."""
        figures, _ = self._pieces[int(self._piece[design])]
        mine = int(self._within[design])
        same = peers[self._piece[peers] == self._piece[design]]
        at = self._within[same]
        like = np.ones(len(same), dtype=np.bool_)
        for depth in range(figures.depth):
            like &= figures.fanout[depth, at] == figures.fanout[depth, mine]
            kinds = [(v.word_bits, v.keep, v.one_element_per_word, v.ports) for v in figures.levels[depth]]
            wanted = kinds[figures.level[depth, mine]]
            like &= np.array([kind == wanted for kind in kinds])[figures.level[depth, at]]
        found: Indices = same[like]
        return found

    def _architecture(self, design: int) -> Architecture:
        figures = self._pieces[int(self._piece[design])][0]
        return figures.architecture(int(self._within[design]))

    def _raise(self, design: int, energy_pj: float) -> None:
        """A bound on the energy of a design's layers, beside the vector operators."""
        total = (energy_pj + self.vector_pj[design]) * 1e-12
        self.dynamic_j[design] = max(self.dynamic_j[design], total)


def _numbered(machine: Indices, others: Sequence[Indices]) -> Indices:
    """Equal numbers for rows that are equal in every column: ``n``. Sorted once, by a hash that is then checked."""
    code = machine.astype(np.uint64)
    for column in others:
        code = code * np.uint64(0x9E3779B97F4A7C15) + column.astype(np.uint64)
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    which = which.reshape(-1)
    if all(np.array_equal(column[first][which], column) for column in (machine, *others)):
        return np.asarray(which, dtype=np.int64)
    return np.arange(len(machine))  # two rows of one hash: none is alike another
