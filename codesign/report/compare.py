"""Several studies side by side: hypervolume by optimiser over seeds, trials to reach a level, rank tests."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from codesign.evaluation.metrics import UNITS, figures_text
from codesign.optim.certify import above
from codesign.optim.hypervolume import hypervolume
from codesign.optim.pareto import front
from codesign.study.certified import read_certified
from codesign.study.proof import read_proof
from codesign.study.study import Study, hypervolume_curve

Floats = NDArray[np.float64]

SHARES = (0.5, 0.75, 0.9, 0.95)
"""Levels reported by default: shares of the hypervolume that all runs reach together."""


@dataclass(frozen=True)
class Group:
    """The runs of one optimiser.

    Args:
        optimizer: Its name.
        seeds: Of the runs.
        curves: Hypervolume after each trial, one row a run, cut to the shortest: ``runs x trials``.
        seconds: Wall-clock time of each run.
        distances: Of each run to a proven front: the least share by which every design of that front is approached in every
            objective; empty where none is known.
        factors: By how much bounds show that any design may beat each run's front; None for a run that nothing is shown of.
    """

    optimizer: str
    seeds: tuple[int, ...]
    curves: Floats
    seconds: tuple[float, ...]
    distances: tuple[float, ...] = ()
    factors: tuple[float | None, ...] = ()

    @property
    def certified(self) -> float | None:
        """The median over runs of the certified factors; None where a run has none."""
        known = [f for f in self.factors if f is not None]
        return float(np.median(known)) if known and len(known) == len(self.factors) else None

    @property
    def quartiles(self) -> Floats:
        """Lower quartile, median, upper quartile after each trial: ``3 x trials``."""
        return np.asarray(np.percentile(self.curves, [25, 50, 75], axis=0))

    def trials_by_run(self, level: float) -> tuple[int | None, ...]:
        """Trials after which each run reaches a hypervolume; None for one that never does."""
        reached = self.curves >= level * (1 - 1e-12)
        return tuple(int(row.argmax()) + 1 if row.any() else None for row in reached)

    def trials_to(self, level: float) -> float | None:
        """The median over runs of the trials to a hypervolume; None if fewer than half reach it."""
        needed = sorted(math.inf if n is None else float(n) for n in self.trials_by_run(level))
        middle = (needed[(len(needed) - 1) // 2] + needed[len(needed) // 2]) / 2
        return None if math.isinf(middle) else middle


@dataclass(frozen=True)
class RankTest:
    """Whether one optimiser ends higher than another.

    Args:
        left: The optimiser with the higher median.
        right: The other.
        trials: After how many trials hypervolumes are compared: the most that all runs of both have.
        superiority: Probability that a run of `left` ends above one of `right`, ties counted half: the effect size A12 of Vargha
            and Delaney (Journal of Educational and Behavioral Statistics 25(2), 2000). 0.5 is no difference.
        p_value: Of the two-sided Mann-Whitney U test, adjusted for all pairs after Holm (1979).
        paired_p_value: Of the two-sided Wilcoxon signed-rank test over equal seeds, likewise; None where seeds differ.
        least_p_value: The smallest p value the Mann-Whitney test can give with so few runs, before adjustment.
    """

    left: str
    right: str
    trials: int
    superiority: float
    p_value: float
    paired_p_value: float | None
    least_p_value: float


@dataclass(frozen=True)
class Comparison:
    """Studies of the same space, workload and objectives.

    Args:
        problem: What was searched, in words.
        objectives: Fields minimised.
        reference: The common reference point: 1.1 times the worst value on the front of any run.
        best: Hypervolume of all runs' designs together.
        levels: Hypervolumes whose trials are reported.
        groups: By optimiser, best median first.
        tests: Every pair of optimisers with at least two runs each.
        proven: The epsilon within which the front of one of the runs is proven; None where none is.
    """

    problem: str
    objectives: tuple[str, ...]
    reference: tuple[float, ...]
    best: float
    levels: tuple[float, ...]
    groups: tuple[Group, ...]
    tests: tuple[RankTest, ...]
    proven: float | None = None

    @property
    def reference_text(self) -> str:
        """The reference point with units."""
        return figures_text(self.reference, self.objectives)


def compare(studies: Sequence[Study], levels: Sequence[str] = ()) -> Comparison:
    """Compare studies.

    Args:
        studies: Runs of one problem.
        levels: Hypervolumes to report trials for, as numbers or as shares of what all runs reach (``90%``); default `SHARES`.

    Raises:
        UserError: They differ in what they search, one has no feasible design, or a level is no number.
    """
    first = studies[0]
    for study in studies[1:]:
        for key in ("space", "workload", "objectives", "constraints", "evaluation"):
            if study.config[key] != first.config[key]:
                raise UserError(
                    f"{study.label} and {first.label} differ in {key}", hint="compare runs of one problem only"
                )
    values = {id(s): s.values(s.trials) for s in studies}
    for study in studies:
        if not np.isfinite(values[id(study)]).any():
            raise UserError(f"{study.label} has no feasible trial to compare")
    fronts = np.concatenate([front(v[np.isfinite(v).all(axis=1)]) for v in values.values()])
    reference = tuple((1.1 * fronts.max(axis=0)).tolist())
    best = hypervolume(np.log10(fronts), np.log10(np.array(reference)).tolist())
    by_optimizer: dict[str, list[Study]] = {}
    for study in studies:
        by_optimizer.setdefault(study.config["optimizer"], []).append(study)
    known = _proven_front(studies, values)
    truth = None if known is None else known[1]
    groups = [_group(name, members, values, reference, truth) for name, members in by_optimizer.items()]
    groups.sort(key=lambda g: -float(g.quartiles[1, -1]))
    wanted = tuple(_level(text, best) for text in levels) or tuple(share * best for share in SHARES)
    problem = f"{' + '.join(first.config['workload']['names'])} on {first.config['space']['name']}"
    return Comparison(
        problem,
        first.objectives,
        reference,
        best,
        wanted,
        tuple(groups),
        rank_tests(groups),
        None if known is None else known[0],
    )


def _proven_front(studies: Sequence[Study], values: dict[int, Floats]) -> tuple[float, Floats] | None:
    """The best proven front among the runs, and the epsilon within which it is."""
    found = []
    for study in studies:
        proof = read_proof(study.folder)
        if proof is not None and proof.get("proven"):
            rows = values[id(study)]
            found.append((float(proof["epsilon_proven"]), front(_finite(rows))))
    return min(found, key=lambda item: item[0]) if found else None


def distance(values: Floats, truth: Floats) -> float:
    """The least share by which some row of `values` is near every row of `truth` in every column: ``n x m`` and ``k x m``.

    >>> distance(np.array([[1.0, 2.2], [2.0, 1.0]]), np.array([[1.0, 2.0], [2.0, 1.0]])) == 2.2 / 2.0 - 1.0
    True
    """
    return max(float((values / row).max(axis=1).min()) for row in truth) - 1.0


def _level(text: str, best: float) -> float:
    try:
        value = float(text.rstrip("% ")) / 100 * best if text.rstrip().endswith("%") else float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UserError(f"--level must be a positive number, or a share such as 90%, got {text!r}")
    return value


def _group(
    name: str, members: Sequence[Study], values: dict[int, Floats], reference: tuple[float, ...], truth: Floats | None
) -> Group:
    curves = [hypervolume_curve(values[id(s)], reference) for s in members]
    length = min(len(c) for c in curves)
    return Group(
        name,
        tuple(int(s.config["seed"]) for s in members),
        np.array([c[:length] for c in curves]),
        tuple(s.trials[-1].elapsed_s for s in members),
        () if truth is None else tuple(max(0.0, distance(_finite(values[id(s)]), truth)) for s in members),
        tuple(_certified_factor(s) for s in members),
    )


def _certified_factor(study: Study) -> float | None:
    """By how much any design may beat a study's front: what was shown after the search, or by the search itself."""
    certified = read_certified(study)
    if certified is not None:
        return None if certified["certified_factor"] is None else float(certified["certified_factor"])
    proof = read_proof(study.folder) or {}
    gap = proof.get("epsilon_proven")
    return None if gap is None else 1.0 + float(gap)


def _finite(rows: Floats) -> Floats:
    return rows[np.isfinite(rows).all(axis=1)]


def rank_tests(groups: Sequence[Group]) -> tuple[RankTest, ...]:
    """Every pair of groups with at least two runs each, p values adjusted for their number."""
    able = [g for g in groups if len(g.seeds) > 1]
    tests = [_rank_test(a, b) for i, a in enumerate(able) for b in able[i + 1 :]]
    plain = _holm([t.p_value for t in tests])
    paired = iter(_holm([t.paired_p_value for t in tests if t.paired_p_value is not None]))
    adjusted = []
    for test, p_value in zip(tests, plain, strict=True):
        paired_p = None if test.paired_p_value is None else next(paired)
        adjusted.append(replace(test, p_value=p_value, paired_p_value=paired_p))
    return tuple(adjusted)


def _rank_test(a: Group, b: Group) -> RankTest:
    from scipy.stats import mannwhitneyu, wilcoxon

    trials = min(a.curves.shape[1], b.curves.shape[1])
    if np.median(a.curves[:, trials - 1]) < np.median(b.curves[:, trials - 1]):
        a, b = b, a
    left, right = a.curves[:, trials - 1], b.curves[:, trials - 1]
    exact = len(np.unique(np.concatenate([left, right]))) == len(left) + len(right)
    found = mannwhitneyu(left, right, alternative="two-sided", method="exact" if exact else "asymptotic")
    paired = None
    if sorted(a.seeds) == sorted(b.seeds) and len(set(a.seeds)) == len(a.seeds):
        differences = left[np.argsort(a.seeds)] - right[np.argsort(b.seeds)]
        paired = 1.0 if not differences.any() else float(wilcoxon(differences).pvalue)
    return RankTest(
        a.optimizer,
        b.optimizer,
        trials,
        float(found.statistic) / (len(left) * len(right)),
        1.0 if math.isnan(found.pvalue) else float(found.pvalue),
        paired,
        2.0 / math.comb(len(left) + len(right), len(left)),
    )


def _holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment: the k-th smallest of m times m - k + 1, made monotone.

    >>> _holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = largest
    return adjusted


SIGNIFICANT = 0.05


def describe(comparison: Comparison) -> list[str]:
    """What the comparison says, in sentences."""
    first, *others = comparison.groups
    reached, trials = float(first.quartiles[1, -1]), first.curves.shape[1]
    share = f"{100 * reached / comparison.best:.0f} % of what all runs reach together"
    if not others:
        sentences = [f"{first.optimizer} has a median hypervolume of {reached:.4f} after {trials} trials, {share}."]
    else:
        sentences = [
            f"{first.optimizer} ends highest: median hypervolume {reached:.4f} after {trials} trials, {share}."
        ]
    for other in others:
        level, needed = float(other.quartiles[1, -1]), first.trials_to(float(other.quartiles[1, -1]))
        text = f"What {other.optimizer} has after {other.curves.shape[1]} trials ({level:.4f})"
        text += f", {first.optimizer} has after {needed:g}" if needed is not None else f", {first.optimizer} has not"
        test = next((t for t in comparison.tests if {t.left, t.right} == {first.optimizer, other.optimizer}), None)
        if test is None:
            sentences.append(f"{text}; one run each says nothing of chance.")
        elif test.p_value <= SIGNIFICANT:
            sentences.append(f"{text}; the difference at the end is more than chance (p = {test.p_value:.2g}).")
        else:
            few = (
                f", and {test.least_p_value:.2g} is the least so few runs can give" if test.least_p_value > 0.01 else ""
            )
            sentences.append(f"{text}; the difference at the end may be chance (p = {test.p_value:.2g}{few}).")
    if comparison.proven is not None:
        within = "the proven front" if comparison.proven == 0.0 else f"a front proven within {comparison.proven:.2%}"
        each = ", ".join(f"{g.optimizer} {float(np.median(g.distances)):.2%}" for g in comparison.groups)
        sentences.append(f"Distance to {within}, median over runs: {each}.")
    known = [f"{g.optimizer} {above(g.certified)}" for g in comparison.groups if g.certified is not None]
    if known:
        sentences.append(
            f"No design of the space beats the front by more than a factor, median over runs: {', '.join(known)}."
        )
    return sentences


def comparison_json(comparison: Comparison) -> JsonObject:
    """The comparison as plain values."""
    return {
        "problem": comparison.problem,
        "summary": describe(comparison),
        "objectives": list(comparison.objectives),
        "units": UNITS,
        "reference": list(comparison.reference),
        "best": comparison.best,
        "proven": comparison.proven,
        "levels": list(comparison.levels),
        "groups": [
            {
                "optimizer": g.optimizer,
                "seeds": list(g.seeds),
                "curves": g.curves.tolist(),
                "quartiles": g.quartiles.tolist(),
                "seconds": list(g.seconds),
                "distances": list(g.distances),
                "certified_factors": list(g.factors),
                "certified_factor": g.certified,
                "trials_to_90_percent": g.trials_to(0.9 * comparison.best),
                "trials_to_levels": [g.trials_to(level) for level in comparison.levels],
                "trials_to_levels_by_run": [list(g.trials_by_run(level)) for level in comparison.levels],
            }
            for g in comparison.groups
        ],
        "tests": [dict(vars(test)) for test in comparison.tests],
    }
