"""The least that a layer costs on any cores, in any batch and partition: what the bound adds up (rules M61 to M70)."""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import FloatArray, IntArray
from codesign.scheduling.segments.kernels import layout
from codesign.scheduling.segments.kernels.core_mapper import BIG, CYCLES, ENERGY, FIGURES, ceil_div
from codesign.scheduling.segments.kernels.layout import own_channels
from codesign.scheduling.segments.kernels.machine import CAPACITY, CLOCK, RESERVE, Problem
from codesign.scheduling.segments.kernels.tile_figures import kind_figures, whole_batch


class Prices(NamedTuple):
    """Energy of a word on links of a system, at least.

    Attributes:
        read: From the ports of a DRAM to the nearest core, a word over all ports in equal parts.
        written: From the nearest core to them.
        floor: What rounding takes, at most, from words that are spread over runs.
        port_words: Words a cycle from all ports together; 0 where links do not bound runs.
        reach: Of links by which n cores receive a word that one place has, n from 0 (rule M66).
        more: Of links by which n cores receive a word that one of them has received.
        ways: Of a word for each of n cores from the ports of a DRAM, together.
    """

    read: float
    written: float
    floor: float
    port_words: int
    reach: FloatArray
    more: FloatArray
    ways: FloatArray


class Spread(NamedTuple):
    """What the bound knows of a layer's words.

    Attributes:
        producers: Of inputs whose words count; 0 where a release drops them.
        input_way_pj: Energy of an input word that is counted elsewhere.
        run_words: Weights from DRAM, spread over all runs.
        sample_words: Words of each sample from and to DRAM.
        prices: Of a word on links.
    """

    producers: int
    input_way_pj: float
    run_words: float
    sample_words: float
    prices: Prices


@njit
def read_positions(size_out: int, kernel: int, stride: int, pad: int, size_in: int) -> int:
    """Input rows that are read by any output row, at least."""
    reach = min((size_out - 1) * stride + kernel - pad, size_in)
    return max(1, min(reach, size_out * kernel - 2 * kernel) if stride > kernel else reach)


@njit
def input_words(problem: Problem, layer: int) -> int:
    """Different input words of a sample that a layer reads, at least."""
    shape = problem.table[layer]
    kind = shape[layout.TYPE]
    if kind in (layout.ELTWISE, layout.PTP, layout.TRANSPOSE):
        return shape[layout.OUT_K] * shape[layout.OUT_H] * shape[layout.OUT_W]  # type: ignore[no-any-return]
    channels = shape[layout.OUT_K] if kind == layout.POOL else shape[layout.C]
    if kind == layout.FC:
        return channels * (shape[layout.R] - shape[layout.PAD_H]) * (shape[layout.S] - shape[layout.PAD_W])  # type: ignore[no-any-return]
    rows = read_positions(
        shape[layout.H], shape[layout.R], shape[layout.STRIDE_H], shape[layout.PAD_H], shape[layout.IN_H]
    )
    columns = read_positions(
        shape[layout.W], shape[layout.S], shape[layout.STRIDE_W], shape[layout.PAD_W], shape[layout.IN_W]
    )
    return channels * rows * columns  # type: ignore[no-any-return]


@njit
def tile_costs(problem: Problem, layer: int, sizes: IntArray, costs: FloatArray) -> None:
    """Energy and cycles of one core's tiles; an energy below 0 where there is no mapping.

    Args:
        problem: Network and system.
        layer: Number of the layer.
        sizes: Channels, samples, rows and columns of each tile, n x 4.
        costs: Receives energy and cycles, n x 2.
    """
    figures = np.zeros(FIGURES + 1)
    for i in range(sizes.shape[0]):
        k, b, h, w = sizes[i, 0], sizes[i, 1], sizes[i, 2], sizes[i, 3]
        good = kind_figures(problem, 0, layer, k, b, h, w, figures)
        costs[i, 0] = figures[ENERGY] if good else -1.0
        costs[i, 1] = figures[CYCLES]


@njit
def _window(size_out: int, kernel: int, stride: int, pad: int, size_in: int) -> int:
    """Input rows between the first and the last that some output rows read, at least."""
    return max(1, min((size_out - 1) * stride + kernel - 2 * pad, size_in))


@njit
def least_bytes(problem: Problem, layer: int, batch: int, parts: IntArray) -> int:
    """Bytes of the fullest core of a layer while it runs, at least: the largest tile of inputs and weights (rule M67)."""
    shape = problem.table[layer]
    kind = shape[layout.TYPE]
    b, k = ceil_div(batch, parts[1]), ceil_div(shape[layout.OUT_K], parts[0])
    rows, columns = ceil_div(shape[layout.OUT_H], parts[2]), ceil_div(shape[layout.OUT_W], parts[3])
    weights = shape[layout.WEIGHT_WORDS] // shape[layout.OUT_K] * k
    if shape[layout.BATCHED_WEIGHT] == 1:
        weights *= b
    inputs = 0
    if kind in (layout.ELTWISE, layout.PTP):
        inputs = k * rows * columns * (shape[layout.OPERANDS] if kind == layout.ELTWISE else 1)
    elif kind in (layout.CONV, layout.GROUP_CONV, layout.POOL):
        high = _window(rows, shape[layout.R], shape[layout.STRIDE_H], shape[layout.PAD_H], shape[layout.IN_H])
        wide = _window(columns, shape[layout.S], shape[layout.STRIDE_W], shape[layout.PAD_W], shape[layout.IN_W])
        channels = shape[layout.C] if kind == layout.CONV else k if kind == layout.POOL else 1
        inputs = channels * high * wide
    return inputs * b + weights + problem.limits[0, RESERVE]  # type: ignore[no-any-return]


@njit
def shared_pj(problem: Problem, layer: int, batch: int, parts: IntArray, spread: Spread) -> float:
    """Energy, at least, of links that a layer's words take beyond the way to one core, for the whole batch (rule M66).

    A word that n cores receive takes n - 1 links or more, from wherever it comes. What counts drop by rounding is left out.

    Args:
        problem: Network and system.
        layer: Number of the layer.
        batch: Samples of a run.
        parts: Of channels, batch, height, width.
        spread: Of the layer.
    """
    shape, whole = problem.table[layer], whole_batch(problem)
    runs, cores = whole // batch, problem.fabric.width * problem.fabric.height
    energy = 0.0
    if not own_channels(shape[layout.TYPE]) and spread.producers > 0:
        each = spread.prices.reach[min(parts[0], shape[layout.OUT_K])] - spread.input_way_pj
        lost = spread.producers * runs * parts[1] * parts[2] * parts[3] * max(cores, problem.fabric.drams)
        energy += max(0.0, each) * max(0.0, float(input_words(problem, layer) * whole - lost))
    places = min(parts[2], shape[layout.OUT_H]) * min(parts[3], shape[layout.OUT_W])
    if shape[layout.BATCHED_WEIGHT] == 0:
        groups, copies = min(parts[0], shape[layout.OUT_K]), places * min(parts[1], batch)
        lost = problem.fabric.drams * (1 + problem.fabric.ports.shape[1])
        of_channel = shape[layout.WEIGHT_WORDS] // shape[layout.OUT_K]
        of_group = float(max(0, of_channel * max(1, shape[layout.OUT_K] // parts[0]) - lost))
        words = float(max(0, shape[layout.WEIGHT_WORDS] - groups * lost))
        rest = max(0.0, words - groups * of_group)
        weights = (
            of_group * spread.prices.ways[groups] + rest * spread.prices.ways[1] + words * spread.prices.more[copies]
        )
        weights -= shape[layout.WEIGHT_WORDS] * spread.prices.read
        if copies == 1:
            weights = max(weights, of_group * (spread.prices.ways[groups] - groups * spread.prices.read))
        energy += max(0.0, weights - whole * spread.prices.floor)
    return energy


@njit
def _run_time(problem: Problem, batch: int, cycles: float, spread: Spread) -> float:
    """Time of a run of a layer, at least: its cycles, or those of its words over all DRAMs or their ports (rule M70)."""
    drams, of_run = problem.fabric.drams, spread.run_words / (whole_batch(problem) // batch)
    moving = (of_run + spread.sample_words * batch - drams) / (drams * problem.fabric.dram_words)
    if spread.prices.port_words > 0:
        moving = max(moving, (of_run - drams * problem.fabric.ports.shape[1]) / spread.prices.port_words)
    return float(int(max(cycles, moving) / problem.prices[CLOCK]))


@njit
def layer_options(
    problem: Problem, layer: int, which: IntArray, costs: FloatArray, spread: Spread, options: FloatArray
) -> int:
    """Energy, core time and idle time of a layer for the whole batch, of every batch and partition (rules M61, M66, M67, M69).

    Energy is that of the cores, of filling their big buffers, and of links by which several cores receive the same word. Core
    time is that of all runs x cores over those of the system. Idle is the time of a run x the share of cores that it leaves.

    Args:
        problem: Network and system.
        layer: Number of the layer.
        which: Number of the tile of every batch and partition, batches x partitions.
        costs: Energy and cycles of these tiles on a core (`tile_costs`).
        spread: What else is known of its words.
        options: Receives energy, core time and idle time, batches x partitions rows of three.

    Returns:
        How many were written.
    """
    shape, whole = problem.table[layer], whole_batch(problem)
    read, write = problem.cores.pj[0, BIG, 0], problem.cores.pj[0, BIG, 1]
    operands = shape[layout.OPERANDS] if shape[layout.TYPE] == layout.ELTWISE else 1
    inputs = input_words(problem, layer) * operands
    outputs = shape[layout.OUT_K] * shape[layout.OUT_H] * shape[layout.OUT_W]
    batched = shape[layout.BATCHED_WEIGHT] == 1
    total, n = problem.fabric.width * problem.fabric.height, 0
    for batch_at in range(problem.batches.shape[0]):
        batch = problem.batches[batch_at]
        runs = whole // batch
        for row in range(problem.parts.shape[0]):
            parts = problem.parts[row]
            tile = which[batch_at, row]
            if costs[tile, 0] < 0.0:
                continue
            if least_bytes(problem, layer, batch, parts) > problem.limits[0, CAPACITY]:
                continue
            cores = parts[0] * parts[1] * parts[2] * parts[3]
            copies = 1 if own_channels(shape[layout.TYPE]) else min(parts[0], shape[layout.OUT_K])
            places = min(parts[2], shape[layout.OUT_H]) * min(parts[3], shape[layout.OUT_W])
            weights = float(shape[layout.WEIGHT_WORDS] * places)
            weights *= float(whole) if batched else float(parts[1])
            energy = costs[tile, 0] * cores * runs
            energy += weights * write + (outputs * read + inputs * copies * write) * float(whole)
            time = _run_time(problem, batch, costs[tile, 1], spread)
            options[n, 0] = energy + shared_pj(problem, layer, batch, parts, spread)
            options[n, 1] = time * float(cores * runs) / total
            options[n, 2] = time * (1.0 - cores / total)
            n += 1
    return n


@njit
def keep_best(options: FloatArray, n: int) -> int:
    """Keep the options that no earlier one equals or beats in time and idle time, energy rising; returns how many."""
    kept = 0
    for i in range(n):
        beaten = False
        for j in range(kept):
            if options[j, 1] <= options[i, 1] and options[j, 2] <= options[i, 2]:
                beaten = True
                break
        if not beaten:
            options[kept] = options[i]
            kept += 1
    return kept
