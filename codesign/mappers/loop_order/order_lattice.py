"""The tiles of an unrolled layer as a lattice, and what every cut of a tensor costs on it (rules Z21-Z23).

An order of the loops is a walk from the tile of one iteration to the whole, one prime factor a step. What a cut costs follows from
the tile where it stands alone, so that the compiled sweeps of `codesign.core.labels.sweep` find the best walk and cuts.

* Z21: A *cell* is a tile, one divisor of the iterations for every dimension. An order is a walk, one prime factor a
  step. A cut stands at a cell.
* Z22: What crosses at a cut depends on its cell alone: elements of the tile, iterations outside, whether reduced loops
  are left. Of places with only loops between that do not concern the tensor, the outermost is never worse (stationary
  merge).
* Z23: A state says which cuts of each tensor are placed, and whether the output's last cut stands where no reduced
  loop is left. A tensor takes no loop of its own before its operand is fetched. Cuts of one tensor stand in the order
  of its levels.
* Z24: The sweep is that of U10 and U11. A label holds energy and the bits in the shared memory; each further shared
  memory is a charge below its capacity. A memory that holds its tensors whole is not counted; a memory of one tensor
  forbids cells.
"""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codesign.core.factors import divisors
from codesign.core.jit import njit
from codesign.core.labels.program import in_order, lattice_graph, prime_steps
from codesign.core.labels.sweep import Array, Stage
from codesign.cost.zigzag.arrays import Layer, Sizes, encode
from codesign.cost.zigzag.kernel import Order, count_boundary, is_partial, make_order, round_half_up, tile_elements
from codesign.cost.zigzag.layer import UnrolledLayer

SLACK = 1 + 1e-9
"""Tiles of fractional units may pass a capacity by rounding."""


@dataclass(frozen=True)
class Placing:
    """A tensor's next boundary or cut, placed where the walk stands.

    Args:
        tensor: Its index.
        cut: The level whose cut it is; -1 for the boundary between the MACs and the innermost level.
        began_final: Whether the level begins where the output is final (rule Z5).
        final: Whether the cut stands where the output is final; None where that changes nothing.
    """

    tensor: int
    cut: int
    began_final: bool
    final: bool | None


Progress = tuple[int, bool]
"""Boundaries and cuts of a tensor that are placed, and whether the last stands where the output is final."""


class OrderLattice:
    """The lattice of one layer; cells are numbered row by row over `live`."""

    def __init__(self, layer: UnrolledLayer) -> None:
        self.layer = layer
        self.arrays: Layer = encode(layer)
        dims = layer.computation.dims
        sizes = {d: divisors(layer.passes[d]) for d in dims}
        self.live = [d for d in dims if len(sizes[d]) > 1] or list(dims[:1])
        self.shape = tuple(len(sizes[d]) for d in self.live)
        self.graph = lattice_graph(tuple(prime_steps(sizes[d]) for d in self.live))
        entries = np.indices(self.shape).reshape(len(self.live), -1)
        self.cells = entries.shape[1]
        self.tiles: Array = np.ones((len(dims), self.cells))
        for i, d in enumerate(self.live):
            self.tiles[dims.index(d)] = np.array(sizes[d])[entries[i]]
        self.order = _cells_as_order(self.arrays, self.tiles, np.array([layer.passes[d] for d in dims]))
        self.output = len(layer.computation.tensors) - 1
        self.final: Array = self.order.reduces == 0

    @cached_property
    def elements(self) -> dict[tuple[int, int], Array]:
        """Elements of the tile by tensor and level, cell by cell (rule Z2)."""
        found = {}
        for t in range(self.output + 1):
            for v in range(self.arrays.n_levels[t]):
                found[t, v] = _tiles_of(self.arrays, self.arrays.fraction, self.order, t, v)
        return found

    def bits(self, t: int, v: int, began_final: bool) -> Array:
        """Bits that the tile of a level takes (rule Z5)."""
        partial = t == self.output and (not began_final or self.arrays.reduces_above[v] == 1)
        width = self.arrays.partial_bits if partial else self.arrays.bits[t]
        return self.elements[t, v] * float(width)

    @cached_property
    def free(self) -> frozenset[int]:
        """Memories that hold the whole of all their tensors, so that nothing need be checked."""
        a = self.arrays
        found = set()
        for m in range(a.capacity.shape[0]):
            held = [self.bits(int(a.members[m, i]), int(a.member_level[m, i]), False) for i in range(a.n_members[m])]
            if sum(float(h[-1]) for h in held) <= a.capacity[m]:
                found.add(m)
        return frozenset(found)

    @cached_property
    def shared(self) -> list[int]:
        """Memories where tensors contend; the one that can hold the smallest share of its tensors first."""
        a = self.arrays
        found = [m for m in range(a.capacity.shape[0]) if a.n_members[m] > 1 and m not in self.free]
        return sorted(found, key=lambda m: int(a.capacity[m]))

    def last_cut(self, t: int) -> int:
        """The outermost level whose cut is a choice, or must be checked: the outermost level of all keeps every loop."""
        top = int(self.arrays.n_levels[t]) - 1
        return top - 1 if int(self.arrays.memory[t, top]) in self.free else top

    def progress(self, t: int) -> list[Progress]:
        """What may have been placed of a tensor, the least first."""
        if t != self.output:
            return [(k, False) for k in range(self.last_cut(t) + 3)]
        steps = self.last_cut(t) + 2  # the boundary at the MACs stands inside all loops
        start = bool(self.final[0])
        between = [(k, final) for k in range(2, steps) for final in (False, True)]
        return list(dict.fromkeys([(1, start), *between, (steps, True)] if steps > 1 else [(1, True)]))

    def next_moves(self, t: int, at: Progress) -> list[tuple[Placing, Progress]]:
        """What may be placed next of a tensor, and what has been placed then."""
        k, began = at
        last = self.last_cut(t) + 2
        if k == last:
            return []
        if t != self.output:
            return [(Placing(t, k - 1, False, None), (k + 1, False))]
        if k + 1 == last:
            return [(Placing(t, k - 1, began, None), (last, True))]
        finals = (True,) if began else (False, True)
        return [(Placing(t, k - 1, began, final), (k + 1, final)) for final in finals]

    def energy(self, move: Placing) -> Array:
        """Energy of the boundary that begins at a cut, cell by cell; infinite where the cut cannot stand (rule Z22)."""
        a, t, v = self.arrays, move.tensor, move.cut
        top = int(a.n_levels[t]) - 1
        elements = np.ones(self.cells) if v < 0 else self.elements[t, v]
        total = np.zeros(self.cells)
        if v < top:
            total = _boundary_energy(a, self.order, t, v + 1, elements)
        else:
            total[:-1] = np.inf
        if move.final is not None:
            total[self.final != move.final] = np.inf
        if v < 0:
            relevant = a.relevant[t] > 0
            total[(self.tiles[relevant] > 1).any(axis=0)] = np.inf
        elif (m := int(a.memory[t, v])) not in self.free and m not in self.shared:
            total[self.bits(t, v, move.began_final) > a.capacity[m] * SLACK] = np.inf
        return total

    @cached_property
    def fixed(self) -> float:
        """Energy of the MACs and of the output's traffic with them, which no order changes."""
        boundary = _boundary_energy(self.arrays, self.order, self.output, 0, np.ones(self.cells))
        return float(self.arrays.mac_energy + boundary[0])


def stage_of(lattice: OrderLattice) -> tuple[Stage, tuple[Placing, ...]]:
    """A layer as one stage of the label program, and what its transitions place.

    A state says what is placed of each tensor. Bits are those in the first shared memory; charges are energy, and shares of
    the other shared memories.
    """
    a = lattice.arrays
    states = list(itertools.product(*(lattice.progress(t) for t in range(lattice.output + 1))))
    number = {s: i for i, s in enumerate(states)}
    dims = [lattice.layer.computation.dims.index(d) for d in lattice.live]
    mask = np.ones((len(states), len(dims)), np.bool_)
    moves: dict[Placing, int] = {}
    first = lattice.shared[0] if lattice.shared else -1
    rows = []
    for state, i in number.items():
        for t, at in enumerate(state):
            if t != lattice.output and at[0] == 0:  # no loop of the tensor before its operand is fetched
                mask[i] &= a.relevant[t, dims] == 0
            for move, then in lattice.next_moves(t, at):
                j = moves.setdefault(move, len(moves))
                holds = move.cut >= 0 and int(a.memory[t, move.cut]) == first
                rows.append((i, number[(*state[:t], then, *state[t + 1 :])], j if holds else -1, j))
    table = np.array(rows, np.int64).reshape(-1, 4)
    words, charge = (
        np.zeros((len(moves), lattice.cells)),
        np.zeros((len(moves), lattice.cells, max(1, len(lattice.shared)))),
    )
    for move, j in moves.items():
        charge[j, :, 0] = lattice.energy(move)
        for k, m in enumerate(lattice.shared):
            if move.cut >= 0 and int(a.memory[move.tensor, move.cut]) == m:
                bits = lattice.bits(move.tensor, move.cut, move.began_final)
                if k == 0:
                    words[j] = bits
                else:
                    charge[j, :, k] = bits / a.capacity[m]
    capacity = math.inf if first < 0 else float(a.capacity[first]) * SLACK
    need = _need(lattice, states, first)
    return Stage(mask, *in_order(table), words, charge, need, capacity), tuple(moves)


def _need(lattice: OrderLattice, states: list[tuple[Progress, ...]], memory: int) -> Array:
    """Bits that the cuts not placed yet will take at least, as tiles only grow outwards."""
    need = np.zeros((lattice.cells, len(states)))
    a = lattice.arrays
    for t in range(lattice.output + 1):
        for v in range(lattice.last_cut(t) + 1):
            if int(a.memory[t, v]) == memory:
                least = lattice.bits(t, v, True)
                missing = np.array([state[t][0] < v + 2 for state in states])
                need[:, missing] += least[:, None]
    return need


def _cells_as_order(layer: Layer, tiles: Array, passes: Array) -> Order:
    """The cells in place of the positions of an order, so that the kernel's formulas count them."""
    cells = tiles.shape[1]
    order = make_order(layer, cells - 1)
    order.cycles[:] = tiles.prod(axis=0)
    order.reduces[:] = ((tiles < passes[:, None]) & (layer.reduced[:, None] == 1)).any(axis=0)
    sizes = layer.fraction
    for t in range(layer.relevant.shape[0]):
        alone = layer.relevant[t] == 1
        for stage in range(layer.n_stages[t]):
            reach = sizes.spatial[t, stage][:, None] * tiles
            order.alone[t, stage] = sizes.alone[t, stage] * tiles[alone].prod(axis=0)
            if layer.fractional:
                order.alone[t, stage] = reach[alone].prod(axis=0)
            for x in range(layer.n_pairs[t]):
                for side in range(2):
                    order.length[t, stage, x, side] = reach[layer.pairs[t, x, side]]
    return order


@njit
def _tiles_of(layer: Layer, sizes: Sizes, order: Order, t: int, v: int) -> Array:
    found = np.empty(order.cycles.shape[0])
    for cell in range(found.shape[0]):
        found[cell] = tile_elements(layer, sizes, order, t, v, cell)
    return found


@njit
def _boundary_energy(layer: Layer, order: Order, t: int, v: int, elements: Array) -> Array:
    """Energy of what crosses the boundary below level v of tensor t if its level inside is cut at a cell (rules Z6-Z10)."""
    found, total = np.zeros(elements.shape[0]), order.cycles[-1]
    words = np.zeros((layer.memory.shape[0], layer.memory.shape[1], 4))
    for cell in range(found.shape[0]):
        inner, partial = round_half_up(elements[cell]), is_partial(layer, order, t, v, cell)
        found[cell] = count_boundary(layer, t, v, inner, total / order.cycles[cell], partial, 0.0, words)
    return found
