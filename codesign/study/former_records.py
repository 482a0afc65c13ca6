"""Records of earlier versions, read as the present ones: the one place that knows what was renamed.

| former | present |
|---|---|
| ``cheap evaluations of ...`` (optimiser of a study) | ``low-fidelity evaluations of ...`` |
| ``evaluation.cheap`` | ``evaluation.low_fidelity`` |
| ``NAME-cheap`` (name of a study) | ``NAME-low-fidelity`` |
"""

from collections.abc import Mapping
from typing import Any, cast

from codesign.evaluation.records import ConfigRecord, HeadRecord

LOW_FIDELITY_PREFIX = "low-fidelity evaluations of "
"""Begins the optimiser of a study that records the low-fidelity evaluations of another."""

LOW_FIDELITY_SUFFIX = "-low-fidelity"
"""Ends the name of such a study."""

LOW_FIDELITY_KEY = "low_fidelity"
"""Under `evaluation`: mapper, budget and price of low-fidelity evaluations."""

_FORMER_PREFIX, _FORMER_SUFFIX, _FORMER_KEY = "cheap evaluations of ", "-cheap", "cheap"


def present_config(config: Mapping[str, Any]) -> ConfigRecord:
    """A study's configuration in the present names.

    >>> present_config({"optimizer": "cheap evaluations of mobo", "evaluation": {"cheap": {"cost": 0.1}}})
    {'optimizer': 'low-fidelity evaluations of mobo', 'evaluation': {'low_fidelity': {'cost': 0.1}}}
    """
    found = dict(config)
    optimizer, evaluation = found.get("optimizer"), found.get("evaluation")
    if isinstance(optimizer, str) and optimizer.startswith(_FORMER_PREFIX):
        found["optimizer"] = LOW_FIDELITY_PREFIX + optimizer.removeprefix(_FORMER_PREFIX)
    if isinstance(evaluation, Mapping) and _FORMER_KEY in evaluation:
        found["evaluation"] = {LOW_FIDELITY_KEY if k == _FORMER_KEY else k: v for k, v in evaluation.items()}
    return cast(ConfigRecord, found)


def present_head(head: Mapping[str, Any]) -> HeadRecord:
    """What a study is recorded under, in the present names."""
    return cast(HeadRecord, {**head, "config": present_config(head["config"])})


def former_name(name: str) -> str | None:
    """What a study of that name was called; None where nothing was renamed.

    >>> former_name("study-low-fidelity"), former_name("study")
    ('study-cheap', None)
    """
    if not name.endswith(LOW_FIDELITY_SUFFIX):
        return None
    return name.removesuffix(LOW_FIDELITY_SUFFIX) + _FORMER_SUFFIX
