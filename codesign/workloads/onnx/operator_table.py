"""What every ONNX operator is, one row each in `operators.csv`."""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from codesign.workloads.builder import OPERATIONS_PER_ELEMENT
from codesign.workloads.network import OperatorKind


@dataclass(frozen=True)
class OperatorEntry:
    """A row of the table.

    Args:
        rule: Name of the rule that makes it part of a network (`operators.RULES`).
        function: Our name of what it computes.
        parameters: Inputs that are weights even in a graph that ships without them.
    """

    rule: str
    function: str
    parameters: tuple[int, ...] = ()


_ELEMENT_RULES = ("activation", "elementwise", "dequantize")


@cache
def _table() -> dict[str, OperatorEntry]:
    with Path(__file__).with_name("operators.csv").open(newline="", encoding="utf-8") as file:
        return {
            row["operator"]: OperatorEntry(
                row["rule"], row["function"] or row["operator"].lower(), tuple(map(int, row["parameters"].split()))
            )
            for row in csv.DictReader(file)
        }


def operator_entry(op_type: str) -> OperatorEntry:
    """The row of an operator; of one that the table lacks, the rule of operators that are not understood.

    >>> operator_entry("QuickGelu").function, operator_entry("PRelu").parameters
    ('swish', (1,))
    """
    return _table().get(op_type) or OperatorEntry("opaque", op_type)


def is_element_function(op_type: str) -> bool:
    """Whether an operator computes each element of its result from the same element of its operands."""
    return operator_entry(op_type).rule in _ELEMENT_RULES


def element_function(node: Any) -> tuple[OperatorKind, str, int]:
    """Kind, function and operations for each element of an operator that works element by element on one tensor."""
    entry = operator_entry(node.op_type)
    if entry.rule == "elementwise":
        return OperatorKind.ELEMENTWISE, entry.function, 1
    return OperatorKind.ACTIVATION, entry.function, OPERATIONS_PER_ELEMENT.get(entry.function, 1)
