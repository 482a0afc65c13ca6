"""Trees of segments as files and as text (rules M4, M123)."""

from itertools import permutations
from typing import Any

from codesign.arch.many_core import ManyCore
from codesign.core.errors import UserError
from codesign.core.fields import Fields
from codesign.core.json_types import JsonObject
from codesign.scheduling.segments.evaluate import Evaluation
from codesign.scheduling.segments.layers import SegmentNetwork
from codesign.scheduling.segments.segment_tree import DIMENSIONS, Cut, CutKind, Leaf, Node, check_tree, children_of

ORDERS = {"".join(order) for order in permutations(DIMENSIONS)}


def tree_to_json(node: Node, network: SegmentNetwork) -> JsonObject:
    """A tree as plain values: cuts with `cut`, `batch` and `children`, layers with `layer`, `batch`, `parts` and `order`.

    Equal parts are a number, unequal ones the list of their sizes.
    """
    if isinstance(node, Cut):
        children: list[Any] = [tree_to_json(child, network) for child in node.children]
        return {"cut": node.kind.name.lower(), "batch": node.batch, "children": children}
    found: JsonObject = {
        "layer": network.layers[node.layer].name,
        "batch": node.batch,
        "parts": {d: list(s) or p for d, p, s in zip(DIMENSIONS, node.parts, node.sizes, strict=True)},
        "order": "".join(DIMENSIONS[d] for d in node.order),
    }
    if node.kind:
        found["kind"] = node.kind
    if any(dram >= 0 for dram in node.drams):
        found["drams"] = list(node.drams)
    return found


def tree_from_json(value: Any, network: SegmentNetwork, where: str) -> Cut:
    """A tree from plain values.

    Raises:
        UserError: A key is unknown or missing, a layer is not in the network, missing or named twice, or a batch does not divide.
    """
    root = _node(value, network, where)
    if not isinstance(root, Cut):
        raise UserError("the root must be a cut in time, got a layer", where=where)
    try:
        check_tree(root, network)
    except UserError as error:
        raise error.within(where) from None
    return root


def named_cores(value: Any, network: SegmentNetwork, where: str) -> dict[int, tuple[int, ...]]:
    """The cores that layers of a tree name with `cores`, by number of the layer.

    Raises:
        UserError: A core is named twice by a layer, or by layers that run side by side.
    """
    if not isinstance(value, dict):
        return {}
    if "layer" in value:
        given = value.get("cores", [])
        cores = [int(core) for core in given] if isinstance(given, list) else []
        for core in cores:
            if cores.count(core) > 1:
                raise UserError(f"layer {value['layer']!r} names core {core} twice", where=where)
        return {network.index_of(str(value["layer"])): tuple(cores)} if cores else {}
    found: dict[int, tuple[int, ...]] = {}
    for child in value.get("children", []):
        below = named_cores(child, network, where)
        if value.get("cut") == "space":
            _refuse_shared(found, below, network, where)
        found |= below
    return found


def _refuse_shared(
    before: dict[int, tuple[int, ...]], below: dict[int, tuple[int, ...]], network: SegmentNetwork, where: str
) -> None:
    """Refuse a core that two children of a cut in space name."""
    for layer, cores in below.items():
        for other, others in before.items():
            for core in sorted(set(cores) & set(others)):
                names = f"{network.layers[other].name!r} and {network.layers[layer].name!r}"
                raise UserError(f"core {core} is named twice at the same time, by layers {names}", where=where)


def check_named_cores(
    named: dict[int, tuple[int, ...]], found: Evaluation, network: SegmentNetwork, where: str
) -> None:
    """Refuse cores that are not those which the tree gives to a layer (rule M5).

    Raises:
        UserError: A layer names others.
    """
    shape = found.arrays
    for node, layer in enumerate(shape.layer):
        cores = range(int(shape.core_first[node]), int(shape.core_past[node]))
        if int(layer) in named and set(named[int(layer)]) != set(cores):
            raise UserError(
                f"layer {network.layers[layer].name!r} names cores {list(named[int(layer)])}, the tree gives it {cores.start} to {cores.stop - 1}",
                where=where,
                hint="leave out `cores`: they follow from the cuts",
            )


def _node(value: Any, network: SegmentNetwork, where: str) -> Node:
    fields = Fields(value, where)
    batch = fields.integer("batch", least=1)
    if fields.has("layer"):
        return _leaf(fields, batch, network)
    kind = fields.text("cut")
    if kind not in ("space", "time"):
        raise UserError(f"`cut` must be space or time, got {kind!r}", where=where)
    children = tuple(
        _node(child, network, f"{where}, child {i + 1}") for i, child in enumerate(fields.items("children"))
    )
    fields.finish()
    return Cut(CutKind[kind.upper()], batch, children)


def _leaf(fields: Fields, batch: int, network: SegmentNetwork) -> Leaf:
    name = fields.text("layer")
    given = fields.child("parts")
    (k, ks), (b, bs), (h, hs), (w, ws) = (_parts(given, d) for d in DIMENSIONS)
    given.finish()
    order = fields.text("order", DIMENSIONS)
    if order not in ORDERS:
        raise UserError(f"`order` must name each of {DIMENSIONS} once, got {order!r}", where=fields.where)
    fields.items("cores", [])  # see `named_cores`
    drams = fields.items("drams", [-2, -2, -2])
    if len(drams) != 3 or not all(type(dram) is int for dram in drams):
        raise UserError(
            f"`drams` must be three whole numbers: of inputs, weights, outputs; got {drams}", where=fields.where
        )
    kind = fields.text("kind", "")
    fields.finish()
    places = tuple(DIMENSIONS.index(d) for d in order)
    drams_of = (drams[0], drams[1], drams[2])
    return Leaf(network.index_of(name), batch, (k, b, h, w), places, drams_of, sizes=(ks, bs, hs, ws), kind=kind)


def _parts(fields: Fields, dimension: str) -> tuple[int, tuple[int, ...]]:
    """How many parts a dimension has, and their sizes where they are given one by one (rule M123)."""
    if not isinstance(fields.raw(dimension, 1), list):
        return fields.integer(dimension, 1, least=1), ()
    sizes = fields.items(dimension)
    if not sizes or not all(type(size) is int and size >= 0 for size in sizes):
        raise UserError(
            f"`{dimension}` must be a number of equal parts or the sizes of all parts, got {sizes}", where=fields.where
        )
    return len(sizes), tuple(sizes)


def tree_lines(evaluation: Evaluation, network: SegmentNetwork) -> list[str]:
    """A tree as text: one line for each node with cores, time and energy of one run."""
    lines: list[str] = []
    shape = evaluation.arrays
    at = 0

    def add(node: Node, depth: int) -> None:
        nonlocal at
        row, cores = evaluation.rows[at], f"cores {shape.core_first[at]} to {shape.core_past[at] - 1}"
        if isinstance(node, Leaf):
            cut = zip(DIMENSIONS, node.parts, node.sizes, strict=True)
            parts = " ".join(d + ("+".join(map(str, s)) or str(p)) for d, p, s in cut if p > 1) or "whole"
            what = f"{network.layers[node.layer].name}: {parts}" + (f" on {node.kind}" if node.kind else "")
        else:
            what = f"{node.kind.name.lower()} cut, {node.groups} x batch {node.children[0].batch}"
        lines.append(f"{'  ' * depth}{what}; {cores}; {row.time:,} cycles, {row.energy_pj:.4g} pJ")
        at += 1
        if isinstance(node, Cut):
            for child in node.children:
                add(child, depth + 1)

    add(evaluation.root, 0)
    return lines


def core_map(evaluation: Evaluation, network: SegmentNetwork, segment: int, system: ManyCore) -> list[str]:
    """Which layers run on which core in one segment: the cores as text, the highest row first (rules M3, M122).

    Args:
        evaluation: The tree.
        network: The layers.
        segment: Number of the segment.
        system: The cores.
    """
    shape = evaluation.arrays
    segments = children_of(shape, 0)
    if segment >= len(segments):
        raise UserError(f"the tree has {len(segments)} segments, there is no number {segment}", where="tree")
    node = segments[segment]
    names: dict[int, list[int]] = {}
    for i in range(node, len(shape.kind)):
        inside = shape.leaf_first[node] <= shape.leaf_first[i] < shape.leaf_past[node]
        if shape.layer[i] >= 0 and inside:
            for core in range(int(shape.core_first[i]), int(shape.core_past[i])):
                names.setdefault(core, []).append(int(shape.layer[i]))
    grid = [["-"] * system.width for _ in range(system.height)]
    for core, layers in names.items():
        x, y = system.core_places[core]
        shown = network.layers[layers[0]].name + (f"+{len(layers) - 1}" if len(layers) > 1 else "")
        grid[y][x] = shown
    size = max(len(cell) for row in grid for cell in row)
    return ["  ".join(cell.ljust(size) for cell in row).rstrip() for row in reversed(grid)]
