"""Layouts of the layers of a tree: cut and placed anew, or as another program placed them (rules M6 to M10)."""

import numpy as np

from codesign.core.kernel_library import IntArray
from codesign.scheduling.segments.kernels import layout
from codesign.scheduling.segments.kernels.fabric import Fabric
from codesign.scheduling.segments.kernels.layout import Layout
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
    ranges = [np.zeros((cores, 8), np.int64) for _ in range(3)]
    starts = [np.zeros(cores + 1, np.int64) for _ in range(2)]
    sites = [np.zeros(cores, np.int64) for _ in range(3)]
    return Layout(
        np.zeros(3, np.int64), ranges[0], sites[0], ranges[1], starts[0], sites[1], ranges[2], starts[1], sites[2]
    )


def _given_layout(given: GivenLayout, height: int) -> Layout:
    place = empty_layout(len(given.tiles))
    places = (
        (place.tiles, np.zeros(len(given.tiles) + 1, np.int64), place.tile_sites),
        (place.in_ranges, place.in_starts, place.in_sites),
        (place.weight_ranges, place.weight_starts, place.weight_sites),
    )
    for which, groups in enumerate((given.tiles, given.inputs, given.weights)):
        ranges, starts, sites = places[which]
        at = 0
        for g, group in enumerate(groups):
            members = sorted((x + 1) * height + y for x, y in group.places)
            ranges[g] = group.box
            sites[at : at + len(members)] = members
            at += len(members)
            starts[g + 1] = at
        place.counts[which] = len(groups)
    return place


def _groups_by_need(row: IntArray, place: Layout) -> None:
    """Form the groups of a given layout anew: cores that need the same range (rule M9)."""
    n = int(place.counts[0])
    for which, (ranges, starts, sites) in enumerate(
        (
            (place.in_ranges, place.in_starts, place.in_sites),
            (place.weight_ranges, place.weight_starts, place.weight_sites),
        )
    ):
        if place.counts[1 + which] == 0:
            continue
        found: dict[tuple[int, ...], list[int]] = {}
        for t in range(n):
            box = np.zeros(8, np.int64)
            (layout.input_range if which == 0 else layout.weight_range)(row, place.tiles[t], box)
            alone = which == 0 and row[layout.TYPE] >= layout.GROUP_CONV
            found.setdefault((*map(int, box), t if alone else -1), []).append(int(place.tile_sites[t]))
        at = 0
        for g, (key, members) in enumerate(found.items()):
            ranges[g] = key[:8]
            starts[g] = at
            sites[at : at + len(members)] = sorted(members)
            at += len(members)
        starts[len(found)] = at
        place.counts[1 + which] = len(found)
