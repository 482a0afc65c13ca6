"""Timeloop's architecture files, read into an `Architecture`.

Three forms: v0.3 flat (`arithmetic` and `storage`, inner to outer), v0.3 hierarchical (`subtree` and
`local`, ranges in names), v0.4 (`nodes` tagged ``!Container`` and ``!Component``, fan-out under `spatial`).
All become one chain of components first. The rules are those of docs/reference/files.md.
"""

import logging
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, LevelKind, StorageLevel
from codesign.arch.sparsity import NO_SPARSITY
from codesign.core.errors import UserError, closest, unknown_name
from codesign.core.fields import Fields, as_number, describe
from codesign.formats.documents import TAG
from codesign.formats.timeloop.sparse import metadata_widths, with_sparse_optimizations

_log = logging.getLogger(__name__)

DEFAULT_CLOCK_HZ = 1e9
"""These files have no clock."""


@dataclass(frozen=True)
class Component:
    """One storage or arithmetic component of a Timeloop architecture.

    Args:
        name: Without its range.
        kind: Its `class`, lower case; empty in flat files.
        attributes: Own and inherited ones.
        mesh: Instances along X and Y in the whole machine.
        where: For messages.
        constraints: What v0.4 writes beside it under `constraints`.
        containers: (name, constraints) of the v0.4 containers between the component before and this one.
        estimated: Whether attributes may be for an estimator alone, as in hierarchical files, whose names nobody can list.
        sparse: What v0.4 writes beside it under `sparse_optimizations`.
    """

    name: str
    kind: str
    attributes: dict[str, object]
    mesh: tuple[int, int]
    where: str
    constraints: Any = None
    containers: tuple[tuple[str, Any], ...] = ()
    estimated: bool = False
    sparse: Any = None


def architecture_from_timeloop(value: Any, where: str = "architecture") -> Architecture:
    """The architecture of what stands under `architecture:`.

    Args:
        value: Keys and values as read from the file.
        where: The file, for messages.

    Returns:
        The architecture, levels outermost first. Energies are set only where the file has them; see `codesign.formats.timeloop.energy_table`.

    Raises:
        UserError: Something is malformed or cannot be expressed.
    """
    components = list(components_of(value, where))
    if len(components) < 2:
        raise UserError("needs at least one storage level and the arithmetic", where=where)
    mac = _read_arithmetic(components[-1])
    levels = [_read_storage(component) for component in components[:-1]]
    _check_mesh(components)
    for i, (outer, inner) in enumerate(pairwise(components)):
        fanout = Fanout(inner.mesh[0] // outer.mesh[0], inner.mesh[1] // outer.mesh[1])
        levels[i] = replace(levels[i], fanout=fanout)
    name = value.get("name") or _first_name(value) or Path(where).stem
    try:
        made = Architecture(str(name), tuple(levels), mac, DEFAULT_CLOCK_HZ)
    except UserError as error:
        raise error.within(where) from None
    targets = [{"name": c.name, **c.sparse} for c in components if isinstance(c.sparse, dict)]
    return with_sparse_optimizations(made, targets, where) if targets else made


def components_of(value: Any, where: str) -> Iterator[Component]:
    """The components of any of the three forms, outermost first, the arithmetic last.

    Raises:
        UserError: The hierarchy is not one chain, or is malformed.
    """
    if not isinstance(value, dict):
        raise UserError(f"`architecture` must hold keys and values, got {describe(value)}", where=where)
    if "nodes" in value:
        yield from _from_nodes(value, where)
    elif "subtree" in value or "local" in value:
        yield from _from_subtree(value, {}, 1, where)
    else:
        yield from _from_flat(value, where)


def _from_flat(value: dict[str, object], where: str) -> Iterator[Component]:
    fields = Fields(value, f"{where}: architecture")
    fields.raw("version", None)
    fields.text("name", None)
    storage = fields.items("storage")
    arithmetic = fields.raw("arithmetic")
    fields.finish()
    if isinstance(arithmetic, list):
        if len(arithmetic) != 1:
            raise UserError(f"expected one kind of arithmetic, got {len(arithmetic)}", where=where)
        arithmetic = arithmetic[0]
    for kind, item in [*(("", item) for item in reversed(storage)), ("compute", arithmetic)]:
        attributes = _loose(item, f"{where}: architecture")
        name = str(attributes.pop("name", None) or ("MAC" if kind else ""))
        if not name:
            raise UserError("a storage level has no `name`", where=where)
        place = f"{where}: {name!r}"
        count = _count(attributes, "instances", place)
        yield Component(
            name, str(attributes.pop("class", kind)).lower(), attributes, _mesh(attributes, count, place), place
        )


def _from_subtree(
    value: dict[str, object], inherited: dict[str, object], above: int, where: str
) -> Iterator[Component]:
    fields = Fields(value, where)
    raw_name = fields.text("name", "")
    fields.raw("version", None)
    attributes = inherited | _loose(fields.raw("attributes", {}), f"{where}: {raw_name}")
    local, subtrees = fields.items("local", []), fields.items("subtree", [])
    fields.finish()
    _, count = _split_range(raw_name, where)
    instances = above * count
    for item in local:
        part = Fields(item, f"{where}: component")
        name, times = _split_range(part.text("name"), where)
        part.where = place = f"{where}: {name!r}"
        kind = part.text("class", "").lower()
        part.text("subclass", None)
        own = attributes | _loose(part.raw("attributes", {}), place)
        part.finish()
        total = own.pop("instances", None)
        number = instances * times if total is None else _positive(total, "instances", place)
        yield Component(name, kind, own, _mesh(own, number, place), place, estimated=True)
    if len(subtrees) > 1:
        names = ", ".join(str(s.get("name")) for s in subtrees if isinstance(s, dict))
        raise UserError(
            f"several subtrees side by side ({names}): only one chain of levels can be expressed", where=where
        )
    for subtree in subtrees:
        if not isinstance(subtree, dict):
            raise UserError(f"a subtree must hold keys and values, got {describe(subtree)}", where=where)
        yield from _from_subtree(subtree, attributes, instances, where)


def _from_nodes(value: dict[str, object], where: str) -> Iterator[Component]:
    mesh = (1, 1)
    attributes: dict[str, object] = {}
    waiting: list[tuple[str, Any]] = []
    for node in _flatten(value, where):
        tag = str(node.get(TAG, "Component"))
        fields = Fields({k: v for k, v in node.items() if k != TAG}, f"{where}: node")
        name = fields.text("name")
        fields.where = place = f"{where}: {name!r}"
        spatial = fields.child("spatial")
        mesh = (mesh[0] * spatial.integer("meshX", 1, least=1), mesh[1] * spatial.integer("meshY", 1, least=1))
        spatial.finish()
        own = _loose(fields.raw("attributes", {}), place)
        constraints = fields.raw("constraints", None)
        kind = fields.text("class", "").lower()
        fields.text("subclass", None)
        if fields.flag("enabled", True) is False:
            continue
        if fields.has("required_actions"):
            fields.raw("required_actions")
        sparse = fields.raw("sparse_optimizations", None)
        fields.finish()
        if tag == "Container":
            attributes |= own
            waiting.append((name, constraints))
        elif tag == "Component":
            yield Component(
                name, kind, attributes | own, mesh, place, constraints, tuple(waiting), estimated=True, sparse=sparse
            )
            waiting = []
        else:
            raise unknown_name("node tag", tag, ["Container", "Component", "Hierarchical", "Parallel"], where=place)


def _flatten(value: dict[str, object], where: str) -> Iterator[dict[str, object]]:
    """The nodes of a v0.4 tree in order; parallel branches one after the other."""
    nodes = value["nodes"]
    if not isinstance(nodes, list):
        raise UserError(f"`nodes` must be a list, got {describe(nodes)}", where=where)
    if value.get(TAG) == "Parallel":
        _log.warning("%s: parallel nodes are taken as a chain in the order written", where)
    for node in nodes:
        if not isinstance(node, dict):
            raise UserError(f"a node must hold keys and values, got {describe(node)}", where=where)
        if "nodes" in node:
            yield from _flatten(node, where)
        else:
            yield node


def _loose(value: Any, where: str) -> dict[str, object]:
    """Keys with `_` for `-`."""
    return Fields(value, where, loose=True).rest()


def _first_name(value: dict[str, object]) -> str | None:
    for key in ("subtree", "nodes"):
        items = value.get(key)
        if isinstance(items, list) and items and isinstance(items[0], dict) and items[0].get("name"):
            return _split_range(str(items[0]["name"]), key)[0]
    return None


_RANGE = re.compile(r"^(?P<name>[^\[\]]+)\[(?P<first>\d+)\.\.(?P<last>\d+)\]$")


def _split_range(name: str, where: str) -> tuple[str, int]:
    """The name and the count of ``PE[0..15]``.

    >>> _split_range("PE[0..15]", "")
    ('PE', 16)
    """
    match = _RANGE.match(name)
    if match is None:
        if "[" in name:
            raise UserError(f"expected a range such as PE[0..15], got {name!r}", where=where)
        return name, 1
    count = int(match["last"]) - int(match["first"]) + 1
    if count < 1:
        raise UserError(f"the range of {name!r} is empty", where=where)
    return match["name"], count


def _positive(value: Any, key: str, where: str) -> int:
    number = as_number(value)
    if number is None or number < 1 or number != int(number):
        raise UserError(f"`{key}` must be an integer >= 1, got {describe(value)}", where=where)
    return int(number)


def _count(attributes: dict[str, object], key: str, where: str) -> int | None:
    value = attributes.pop(key, None)
    return None if value is None else _positive(value, key, where)


def _mesh(attributes: dict[str, object], instances: int | None, where: str) -> tuple[int, int]:
    """Extent of the mesh; without `meshX` all instances lie along X."""
    x, y = _count(attributes, "meshX", where), _count(attributes, "meshY", where)
    if instances is None:
        return x or 1, y or 1
    if x is None and y is None:
        return instances, 1
    if x is None:
        x = instances // y if y else instances
    if y is None:
        y = max(1, instances // x)
    if x * y != instances:
        raise UserError(f"`meshX` x `meshY` must equal the {instances} instances, got {x} x {y}", where=where)
    return x, y


def _check_mesh(components: list[Component]) -> None:
    if components[0].mesh != (1, 1):
        x, y = components[0].mesh
        raise UserError(f"the outermost level must have one instance, got {x} x {y}", where=components[0].where)
    for outer, inner in pairwise(components):
        for axis, a, b in (("X", outer.mesh[0], inner.mesh[0]), ("Y", outer.mesh[1], inner.mesh[1])):
            if b % a:
                raise UserError(
                    f"`mesh{axis}` must be a multiple of that of the level outside ({outer.name!r}, {a}), got {b}",
                    where=inner.where,
                )


_ESTIMATED = frozenset({"addr_gen_energy", "cluster_energy", "technology", "type", "latency", "num_ports"})
"""Keys of flat files that change no count here: energies come from the energy table."""


def _read_storage(component: Component) -> StorageLevel:
    place = component.where
    fields = Fields(component.attributes, place)
    technology = str(fields.raw("technology", "")).upper()
    dram = technology == "DRAM" or component.kind in ("dram", "lpddr4", "hbm2", "ddr3", "ddr4", "lpddr")
    word_bits = fields.integer(fields.first_of("word_bits", "datawidth"), 16, least=1)
    block = _block_size(fields, word_bits)
    if fields.integer("cluster_size", 1, least=1) != 1:
        raise UserError("`cluster-size` > 1 (instances that share one access) cannot be expressed", where=place)
    _refuse_networks(fields)
    words = _entries(fields, word_bits, block)
    buffering = fields.number("multiple_buffering", 1, least=1)
    if words is not None and buffering > 1:
        words = math.floor(words / buffering)
        _log.warning("%s: multiple-buffering %g leaves %d words for the tiles", place, buffering, words)
    if fields.number("min_utilization", 0, least=0) > 0:
        _log.warning("%s: min-utilization is not enforced", place)
    read, write = _bandwidths(fields)
    sparsity = metadata_widths(
        NO_SPARSITY,
        fields.integer("metadata_datawidth", None, least=0),
        fields.integer("metadata_storage_width", None, least=0),
    )
    energy = _vector_energy(fields, block)
    banks = fields.integer(fields.first_of("banks", "n_banks", "num_banks"), 1, least=1)
    _finish(fields, component)
    kind = LevelKind.DRAM if dram else LevelKind.REGISTERS if component.kind.startswith("reg") else LevelKind.SRAM
    level = {
        "name": component.name,
        "kind": kind,
        "capacity_bytes": None if words is None else words * word_bits / 8,
        "word_bits": word_bits,
        "one_element_per_word": True,
        "banks": banks,
        "read_bandwidth_words_per_cycle": read,
        "write_bandwidth_words_per_cycle": write,
        "energy": energy,
        "sparsity": sparsity,
    }
    return StorageLevel(**level)


def _block_size(fields: Fields, word_bits: int) -> int:
    """Words of one physical access. Energies are divided by it, which leaves out the rounding up of each tile."""
    width = fields.integer(fields.first_of("width", "memory_width"), None, least=1)
    block: int | None = fields.integer(fields.first_of("block_size", "n_words"), None, least=1)
    if block is None:
        block = max(1, width // word_bits) if width is not None else 1
    if block > 1:
        _log.warning(
            "%s: block-size %d: the energy of an access is shared by its words; Timeloop rounds accesses up to whole blocks",
            fields.where,
            block,
        )
    return block


def _entries(fields: Fields, word_bits: int, block: int) -> int | None:
    key = fields.first_of("entries", "depth", "memory_depth", "sizeKB", "size_kb")
    if key == "entries":
        entries: int | None = fields.integer(key, None, least=1)
        return entries
    if key in ("depth", "memory_depth"):
        return int(fields.integer(key, least=1)) * block
    return int(fields.number(key, above=0) * 1024 * 8 // word_bits)


def _bandwidths(fields: Fields) -> tuple[float | None, float | None]:
    shared = fields.number(fields.first_of("shared_bandwidth", "bandwidth"), None, above=0)
    read = fields.number("read_bandwidth", None, above=0)
    write = fields.number("write_bandwidth", None, above=0)
    if shared is None:
        return read, write
    _log.warning(
        "%s: shared_bandwidth limits reads and writes each, not their sum; the latency may be lower than Timeloop's",
        fields.where,
    )
    return min(read or shared, shared), min(write or shared, shared)


def _vector_energy(fields: Fields, block: int) -> AccessEnergy | None:
    per_access = fields.number("vector_access_energy", None, least=0)
    return None if per_access is None else AccessEnergy(*([per_access / block] * 3))


def _refuse_networks(fields: Fields) -> None:
    for key in ("network", "network_read", "network_fill", "network_drain", "network_update", "networks"):
        if fields.has(key):
            raise UserError(f"`{key}`: networks of one's own cannot be expressed", where=fields.where)
    for key in ("reduction_supported", "in_place_update"):
        if fields.has(key):
            raise UserError(f"`{key}` cannot be expressed", where=fields.where)


def _finish(fields: Fields, component: Component) -> None:
    """Refuse unknown keys. In hierarchical files one that resembles no known key is taken for an estimator's."""
    for key in _ESTIMATED:
        fields.has(key)
    if component.estimated:
        unread = [key for key in fields.unasked() if closest(key, fields.asked()) is None]
        if unread:
            _log.warning("%s: attributes %s are not read", fields.where, ", ".join(unread))
        for key in unread:
            fields.has(key)
    fields.finish()


def _read_arithmetic(component: Component) -> Arithmetic:
    fields = Fields(component.attributes, component.where)
    for key in ("entries", "depth", "memory_depth", "sizeKB", "size_kb"):
        if fields.has(key):
            raise UserError(
                f"the innermost component must be the arithmetic, but {component.name!r} has `{key}`",
                where=component.where,
            )
    bits = fields.integer(fields.first_of("word_bits", "datawidth", "width"), 16, least=1)
    for key in ("block_size", "cluster_size"):
        if fields.integer(key, 1, least=1) != 1:
            raise UserError(f"`{key}` > 1 of the arithmetic cannot be expressed", where=component.where)
    _refuse_networks(fields)
    energy = fields.number(fields.first_of("energy_per_op", "energy"), None, least=0)
    _finish(fields, component)
    return Arithmetic(bits=bits, energy_pj=energy, name=component.name)


def spatial_aliases(value: Any, where: str = "architecture") -> dict[str, str]:
    """Level by container name (v0.4): directives may name a container for the fan-out from that level into it."""
    components = list(components_of(value, where))
    return {name: outer.name for outer, inner in pairwise(components) for name, _ in inner.containers}


def embedded_constraints(value: Any, where: str = "architecture") -> list[dict[str, object]]:
    """The constraints that v0.4 writes into the architecture, as the directives of a constraints file.

    Raises:
        UserError: A section other than `dataspace`, `temporal` and `spatial`.
    """
    directives: list[dict[str, object]] = []
    previous = ""
    for component in components_of(value, where):
        for name, constraints in (*component.containers, (component.name, component.constraints)):
            if constraints is None:
                continue
            fields = Fields(constraints, f"{where}: constraints of {name!r}")
            for kind in ("dataspace", "temporal", "spatial"):
                if fields.has(kind):
                    section = fields.raw(kind)
                    if not isinstance(section, dict):
                        raise UserError(
                            f"`{kind}` must hold keys and values, got {describe(section)}", where=fields.where
                        )
                    target = previous if kind == "spatial" else name
                    directives.append({"target": target, "type": kind, **section})
            fields.finish()
        previous = component.name
    return directives
