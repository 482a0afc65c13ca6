"""A layer on an accelerator as small arrays, the form that compiled code reads.

Shapes: T tensors (inputs in order, the output last), D dimensions, V levels of the longest chain of memories of a
tensor (0 innermost), M memories, P ports.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from codesign.cost.zigzag.accelerator import DIRECTIONS
from codesign.cost.zigzag.layer import UnrolledLayer
from codesign.mapping.nest import FloatArray, IntArray
from codesign.workloads.computation import Role, Tensor

TO_LOW, FROM_LOW, TO_HIGH, FROM_HIGH = 0, 1, 2, 3
"""Directions: columns of the traffic arrays, in the order of `accelerator.DIRECTIONS`."""


class Sizes(NamedTuple):
    """How large tiles are; one for energy (fractional units) and one for latency (whole units), rule Z3.

    Attributes:
        spatial: ``T x S x D`` units of each dimension laid between the MACs and the levels of a stage.
        alone: ``T x S`` product of those that stand alone on an axis of the tensor.
        boost: ``T x S`` distinct elements that the units between a stage and the one inside it take at a time.
        bound: ``T x X`` full length of each axis that is a sum of two dimensions.
    """

    spatial: FloatArray
    alone: FloatArray
    boost: FloatArray
    bound: FloatArray


class Layer(NamedTuple):
    """A computation unrolled on an accelerator.

    Attributes:
        relevant: ``T x D`` 0 irrelevant, 1 alone on an axis, 2 in a sum.
        pairs: ``T x X x 2`` the two dimensions of each axis that is a sum.
        scales: ``T x X x 2`` their coefficients over the common divisor.
        n_pairs: ``T``.
        reduced: ``D`` 1 where the output is not indexed.
        bits: ``T`` of a final element.
        partial_bits: of a partial sum.
        n_levels: ``T``.
        memory: ``T x V`` the memory of each level.
        stage: ``T x V`` the stage of each level; levels of one stage have the same units below them.
        n_stages: ``T``.
        units: ``T x V`` instances in use, rounded.
        reduces_above: ``V`` 1 where units of a reduced dimension lie above that level of the output's chain.
        port: ``T x V x 4`` index of the port, -1 where none is used.
        served: ``P x K x 3`` tensor, level and direction of what goes through a port, in the file's order.
        n_served: ``P``.
        shared: ``P`` 1 where more than one input goes through.
        port_min: ``P`` bits.
        port_max: ``P`` bits.
        port_energy: ``P x 2`` of a read and of a write.
        capacity: ``M`` bits.
        members: ``M x T`` tensors that a memory holds, in the file's order; -1 where fewer.
        member_level: ``M x T`` the level it is to that tensor.
        n_members: ``M``.
        mac_energy: of all MACs together.
        fractional: whether `fraction` and `whole` differ.
        fraction: sizes with fractional units.
        whole: sizes with whole units.
    """

    relevant: IntArray
    pairs: IntArray
    scales: FloatArray
    n_pairs: IntArray
    reduced: IntArray
    bits: IntArray
    partial_bits: int
    n_levels: IntArray
    memory: IntArray
    stage: IntArray
    n_stages: IntArray
    units: FloatArray
    reduces_above: IntArray
    port: IntArray
    served: IntArray
    n_served: IntArray
    shared: IntArray
    port_min: IntArray
    port_max: IntArray
    port_energy: FloatArray
    capacity: IntArray
    members: IntArray
    member_level: IntArray
    n_members: IntArray
    mac_energy: float
    fractional: bool
    fraction: Sizes
    whole: Sizes


@dataclass(frozen=True)
class _Axes:
    """The axes of the tensors that are sums of two dimensions, as arrays."""

    pairs: IntArray
    scales: FloatArray
    n_pairs: IntArray


def axis_length(a: float, b: float, scale_a: float, scale_b: float) -> float:
    """Distinct values of ``scale_a * i + scale_b * j`` for i below a, j below b; the scales have no common divisor (rule Z2)."""
    return a * b - max(0.0, b - scale_a) * max(0.0, a - scale_b)


def encode(layer: UnrolledLayer) -> Layer:
    """The arrays of an unrolled layer."""
    computation, accelerator = layer.computation, layer.accelerator
    tensors, dims = computation.tensors, computation.dims
    chains = [accelerator.chain(t.role) for t in tensors]
    n_levels = max(len(chain) for chain in chains)
    axes = _axes(layer)
    relevant = np.zeros((len(tensors), len(dims)), np.int64)
    memory = np.full((len(tensors), n_levels), -1, np.int64)
    for t, tensor in enumerate(tensors):
        for axis in tensor.axes:
            for dim, _ in axis.terms:
                relevant[t, dims.index(dim)] = len(axis.terms)
        memory[t, : len(chains[t])] = chains[t]
    reduced = np.array([d in computation.reduced_dims for d in dims], np.int64)
    stages = [_stages(layer, chain) for chain in chains]
    fraction = _sizes(layer, stages, axes, whole=False)
    whole = _sizes(layer, stages, axes, whole=True)
    stage = np.zeros_like(memory)
    for t, chain in enumerate(chains):
        stage[t, : len(chain)] = [stages[t].index(accelerator.memories[m].served) for m in chain]
    port = _used_ports(layer, chains, n_levels)
    served, n_served, shared = _served(layer, port, chains)
    every_port = [(p, m) for m in accelerator.memories for p in m.ports]
    members = np.full((len(accelerator.memories), len(tensors)), -1, np.int64)
    member_level = np.zeros_like(members)
    for m, item in enumerate(accelerator.memories):
        for i, role in enumerate(item.operands):
            members[m, i] = layer.tensor_of(role)
            member_level[m, i] = chains[members[m, i]].index(m)
    return Layer(
        relevant=relevant,
        pairs=axes.pairs,
        scales=axes.scales,
        n_pairs=axes.n_pairs,
        reduced=reduced,
        bits=np.array([t.bits for t in tensors], np.int64),
        partial_bits=computation.output.partial_bits,
        n_levels=np.array([len(chain) for chain in chains], np.int64),
        memory=memory,
        stage=stage,
        n_stages=np.array([len(s) for s in stages], np.int64),
        units=_units(fraction, stage, stages),
        reduces_above=_reduces_above(fraction, stage, len(stages[-1]), reduced),
        port=port,
        served=served,
        n_served=n_served,
        shared=shared,
        port_min=np.array([p.min_bits for p, _ in every_port], np.int64),
        port_max=np.array([p.max_bits for p, _ in every_port], np.int64),
        port_energy=np.array([(m.read_energy, m.write_energy) for _, m in every_port], np.float64),
        capacity=np.array([m.usable_bits for m in accelerator.memories], np.int64),
        members=members,
        member_level=member_level,
        n_members=np.array([len(m.operands) for m in accelerator.memories], np.int64),
        mac_energy=computation.macs * accelerator.mac_energy,
        fractional=any(not np.array_equal(a, b) for a, b in zip(fraction, whole, strict=True)),
        fraction=fraction,
        whole=whole,
    )


def _axes(layer: UnrolledLayer) -> _Axes:
    dims, tensors = layer.computation.dims, layer.computation.tensors
    sums = [[axis for axis in t.axes if len(axis.terms) == 2] for t in tensors]
    width = max(1, max(len(s) for s in sums))
    pairs = np.zeros((len(tensors), width, 2), np.int64)
    scales = np.ones((len(tensors), width, 2))
    for t, found in enumerate(sums):
        for x, axis in enumerate(found):
            common = math.gcd(*(c for _, c in axis.terms))
            pairs[t, x] = [dims.index(d) for d, _ in axis.terms]
            scales[t, x] = [c / common for _, c in axis.terms]
    return _Axes(pairs, scales, np.array([len(s) for s in sums], np.int64))


def _stages(layer: UnrolledLayer, chain: tuple[int, ...]) -> list[frozenset[str]]:
    """The different sets of array dimensions that the memories of a chain serve, from the inside."""
    return list(dict.fromkeys(layer.accelerator.memories[m].served for m in chain))


def _sizes(layer: UnrolledLayer, stages: list[list[frozenset[str]]], axes: _Axes, *, whole: bool) -> Sizes:
    computation = layer.computation
    dims, tensors = computation.dims, computation.tensors
    along = layer.units_along(whole=whole)
    n_stages = max(len(s) for s in stages)
    spatial = np.ones((len(tensors), n_stages, len(dims)))
    alone, boost = np.ones(spatial.shape[:2]), np.ones(spatial.shape[:2])
    bound = np.ones(axes.pairs.shape[:2])
    full = [float(layer.passes[d]) * math.prod(loops.get(d, 1.0) for loops in along.values()) for d in dims]
    for t, tensor in enumerate(tensors):
        single = {axis.terms[0][0] for axis in tensor.axes if len(axis.terms) == 1}
        below: frozenset[str] = frozenset()
        for s, served in enumerate(stages[t]):
            units = dict.fromkeys(dims, 1.0)
            product = 1.0
            for loops in (along[a] for a in along if a in served):
                for dim, count in loops.items():
                    units[dim] *= count
                    product *= count if dim in single else 1.0
            step = [math.prod(along[a].get(d, 1.0) for a in along if a in served - below) for d in dims]
            spatial[t, s] = [units[d] for d in dims]
            alone[t, s] = product
            boost[t, s] = max(1.0, _round(_elements(tensor, dims, step)))
            below = served
        for x in range(axes.n_pairs[t]):
            a, b = axes.pairs[t, x]
            bound[t, x] = axis_length(full[a], full[b], *axes.scales[t, x])
    return Sizes(spatial, alone, boost, bound)


def _elements(tensor: Tensor, dims: tuple[str, ...], sizes: list[float]) -> float:
    """Distinct elements touched when dimension i runs over `sizes[i]` values."""
    total = 1.0
    for axis in tensor.axes:
        lengths = [sizes[dims.index(d)] for d, _ in axis.terms]
        if len(lengths) == 1:
            total *= lengths[0]
        else:
            common = math.gcd(*(c for _, c in axis.terms))
            total *= axis_length(lengths[0], lengths[1], *(c / common for _, c in axis.terms))
    return total


def _round(value: float) -> float:
    return float(math.floor(value + 0.5))


def _units(sizes: Sizes, stage: IntArray, stages: list[list[frozenset[str]]]) -> FloatArray:
    """``T x V`` instances in use: the units laid above a level, rounded."""
    units = np.ones(stage.shape)
    for t, found in enumerate(stages):
        top = sizes.spatial[t, len(found) - 1]
        for v in range(stage.shape[1]):
            units[t, v] = _round(float(np.prod(top / sizes.spatial[t, stage[t, v]])))
    return units


def _reduces_above(sizes: Sizes, stage: IntArray, n_stages: int, reduced: IntArray) -> IntArray:
    """``V`` 1 where units of a reduced dimension lie above a level of the output."""
    top = sizes.spatial[-1, n_stages - 1]
    above = [(reduced * (top > sizes.spatial[-1, s])).any() for s in stage[-1]]
    return np.array(above, np.int64)


def _used_ports(layer: UnrolledLayer, chains: list[tuple[int, ...]], n_levels: int) -> IntArray:
    """``T x V x 4`` the port of each move, -1 where nothing moves: inputs only inwards, nothing above the outermost level."""
    memories, tensors = layer.accelerator.memories, layer.computation.tensors
    first = np.cumsum([0, *(len(m.ports) for m in memories)])
    used = np.full((len(tensors), n_levels, len(DIRECTIONS)), -1, np.int64)
    for t, tensor in enumerate(tensors):
        for v, m in enumerate(chains[t]):
            for column, direction in enumerate(DIRECTIONS):
                outwards = direction in ("fl", "th") and tensor.role is not Role.OUTPUT
                above = direction in ("th", "fh") and v == len(chains[t]) - 1
                index = memories[m].port(tensor.role, direction)
                if index is not None and not outwards and not above:
                    used[t, v, column] = first[m] + index
    return used


def _served(layer: UnrolledLayer, port: IntArray, chains: list[tuple[int, ...]]) -> tuple[IntArray, IntArray, IntArray]:
    """What goes through each port (`Layer.served`, `n_served`, `shared`)."""
    found: list[list[tuple[int, int, int]]] = []
    for m, memory in enumerate(layer.accelerator.memories):
        for item in memory.ports:
            moves = []
            for role, direction in item.serves:
                if role not in memory.operands:
                    continue
                t = layer.tensor_of(role)
                v = chains[t].index(m)
                column = DIRECTIONS.index(direction)
                if port[t, v, column] == len(found):
                    moves.append((t, v, column))
            found.append(moves)
    served = np.zeros((len(found), max(1, max(len(f) for f in found)), 3), np.int64)
    for p, moves in enumerate(found):
        served[p, : len(moves)] = np.array(moves, np.int64).reshape(-1, 3)
    output = len(layer.computation.tensors) - 1
    shared = [len({t for t, _, _ in moves if t != output}) > 1 for moves in found]
    return served, np.array([len(f) for f in found], np.int64), np.array(shared, np.int64)
