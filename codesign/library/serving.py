"""`serve`: what one accelerator does for the requests to a language model."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast, final

from codesign.arch.architecture import Architecture
from codesign.arch.many_core import ManyCore
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.core.json_types import Json, JsonObject
from codesign.cost.cost import Infeasible
from codesign.evaluation.network import EvaluationOptions, with_effort
from codesign.evaluation.serving import ServingResult
from codesign.evaluation.serving import serve as judge
from codesign.evaluation.system_chips import chips_of, die_architecture
from codesign.library.inputs import as_hardware
from codesign.library.results import AbstractResult
from codesign.mappers.protocol import Mapper
from codesign.mappers.registry import create
from codesign.workloads.serving import Chips, ServingSpec, read_serving

if TYPE_CHECKING:
    import plotly.graph_objects as go


@final
@dataclass(frozen=True)
class ServeOptions:
    """How each layer's mapping is searched.

    Args:
        mapper: By name, or one of your own.
        objective: What each mapping minimises: ``energy``, ``latency`` or ``edp``.
        time_limit_s: Seconds of search, per layer.
        evaluations: Mappings scored at most, per layer.
        seed: Of every random choice.
    """

    mapper: str | Mapper = "exact"
    objective: str = "latency"
    time_limit_s: float | None = None
    evaluations: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        Objective.parse(self.objective)
        Budget(self.time_limit_s, self.evaluations)
        if self.seed < 0:
            raise UserError(f"`seed` must be >= 0, got {self.seed}")


DEFAULT_OPTIONS = ServeOptions()


def on_system(asked: ServingSpec, system: ManyCore) -> tuple[ServingSpec, Architecture]:
    """What is served, split over the dies of a system, and one of its dies (rules M95 to M97).

    Raises:
        UserError: The specification names chips of its own, or the model cannot be split so often.
    """
    if asked.chips != Chips():
        raise UserError(
            "`chips` plays no part with a system: its dies are the chips", where=asked.name, hint="leave it out"
        )
    return replace(asked, chips=chips_of(system)), die_architecture(system)


@final
@dataclass(frozen=True)
class ServedModel(AbstractResult):
    """A model served by an accelerator.

    Args:
        spec: What is served.
        architecture: Of one chip.
        result: Times, energy, what binds; or why it cannot run.
    """

    spec: ServingSpec
    architecture: Architecture
    result: ServingResult | Infeasible

    @property
    def feasible(self) -> bool:
        """Whether every layer has a mapping."""
        return isinstance(self.result, ServingResult)

    @property
    def infeasible(self) -> Infeasible | None:
        """Why the model cannot run; None if it can."""
        return self.result if isinstance(self.result, Infeasible) else None

    @property
    def found(self) -> ServingResult:
        """The result.

        Raises:
            UserError: It cannot run; the message says why.
        """
        if isinstance(self.result, Infeasible):
            raise UserError(f"the model cannot be served: {self.result}")
        return self.result

    def to_json(self) -> JsonObject:
        """See `AbstractResult`."""
        if isinstance(self.result, Infeasible):
            return {**self.result.to_json(), "model": self.spec.name}
        from codesign.arch.technology_files import provenance_of

        record: Mapping[str, Json] = cast(Mapping[str, Json], self.result.to_json())
        return {
            "status": "ok",
            "architecture": self.architecture.name,
            "timing": self.timing,
            **record,
            "provenance": provenance_of(self.architecture.technology),
        }

    @property
    def timing(self) -> str:
        """Which model the times are from (rule V8): ``analytical`` or ``system-of-cores``."""
        from codesign.timing.cores.system import system_of

        return "analytical" if system_of(self.architecture) is None else "system-of-cores"

    def headline(self) -> JsonObject:
        """See `AbstractResult`."""
        head: JsonObject = {"model": self.spec.name, "architecture": self.architecture.name}
        if isinstance(self.result, Infeasible):
            return {**head, "infeasible": str(self.result)}
        return {
            **head,
            "ttft_s": self.result.ttft_s,
            "tpot_s": self.result.tpot_s,
            "joules_per_token_j": self.result.joules_per_token,
            "tokens_per_s": self.result.tokens_per_s,
        }

    def rows(self) -> list[JsonObject]:
        """One row for every run of the model: each length of prompt, and the decode step."""
        if isinstance(self.result, Infeasible):
            return []
        runs = [(f"prefill of {p.tokens} tokens", p) for p, _ in self.result.prefills]
        return [
            {
                "run": name,
                "past": phase.past,
                "batch": phase.batch,
                "latency_s": phase.latency_s,
                "energy_j": phase.energy_j,
                "dram_bytes": phase.dram_bytes,
                "macs": phase.macs,
                "bound_by": phase.bound_by[0][0] if phase.bound_by else "",
            }
            for name, phase in (*runs, ("decode step", self.result.decode))
        ]

    def plot(self) -> "go.Figure":
        """Share of a decode step's time by what limits it."""
        from codesign.report.figures import parts_figure

        parts = [(name, share) for name, share in self.found.decode.bound_by if share]
        return parts_figure(parts, "share of the time", f"What binds a decode step of {self.spec.name}")


def serve(
    spec: ServingSpec | str | Path,
    architecture: Architecture | ManyCore | str | Path,
    options: ServeOptions = DEFAULT_OPTIONS,
) -> ServedModel:
    """Time to first token, time per output token, tokens per second and per joule, and what binds.

    Args:
        spec: What is served: a value, or its YAML file.
        architecture: Of one chip: a value, the name of a preset, or a file. Or a system of many cores, whose dies are the chips.
        options: How mappings are searched.

    Returns:
        The figures; or the first layer without a valid mapping.

    Raises:
        UserError: An input cannot be used.
    """
    asked = spec if isinstance(spec, ServingSpec) else read_serving(Path(spec))
    if isinstance(architecture, ManyCore):
        asked, machine = on_system(asked, architecture)
    else:
        _, machine = as_hardware(architecture)
    made = create(options.mapper) if isinstance(options.mapper, str) else options.mapper
    budget = Budget(options.time_limit_s, options.evaluations)
    judged = EvaluationOptions(Objective.parse(options.objective), budget, options.seed)
    return ServedModel(asked, machine, judge(asked, machine, with_effort(made, budget), judged))
