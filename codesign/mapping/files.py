"""The project's own mapping file, the nest, one node a line, and its constraint file.

```yaml
mapping:
- {store: DRAM, tensors: [Inputs, Weights, Outputs]}
- {for: P, factor: 4}
- {store: GlobalBuffer, tensors: [Inputs, Outputs]}
- {parallel: K, factor: 4, axis: x, level: GlobalBuffer}
- {layout: Weights, order: [C, K]}
```

A `layout` says how a tensor lies in DRAM and on chip (`codesign.mapping.layout`); it may stand anywhere in the list.
"""

import re
from typing import Any

from codesign.core.errors import UserError, closest
from codesign.core.fields import Fields
from codesign.core.json_types import JsonObject
from codesign.mapping.constraints import Constraints, FactorRange, LevelConstraints
from codesign.mapping.layout import Digit, TensorLayout
from codesign.mapping.mapping import Mapping, Node, Spatial, Storage, Temporal

_FIELDS = {
    "store": {"store", "tensors"},
    "for": {"for", "factor"},
    "parallel": {"parallel", "factor", "axis", "level"},
    "layout": {"layout", "order"},
}


def mapping_to_json(mapping: Mapping) -> list[JsonObject]:
    """The nodes as plain values; storage of one level that stands together makes one entry."""
    nodes: list[JsonObject] = []
    stored: str | None = None
    tensors: list[str] = []
    for node in mapping.nodes:
        if isinstance(node, Storage):
            if node.level != stored:
                stored, tensors = node.level, []
                nodes.append({"store": stored, "tensors": tensors})
            tensors.append(node.tensor)
            continue
        stored = None
        if isinstance(node, Temporal):
            nodes.append({"for": node.dim, "factor": node.factor})
        else:
            nodes.append({"parallel": node.dim, "factor": node.factor, "axis": node.axis, "level": node.level})
    nodes.extend({"layout": x.tensor, "order": [str(digit) for digit in x.order]} for x in mapping.layouts)
    return nodes


def mapping_from_json(value: Any, where: str = "mapping") -> Mapping:
    """The mapping of a list of nodes.

    Raises:
        UserError: A node has an unknown or missing key, or a value of the wrong kind.
    """
    if not isinstance(value, list):
        raise UserError(f"expected a list of nodes, got {type(value).__name__}", where=where)
    nodes: list[Node] = []
    layouts: list[TensorLayout] = []
    for position, item in enumerate(value):
        place = f"{where}, node {position + 1}"
        kind = next((k for k in _FIELDS if isinstance(item, dict) and k in item), None)
        if kind is None:
            raise UserError(f"expected a node with `store`, `for`, `parallel` or `layout`, got {item!r}", where=place)
        for key in item:
            if key not in _FIELDS[kind]:
                near = closest(str(key), _FIELDS[kind])
                raise UserError(f"unknown key {key!r}", where=place, hint=f"did you mean {near!r}?" if near else None)
        missing = sorted(_FIELDS[kind] - set(item))
        if missing:
            raise UserError(f"`{missing[0]}` is missing", where=place)
        try:
            if kind == "layout":
                layouts.append(_read_layout(item))
            else:
                nodes.extend(_read_node(kind, item))
        except UserError as error:
            raise error.within(place) from None
    return Mapping(tuple(nodes), tuple(layouts))


def _read_layout(item: dict[str, Any]) -> TensorLayout:
    if not isinstance(item["order"], list) or not all(isinstance(text, str) for text in item["order"]):
        raise UserError(f"`order` must be a list of axes such as K, K/16 or K%16, got {item['order']!r}")
    return TensorLayout(str(item["layout"]), tuple(Digit.parse(text) for text in item["order"]))


def _read_node(kind: str, item: dict[str, Any]) -> list[Node]:
    if kind == "store":
        if not isinstance(item["tensors"], list):
            raise UserError(f"`tensors` must be a list of names, got {item['tensors']!r}")
        return [Storage(str(tensor), str(item["store"])) for tensor in item["tensors"]]
    if kind == "for":
        return [Temporal(str(item["for"]), item["factor"])]
    return [Spatial(str(item["parallel"]), item["factor"], item["axis"], str(item["level"]))]


def constraints_to_json(constraints: Constraints) -> JsonObject:
    """What stands under `constraints:` in the project's own file."""
    levels = []
    for item in constraints.levels:
        entry: JsonObject = {"level": item.level}
        entry |= {name: sorted(getattr(item, name)) for name in ("keep", "bypass") if getattr(item, name)}
        for name, spatial in (("temporal", False), ("spatial", True)):
            factors: dict[str, int | str] = dict(getattr(item, name))
            factors |= {r.dim: str(r) for r in item.ranges if r.spatial is spatial}
            entry |= {name: factors} if factors else {}
        entry |= {"order": list(item.order)} if item.order else {}
        entry |= {"along_x": sorted(item.along_x)} if item.along_x is not None else {}
        levels.append(entry)
    least = {"min_utilization": constraints.min_utilization} if constraints.min_utilization > 0.0 else {}
    return {"free_bypass": constraints.free_bypass, **least, "levels": levels}


def constraints_from_json(value: Any, where: str = "constraints") -> Constraints:
    """The constraints of what stands under `constraints:`.

    Args:
        value: ``{free_bypass: false, levels: [{level, keep, bypass, temporal, spatial, order, along_x}]}``, or the list of levels alone.
        where: The file, for messages.

    Raises:
        UserError: A key is unknown or missing, or a value is of the wrong kind.
    """
    fields = Fields({"levels": value} if isinstance(value, list) else value, f"{where}: constraints")
    free_bypass = fields.flag("free_bypass", False)
    least = float(fields.number("min_utilization", 0, least=0))
    entries = fields.items("levels", [])
    fields.finish()
    try:
        levels = tuple(_read_level(item, f"constraints, entry {i + 1}") for i, item in enumerate(entries))
        return Constraints(levels, free_bypass, least)
    except UserError as error:
        raise error.within(where) from None


def _read_level(value: Any, where: str) -> LevelConstraints:
    fields = Fields(value, where)
    level = fields.text("level")
    fields.where = f"constraints of level {level!r}"
    temporal, within_time = _read_factors(fields.child("temporal"), False)
    spatial, across = _read_factors(fields.child("spatial"), True)
    ranges = (*within_time, *across)
    return fields.record(LevelConstraints, level=level, temporal=temporal, spatial=spatial, ranges=ranges)


def _read_factors(fields: Fields, spatial: bool) -> tuple[tuple[tuple[str, int], ...], tuple[FactorRange, ...]]:
    """Exact factors, and ranges written as ``1..4`` or ``2..``."""
    exact, ranges = [], []
    for dim in fields.rest():
        value = fields.raw(dim)
        found = re.fullmatch(r"(\d+)\.\.(\d*)", value) if isinstance(value, str) else None
        if found is None:
            exact.append((dim, fields.integer(dim, least=1)))
        else:
            ranges.append(FactorRange(dim, int(found[1]), int(found[2]) if found[2] else None, spatial))
    return tuple(exact), tuple(ranges)
