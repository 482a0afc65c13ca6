"""Systems of many cores as hardware spaces: network, dies, cores, buffers, links, controllers, package (docs/explanation/many-cores.md, rules M71 to M74).

A space is a system and expressions over parameters that set its fields. What is not set follows: places of controllers, energies of
buffers by their size, energies of links between dies, stripes of the mesh order.
"""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from codesign.arch.architecture import Architecture
from codesign.arch.core_kinds import places_by_count
from codesign.arch.many_core import ManyCore
from codesign.arch.many_core_files import load_system, system_names
from codesign.arch.many_core_scaling import (
    BUFFERS,
    architecture_of,
    die_hop_pj,
    edge_ports,
    fitting_stride,
    scaled_buffer,
)
from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import Fields, describe
from codesign.core.json_types import JsonObject
from codesign.core.specs import spec_from_json, spec_to_json
from codesign.evaluation.own_metrics import MetricFunction
from spaces.expressions import Expression
from spaces.parameter_files import read_parameters, read_preset, read_rule
from spaces.parameters import Value
from spaces.space import Space

CONTROLLERS = "memories.controllers"
"""A field that systems do not have: how many controllers, whose places follow."""

KIND_CORES = "kinds."
"""Begins fields that systems do not have either: how many cores of a kind, whose places follow."""

CHECKED_DESIGNS = 16
"""Random designs built when a space is made, besides the presets."""


@final
@dataclass(frozen=True)
class SystemSpace:
    """A space of systems of many cores. Plain data, so it can be sent to other processes.

    Args:
        name: What the command line calls it.
        space: Parameters, rules, presets.
        base: The system that every design changes.
        changes: Fields, such as ``core.big.bytes``, and what sets them.
        definition: What made it, as plain values for the record of a study; None where its name finds it.
        objectives: What a search minimises unless it is told otherwise.
        bounds: Bounds on metrics that every search keeps.
        bits: Width of an operand: energies and bandwidths are those of words of 8 bits.
        partial_bits: Width of a partial sum.
    """

    name: str
    space: Space
    base: ManyCore
    changes: tuple[tuple[str, Expression], ...]
    definition: str | None = None
    objectives: tuple[str, ...] = ("latency", "energy", "cost_usd")
    bounds: tuple[str, ...] = ()
    bits: int = 8
    partial_bits: int = 24
    metrics: tuple[tuple[str, MetricFunction], ...] = ()

    def system(self, point: Mapping[str, Value]) -> ManyCore:
        """The system of a design (rules M71 to M74).

        Raises:
            UserError: An expression cannot be computed, or gives what no system has.
        """
        plain = self.space.to_points(self.space.to_indices([point]))[0]
        design = " ".join(f"{k}={v}" for k, v in plain.items())
        try:
            given = {field: expression.value(plain) for field, expression in self.changes}
            return _changed(self.base, given, self.name)
        except UserError as error:
            where = f"space {self.name!r}, design {design}"
            raise UserError(error.message, where=where, hint=error.hint) from None

    def build(self, point: Mapping[str, Value]) -> Architecture:
        """The levels of a design with areas, for reports."""
        return architecture_of(self.system(point))

    def with_rules(self, rules: Sequence[str]) -> "SystemSpace":
        """The same space with further rules on its parameters."""
        return replace(self, space=self.space.with_rules(rules)) if rules else self

    def to_json(self) -> dict[str, Any]:
        """What a study records of it."""
        record: dict[str, Any] = {"name": self.name, "space": self.space.to_json()}
        return record if self.definition is None else {**record, "definition": self.definition}


def _changed(base: ManyCore, given: Mapping[str, Any], name: str) -> ManyCore:
    """A system with fields set, and what follows from them."""
    values: dict[str, Any] = {**deepcopy(spec_to_json(base)), "name": name}
    for field, value in given.items():
        if field != CONTROLLERS and not field.startswith(KIND_CORES):
            keys = field.split(".")
            target = values
            for key in keys[:-1]:
                target = target.setdefault(key, {})
            target[keys[-1]] = _whole(value)
    for buffer in BUFFERS:
        size = given.get(f"core.{buffer}.bytes")
        if size is not None:
            scaled = spec_to_json(scaled_buffer(getattr(base.core, buffer), int(size)))
            own = {k: values["core"][buffer][k] for k in scaled if f"core.{buffer}.{k}" in given}
            values["core"][buffer] = {**scaled, **own}
    dies = values["dies"]
    if "stride" not in given:
        values["stride"] = fitting_stride(int(values["width"]), int(dies.get("x", 1)))
    if "dies.pj_per_word_hop" not in given and {"dies.interface", "dies.package", "technology_nm"} & set(given):
        dies["pj_per_word_hop"] = die_hop_pj(dies["interface"], dies["package"], int(values["technology_nm"]))
    if {CONTROLLERS, "width", "height"} & set(given):
        controllers = int(given.get(CONTROLLERS, len(base.memories.ports)))
        ports = edge_ports(int(values["width"]), int(values["height"]), controllers)
        values["memories"]["ports"] = [[list(place) for place in places] for places in ports]
    values |= _placed_kinds(base, int(values["width"]), int(values["height"]), int(values["stride"]), given)
    return spec_from_json(ManyCore, values, f"space {name!r}")


def _placed_kinds(base: ManyCore, width: int, height: int, stride: int, given: Mapping[str, Any]) -> JsonObject:
    """Kinds and places where cores of further kinds are the last of the mesh order; a kind of which there are none is left out."""
    counts = {kind: int(given[field]) for kind, field in _kind_fields(base).items() if field in given}
    if not counts:
        return {}
    fewest = {kind.name: sum(row.count(kind.name) for row in base.places) for kind in base.kinds}
    counts = {name: n for name, n in (fewest | counts).items() if n}
    places = places_by_count(width, height, stride, counts) if counts else ()
    kinds = [spec_to_json(kind) for kind in base.kinds if kind.name in counts]
    return {"kinds": kinds, "places": [list(row) for row in places]}


def _kind_fields(base: ManyCore) -> dict[str, str]:
    """Fields that say how many cores of each further kind there are, by its name."""
    return {kind.name: f"{KIND_CORES}{kind.name}.cores" for kind in base.kinds}


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _fields(value: Any, before: str = "") -> list[str]:
    """The scalar fields of a system by their dotted names."""
    found: list[str] = []
    for key, item in value.items():
        if isinstance(item, dict):
            found += _fields(item, f"{before}{key}.")
        elif not isinstance(item, list):
            found.append(before + key)
    return found


def system_space_from_json(value: Any, where: str, folder: Path | None) -> SystemSpace:
    """The space of what stands under `space:` where that has the key `system`.

    Args:
        value: Keys and values as read from the file.
        where: The file, for messages.
        folder: That relative names of files count from; None where none can be read.

    Raises:
        UserError: A field is missing, unknown or malformed; a parameter that nothing reads; a design that cannot be built.
    """
    fields = Fields(value, f"{where}: space")
    name = fields.text("name")
    parameters = list(read_parameters(fields.raw("parameters"), where))
    constraints = [read_rule(item, k, where) for k, item in enumerate(fields.items("constraints", []), start=1)]
    presets = [read_preset(p, f"{where}: preset {k}") for k, p in enumerate(fields.items("presets", []), start=1)]
    objectives, bounds = tuple(fields.names("objectives", [])), tuple(fields.names("bounds", []))
    base = _base(fields.raw("system"), where, folder)
    changes = _changes(fields.raw("set", {}), base, [p.name for p in parameters], where)
    fields.finish()
    definition = json.dumps({**value, "system": spec_to_json(base)})
    made = SystemSpace(
        name, Space(parameters, constraints, presets), base, changes, definition, objectives or SystemSpace.objectives, bounds
    )  # fmt: skip
    space = made.space
    for point in [*space.presets, *space.to_points(space.sample(CHECKED_DESIGNS, np.random.default_rng(0)))]:
        made.system(point)
    return made


def _base(value: Any, where: str, folder: Path | None) -> ManyCore:
    if isinstance(value, dict):
        return spec_from_json(ManyCore, value, f"{where}: system")
    if not isinstance(value, str):
        raise UserError(f"`system` must be a name, a file or keys and values, got {describe(value)}", where=where)
    if value in system_names() or folder is None:
        return load_system(value)
    if value.endswith((".yaml", ".yml", ".json")):
        return load_system(str(folder / value))
    raise unknown_name("system", value, system_names(), where=where)


def _changes(value: Any, base: ManyCore, names: Sequence[str], where: str) -> tuple[tuple[str, Expression], ...]:
    if not isinstance(value, dict):
        raise UserError(f"`set` must hold fields and expressions, got {describe(value)}", where=f"{where}: space")
    known = [*(f for f in _fields(spec_to_json(base)) if f != "name"), CONTROLLERS, *_kind_fields(base).values()]
    found: list[tuple[str, Expression]] = []
    read: set[str] = set()
    for field, text in value.items():
        place = f"{where}: set `{field}`"
        if field not in known:
            raise unknown_name("field of a system", str(field), known, where=place)
        expression = Expression(str(text).removeprefix("="), place)
        expression.check_names(names)
        read |= expression.names
        found.append((str(field), expression))
    for parameter in names:
        if parameter not in read:
            raise UserError(
                f"parameter {parameter!r} changes nothing: no field of the system reads it",
                where=where,
                hint=f"write e.g. `core.big.bytes: {parameter}` under `set`, or leave it out",
            )
    return tuple(found)


_DEFINITION: dict[str, Any] = {
    "name": "manycore",
    "system": "gemini-72t",
    "parameters": {
        "mesh_x": [2, 4, 6, 8],
        "mesh_y": [2, 4, 6, 8],
        "pe_rows": {"powers_of_two": [2, 8]},
        "pe_columns": {"powers_of_two": [2, 8]},
        "buffer_kib": {"powers_of_two": [256, 8192]},
        "dies_x": [1, 2, 3, 4, 6, 8],
        "dies_y": [1, 2, 3, 4, 6, 8],
        "link_words": {"powers_of_two": [16, 128]},
        "die_link_words": {"powers_of_two": [8, 64]},
        "controllers": [1, 2, 4],
        "dram_words": [18, 36, 72],
        "interface": {"labels": ["USR", "UCIe"]},
        "package": {"labels": ["OS", "FO", "SI"]},
        "topology": {"labels": ["mesh", "torus", "ring", "crossbar"]},
    },
    "constraints": [
        {"rule": "mesh_x % dies_x == 0", "reason": "dies are rectangles of equal size"},
        {"rule": "mesh_y % dies_y == 0", "reason": "dies are rectangles of equal size"},
        {"rule": "topology != 'crossbar' or dies_x * dies_y == 1", "reason": "a crossbar is one switch on one die"},
    ],
    "set": {
        "width": "mesh_x",
        "height": "mesh_y",
        "core.elements_a": "pe_rows",
        "core.elements_o": "pe_columns",
        "core.big.bytes": "buffer_kib * 1024",
        "dies.x": "dies_x",
        "dies.y": "dies_y",
        "links.words_per_cycle": "link_words",
        "dies.words_per_cycle": "die_link_words",
        CONTROLLERS: "controllers",
        "memories.words_per_cycle_each": "dram_words",
        "dies.interface": "interface",
        "dies.package": "package",
        "network.topology": "topology",
    },
    "presets": [
        {
            "mesh_x": 6, "mesh_y": 6, "pe_rows": 4, "pe_columns": 4, "buffer_kib": 2048, "dies_x": dies_x, "dies_y": dies_y,
            "link_words": 32, "die_link_words": 16, "controllers": 4, "dram_words": 36, "interface": "USR", "package": "OS",
            "topology": "mesh",
        }
        for dies_x, dies_y in ((1, 1), (2, 1), (6, 6))
    ],
}  # fmt: skip

MANYCORE = replace(system_space_from_json(_DEFINITION, "space manycore", None), definition=None)
"""2 to 64 cores on 1 to 64 dies; its presets are one die, two and 36 of Gemini's system of 72 TOPS."""
