"""`serve`: what one accelerator does for the requests to a language model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast, final

from codesign.arch.architecture import Architecture
from codesign.arch.many_core import ManyCore
from codesign.arch.many_core_scaling import architecture_of
from codesign.core.errors import UserError
from codesign.core.factors import divisors
from codesign.core.goals import Budget, Objective
from codesign.core.json_types import Json, JsonObject
from codesign.cost.cost import Infeasible
from codesign.evaluation.network import EvaluationOptions, with_effort
from codesign.evaluation.serving import ServingResult
from codesign.evaluation.serving import serve as judge
from codesign.evaluation.serving_stages import MappedStages, StageSource
from codesign.evaluation.serving_trees import TreeStages
from codesign.evaluation.system_chips import chips_of, die_architecture, staged
from codesign.library.inputs import as_hardware
from codesign.library.results import AbstractResult
from codesign.library.serve_options import AUTO, STEP_TIMES, ServeOptions
from codesign.mappers.protocol import Mapper
from codesign.mappers.registry import create
from codesign.workloads.chips import Chips
from codesign.workloads.serving import ServingSpec, read_serving

if TYPE_CHECKING:
    import plotly.graph_objects as go


DEFAULT_OPTIONS = ServeOptions()


@final
@dataclass(frozen=True)
class Split:
    """One way to share the layers between the chips.

    Args:
        stages: Of layers.
        tensor: Chips that share a layer.
        result: What it does for requests, why it cannot run, or why there is no such way.
    """

    stages: int
    tensor: int
    result: ServingResult | Infeasible | str

    def to_json(self) -> JsonObject:
        """Plain values: figures, or the reason why there are none."""
        head: JsonObject = {"stages": self.stages, "tensor": self.tensor}
        if not isinstance(self.result, ServingResult):
            return {**head, "reason": str(self.result)}
        found = self.result
        return {**head, "ttft_s": found.ttft_s, "tpot_s": found.tpot_s, "tokens_per_s": found.tokens_per_s}


def on_chips(asked: ServingSpec, chips: Chips) -> ServingSpec:
    """What is served, on the chips of a system (rules M95 to M98).

    Raises:
        UserError: The specification names chips or links of its own.
    """
    own = replace(asked.chips, stages=1, micro_batches=None, memory_bytes=None)
    if own != Chips():
        raise UserError(
            "`chips` says nothing but `stages`, `micro_batches` and `memory_bytes` with a system: its dies are the chips",
            where=asked.name,
            hint="leave the rest out",
        )
    kept = asked.chips
    return replace(asked, chips=replace(chips, micro_batches=kept.micro_batches, memory_bytes=kept.memory_bytes))


def shared(asked: ServingSpec, system: ManyCore | None, stages: int) -> ServingSpec:
    """What is served, its layers in stages.

    Raises:
        UserError: There is no such way.
    """
    if system is not None:
        return on_chips(asked, chips_of(system, stages))
    return replace(asked, chips=replace(asked.chips, stages=stages))


@final
@dataclass(frozen=True)
class ServedModel(AbstractResult):
    """A model served by an accelerator.

    Args:
        spec: What is served.
        architecture: Of one chip.
        result: Times, energy, what binds; or why it cannot run.
        splits: All ways to share the layers that were tried; none where one was named.
        timed: Where times of stages come from, one of `STEP_TIMES`.
    """

    spec: ServingSpec
    architecture: Architecture
    result: ServingResult | Infeasible
    splits: tuple[Split, ...] = ()
    timed: str = STEP_TIMES[0]

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
            "splits": [split.to_json() for split in self.splits],
            "provenance": provenance_of(self.architecture.technology),
        }

    @property
    def timing(self) -> str:
        """Which model the times are from (rules V8, V12): ``analytical``, ``system-of-cores`` or ``segments``."""
        from codesign.timing.cores.system import system_of

        if self.timed != STEP_TIMES[0]:
            return self.timed
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


@final
@dataclass(frozen=True)
class _Served:
    """What serves, and how ways to share its layers are judged.

    Args:
        machine: The architecture of one chip.
        system: The system whose dies are the chips; None for chips of their own.
        mapper: Of every distinct layer.
        judged: How layers are judged, or trees searched.
        trees: Whether step times are those of trees.
        began: Told what is searched.
    """

    machine: Architecture
    system: ManyCore | None
    mapper: Mapper
    judged: EvaluationOptions
    trees: bool
    began: Callable[[str], None] | None

    def serve(self, asked: ServingSpec, stages: int) -> ServedModel:
        """One way to share the layers.

        Raises:
            UserError: There is no such way.
        """
        if self.trees and self.system is not None:
            alone, chips = staged(self.system, stages)
            spec, machine = on_chips(asked, chips), architecture_of(alone)
            judged = self.judged
            source: StageSource = TreeStages(spec, alone, judged.objective, judged.budget, judged.seed, self.began)
        else:
            spec, machine = shared(asked, self.system, stages), self.machine
            source = MappedStages(spec, machine, self.mapper, self.judged, None)
        return ServedModel(spec, machine, judge(spec, machine, source), timed=STEP_TIMES[self.trees])


def serve(
    spec: ServingSpec | str | Path,
    architecture: Architecture | ManyCore | str | Path,
    options: ServeOptions = DEFAULT_OPTIONS,
    began: Callable[[str], None] | None = None,
) -> ServedModel:
    """Time to first token, time per output token, tokens per second and per joule, and what binds.

    Args:
        spec: What is served: a value, or its YAML file.
        architecture: Of one chip: a value, the name of a preset, or a file. Or a system of many cores, whose dies are the chips.
        options: How mappings are searched.
        began: Told what is searched, before each search of a tree.

    Returns:
        The figures; or the first layer without a valid mapping.

    Raises:
        UserError: An input cannot be used.
    """
    asked = spec if isinstance(spec, ServingSpec) else read_serving(Path(spec))
    if options.micro_batches is not None:
        asked = replace(asked, chips=replace(asked.chips, micro_batches=options.micro_batches))
    system: ManyCore | None = None
    if isinstance(architecture, ManyCore):
        system, machine = architecture, die_architecture(architecture)
    else:
        _, machine = as_hardware(architecture)
    trees = options.step_times == STEP_TIMES[1]
    if trees and system is None:
        raise UserError(
            f"step times of trees of segments need a system of many cores, got architecture {machine.name!r}",
            hint="--system gemini-72t, or leave --step-times out",
        )
    made = create(options.mapper) if isinstance(options.mapper, str) else options.mapper
    budget = Budget(options.time_limit_s, options.evaluations)
    judged = EvaluationOptions(Objective.parse(options.objective), budget, options.seed)
    server = _Served(machine, system, with_effort(made, budget), judged, trees, began)
    if options.stages == AUTO:
        return _best_split(asked, server)
    return server.serve(asked, asked.chips.stages if options.stages is None else int(options.stages))


def _best_split(asked: ServingSpec, server: _Served) -> ServedModel:
    """Every number of stages that divides the chips; the one with the most tokens a second is kept.

    Raises:
        UserError: There is no way to share the layers.
    """
    count = asked.chips.count if server.system is None else server.system.dies.count
    served: list[ServedModel] = []
    splits: list[Split] = []
    for stages in divisors(count):
        result: ServingResult | Infeasible | str
        try:
            one = server.serve(asked, stages)
            result = one.result
            served.append(one)
        except UserError as error:
            result = error.message
        splits.append(Split(stages, count // stages, result))
    if not served:
        raise UserError(f"no way to share the layers: {splits[0].result}", where=asked.name)
    best = max(served, key=lambda one: one.found.tokens_per_s if one.feasible else 0.0)
    return replace(best, splits=tuple(splits))
