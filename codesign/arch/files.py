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
    StorageLevel,
)
from codesign.arch.memory_device import DramUse, PagePolicy
from codesign.arch.mesh import MeshLinks
from codesign.arch.sparsity import NO_SPARSITY, ZeroKind
from codesign.arch.sparsity_files import sparsity_from_json, sparsity_to_json, zero_kind
from codesign.arch.technology_files import technology_beside
from codesign.core.errors import UserError
from codesign.core.fields import Fields
from codesign.core.json_types import JsonObject
from codesign.core.specs import changed

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
    mac = _read_mac(fields.child("mac"))
    try:
        return fields.record(Architecture, name=name, levels=levels, mac=mac, technology=technology)
    except UserError as error:
        raise error.within(where) from None


def _read_level(value: Any, place: str, where: str) -> StorageLevel:
    fields = Fields(value, place)
    name = fields.text("name")
    fields.where = f"{where}: level {name!r}"
    word_bits = fields.integer("word_bits", 16, least=1)
    keep = fields.names("keep", None)
    if isinstance(children := fields.raw("fanout", None), int | float):
        raise UserError(
            f"`fanout` must say how many children stand along x and y, got {children}",
            where=fields.where,
            hint=f"e.g. fanout: {{x: {children:g}}} for a row, or {{x: 4, y: 4}}",
        )
    try:
        fanout, dram = _read_fanout(fields.child("fanout")), _read_dram(fields)
    except UserError as error:
        raise error.within(fields.where) from None
    level = {
        "capacity_bytes": _capacity(fields, word_bits),
        "keep": frozenset(_ROLES if keep is None else keep),
        "read_bandwidth_words_per_cycle": _bandwidth(fields, "read_", word_bits),
        "write_bandwidth_words_per_cycle": _bandwidth(fields, "write_", word_bits),
        "energy": _read_energy(fields.child("energy")) if fields.has("energy") else None,
        "sparsity": sparsity_from_json(fields.child("sparsity")) if fields.has("sparsity") else NO_SPARSITY,
    }
    try:
        return fields.record(StorageLevel, name=name, fanout=fanout, dram=dram, **level)
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
    fill = fields.number("fill_pj", least=0)
    return fields.record(AccessEnergy, 0, update_pj=fields.number("update_pj", fill, least=0))


def _read_fanout(fields: Fields) -> Fanout:
    mesh = None
    if fields.has("mesh"):
        mesh = _read_mesh(fields.child("mesh"), fields.integer("x", 1, least=1), fields.integer("y", 1, least=1))
    return fields.record(Fanout, 0, mesh=mesh)


def _read_mesh(fields: Fields, x: int, y: int) -> MeshLinks:
    parents = fields.raw("parents", [0])
    if not isinstance(parents, list) or not all(isinstance(n, int) and not isinstance(n, bool) for n in parents):
        raise UserError(f"`parents` must be a list of nodes, got {parents!r}", where=fields.where)
    width, height = fields.integer("width", x), fields.integer("height", y)
    return fields.record(MeshLinks, 0, width=width, height=height, parents=tuple(parents))


def _read_dram(fields: Fields) -> DramUse | None:
    """`device`, `page_policy`, `channels` and `layout` of a DRAM level; None without `device`."""
    if not fields.has("device"):
        for key in ("page_policy", "channels", "layout"):
            if fields.has(key):
                raise UserError(f"`{key}` needs `device`", where=fields.where, hint="name the DRAM device")
        return None
    layout = fields.raw("layout", {})
    if isinstance(layout, str):
        layout = dict.fromkeys(_ROLES, layout)
    if not isinstance(layout, dict) or not all(isinstance(v, str) for v in layout.values()):
        raise UserError(
            f"`layout` must be a layout, or one for each role or tensor, got {layout!r}",
            where=fields.where,
            hint='row-major, tiled, or digits of the axes such as "0, 2, 3, 1"',
        )
    return DramUse(
        device=fields.text("device"),
        page_policy=fields.choice("page_policy", PagePolicy.OPEN) if fields.has("page_policy") else None,
        channels=fields.integer("channels", 1),
        layouts=tuple((str(key), text) for key, text in layout.items()),
    )


def _read_mac(fields: Fields) -> Arithmetic:
    zeros = fields.text("zeros", None)
    return fields.record(
        Arithmetic,
        0,
        by_width=tuple(_read_pair(item, fields.where) for item in fields.items("by_width", [])),
        zeros=None if zeros is None else zero_kind(zeros, (ZeroKind.GATE, ZeroKind.SKIP), f"{fields.where}, `zeros`"),
    )


def _read_pair(value: Any, where: str) -> tuple[int, int, float]:
    """``{bits: [8, 4], energy_pj: 0.15}``."""
    fields = Fields(value, f"{where}, `by_width`")
    widths = fields.items("bits")
    if len(widths) != 2 or not all(isinstance(w, int) and not isinstance(w, bool) for w in widths):
        raise UserError(f"`bits` must be two widths, got {widths}", where=fields.where)
    pair = max(widths), min(widths), float(fields.number("energy_pj", least=0))
    fields.finish()
    return pair


def architecture_to_json(architecture: Architecture) -> JsonObject:
    """What stands under `architecture:`; `architecture_from_json` gives the same architecture back."""
    mac = architecture.mac
    arithmetic: JsonObject = {"name": mac.name, "bits": mac.bits, **changed(mac, "name", "bits", "by_width")}
    if mac.by_width:
        arithmetic["by_width"] = [{"bits": [a, b], "energy_pj": energy} for a, b, energy in mac.by_width]
    return {
        "name": architecture.name,
        "clock_hz": architecture.clock_hz,
        **changed(architecture, "name", "clock_hz", "levels", "mac"),
        "levels": [_write_level(level) for level in architecture.levels],
        "mac": arithmetic,
    }


def _write_level(level: StorageLevel) -> JsonObject:
    value: JsonObject = {"name": level.name, "kind": level.kind.value, "word_bits": level.word_bits}
    value |= changed(level, *value, "keep", "energy", "fanout", "dram", "sparsity")
    value["keep"] = [r for r in _ROLES if r in level.keep] + sorted(level.keep - set(_ROLES))
    if level.energy is not None:
        value["energy"] = dict(vars(level.energy))
    fanout = level.fanout
    below: JsonObject = {"x": fanout.x, "y": fanout.y, "links": fanout.links.value}
    below |= changed(fanout, *below, "mesh")
    value["fanout"] = below
    if level.sparsity != NO_SPARSITY:
        value["sparsity"] = sparsity_to_json(level.sparsity)
    if fanout.mesh is not None:
        below["mesh"] = vars(fanout.mesh) | {"parents": list(fanout.mesh.parents)}
    if level.dram is not None:
        value["device"], value["channels"] = level.dram.device, level.dram.channels
        if level.dram.page_policy is not None:
            value["page_policy"] = level.dram.page_policy.value
        if level.dram.layouts:
            value["layout"] = dict(level.dram.layouts)
    return value
