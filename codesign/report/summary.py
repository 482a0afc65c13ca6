"""The words on top of the report: which accelerator to build, and why."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from codesign.core.point import PointValue
from codesign.cost.cost import COMPUTE
from codesign.evaluation.metrics import format_si, unit_of
from codesign.report.recommend import constant_objectives, in_words, label_of, late_finds, recommendations
from codesign.study.certified import read_certified
from codesign.study.mapping_front import read_mapping_front
from codesign.study.proof import read_proof
from codesign.study.specification import PROVING
from codesign.study.study import Study, Trial

_SIZES = {"kib": "KiB", "mib": "MiB", "bytes": "bytes", "bits": "bits", "mm": "mm"}
"""Endings of parameter names that are units."""

TRUSTED_Q2 = 0.5
"""Importance is put into words only if the model predicts at least this share of the variance of trials left out."""


class Paragraph(TypedDict):
    """A paragraph of the summary; `trial` is the one it is about."""

    title: str
    text: str
    trial: int | None


class RecommendedRow(TypedDict):
    """A recommended design as the page's table shows it."""

    trial: int
    roles: list[str]
    why: str
    bound: str
    design: str


class EffectsRecord(TypedDict):
    """What decides an objective: shares of its variance by parameter, and its mean by value of each."""

    q2: float
    first: dict[str, float]
    total: dict[str, float]
    main: dict[str, list[list[object]]]


def summary(
    study: Study,
    designs: Mapping[int, Mapping[str, Any]],
    effects: Mapping[str, EffectsRecord],
    space_size: int | None = None,
) -> list[Paragraph]:
    """Paragraphs as (title, text, trial it is about).

    Args:
        study: What was searched.
        designs: Page data by trial number.
        effects: Importance by objective, as in the page's data.
        space_size: Designs that the space can have at most, if that is known.
    """
    chosen = recommendations(study)
    if not chosen:
        return [_nothing(study)]
    knee = chosen[0].trial
    rivals = len(study.front())
    among = f"of {rivals} designs that no other one beats, " if rivals > 1 else ""
    text = f"Trial {knee.number}: {point_text(knee.point)}. It has {figures(study, knee)}. Why: {among}{chosen[0].why}."
    parts = [_paragraph("Build this one", text, knee.number)]
    if designs.get(knee.number):
        parts.append(_paragraph("What bounds it", _bounds(designs[knee.number], knee), knee.number))
    words = _importance(effects)
    if words:
        parts.append(_paragraph("What decides", words, None))
    parts.append(_paragraph("How far to trust this", _trust(study, knee, designs, space_size), None))
    return parts


def recommended_rows(study: Study, designs: Mapping[int, Mapping[str, Any]]) -> list[RecommendedRow]:
    """The recommended designs as the page's table shows them.

    Args:
        study: What was searched.
        designs: Page data by trial number.
    """
    return [
        {
            "trial": found.trial.number,
            "roles": list(found.roles),
            "why": found.why,
            "bound": _mostly_bound_by(designs.get(found.trial.number, {})),
            "design": point_text(found.trial.point),
        }
        for found in recommendations(study)
    ]


def _mostly_bound_by(design: Mapping[str, Any]) -> str:
    if "layers" in design:
        name, share = _largest(time_shares(design), 1)[0]
        return f"{name}, {_percent(share)} of the time"
    if "serving" in design:
        bound = design["serving"]["decode"]["bound_by"]
        name = max(bound, key=bound.__getitem__)
        return f"{name}, {_percent(bound[name])} of a decode step"
    if "networks" in design:
        compute, channel, total = (
            sum(n["weight"] * n[key] for n in design["networks"])
            for key in ("compute_cycles", "channel_cycles", "latency_cycles")
        )
        name = "compute" if compute >= channel else "the DRAM channel"
        return f"{name}, busy {_percent(max(compute, channel) / total)} of the time"
    return ""


def _paragraph(title: str, text: str, trial: int | None) -> Paragraph:
    return {"title": title, "text": text, "trial": trial}


def _nothing(study: Study) -> Paragraph:
    reasons = sorted({t.reason for t in study.trials if t.infeasible})
    text = f"None of the {len(study.trials)} designs tried is feasible"
    text += f": {'; '.join(reasons)}." if reasons else " within the constraints."
    return _paragraph("Build none of these", text, None)


def figures(study: Study, trial: Trial) -> str:
    """The objectives of a trial in words: ``latency 8.1 ms, energy 5.3 mJ and area 1.2 mm²``."""
    return in_words([f"{label_of(o)} {format_si(trial.metrics[o], unit_of(o))}" for o in study.objectives])


def point_text(point: Mapping[str, PointValue]) -> str:
    """A design in words, units of sizes put behind them: ``scratchpad 256 KiB, bus 64 bits``."""
    return ", ".join(_setting(name, value) for name, value in point.items() if value is not None)


def _setting(name: str, value: Any) -> str:
    stem, _, last = name.rpartition("_")
    if stem and last in _SIZES and not isinstance(value, (str, bool)):
        return f"{stem.replace('_', ' ')} {value} {_SIZES[last]}"
    return f"{name.replace('_', ' ')} {str(value).lower() if isinstance(value, bool) else value}"


def _bounds(design: Mapping[str, Any], trial: Trial) -> str:
    sentences = []
    if "layers" in design:
        shares = time_shares(design)
        named = [f"{_percent(share)} by {name}" for name, share in _largest(shares, 3)]
        sentences.append(f"Its time is bound {in_words(named)}.")
    for network in design.get("networks", ()):
        sentences.append(
            f"{network['name']}: compute is busy for {_percent(network['compute_cycles'] / network['latency_cycles'])} of the "
            f"time, the DRAM channel for {_percent(network['channel_cycles'] / network['latency_cycles'])}; "
            f"{_percent(network['utilisation'])} of the MACs' cycles are used."
        )
    for network in design.get("schedules", ()):
        spilled = network["noncompulsory_bytes"] / network["dram_bytes"]
        sentences.append(f"{network['name']}: {_percent(spilled)} of its off-chip traffic is spills and reloads.")
    energy = dict(design.get("energy", ()))
    if energy:
        spent = [f"{_percent(v)} in {_part(k)}" for k, v in _largest(_shares(energy), 3)]
        sentences.append(f"Of its energy, {in_words(spent)}.")
    area = dict(design["area"])
    if any(area.values()):
        placed = [f"{_percent(v)} for {_part(k)}" for k, v in _largest(_shares(area), 3)]
        sentences.append(f"Of its {format_si(trial.metrics['area_mm2'], unit_of('area_mm2'))}, {in_words(placed)}.")
    return " ".join(sentences)


def time_shares(design: Mapping[str, Any]) -> dict[str, float]:
    """Share of the latency by what bounds it, in words: one resource or several at equal cycles, or the vector operators."""
    cycles: dict[str, float] = {}
    for layer in design["layers"]:
        name = resources_in_words(layer["bottlenecks"])
        cycles[name] = cycles.get(name, 0.0) + layer["latency_cycles"] * layer["count"]
    cycles["the vector operators"] = design["vector"]["latency_cycles"]
    total = sum(cycles.values())
    return {name: c / total for name, c in cycles.items() if c}


def _importance(effects: Mapping[str, EffectsRecord]) -> str:
    sentences = []
    for objective, found in effects.items():
        if not found["q2"] > TRUSTED_Q2:
            continue
        heavy = [(k, v) for k, v in _largest(found["total"], 3) if v >= 0.1]
        if heavy:
            named = [f"{name.replace('_', ' ')} ({_percent(min(share, 1.0))})" for name, share in heavy]
            sentences.append(f"{label_of(objective).capitalize()} hangs mostly on {in_words(named)}.")
    if sentences:
        sentences.append("Percentages: share of the variance over the values tried, interactions included.")
    return " ".join(sentences)


def _trust(study: Study, knee: Trial, designs: Mapping[int, Mapping[str, Any]], space_size: int | None) -> str:
    sentences = [_proofs(designs.get(knee.number)), *_what_is_known(study, space_size)]
    sentences += constant_objectives(study)
    mappings = read_mapping_front(study.folder)
    if mappings is not None:
        words = mappings.sentence()
        sentences.append(f"{words[:1].upper()}{words[1:]}.")
    sentences.append(_worst_cases(study, knee))
    bad = sum(not study.is_valid(t) for t in study.trials)
    if bad:
        sentences.append(f"{bad} of {len(study.trials)} designs tried cannot be built or break a constraint.")
    return " ".join(s for s in sentences if s)


def _worst_cases(study: Study, knee: Trial) -> str:
    """Which scenario each objective of a design judged by its worst case comes from; empty for other studies."""
    detail = study.detail(knee.number) or {}
    scenarios = detail.get("scenarios", [])
    if not scenarios:
        return ""
    worst = [
        f"{label_of(o)} in {max(scenarios, key=lambda s: s['metrics'].get(o, -math.inf))['name']}"
        for o in study.objectives
    ]
    return f"Every figure is the worst of {len(scenarios)} scenarios: {in_words(worst)}."


def _what_is_known(study: Study, space_size: int | None) -> list[str]:
    """How much of the space was tried, and whether the last trials still found better designs."""
    tried = len({repr(sorted(t.point.items())) for t in study.trials})
    sentences = []
    if space_size is not None and tried >= space_size:
        sentences.append(f"Every one of the {space_size:,} designs of the space was tried.")
    elif space_size is not None:
        others = "nothing is known of the others"
        certified = read_certified(study)
        if certified is not None:
            others = str(certified["sentence"])
        elif str(study.config["optimizer"]).startswith(PROVING):
            proof = read_proof(study.folder)
            others = (
                "the certificate that the search printed bounds the others" if proof is None else str(proof["sentence"])
            )
        sentences.append(
            f"{tried:,} of at most {space_size:,} designs were tried ({100 * tried / space_size:.2g} %): {others}."
        )
    late, count = late_finds(study), len(study.trials)
    if late is not None and late.on_front == 0:
        sentences.append(f"The last {late.trials} of {count} trials put no design on the front.")
    elif late is not None:
        sentences.append(
            f"The last {late.trials} of {count} trials put {late.on_front} of its {len(study.front())} designs on the front; what was found "
            f"before is within a factor of {late.factor:.3g} of every one in all objectives."
        )
    return sentences


def _proofs(design: Mapping[str, Any] | None) -> str:
    """How many of the design's mappings are proven optimal, and which proof judged the design."""
    if design is None:
        return ""
    if "networks" in design:
        gaps = [n["gap"] for n in design["networks"] if n.get("gap") is not None]
        if all(n.get("scheduler") == "fused" for n in design["networks"]):
            return f"No fused schedule of the recommended design is better by more than {100 * max(gaps):.1f} % under the rules of fusion."
        if all(n.get("scheduler") == "segments" for n in design["networks"]):
            return f"Energy x time of the recommended design's trees is {100 * max(gaps):.1f} % above a bound that holds for all trees."
        if len(gaps) == len(design["networks"]):
            return (
                f"For the tiles chosen, the recommended design's DRAM schedules are within {100 * max(gaps):.1f} % of a lower "
                "bound; nothing is proven of the choice of tiles."
            )
        return "The recommended design's schedules are the best found; nothing is proven of them."
    if "schedules" in design:
        proven = sum(n["proof"] == "optimal" for n in design["schedules"])
        return f"Of its {len(design['schedules'])} schedules {proven} have the least traffic, proven; arithmetic is not judged."
    layers = design.get("layers", [])
    if not layers:
        return ""
    total = sum(v["latency_cycles"] * v["count"] for v in layers)
    proven = [v for v in layers if v["proof"] == "optimal"]
    bounded = [v for v in layers if v["proof"] == "gap" and v["gap"] is not None]
    share = sum(v["latency_cycles"] * v["count"] for v in proven) / total
    if not proven and not bounded:
        return (
            f"None of its {len(layers)} distinct layers has a mapping proven optimal: its latency and energy are what was "
            "found, the hardware may do better."
        )
    text = f"Of its {len(layers)} distinct layers {len(proven)} ({_percent(share)} of the matrix operators' time) have mappings proven optimal among even mappings with perfect factors"
    if bounded:
        worst = max(v["gap"] for v in bounded)
        text += f", {len(bounded)} are within {100 * worst:.2g} % of a bound"
    return f"{text}."


def _shares(parts: Mapping[str, float]) -> dict[str, float]:
    total = sum(parts.values())
    return {name: value / total for name, value in parts.items()}


def _largest(values: Mapping[str, float], count: int) -> list[tuple[str, float]]:
    """The largest shares, those of half a percent or more."""
    ranked = sorted(values.items(), key=lambda item: -item[1])[:count]
    return [item for item in ranked if item[1] >= 0.005] or ranked[:1]


def resources_in_words(names: Sequence[str]) -> str:
    """What bounds a layer: ``compute``, ``the bandwidth of DRAM``, ``both compute and the bandwidth of DRAM``.

    >>> resources_in_words(["compute", "DRAM"])
    'both compute and the bandwidth of DRAM'
    """
    parts = [COMPUTE if name == COMPUTE else f"the bandwidth of {_part(name)}" for name in names]
    return f"both {in_words(parts)}" if len(parts) == 2 else in_words(parts)


def _part(name: str) -> str:
    return {"MAC": "the MACs", "DRAM": "DRAM", "leakage": "leakage"}.get(name, f"the {name}")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.0995 or share == 0 else f"{100 * share:.1f} %"


def is_finite(value: float) -> float | None:
    """A number for JSON: None where it is not finite."""
    return value if math.isfinite(value) else None
