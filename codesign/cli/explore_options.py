"""The options of `codesign explore`: the fields of a study's file, None where nothing was given."""

from pathlib import Path
from typing import Annotated, Any

from codesign.cli.inputs import parse_dims
from codesign.cli.options import Fields, Flag
from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from codesign.core.quantities import parse_size
from codesign.evaluation.specification import ChoicesSpec, JudgeSpec, WorkloadSpec
from codesign.study.specification import FidelitySpec, SearchSpec, WorkersSpec


def _words(values: list[str]) -> list[str] | None:
    return [word for value in values for word in value.split()] or None


def _listed(text: str) -> list[str] | None:
    return text.replace(",", " ").split() or None


def _numbers(text: str) -> list[float] | None:
    try:
        return [float(part) for part in _listed(text) or ()]
    except ValueError:
        raise UserError(f"--weights must be numbers separated by spaces, got {text!r}") from None


def _given(values: list[str]) -> list[str] | None:
    return values or None


def _part(kind: type[Any], panel: str | None = None, **flags: Flag) -> Fields:
    return Fields(kind, panel, flags, sparse=True)


_FILE = Flag(kind=Path, read=str)
_SPLIT = Flag(read=_words)
_MANY = Flag(read=_given)


Workload = Annotated[
    JsonObject,
    _part(
        WorkloadSpec,
        "Workload",
        networks=Flag("network", read=_given),
        serving=Flag("workload", Path, str),
        weights=Flag(kind=str, read=_numbers),
        dims=Flag(kind=str, read=parse_dims),
    ),
]
Search = Annotated[
    JsonObject,
    _part(SearchSpec, objectives=Flag(kind=str, read=_listed), constraints=Flag("constraint", read=_given)),
]
Choices = Annotated[
    JsonObject,
    _part(ChoicesSpec, "Precision and zeros", precision=_SPLIT, zeros=_SPLIT, zero_support=_SPLIT, accuracy=_FILE),
]
Judge = Annotated[
    JsonObject,
    _part(
        JudgeSpec,
        "Judging a design",
        objective=Flag("map-objective"),
        time_limit_s=Flag("time-limit"),
        vary=_MANY,
        activation_bytes=Flag("activation-buffer", str, lambda text: parse_size(text, "--activation-buffer")),
    ),
]
Fidelity = Annotated[
    JsonObject,
    _part(
        FidelitySpec,
        "Low-fidelity evaluations first",
        fidelities=Flag("fidelity"),
        low_mapper=Flag("low-fidelity-mapper"),
        low_evaluations=Flag("low-fidelity-evaluations"),
        low_cost=Flag("low-fidelity-cost"),
    ),
]
Workers = Annotated[JsonObject, _part(WorkersSpec, "Workers", count=Flag("workers"))]
