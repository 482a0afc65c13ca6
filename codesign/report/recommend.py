"""The designs of a front that a reader should look at first, each with the reason: the balanced one, and the best by each objective."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codesign.arch.provenance import recorded_text
from codesign.evaluation.metrics import format_si, unit_of
from codesign.study.study import Study, Trial

BALANCED = "best balance"

_ROLES = {
    "latency_s": "fastest",
    "energy_j": "most efficient",
    "power_w": "lowest power",
    "area_mm2": "smallest",
    "edp_js": "best energy-delay product",
}
"""What the best design by an objective is called."""

LABELS = {
    "latency_s": "latency",
    "energy_j": "energy",
    "power_w": "power",
    "area_mm2": "area",
    "edp_js": "energy-delay product",
    "ttft_s": "time to first token",
    "tpot_s": "time per output token",
    "s_per_token": "time per token of all",
    "tokens_per_s": "tokens per second",
    "tokens_per_j": "tokens per joule",
}


def role_of(metric: str) -> str:
    """What the design with the lowest value of a metric is called."""
    return _ROLES.get(metric) or f"lowest {label_of(metric)}"


def label_of(metric: str) -> str:
    """A metric in words; one of the user's own by its name without the module.

    >>> label_of("latency_s"), label_of("mine:chip_cost")
    ('latency', 'chip cost')
    """
    return LABELS.get(metric) or metric.rpartition(":")[2].replace("_", " ")


def labels_of(metrics: Sequence[str]) -> dict[str, str]:
    """The words of every built-in metric and of these."""
    return {**LABELS, **{metric: label_of(metric) for metric in metrics}}


_LEAST_FOR_CONSTANT = 3

_LEAST_TO_JUDGE = 8


@dataclass(frozen=True)
class Recommendation:
    """A design worth building.

    Args:
        trial: The design.
        roles: What it is best at; `BALANCED` for the one that is recommended first.
        why: In words: what it costs against the front's best, or what it gives and takes against the balanced one.
    """

    trial: Trial
    roles: tuple[str, ...]
    why: str


def recommendations(study: Study) -> list[Recommendation]:
    """The balanced design first, then the best by each objective; a design that is several of these stands once."""
    front = study.front()
    if not front:
        return []
    knee = front[knee_index(study.values(front))]
    roles: dict[int, list[str]] = {knee.number: [BALANCED]}
    for objective in study.objectives:
        if len(front) > 1 and len({t.metrics[objective] for t in front}) == 1:
            continue  # they are all the best by it
        best = min(front, key=lambda t: t.metrics[objective])
        roles.setdefault(best.number, []).append(role_of(objective))
    by_number = {t.number: t for t in front}
    return [
        Recommendation(
            by_number[number],
            tuple(names),
            _against_best(study, front, knee) if number == knee.number else _against(study, by_number[number], knee),
        )
        for number, names in roles.items()
    ]


def figures_of(study: Study) -> tuple[str, ...]:
    """Where areas and energies of the front's designs come from: a sentence a technology."""
    records = (study.detail(trial.number).get("architecture", {}).get("provenance") for trial in study.front())
    return tuple(dict.fromkeys(recorded_text(record) for record in records if record is not None))


def constant_objectives(study: Study) -> list[str]:
    """Objectives that have one value whatever the design, as sentences; none before three valid trials."""
    values = study.values([t for t in study.trials if study.is_valid(t)])
    if len(values) < _LEAST_FOR_CONSTANT:
        return []
    same = np.ptp(values, axis=0) <= 1e-9 * np.abs(values).max(axis=0)
    return [
        f"All {len(values)} feasible designs have the same {label_of(o)}, {format_si(v, unit_of(o))}: it tells none of them apart."
        for o, v, constant in zip(study.objectives, values[0], same, strict=True)
        if constant
    ]


def knee_design(study: Study) -> Trial | None:
    """The front's design that `knee_index` chooses; None without a front."""
    front = study.front()
    return front[knee_index(study.values(front))] if front else None


def knee_index(values: NDArray[np.float64]) -> int:
    """The row of a front nearest to the ideal point, in ratios.

    The ideal point has the best value of every objective on the front. The distance to it is Euclidean in the logarithms of
    the ratios, so a factor weighs the same in every objective and a spread of 3 % hardly at all beside one of 8 x. Units do
    not matter. (Compromise programming: Zeleny, 1973; Yu, Management Science 19(8), 1973. There every objective is scaled to
    its span on the front, which makes the smallest spread weigh as much as the largest.) Of equal ones the first.

    Args:
        values: Objectives to minimise, positive: ``n x m``.

    >>> knee_index(np.array([[1.0, 1.03], [8.0, 1.0]]))  # 3 % more energy, an eighth of the latency
    0
    """
    ratios = np.log(values) - np.log(values).min(axis=0)
    return int(np.argmin((ratios**2).sum(axis=1)))


LATE = 0.25
"""Share of the trials, the last ones, that tell whether a search still finds anything."""


@dataclass(frozen=True)
class LateFinds:
    """What the last trials of a study added to its front.

    Args:
        trials: How many they are.
        on_front: Designs of the front among them.
        factor: The least factor by which all objectives of some earlier design must be divided to beat or equal whichever of the
            front's designs (the multiplicative epsilon indicator: Zitzler et al., IEEE Trans. Evol. Comp. 7(2), 2003); 1 if
            the last trials added nothing.
    """

    trials: int
    on_front: int
    factor: float


def late_finds(study: Study) -> LateFinds | None:
    """What the last quarter of the trials added; None before eight trials, or without a valid one before them."""
    n = len(study.trials)
    late = {t.number for t in study.trials[n - max(1, round(LATE * n)) :]}
    before = [t for t in study.trials if t.number not in late and study.is_valid(t)]
    front = study.front()
    if n < _LEAST_TO_JUDGE or not before or not front:
        return None
    ratios = study.values(before)[:, None] / study.values(front)[None]  # earlier x front x objectives
    factor = float(ratios.max(axis=2).min(axis=0).max())
    return LateFinds(len(late), sum(t.number in late for t in front), max(1.0, factor))


def _against_best(study: Study, front: list[Trial], knee: Trial) -> str:
    if len(front) == 1:
        return "it beats every other design in every objective"
    best = study.values(front).min(axis=0)
    ratios = [
        f"{knee.metrics[o] / b:.3g} × the lowest {label_of(o)}" if knee.metrics[o] > b else f"the lowest {label_of(o)}"
        for o, b in zip(study.objectives, best, strict=True)
    ]
    return f"nearest to the best of every objective at once: {in_words(ratios)}"


def _against(study: Study, trial: Trial, knee: Trial) -> str:
    """What a design gives and takes: ``latency 4.6 × lower, area 6.5 × higher than trial 18``."""
    parts = []
    for objective in study.objectives:
        ratio = trial.metrics[objective] / knee.metrics[objective]
        factor, way = (ratio, "higher") if ratio > 1 else (1 / ratio, "lower")
        change = "about the same" if factor < 1.005 else f"{factor:.3g} × {way}"
        parts.append(f"{label_of(objective)} {change}")
    return f"{', '.join(parts)} than trial {knee.number}"


def in_words(parts: list[str]) -> str:
    """``a, b and c``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
