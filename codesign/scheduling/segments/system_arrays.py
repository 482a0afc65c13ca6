"""Cores and what joins them in the form of the kernels (rules M3, M11)."""

import numpy as np

from codesign.arch.core_kinds import core_places, kind_counts
from codesign.arch.many_core import ManyCore, VectorMacCore
from codesign.core.kernel_library import IntArray
from codesign.scheduling.segments.kernels import core_mapper, fabric
from codesign.scheduling.segments.layers import LayerKind, SegmentLayer

HOP_CYCLES, INTERFACE_CYCLES = 5, 20
"""Cycles of a head from router to router; those of injection, ejection and one packet (rule M33)."""

MARGIN_PERCENT = 40
"""How much longer words on the busiest link or core take than at its full rate: wormhole routers fill links to about 70 % where
packets of several transfers meet (rule M33). Chosen on ResNet-50 and GoogLeNet on 6x6."""


def core_arrays(core: VectorMacCore) -> core_mapper.Core:
    """A core in the kernels' form."""
    return core_mapper.core_of(cores_arrays((core,)), 0)


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
    found = np.zeros((system.width + 2) * system.height, np.int64)
    core = 0
    for kind, count in enumerate(kind_counts(system)):
        for x, y in core_places(system)[core : core + count]:
            found[(x + 1) * system.height + y] = kind
        core += count
    return found


def links_between_dies(system: ManyCore) -> IntArray:
    """1 for every link that leaves a die; with several dies those to the DRAM columns too."""
    height = system.height
    found = np.zeros(4 * (system.width + 2) * height, np.int64)
    if system.dies.count == 1:
        return found
    die_w, die_h = system.width // system.dies.x, height // system.dies.y
    for y in range(height):
        for x in range(0, system.width + 1, die_w):
            found[4 * (x * height + y) + fabric.EAST] = 1
            found[4 * ((x + 1) * height + y) + fabric.WEST] = 1
    for x in range(system.width):
        for y in range(die_h, height, die_h):
            found[4 * ((x + 1) * height + y - 1) + fabric.NORTH] = 1
            found[4 * ((x + 1) * height + y) + fabric.SOUTH] = 1
    return found


def fabric_arrays(system: ManyCore, counting: int, drop_shifted: bool, steps: bool) -> fabric.Fabric:
    """The network in the kernels' form.

    Args:
        system: The machine.
        counting: `fabric.SET`, `fabric.GEMINI` or `fabric.OWN`.
        drop_shifted: Whether the underflow that drops concatenated inputs is kept (rule M20).
        steps: Whether words bound every step (rule M33).
    """
    ports = [[(x + 1) * system.height + y for x, y in ports] for ports in system.memories.ports]
    return fabric.Fabric(
        system.width,
        system.height,
        system.stride,
        system.width // system.dies.x,
        system.height // system.dies.y,
        system.links.words_per_cycle,
        system.dies.words_per_cycle,
        system.memories.words_per_cycle_each,
        len(ports),
        np.array(ports, np.int64),
        links_between_dies(system),
        counting,
        int(drop_shifted),
        INTERFACE_CYCLES + HOP_CYCLES * (system.width + system.height) // 2 if steps else 0,
        MARGIN_PERCENT if steps else 0,
        np.array([(x + 1) * system.height + y for x, y in core_places(system)], np.int64),
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
