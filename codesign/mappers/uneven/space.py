"""The tile lattice of one profile and what every node costs on it (U1-U7, docs/explanation/exact-mapper.md)."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from codesign.core.factors import divisors, tile_counts
from codesign.core.kept import kept
from codesign.core.labels.program import lattice_graph, prime_steps
from codesign.core.labels.sweep import Array, Graph
from codesign.mappers.uneven.profiles import Profile
from codesign.mapping.looptree import Machine, Memory, Operand, Operator


@dataclass(frozen=True)
class Line:
    """The temporal tiles of one dimension, ascending, and how loops lead from one to another.

    Args:
        tiles: Sizes; the last is everything that no temporal loop stands outside of.
        before: For each entry the entries one loop step further in.
        steps: Iterations outside each entry, as a tensor counts them that the dimension does not index (U4).
        remainder: The last step leaves a remainder.
    """

    tiles: tuple[float, ...]
    before: tuple[tuple[int, ...], ...]
    steps: tuple[float, ...]
    remainder: bool = False


@lru_cache(maxsize=4096)
def perfect(bound: int) -> Line:
    """Divisors of the temporal bound."""
    tiles = divisors(bound)
    return Line(tuple(float(t) for t in tiles), prime_steps(tiles), tuple(float(bound // t) for t in tiles))


@lru_cache(maxsize=4096)
def ragged(bound: int, spatial: int, tile: int) -> Line:
    """Divisors of `tile`, then everything: the outermost loop leaves a remainder."""
    inner = perfect(tile)
    count = -(-bound // (tile * spatial))
    steps = (*(count * s for s in inner.steps), 1.0)
    return Line((*inner.tiles, bound / spatial), (*inner.before, (len(inner.tiles) - 1,)), steps, True)


@lru_cache(maxsize=4096)
def relaxed(bound: int, spatial: int) -> Line:
    """For each number of steps the least tile; any may stand inside any larger one."""
    whole = -(-bound // spatial)
    tiles = tile_counts(whole)[:0:-1]
    sizes = (*(float(t) for t in tiles), bound / spatial)
    steps = (*(float(-(-bound // (spatial * t))) for t in tiles), 1.0)
    return Line(sizes, tuple((i - 1,) if i else () for i in range(len(sizes))), steps, True)


@dataclass(frozen=True)
class Node:
    """A place of a tensor at a level below the one that backs it.

    Args:
        operand: The tensor.
        level: Its level; the number of memories stands for the compute units.
        parent: The next level out that keeps it.
    """

    operand: Operand
    level: int
    parent: int


class Space:
    """One profile of one operator: tiles, bits and charges of every node."""

    def __init__(self, operator: Operator, machine: Machine, profile: Profile) -> None:
        self.operator, self.machine, self.profile = operator, machine, profile
        self._memo: dict[tuple[str, str, int], Array] = {}
        self._prices: dict[tuple[str, int, int], tuple[Array, Array]] = {}
        self.n = len(machine.memories)
        tiles, spatial_remainder = dict(profile.tiles), dict(profile.ragged)
        self.dims = list(operator.bounds)
        self.lines: dict[str, Line] = {}
        for d, bound in operator.bounds.items():
            factor = profile.factor(d, 0, self.n + 1)
            if d in spatial_remainder:
                self.lines[d] = perfect(tiles[d])
            elif d in tiles:
                self.lines[d] = ragged(bound, factor, tiles[d])
            elif d in profile.relaxed:
                self.lines[d] = relaxed(bound, factor)
            else:
                self.lines[d] = perfect(bound // factor)
        self.live = [d for d in self.dims if len(self.lines[d].tiles) > 1] or self.dims[:1]
        self.shape = tuple(len(self.lines[d].tiles) for d in self.live)
        self.cells = math.prod(self.shape)

    @cached_property
    def graph(self) -> Graph:
        """The lattice as the sweeps want it."""
        return lattice_graph(tuple(self.lines[d].before for d in self.live))

    def coordinates(self, cell: int) -> dict[str, float]:
        """Temporal tile of every dimension at a cell."""
        entries = np.unravel_index(cell, self.shape)
        sizes = {d: self.lines[d].tiles[0] for d in self.dims}
        return sizes | {d: self.lines[d].tiles[int(e)] for d, e in zip(self.live, entries, strict=True)}

    def inside(self, dim: str, level: int) -> int:
        """Spatial factors of `dim` inside a level."""
        return self.profile.factor(dim, level + 1, self.n + 1)

    def spread(self, dim: str, values: Array) -> Array:
        """An array over the entries of one dimension as one that broadcasts over the lattice."""
        if dim not in self.live:
            return values.reshape((1,) * len(self.live))
        at = self.live.index(dim)
        return values.reshape((1,) * at + (-1,) + (1,) * (len(self.live) - at - 1))

    def _extent(self, dim: str, level: int) -> Array:
        """Tile of `dim` at `level`, spatial factors inside included, spread over the lattice."""
        return self.spread(dim, np.array(self.lines[dim].tiles) * self.inside(dim, level))

    def _axis(self, axis: tuple[tuple[str, int], ...], level: int) -> Array:
        total = np.ones((1,) * len(self.live))
        for dim, coefficient in axis:
            total = total + coefficient * (self._extent(dim, level) - 1)
        return total

    def words(self, operand: Operand, level: int) -> Array:
        """Words of the tile of `operand` at `level`, cell by cell."""
        return self._kept("words", operand, level, self._words)

    def moved(self, operand: Operand, level: int) -> Array:
        """Words that enter all instances of `level` over the run if the node stands at a cell (U2, U4, U5)."""
        return self._kept("moved", operand, level, self._moved)

    def _kept(self, what: str, operand: Operand, level: int, make: Callable[[Operand, int], Array]) -> Array:
        key = what, operand.name, level
        if key not in self._memo:
            self._memo[key] = make(operand, level)
        return self._memo[key]

    def release(self) -> None:
        """Drop what is made again on demand."""
        self._memo.clear()

    def _words(self, operand: Operand, level: int) -> Array:
        out = np.ones((1,) * len(self.live))
        for axis in operand.axes:
            out = out * self._axis(axis, level)
        return np.ascontiguousarray(np.broadcast_to(out, self.shape)).ravel()

    def _moved(self, operand: Operand, level: int) -> Array:
        out = np.ones((1,) * len(self.live))
        simple = {axis[0][0] for axis in operand.axes if len(axis) == 1 and axis[0][1] == 1}
        for axis in operand.axes:
            if len(axis) == 1 and axis[0][1] == 1:
                out = out * float(self.operator.bounds[axis[0][0]])
            else:
                out = out * self._axis(axis, level)
        for d in self.dims:
            if d not in simple:
                steps = np.array(self.lines[d].steps) * self.profile.factor(d, 0, level + 1)
                out = out * self.spread(d, steps)
        return np.ascontiguousarray(np.broadcast_to(out, self.shape)).ravel()

    def operations(self, operand: Operand) -> float:
        """Words that the compute units ask for of a tensor."""
        return math.prod(float(self.operator.bounds[d]) if d in operand.dims else self.padded(d) for d in self.dims)

    def padded(self, dim: str) -> float:
        """Iterations that a tensor counts which the dimension does not index."""
        return self.lines[dim].steps[0] * self.profile.factor(dim, 0, self.n + 1)

    def size(self, operand: Operand) -> float:
        """Words of the whole tensor."""
        return float(operand.words(self.operator.bounds))

    @kept
    def instances(self, level: int) -> float:
        """Instances in use of a level; the mean where the last one has less to do."""
        spread = dict(self.profile.ragged)
        used = 1.0
        for d in self.dims:
            factor: float = self.profile.factor(d, 0, level + 1)
            if d in spread and spread[d] <= level:
                factor *= self.operator.bounds[d] / self.padded(d)
            used *= factor
        return used

    @cached_property
    def compute_seconds(self) -> float:
        """Time of the operations."""
        if self.operator.copy:
            return 0.0
        return self.operator.macs / self.instances(self.n) * self.machine.mac_seconds

    @cached_property
    def ports(self) -> list[tuple[int, float, float]]:
        """(level, seconds per bit read, per bit written) of all ports that take time."""
        return [(m, r, w) for m, memory in enumerate(self.machine.memories) for r, w in memory.ports if r > 0 or w > 0]

    def prices(self, node: Node) -> tuple[Array, Array]:
        """Charges of a node: ``(1 + ports)`` for each word that enters it, and a constant (U3, U6, U7)."""
        key = node.operand.name, node.level, node.parent
        if key not in self._prices:
            self._prices[key] = self._make_prices(node)
        return self._prices[key]

    def _make_prices(self, node: Node) -> tuple[Array, Array]:
        tensor, level, parent = node.operand, node.level, node.parent
        outer = self.machine.memories[parent]
        inner = self.machine.memories[level] if level < self.n else Memory("compute")
        copies = self.profile.shared(tensor.name, tensor.dims, parent + 1, level + 1)
        outer_bits, inner_bits = outer.width(tensor), inner.width(tensor)
        skipped = 0.0
        if tensor.output:
            skipped = self.size(tensor) * math.prod(
                self.profile.factor(d, 0, level + 1) for d in self.dims if d not in tensor.dims
            )
        slope, fixed = np.zeros(1 + len(self.ports)), np.zeros(1 + len(self.ports))
        bits = outer_bits / copies
        rates = [(0, outer.read, outer.write, inner.read, inner.write)]
        for i, (m, read, write) in enumerate(self.ports):
            n = self.instances(m)
            rates.append(
                (
                    i + 1,
                    *((read / n, write / n) if m == parent else (0.0, 0.0)),
                    *((read / n, write / n) if m == level else (0.0, 0.0)),
                )
            )
        for i, outer_read, outer_write, inner_read, inner_write in rates:
            if tensor.output:
                slope[i] = bits * (outer_write + outer_read) + inner_bits * (inner_read + inner_write)
                fixed[i] = -skipped * (bits * outer_read + inner_bits * inner_write)
            else:
                slope[i] = bits * outer_read + inner_bits * inner_write
        return slope, fixed


def chain_nodes(operator: Operator, keeps: tuple[frozenset[str], ...]) -> tuple[list[Node], list[Node]]:
    """Nodes below the backing level of every tensor, and the compute unit's."""
    n = len(keeps)
    nodes, last = [], []
    for tensor in operator.operands:
        chain = [m for m in range(n) if tensor.name in keeps[m]]
        nodes += [Node(tensor, inner, outer) for outer, inner in itertools.pairwise(chain)]
        last.append(Node(tensor, n, chain[-1]))
    return nodes, last
