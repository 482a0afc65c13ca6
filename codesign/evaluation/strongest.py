"""`--scheduler strongest`: the judge that proves most of what workload, space and budget allow (rule E9, docs/reference/evaluation.md)."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from codesign.core.errors import UserError
from codesign.evaluation.design import DesignSpace
from codesign.evaluation.fused_networks import FusedEvaluator
from codesign.evaluation.judge import Judge
from codesign.evaluation.specification import JudgeSpec
from codesign.scheduling.fused.network_operators import graph_of

ORDER = ("fused", "soma", "layers")
"""Schedulers of whole networks before layers alone; proven ones before those that are searched."""

SAMPLES = 4
"""Designs on which the rules of the fused scheduler are tried."""


def strongest(make: Callable[[JudgeSpec], Judge], how: JudgeSpec, space: DesignSpace) -> tuple[str, Judge, list[str]]:
    """The first judge of `ORDER` that takes the workload on the space within the budget: its name, itself, why those before it do not.

    Raises:
        UserError: Not even layer by layer.
    """
    passed: list[str] = []
    for name in ORDER[:-1]:
        try:
            judge = make(replace(how, scheduler=name))
            if isinstance(judge.evaluate, FusedEvaluator):
                _check_rules(judge.evaluate, space)
        except UserError as error:
            passed.append(f"{name}: {error.args[0]}")
        else:
            return name, judge, passed
    return ORDER[-1], make(replace(how, scheduler=ORDER[-1])), passed


def _check_rules(evaluator: FusedEvaluator, space: DesignSpace) -> None:
    """Refuse networks and designs that the rules of fusion do not have (G1, G2)."""
    rows = space.space.sample(SAMPLES, np.random.default_rng(0))
    for point in space.space.to_points(rows):
        architecture = space.build(point)
        for network, _ in evaluator.networks:
            graph_of(network, architecture)
