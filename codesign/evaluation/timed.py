"""Mappings judged by the event tier: the k best by the analytical model are simulated, and ranked again.

Candidates are the k best that annealing meets, or the exact mapper's proven optima with whole and with halved buffers (other mappers:
what they find from several seeds), and what one exchange of neighbouring temporal loops makes of them: exchanges leave every tile as it
is and change only what is fetched again, and when. Of all these the k best by the analytical model are simulated. Where compiled
simulations are all there is to a run, annealing by simulated cycles goes on from the best of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast, final

from codesign.arch.architecture import Architecture
from codesign.core import clock
from codesign.core.checks import check_least
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.core.json_types import Json, JsonObject
from codesign.core.point import Point
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost, Infeasible, evaluate
from codesign.evaluation.design import DesignEvaluator, Evaluation, judged
from codesign.evaluation.detail import LayersDetail
from codesign.evaluation.generated import is_generated
from codesign.evaluation.metrics import Metrics
from codesign.evaluation.network import MappedLayer, evaluate_workload
from codesign.evaluation.records import LayerRecord
from codesign.hardware.analytical import side_of_table
from codesign.hardware.timed import in_layouts, timed_run, timing_at
from codesign.mappers.annealing import AnnealingMapper
from codesign.mappers.driver import OBJECTIVE_CODE, Encoded
from codesign.mappers.exact.halved_buffers import map_with_room
from codesign.mappers.exact.mapper import ExactMapper
from codesign.mappers.protocol import Mapper, MapResult
from codesign.mappers.timed_annealing import WALKS, search_timed
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import Mapping, Temporal
from codesign.timing.simulate import OPERATION_LIMIT, Event, Run
from codesign.timing.table import Overlap, Timing, encode_timing, load_timing, tile_buffers, timing_for
from codesign.workloads.computation import Computation

if TYPE_CHECKING:
    from codesign.evaluation.whole_network import NetworkResult

DEFAULT_CANDIDATES = 8
STARTS = 3
"""Candidates from which walks by simulated cycles begin."""

_ROUNDED = 1e-12

EVENTS_SHOWN = 400
"""Operations of a timeline on a page."""


@dataclass(frozen=True)
class Candidate:
    """A mapping under both models.

    Args:
        mapping: The nest.
        cost: Analytical.
        run: Simulated.
    """

    mapping: Mapping
    cost: Cost
    run: Run

    def value(self, objective: Objective) -> float:
        """The objective with simulated cycles."""
        return objective.score(energy_pj=self.cost.energy_pj, latency_cycles=self.run.latency_cycles)


def exchanges(mapping: Mapping) -> Iterable[Mapping]:
    """The nest with two temporal loops that stand side by side exchanged, for every such pair of two dimensions."""
    nodes = mapping.nodes
    for i in range(len(nodes) - 1):
        a, b = nodes[i], nodes[i + 1]
        if isinstance(a, Temporal) and isinstance(b, Temporal) and a.dim != b.dim:
            yield Mapping((*nodes[:i], b, a, *nodes[i + 2 :]))


def _only_tiles(architecture: Architecture, timing: Timing) -> bool:
    """Whether compiled simulations are all there is to a run: no commands of a DRAM, no mesh, no batches, no other machine."""
    plain = timing.overlap in (Overlap.EVENTS, Overlap.WAITS) and timing.batch_outputs is None
    return plain and all(level.dram is None and level.fanout.mesh is None for level in architecture.levels)


def rank_by_events(
    computation: Computation,
    architecture: Architecture,
    mappings: Iterable[Mapping],
    objective: Objective,
    *,
    timing: Timing | None = None,
    candidates: int = DEFAULT_CANDIDATES,
    reuse: Reuse = Reuse.TIMELOOP,
) -> list[Candidate]:
    """The k best mappings by the analytical model, best by the event tier first; mappings that do not fit are left out.

    Args:
        computation: The operator.
        architecture: The hardware, energies filled in.
        mappings: Nests for the two.
        objective: What is minimised.
        timing: The machine's constants; by default those named like the architecture.
        candidates: How many are simulated.
        reuse: What a buffer need not fetch again.

    Raises:
        UserError: `candidates` is not positive, or no machine runs any of the mappings.
    """
    check_least(1, candidates=candidates)
    known: dict[Mapping, Cost] = {}
    for mapping in mappings:
        if mapping not in known:
            cost = evaluate(computation, architecture, mapping, reuse=reuse)
            if isinstance(cost, Cost):
                known[mapping] = cost
    best = sorted(known.items(), key=lambda item: objective.of(item[1]))[:candidates]
    timing = timing_for(architecture) if timing is None else timing
    found: list[Candidate] = []
    refusal: UserError | None = None
    for mapping, cost in best:
        try:
            run = timed_run(computation, architecture, mapping, timing, reuse=reuse)
        except UserError as error:  # a mapping that its machine does not run: another may do
            refusal = error
            continue
        if isinstance(run, Run):
            found.append(Candidate(mapping, cost, run))
    if refusal is not None and not found:
        raise refusal
    return sorted(found, key=lambda c: (c.value(objective), objective.of(c.cost)))


@final
@dataclass(frozen=True)
class EventMapper:
    """A mapper whose k best are ranked again by the event tier.

    Args:
        inner: The search by the analytical model.
        timing: The machine's constants; by default those named like the architecture.
        candidates: How many mappings are simulated.
        seeds: From how many seeds the inner mapper searches.
        walks: Annealing runs by simulated cycles at most; 0 for none.
        name: As mappers have one.
    """

    inner: Mapper
    timing: Timing | None = None
    candidates: int = DEFAULT_CANDIDATES
    seeds: int = 1
    walks: int = WALKS
    name: str = "event"

    def map(
        self,
        problem: MappingProblem,
        objective: Objective,
        *,
        budget: Budget,
        seed: int,
        reuse: Reuse = Reuse.TIMELOOP,
    ) -> MapResult:
        """See `codesign.mappers.protocol.Mapper`; the cost stays the analytical one of the mapping that won."""
        started = clock.wall_seconds()
        results = [self._search(problem, objective, budget, seed + i, reuse) for i in range(self.seeds)]
        first = results[0]
        kept = [r for r in results if r.mapping is not None and r.padding is None]
        mappings = list(dict.fromkeys(m for r in kept for m in (r.mapping, *r.alternatives) if m is not None))
        if not mappings:
            return first
        ordered = any(item.order for item in problem.constraints.levels)
        pool = mappings if ordered else [*mappings, *(m for mapping in mappings for m in exchanges(mapping))]
        given = problem.computation, problem.architecture
        ranked = rank_by_events(*given, pool, objective, timing=self.timing, candidates=self.candidates, reuse=reuse)
        if not ranked:
            refused = self._refused(problem, mappings[0], reuse)
            return first if refused is None else replace(first, mapping=None, cost=None, infeasible=refused)
        walked, scored = self._walk(problem, ranked, objective, budget, seed, reuse)
        won = min((*ranked, *walked), key=lambda c: (c.value(objective), objective.of(c.cost)))
        proof, gap = self._proof(problem, first, won, objective)
        mapping = won.mapping
        if self.timing is not None and self.timing.overlap is Overlap.GENERATED:
            mapping = in_layouts(*given, won.mapping, self.timing)
        return replace(
            first,
            mapping=mapping,
            cost=won.cost,
            evaluated=sum(r.evaluated for r in results) + len(pool) + scored,
            seconds=clock.wall_seconds() - started,
            proof=proof,
            gap=gap,
        )

    def _timing(self, problem: MappingProblem) -> Timing:
        return timing_for(problem.architecture) if self.timing is None else self.timing

    def _refused(self, problem: MappingProblem, mapping: Mapping, reuse: Reuse) -> Infeasible | None:
        """Why the machine runs no such mapping, as where its sums are wider than the model's words; None where it does."""
        timing = self._timing(problem)
        reason = timed_run(problem.computation, problem.architecture, mapping, timing, reuse=reuse)
        return reason if isinstance(reason, Infeasible) else None

    def _walk(
        self,
        problem: MappingProblem,
        ranked: Sequence[Candidate],
        objective: Objective,
        budget: Budget,
        seed: int,
        reuse: Reuse,
    ) -> tuple[list[Candidate], int]:
        """The best mapping that annealing by simulated cycles meets from the best candidates, and mappings scored."""
        timing = self._timing(problem)
        if (
            self.walks < 1
            or problem.imperfect
            or objective not in OBJECTIVE_CODE
            or not _only_tiles(problem.architecture, timing)
        ):
            return [], 0
        machine = encode_timing(timing, problem.architecture)
        starts = [candidate.mapping for candidate in ranked[:STARTS]]
        encoded = Encoded.of(problem, reuse)
        mapping, scored = search_timed(encoded, starts, machine, objective, budget, seed, walks=self.walks)
        if mapping is None:
            return [], scored
        found = rank_by_events(
            problem.computation, problem.architecture, [mapping], objective, timing=timing, candidates=1, reuse=reuse
        )
        return found, scored

    def _proof(
        self, problem: MappingProblem, first: MapResult, won: Candidate, objective: Objective
    ) -> tuple[Proof, float | None]:
        """What is known of the simulated objective: no mapping is below what the analytical search has proven (K3)."""
        if not _only_tiles(problem.architecture, self._timing(problem)):
            same = won.mapping == first.mapping
            return (first.proof, first.gap) if same else (Proof.NONE, None)
        if first.proof is Proof.NONE or first.cost is None or first.padding is not None:
            return Proof.NONE, None
        bound = objective.of(first.cost) / (1.0 + (first.gap or 0.0))
        gap = max(0.0, won.value(objective) / bound - 1.0)
        return (Proof.GAP, gap) if gap > _ROUNDED else (Proof.OPTIMAL, 0.0)

    def _search(
        self, problem: MappingProblem, objective: Objective, budget: Budget, seed: int, reuse: Reuse
    ) -> MapResult:
        """The inner mapper's result, with alternatives where it has a way to give them."""
        inner, further = self.inner, self.candidates - 1
        if isinstance(inner, ExactMapper):
            buffers = tile_buffers(self._timing(problem), problem.architecture)
            return map_with_room(inner, problem, objective, buffers, further, budget=budget, seed=seed, reuse=reuse)
        if isinstance(inner, AnnealingMapper):
            inner = replace(inner, alternatives=further)
        return inner.map(problem, objective, budget=budget, seed=seed, reuse=reuse)


@dataclass(frozen=True)
class TimedLayer:
    """A distinct layer under both models.

    Args:
        name: Of the first operator.
        count: How many operators are like it.
        analytic_cycles: Of its mapping.
        run: Simulated.
    """

    name: str
    count: float
    analytic_cycles: int
    run: Run

    def to_json(self) -> JsonObject:
        """What a study records beside the layer's analytical figures."""
        return {
            "event_cycles": self.run.latency_cycles,
            "event_bound_by": self.run.bound_by,
            "event_waits_for": self.run.waits_for,
            "event_complete": self.run.complete,
        }


@dataclass(frozen=True)
class TimedNetwork:
    """A network whose layers are simulated one after another.

    Args:
        layers: Its distinct layers.
        vector_cycles: Of the operators that are no multiply-accumulates, by the analytical model.
        seconds: Wall-clock time of the simulations.
        timeline: A layer that takes most of the time, and its first operations.
        missing: Layers that an interruption left out; their cycles stand in neither sum.
    """

    layers: tuple[TimedLayer, ...]
    vector_cycles: float
    seconds: float
    timeline: tuple[str, tuple[Event, ...]] = ("", ())
    missing: tuple[str, ...] = ()

    @property
    def latency_cycles(self) -> float:
        """Simulated cycles of the network: its layers one after another, then the vector operators."""
        return sum(x.run.latency_cycles * x.count for x in self.layers) + self.vector_cycles

    @property
    def analytic_cycles(self) -> float:
        """Of the same mappings by the analytical model."""
        return sum(x.analytic_cycles * x.count for x in self.layers) + self.vector_cycles

    @property
    def complete(self) -> bool:
        """Whether every layer was simulated to its end."""
        return not self.missing and all(x.run.complete for x in self.layers)

    @property
    def slowest(self) -> TimedLayer:
        """The layer that takes most of the time."""
        return max(self.layers, key=lambda x: x.run.latency_cycles * x.count)

    def timeline_json(self) -> JsonObject:
        """The first operations of the slowest layer, as pages draw them."""
        name, events = self.timeline
        rows: list[Json] = [[e.name, e.resource, e.start_cycle, e.end_cycle] for e in events]
        return {"layer": name, "events": rows}

    def page_json(self) -> JsonObject:
        """What pages show: cycles under both models, how each resource spends its time, the timeline."""
        rows: list[Json] = [
            {**row, "resources": {use.resource: use.to_json() for use in layer.run.resources}}
            for row, layer in zip(self._timing(), self.layers, strict=True)
        ]
        return {**self.to_json(), "timing": rows, "timeline": self.timeline_json()}

    def to_json(self) -> JsonObject:
        """What `--timing event` adds to a network's result."""
        return {
            "latency_cycles": self.latency_cycles,
            "analytic_cycles": self.analytic_cycles,
            "bound_by": self.slowest.run.bound_by,
            "waits_for": self.slowest.run.waits_for,
            "seconds": self.seconds,
            "status": "ok" if self.complete else "partial",
            "layers_missing": list(self.missing),
            "timing": self._timing(),
        }

    def _timing(self) -> list[JsonObject]:
        """A row for every distinct layer."""
        return [
            {
                "layer": x.name,
                "count": x.count,
                "analytic_cycles": x.analytic_cycles,
                "latency_cycles": x.run.latency_cycles,
                "bound_by": x.run.bound_by,
                "waits_for": x.run.waits_for,
                "complete": x.run.complete,
            }
            for x in self.layers
        ]


def time_mappings(
    layers: Sequence[MappedLayer],
    vector_cycles: float,
    architecture: Architecture,
    timing: Timing,
    *,
    reuse: Reuse = Reuse.TIMELOOP,
    operation_limit: int = OPERATION_LIMIT,
) -> TimedNetwork:
    """Simulate every distinct layer of a workload; layers follow one another, as in the analytical result.

    Activations that stay on chip between layers are moved all the same: mappings are timed as they stand.
    Ctrl-C after the first layer ends the simulation with the layers that are done; the result names the others.

    Args:
        layers: With mapping and cost.
        vector_cycles: Of the operators that are no multiply-accumulates.
        architecture: Energies filled in.
        timing: The machine's constants.
        reuse: What a buffer need not fetch again.
        operation_limit: Simulated operations of a layer after which it is cut short.
    """
    started = clock.wall_seconds()

    def run_of(layer: MappedLayer, events: int = 0) -> Run:
        run = timed_run(
            layer.computation,
            architecture,
            layer.mapping,
            timing,
            reuse=reuse,
            events=events,
            operation_limit=operation_limit,
        )
        assert isinstance(run, Run)  # its cost is known, so it fits
        return run

    found: list[TimedLayer] = []
    try:
        for x in layers:
            found.append(TimedLayer(x.name, x.count, x.cost.latency_cycles, run_of(x)))
    except KeyboardInterrupt:
        if not found:
            raise
    missing = tuple(x.name for x in layers[len(found) :])
    network = TimedNetwork(tuple(found), vector_cycles, clock.wall_seconds() - started, missing=missing)
    slowest = layers[found.index(network.slowest)]
    return replace(network, timeline=(slowest.name, run_of(slowest, EVENTS_SHOWN).events))


def time_network(result: "NetworkResult", timing: Timing, *, operation_limit: int = OPERATION_LIMIT) -> TimedNetwork:
    """Simulate every distinct layer of a mapped network: see `time_mappings`."""
    return time_mappings(
        [layer.mapped for layer in result.layers],
        result.vector.latency_cycles,
        result.architecture,
        timing,
        reuse=result.options.reuse,
        operation_limit=operation_limit,
    )


@final
@dataclass(frozen=True)
class EventEvaluator:
    """Judges designs by simulated cycles: of every layer the k best mappings are ranked again by the event tier, without walks.

    Args:
        inner: How designs are judged analytically.
        table: Timing table by name or path; None for the one named like the architecture.
        candidates: Mappings of a layer that are simulated.
    """

    inner: DesignEvaluator
    table: str | None = None
    candidates: int = DEFAULT_CANDIDATES

    @property
    def generated(self) -> bool:
        """Whether cycles are those of generated machines."""
        return is_generated(self.table)

    @property
    def ramp_cycles(self) -> float | None:
        """Of every run on a generated machine, beside what its busiest resource needs (K7); None on others."""
        return side_of_table(load_timing(str(self.table))).ramp_cycles if self.generated else None

    def __call__(self, point: Point) -> Evaluation:
        """Evaluate one design."""
        return judged(self.inner.space, point, lambda architecture: self._judge(architecture, point))

    def _judge(self, architecture: Architecture, point: Point) -> tuple[Metrics, LayersDetail] | Infeasible:
        inner = self.inner
        timing = timing_for(architecture) if self.table is None else timing_at(load_timing(self.table), point)
        mapper = EventMapper(inner.mapper, timing, self.candidates, walks=0)
        result = evaluate_workload(inner.workload, architecture, mapper, inner.options)
        if isinstance(result, Infeasible):
            return result
        timed = time_mappings(
            [layer.mapped for layer in result.layers],
            result.vector.latency_cycles,
            architecture,
            timing,
            reuse=inner.options.reuse,
        )
        metrics = with_latency(result.metrics, timed.latency_cycles / architecture.clock_hz)
        record = result.to_json()
        layers = [
            cast(LayerRecord, {**layer, **item.to_json(), "latency_cycles": layer["latency_cycles"]})
            for layer, item in zip(record["layers"], timed.layers, strict=True)
        ]
        return metrics, replace(result.detail(), metrics=metrics.to_dict(), layers=tuple(layers))


def with_latency(metrics: Metrics, latency_s: float) -> Metrics:
    """The figures of a run that takes another time: leakage lasts as long as the run, the rest of the energy stays."""
    dynamic_j = metrics.energy_j - metrics.leakage_w * metrics.latency_s
    return replace(metrics, latency_s=latency_s, energy_j=dynamic_j + metrics.leakage_w * latency_s)
