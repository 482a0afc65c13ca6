"""Mappings judged by the event tier: the k best by the analytical model are simulated, and ranked again.

Candidates are what a mapper finds from several seeds, and what one exchange of neighbouring temporal loops makes of
them: exchanges leave every tile as it is and change only what is fetched again, and when.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.core.json_types import JsonObject
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost, evaluate
from codesign.mappers.protocol import Mapper, MapResult
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import Mapping, Temporal
from codesign.timing.simulate import OPERATION_LIMIT, Run, simulate
from codesign.timing.table import Timing, timing_for
from codesign.workloads.computation import Computation

if TYPE_CHECKING:
    from codesign.evaluation.whole_network import NetworkResult

DEFAULT_CANDIDATES = 8


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


def _analytic(cost: Cost, objective: Objective) -> float:
    return objective.score(energy_pj=cost.energy_pj, latency_cycles=cost.latency_cycles)


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

    Raises:
        UserError: `candidates` is not positive.
    """
    if candidates < 1:
        raise UserError(f"`candidates` must be >= 1, got {candidates}")
    known: dict[Mapping, Cost] = {}
    for mapping in mappings:
        if mapping not in known:
            cost = evaluate(computation, architecture, mapping, reuse=reuse)
            if isinstance(cost, Cost):
                known[mapping] = cost
    best = sorted(known.items(), key=lambda item: _analytic(item[1], objective))[:candidates]
    timing = timing_for(architecture) if timing is None else timing
    found = []
    for mapping, cost in best:
        run = simulate(computation, architecture, mapping, timing, reuse=reuse)
        if isinstance(run, Run):
            found.append(Candidate(mapping, cost, run))
    return sorted(found, key=lambda c: (c.value(objective), _analytic(c.cost, objective)))


@final
@dataclass(frozen=True)
class EventMapper:
    """A mapper whose k best are ranked again by the event tier.

    Args:
        inner: The search by the analytical model.
        timing: The machine's constants; by default those named like the architecture.
        candidates: How many mappings are simulated.
        seeds: From how many seeds the inner mapper searches.
        name: As mappers have one.
    """

    inner: Mapper
    timing: Timing | None = None
    candidates: int = DEFAULT_CANDIDATES
    seeds: int = 1
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
        started = time.perf_counter()
        results = [
            self.inner.map(problem, objective, budget=budget, seed=seed + i, reuse=reuse) for i in range(self.seeds)
        ]
        first = results[0]
        mappings = [r.mapping for r in results if r.mapping is not None and r.padding is None]
        if not mappings:
            return first
        ordered = any(item.order for item in problem.constraints.levels)
        pool = mappings if ordered else [*mappings, *(m for mapping in mappings for m in exchanges(mapping))]
        ranked = rank_by_events(
            problem.computation,
            problem.architecture,
            pool,
            objective,
            timing=self.timing,
            candidates=self.candidates,
            reuse=reuse,
        )
        if not ranked:
            return first
        won = ranked[0]
        same = won.mapping == first.mapping
        return replace(
            first,
            mapping=won.mapping,
            cost=won.cost,
            evaluated=sum(r.evaluated for r in results) + len(pool),
            seconds=time.perf_counter() - started,
            proof=first.proof if same else Proof.NONE,
            gap=first.gap if same else None,
        )


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


@dataclass(frozen=True)
class TimedNetwork:
    """A network whose layers are simulated one after another.

    Args:
        layers: Its distinct layers.
        vector_cycles: Of the operators that are no multiply-accumulates, by the analytical model.
        seconds: Wall-clock time of the simulations.
    """

    layers: tuple[TimedLayer, ...]
    vector_cycles: float
    seconds: float

    @property
    def latency_cycles(self) -> float:
        """Simulated."""
        return sum(x.run.latency_cycles * x.count for x in self.layers) + self.vector_cycles

    @property
    def analytic_cycles(self) -> float:
        """Of the same mappings by the analytical model."""
        return sum(x.analytic_cycles * x.count for x in self.layers) + self.vector_cycles

    def to_json(self) -> JsonObject:
        """What `--timing event` adds to a network's result."""
        slowest = max(self.layers, key=lambda x: x.run.latency_cycles * x.count)
        return {
            "latency_cycles": self.latency_cycles,
            "analytic_cycles": self.analytic_cycles,
            "bound_by": slowest.run.bound_by,
            "seconds": self.seconds,
            "status": "ok" if all(x.run.complete for x in self.layers) else "partial",
            "timing": [
                {
                    "layer": x.name,
                    "count": x.count,
                    "analytic_cycles": x.analytic_cycles,
                    "latency_cycles": x.run.latency_cycles,
                    "bound_by": x.run.bound_by,
                    "complete": x.run.complete,
                }
                for x in self.layers
            ],
        }


def time_network(result: "NetworkResult", timing: Timing, *, operation_limit: int = OPERATION_LIMIT) -> TimedNetwork:
    """Simulate every distinct layer of a mapped network; layers follow one another, as in the analytical result.

    Activations that stay on chip between layers are moved all the same: mappings are timed as they stand.
    """
    started = time.perf_counter()
    layers = []
    for layer in result.layers:
        found = layer.result
        assert found.mapping is not None and found.cost is not None
        run = simulate(
            layer.computation,
            result.architecture,
            found.mapping,
            timing,
            reuse=result.options.reuse,
            operation_limit=operation_limit,
        )
        assert isinstance(run, Run)
        layers.append(TimedLayer(layer.name, layer.count, found.cost.latency_cycles, run))
    return TimedNetwork(tuple(layers), result.vector.latency_cycles, time.perf_counter() - started)
