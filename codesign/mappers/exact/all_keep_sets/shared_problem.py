"""What all profiles of an instance share: vectors of spatial factors, closed-form bounds, programs."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from codesign.mappers.exact.all_keep_sets.fill_states import Decisions, JointProgram, Stacks, make_program
from codesign.mappers.exact.all_keep_sets.word_prices import bound_factors
from codesign.mappers.exact.one_keep_set.fixed_keep_set import FixedKeep
from codesign.mappers.exact.problem.charge_bases import BaseArrays
from codesign.mappers.exact.problem.instance import Instance
from codesign.mappers.exact.problem.spatial import FanoutOptions, options_of
from codesign.mapping.constraints import Keep
from codesign.mapping.nest import FloatArray, IntArray

BoolArray = npt.NDArray[np.bool_]


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
    return Vectors(np.concatenate(rows), options.distinct[which], tuple(options.tiles[o] for o in option), which)


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
        """Vectors of spatial factors that every fan-out may have."""
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
        """Whether a dimension indexes a tensor: ``T x D``."""
        return self.instance.relevant.astype(np.int64)

    @cached_property
    def coef(self) -> FloatArray:
        """``T x A x D`` coefficients."""
        return self.instance.coef.astype(np.float64)

    @cached_property
    def n_ports(self) -> int:
        """Number of ports whose bandwidth is limited."""
        return len(self.all_kept.ports)

    def bounds(self, rows: IntArray) -> FloatArray:
        """``P x (1 + J)`` closed-form bounds of profiles (a vector for each fan-out) on energy and every port's cycles."""
        first, factors, distinct = self.stacked
        out = np.empty((len(rows), 1 + self.n_ports))
        bound_factors(
            rows + first[:-1], factors, distinct, self.all_kept.hardware, self.relevant, *self.open_levels, out
        )
        return out

    def children_of(self, rows: IntArray) -> FloatArray:
        """MACs in use of every profile: ``P``."""
        first, factors, _ = self.stacked
        return np.asarray(factors[rows + first[:-1]].prod(axis=(1, 2)))

    @cached_property
    def open_levels(self) -> tuple[IntArray, IntArray]:
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
        slides = tuple((d, int(masks[d])) for d in self.instance.windows if exactly)
        return make_program(self.decisions, self._stacks(spatial, chained), sliding, slides, chained and exactly)

    def chain_tables(self, t: int, axis: tuple[int, ...], spatial: FloatArray) -> list[tuple[int, FloatArray]]:
        """Dimension and `chain_table` of every first loop along an axis that may start a chain.

        Args:
            t: Tensor.
            axis: Its dimensions.
            spatial: ``c x A`` factors of these dimensions on the fan-outs outside the loop's level c.
        """
        key = (t, axis, spatial.tobytes())
        with self.bases.lock:  # profiles may be bounded by several threads
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

    def _stacks(self, spatial: FloatArray, chained: bool) -> Stacks:
        """Which levels can pay that hold the same tile of a tensor as a level inside (section D9 of the docs).

        Only where a fan-out in between makes the level inside ask for a word more than once: children share a window, or
        words are not multicast. Where chains may go on and some level must keep the sliding tensor, anywhere.
        """
        used, instance = spatial > 1.0, self.instance
        key = used.tobytes(), chained
        if key not in self._known_stacks:
            twice = np.array([self.asked_twice(m, row[None])[0] for m, row in enumerate(used)]).T
            if chained and any(row[self.sliding] is Keep.YES for row in self.decisions[1:]):
                twice[self.sliding] = True
            self._known_stacks[key] = _between(twice.tobytes(), instance.n_tensors, instance.n_levels)
        return self._known_stacks[key]

    def asked_twice(self, m: int, used: BoolArray) -> BoolArray:
        """``V x T`` whether a fan-out that uses these (``V x D``) dimensions asks the level outside for a word more than once."""
        instance = self.instance
        twice = np.zeros((len(used), instance.n_tensors), bool)
        for t in range(instance.n_tensors):
            moving = [d for axis in instance.sliding_axes[t] for d in axis]
            twice[:, t] = used[:, moving].any(axis=1)
            if instance.problem.shares[m] == 0:
                twice[:, t] |= used[:, ~instance.relevant[t]].any(axis=1)
        return twice

    @cached_property
    def _known_stacks(self) -> dict[tuple[bytes, bool], Stacks]:
        """Results of `_stacks` by which factors are above 1 and whether chains may go on."""
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


@lru_cache(maxsize=1024)
def _between(twice: bytes, n_tensors: int, n: int) -> Stacks:
    """Whether some fan-out between two levels asks twice, for ``T x L`` flags."""
    flags = np.frombuffer(twice, bool).reshape(n_tensors, n)
    return tuple(tuple(tuple(bool(row[v:w].any()) for w in range(n)) for v in range(n)) for row in flags)
