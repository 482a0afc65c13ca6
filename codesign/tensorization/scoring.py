"""Scoring programs of intrinsic calls in compiled code: formulas Q1-Q9 of `codesign.tensorization.program_cost` on integer arrays.

`codesign.tensorization.program_cost` is the readable form; tests hold the two equal. What the loops do on chip is scored by the one cost kernel.
"""

import numpy as np

from codesign.core.jit import njit, njit_apart
from codesign.cost.columns import AXES, CAPACITY, CYCLES, READS, TILE, UPDATES, WORDS
from codesign.cost.kernel import score
from codesign.cost.packed import VALID
from codesign.cost.walk import axis_extent, box_words, mac_count
from codesign.mapping.nest import BYPASSED, DIM, FACTOR, KIND, LEVEL, TEMPORAL, FloatArray, IntArray, Nest
from codesign.tensorization.encoding import (
    ARRAY_OVERHEAD,
    ATOM_BYTES,
    BURST_BYTES,
    BURST_OVERHEAD,
    BUS_BYTES,
    CALL_CYCLES,
    CALL_OVERHEAD,
    DMA_PJ,
    HOST_CALL,
    HOST_INDEX,
    HOST_LOOP,
    HOST_TRANSFER,
    INTRINSIC_MACS,
    ROW_BYTES,
    ROW_PJ,
    TRANSFER_PJ,
    ProgramArrays,
)
from codesign.tensorization.intrinsic_core import LOCAL, SCRATCHPAD

FITS, TOO_LARGE = 0, 1
"""Status of a program: it runs, or some memory is too small for it."""

JOINED = 2
"""Column of a program's loops (after `DIM`, `FACTOR`): 1 where a host loop is fused with the one outside it."""

LATENCY, ENERGY, ARRAY, DRAM_TIME, HOST, CALLS, TRIPS, OVERLAP, USED_BITS, FIRST_TENSOR = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
"""Entries of a result; after them, for every tensor, the DMA engine's cycles and the contiguous run in elements."""


def result_width(tensors: int) -> int:
    """Length of a result for a computation of so many tensors."""
    return FIRST_TENSOR + 2 * tensors


@njit_apart
def part_bits(problem: ProgramArrays, sizes: IntArray) -> int:
    """Bits that the parts of all tensors take in the scratchpad (Q6)."""
    kernel = problem.kernel
    bits = 0
    for t in range(kernel.tensor.shape[0]):
        words = box_words(kernel.terms, kernel.first_term, kernel.tensor[t, AXES], t, sizes)
        bits += words * kernel.element_bits[SCRATCHPAD, t]
    return bits


@njit
def _build_nest(problem: ProgramArrays, choice: int, loops: IntArray, count: int, host: int) -> int:
    """The loop nest in `problem.loops` and `problem.position`; returns its number of loops. Leaves `part` at the tile."""
    kernel, part, nest = problem.kernel, problem.part, problem.loops
    for d in range(part.shape[0]):
        part[d] = 1
    for i in range(problem.n_follow[choice]):
        part[problem.follow[choice, i, 0]] *= problem.follow[choice, i, 1]
    kept = problem.stationary[choice]
    start = count
    while kept >= 0 and start > host:  # Q3: the local part grows outwards while it fits
        d = loops[start - 1, DIM]
        part[d] *= loops[start - 1, FACTOR]
        words = box_words(kernel.terms, kernel.first_term, kernel.tensor[kept, AXES], kept, part)
        if words * kernel.element_bits[LOCAL, kept] > kernel.level_int[LOCAL, CAPACITY]:
            break
        start -= 1
    for t in range(problem.position.shape[1]):
        problem.position[0, t] = 0
        problem.position[SCRATCHPAD, t] = host
        problem.position[LOCAL, t] = BYPASSED
    n = 0
    for i in range(count + 1):
        if i == start:
            for s in range(problem.n_side[choice]):
                nest[n, DIM] = problem.side[choice, s, 0]
                nest[n, FACTOR] = problem.side[choice, s, 1]
                nest[n, KIND] = problem.side[choice, s, 2]
                nest[n, LEVEL] = SCRATCHPAD
                n += 1
            if kept >= 0:
                problem.position[LOCAL, kept] = n
        if i < count:
            n = _append(nest, n, loops[i, DIM], loops[i, FACTOR])
    for i in range(problem.n_follow[choice]):
        n = _append(nest, n, problem.follow[choice, i, 0], problem.follow[choice, i, 1])
    return n


@njit
def _append(nest: IntArray, n: int, dim: int, factor: int) -> int:
    nest[n, DIM] = dim
    nest[n, FACTOR] = factor
    nest[n, KIND] = TEMPORAL
    nest[n, LEVEL] = -1
    return n + 1


@njit
def _set_padded(problem: ProgramArrays, choice: int, loops: IntArray, count: int) -> None:
    """Write the padded computation into the kernel (Q1)."""
    kernel = problem.kernel
    for d in range(kernel.bounds.shape[0]):
        kernel.bounds[d] = problem.tile[choice, d]
    for i in range(count):
        kernel.bounds[loops[i, DIM]] *= loops[i, FACTOR]
    for t in range(kernel.tensor.shape[0]):
        kernel.tensor[t, WORDS] = box_words(kernel.terms, kernel.first_term, kernel.tensor[t, AXES], t, kernel.bounds)


@njit
def _dram_pj_per_bit(constants: FloatArray, burst_bytes: float) -> float:
    """D2 of docs/reference/technology.md, as `codesign.arch.dram.dram_energy_pj_per_bit`."""
    moved = np.ceil(burst_bytes / constants[ATOM_BYTES]) * constants[ATOM_BYTES]
    rows = np.ceil(burst_bytes / constants[ROW_BYTES])
    return constants[TRANSFER_PJ] * moved / burst_bytes + constants[ROW_PJ] * rows / (8 * burst_bytes)  # type: ignore[no-any-return]


@njit
def _transfer(problem: ProgramArrays, t: int, result: FloatArray) -> tuple[float, float, float]:
    """Q4, Q5 of one tensor: (descriptors, energy, energy that the kernel charged). Writes its cycles and run."""
    kernel, constants = problem.kernel, problem.constants
    counted = float(kernel.counts[0, t, READS] + kernel.counts[0, t, UPDATES])
    words, run, whole = counted, 1, True
    for a in range(kernel.tensor[t, AXES] - 1, -1, -1):
        full = axis_extent(kernel.terms, kernel.first_term, a, t, problem.bounds)
        words *= full / axis_extent(kernel.terms, kernel.first_term, a, t, kernel.bounds)
        if whole:
            here = axis_extent(kernel.terms, kernel.first_term, a, t, problem.part)
            run *= here
            whole = here >= full
    run_bytes = np.ceil(run * problem.bits[t] / 8)
    burst = constants[BURST_BYTES]
    cycles = np.ceil(run_bytes / constants[BUS_BYTES]) + np.ceil(run_bytes / burst) * constants[BURST_OVERHEAD]
    result[FIRST_TENSOR + 2 * t] = words / run * cycles
    result[FIRST_TENSOR + 2 * t + 1] = run
    pj_per_bit = _dram_pj_per_bit(constants, min(run_bytes, burst)) + constants[DMA_PJ]
    charged = kernel.counts[0, t, READS] * kernel.pair[0, t, 0] + kernel.counts[0, t, UPDATES] * kernel.pair[0, t, 2]
    return counted / kernel.counts[SCRATCHPAD, t, TILE], words * problem.bits[t] * pj_per_bit, charged


@njit
def _host(constants: FloatArray, loops: IntArray, host: int, calls: float, parts: float) -> tuple[float, float]:
    """Q7, and the iterations that overlap (Q8)."""
    cycles = calls * constants[HOST_CALL] + parts * constants[HOST_TRANSFER]
    iterations, overlap, fused = 1.0, 1.0, 0.0
    for i in range(host):
        iterations *= loops[i, FACTOR]
        if loops[i, JOINED] == 1:
            overlap *= loops[i, FACTOR]
            fused += 1.0
        else:
            overlap = float(loops[i, FACTOR])
            fused = 0.0
        if i + 1 == host or loops[i + 1, JOINED] == 0:
            cycles += iterations * (constants[HOST_LOOP] + fused * constants[HOST_INDEX])
    return cycles, overlap


@njit
def _fill_part(problem: ProgramArrays, choice: int, loops: IntArray, count: int, host: int) -> tuple[float, float]:
    """Set `part` to what one trip of the host covers; returns the trips, and the inner iterations of each."""
    part = problem.part
    trips, inner = 1.0, 1.0
    for d in range(part.shape[0]):
        part[d] = problem.tile[choice, d]
    for i in range(count):
        if i < host:
            trips *= loops[i, FACTOR]
        else:
            inner *= loops[i, FACTOR]
            part[loops[i, DIM]] *= loops[i, FACTOR]
    return trips, inner


@njit
def score_program(
    problem: ProgramArrays, choice: int, loops: IntArray, count: int, host: int, result: FloatArray
) -> int:
    """Score one program.

    Args:
        problem: The computation on the core; its scratch part is overwritten.
        choice: Number of the tensorize choice.
        loops: ``N x 3`` dimension, iterations (> 1), `JOINED`; host loops first, then inner ones, outermost first.
        count: Number of loops.
        host: How many of them run on the host.
        result: Where the figures go, `result_width` long.

    Returns:
        `FITS` or `TOO_LARGE`; latency and energy are infinite for the latter.
    """
    kernel, constants, part = problem.kernel, problem.constants, problem.part
    _set_padded(problem, choice, loops, count)
    n = _build_nest(problem, choice, loops, count, host)
    result[LATENCY] = np.inf
    result[ENERGY] = np.inf
    trips, inner = _fill_part(problem, choice, loops, count, host)
    result[USED_BITS] = part_bits(problem, part) * (2 if host > 0 else 1)
    if result[USED_BITS] > kernel.level_int[SCRATCHPAD, CAPACITY]:
        return TOO_LARGE
    status, energy, _ = score(kernel, Nest(problem.loops, problem.position), n)
    if status != VALID:
        return TOO_LARGE
    calls = 1.0
    for d in range(part.shape[0]):
        part[d] = min(part[d], problem.bounds[d])
        calls *= -(-problem.bounds[d] // problem.tile[choice, d])
    made = calls / (trips * inner)
    dram, parts = 0.0, 0.0
    energy -= mac_count(kernel) * kernel.mac_energy
    dram_pj = 0.0
    for t in range(kernel.tensor.shape[0]):
        moved, spent_pj, charged_pj = _transfer(problem, t, result)
        parts += moved
        dram_pj += spent_pj
        energy -= charged_pj
        dram += result[FIRST_TENSOR + 2 * t]
    array = calls * (constants[CALL_CYCLES] + constants[CALL_OVERHEAD]) + trips * constants[ARRAY_OVERHEAD]
    array = max(array, made * kernel.spent[SCRATCHPAD, CYCLES], made * kernel.spent[LOCAL, CYCLES])
    host_cycles, overlap = _host(constants, loops, host, calls, parts)
    slowest = max(array, dram, host_cycles)
    result[LATENCY] = slowest + (array + dram + host_cycles - slowest) / overlap
    result[ENERGY] = calls * constants[INTRINSIC_MACS] * kernel.mac_energy + made * energy + dram_pj
    result[ARRAY] = array
    result[DRAM_TIME] = dram
    result[HOST] = host_cycles
    result[CALLS] = calls
    result[TRIPS] = trips
    result[OVERLAP] = overlap
    return FITS


@njit
def score_programs(
    problem: ProgramArrays,
    choices: IntArray,
    loops: IntArray,
    counts: IntArray,
    hosts: IntArray,
    results: FloatArray,
) -> None:
    """Score ``B`` programs: `choices`, `counts`, `hosts` are ``B``, `loops` ``B x N x 3``, `results` ``B x`` `result_width`."""
    for b in range(choices.shape[0]):
        score_program(problem, choices[b], loops[b], counts[b], hosts[b], results[b])
