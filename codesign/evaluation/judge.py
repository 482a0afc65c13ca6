"""An evaluator of designs with what a study records of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from codesign.core.json_types import JsonObject
from codesign.core.point import Point
from codesign.evaluation.design import Evaluation
from codesign.evaluation.records import EvaluationRecord, WorkloadRecord


@final
@dataclass(frozen=True)
class Judge:
    """An evaluator, and what a study records of it.

    Args:
        evaluate: From a design to its metrics; plain data, so it can be sent to other processes.
        workload: Names, hashes, weights and so on of the networks.
        mapper: Name and options of the inner search.
        evaluation: Options of the evaluation.
        headline: What runs, for the first line of output.
    """

    evaluate: Callable[[Point], Evaluation]
    workload: WorkloadRecord
    mapper: JsonObject
    evaluation: EvaluationRecord
    headline: str
