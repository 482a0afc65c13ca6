"""ZigZag's mapping files, whose spatial unrolling becomes constraints."""

import logging
import re
from typing import Any

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import Fields, describe
from codesign.mapping.constraints import Constraints, LevelConstraints
from codesign.workloads.computation import Computation, Role

_log = logging.getLogger(__name__)

_MEMORY_OPERANDS = {Role.INPUT: "I1", Role.WEIGHT: "I2", Role.OUTPUT: "O"}


def constraints_from_zigzag(
    value: Any, computation: Computation, architecture: Architecture, where: str = "mapping"
) -> Constraints:
    """The spatial unrolling of the entry for this layer (its name, else `default`) as constraints.

    Args:
        value: The entries of the file.
        computation: Whose dimensions are unrolled.
        architecture: D1 is laid along X, D2 along Y of the fan-outs that have children there.
        where: The file, for messages.

    Raises:
        UserError: An entry is malformed, or a factor does not divide its bound.
    """
    return Constraints(_place(unrolling_from_zigzag(value, computation, where), architecture, where))


def unrolling_from_zigzag(
    value: Any, computation: Computation, where: str = "mapping", *, fractional: bool = False
) -> dict[str, list[tuple[str, int]]]:
    """The loops laid along each array dimension: (dimension, factor) by array dimension.

    Args:
        value: The entries of the file; the one for this layer (its name, else `default`) is taken.
        computation: Whose dimensions are unrolled.
        where: The file, for messages.
        fractional: Whether factors that do not divide their bounds are let through.

    Raises:
        UserError: An entry is malformed, or a factor does not divide its bound.
    """
    fields = Fields(_entry(value, computation, where), f"{where}: mapping")
    fields.has("name")
    if fields.has("temporal_ordering"):
        raise UserError(
            "`temporal_ordering` cannot be expressed: it orders loops without saying which level keeps what",
            where=where,
        )
    if fields.has("spatial_mapping_hint"):
        _log.warning("%s: spatial_mapping_hint is left out", where)
    fields.has("core_allocation")
    links = fields.child("memory_operand_links")
    for operand, memory in links.rest().items():
        tensor = computation.tensor(operand)
        if _MEMORY_OPERANDS[tensor.role] != memory:
            raise UserError(
                f"operand {operand!r} must be linked to {_MEMORY_OPERANDS[tensor.role]}, got {describe(memory)}",
                where=where,
            )
    spatial = fields.child("spatial_mapping")
    unrolled = {d: _unrolling(item, computation, spatial.where, fractional) for d, item in spatial.rest().items()}
    fields.finish()
    return unrolled


def _entry(value: Any, computation: Computation, where: str) -> Any:
    entries = {str(item.get("name")): item for item in value if isinstance(item, dict)}
    for name in (computation.name, "default"):
        if name in entries:
            return entries[name]
    raise unknown_name("layer", computation.name or "default", entries, where=where)


def _unrolling(value: Any, computation: Computation, where: str, fractional: bool) -> list[tuple[str, int]]:
    """(dimension, factor) of ``[OX, 14]``, ``["OX, 14", "FY, 3"]``."""
    items = value if isinstance(value, list) and all(isinstance(v, (str, list)) for v in value) else [value]
    if isinstance(value, list) and len(value) == 2 and isinstance(value[1], int):
        items = [value]
    result = []
    for item in items:
        parts = [str(p) for p in item] if isinstance(item, list) else re.split(r"\s*,\s*", str(item).strip())
        if len(parts) != 2 or not parts[1].isdigit():
            raise UserError(f"an unrolling must be like 'OX, 14', got {describe(item)}", where=where)
        dim, factor = parts[0], int(parts[1])
        if dim not in computation.sizes:
            raise unknown_name("dimension", dim, computation.dims, where=where)
        if factor < 1 or (computation.sizes[dim] % factor and not fractional):
            raise UserError(
                f"unrolling of {dim!r} must divide its bound {computation.sizes[dim]}, got {factor}",
                where=where,
                hint="fractional unrolling cannot be expressed",
            )
        result.append((dim, factor))
    return result


def _place(
    unrolled: dict[str, list[tuple[str, int]]], architecture: Architecture, where: str
) -> tuple[LevelConstraints, ...]:
    axes = dict(zip(unrolled, ("x", "y"), strict=False))
    if len(unrolled) > 2:
        raise UserError(f"an array of {len(unrolled)} dimensions cannot be expressed; X and Y are all", where=where)
    by_level: dict[str, list[tuple[str, int]]] = {}
    along_x: set[str] = set()
    for name, loops in unrolled.items():
        axis = axes[name]
        levels = [v for v in architecture.levels if getattr(v.fanout, axis) > 1]
        if len(levels) != 1 and loops:
            raise UserError(
                f"{len(levels)} fan-outs have children along {axis.upper()}: which one {name} is cannot be told",
                where=where,
            )
        for dim, factor in loops:
            if dim in dict(by_level.setdefault(levels[0].name, [])):
                raise UserError(f"dimension {dim!r} is unrolled along both axes", where=where)
            by_level[levels[0].name].append((dim, factor))
            if axis == "x":
                along_x.add(dim)
    entries = []
    for name, loops in by_level.items():
        x = frozenset(dim for dim, _ in loops if dim in along_x)
        entries.append(LevelConstraints(name, spatial=tuple(loops), along_x=x))
    return tuple(entries)
