"""The program over all keep sets of a profile: what it needs of the instance, its bounds, and the nest it finds."""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

import numpy as np

from codesign.mappers.exact.bases import BaseArrays
from codesign.mappers.exact.dp import Grid
from codesign.mappers.exact.fixed import FixedKeep, KeepSets
from codesign.mappers.exact.instance import Instance
from codesign.mappers.exact.joint_dp import (
    NO_WINDOWS,
    Windows,
    bound_factors,
    fill_charges,
    fill_tiles,
    fold,
    least_start,
    list_chains,
    price_profile,
    run_program,
    shared_words,
    weigh,
)
from codesign.mappers.exact.joint_states import Decisions, JointProgram, Stacks, make_program
from codesign.mappers.exact.joint_trace import Filled, JointTrace
from codesign.mappers.exact.lattice import Lattice, make_lattice
from codesign.mappers.exact.spatial import FanoutOptions, options_of
from codesign.mappers.exact.trace import LevelLoops
from codesign.mapping.constraints import Keep
from codesign.mapping.nest import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Vectors:
    """Every way to use one fan-out (V of them), all factors known.

    Attributes:
        factors: ``V x D``.
        distinct: ``V x T`` different words the children take at a time.
        tiles: ``V`` sizes the tile inside must have for that, None any.
        option: ``V`` option of `options_of` each belongs to.
    """

    factors: FloatArray
    distinct: FloatArray
    tiles: tuple[frozenset[tuple[int, ...]] | None, ...]
    option: IntArray


@lru_cache(maxsize=1024)
def expand(options: FanoutOptions, divisors: tuple[tuple[int, ...], ...]) -> Vectors:
    """Every vector of factors that some option stands for."""
    n_dims, width = len(divisors), max(map(len, divisors), default=1)
    sizes = np.ones((n_dims, width))
    for d, values in enumerate(divisors):
        sizes[d, : len(values)] = values
    each = np.arange(n_dims)
    factors = [
        {product: sizes[each, vectors] for product, vectors in by_product.items()} for by_product in options.vectors
    ]
    rows, option = [np.zeros((0, n_dims))], []
    for o, products in enumerate(options.choice):
        found = np.ones((1, n_dims))
        for by_product, size in zip(factors, products.tolist(), strict=True):
            if size > 1:
                found = (found[:, None] * by_product[size]).reshape(-1, n_dims)
        rows.append(found)
        option.extend([o] * len(found))
    which = np.array(option, np.int64)
    return Vectors(
        np.concatenate(rows), options.distinct[which], tuple(options.tiles[o] for o in option), which
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class JointProblem:
    """An instance with some decisions open, over profiles given by one vector for each fan-out.

    Attributes:
        instance: The problem.
        decisions: ``L x T``; free ones are decided by the program.
        bases: Base arrays of the instance.
    """

    instance: Instance
    decisions: Decisions
    bases: BaseArrays

    @cached_property
    def all_kept(self) -> FixedKeep:
        """The instance with everything kept that may be: ports, prices per level, bounds of the dimensions."""
        return FixedKeep(
            self.instance, tuple(tuple(k is not Keep.NO for k in row) for row in self.decisions), self.bases
        )

    @cached_property
    def vectors(self) -> tuple[Vectors, ...]:
        """Of every fan-out."""
        divisors = self.instance.lattice.divisors
        levels = range(self.instance.n_levels)
        return tuple(expand(options_of(self.instance, m, self.kept_inside(m)), divisors) for m in levels)

    def kept_inside(self, m: int) -> tuple[bool, ...]:
        """Which tensors some level inside a fan-out may keep."""
        inside = self.decisions[m + 1 :]
        return tuple(any(row[t] is not Keep.NO for row in inside) for t in range(self.instance.n_tensors))

    @cached_property
    def stacked(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Vectors of all fan-outs, one after another: where each fan-out's begin, factors, distinct words."""
        first = np.cumsum([0] + [len(v.factors) for v in self.vectors])
        factors = np.concatenate([v.factors for v in self.vectors])
        return first, factors, np.concatenate([v.distinct for v in self.vectors])

    @cached_property
    def relevant(self) -> IntArray:
        """``T x D``."""
        return self.instance.relevant.astype(np.int64)

    @cached_property
    def coef(self) -> FloatArray:
        """``T x A x D`` coefficients."""
        return self.instance.coef.astype(np.float64)

    @cached_property
    def n_ports(self) -> int:
        """Limited ports."""
        return len(self.all_kept.ports)

    def bounds(self, rows: IntArray) -> FloatArray:
        """``P x (1 + J)`` closed-form bounds of profiles (a vector for each fan-out) on energy and every port's cycles."""
        first, factors, distinct = self.stacked
        out = np.empty((len(rows), 1 + self.n_ports))
        bound_factors(
            rows + first[:-1], factors, distinct, first, self.all_kept.hardware, self.relevant, *self._open, out
        )
        return out

    def children_of(self, rows: IntArray) -> FloatArray:
        """``P`` MACs in use."""
        first, factors, _ = self.stacked
        return np.asarray(factors[rows + first[:-1]].prod(axis=(1, 2)))

    @cached_property
    def _open(self) -> tuple[IntArray, IntArray]:
        """``L x T`` whether a level may leave a tensor to others, and whether it may keep it."""
        passes = np.array([[k is not Keep.YES for k in row] for row in self.decisions], np.int64)
        keeps = np.array([[k is not Keep.NO for k in row] for row in self.decisions], np.int64)
        return passes, keeps

    def program_of(self, spatial: FloatArray, exactly: bool, chained: bool) -> JointProgram:
        """The operations for profiles with such spatial factors ``L x D``.

        Args:
            spatial: The factors.
            exactly: Whether windows slide along a first loop only; else closing always costs the least it could.
            chained: Whether loops after the first may save words too.
        """
        masks = self.instance.relevant_mask
        sliding = self.sliding if exactly else -1
        slides = tuple((d, int(masks[d])) for d in self.windows if exactly)
        return make_program(self.decisions, self._stacks(spatial), sliding, slides, chained)

    @cached_property
    def windows(self) -> tuple[int, ...]:
        """Dimensions of all windows."""
        return tuple(sorted({d for axes in self.instance.sliding_axes for axis in axes for d in axis}))

    def chain_tables(self, t: int, axis: tuple[int, ...], spatial: FloatArray) -> list[tuple[int, FloatArray]]:
        """Dimension and `chain_table` of every first loop along an axis that may start a chain.

        Args:
            t: Tensor.
            axis: Its dimensions.
            spatial: ``c x A`` factors of these dimensions on the fan-outs outside the loop's level c.
        """
        key = (t, axis, spatial.tobytes())
        if key not in self._known_chains:
            factors = tuple(tuple(int(f) for f in row) for row in spatial)
            numbers = self.bases.chain(t, axis, len(spatial), factors)
            self._known_chains[key] = [(d, self.bases.chain_tables[n]) for d, n in numbers.items() if n >= 0]
        return self._known_chains[key]

    @cached_property
    def _known_chains(self) -> dict[tuple[int, tuple[int, ...], bytes], list[tuple[int, FloatArray]]]:
        """Results of `chain_tables`."""
        return {}

    @cached_property
    def axis_of(self) -> IntArray:
        """``D x A`` the dimensions of the sliding axis that a dimension stands on, -1 padded."""
        rows = self.bases.axis_rows()
        table = np.full((self.instance.n_dims, max([1, *(len(axis) for _, axis in rows)])), -1, np.int64)
        for _, axis in rows:
            table[list(axis), : len(axis)] = axis
        return table

    @cached_property
    def places(self) -> tuple[IntArray, IntArray]:
        """``D x (largest bound + 1)`` position of every divisor among those of its bound, -1; ``D`` how many there are."""
        lattice = self.instance.lattice
        table = np.full((self.instance.n_dims, max(lattice.bounds, default=1) + 1), -1, np.int64)
        for d, divisors in enumerate(lattice.divisors):
            table[d, list(divisors)] = range(len(divisors))
        return table, lattice.n_divisors

    @cached_property
    def folds(self) -> tuple[tuple[int, ...], ...]:
        """Dimensions, those that index the same tensors together unless all of these do so plainly."""
        groups: dict[tuple[int, int], list[int]] = {}
        plain = self.instance.plain | ~self.instance.relevant
        for d, mask in enumerate(self.instance.relevant_mask):
            groups.setdefault((int(mask), d if plain[:, d].all() else -1), []).append(d)
        return tuple(tuple(group) for group in groups.values())

    @cached_property
    def sliding(self) -> int:
        """The tensor whose windows slide, -1 if there is none."""
        found = [t for t, axes in enumerate(self.instance.sliding_axes) if axes]
        return found[0] if found else -1

    def _stacks(self, spatial: FloatArray) -> Stacks:
        """Which levels can pay that hold the same tile of a tensor as a level inside (section D9 of the docs).

        Only where a fan-out in between makes the level inside ask for a word more than once: children share a window, or
        words are not multicast.
        """
        instance, used = self.instance, spatial > 1.0
        key = used.tobytes()
        if key in self._known_stacks:
            return self._known_stacks[key]
        n = instance.n_levels
        twice = np.zeros((instance.n_tensors, n), bool)
        for t in range(instance.n_tensors):
            moving = [d for axis in instance.sliding_axes[t] for d in axis]
            twice[t] = used[:, moving].any(axis=1)
            apart = used[:, ~instance.relevant[t]].any(axis=1)
            twice[t] |= apart & (instance.problem.shares == 0)
        self._known_stacks[key] = tuple(
            tuple(tuple(bool(twice[t, v:w].any()) for w in range(n)) for v in range(n))
            for t in range(instance.n_tensors)
        )
        return self._known_stacks[key]

    @cached_property
    def _known_stacks(self) -> dict[bytes, Stacks]:
        """Results of `_stacks` by which factors are above 1."""
        return {}

    @cached_property
    def free(self) -> IntArray:
        """``L x D`` whether a level may loop over a dimension; fixed factors and orders are left out of account."""
        table = np.zeros((self.instance.n_levels, self.instance.n_dims), np.int64)
        for v, rules in enumerate(self.instance.rules):
            table[v, list(rules.free)] = 1
            for d, _ in rules.fixed:
                table[v, d] = 1
        return table

    @cached_property
    def slides(self) -> IntArray:
        """``T x A x D`` 1 where the window of an axis overlaps the one before when the dimension moves it."""
        found = np.zeros(self.instance.coef.shape, np.int64)
        for t, axes in enumerate(self.instance.sliding_axes):
            for a in range(self.instance.coef.shape[1]):
                moves = self.instance.coef[t, a] > 0
                if tuple(int(d) for d in np.flatnonzero(moves)) in axes:
                    found[t, a] = moves
        return found

    def profile(self, row: IntArray) -> "JointProfile":
        """The program of one profile: a vector for each fan-out, as numbers within its `vectors`."""
        return JointProfile(self, row)


@dataclass(frozen=True, eq=False)
class Tiles:
    """What a program needs of its temporal tiles.

    Attributes:
        lattice: They.
        words: ``T x L x N`` words that enter an instance of a level when a tensor is closed.
        penalty: ``L x 2**T x N`` infinite where the tiles of the kept tensors do not fit.
        free: ``L x D`` 1 where a level may loop over a dimension.
        relevant: ``D`` bit mask of the tensors a dimension indexes.
    """

    lattice: Lattice
    words: FloatArray
    penalty: FloatArray
    free: IntArray
    relevant: IntArray

    @cached_property
    def grid(self) -> Grid:
        """The lattice for compiled code."""
        lattice = self.lattice
        divisor = np.zeros((len(lattice.bounds), lattice.grow.shape[1]))
        for d, values in enumerate(lattice.divisors):
            divisor[d, : len(values)] = values
        return Grid(
            lattice.n_divisors, lattice.stride, lattice.grow, lattice.axis_dim, lattice.axis_size, lattice.axis_stride,
            divisor,
        )  # fmt: skip


@lru_cache(maxsize=1024)
def _folding(bounds: tuple[int, ...], groups: tuple[tuple[int, ...], ...]) -> tuple[Lattice, IntArray]:
    """The lattice in which the dimensions of each group count as one, and the tile of it that each tile becomes."""
    lattice = make_lattice(bounds)
    folded = make_lattice(tuple(math.prod(bounds[d] for d in group) for group in groups))
    place, tiles = np.zeros(lattice.n_tiles, np.int64), np.arange(lattice.n_tiles)
    for g, group in enumerate(groups):
        where = {size: i for i, size in enumerate(folded.divisors[g])}
        sizes = list(product(*[lattice.divisors[d] for d in group]))
        table = np.array([where[math.prod(row)] for row in sizes], np.int64)
        index = np.zeros_like(tiles)
        for d in group:
            index = index * lattice.n_divisors[d] + tiles // lattice.stride[d] % lattice.n_divisors[d]
        place += table[index] * int(folded.stride[g])
    return folded, place


class JointProfile:
    """One profile ready to run.

    Attributes:
        problem: What it belongs to.
        spatial: ``L x D`` its factors.
        inside: ``L x D`` product of the factors from a level inwards.
        price: ``(1 + J) x T x (L + 1) x L`` of a word, see `price_pairs`.
        fixed: What is paid once.
        fewest: ``T x (L + 1)`` fewest words that can enter an instance of a level.
        exact: Its tiles.
        least: ``T x L x N`` words that enter if every loop outside slides as well as any can, times the steps (bound B2).
        constant: Energy of the MACs themselves.
    """

    def __init__(self, problem: JointProblem, row: IntArray) -> None:
        self.problem = problem
        instance, hardware = problem.instance, problem.all_kept.hardware
        n_levels, n_tensors, n_dims = instance.n_levels, instance.n_tensors, instance.n_dims
        first, factors, distinct = problem.stacked
        numbers = row + first[:-1]
        self.spatial, self.inside = factors[numbers], np.empty((n_levels, n_dims))
        self.price = np.empty((1 + problem.n_ports, n_tensors, n_levels + 1, n_levels))
        self.fixed, self.fewest = np.empty_like(self.price), np.empty((n_tensors, n_levels + 1))
        price_profile(
            numbers, factors, distinct, hardware, problem.relevant, self.inside, self.price, self.fixed, self.fewest
        )
        self.constant = hardware.macs * hardware.mac_energy
        bounds = np.array(instance.lattice.bounds) / self.inside[0]
        lattice = make_lattice(tuple(int(b) for b in bounds))
        n = lattice.n_tiles
        words, penalty = np.empty((n_tensors, n_levels, n)), np.empty((n_levels, 1 << n_tensors, n))
        self.least = np.empty_like(words)
        fill_tiles(
            lattice.value, self.inside, problem.coef, problem.slides, instance.problem.element_bits,
            instance.problem.capacity_bits, words, self.least, penalty,
        )  # fmt: skip
        for m, (vectors, i) in enumerate(zip(problem.vectors, row, strict=True)):
            allowed = vectors.tiles[i]
            if allowed is not None and m + 1 < n_levels:
                penalty[m + 1] += self._outside_of(allowed, lattice, self.inside[m + 1])
        self.exact = Tiles(lattice, words, penalty, problem.free, instance.relevant_mask)

    def _outside_of(self, allowed: frozenset[tuple[int, ...]], lattice: Lattice, inside: FloatArray) -> FloatArray:
        """``N`` infinite where the sizes of all sliding dimensions are none of these (0 there: any size)."""
        together = list(self.problem.windows)
        value = lattice.value[together] * inside[together][:, None]
        fits = np.zeros(value.shape[1], bool)
        for sizes in allowed:
            wanted = np.array(sizes, np.float64)[:, None]
            fits |= ((value == wanted) | (wanted == 0.0)).all(axis=0)
        return np.where(fits, 0.0, np.inf)

    @cached_property
    def folded(self) -> Tiles:
        """Tiles of `bound`: dimensions that index the same tensors, not all plainly, count as one; the best tile stands for all."""
        problem, groups = self.problem, self.problem.folds
        lattice, place = _folding(self.exact.lattice.bounds, groups)
        n_tensors, n_levels, _ = self.least.shape
        words = np.empty((n_tensors, n_levels, lattice.n_tiles))
        penalty = np.empty((n_levels, 1 << n_tensors, lattice.n_tiles))
        fold(place, self.least, self.exact.penalty, words, penalty)
        free = np.array([problem.free[:, list(group)].max(axis=1) for group in groups], np.int64).T
        relevant = np.array([self.exact.relevant[group[0]] for group in groups], np.int64)
        return Tiles(lattice, words, penalty, np.ascontiguousarray(free), relevant)

    @cached_property
    def windows(self) -> Windows:
        """What slides."""
        problem, instance, lattice = self.problem, self.problem.instance, self.exact.lattice
        n_levels, n_dims, n, t = instance.n_levels, instance.n_dims, lattice.n_tiles, problem.sliding
        if t < 0:
            return NO_WINDOWS
        shared, steady = np.empty((n_levels, n_levels, n_dims, n)), np.empty((n_levels, n_levels, n_dims), np.int64)
        shared_words(t, lattice.value, self.inside, problem.coef, problem.slides, self.exact.words, shared, steady)
        number, tables = self._chain_tables()
        first, room = np.zeros(n_levels * n_dims + 1, np.int64), 256 if len(tables) else 0
        while True:
            chains, saved = np.empty((room, 5), np.int64), np.empty((room, 3))
            if len(tables):
                list_chains(
                    number, tables, problem.axis_of, lattice.value, self.inside, *problem.places, self.exact.grid, chains,
                    saved, first,
                )  # fmt: skip
            if first[-1] <= room:
                return Windows(t, shared, steady, chains, saved, first)
            room = int(first[-1])

    def _chain_tables(self) -> tuple[IntArray, FloatArray]:
        """``L x D`` number of the chain table when a first loop is over a dimension, -1 none; the tables, see `chain_table`."""
        number = np.full(self.spatial.shape, -1, np.int64)
        tables: list[FloatArray] = []
        for t, axis in self.problem.bases.axis_rows():
            for c in range(len(self.spatial)):
                for d, table in self.problem.chain_tables(t, axis, self.spatial[:c, list(axis)]):
                    number[c, d] = len(tables)
                    tables.append(table)
        return number, np.array(tables)

    def bound(self, weight: FloatArray) -> float:
        """A quick lower bound on `run`: windows always slide as well as they can, and fewer tiles are told apart."""
        program = self.problem.program_of(self.spatial, False, False)
        return self._run(weight, self.folded, program, NO_WINDOWS, self.folded.penalty)

    def run(self, weight: FloatArray, restricted: FloatArray | None = None) -> float:
        """Least weighted sum of energy and port cycles (``1 + J``) of any keep sets, tiling and order.

        Args:
            weight: Of each.
            restricted: ``L x 2**T`` added for the tensors each level keeps: infinite to forbid.
        """
        slides, chained = self.windows.tensor >= 0, bool(self.windows.first[-1] > 0)
        program = self.problem.program_of(self.spatial, slides, chained)
        penalty = self.exact.penalty if restricted is None else self.exact.penalty + restricted[..., None]
        return self._run(weight, self.exact, program, self.windows, penalty)

    def _run(
        self, weight: FloatArray, tiles: Tiles, program: JointProgram, windows: Windows, penalty: FloatArray
    ) -> float:
        price, fixed = np.empty(self.price.shape[1:]), np.empty(self.price.shape[1:])
        weigh(weight, self.price, self.fixed, price, fixed)
        n, n_charges, n_shared = tiles.lattice.n_tiles, len(program.charges), len(program.shared)
        charge, once = np.empty((n_charges, n)), np.empty(n_charges)
        shared, steady = np.empty((n_shared, n)), np.empty(n_shared, np.int64)
        fill_charges(program, tiles.words, windows, price, fixed, charge, once, shared, steady)
        table = np.empty((len(program.first) - 1, n))
        run_program(
            table, program, tiles.grid, tiles.free, tiles.relevant, windows, charge, once, shared, steady, penalty,
            np.empty((1, n)),
        )  # fmt: skip
        start, value = least_start(table, program.starts, price, fixed, self.fewest)
        self.filled = Filled(program, table, charge, once, shared, steady, penalty, start)
        return float(value) + float(weight[0]) * self.constant

    def trace(self) -> tuple[list[LevelLoops], KeepSets]:
        """The loops and keep sets of the least value of the last `run`."""
        return JointTrace(self, self.filled).walk()
