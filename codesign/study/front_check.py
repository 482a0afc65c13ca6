"""Checks the certificate of a front: every design of the space again, each left-out one with a bound computed anew (rules F1 to F5).

Nothing of the search and of its bounds is used. Bounds are the closed bounds of `codesign.verify.even`, evaluated designs are scored
from their mappings, and a sample of these mappings is proven again. The space, the kernel and the vector operators are shared.
"""

import hashlib
import json
import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict, final

import numpy as np
from numpy.typing import NDArray

from codesign.arch.architecture import Architecture
from codesign.bounds.design import why_not
from codesign.bounds.vector import VectorWork
from codesign.core.errors import UserError
from codesign.core.point import Point
from codesign.cost.cost import Infeasible, evaluate
from codesign.evaluation.design import DesignEvaluator
from codesign.evaluation.metrics import OBJECTIVES, metrics_of_sums
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.files import mapping_from_json
from codesign.study.run import PreparedStudy, prepare
from codesign.study.specification import PROVING, StudySpec
from codesign.verify.even.check import verify_even
from codesign.verify.even.claims import certify
from codesign.verify.even.problem import Space, make_space
from codesign.verify.even.screen import least_of_all
from codesign.verify.verdict import Verdict

Floats = NDArray[np.float64]

FRONT = "codesign front certificate 2"
"""Format and version."""

MOST_DESIGNS = 20_000
"""Designs of a space that a certificate lists at most."""

TIES = 5e-8
"""Relative; values that differ by less count as equal, as in the search."""

ROUNDING = 1e-12
"""Relative; how near what is recorded must come to what is computed again."""

SAMPLE, SAMPLE_S = 8, 10.0
"""Mappings proven again at most, and the CPU seconds for them."""

_SLACK = 1e-8
"""Relative; bounds are lowered by it, for sums are rounded in another order here than in an evaluation."""


class EvaluatedDesign(TypedDict):
    """A design of a certificate with its objectives, and the mapping of every distinct layer as in a file."""

    point: Point
    values: list[float]
    mappings: list[Any]


class InfeasibleDesign(TypedDict):
    """A design of a certificate that fits nothing."""

    point: Point


class LeftOutDesign(TypedDict):
    """A design of a certificate that was not evaluated, and what its objectives are not below."""

    point: Point
    bound: list[float]


class FrontDocument(TypedDict):
    """The certificate of a front.

    Attributes:
        format: `FRONT`.
        study: What of the specification the front depends on.
        objectives: Fields of the metrics that are minimised.
        epsilon: Relative; how near evaluated designs come to all others.
        evaluated: Designs with their mappings.
        infeasible: Those that fit nothing.
        left_out: Those with a bound alone.
        seal: See `codesign.verify.seal`.
    """

    format: str
    study: Mapping[str, Any]
    objectives: list[str]
    epsilon: float
    evaluated: list[EvaluatedDesign]
    infeasible: list[InfeasibleDesign]
    left_out: list[LeftOutDesign]
    seal: NotRequired[dict[str, str]]


@final
@dataclass(frozen=True)
class Task:
    """What a front is of.

    Args:
        prepared: The study.
        evaluator: How its designs are judged.
        points: All designs of the space.
    """

    prepared: PreparedStudy
    evaluator: DesignEvaluator
    points: list[Point]

    @property
    def objectives(self) -> list[str]:
        """Fields of the metrics that are minimised."""
        return [OBJECTIVES.get(o, o) for o in self.prepared.goals.objectives]


def task_of(study: Mapping[str, Any]) -> Task:
    """The task that the `study` of a certificate says.

    Raises:
        UserError: Certificates do not cover such a study.
    """
    spec = StudySpec.from_json({**study, "place": {"out": "."}}, "`study`")
    prepared = prepare(spec)
    evaluator = prepared.judge.evaluate
    reason = "designs are not judged layer by layer"
    if isinstance(evaluator, DesignEvaluator):
        reason = why_not(evaluator.options, evaluator.mapper.name) or ""
        if evaluator.mapper.name != "exact":
            reason = f"mapper {evaluator.mapper.name!r} proves nothing of its mappings"
        if prepared.goals.bounds:
            reason = "it has constraints on metrics"
    if spec.search.optimizer != PROVING:
        reason = f"its optimiser is {spec.search.optimizer!r}, which proves nothing"
    count = prepared.space.space.cardinality_bound
    if count > MOST_DESIGNS:
        reason = f"its space has up to {count:,} designs, at most {MOST_DESIGNS:,} are listed"
    if reason or not isinstance(evaluator, DesignEvaluator):
        raise UserError(f"no certificate covers the front of this study: {reason}", hint="leave --certificate out")
    return Task(prepared, evaluator, prepared.space.space.to_points(prepared.space.space.enumerate(MOST_DESIGNS)))


@final
class DesignFigures:
    """What designs cost at the least, and with given mappings.

    Args:
        task: Whose designs.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._layers = task.evaluator.workload.distinct_layers()
        self._vector = VectorWork.of(task.evaluator.workload)

    def problem(self, architecture: Architecture, layer: int) -> MappingProblem:
        """A layer on a machine."""
        constraints = self._task.evaluator.options.constraints
        return MappingProblem(self._layers[layer].computation, architecture, constraints)

    def _space(self, architecture: Architecture, layer: int) -> Space:
        return make_space(self.problem(architecture, layer), self._task.evaluator.options.objective)

    def least(self, point: Point) -> list[float]:
        """Objectives that no mappings of a design are below (rule F2)."""
        architecture = self._task.evaluator.space.build(point)
        cycles, energy_pj = self._vector.on_one(architecture)
        for k, group in enumerate(self._layers):
            space = self._space(architecture, k)
            each = [least_of_all(space, kept) for kept in space.keep_sets()]
            energy_pj += group.count * min(e for e, _ in each)
            cycles += group.count * min(c for _, c in each)
        found = metrics_of_sums(architecture, cycles, architecture.clock_hz, energy_pj).to_dict()
        found["power_w"] = architecture.leakage_w  # a mapping may be as slow as it likes
        return [found[o] * (1.0 if o == "area_mm2" else 1.0 - 2.0 * _SLACK) for o in self._task.objectives]

    def with_mappings(self, point: Point, mappings: Sequence[Any]) -> list[float]:
        """Objectives of a design with these mappings, one for each distinct layer (rule F3).

        Raises:
            UserError: A mapping does not fit.
        """
        architecture = self._task.evaluator.space.build(point)
        more_cycles, more_pj = self._vector.on_one(architecture)
        cycles = energy_pj = 0.0
        for k, (group, given) in enumerate(zip(self._layers, mappings, strict=True)):
            cost = evaluate(group.computation, architecture, mapping_from_json(given, f"layer {k}"))
            if isinstance(cost, Infeasible):
                raise UserError(f"the mapping of layer {k} does not fit: {cost}")
            cycles += cost.latency_cycles * group.count
            energy_pj += cost.energy_pj * group.count
        found = metrics_of_sums(
            architecture, cycles + more_cycles, architecture.clock_hz, energy_pj + more_pj
        ).to_dict()
        return [found[o] for o in self._task.objectives]

    def fits_nothing(self, point: Point) -> bool:
        """Whether some memory of a design cannot hold one element of each tensor that it keeps (rule F4)."""
        architecture = self._task.evaluator.space.build(point)
        for k in range(len(self._layers)):
            space = self._space(architecture, k)
            small = [
                sum(int(space.arrays.element_bits[v, t]) for t, held in enumerate(row) if held)
                > space.arrays.capacity_bits[v]
                for kept in space.keep_sets()
                for v, row in enumerate(kept)
                if v
            ]
            if any(small):
                return True
        return False

    def proven_again(self, point: Point, layer: int, mapping: Any, stop: float) -> Verdict:
        """Whether one mapping of an evaluated design is the best (rule F5), by `codesign.verify.even`."""
        problem = self.problem(self._task.evaluator.space.build(point), layer)
        nest = mapping_from_json(mapping, f"layer {layer}")
        return verify_even(certify(problem, self._task.evaluator.options.objective, nest), stop)


def settles(values: Floats, bound: Sequence[float], epsilon: float) -> bool:
    """Whether one of some evaluated designs is within 1 + epsilon of a bound in every objective: ``n x m`` and ``m`` (rule F2)."""
    wanted = np.array(bound) * (1.0 + epsilon) * (1.0 + TIES)
    return bool((values <= wanted).all(axis=1).any())


def key_of(point: Mapping[str, Any]) -> str:
    """What tells a design from others."""
    return json.dumps(dict(point), sort_keys=True)


def check_front(document: FrontDocument, stop: float) -> Verdict:
    """Check everything the certificate of a front says; `stop` in CPU seconds of the process.

    Raises:
        UserError: A part is missing or of the wrong kind, or the study is none that certificates cover.
    """
    try:
        return _check(document, stop)
    except KeyError as error:
        raise UserError(f"the certificate is damaged: a part of it lacks {error}") from None
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise UserError(f"the certificate is damaged: {error}") from None


def _check(document: FrontDocument, stop: float) -> Verdict:
    task = task_of(document["study"])
    figures, epsilon = DesignFigures(task), float(document["epsilon"])
    if document["objectives"] != task.objectives or epsilon != (task.prepared.spec.search.epsilon or 0.0):
        return Verdict(False, "`objectives` and `epsilon` are not those of the study")
    reason = _not_each_once(document, task)
    if reason:
        return Verdict(False, reason)
    values = []
    for n, given in enumerate(document["evaluated"]):
        found = figures.with_mappings(given["point"], given["mappings"])
        if not _same(given["values"], found):
            return Verdict(False, f"`evaluated[{n}].values` is {given['values']}, its mappings give {found}")
        values.append(found)
    for n, infeasible in enumerate(document["infeasible"]):
        if not figures.fits_nothing(infeasible["point"]):
            return Verdict(False, f"`infeasible[{n}]`: every memory holds an element of each tensor")
    known = np.array(values).reshape(-1, len(task.objectives))
    for n, left_out in enumerate(document["left_out"]):
        if time.process_time() > stop:
            return Verdict(False, f"the time limit ended the check after {n} designs left out that are")
        bound = figures.least(left_out["point"])
        if not _same(left_out["bound"], bound):
            return Verdict(False, f"`left_out[{n}].bound` is {left_out['bound']}, computed again {bound}")
        if not settles(known, bound, epsilon):
            return Verdict(False, f"`left_out[{n}]`: no evaluated design is within {epsilon:g} of its bound {bound}")
    return _sampled(document, figures, stop)


def _same(given: Sequence[float], found: Sequence[float]) -> bool:
    return len(given) == len(found) and all(
        math.isclose(a, b, rel_tol=ROUNDING) for a, b in zip(given, found, strict=True)
    )


def _not_each_once(document: FrontDocument, task: Task) -> str:
    """What is wrong with the list of designs (rule F1); empty where nothing is."""
    left = {key_of(point) for point in task.points}
    parts: dict[str, Sequence[EvaluatedDesign | InfeasibleDesign | LeftOutDesign]] = {
        "evaluated": document["evaluated"],
        "infeasible": document["infeasible"],
        "left_out": document["left_out"],
    }
    for part, designs in parts.items():
        for n, given in enumerate(designs):
            key = key_of(given["point"])
            if key not in left:
                return f"`{part}[{n}].point` is no design of the space, or listed twice"
            left.remove(key)
    return f"{len(left)} designs of the space are not listed, one is {min(left)}" if left else ""


def _sampled(document: FrontDocument, figures: DesignFigures, stop: float) -> Verdict:
    """Prove a sample of mappings again, drawn by a digest of all of them."""
    evaluated = document["evaluated"]
    every = [(n, k) for n, given in enumerate(evaluated) for k in range(len(given["mappings"]))]
    digest = hashlib.sha256(json.dumps(evaluated, sort_keys=True).encode()).hexdigest()
    random.Random(digest).shuffle(every)
    stop, proven = min(stop, time.process_time() + SAMPLE_S), 0
    for n, k in every:
        if proven == SAMPLE or time.process_time() > stop:
            break
        verdict = figures.proven_again(evaluated[n]["point"], k, evaluated[n]["mappings"][k], stop)
        if not verdict.accepted and "time limit" not in verdict.reason:
            return Verdict(False, f"`evaluated[{n}].mappings[{k}]` is not the best: {verdict.reason}")
        proven += verdict.accepted
    return Verdict(
        True,
        f"{len(document['left_out'])} designs left out have bounds computed again, {len(evaluated)} were scored from their mappings; "
        f"{proven} of {len(every)} mappings proven again",
    )
