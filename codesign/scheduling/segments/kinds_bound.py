"""What no tree on cores of several kinds can beat (docs/explanation/many-cores.md, rule M127).

Parts of a layer are of any size, so that a kind is judged by the least cycles and energy of an output, whatever the tile.
"""

from functools import cache
from itertools import product

import numpy as np

from codesign.arch.core_kinds import kind_counts, own_architecture, record_of
from codesign.arch.many_core import CoreKind, VectorMacCore
from codesign.core.kernel_library import FloatArray
from codesign.cost.arrays import encode_problem
from codesign.scheduling.segments.evaluate import Evaluator
from codesign.scheduling.segments.kernels import bound_parts
from codesign.scheduling.segments.kernels.core_mapper import FIRST_AXIS, SECOND_AXIS
from codesign.scheduling.segments.kernels.machine import Problem
from codesign.scheduling.segments.layers import LayerKind, SegmentLayer
from codesign.scheduling.segments.mapped_cores import computation_of
from codesign.scheduling.segments.system_arrays import tile_sizes

SHARES = (1.0, 0.9, 0.75, 0.5, 0.25, 0.0)
"""Shares of the price of time that core time has; the rest is the DRAM's."""

ALL_ROLES = frozenset({"input", "weight", "output"})

LEVELS = 33
"""Ways to divide the price of core time between two kinds."""


def sizes_of_group(layer: SegmentLayer) -> tuple[int, int]:
    """Input and output channels of a group of a layer that computes."""
    groups = layer.groups if layer.kind is LayerKind.GROUP_CONV else 1
    return layer.C // groups, layer.K // groups


def inputs_of_output(layer: SegmentLayer, mapped: bool) -> float:
    """Input words that a tile of a layer that computes reads for each of its outputs, at least.

    The exact mapper reads the words of all steps of a window. The template counts as many rows and columns as the output has, where
    steps are no longer than the window.
    """
    channels, kernels = sizes_of_group(layer)
    if mapped:
        return channels / kernels * min(layer.stride_h, layer.R) * min(layer.stride_w, layer.S)
    return channels / kernels if layer.stride_h <= layer.R and layer.stride_w <= layer.S else 0.0


@cache
def mapped_output(layer: SegmentLayer, kind: CoreKind) -> tuple[float, float]:
    """The least cycles and energy of an output of a layer on an architecture, whatever its tile (rule M127).

    Every unit does a MAC a cycle at most. The buffer that the network fills reads inputs and takes each output once, at its
    bandwidth. Where each unit has a memory of its own, each MAC reads two words there and adds to a third.
    """
    architecture, record = own_architecture(kind), record_of(kind)
    prices = encode_problem(computation_of(tuple(tile_sizes(layer, layer.K, 1, layer.H, layer.W))), architecture)
    channels, _ = sizes_of_group(layer)
    macs, entering = channels * layer.R * layer.S, inputs_of_output(layer, True)
    read_rate, write_rate = prices.bandwidth[0]
    cycles = macs / record.macs
    if read_rate:
        cycles = max(cycles, entering * prices.words[0, 0] / read_rate)
    if write_rate:
        cycles = max(cycles, prices.words[0, 2] / write_rate)
    energy = macs * prices.mac_energy + entering * prices.energy[0, 0, 0] + prices.energy[0, 2, 2]
    inner = architecture.levels[-1]
    if inner.fanout.size == 1 and len(architecture.levels) > 1 and inner.keep >= ALL_ROLES:
        energy += macs * (prices.energy[-1, 0, 0] + prices.energy[-1, 1, 0] + prices.energy[-1, 2, 2])
    return float(cycles), float(record.big.read_pj + energy)


def cycles_of_output(layer: SegmentLayer, core: VectorMacCore, batch: int) -> float:
    """The least cycles of an output on a core of the template, whatever its tile.

    Every axis of elements is given to one dimension, and a tile has at least one round of each. The big buffer reads inputs at its
    bandwidth.

    Args:
        layer: The layer.
        core: The kind's record.
        batch: Samples of the whole.
    """
    if not layer.computes:
        return layer.operands * layer.R * layer.S / core.vector_unit_macs
    grouped = layer.kind is LayerKind.GROUP_CONV
    channels, kernels = sizes_of_group(layer)
    together = max(1, min(core.vector // channels, core.lanes // kernels)) if grouped else 1
    least = np.inf
    for first, second in zip(FIRST_AXIS, SECOND_AXIS, strict=True):
        units = [1, 1, 1, 1, 1]  # of C, K, H, W, B
        units[first] *= core.elements_a
        units[second] *= core.elements_o
        lanes = core.lanes * units[1]
        over_k = max(1.0 / lanes, 1.0 / kernels)
        if grouped:
            over_k = min(over_k, -(-kernels // lanes) / (together * kernels))
        over_b = max(1.0 / units[4], 1.0 / batch)
        if layer.weight_inputs:  # every sample is a group
            over_k, over_b = 1.0 / lanes, 1.0
        places = max(1.0 / units[2], 1.0 / layer.H) * max(1.0 / units[3], 1.0 / layer.W)
        least = min(least, -(-channels // (core.vector * units[0])) * over_k * places * over_b)
    entering = inputs_of_output(layer, False) / core.buffer_words_per_cycle
    in_groups = grouped or (layer.weight_inputs and batch > 1)
    if in_groups and min(core.vector // channels, core.lanes // kernels) == 0:
        entering = 0.0  # the template counts no time for words of groups that are larger than its elements
    return float(max(least * layer.R * layer.S, entering))


def energy_of_output(layer: SegmentLayer, core: VectorMacCore) -> float:
    """The least energy of an output on a core of the template, whatever its tile: operations, buffers, its way to the network.

    An element reads an input for all its lanes, and weights for as many outputs as its sums have room for.
    """
    leaving = core.big.read_pj
    if not layer.computes:
        return leaving + layer.operands * layer.R * layer.S * core.vector_unit_pj
    channels, kernels = sizes_of_group(layer)
    macs = channels * layer.R * layer.S
    sums = macs * max(1.0 / core.vector, 1.0 / channels)
    inside = (sums + 1) * core.sums.read_pj + sums * core.sums.write_pj + core.outputs.read_pj + core.outputs.write_pj
    inside += macs * max(1.0 / core.lanes, 1.0 / kernels) * core.inputs.read_pj
    room = max(1, core.sums.bytes // core.lanes)
    inside += macs * max(1.0 / room, 1.0 / (layer.H * layer.W)) * core.weights.read_pj
    return leaving + macs * core.mac_pj + inside + core.big.write_pj + inputs_of_output(layer, False) * core.big.read_pj


def filled_pj(problem: Problem, evaluator: Evaluator) -> float:
    """Energy of filling each word of inputs and weights into one big buffer, of the kind that takes least for it.

    Weights of layers that compute are read there once, and filled into a small buffer of the template.
    """
    batch, total = int(problem.batches[-1]), 0.0
    write = min(core.big.write_pj for core in evaluator.records)
    weight = min(core.big.write_pj + core.big.read_pj + core.weights.write_pj for core in evaluator.records)
    for i, layer in enumerate(evaluator.network.layers):
        operands = layer.operands if layer.kind is LayerKind.ELTWISE else 1
        words = bound_parts.input_words(problem, i) * operands * batch
        total += write * words + weight * layer.weight_words * (batch if layer.weight_inputs else 1)
    return total


def layer_loads(problem: Problem, evaluator: Evaluator) -> tuple[FloatArray, FloatArray]:
    """Energy and core time of every layer for the whole batch if one kind does it all, layers x kinds each."""
    batch, ghz = int(problem.batches[-1]), evaluator.system.clock_ghz
    shape = len(evaluator.network.layers), evaluator.kinds
    energies, times = np.zeros(shape), np.zeros(shape)
    for i, layer in enumerate(evaluator.network.layers):
        outputs = layer.K * layer.H * layer.W * batch
        for kind, core in enumerate(evaluator.records):
            if problem.mapped[kind] and layer.computes:
                cycles, energy = mapped_output(layer, evaluator.core_kinds[kind])
            else:
                cycles, energy = cycles_of_output(layer, core, batch), energy_of_output(layer, core)
            energies[i, kind] = outputs * energy
            times[i, kind] = outputs * cycles / ghz
    return energies, times


def price_shares(kinds: int) -> FloatArray:
    """Ways to divide a price between the core times of all kinds, n x kinds; each adds up to 1."""
    if kinds == 2:
        first = np.linspace(0.0, 1.0, LEVELS)
        return np.stack([first, 1.0 - first], axis=1)
    found = [row for row in product(range(9), repeat=kinds) if sum(row) == 8]
    return np.array(found) / 8.0


def kinds_lines(problem: Problem, evaluator: Evaluator, fixed: float, moving: float) -> tuple[float, float, FloatArray]:
    """Least energy and time, and lines ``energy + m time >= c`` as rows of m and c (rule M127).

    A tree takes at least the core time of each kind over its cores, and so any mean of these. Each output goes to the kind that is
    cheapest at the prices.

    Args:
        problem: Network and system.
        evaluator: The same, with the network's layers.
        fixed: Energy that is spent besides.
        moving: Time that the DRAM needs.
    """
    energies, times = layer_loads(problem, evaluator)
    lost = 0.0  # where times of runs are truncated, a core loses one for each run of a layer, at most
    if evaluator.system.clock_ghz != 1:
        lost = float(problem.batches[-1] * len(times))
    fixed += filled_pj(problem, evaluator)
    counts = np.array(kind_counts(evaluator.system), np.float64)
    weighted = price_shares(evaluator.kinds)[:, None, :] * (times / counts)[None]
    least_time = max(moving, float(weighted.min(axis=2).sum(axis=1).max()) - lost)
    least_energy = fixed + float(energies.min(axis=1).sum())
    lines = []
    for price in least_energy / max(least_time, 1e-9) * np.logspace(-1.5, 1.5, 48):
        totals = []
        for share in SHARES:
            parts = (energies[None] + price * share * weighted).min(axis=2).sum(axis=1).max()
            totals.append(fixed + price * ((1.0 - share) * moving - share * lost) + float(parts))
        lines.append((price, max(totals)))
    return least_energy, least_time, np.array(lines)
