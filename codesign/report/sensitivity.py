"""How the front moves when technology constants vary, and which designs stay on it.

With the mappings that were found, dynamic energy is linear in the energy constants, so a study's breakdowns (energy by level,
interconnect, arithmetic, vector operators, leakage) re-summed with one part scaled are exact; latency and area do not
change. Where a breakdown is not enough (tensors kept on chip cost the next level's accesses instead of DRAM's, rule E5), the
recorded mappings are evaluated again on the architecture with scaled constants. Another mapping may be best under other
constants: `remap` searches again, for the designs that are on some front, and bounds how much that matters. Whole-network
schedules record energy by level too and are kept as they are.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from codesign.arch.constants import Constant, scaled_architecture
from codesign.arch.zero_support import ZeroSupport
from codesign.core.errors import UserError
from codesign.core.files import csv_text, write_atomic
from codesign.core.json_types import JsonObject
from codesign.cost.cost import Infeasible
from codesign.evaluation.design import DesignSpace
from codesign.evaluation.detail import LayersDetail, NoDetail, ScenariosDetail, detail_of
from codesign.evaluation.metrics import UNITS, units_of
from codesign.evaluation.network import evaluate_workload
from codesign.evaluation.own_metrics import JudgedDesign, MetricFunction, value_of
from codesign.evaluation.records import DetailRecord
from codesign.evaluation.replay import (
    recorded_mapper,
    recorded_options,
    recorded_space,
    recorded_workload,
    replay_layers,
)
from codesign.evaluation.whole_network import GivenMappings, layer_key
from codesign.mappers.protocol import Mapper
from codesign.optim.pareto import nondominated
from codesign.report.html_page import asset, build_page
from codesign.report.recommend import figures_of, knee_index, labels_of
from codesign.report.summary import point_text
from codesign.study.goals import own_metrics
from codesign.study.study import Study, Trial
from codesign.workloads.workload import Workload

FACTORS = (0.25, 0.5, 2.0, 4.0)
"""What a constant is multiplied by, unless asked otherwise: published figures of one node differ by about that much."""


Progress = Callable[[int, int], None]
"""Called with (designs mapped again, designs to map in all)."""


_BY_KIND = {"dram": Constant.DRAM, "sram": Constant.SRAM, "registers": Constant.REGISTERS}


@dataclass(frozen=True)
class Variation:
    """One constant times one factor, and the designs under it.

    Args:
        constant: What varies.
        factor: By how much.
        metrics: Figures of every feasible trial by number.
        front: Trials on the front, by the first objective.
        knee: The front's design nearest to the ideal point; None without a front.
    """

    constant: Constant
    factor: float
    metrics: dict[int, dict[str, float]]
    front: tuple[int, ...]
    knee: int | None


@dataclass(frozen=True)
class Sensitivity:
    """A study under varied constants.

    Args:
        study: The study.
        base: With the constants as they are.
        variations: In the order of constants, factors rising.
        parts: Joules by constant of every feasible trial.
        exact: ``sums`` where breakdowns were enough for all designs, ``evaluated`` where mappings were evaluated again.
        remapped: Trials whose layers were mapped again under every variation.
        gain: The largest share of energy that another mapping saved; 0 without `remap`.
    """

    study: Study
    base: Variation
    variations: tuple[Variation, ...]
    parts: dict[int, dict[Constant, float]]
    exact: str
    remapped: tuple[int, ...] = ()
    gain: float = 0.0

    @property
    def designs(self) -> tuple[int, ...]:
        """Every trial on some front, those on most fronts first."""
        seen = {n for v in (self.base, *self.variations) for n in v.front}
        return tuple(sorted(seen, key=lambda n: (-self.times_on_front(n), n)))

    def times_on_front(self, number: int) -> int:
        """On how many fronts, the base's among them, a trial is."""
        return sum(number in v.front for v in (self.base, *self.variations))


def analyse(
    study: Study,
    constants: Sequence[Constant] = (),
    factors: Sequence[float] = FACTORS,
    *,
    remap: bool = False,
    space: str | None = None,
    progress: Progress | None = None,
) -> Sensitivity:
    """Vary constants one at a time.

    Args:
        study: Judged layer by layer.
        constants: To vary; default: every one that costs energy.
        factors: Positive; 1 is left out, it is the base.
        remap: Search mappings again for the designs on some front.
        space: ``module:attribute`` of a space that is not registered by name.
        progress: Told as designs are mapped again.

    Raises:
        UserError: A factor is not positive, no trial is feasible, or the study records no breakdown.
    """
    for factor in factors:
        if not 0 < factor < math.inf:
            raise UserError(f"--factor must be a positive number, got {factor}")
    trials = [t for t in study.trials if not t.infeasible]
    if not trials:
        raise UserError(f"{study.label} has no feasible trial to vary")
    details = {t.number: study.detail(t.number) for t in trials}
    _check_recorded(study, details, remap)
    parts = {t.number: energy_by_constant(details[t.number], t.metrics) for t in trials}
    summed = all(_adds_up(t, parts[t.number]) for t in trials)
    chosen = tuple(constants) or tuple(c for c in Constant if any(p.get(c) for p in parts.values()))
    again = _Again(study, space) if remap or not summed else None
    own = _OwnMetrics.of(study, space)
    variations = []
    for constant in chosen:
        for factor in sorted(set(factors) - {1.0}):
            metrics = {}
            for t in trials:
                if summed or again is None:
                    metrics[t.number] = scaled_metrics(t, parts[t.number], constant, factor)
                else:
                    metrics[t.number] = again.fixed(t, details[t.number], constant, factor)
                if own is not None:
                    metrics[t.number] |= own.of_trial(t, details[t.number], metrics[t.number], constant, factor)
            variations.append(_variation(study, constant, factor, metrics))
    base = _variation(study, Constant.DRAM, 1.0, {t.number: dict(t.metrics) for t in trials})
    found = Sensitivity(study, base, tuple(variations), parts, "sums" if summed else "evaluated")
    return _remapped(found, again, own, progress) if remap and again is not None else found


def _check_recorded(study: Study, details: Mapping[int, DetailRecord], remap: bool) -> None:
    """Refuse a study that does not say where its energy goes, and mapping again where no layer was mapped."""
    for number, record in details.items():
        detail = detail_of(record)
        if isinstance(detail, LayersDetail):
            continue
        if isinstance(detail, ScenariosDetail):
            raise UserError(
                f"trial {number} is judged by the worst of several scenarios, whose energies by level are not recorded",
                where=study.label,
                hint="explore without --robust, or vary the constants with --robust --vary",
            )
        if isinstance(detail, NoDetail) or detail.energy_by_level_pj is None:
            table = "it was imported from a table, or judged by whole-network schedules with an earlier version"
            hint = f"{table}; explore again, or import the study from .json"
            raise UserError(f"trial {number} records no energy by level", where=study.label, hint=hint)
        if remap:
            scheduler = study.config["mapper"].get("name")
            hint = f"the designs were judged by schedules of whole networks ({scheduler}); leave out --remap"
            raise UserError(f"trial {number} has no layer mappings to search again", where=study.label, hint=hint)


def energy_by_constant(detail: DetailRecord, metrics: Mapping[str, float]) -> dict[Constant, float]:
    """Joules of one run by the constant they are proportional to.

    Args:
        detail: Of a trial: layers and vector operators, or energy by level of a whole-network schedule.
        metrics: Of the trial.
    """
    architecture = detail["architecture"]
    kinds = {level["name"]: _BY_KIND[level["kind"]] for level in architecture["levels"]}
    kinds |= {"network": Constant.WIRES, "MAC": Constant.MAC}
    parts = dict.fromkeys(Constant, 0.0)
    parts[Constant.LEAKAGE] = metrics["leakage_w"] * metrics["latency_s"]
    found = detail_of(detail)
    if isinstance(found, NoDetail):
        return parts
    if not isinstance(found, LayersDetail):
        for name, energy_pj in (found.energy_by_level_pj or {}).items():
            parts[kinds[name]] += energy_pj * 1e-12
        return parts
    for layer in found.layers:
        for name, energy_pj in layer["energy_by_level_pj"].items():
            parts[kinds[name]] += energy_pj * layer["count"] * 1e-12
    vector = found.vector
    computed = vector["operations"] * (architecture["mac"]["energy_pj"] or 0.0)  # rule E6
    parts[Constant.MAC] += computed * 1e-12
    parts[kinds[architecture["levels"][0]["name"]]] += (vector["energy_pj"] - computed) * 1e-12
    return parts


def _adds_up(trial: Trial, parts: Mapping[Constant, float]) -> bool:
    return math.isclose(sum(parts.values()), trial.metrics["energy_j"], rel_tol=1e-9)


def scaled_metrics(
    trial: Trial, parts: Mapping[Constant, float], constant: Constant, factor: float
) -> dict[str, float]:
    """A trial's figures with one constant scaled and its mappings as they are."""
    energy = trial.metrics["energy_j"] + (factor - 1.0) * parts[constant]
    latency = trial.metrics["latency_s"]
    leakage = trial.metrics["leakage_w"] * (factor if constant is Constant.LEAKAGE else 1.0)
    changed = {"energy_j": energy, "power_w": energy / latency, "edp_js": energy * latency, "leakage_w": leakage}
    return {**trial.metrics, **changed}


def _variation(study: Study, constant: Constant, factor: float, metrics: dict[int, dict[str, float]]) -> Variation:
    trials = [replace(t, metrics=metrics[t.number]) for t in study.trials if t.number in metrics]
    valid = [t for t in trials if study.is_valid(t)]
    if not valid:
        return Variation(constant, factor, metrics, (), None)
    front = [t for t, best in zip(valid, nondominated(study.values(valid)), strict=True) if best]
    front.sort(key=lambda t: [t.metrics[o] for o in study.objectives])
    knee = front[knee_index(study.values(front))].number
    return Variation(constant, factor, metrics, tuple(t.number for t in front), knee)


@dataclass(frozen=True)
class _OwnMetrics:
    """The user's own metrics among objectives and bounds, computed again from scaled figures.

    Args:
        space: Builds the designs.
        functions: By name.
    """

    space: DesignSpace
    functions: tuple[tuple[str, MetricFunction], ...]

    @classmethod
    def of(cls, study: Study, space: str | None) -> "_OwnMetrics | None":
        """Those of a study; None where it has none."""
        names = {*study.objectives, *(c.metric for c in study.constraints)} - set(UNITS)
        if not names:
            return None
        found = recorded_space(study.config, space)
        return cls(found, own_metrics(sorted(names), found))

    def of_trial(
        self, trial: Trial, detail: DetailRecord, metrics: Mapping[str, float], constant: Constant, factor: float
    ) -> dict[str, float]:
        """The metrics of a trial with one constant scaled."""
        plain = {name: value for name, value in metrics.items() if name not in dict(self.functions)}
        architecture = scaled_architecture(self.space.build(trial.point), {constant: factor})
        design = JudgedDesign(trial.point, plain, architecture, detail)
        return {name: value_of(name, function, design) for name, function in self.functions}


class _Again:
    """Judges recorded designs again on architectures with scaled constants."""

    def __init__(self, study: Study, space: str | None) -> None:
        self._space = recorded_space(study.config, space)
        self._config = study.config
        self._workloads: dict[object, Workload] = {}
        self._options = recorded_options(study.config)
        self._mapper = recorded_mapper(study.config)

    def fixed(self, trial: Trial, detail: DetailRecord, constant: Constant, factor: float) -> dict[str, float]:
        """Metrics of a trial with its recorded mappings under the scaled constant."""
        layers = replay_layers(self._space, self._space.build(trial.point), detail)
        # of equal layers the first counts
        mappings = {layer_key(layer.computation): layer.mapping for layer in reversed(layers)}
        return self._judge(trial, GivenMappings(mappings, "recorded"), constant, factor)

    def searched(self, trial: Trial, constant: Constant, factor: float) -> dict[str, float]:
        """With mappings searched under the scaled constants."""
        return self._judge(trial, self._mapper, constant, factor)

    def _judge(self, trial: Trial, mapper: Mapper, constant: Constant, factor: float) -> dict[str, float]:
        architecture = scaled_architecture(self._space.build(trial.point), {constant: factor})
        result = evaluate_workload(self._workload(trial), architecture, mapper, self._options)
        if isinstance(result, Infeasible):
            raise UserError(f"trial {trial.number} is no longer feasible: {result}")
        return result.metrics.to_dict()

    def _workload(self, trial: Trial) -> Workload:
        """As the trial's design chose it."""
        choices = getattr(self._space, "choices", None)
        key = None if choices is None else replace(choices.of(trial.point), support=ZeroSupport.NONE)
        if key not in self._workloads:
            self._workloads[key] = recorded_workload(self._config, self._space, trial.point)
        return self._workloads[key]


def _remapped(found: Sensitivity, again: _Again, own: "_OwnMetrics | None", progress: Progress | None) -> Sensitivity:
    """The fronts with the designs on some front mapped again; the better of the two mappings by the mapper's objective counts.

    Designs that are on no front keep their recorded mappings: their energies are upper bounds.
    """
    trials = {t.number: t for t in found.study.trials}
    objective = found.study.config["evaluation"]["objective"]
    gain, done, variations = 0.0, 0, []
    for variation in found.variations:
        metrics = dict(variation.metrics)
        for number in found.designs:
            new, old = again.searched(trials[number], variation.constant, variation.factor), metrics[number]
            key = {"energy": "energy_j", "latency": "latency_s", "edp": "edp_js"}[objective]
            if new[key] < old[key]:
                gain = max(gain, 1.0 - new["energy_j"] / old["energy_j"])
                metrics[number] = new
                if own is not None:
                    detail = found.study.detail(number)
                    metrics[number] |= own.of_trial(trials[number], detail, new, variation.constant, variation.factor)
            done += 1
            if progress is not None:
                progress(done, len(found.designs) * len(found.variations))
        variations.append(_variation(found.study, variation.constant, variation.factor, metrics))
    return replace(found, variations=tuple(variations), remapped=found.designs, gain=gain)


def sensitivity_json(found: Sensitivity) -> JsonObject:
    """The analysis as plain values."""
    study, numbers = found.study, found.designs
    points = {t.number: t.point for t in study.trials}
    return {
        "objectives": list(study.objectives),
        "labels": labels_of(study.objectives),
        "units": units_of(study.objectives),
        "names": list(study.config["workload"]["names"]),
        "space": study.config["space"]["name"],
        "constraints": list(study.config["constraints"]),
        "base": _variation_json(found.base, numbers) | {"constant": None},
        "variations": [_variation_json(v, numbers) for v in found.variations],
        "designs": [
            {
                "trial": n,
                "point": points[n],
                "text": point_text(points[n]),
                "fronts": found.times_on_front(n),
                "parts": {c.value: joules for c, joules in found.parts[n].items() if joules},
            }
            for n in numbers
        ],
        "exact": found.exact,
        "remapped": len(found.remapped),
        "gain": found.gain,
        "summary": describe(found),
    }


def _variation_json(variation: Variation, numbers: Sequence[int]) -> JsonObject:
    return {
        "constant": variation.constant.value,
        "factor": variation.factor,
        "front": list(variation.front),
        "knee": variation.knee,
        "metrics": {str(n): variation.metrics[n] for n in numbers},
    }


def describe(found: Sensitivity) -> list[str]:
    """What the analysis says, in sentences."""
    fronts = len(found.variations) + 1
    base = set(found.base.front)
    stay = [n for n in found.base.front if found.times_on_front(n) == fronts]
    enter = [n for n in found.designs if n not in base]
    leave = [n for n in found.base.front if found.times_on_front(n) < fronts]
    many = (
        f"{len(stay)} of the {len(base)} designs on the front stay"
        if len(base) > 1
        else f"The one design on the front {'stays' if stay else 'does not stay'}"
    )
    sentences = [f"{many} on it whatever constant varies."]
    if leave:
        sentences.append(f"{_numbers(leave)} leave{'s' if len(leave) == 1 else ''} it under some variation.")
    if enter:
        sentences.append(f"{_numbers(enter)} enter{'s' if len(enter) == 1 else ''} it under some variation.")
    moved = [v for v in found.variations if v.knee != found.base.knee]
    if found.base.knee is not None and moved:
        cases = ", ".join(f"trial {v.knee} at {v.constant.value} × {v.factor:g}" for v in moved)
        sentences.append(f"The recommended design, trial {found.base.knee}, changes to {cases}.")
    elif found.base.knee is not None:
        sentences.append(f"The recommended design stays trial {found.base.knee} throughout.")
    if not {"energy_j", "power_w", "edp_js"} & {*found.study.objectives, *(c.metric for c in found.study.constraints)}:
        sentences.append("No objective or constraint of this study depends on energy, so its front cannot move.")
    sentences += [f"Figures: {sentence}." for sentence in figures_of(found.study)]
    return sentences


def _numbers(numbers: Sequence[int]) -> str:
    return ("Trial " if len(numbers) == 1 else "Trials ") + ", ".join(str(n) for n in sorted(numbers))


def sensitivity_csv(found: Sensitivity) -> str:
    """One row a variation and feasible trial; the base has factor 1 and no constant."""
    names = ["latency_s", "energy_j", "power_w", "area_mm2", "edp_js"]
    rows: list[list[object]] = [["constant", "factor", "trial", *names, "on_front", "recommended"]]
    for variation in (found.base, *found.variations):
        constant = "" if variation is found.base else variation.constant.value
        for number, metrics in sorted(variation.metrics.items()):
            flags = [int(number in variation.front), int(number == variation.knee)]
            rows.append([constant, variation.factor, number, *(metrics[name] for name in names), *flags])
    return csv_text(rows)


def write_sensitivity(found: Sensitivity, folder: Path, proven: Sequence[str] = ()) -> list[Path]:
    """Write ``sensitivity.html`` and ``sensitivity.csv`` into a folder; returns their paths.

    Args:
        found: The analysis.
        folder: Where to.
        proven: What is shown of one design, in sentences.
    """
    data = sensitivity_json(found) | {"proven": list(proven)}
    page = build_page("Sensitivity to technology constants", asset("sensitivity.html"), data, ("sensitivity.js",))
    paths = [folder / "sensitivity.html", folder / "sensitivity.csv"]
    write_atomic(paths[0], page)
    write_atomic(paths[1], sensitivity_csv(found))
    return paths
