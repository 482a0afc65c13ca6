"""What no tree on cores of several kinds can beat (docs/explanation/many-cores.md, rule M127).

Parts of a layer are of any size, so that a kind is judged by the least cycles and energy of an output, whatever the tile.
"""

from itertools import product

import numpy as np

from codesign.arch.core_kinds import kind_counts
from codesign.arch.many_core import VectorMacCore
from codesign.core.kernel_library import FloatArray
from codesign.scheduling.segments.evaluate import Evaluator
from codesign.scheduling.segments.kernels import bound_parts
from codesign.scheduling.segments.kernels.core_mapper import FIRST_AXIS, SECOND_AXIS
from codesign.scheduling.segments.kernels.machine import Problem
from codesign.scheduling.segments.layers import LayerKind, SegmentLayer

SHARES = (1.0, 0.9, 0.75, 0.5, 0.25, 0.0)
"""Shares of the price of time that core time has; the rest is the DRAM's."""

LEVELS = 33
"""Ways to divide the price of core time between two kinds."""


def cycles_of_output(layer: SegmentLayer, core: VectorMacCore, mapped: bool, batch: int) -> float:
    """The least cycles of an output on a core, whatever its tile.

    Every axis of elements is given to one dimension, and a tile has at least one round of each. An architecture does at most a MAC
    a cycle in each of its units.

    Args:
        layer: The layer.
        core: The kind's record.
        mapped: Whether the exact mapper maps it.
        batch: Samples of the whole.
    """
    if not layer.computes:
        return layer.operands * layer.R * layer.S / core.vector_unit_macs
    grouped = layer.kind is LayerKind.GROUP_CONV
    channels = layer.C // layer.groups if grouped else layer.C
    kernels = layer.K // layer.groups if grouped else layer.K
    if mapped:
        return channels * layer.R * layer.S / core.macs
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
    return float(least * layer.R * layer.S)


def energy_of_output(layer: SegmentLayer, core: VectorMacCore, mapped: bool) -> float:
    """The least energy of an output on a core: its operations, its way through sums, outputs and the big buffer to the network."""
    leaving = core.big.read_pj
    if not layer.computes:
        return leaving + layer.operands * layer.R * layer.S * core.vector_unit_pj
    channels = layer.C // layer.groups if layer.kind is LayerKind.GROUP_CONV else layer.C
    macs = channels * layer.R * layer.S
    if mapped:
        return leaving + macs * core.mac_pj
    sums = macs * max(1.0 / core.vector, 1.0 / channels)
    inside = (sums + 1) * core.sums.read_pj + sums * core.sums.write_pj + core.outputs.read_pj + core.outputs.write_pj
    return leaving + macs * core.mac_pj + inside + core.big.write_pj


def filled_pj(problem: Problem, evaluator: Evaluator) -> float:
    """Energy of filling each word of inputs and weights into one big buffer, of the kind that takes least for it."""
    batch, total = int(problem.batches[-1]), 0.0
    write = min(core.big.write_pj for core in evaluator.records)
    for i, layer in enumerate(evaluator.network.layers):
        operands = layer.operands if layer.kind is LayerKind.ELTWISE else 1
        words = bound_parts.input_words(problem, i) * operands * batch
        total += write * (words + layer.weight_words * (batch if layer.weight_inputs else 1))
    return total


def layer_loads(problem: Problem, evaluator: Evaluator) -> tuple[FloatArray, FloatArray]:
    """Energy and core time of every layer for the whole batch if one kind does it all, layers x kinds each."""
    batch, ghz = int(problem.batches[-1]), evaluator.system.clock_ghz
    shape = len(evaluator.network.layers), evaluator.kinds
    energies, times = np.zeros(shape), np.zeros(shape)
    for i, layer in enumerate(evaluator.network.layers):
        outputs = layer.K * layer.H * layer.W * batch
        for kind, core in enumerate(evaluator.records):
            mapped = bool(problem.mapped[kind])
            energies[i, kind] = outputs * energy_of_output(layer, core, mapped)
            times[i, kind] = outputs * cycles_of_output(layer, core, mapped, batch) / ghz
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
