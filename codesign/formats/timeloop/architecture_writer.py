"""An architecture as Timeloop's v0.3 files: the flat hierarchy, its energies, its areas."""

import logging
from collections.abc import Mapping as MappingABC

from codesign.arch.architecture import Architecture, LevelKind, Links, Ports, StorageLevel
from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject

_log = logging.getLogger(__name__)


def architecture_to_timeloop(architecture: Architecture, element_bits: MappingABC[str, int]) -> JsonObject:
    """What stands under `architecture:`, inner to outer.

    One Timeloop word is one tensor element: capacities, bandwidths and energies are restated per element.

    Args:
        architecture: What to write; its clock, leakage and wires have no place there (a warning says so).
        element_bits: Width of an element at each level.
    """
    if architecture.mac.zeros is not None or any(v.sparsity.formats or v.sparsity.actions for v in architecture.levels):
        raise UserError(
            "formats, gating and skipping are not written in Timeloop's form",
            where=f"architecture {architecture.name!r}",
            hint="convert --to own",
        )
    _warn_of_losses(architecture)
    x, y = 1, 1
    storage = []
    for level in architecture.levels:
        storage.append(_write_storage(level, element_bits[level.name], (x, y)))
        x, y = x * level.fanout.x, y * level.fanout.y
    mac = {
        "name": architecture.mac.name,
        "instances": x * y,
        "meshX": x,
        "meshY": y,
        "word-bits": architecture.mac.bits,
    }
    return {"arithmetic": mac, "storage": storage[::-1]}


def _write_storage(level: StorageLevel, bits: int, mesh: tuple[int, int]) -> JsonObject:
    entry: JsonObject = {"name": level.name, "instances": mesh[0] * mesh[1], "meshX": mesh[0], "meshY": mesh[1]}
    entry |= {"word-bits": bits, "block-size": 1, "cluster-size": 1}
    if level.kind is LevelKind.DRAM:
        entry["technology"] = "DRAM"
    if level.capacity_bits is not None:
        entry["entries"] = level.capacity_bits // bits
    per_element = bits / level.word_bits
    for key, words in zip(("read_bandwidth", "write_bandwidth"), level.words_per_cycle, strict=True):
        if words is not None:
            entry[key] = words / per_element
    return entry


def energy_table_of(architecture: Architecture, element_bits: MappingABC[str, int]) -> JsonObject | None:
    """What stands under `ERT:`; None while the architecture lacks energies.

    Args:
        architecture: What to write.
        element_bits: Width of an element at each level.
    """
    if architecture.mac.energy_pj is None or any(level.energy is None for level in architecture.levels):
        return None
    tables = []
    for level in architecture.levels:
        if level.energy is None:
            continue
        per_element = element_bits[level.name] / level.word_bits
        energies = {
            "random_read": level.energy.read_pj,
            "random_fill": level.energy.fill_pj,
            "random_update": level.energy.update_pj,
        }
        actions = [{"name": name, "energy": energy * per_element} for name, energy in energies.items()]
        tables.append({"name": f"system.{level.name}", "actions": actions})
    mac_actions = [{"name": "mac_random", "energy": architecture.mac.energy_pj}]
    mac_actions += [{"name": name, "energy": 0.0} for name in ("mac_gated", "mac_skipped")]
    tables.append({"name": f"system.{architecture.mac.name}", "actions": mac_actions})
    return {"version": 0.3, "tables": tables}


def area_table_of(architecture: Architecture) -> JsonObject | None:
    """What stands under `ART:`, square micrometres of one instance; None while no part has a figure."""
    parts = [*((level.name, level.area_mm2) for level in architecture.levels)]
    parts.append((architecture.mac.name, architecture.mac.area_mm2))
    tables = [{"name": f"system.{name}", "area": area * 1e6} for name, area in parts if area is not None]
    return {"version": 0.3, "tables": tables} if tables else None


def _warn_of_losses(architecture: Architecture) -> None:
    where = f"architecture {architecture.name!r}"
    for level in architecture.levels:
        fanout = level.fanout
        if fanout.size > 1 and fanout.links is not Links.MULTICAST:
            _log.warning("%s: links %r below %r become multicast", where, fanout.links.value, level.name)
        if level.ports is Ports.SHARED:
            _log.warning(
                "%s: reads and writes of %r take turns here, Timeloop gives each its bandwidth", where, level.name
            )
        if fanout.hop_pj_per_bit:
            _log.warning("%s: the energy of the wires below %r is left out", where, level.name)
    if architecture.leakage_w or architecture.extra_area_mm2:
        _log.warning("%s: leakage, and area outside levels and MACs, are left out", where)
    if architecture.clock_hz != 1e9:
        _log.warning("%s: the clock of %g Hz is left out", where, architecture.clock_hz)
