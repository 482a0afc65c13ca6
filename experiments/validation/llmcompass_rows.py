"""The recorded rows of LLMCompass' repository as cases that a system of cores predicts."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from codesign.core.errors import UserError, unknown_name
from codesign.timing.cores.collectives import all_reduce_s
from codesign.timing.cores.matmul import Product
from codesign.timing.cores.streams import Stream, StreamKind
from codesign.timing.cores.system import CoreSystem
from experiments.models.gpt_layer import GptLayer, layer_parts_s
from experiments.models.launches import product_s, stream_s
from experiments.validation.common import integer, read_rows

MACHINES = {"A100": ("a100", 1), "MI210": ("mi210", 1), "A100x4": ("a100", 4), "H100": ("h100", 1), "H200": ("h200", 1)}
"""System and number of chips by the recorded name."""

WIDE = frozenset({("softmax", "MI210"), ("layernorm", "MI210")})
"""Rows in 32 bit, as the set's description says."""

LAYERS = {
    "prefill": GptLayer(width=12288, heads=96, batch=8, tokens=2048, context=2048, chips=4),
    "decode": GptLayer(width=12288, heads=96, batch=8, tokens=1, context=3072, chips=4),
}
"""One layer of GPT-3 on four A100, as the set's description says."""

_COLUMNS = ("op", "device", "sweep", "M", "N", "K", "bytes", "measured_s", "llmcompass_roofline_s", "llmcompass_sim_s")
_LAYER_COLUMNS = ("phase", "part", "measured_s", "llmcompass_roofline_s", "llmcompass_sim_s")


@final
@dataclass(frozen=True)
class Case:
    """One recorded row.

    Args:
        name: Operator, machine, sizes.
        operator: For the summary; parts of layers are ``layer``.
        device: As recorded.
        sweep: Which size it belongs to a sweep of, or the phase.
        system: Name of the system table.
        measured_s: As recorded.
        roofline_s: LLMCompass' roofline; None where not recorded.
        simulated_s: LLMCompass' simulation; None where not recorded.
        predict: Seconds on a system.
    """

    name: str
    operator: str
    device: str
    sweep: str
    system: str
    measured_s: float
    roofline_s: float | None
    simulated_s: float | None
    predict: Callable[[CoreSystem], float]


def read_cases(folder: Path) -> list[Case]:
    """Every row of `latency.csv` and `transformer_layer.csv`, of those of the two that are there.

    Raises:
        UserError: Neither file is there, a column is missing, or a row names an unknown operator, machine or part.
    """
    latency, layers = folder / "latency.csv", folder / "transformer_layer.csv"
    if not latency.is_file() and not layers.is_file():
        raise UserError("expected latency.csv or transformer_layer.csv", where=str(folder))
    cases: list[Case] = []
    if latency.is_file():
        cases += [_operator_case(row, f"{latency}: row {i}") for i, row in enumerate(read_rows(latency, _COLUMNS), 2)]
    if layers.is_file():
        cases += [_layer_case(row, f"{layers}: row {i}") for i, row in enumerate(read_rows(layers, _LAYER_COLUMNS), 2)]
    return cases


def _operator_case(row: dict[str, str], where: str) -> Case:
    operator, device = row["op"], row["device"]
    if device not in MACHINES:
        raise unknown_name("device", device, MACHINES, where=where)
    system, chips = MACHINES[device]
    predict, sizes = _prediction(row, operator, device, chips, where)
    return Case(
        f"{operator} {device} {sizes}",
        operator,
        device,
        row["sweep"],
        system,
        _seconds(row, "measured_s", where),
        _optional(row, "llmcompass_roofline_s", where),
        _optional(row, "llmcompass_sim_s", where),
        predict,
    )


def _prediction(
    row: dict[str, str], operator: str, device: str, chips: int, where: str
) -> tuple[Callable[[CoreSystem], float], str]:
    if operator == "allreduce":
        size = integer(row, "bytes", where)
        return (lambda system: all_reduce_s(system, size, chips)), str(size)
    m = integer(row, "M", where)
    if operator == "matmul":
        n, k = integer(row, "N", where), integer(row, "K", where)
        return (lambda system: product_s(system, Product(m, n, k))), f"{m}x{n}x{k}"
    kinds = {kind.value: kind for kind in StreamKind if kind is not StreamKind.COPY}
    if operator not in kinds:
        raise unknown_name("operator", operator, ("matmul", "allreduce", *kinds), where=where)
    width = 4.0 if (operator, device) in WIDE else 2.0
    length = 1 if operator == "gelu" else integer(row, "N", where)
    stream = Stream(kinds[operator], m, length, width, width)
    return (lambda system: stream_s(system, stream)), f"{m}" if operator == "gelu" else f"{m}x{length}"


def _layer_case(row: dict[str, str], where: str) -> Case:
    phase, part = row["phase"], row["part"]
    if phase not in LAYERS:
        raise unknown_name("phase", phase, LAYERS, where=where)

    def predict(system: CoreSystem) -> float:
        parts = layer_parts_s(system, LAYERS[phase])
        if part not in parts:
            raise unknown_name("part", part, parts, where=where)
        return parts[part]

    return Case(
        f"layer A100x4 {phase} {part}",
        "layer",
        "A100x4",
        phase,
        "a100",
        _seconds(row, "measured_s", where),
        _optional(row, "llmcompass_roofline_s", where),
        _optional(row, "llmcompass_sim_s", where),
        predict,
    )


def _seconds(row: dict[str, str], column: str, where: str) -> float:
    value = _optional(row, column, where)
    if value is None or not value > 0:
        raise UserError(f"column `{column}` must hold seconds > 0, got {row[column]!r}", where=where)
    return value


def _optional(row: dict[str, str], column: str, where: str) -> float | None:
    if not (row[column] or "").strip():
        return None
    try:
        return float(row[column])
    except ValueError:
        raise UserError(f"column `{column}` must hold numbers, got {row[column]!r}", where=where) from None
