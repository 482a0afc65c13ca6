"""Bounds for one buffer that feeds an array of children with a memory each: DRAM > buffer > x * y > memory > MAC (rules LB3-LB6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from codesign.arch.architecture import Fanout, Links, Ports, StorageLevel
from codesign.bounds.array_choices import CYCLES, LOCAL_BUSY, READ, UPDATE
from codesign.bounds.dram import DramTables, keeps
from codesign.bounds.layer import LayerFacts
from codesign.bounds.parts import Figures, combinations
from codesign.core.jit import njit

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_ROLES = frozenset({"input", "weight", "output"})
_PRICED = 6
"""Columns of a row that have a price: `READ` to `LOCAL_WRITE`."""


def is_buffered(figures: Figures, layers: Sequence[LayerFacts]) -> bool:
    """Whether all these designs are of the family."""
    if figures.depth != 3:
        return False
    dram, buffer, local = figures.levels
    alone = all(f.size == 1 for k in (0, 2) for f in figures.fanouts[k])
    forwards = any(f.links is Links.PEER for f in figures.fanouts[1])
    whole = all(level.keep >= _ROLES for level in (*dram, *buffer))
    packed = not any(level.one_element_per_word for level in (*dram, *buffer, *local))
    return alone and not forwards and whole and packed and bool(layers)


@final
@dataclass(frozen=True)
class Arrays:
    """The different (array, buffer, memory) combinations of some designs, ready for the compiled loops.

    Args:
        structure: Which rows belong to it: ``a``.
        prices: Energy of a bit of each priced column: ``a x 6``.
        ports: Bits per cycle of the buffer's read and write port, words per cycle of a child's memory in bits; infinite where
            unlimited: ``a x 3``.
        one_port: Whether reads and writes of the buffer take turns: ``a``.
        fill_bits: Bits that enter the buffer, by layer: ``a x layers``.
        fill_pj: Energy of such a bit: ``a``.
        rows: Of all structures and layers, one after the other: ``r x 8``.
        start: Where those of a structure and layer begin: ``structures x (layers + 1)``.
    """

    structure: Indices
    prices: Floats
    ports: Floats
    one_port: NDArray[np.bool_]
    fill_bits: Floats
    fill_pj: Floats
    rows: Floats
    start: Indices


@final
@dataclass(frozen=True)
class Split:
    """Bounds of some designs before sums are taken.

    Args:
        arrays: The different arrays.
        array_pj: Dynamic energy by layer, of each different array: ``a x layers``.
        array_cycles: Likewise: ``a x layers``.
        array: Which of them a design has: ``n``.
        dram_pj: By layer, of each different memory system: ``m x layers``.
        dram_cycles: Likewise: ``m x layers``.
        dram: Which of them a design has: ``n``.
        mac_pj: Of one MAC: ``n``.
        macs: By layer: ``layers``.
    """

    arrays: Arrays
    array_pj: Floats
    array_cycles: Floats
    array: Indices
    dram_pj: Floats
    dram_cycles: Floats
    dram: Indices
    mac_pj: Floats
    macs: Floats

    def layers(self, design: int) -> tuple[Floats, Floats]:
        """Dynamic energy and cycles of each layer of a design: ``layers`` twice."""
        array, dram = self.array[design], self.dram[design]
        spent = self.array_pj[array] + self.dram_pj[dram] + self.mac_pj[design] * self.macs
        return np.asarray(spent), np.asarray(np.maximum(self.array_cycles[array], self.dram_cycles[dram]))

    def energy_pj(self, counts: Floats) -> Floats:
        """Dynamic energy of all layers: ``n``."""
        return np.asarray((self.array_pj @ counts)[self.array] + self._fixed_pj(counts))

    def _fixed_pj(self, counts: Floats, at: Indices | slice = slice(None)) -> Floats:
        """The part of it that does not depend on what the array does."""
        return np.asarray((self.dram_pj @ counts)[self.dram[at]] + self.mac_pj[at] * float(self.macs @ counts))

    def cycles(self, counts: Floats) -> Floats:
        """Cycles of all layers: ``n``."""
        return _sum_of_maxima(self.array_cycles, self.array, self.dram_cycles, self.dram, counts)

    def supports(self, at: Indices, slopes: Floats, counts: Floats) -> Floats:
        """Least of (slope x cycles + dynamic energy) over all mappings, layer by layer: ``n`` designs and ``n x q`` slopes to ``n x q``.

        Slopes are in pJ per cycle.
        """
        a = self.arrays
        return self._fixed_pj(counts, at)[:, None] + _supports(
            self.array[at], self.dram[at], slopes, self.dram_cycles, a.structure, a.prices, (a.ports, a.one_port),
            (a.fill_bits, a.fill_pj), a.rows, a.start, counts,
        )  # fmt: skip


@final
class BufferedTables:
    """The tables of a workload, shared by all designs of the family.

    Args:
        layers: The computations.
        dram: Least words across the DRAM interface.
    """

    def __init__(self, layers: Sequence[LayerFacts], dram: DramTables) -> None:
        self._layers, self._dram = layers, dram
        self._blocks: dict[tuple[object, ...], list[Floats]] = {}

    def bound(self, figures: Figures) -> Split:
        """Bounds of designs of the family (`is_buffered`)."""
        moved, read, capacity = self._dram_words(figures)
        memory, memory_of = combinations([figures.level[0], capacity])
        outer = [
            (dram, moved[c], read[c], self._dram.written(dram)) for d, c in memory for dram in [figures.levels[0][d]]
        ]
        arrays, array_of = self._arrays(figures, read, capacity)
        energy, cycles = _array_bounds(
            arrays.structure, arrays.prices, arrays.ports, arrays.one_port, arrays.fill_bits, arrays.fill_pj, arrays.rows,
            arrays.start,
        )  # fmt: skip
        macs, mac_pj = np.array([f.macs for f in self._layers]), figures.of_mac(lambda m: m.energy_pj or 0.0)
        spent, busy = np.stack([dram_pj(*given) for given in outer]), np.stack([dram_cycles(*given) for given in outer])
        return Split(arrays, energy, cycles, array_of, spent, busy, memory_of, mac_pj, macs)

    # ---- DRAM ------------------------------------------------------------------------------------

    def _dram_words(self, figures: Figures) -> tuple[Floats, Floats, Indices]:
        """Port words moved and read by layer for each different buffer size, and which size a design has."""
        sizes = [level.capacity_bytes for level in figures.levels[1]]
        distinct = {size: k for k, size in enumerate(dict.fromkeys(sizes))}
        found = []
        for size in distinct:
            design = int(np.flatnonzero(figures.level[1] == sizes.index(size))[0])
            found.append(self._dram.least(figures.architecture(design)))
        table = np.array(found)
        which = np.array([distinct[size] for size in sizes], dtype=np.int64)
        return table[:, :, 0], table[:, :, 1], which[figures.level[1]]

    # ---- arrays ----------------------------------------------------------------------------------

    def _arrays(self, figures: Figures, read: Floats, capacity: Indices) -> tuple[Arrays, Indices]:
        found, which = combinations([figures.fanout[1], figures.level[2], figures.level[1], capacity])
        structures: dict[tuple[object, ...], int] = {}
        blocks: list[list[Floats]] = []
        structure = np.zeros(len(found), dtype=np.int64)
        prices, ports = np.zeros((len(found), _PRICED)), np.zeros((len(found), 3))
        fill_pj, one_port = np.zeros(len(found)), np.zeros(len(found), dtype=np.bool_)
        word_bits = float(figures.levels[0][0].word_bits)
        for k, (f, inner, outer, _) in enumerate(found):
            fanout, local, buffer = figures.fanouts[1][f], figures.levels[2][inner], figures.levels[1][outer]
            all_kept = local.keep >= _ROLES
            size = local.capacity_bits if all_kept else 0
            shape = (min(fanout.x, fanout.y), max(fanout.x, fanout.y))
            key = (shape, not fanout.shares, local.keep, size)
            if key not in structures:
                structures[key] = len(blocks)
                if key not in self._blocks:
                    self._blocks[key] = [_rows_of(facts, fanout, local) for facts in self._layers]
                blocks.append(self._blocks[key])
            structure[k] = structures[key]
            prices[k], ports[k] = _prices(fanout, buffer, local), _ports(buffer, local)
            one_port[k] = buffer.ports is Ports.SHARED
            fill_pj[k] = _energy(buffer)[1] / buffer.word_bits
        rows = np.concatenate([row for block in blocks for row in block])
        start = np.zeros((len(blocks), len(self._layers) + 1), dtype=np.int64)
        sizes = np.array([[len(row) for row in block] for block in blocks])
        flat = np.concatenate([[0], np.cumsum(sizes.ravel())])
        start[:, :-1] = flat[:-1].reshape(sizes.shape)
        start[:, -1] = flat[len(self._layers) :: len(self._layers)]
        arrays = Arrays(
            structure,
            prices,
            ports,
            one_port,
            read[found[:, 3]] * word_bits,
            fill_pj,
            np.ascontiguousarray(rows),
            start,
        )
        return arrays, which


def dram_cycles(dram: StorageLevel, moved: Floats, read: Floats, written: Floats) -> Floats:
    """Cycles of the DRAM interface for the least port words moved, read and written, by layer: ``layers``.

    Where reads and writes take turns, words beyond the least read and written go the quicker way.
    """
    reads, writes = (words or np.inf for words in dram.words_per_cycle)
    fits = np.isfinite(moved)
    moved, read = np.where(fits, moved, 0.0), np.where(fits, read, 0.0)
    cycles = np.maximum(read / reads, written / writes)
    if dram.ports is Ports.SHARED:
        more = np.maximum(moved - read - written, 0.0)
        cycles = read / reads + written / writes + more / max(reads, writes)
    return np.where(fits, cycles, np.inf)


def dram_pj(dram: StorageLevel, moved: Floats, read: Floats, written: Floats) -> Floats:
    """Energy of the DRAM interface: all words at the lesser price, and the dearer kind's least words at the difference: ``layers``."""
    read_pj, _, update_pj = _energy(dram)
    cheap = min(read_pj, update_pj)
    fits = np.isfinite(moved)
    moved, read = np.where(fits, moved, 0.0), np.where(fits, read, 0.0)
    return np.where(fits, moved * cheap + read * (read_pj - cheap) + written * (update_pj - cheap), np.inf)


def _energy(level: StorageLevel) -> tuple[float, float, float]:
    energy = level.energy
    return (0.0, 0.0, 0.0) if energy is None else (energy.read_pj, energy.fill_pj, energy.update_pj)


def _rows_of(facts: LayerFacts, fanout: Fanout, local: StorageLevel) -> Floats:
    kept = tuple(keeps(local, t) for t in facts.tensors)
    capacity = (1 << 60) if local.capacity_bits is None else local.capacity_bits
    return facts.array_rows(fanout.x, fanout.y, fanout.shares, kept, capacity)


def _prices(fanout: Fanout, buffer: StorageLevel, local: StorageLevel) -> Floats:
    """PJ of a bit read and updated at the buffer, copied and sent over the links, read and written at a child."""
    # a mesh counts the links of its trees: 0 is a bound whatever the trees; a single child is reached without a hop
    free = fanout.links is Links.MESH or fanout.size == 1
    systolic, hop = fanout.links is Links.SYSTOLIC, 0.0 if free else fanout.hop_pj_per_bit
    bus = 0.0 if systolic else hop * (fanout.x + fanout.y) / (2.0 if fanout.links is Links.NONE else 1.0)
    outer, inner = _energy(buffer), _energy(local)
    return np.array(
        [
            outer[0] / buffer.word_bits,
            outer[2] / buffer.word_bits,
            hop if systolic else 0.0,
            bus,
            inner[0] / local.word_bits,
            min(inner[1], inner[2]) / local.word_bits,
        ]
    )


def _ports(buffer: StorageLevel, local: StorageLevel) -> Floats:
    def bits(level: StorageLevel) -> list[float]:
        return [np.inf if words is None else words * level.word_bits for words in level.words_per_cycle]

    return np.array([*bits(buffer), max(bits(local))])


@njit
def _row_cycles(row: Floats, ports: Floats, one_port: bool, fill: float) -> float:
    """Cycles of one choice: the array, the buffer's ports, a child's memory."""
    read, write = row[READ], row[UPDATE] + fill
    cycles: float = max(row[CYCLES], read / ports[0], write / ports[1], row[LOCAL_BUSY] / ports[2])
    if one_port:
        cycles = max(cycles, read / ports[0] + write / ports[1])
    return cycles


@njit
def _array_bounds(
    structure: Indices,
    prices: Floats,
    ports: Floats,
    one_port: NDArray[np.bool_],
    fill_bits: Floats,
    fill_pj: Floats,
    rows: Floats,
    start: Indices,
) -> tuple[Floats, Floats]:
    """Least energy and least cycles of each layer, for every array: ``a x layers`` each."""
    n, layers = fill_bits.shape
    energy, cycles = np.zeros((n, layers)), np.zeros((n, layers))
    for a in range(n):
        for k in range(layers):
            fill = fill_bits[a, k]
            least_pj, least_cycles = np.inf, np.inf
            for r in range(start[structure[a], k], start[structure[a], k + 1]):
                row = rows[r]
                spent = 0.0
                for c in range(6):
                    spent += row[1 + c] * prices[a, c]
                least_pj = min(least_pj, spent)
                least_cycles = min(least_cycles, _row_cycles(row, ports[a], one_port[a], fill))
            energy[a, k] = least_pj + fill * fill_pj[a]
            cycles[a, k] = least_cycles
    return energy, cycles


@njit
def _sum_of_maxima(left: Floats, of_left: Indices, right: Floats, of_right: Indices, counts: Floats) -> Floats:
    """Sum over layers of count x whole cycles of the slower of two parts: ``n``."""
    total = np.zeros(len(of_left))
    for i in range(len(of_left)):
        a, b = left[of_left[i]], right[of_right[i]]
        for k in range(len(counts)):
            total[i] += counts[k] * np.ceil(max(a[k], b[k]) * (1.0 - 1e-12) - 1e-6)
    return total


@njit
def _supports(
    array_of: Indices, memory_of: Indices, slopes: Floats, dram_cycles: Floats, structure: Indices, prices: Floats,
    ports: tuple[Floats, NDArray[np.bool_]], fill: tuple[Floats, Floats], rows: Floats, start: Indices, counts: Floats,
) -> Floats:  # fmt: skip
    """See `Split.supports`, without what all choices share."""
    n, q = slopes.shape
    rates, one_port = ports
    fill_bits, fill_pj = fill
    total, best = np.zeros((n, q)), np.zeros(q)
    for i in range(n):
        a = array_of[i]
        for k in range(len(counts)):
            filled = fill_bits[a, k]
            best[:] = np.inf
            for r in range(start[structure[a], k], start[structure[a], k + 1]):
                row = rows[r]
                spent = 0.0
                for c in range(6):
                    spent += row[1 + c] * prices[a, c]
                slow = max(_row_cycles(row, rates[a], one_port[a], filled), dram_cycles[memory_of[i], k])
                slow = np.ceil(slow * (1.0 - 1e-12) - 1e-6)
                for j in range(q):
                    best[j] = min(best[j], slopes[i, j] * slow + spent)
            for j in range(q):
                total[i, j] += counts[k] * (best[j] + filled * fill_pj[a])
    return total
