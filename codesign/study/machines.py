"""Cycles of the machines that `codesign build` generates for a study's designs, beside the analytical ones.

A design that was judged by its machine has them in its record. For others they are predicted (K1 to K6) for the recorded mappings with sums of 32 bits, as machines
have them. A mapping whose tiles are too large then is annealed anew. What comes after a budget of CPU seconds is left out, and done when the report is made again.
"""

from collections.abc import Iterable
from typing import NotRequired, TypedDict

from codesign.arch.architecture import Architecture
from codesign.core import clock
from codesign.core.errors import UserError
from codesign.core.files import read_kept, write_json
from codesign.core.goals import Budget
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Infeasible, evaluate
from codesign.evaluation.design import DesignSpace
from codesign.evaluation.detail import LayersDetail, detail_of
from codesign.evaluation.generated import check_machines
from codesign.evaluation.records import DetailRecord
from codesign.evaluation.replay import recorded_options, recorded_space, replay_layers
from codesign.hardware.network import integer_widths
from codesign.hardware.timed import generated_run, timing_at
from codesign.mappers.annealing import AnnealingMapper
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import Mapping
from codesign.study.study import Study, Trial
from codesign.timing.simulate import Run
from codesign.timing.table import Timing, load_timing
from codesign.workloads.computation import Computation

MACHINES_FILE = "machines.json"
"""What a study's folder holds them in, so that they are predicted once."""

CPU_SECONDS = 20.0
"""Spent on predictions for one report."""

EVALUATIONS = 400
"""Mappings that are looked at where a layer is annealed anew."""

TABLE = "generated"


class LayerCycles(TypedDict):
    """Cycles of a distinct layer under both models, once; `anew` where its recorded mapping does not fit the machine."""

    name: str
    count: float
    analytical: float
    generated: float
    anew: bool


class MachineCycles(TypedDict):
    """Cycles of a design's layers, all repetitions; `why` says why a machine's are not known."""

    analytical: float
    generated: NotRequired[float]
    layers: NotRequired[list[LayerCycles]]
    why: NotRequired[str]


def machine_cycles(
    study: Study, trials: Iterable[Trial], *, space: str | None = None, seconds: float = CPU_SECONDS
) -> dict[int, MachineCycles]:
    """By trial, cycles of its machine beside the analytical ones; empty where the space's machines are not generated.

    Args:
        study: Judged layer by layer.
        trials: Feasible ones, the most interesting first.
        space: ``module:attribute`` of a space that is not registered by name.
        seconds: CPU seconds for predictions; trials that come too late say so.
    """
    try:
        found = recorded_space(study.config, space)
        check_machines(found)
    except UserError:
        return {}
    if "bus_bits" not in found.space.names:
        return {}
    timing, started, known = (
        load_timing(TABLE),
        clock.cpu_seconds(),
        read_kept(study.folder / MACHINES_FILE).get("trials", {}),
    )
    made = dict[int, MachineCycles]()
    for trial in trials:
        detail = study.detail(trial.number)
        if not isinstance(detail_of(detail), LayersDetail):
            continue
        before = known.get(str(trial.number))
        if before is None or before["analytical"] != _analytical(detail):
            if clock.cpu_seconds() - started >= seconds:
                why = f"not predicted within {seconds:.3g} CPU seconds; `codesign report` goes on"
                made[trial.number] = {"analytical": _analytical(detail), "why": why}
                continue
            made[trial.number] = _of_design(study, found, trial, detail, timing)
            continue
        made[trial.number] = before
    kept = known | {str(number): cycles for number, cycles in made.items() if "why" not in cycles}
    if kept != known:
        write_json(study.folder / MACHINES_FILE, {"trials": kept})
    return made


def _analytical(detail: DetailRecord) -> float:
    return sum(layer["latency_cycles"] * layer["count"] for layer in detail["layers"])


def _of_design(study: Study, space: DesignSpace, trial: Trial, detail: DetailRecord, timing: Timing) -> MachineCycles:
    """One design: recorded, predicted, or why not."""
    analytical = _analytical(detail)
    try:
        layers = _recorded(detail) or _predicted(study, space, trial, detail, timing)
    except UserError as error:
        return {"analytical": analytical, "why": error.message}
    return {"analytical": analytical, "generated": sum(x["generated"] * x["count"] for x in layers), "layers": layers}


def _recorded(detail: DetailRecord) -> list[LayerCycles]:
    """Every layer as the machine judged it that judged the design; empty where it was judged otherwise."""
    return [
        {"name": x["name"], "count": x["count"], "analytical": x["latency_cycles"], "generated": x["event_cycles"], "anew": False}
        for x in detail["layers"]
        if "event_cycles" in x
    ]  # fmt: skip


def _predicted(study: Study, space: DesignSpace, trial: Trial, detail: DetailRecord, timing: Timing) -> list[LayerCycles]:  # fmt: skip
    """Every layer on the machine.

    Raises:
        UserError: The machine does not run one; the message names it.
    """
    architecture, timing = space.build(trial.point), timing_at(timing, trial.point)
    found = list[LayerCycles]()
    for layer, record in zip(replay_layers(space, architecture, detail), detail["layers"], strict=True):
        if {t.bits for t in layer.computation.tensors} != {8}:
            raise UserError(f"layer {layer.name!r} has operands of other than 8 bits (rule G4)")
        computation = integer_widths(layer.computation, layer.computation.output.bits)
        anew = isinstance(evaluate(computation, architecture, layer.mapping, reuse=Reuse.WHOLE), Infeasible)
        mapping = _mapped(study, computation, architecture) if anew else layer.mapping
        run = None if mapping is None else _run(layer.name, computation, architecture, mapping, timing)
        if not isinstance(run, Run):
            raise UserError(f"layer {layer.name!r} does not fit with sums of 32 bits (rule G4)")
        row: LayerCycles = {
            "name": layer.name, "count": layer.count, "analytical": record["latency_cycles"], "generated": run.latency_cycles, "anew": anew,
        }  # fmt: skip
        found.append(row)
    return found


def _run(name: str, computation: Computation, architecture: Architecture, mapping: Mapping, timing: Timing) -> Run | Infeasible:  # fmt: skip
    try:
        return generated_run(computation, architecture, mapping, timing)
    except UserError as error:
        raise UserError(f"layer {name!r}: {error.message}") from None


def _mapped(study: Study, computation: Computation, architecture: Architecture) -> Mapping | None:
    """An annealed mapping for the study's own objective; None where nothing fits."""
    options = recorded_options(study.config)
    problem, budget = MappingProblem(computation, architecture), Budget(evaluations=EVALUATIONS)
    return AnnealingMapper().map(problem, options.objective, budget=budget, seed=options.seed).mapping
