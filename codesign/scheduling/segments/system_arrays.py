"""Cores and what joins them in the form of the kernels (rules M3, M11)."""

from functools import lru_cache

import numpy as np

from codesign.arch.core_kinds import kind_of_cores
from codesign.arch.core_network import CoreNetwork, Grid, LinkTable, link_table
from codesign.arch.many_core import ManyCore, VectorMacCore
from codesign.core.kernel_library import FloatArray, IntArray
from codesign.scheduling.segments.kernels import core_mapper, fabric
from codesign.scheduling.segments.layers import LayerKind, SegmentLayer

HOP_CYCLES, INTERFACE_CYCLES = 5, 20
"""Cycles of a head from router to router; those of injection, ejection and one packet (rule M33)."""

MARGIN_PERCENT = 40
"""How much longer words on the busiest link or core take than at its full rate: wormhole routers fill links to about 70 % where
packets of several transfers meet (rule M33). Chosen on ResNet-50 and GoogLeNet on 6x6."""


STEPS = {fabric.EAST: (1, 0), fabric.WEST: (-1, 0), fabric.NORTH: (0, 1), fabric.SOUTH: (0, -1)}
"""Directions of the links of a mesh."""


def cores_arrays(cores: tuple[VectorMacCore, ...]) -> core_mapper.Cores:
    """Kinds of cores in the kernels' form."""

    def pairs(core: VectorMacCore) -> list[list[float]]:
        buffers = (core.inputs, core.weights, core.sums, core.outputs, core.big)
        return [[buffer.read_pj, buffer.write_pj] for buffer in buffers]

    def sizes(core: VectorMacCore) -> list[int]:
        small = [core.inputs.bytes, core.weights.bytes, core.sums.bytes, core.bus_words_per_cycle]
        return [
            *(core.vector, core.lanes, core.elements_a, core.elements_o),
            *small,
            core.vector_unit_macs,
            core.buffer_words_per_cycle,
        ]

    return core_mapper.Cores(
        np.array([sizes(core) for core in cores], np.int64),
        np.array([[core.bus_pj, core.mac_pj, core.vector_unit_pj] for core in cores], np.float64),
        np.array([pairs(core) for core in cores], np.float64),
    )


def site_kinds(system: ManyCore) -> IntArray:
    """Kind of the core at every site; 0 beside the mesh."""
    found = np.zeros(system.grid.places, np.int64)
    for (x, y), kind in zip(system.core_places, kind_of_cores(system), strict=True):
        found[system.grid.place(x, y)] = kind
    return found


def links_of(system: ManyCore) -> LinkTable:
    """Links of a system; of a mesh with X-Y routing those of all four directions of every place, without ways (rule M115).

    With several dies the links to the DRAM columns are between dies too.
    """
    return _mesh_links(system.grid) if system.network.is_plain else link_table(system.network, system.grid)


@lru_cache(maxsize=64)
def _mesh_links(grid: Grid) -> LinkTable:
    count = 4 * grid.places
    start, end = np.repeat(np.arange(grid.places), 4), np.full(count, -1, np.int64)
    borders = np.zeros(count, np.int64)
    for link in range(count):
        (x, y), (dx, dy) = grid.where(link // 4), STEPS[link % 4]
        if -1 <= x + dx <= grid.width and 0 <= y + dy < grid.height:
            end[link] = grid.place(x + dx, y + dy)
            if dx or 0 <= x < grid.width:  # words to memories may go along a column of ports, which no border cuts
                borders[link] = grid.borders((x, y), (x + dx, y + dy))
    none = np.zeros((0, 0, 0), np.int64)
    return LinkTable(start, end, np.ones(count, np.int64), borders, none, none)


def pitches_between(system: ManyCore) -> IntArray:
    """Pitches of the way from every place to every other, places x places; not to be written to."""
    return _pitches_between(system.network, system.grid)


@lru_cache(maxsize=64)
def _pitches_between(network: CoreNetwork, grid: Grid) -> IntArray:
    if network.is_plain:
        x, y = np.divmod(np.arange(grid.places), grid.height)
        found: IntArray = np.abs(x[:, None] - x) + np.abs(y[:, None] - y)
    else:
        found = link_table(network, grid).pitches_between()
    found.flags.writeable = False
    return found


def mean_way(system: ManyCore) -> float:
    """Pitches of an average way between cores; (width + height) / 3 on a mesh."""
    if system.network.is_plain:
        return (system.width + system.height) / 3.0
    cores = [system.grid.place(x, y) for x, y in system.core_places]
    between = pitches_between(system)[np.ix_(cores, cores)]
    return float(between.sum() / max(1, system.cores * (system.cores - 1)))


def system_prices(system: ManyCore) -> FloatArray:
    """`Problem.prices` of a system."""
    links, dies = system.links.pj_per_word_hop, system.dies
    return np.array(
        [links, dies.link_pj, system.memories.pj_per_word, dies.lane_pj, system.clock_ghz, mean_way(system)]
    )


def fabric_arrays(system: ManyCore, counting: int, drop_shifted: bool, steps: bool) -> fabric.Fabric:
    """The network in the kernels' form.

    Args:
        system: The machine.
        counting: `fabric.SET`, `fabric.GEMINI` or `fabric.OWN`.
        drop_shifted: Whether the underflow that drops concatenated inputs is kept (rule M20).
        steps: Whether words bound every step (rule M33).
    """
    grid = system.grid
    ports = [[grid.place(x, y) for x, y in ports] for ports in system.memories.ports]
    links = links_of(system)
    fill = INTERFACE_CYCLES + round(HOP_CYCLES * 3 * mean_way(system)) // 2
    return fabric.Fabric(
        system.width,
        system.height,
        np.array([grid.place(x, y) for x, y in system.core_places], np.int64),
        system.width // system.dies.x,
        system.height // system.dies.y,
        system.links.words_per_cycle,
        system.dies.words_per_cycle,
        system.memories.words_per_cycle_each,
        len(ports),
        np.array(ports, np.int64),
        np.stack([links.borders, links.pitches - links.borders, links.start]),
        links.before,
        np.zeros(links.before.shape[1] + 1, np.int64),
        counting,
        int(drop_shifted),
        fill if steps else 0,
        MARGIN_PERCENT if steps else 0,
    )


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def core_tile(layer: SegmentLayer, parts: tuple[int, ...], batch: int, fetch: tuple[int, ...] | None) -> list[int]:
    """Sizes of the largest tile of a layer in the order of `core_mapper.Tile` (rule M11)."""
    pieces = fetch or (1, 1, 1, 1)
    b = _ceil(_ceil(batch, parts[1]), pieces[1])
    h = _ceil(_ceil(layer.H, parts[2]), pieces[2])
    w = _ceil(_ceil(layer.W, parts[3]), pieces[3])
    return tile_sizes(layer, _ceil(layer.K, parts[0]), b, h, w, pieces[0])


def tile_sizes(layer: SegmentLayer, k: int, b: int, h: int, w: int, pieces: int = 1) -> list[int]:
    """Sizes of a tile of so many channels, samples, rows and columns in the order of `core_mapper.Tile`; channels in pieces."""
    c, groups = layer.C, 1
    if layer.kind is LayerKind.GROUP_CONV:
        per_k = layer.K // layer.groups
        groups, c = _ceil(k, per_k), layer.C // layer.groups
        k = per_k if groups > 1 else k
    k = _ceil(k, pieces)
    if layer.computes and layer.weight_inputs:
        groups, b = groups * b, 1
    return [c, k, layer.R, layer.S, h, w, layer.stride_h, layer.stride_w, b, groups]
