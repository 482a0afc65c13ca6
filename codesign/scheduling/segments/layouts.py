"""Layouts of the layers of a tree: cut and placed anew, or as another program placed them (rules M6 to M10)."""

from collections.abc import Sequence

import numpy as np

from codesign.core.kernel_library import IntArray
from codesign.scheduling.segments.kernels import layout
from codesign.scheduling.segments.kernels.fabric import Fabric
from codesign.scheduling.segments.kernels.layout import Groups, Layout
from codesign.scheduling.segments.segment_tree import GivenLayout, Leaf


def layout_of(mesh: Fabric, row: IntArray, leaf: Leaf, first: int, as_given: bool, kinds: int) -> Layout:
    """Tiles and groups of a layer.

    Args:
        mesh: The network.
        row: Of the table of layers.
        leaf: The layer with its partition, or with a given layout.
        first: First core in mesh order.
        as_given: Keep groups of a given layout rather than form them by need (rule M9).
        kinds: Kinds of cores; with several, cores without work receive nothing (rule M123).
    """
    if leaf.given is not None:
        place = _given_layout(leaf.given, mesh.height)
        if not as_given:
            _groups_by_need(row, place)
        return place
    place = empty_layout(leaf.cores)
    parts, order = np.array(leaf.parts, np.int64), np.array(leaf.order, np.int64)
    layout.lay_out(mesh, row, borders_of(row, leaf), parts, order, first, kinds > 1, place)
    return place


def borders_of(row: IntArray, leaf: Leaf) -> IntArray:
    """Where the parts of a leaf begin in every dimension, 4 x parts + 1 (rules M6, M123)."""
    borders: IntArray = layout.even_borders(row, leaf.batch, np.array(leaf.parts, np.int64))
    for d, sizes in enumerate(leaf.sizes):
        if sizes:
            borders[d, : len(sizes) + 1] = np.cumsum([0, *sizes])
    return borders


def empty_layout(cores: int) -> Layout:
    """Room for the layout of a layer on some cores."""
    sizes = 1, (cores, 8), cores + 1, cores
    return Layout(*(Groups(*(np.zeros(size, np.int64) for size in sizes)) for _ in range(3)))


def _fill(groups: Groups, members: Sequence[tuple[Sequence[int], list[int]]]) -> None:
    """Make the groups those of some ranges, each with its sites."""
    at = 0
    for g, (box, sites) in enumerate(members):
        groups.ranges[g] = box
        groups.starts[g : g + 2] = at, at + len(sites)
        groups.sites[at : at + len(sites)] = sorted(sites)
        at += len(sites)
    groups.number[0] = len(members)


def _given_layout(given: GivenLayout, height: int) -> Layout:
    place = empty_layout(len(given.tiles))
    for groups, wanted in zip(place, (given.tiles, given.inputs, given.weights), strict=True):
        _fill(groups, [(group.box, [(x + 1) * height + y for x, y in group.places]) for group in wanted])
    return place


def _groups_by_need(row: IntArray, place: Layout) -> None:
    """Form the groups of a given layout anew: cores that need the same range (rule M9)."""
    alone = layout.own_channels(row[layout.TYPE])
    for groups, range_of, apart in (
        (place.inputs, layout.input_range, alone),
        (place.weights, layout.weight_range, False),
    ):
        if groups.number[0] == 0:
            continue
        found: dict[tuple[int, ...], list[int]] = {}
        for t in range(int(place.tiles.number[0])):
            box = np.zeros(8, np.int64)
            range_of(row, place.tiles.ranges[t], box)
            found.setdefault((*map(int, box), t if apart else -1), []).append(int(place.tiles.sites[t]))
        _fill(groups, [(key[:8], sites) for key, sites in found.items()])
