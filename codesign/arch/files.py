"""The project's own architecture file, read and written (docs/reference/files.md has a full example).

```yaml
architecture:
  name: edge
  clock_hz: 1e9
  levels:                     # outermost first
  - {name: DRAM, kind: dram, word_bits: 64, bandwidth_bytes_per_cycle: 16, ports: shared, energy: {read_pj: 512, fill_pj: 512}}
  - {name: Buffer, capacity_bytes: 131072, word_bits: 64, energy: {...}, fanout: {x: 16, y: 16}}
  mac: {bits: 8, energy_pj: 0.25}
```
"""

from pathlib import Path
from typing import Any

from codesign.arch.architecture import (
    AccessEnergy,
    Architecture,
    Arithmetic,
    Fanout,
    LevelKind,
    Links,
    Ports,
    StorageLevel,
)
from codesign.arch.technology_files import technology_beside
from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import Fields
from codesign.core.json_types import JsonObject

_ROLES = ("input", "weight", "output")


def architecture_from_json(value: Any, where: str = "architecture", *, folder: Path | None = None) -> Architecture:
    """The architecture of what stands under `architecture:`.

    Args:
        value: Keys and values as read from the file.
        where: The file, for messages.
        folder: Of the file: a relative path of a technology counts from there; None leaves it as it is.

    Raises:
        UserError: A key is unknown or missing, or a value is of the wrong kind or out of range.
    """
    fields = Fields(value, f"{where}: architecture")
    name = fields.text("name", "architecture")
    entries = fields.items("levels")
    levels = tuple(_read_level(item, f"{where}: level {i + 1}", where) for i, item in enumerate(entries))
    technology = fields.text("technology", None)
    if technology is not None and folder is not None:
        technology = technology_beside(technology, folder)
    architecture = {
        "name": name,
        "levels": levels,
        "mac": _read_mac(fields.child("mac")),
        "clock_hz": fields.number("clock_hz", 1e9, above=0),
        "technology": technology,
        "extra_area_mm2": fields.number("extra_area_mm2", 0.0, least=0),
        "extra_leakage_mw": fields.number("extra_leakage_mw", 0.0, least=0),
    }
    fields.finish()
    try:
        return Architecture(**architecture)
    except UserError as error:
        raise error.within(where) from None


def _read_level(value: Any, place: str, where: str) -> StorageLevel:
    fields = Fields(value, place)
    name = fields.text("name")
    fields.where = f"{where}: level {name!r}"
    kind = _choice(fields, "kind", "sram", LevelKind)
    word_bits = fields.integer("word_bits", 16, least=1)
    keep = fields.names("keep", None)
    level = {
        "name": name,
        "kind": kind,
        "capacity_bytes": _capacity(fields, word_bits),
        "word_bits": word_bits,
        "one_element_per_word": fields.flag("one_element_per_word", False),
        "keep": frozenset(_ROLES if keep is None else keep),
        "read_bandwidth_words_per_cycle": _bandwidth(fields, "read_", word_bits),
        "write_bandwidth_words_per_cycle": _bandwidth(fields, "write_", word_bits),
        "ports": _choice(fields, "ports", "separate", Ports),
        "banks": fields.integer("banks", 1, least=1),
        "energy": _read_energy(fields.child("energy")) if fields.has("energy") else None,
        "area_mm2": fields.number("area_mm2", None, least=0),
        "leakage_mw": fields.number("leakage_mw", None, least=0),
        "fanout": _read_fanout(fields.child("fanout")),
    }
    fields.finish()
    try:
        return StorageLevel(**level)
    except UserError as error:
        raise error.within(where) from None


def _capacity(fields: Fields, word_bits: int) -> float | None:
    key = fields.first_of("capacity_bytes", "capacity_words")
    capacity: float | None = fields.number(key, None, above=0)
    if capacity is not None and key == "capacity_words":
        return capacity * word_bits / 8
    return capacity


def _bandwidth(fields: Fields, direction: str, word_bits: int) -> float | None:
    """Words per cycle of one direction, given for it or for both, in words or bytes."""
    own = (f"{direction}bandwidth_words_per_cycle", f"{direction}bandwidth_bytes_per_cycle")
    both = ("bandwidth_words_per_cycle", "bandwidth_bytes_per_cycle")
    key = fields.first_of(*own, *both)
    value: float | None = fields.number(key, None, above=0)
    if value is not None and key.endswith("bytes_per_cycle"):
        return value * 8 / word_bits
    return value


def _read_energy(fields: Fields) -> AccessEnergy:
    read = fields.number("read_pj", least=0)
    fill = fields.number("fill_pj", least=0)
    update = fields.number("update_pj", fill, least=0)
    fields.finish()
    return AccessEnergy(read, fill, update)


def _read_fanout(fields: Fields) -> Fanout:
    fanout = Fanout(
        x=fields.integer("x", 1, least=1),
        y=fields.integer("y", 1, least=1),
        links=_choice(fields, "links", "multicast", Links),
        hop_pj_per_bit=fields.number("hop_pj_per_bit", 0.0, least=0),
    )
    fields.finish()
    return fanout


def _read_mac(fields: Fields) -> Arithmetic:
    mac = Arithmetic(
        bits=fields.integer("bits", 8, least=1),
        energy_pj=fields.number("energy_pj", None, least=0),
        area_mm2=fields.number("area_mm2", None, least=0),
        leakage_mw=fields.number("leakage_mw", None, least=0),
        name=fields.text("name", "MAC"),
    )
    fields.finish()
    return mac


def _choice(fields: Fields, key: str, default: str, options: type[LevelKind] | type[Links] | type[Ports]) -> Any:
    name = fields.text(key, default)
    try:
        return options(name)
    except ValueError:
        raise unknown_name(f"`{key}`", name, [o.value for o in options], where=fields.where) from None


def architecture_to_json(architecture: Architecture) -> JsonObject:
    """What stands under `architecture:`; `architecture_from_json` gives the same architecture back."""
    value: dict[str, Any] = {"name": architecture.name, "clock_hz": architecture.clock_hz}
    if architecture.technology is not None:
        value["technology"] = architecture.technology
    for name in ("extra_area_mm2", "extra_leakage_mw"):
        if getattr(architecture, name):
            value[name] = getattr(architecture, name)
    value["levels"] = [_write_level(level) for level in architecture.levels]
    mac = architecture.mac
    value["mac"] = {"name": mac.name, "bits": mac.bits, **_given(mac, "energy_pj", "area_mm2", "leakage_mw")}
    return value


def _write_level(level: StorageLevel) -> dict[str, Any]:
    value: dict[str, Any] = {"name": level.name, "kind": level.kind.value, "word_bits": level.word_bits}
    if level.one_element_per_word:
        value["one_element_per_word"] = True
    value |= _given(level, "capacity_bytes", "read_bandwidth_words_per_cycle", "write_bandwidth_words_per_cycle")
    if level.ports is not Ports.SEPARATE:
        value["ports"] = level.ports.value
    value["keep"] = [r for r in _ROLES if r in level.keep] + sorted(level.keep - set(_ROLES))
    if level.banks != 1:
        value["banks"] = level.banks
    if level.energy is not None:
        value["energy"] = _given(level.energy, "read_pj", "fill_pj", "update_pj")
    value |= _given(level, "area_mm2", "leakage_mw")
    fanout = level.fanout
    value["fanout"] = {"x": fanout.x, "y": fanout.y, "links": fanout.links.value}
    if fanout.hop_pj_per_bit:
        value["fanout"]["hop_pj_per_bit"] = fanout.hop_pj_per_bit
    return value


def _given(source: object, *names: str) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names if getattr(source, name) is not None}
