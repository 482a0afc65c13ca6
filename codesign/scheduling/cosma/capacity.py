"""Scratchpad sizes as people write them: bytes, KiB, and the budgets M_R, M_H, M_P of the paper."""

from codesign.core.errors import UserError
from codesign.core.quantities import parse_size
from codesign.scheduling.cosma.graph import OperatorGraph
from codesign.scheduling.cosma.peak import lowest_peak_order

BUDGETS = ("M_R", "M_H", "M_P")
"""Largest working set; mean of it and the minimum peak; minimum peak over all orders."""


def parse_bytes(text: str) -> int:
    """A size such as ``756480``, ``756480B``, ``512KiB`` or ``1.5MiB`` in bytes.

    >>> parse_bytes("512KiB")
    524288

    Raises:
        UserError: The text is no size, or not a positive whole number of bytes.
    """
    try:
        size = parse_size(text, "capacity")
    except UserError as error:
        raise UserError(error.message, hint=error.hint or f"or one of {', '.join(BUDGETS)}") from None
    if size < 1:
        raise UserError(f"`capacity` must be a whole number of bytes, at least 1, got {text!r}")
    return size


def resolve_capacity(text: str, graph: OperatorGraph) -> int:
    """The bytes that `text` means for `graph`: a size, or M_R, M_H or M_P (any case, the underscore may be left out).

    M_H is rounded down; M_P is the best peak found where it is not proven.
    """
    name = text.strip().upper().replace("_", "")
    if name not in ("MR", "MH", "MP"):
        return parse_bytes(text)
    lowest = graph.minimum_bytes
    if name == "MR":
        return lowest
    peak = lowest_peak_order(graph.index).peak_bytes
    return peak if name == "MP" else (lowest + peak) // 2
