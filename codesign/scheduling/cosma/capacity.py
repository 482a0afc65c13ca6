"""Scratchpad sizes as people write them: bytes, KiB, and the budgets M_R, M_H, M_P of the paper."""

import re

from codesign.core.errors import UserError
from codesign.scheduling.cosma.graph import OperatorGraph
from codesign.scheduling.cosma.peak import lowest_peak_order

_UNITS = {
    "": 1,
    "B": 1,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "KIB": 1024,
    "MIB": 1024**2,
    "GIB": 1024**3,
}
BUDGETS = ("M_R", "M_H", "M_P")
"""Largest working set; mean of it and the minimum peak; minimum peak over all orders."""


def parse_bytes(text: str) -> int:
    """A size such as ``756480``, ``756480B``, ``512KiB`` or ``1.5MiB`` in bytes.

    >>> parse_bytes("512KiB")
    524288

    Raises:
        UserError: The text is no size, or not a positive whole number of bytes.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    if match is None or match[2].upper() not in _UNITS:
        raise UserError(
            f"capacity must be a number of bytes, got {text!r}",
            hint=f"write 756480, 512KiB, 8MiB, or one of {', '.join(BUDGETS)}",
        )
    size = float(match[1]) * _UNITS[match[2].upper()] if "." in match[1] else int(match[1]) * _UNITS[match[2].upper()]
    if size != int(size) or size < 1:
        raise UserError(f"capacity must be a whole number of bytes, at least 1, got {text!r}")
    return int(size)


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
