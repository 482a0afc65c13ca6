"""Trees of segments on systems of many cores behind the `Scheduler` protocol (docs/explanation/many-cores.md, rules M51 to M54)."""

from dataclasses import dataclass
from typing import final

from codesign.arch.core_kinds import kinds_of, record_of
from codesign.arch.many_core import ManyCore
from codesign.arch.many_core_files import load_system
from codesign.arch.many_core_scaling import with_sizes
from codesign.core import clock
from codesign.core.errors import UserError, unknown_name
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.cost import Infeasible
from codesign.scheduling.protocol import Interval, ScheduleProblem, ScheduleResult
from codesign.scheduling.segments.bound import SegmentBound, bound_of
from codesign.scheduling.segments.evaluate import SEMANTICS, Evaluation, Evaluator
from codesign.scheduling.segments.layers import SegmentNetwork
from codesign.scheduling.segments.network_layers import segment_network
from codesign.scheduling.segments.search import NothingFitsError, SearchSettings, TreeSearch
from codesign.scheduling.segments.timeline import timeline_of
from codesign.scheduling.segments.tree_files import tree_to_json
from codesign.scheduling.soma.model.load import Source, source_of
from codesign.workloads.network import Network

DEFAULT_SYSTEM = "set-8x8"
DEFAULT_STEPS = 2000
"""Trees tried where neither a time limit nor a number is given."""

POWERS = {Objective.EDP: (1.0, 1.0), Objective.ENERGY: (1.0, 1e-6), Objective.LATENCY: (1e-6, 1.0)}
"""Exponents of energy and time; the small one decides between equals."""

PROVEN = 1e-9
"""Relative distance from the bound below which a tree is optimal."""


def settings_for(objective: Objective, budget: Budget, seed: int) -> SearchSettings:
    """How trees are searched for an objective within a budget; results of a given number of trees do not depend on the machine.

    Raises:
        UserError: An objective that no tree is searched for.
    """
    if objective not in POWERS:
        known = ", ".join(o.value for o in POWERS)
        raise UserError(f"trees of segments are searched for {known}, got {objective.value!r}", where="--objective")
    energy, time = POWERS[objective]
    steps = DEFAULT_STEPS if budget.evaluations is None and budget.time_limit_s is None else budget.evaluations
    seconds = 1e9 if budget.time_limit_s is None else budget.time_limit_s
    return SearchSettings(seconds, steps, seed, energy, time, least_use=0.0)


@final
@dataclass(frozen=True)
class SegmentsScheduler:
    """Trees of pipelines over the cores of a system.

    Args:
        system: Its name, file, or itself. It has cores and DRAM of its own, so problems give no architecture.
        mode: Whose rules hold: ``own``, ``set`` or ``gemini``.
    """

    system: str | ManyCore = DEFAULT_SYSTEM
    mode: str = "own"

    def __post_init__(self) -> None:
        if self.mode not in SEMANTICS:
            raise unknown_name("mode", self.mode, SEMANTICS)

    @property
    def name(self) -> str:
        """See `Scheduler`."""
        return "segments"

    def pose(self, problem: ScheduleProblem) -> tuple[Evaluator, int]:
        """The evaluator of a problem's trees, and samples of the whole.

        Raises:
            UserError: Another scheduler's graph, an architecture, or a system that cannot be had.
        """
        if not isinstance(problem.network, Network | Source):
            raise UserError(
                f"scheduler 'segments' reads networks and layer graphs, got {type(problem.network).__name__}",
                where=problem.network.name,
            )
        if problem.architecture is not None:
            raise UserError(
                f"scheduler 'segments' runs on a system of many cores, got architecture {problem.architecture.name!r}",
                hint="name a system instead, such as set-8x8 or gemini-72t",
            )
        source = source_of(problem.network)
        system = load_system(self.system) if isinstance(self.system, str) else self.system
        if problem.capacity_bytes is not None:
            system = with_sizes(system, {"big": problem.capacity_bytes})
        return Evaluator(system, segment_network(source.graph), SEMANTICS[self.mode]), source.batch

    def schedule(self, problem: ScheduleProblem, objective: Objective, *, budget: Budget, seed: int) -> ScheduleResult:
        """See `Scheduler`."""
        if seed < 0:
            raise UserError(f"`seed` must be >= 0, got {seed}")
        began = clock.wall_seconds()
        evaluator, batch = self.pose(problem)
        try:
            found = TreeSearch(evaluator, batch, settings_for(objective, budget, seed)).run()
        except NothingFitsError as error:
            reason = nothing_fits(evaluator.system, evaluator.network, error.message)
            return ScheduleResult("segments", (), None, None, int(reason.limit), infeasible=reason, seed=seed)
        bound = bound_of(evaluator, batch)
        seconds = clock.wall_seconds() - began
        return result_of(evaluator, found.evaluation, bound, objective, found.steps, seconds, seed)


def nothing_fits(system: ManyCore, network: SegmentNetwork, reason: str) -> Infeasible:
    """Why no tree fits: every one tried needs at least a byte more than the buffer of a core has."""
    limit = max(record_of(kind).big.bytes for kind in kinds_of(system))
    return Infeasible("buffer of a core", float(limit + 1), float(limit), "bytes", f"{network.name}: {reason}")


def result_of(
    evaluator: Evaluator,
    found: Evaluation,
    bound: SegmentBound,
    objective: Objective,
    evaluated: int,
    seconds: float,
    seed: int,
) -> ScheduleResult:
    """A tree as every scheduler's result; the bound is shown for our own rules alone."""
    whole, network = found.rows[0], evaluator.network
    gap = gap_of(found, bound, objective) if evaluator.semantics == SEMANTICS["own"] else None
    proof = Proof.NONE if gap is None else Proof.GAP
    if gap is not None and abs(gap) <= PROVEN:
        proof, gap = Proof.OPTIMAL, 0.0
    return ScheduleResult(
        scheduler="segments",
        order=tuple(network.layers[row.layer].name for row in found.rows if row.layer is not None),
        dram_bytes=whole.dram_words,
        peak_buffer_bytes=peak_bytes(found),
        capacity_bytes=int(evaluator.capacity.max()),
        latency_cycles=float(whole.time),
        energy_pj=whole.energy_pj,
        timeline=tuple(
            Interval(run.cores, run.name, run.start, min(run.end, float(whole.time)))
            for run in timeline_of(network, found)
        ),
        proof=proof,
        gap=gap,
        evaluated=evaluated,
        seconds=seconds,
        seed=seed,
        detail={"system": evaluator.system.name, "tree": tree_to_json(found.root, network)},
        found=found,
    )


def gap_of(found: Evaluation, bound: SegmentBound, objective: Objective) -> float:
    """(value - bound) / bound of what is minimised."""
    whole = found.rows[0]
    if objective is Objective.ENERGY:
        return float(whole.energy_pj / bound.energy_pj - 1.0)
    if objective is Objective.LATENCY:
        return float(whole.time / bound.time - 1.0)
    return float(bound.gap(found.edp))


def peak_bytes(found: Evaluation) -> int:
    """Most bytes on one core while a layer or a cut runs, the root apart, whose children are loaded one by one (rule M32)."""
    return max(int((row.usage_bytes[0] + row.usage_bytes[2]).max()) for row in found.rows[1:])
