"""Energy and area reference tables (`ERT:`, `ART:`), as Accelergy writes and Timeloop reads them."""

import logging
import re
from dataclasses import replace
from typing import Any

from codesign.arch.architecture import AccessEnergy, Architecture
from codesign.core.errors import UserError
from codesign.core.fields import Fields

_log = logging.getLogger(__name__)

_READ = ("random_read", "read")
_FILL = ("random_fill", "write")
_UPDATE = ("random_update", "random_fill", "write")
_COMPUTE = ("mac_random", "compute", "mac", "multiply", "multiplier", "op", "read")


def apply_energy_table(architecture: Architecture, value: Any, where: str = "ERT") -> Architecture:
    """The architecture with the energies of an energy reference table (`ERT:`).

    A table belongs to the component that the last part of its name names, ranges aside. Of an action listed several
    times (with arguments) the largest energy counts. Reads take `random_read`, else `read`; fills `random_fill`,
    else `write`; updates `random_update`, else `random_fill`, else `write`.

    Raises:
        UserError: The table is malformed or lacks a component.
    """
    tables = _tables(value, where)
    levels = []
    for level in architecture.levels:
        actions = tables.pop(level.name, None)
        if actions is None:
            if level.energy is None:
                raise UserError(f"no table for level {level.name!r}", where=where, hint=f"has {', '.join(tables)}")
            levels.append(level)
            continue
        place = f"{where}: table of {level.name!r}"
        energy = AccessEnergy(*(_action(actions, names, place) for names in (_READ, _FILL, _UPDATE)))
        levels.append(replace(level, energy=energy))
    mac = architecture.mac
    actions = tables.pop(mac.name, None)
    if actions is not None:
        mac = replace(mac, energy_pj=_action(actions, _COMPUTE, f"{where}: table of {mac.name!r}"))
    elif mac.energy_pj is None:
        raise UserError(f"no table for the arithmetic {mac.name!r}", where=where, hint=f"has {', '.join(tables)}")
    for name, left in tables.items():
        if any(left.values()):
            _log.warning("%s: table of %r belongs to no storage level and is left out", where, name)
    return replace(architecture, levels=tuple(levels), mac=mac)


def _tables(value: Any, where: str) -> dict[str, dict[str, float]]:
    fields = Fields(value, f"{where}: ERT")
    fields.raw("version", None)
    tables: dict[str, dict[str, float]] = {}
    for item in fields.items("tables"):
        table = Fields(item, f"{where}: ERT table")
        name = _component(table.text("name"))
        table.where = f"{where}: table of {name!r}"
        actions: dict[str, float] = {}
        for entry in table.items("actions"):
            action = Fields(entry, table.where)
            action_name = action.text("name")
            action.raw("arguments", None)
            energy = action.number("energy", least=0)
            action.finish()
            actions[action_name] = max(energy, actions.get(action_name, 0.0))
        table.finish()
        if name in tables:
            raise UserError(f"two tables for {name!r}", where=where)
        if actions.get("leak"):
            _log.warning("%s: the energy of `leak` is left out", table.where)
        tables[name] = actions
    fields.finish()
    return tables


def _component(name: str) -> str:
    """`buffer` of `system.chip.buffer[1..16]`."""
    return re.sub(r"\[[^\]]*\]$", "", name).rsplit(".", 1)[-1]


def apply_area_table(architecture: Architecture, value: Any, where: str = "ART") -> Architecture:
    """The architecture with the areas of an area reference table (`ART:`), which are of one instance in square micrometres.

    Raises:
        UserError: The table is malformed.
    """
    fields = Fields(value, f"{where}: ART")
    fields.raw("version", None)
    areas_mm2 = {}
    for item in fields.items("tables"):
        table = Fields(item, f"{where}: ART table")
        areas_mm2[_component(table.text("name"))] = table.number("area", least=0) * 1e-6
        table.finish()
    fields.finish()
    levels = tuple(replace(v, area_mm2=areas_mm2.pop(v.name, v.area_mm2)) for v in architecture.levels)
    mac = replace(architecture.mac, area_mm2=areas_mm2.pop(architecture.mac.name, architecture.mac.area_mm2))
    for name, area in areas_mm2.items():
        if area:
            _log.warning("%s: the area of %r belongs to no storage level and is left out", where, name)
    return replace(architecture, levels=levels, mac=mac)


def _action(actions: dict[str, float], names: tuple[str, ...], where: str) -> float:
    for name in names:
        if name in actions:
            return actions[name]
    raise UserError(f"needs one of the actions {', '.join(names)}, has {', '.join(actions) or 'none'}", where=where)
