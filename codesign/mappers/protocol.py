"""The interface every mapper has: a problem, an objective and a budget go in, the best mapping comes out."""

import math
from dataclasses import dataclass
from typing import Protocol

from codesign.core.goals import Budget, Costs, Objective, Proof
from codesign.core.json_types import Json, JsonObject
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost, Infeasible
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.files import mapping_to_json
from codesign.mapping.mapping import Mapping


@dataclass(frozen=True)
class MipReport:
    """What a mapper that solves a mixed-integer program says of the program.

    Args:
        objective: Best objective value found; None when the program has no solution or none was found.
        reading: Which published form of the program was solved.
        bound: Proven lower bound on the objective; None when there is none.
        seconds: CPU time of building and solving the program.
        status: How the solver ended.
        solver: Which one.
        schedules: Different schedules of the program that the cost kernel chose among.
        one_shot: Cost of the program's own schedule, tightened where it does not fit (`note` says so); None without one.
        padding: (dimension, bound, bound it was raised to) of every dimension that was padded.
        note: How the mapping differs from the program's schedule, when it does; empty when it does not.
    """

    objective: float | None
    reading: str
    bound: float | None
    seconds: float
    status: str
    solver: str
    schedules: int = 1
    one_shot: Cost | None = None
    padding: tuple[tuple[str, int, int], ...] = ()
    note: str = ""

    def to_json(self) -> JsonObject:
        """The `mip` part of what `codesign map --format json` prints: its fields in their order."""
        cost, shown = self.one_shot, dict(vars(self))
        if cost is not None:
            shown["one_shot"] = {"latency_cycles": cost.latency_cycles, "energy_pj": cost.energy_pj, "edp": cost.edp}
        shown["padding"] = {dim: {"bound": bound, "padded": padded} for dim, bound, padded in self.padding}
        return shown


@dataclass(frozen=True)
class PaddingReport:
    """Which bounds the mapping has, when padded ones were tried too.

    Args:
        changed: (dimension, bound, bound it was raised to) of every dimension of the best that was padded; often none.
        tried: Computations mapped, the given one among them.
        waste: Multiply-accumulates of the best over those of the given computation, less 1.
        best_of_tried: Whether the result is proven to be the best of all paddings that were to be tried.
    """

    changed: tuple[tuple[str, int, int], ...]
    tried: int
    waste: float
    best_of_tried: bool

    @property
    def proof(self) -> str:
        """What is known of optimality, in words."""
        return "optimal among the paddings tried" if self.best_of_tried else "none"

    def to_json(self) -> JsonObject:
        """The `padding` part of what `codesign map --format json` prints."""
        return {
            "bounds": {dim: {"bound": bound, "padded": padded} for dim, bound, padded in self.changed},
            "tried": self.tried,
            "waste": self.waste,
            "proof": self.proof,
        }


class Judged(Costs, Protocol):
    """A cost, whatever its rules."""

    @property
    def edp(self) -> float:
        """Energy times latency of the mapping."""

    @property
    def utilization(self) -> float:
        """MACs per MAC unit and cycle."""


def result_json(cost: Judged | None, mapping: Json, infeasible: Infeasible | None, tail: JsonObject) -> JsonObject:
    """The form every mapper's result is printed in.

    Args:
        cost: Of the mapping; None where there is none.
        mapping: As plain values.
        infeasible: Why there is none.
        tail: What else is known: effort, proof, seed.
    """
    if cost is None or mapping is None:
        reason = infeasible.to_json() if infeasible is not None else {"status": "infeasible"}
        return {**reason, "latency_cycles": None, "energy_pj": None, "edp": None, **tail, "mapping": None}
    return {
        "status": "ok",
        "latency_cycles": cost.latency_cycles,
        "energy_pj": cost.energy_pj,
        "edp": cost.edp,
        "utilization": cost.utilization,
        **tail,
        "mapping": mapping,
    }


@dataclass(frozen=True)
class MapResult:
    """What a mapper found.

    Args:
        mapping: The best mapping; None when there is none.
        cost: Its cost under the kernel.
        infeasible: Why there is no mapping.
        evaluated: Mappings scored.
        seconds: Wall-clock time.
        proof: What is known of optimality.
        gap: (value - bound) / bound when `proof` is GAP; 0 when optimal; None when nothing is known.
        seed: Of the random choices; None for mappers that make none.
        mip: Of the program behind it, for mappers that solve one.
        padding: Which bounds the mapping has, when padded ones were tried; the cost counts the padded work.
        alternatives: Further mappings, best first, of mappers that keep some.
    """

    mapping: Mapping | None
    cost: Cost | None
    infeasible: Infeasible | None
    evaluated: int
    seconds: float
    proof: Proof = Proof.NONE
    gap: float | None = None
    seed: int | None = None
    mip: MipReport | None = None
    padding: PaddingReport | None = None
    alternatives: tuple[Mapping, ...] = ()

    def value(self, objective: Objective) -> float:
        """The objective of the mapping; infinite where there is none."""
        return math.inf if self.cost is None else objective.of(self.cost)

    def bound(self, objective: Objective) -> float:
        """A value that no mapping is below: infinite where it is proven that there is none, 0 where nothing is known."""
        if self.cost is None:
            return math.inf if self.proof is Proof.OPTIMAL else 0.0
        return 0.0 if self.gap is None else objective.of(self.cost) / (1.0 + self.gap)

    def shown(self, objective: Objective) -> float | None:
        """The bound that a search with a gap ended with; None where the mapping is optimal."""
        known = self.cost is not None and self.gap is not None and self.proof is not Proof.OPTIMAL
        return self.bound(objective) if known else None

    def to_json(self) -> JsonObject:
        """The form `codesign map --format json` prints."""
        tail: JsonObject = {
            "evaluated": self.evaluated,
            "seconds": self.seconds,
            "proof": self.proof.value,
            "gap": self.gap,
            "seed": self.seed,
        }
        if self.mip is not None:
            tail["mip"] = self.mip.to_json()
        if self.padding is not None:
            tail["padding"] = self.padding.to_json()
        mapping = None if self.mapping is None else mapping_to_json(self.mapping)
        return result_json(self.cost, mapping, self.infeasible, tail)


class Mapper(Protocol):
    """Finds a mapping. Implementations are frozen dataclasses whose fields are their own options."""

    @property
    def name(self) -> str:
        """What the command line calls it."""

    def map(
        self, problem: MappingProblem, objective: Objective, *, budget: Budget, seed: int, reuse: Reuse = Reuse.TIMELOOP
    ) -> MapResult:
        """The best mapping found within the budget; never an invalid one."""
