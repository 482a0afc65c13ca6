"""What all profiles of an instance share: vectors of spatial factors, closed-form bounds, chain tables, programs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from threading import Lock

import numpy as np
import numpy.typing as npt

from codesign.cost.arrays import Reuse
from codesign.mappers.exact.even.fill_states import Decisions, Moves, Program, Stacks, make_program
from codesign.mappers.exact.even.word_prices import Arrays, bound_factors, make_arrays
from codesign.mappers.exact.problem.instance import Instance, LevelRules
from codesign.mappers.exact.problem.sliding_windows import chain_table
from codesign.mappers.exact.problem.spatial import Vectors, vectors_of
from codesign.mapping.constraints import Keep
from codesign.mapping.nest import FloatArray, IntArray

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class EvenProblem:
    """An instance over profiles given by one vector for each fan-out; of the decisions ``L x T`` free ones are decided by the program."""

    instance: Instance
    decisions: Decisions
    _known_stacks: dict[tuple[bytes, tuple[bool, ...]], Stacks] = field(default_factory=dict, init=False)
    _known_chains: dict[tuple[int, tuple[int, ...], bytes], list[tuple[int, FloatArray]]] = field(
        default_factory=dict, init=False
    )
    _lock: Lock = field(default_factory=Lock, init=False)
    """Held while chain tables are added."""

    @cached_property
    def arrays(self) -> Arrays:
        """The problem for compiled code."""
        return make_arrays(self.instance, self.decisions, self.vectors)

    @cached_property
    def n_ports(self) -> int:
        """Number of ports whose bandwidth is limited."""
        return int(self.arrays.port.max(initial=-1)) + 1

    def weights(self, energy: float, cycles: float = 0.0, port: int = 0) -> FloatArray:
        """``1 + J`` weights of energy and of the cycles of every port, of which one counts at most."""
        found = np.zeros(1 + self.n_ports)
        found[0] = energy
        found[1 + port : 2 + port] = cycles
        return found

    @cached_property
    def vectors(self) -> tuple[Vectors, ...]:
        """Vectors of spatial factors that every fan-out may have."""
        return tuple(vectors_of(self.instance, m) for m in range(self.instance.n_levels))

    @cached_property
    def _first(self) -> IntArray:
        """``L`` where the vectors of every fan-out begin in `arrays`."""
        return np.cumsum([0] + [len(v.factors) for v in self.vectors[:-1]])

    def numbers(self, rows: IntArray) -> IntArray:
        """Of profiles (a vector for each fan-out) the numbers of their vectors in `arrays`."""
        return rows + self._first

    def factors(self, rows: IntArray) -> FloatArray:
        """``... x L x D`` spatial factors of profiles."""
        return self.arrays.factors[self.numbers(rows)]

    def bounds(self, rows: IntArray) -> FloatArray:
        """``P x (1 + J)`` closed-form bounds of profiles (a vector for each fan-out) on energy and every port's cycles."""
        out = np.empty((len(rows), 1 + self.n_ports))
        bound_factors(self.numbers(rows), self.arrays, out)
        return out

    # ---- programs ------------------------------------------------------------------------------

    @cached_property
    def relaxed_rules(self) -> tuple[LevelRules, ...]:
        """What levels may loop over, fixed factors and orders left out of account."""
        return tuple(
            LevelRules((), rules.free | {d for d, _ in rules.fixed}) for rules in self.instance.rules
        )  # fmt: skip

    def program_of(
        self, spatial: FloatArray, exactly: bool, chained: bool, decisions: Decisions | None = None
    ) -> Program:
        """The operations for profiles with such spatial factors ``L x D``.

        Fixed factors and orders are obeyed where no decision is free and the program is exact.

        Args:
            exactly: Whether windows slide along a first loop only; else closing always costs the least it could.
            chained: Whether loops after the first may save words too.
            decisions: In place of the problem's.
        """
        decisions = decisions or self.decisions
        fixed = exactly and all(k is not Keep.FREE for row in decisions for k in row)
        rules = self.instance.rules if fixed else self.relaxed_rules
        forced = tuple(
            chained and bool(axes) and any(row[t] is Keep.YES for row in decisions[1:])
            for t, axes in enumerate(self.instance.sliding_axes)
        )
        stacks = self._stacks(spatial, forced)
        return make_program(decisions, stacks, self._moves[exactly, chained and exactly], rules)

    @cached_property
    def _moves(self) -> dict[tuple[bool, bool], Moves]:
        """What loops do, windows left out of account or not, chains or not."""
        instance = self.instance
        masks = tuple(int(mask) for mask in instance.relevant_mask)
        slides = tuple(frozenset(d for axis in axes for d in axis) for axes in instance.sliding_axes)
        followed = tuple(t in self.followed for t in range(instance.n_tensors))
        still = Moves(masks, (frozenset(),) * instance.n_tensors, (False,) * instance.n_tensors, False)
        moving = Moves(masks, slides, followed, False)
        return {(False, False): still, (True, False): moving, (True, True): Moves(masks, slides, followed, True)}

    @cached_property
    def followed(self) -> tuple[int, ...]:
        """Tensors whose windows slide in a way that is followed."""
        instance = self.instance
        return tuple(t for t, axes in enumerate(instance.sliding_axes) if axes and not instance.bounded_only(t))

    def _stacks(self, spatial: FloatArray, anywhere: tuple[bool, ...]) -> Stacks:
        """Which levels can pay that hold the same tile of a tensor as a level inside (D9).

        Only where a fan-out in between makes the level inside ask for a word more than once: children share a window, or
        words are not multicast. Where chains may go on and some level must keep a sliding tensor, anywhere.
        """
        used, instance = spatial > 1.0, self.instance
        key = used.tobytes(), anywhere
        if key not in self._known_stacks:
            twice = np.array([self.asked_twice(m, row[None])[0] for m, row in enumerate(used)]).T
            twice[list(anywhere)] = True
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
    def folds(self) -> tuple[tuple[int, ...], ...]:
        """Dimensions, those that index the same tensors together unless all of these do so plainly."""
        groups: dict[tuple[int, int], list[int]] = {}
        plain = self.instance.plain | ~self.instance.relevant
        for d, mask in enumerate(self.instance.relevant_mask):
            groups.setdefault((int(mask), d if plain[:, d].all() else -1), []).append(d)
        return tuple(tuple(group) for group in groups.values())

    # ---- windows -------------------------------------------------------------------------------

    @cached_property
    def axes(self) -> list[tuple[int, tuple[int, ...]]]:
        """(tensor, dimensions) of every sliding axis."""
        return [(t, axis) for t, axes in enumerate(self.instance.sliding_axes) for axis in axes]

    @cached_property
    def axis_row(self) -> IntArray:
        """``T x D`` number in `axes` of the axis that a dimension stands on, -1 none."""
        table = np.full((self.instance.n_tensors, self.instance.n_dims), -1, np.int64)
        for row, (t, axis) in enumerate(self.axes):
            table[t, list(axis)] = row
        return table

    @cached_property
    def places(self) -> tuple[IntArray, IntArray]:
        """``D x (largest bound + 1)`` position of every divisor among those of its bound, -1; ``D`` how many there are."""
        lattice = self.instance.lattice
        table = np.full((self.instance.n_dims, max(lattice.bounds, default=1) + 1), -1, np.int64)
        for d, divisors in enumerate(lattice.divisors):
            table[d, list(divisors)] = range(len(divisors))
        return table, lattice.grid.n_divisors

    def chain_tables(self, t: int, axis: tuple[int, ...], spatial: FloatArray) -> list[tuple[int, FloatArray]]:
        """Dimension and `chain_table` of every first loop along an axis that may start a chain; `spatial` are its factors outside the loop's level."""
        key = (t, axis, spatial.tobytes())
        with self._lock:  # profiles may be bounded by several threads
            if key not in self._known_chains:
                tables = self._make_chains(t, axis, spatial.astype(np.int64))
                self._known_chains[key] = [(d, a) for d, a in zip(axis, tables, strict=True) if a.max() > 0.0]
            return self._known_chains[key]

    def _make_chains(self, t: int, axis: tuple[int, ...], spatial: IntArray) -> Iterator[FloatArray]:
        """``2 x J x tiles of the axis`` for every dimension of an axis, padded to the most tiles of any."""
        lattice, instance = self.instance.lattice, self.instance
        width = lattice.grid.grow.shape[1]
        divisors = np.zeros((len(axis), width), np.int64)
        for i, d in enumerate(axis):
            divisors[i, : len(lattice.divisors[d])] = lattice.divisors[d]
        counts = lattice.grid.n_divisors[list(axis)]
        if instance.bounded_only(t):
            table = np.ones((2, len(axis), width, int(counts.prod())))
            table[:, :, 0] = 0.0  # a factor of 1 is no loop
        else:
            row = int(np.flatnonzero(instance.coef[t][:, axis[0]])[0])
            bounds = np.array([[lattice.bounds[d] for d in axis]], np.int64)
            reach = np.concatenate([bounds, bounds // spatial.cumprod(axis=0)])
            walk = instance.problem.reuse == Reuse.WALK.value
            table = chain_table(divisors, counts, reach, instance.coef[t, row, list(axis)], walk)
        most = max(int(lattice.grid.n_divisors[list(dims)].prod()) for _, dims in self.axes)
        padded = np.zeros((*table.shape[:3], most))
        padded[..., : table.shape[3]] = table
        return (padded[:, i] for i in range(len(axis)))


@lru_cache(maxsize=1024)
def _between(twice: bytes, n_tensors: int, n: int) -> Stacks:
    """Whether some fan-out between two levels asks twice, for ``T x L`` flags."""
    flags = np.frombuffer(twice, bool).reshape(n_tensors, n)
    return tuple(tuple(tuple(bool(row[v:w].any()) for w in range(n)) for v in range(n)) for row in flags)
