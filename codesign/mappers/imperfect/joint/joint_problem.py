"""One keep set made ready: boundaries, fan-outs, cells of every level, and the program that bounds a profile."""

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from codesign.core.goals import Objective
from codesign.cost.arrays import Problem
from codesign.mappers.imperfect.joint.boundaries import Boundaries, list_boundaries
from codesign.mappers.imperfect.joint.cells import SMALL, Cells, cross, list_cells, padded
from codesign.mappers.imperfect.joint.counts import Ceilings, ceilings
from codesign.mappers.imperfect.joint.fan_outs import list_fan_outs
from codesign.mappers.imperfect.joint.least_costs import Spread, base_of, room_for_spread
from codesign.mappers.imperfect.joint.list_profiles import Limits, Vectors, list_profiles
from codesign.mappers.imperfect.joint.walk_kernel import States, walk_level
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.nest import FloatArray, IntArray
from codesign.workloads.touched import touched_words

MOST_GRID = 4_000_000
"""Places of a grid of cells that are listed at most."""
MOST_PROFILES = 300_000
_WORK_OF_A_CALL = 30_000
"""Steps that the program could take in the time that getting ready takes."""
_KEPT_GRIDS = 300
_SLACK = 1.0 + 1e-9


class WalkLevel(NamedTuple):
    """The tables of one level of a profile's walk, for reading off the nest.

    Attributes:
        cells: Its cells.
        source: ``S x N`` where a value came from inside the level.
        entry: ``S x N`` cell of the next level in that it was entered from.
    """

    cells: Cells
    source: IntArray
    entry: IntArray


Walk = list[WalkLevel]
"""The tables of all levels, outermost first."""


@dataclass(frozen=True)
class Profile:
    """What every fan-out does, and what follows from that alone.

    Args:
        spread: That.
        price: ``K`` prices of every term.
        each: ``B`` least cost of every boundary.
        base: Their sum and the constant.
    """

    spread: Spread
    price: FloatArray
    each: FloatArray
    base: float


class Cut(NamedTuple):
    """A condition on the mappings of a part (rule IB15).

    Args:
        level: Whose tile it is about.
        dim: Along which dimension.
        number: Tiles of the level along it, outside.
        equal: Whether there are so many, or any other number.
    """

    level: int
    dim: int
    number: int
    equal: bool


@dataclass(frozen=True)
class OuterCosts:
    """The least costs of all that is still to close at the start of a level, and the least over all starts.

    Args:
        level: The level of the first fan-out.
        cells: Its cells with nothing inside.
        value: ``S x N`` least cost to come, infinite where nothing ends.
        least: Least cost of all boundaries counted, with any profile.
        price: ``K`` prices of what is counted.
    """

    level: int
    cells: Cells
    value: FloatArray
    least: float
    price: FloatArray

    def plus(self, weight: float, other: "OuterCosts") -> "OuterCosts":
        """The least sum is at least the sum of the least: costs under these prices and `weight` times the other ones."""
        return OuterCosts(
            self.level, self.cells, self.value + weight * other.value, self.least + weight * other.least,
            self.price + weight * other.price,
        )  # fmt: skip


@dataclass
class JointProblem:
    """A problem with its keep sets given.

    Args:
        arrays: The problem as the arrays that the cost kernel reads.
        keep: ``L x T`` 1 where a level keeps a tensor.
        work: Steps of the program so far.
        looks: Bounds of profiles by themselves so far.
    """

    problem: MappingProblem
    arrays: Problem
    keep: IntArray
    work: int = 0
    looks: int = 0
    _grids: dict[tuple[int, ...], Cells] = field(default_factory=dict)

    @cached_property
    def dims(self) -> list[int]:
        """Dimensions with a bound above 1."""
        return [d for d, n in enumerate(self.arrays.bounds) if n > 1] or [0]

    @cached_property
    def data(self) -> Boundaries:
        """What crosses into every level."""
        computation = self.problem.computation
        words = [touched_words(computation, t) for t in computation.tensors]
        return list_boundaries(self.arrays, self.keep, self.dims, words)

    @cached_property
    def fan_outs(self) -> Vectors | None:
        """What every fan-out may do; None where it is too much to list."""
        return list_fan_outs(self.problem, self.dims)

    @cached_property
    def output_words(self) -> float:
        """Words of the output."""
        return float(self.arrays.tensor_words[-1])

    @cached_property
    def energy(self) -> FloatArray:
        """``K`` energy of a word of every term."""
        return np.ascontiguousarray(self.data.weight[:, 0])

    @cached_property
    def states(self) -> "list[States]":
        """The states of every level and, last, the one at the MACs."""
        data, levels = self.data, len(self.keep)
        found: list[States] = []
        for v in range(levels + 1):
            inside = [data.level[a:b] for a, b in zip(data.first, data.first[1:], strict=False)]
            ended = np.array([((row > v) & (row < levels)).sum() for row in inside], np.int64)
            digit = np.cumprod([1, *(ended[:-1] + 1)]).astype(np.int64)
            open_of = (np.arange(int(np.prod(ended + 1)))[:, None] // digit[None, :]) % (ended + 1)[None, :]
            order = np.argsort(-(open_of > 0).sum(axis=1), kind="stable").astype(np.int64)
            opens = np.array([int((row == v + 1).any() and v + 1 < levels) for row in inside], np.int64)
            found.append(States(ended, digit, np.ascontiguousarray(open_of.astype(np.int64)), order, opens))
        return found

    def arriving(self, v: int) -> IntArray:
        """The state of level v that each state of the next level in becomes: the tensors kept there are open once more."""
        here, inner = self.states[v], self.states[v + 1]
        become: IntArray = ((inner.open_of + here.opens[None, :]) * here.digit[None, :]).sum(axis=1)
        return become

    def profiles(
        self,
        most_steps: float,
        least_cycles: float,
        most: float,
        objective: Objective,
        room: int,
        outer: OuterCosts | None = None,
    ) -> tuple[IntArray, FloatArray, FloatArray] | None:
        """Profiles that may have a value of at most `most`: vectors, least cycles, least energy; None where they are too many.

        Args:
            most_steps: Steps of computing that matter.
            least_cycles: No mapping takes fewer.
            most: Value that matters.
            room: Profiles listed at most.
            outer: What the outer levels cost whatever the profile (rule IB16).
        """
        if self.fan_outs is None:
            return None
        limits = Limits(
            float(self.arrays.macs * self.arrays.mac_energy), float(most_steps), float(least_cycles), float(most), 0.0 if outer is None else float(outer.least),
            objective is not Objective.LATENCY, objective is not Objective.ENERGY, max(1, self.problem.least_units), room,
        )  # fmt: skip
        nowhere = np.ones((len(self.keep), len(self.dims)), np.int64)
        prices = np.array([self.energy, *(self.port_prices(v, w, nowhere) for v, w in self.ports)])
        chosen, cycles, energy, complete, looks = list_profiles(
            self.data, prices, np.array([v for v, _ in self.ports], np.int64), self.fan_outs, self.undecided(),
            self.output_words, self.energy if outer is None else outer.price, limits,
        )  # fmt: skip
        self.looks += looks
        return (chosen, cycles, energy) if complete else None

    def undecided(self) -> Spread:
        """Fan-outs that may do anything, with room for what they share."""
        ones = np.ones((len(self.keep), len(self.dims)), np.int64)
        children = self.arrays.fanout.prod(axis=1).astype(np.int64)
        return room_for_spread(ones, ones.copy(), self.keep.shape[1])._replace(unknown=children)

    @cached_property
    def ports(self) -> list[tuple[int, bool]]:
        """(level, whether the write port) of every port with a limit."""
        rates, one = self.arrays.bandwidth, self.arrays.one_port
        return [
            (v, bool(w))
            for v in range(len(self.keep))
            for w in (0, 1)
            if rates[v, w] > 0.0 and not (w and one[v] and rates[v, 0] > 0.0)
        ]

    def factors(self, chosen: IntArray) -> tuple[IntArray, IntArray]:
        """``L x D`` spatial factors and fewest children of a profile."""
        found = self.fan_outs
        assert found is not None
        rows = found.start[:-1] + chosen
        return np.ascontiguousarray(found.flat[rows]), np.ascontiguousarray(found.fewest[rows])

    def port_prices(self, level: int, write: bool, factor: IntArray) -> FloatArray:
        """``K`` cycles per word of one port at a level's busiest instance, which moves the mean of all at least."""
        what = np.zeros(1 + 2 * len(self.keep))
        read_rate, write_rate = (float(x) for x in self.arrays.bandwidth[level])
        instances = float(np.prod(factor[:level]))
        both = bool(self.arrays.one_port[level])
        if read_rate > 0.0 and (both or not write):
            what[1 + 2 * level] = 1.0 / read_rate / instances
        if write_rate > 0.0 and (both or write):
            what[2 + 2 * level] = 1.0 / write_rate / instances
        cycles: FloatArray = self.data.weight @ what
        return cycles

    def cells(self, v: int, inside: IntArray) -> Cells | None:
        """Cells of level v with so many children inside; None where there are too many."""
        key = (v, *(int(n) for n in inside))
        if key not in self._grids:
            if len(self._grids) >= _KEPT_GRIDS:
                self._grids.pop(next(iter(self._grids)))
            made = self._make_cells(v, inside)
            if made is None:
                return None
            self._grids[key] = made
        return self._grids[key]

    def _make_cells(self, v: int, inside: IntArray) -> Cells | None:
        bounds = self.data.bounds
        rows = [ceilings(int(-(-n // s))) for n, s in zip(bounds, inside, strict=True)]
        tiles = [np.minimum(n, row.tile * s) for n, row, s in zip(bounds, rows, inside, strict=True)]
        size = np.array([self._fitting(v, d, tile) for d, tile in enumerate(tiles)], np.int64)
        number = math.prod(int(n) for n in size)
        if number > MOST_GRID or number == 0:
            return None
        stride = np.array([math.prod(int(n) for n in size[d + 1 :]) for d in range(len(size))], np.int64)
        _, cell = self._numbered(v, size, tiles)
        self.work += number
        grid = np.flatnonzero(cell >= 0)
        place = np.stack(np.unravel_index(grid, tuple(size)), axis=1)
        return Cells(place.astype(SMALL), stride, cell.astype(SMALL), grid.astype(SMALL), size, *_joined(rows))

    def _fitting(self, v: int, d: int, tile: IntArray) -> int:
        """How many of the tiles of one dimension fit all levels from v outwards, the other dimensions at their least."""
        tiles, size = [np.ones(1, np.int64)] * len(self.data.bounds), np.ones(len(self.data.bounds), np.int64)
        tiles[d], size[d] = tile, len(tile)
        return self._numbered(v, size, tiles)[0]

    def _numbered(self, v: int, size: IntArray, tiles: list[IntArray]) -> tuple[int, IntArray]:
        """How many places of a grid have tiles that fit all levels from v outwards, and the cell of every place."""
        cell, arrays = np.empty(math.prod(int(n) for n in size), np.int64), self.arrays
        bits, capacity = arrays.element_bits, arrays.capacity_bits
        return list_cells(size, padded(tiles), self.keep, bits, capacity, v, self.data, cell), cell

    def prepare(self, chosen: IntArray, price: FloatArray) -> Profile:
        """A profile under prices of every term, the energy of the MACs included."""
        factor, fewest = self.factors(chosen)
        spread = room_for_spread(factor, fewest, self.keep.shape[1])
        each = np.zeros(len(self.data.level))
        constant = float(self.arrays.macs * self.arrays.mac_energy)
        base = constant + base_of(self.data, price, spread, self.output_words, each)
        return Profile(spread, price, each, base)

    @cached_property
    def closed(self) -> list[FloatArray]:
        """By level ``S x B`` 1 where a boundary is closed in a state."""
        data, found = self.data, []
        for states in self.states[:-1]:
            table = np.zeros((len(states.open_of), len(data.level)))
            for t, ended in enumerate(states.ended):
                for i in range(int(ended)):
                    table[:, data.first[t] + 1 + i] = states.open_of[:, t] < ended - i
            found.append(table)
        return found

    def thresholds(self, profile: Profile, limit: float) -> list[FloatArray]:
        """Costs of all closed boundaries up to which each state of a level matters: the limit less what is still to come."""
        room = (limit - profile.base) * _SLACK + abs(limit) * 1e-12
        return [room + table @ profile.each for table in self.closed]

    def least(
        self,
        profile: Profile,
        most: list[FloatArray],
        most_steps: float = math.inf,
        cuts: tuple[Cut, ...] = (),
        outer: OuterCosts | None = None,
        recorded: bool = False,
    ) -> tuple[float, Walk | None]:
        """Least cost of a profile, infinite if it exceeds what `most` allows (rule IB12).

        A profile whose cells are too many is bounded by what it costs at least (rule IB11).

        Args:
            most: Costs that matter, by level and state.
            most_steps: Steps of computing that matter (rule IB13).
            cuts: Conditions on the tiles (rule IB15).
            outer: What the outer levels cost whatever the profile (rule IB16).
            recorded: Whether the walk is wanted too, for reading off its nest.
        """
        levels, data = len(self.keep), self.data
        self.work += _WORK_OF_A_CALL
        walk: Walk | None = [] if recorded else None
        inside = np.ones(len(data.bounds), np.int64)
        previous, live, value = self._start(), np.zeros((1, 2), np.int64), np.zeros(1)
        for v in range(levels - 1, -1, -1):
            inside = inside * profile.spread.factor[v]
            cells = self.cells(v, inside)
            if cells is None:
                return profile.base, None
            limit, states = most[v], self.states[v]
            table = np.full((len(states.order), len(cells.place)), math.inf)
            entry = np.full((len(table), 0 if walk is None else table.shape[1]), -1, np.int64)
            source = entry.copy()
            arrived = self._enter(profile, v, previous, cells, live, value, table, entry, limit, most_steps, outer)
            if arrived:
                self.work += table.size + walk_level(
                    cells, table, source, states, data, profile.price, v, profile.spread, limit
                )
            kept = np.flatnonzero(table <= limit[:, None])
            live, value = np.stack(np.divmod(kept, table.shape[1]), axis=1), table.ravel()[kept]
            previous = cells
            inside, live, value = self._cut(v, cuts, inside, cells, live, value)
            if walk is not None:
                walk.insert(0, WalkLevel(cells, source, entry))
            if not arrived:
                return math.inf, None
        whole = self._whole(profile, previous, table)
        return whole, walk if math.isfinite(whole) else None

    def _enter(
        self, profile: Profile, v: int, inner: Cells, cells: Cells, live: IntArray, value: FloatArray, table: FloatArray,
        entry: IntArray, limit: FloatArray, most_steps: float, outer: OuterCosts | None,
    ) -> bool:  # fmt: skip
        """Cross the fan-out of level v from the live values inside it; whether anything arrives that matters."""
        steps = _NO_STEPS if self._without_steps(profile, v, most_steps) else self.steps(profile, v, inner)
        arrived = cross(
            inner, cells, live, value, table, entry, profile.spread.factor[v], profile.spread.fewest[v], self.arriving(v), limit,
            steps, most_steps,
        )  # fmt: skip
        self.work += len(live)
        if arrived and outer is not None and outer.level == v:
            arrived = self._drop_hopeless(profile, cells, table, limit, outer)
        return bool(arrived)

    def _drop_hopeless(
        self, profile: Profile, cells: Cells, table: FloatArray, limit: FloatArray, outer: OuterCosts
    ) -> int:
        """Drop the costs at the start of a level with which what is still to come exceeds the limit; returns how many are left.

        `limit` holds where every boundary to come costs its least by itself (rule IB16).
        """
        data, spread = self.data, profile.spread
        each, spread = np.zeros(len(data.level)), room_for_spread(spread.factor, spread.fewest, len(data.related))
        base_of(data, outer.price, spread, self.output_words, each)
        to_come = each.sum() - self.closed[outer.level] @ each
        numbers = cells.numbers()
        place, known = np.zeros(len(numbers), np.int64), np.ones(len(numbers), bool)
        for d, bound in enumerate(data.bounds):
            at = ceilings(int(bound)).place_of[numbers[:, d]]
            known &= (at >= 0) & (at < outer.cells.size[d])
            place += np.where(known, at, 0) * outer.cells.stride[d]
        cell = np.where(known, outer.cells.cell[np.where(known, place, 0)], -1)
        ahead = np.where(cell >= 0, outer.value[:, cell], 0.0)
        table[table > (limit + to_come)[:, None] - ahead * (1.0 - 1e-9)] = math.inf
        return int(np.isfinite(table).sum())

    def _whole(self, profile: Profile, outermost: Cells, table: FloatArray) -> float:
        """The cost of the cell that is everything, infinite where it was not reached."""
        last = int(outermost.cell[-1]) if len(outermost.cell) else -1
        if last < 0 or (outermost.numbers(last) != 1).any():
            return math.inf
        at_macs = profile.base - float(profile.each[self.data.level < len(self.keep)].sum())
        return at_macs + float(table[0, last])

    def _cut(
        self, v: int, cuts: tuple[Cut, ...], inside: IntArray, cells: Cells, live: IntArray, value: FloatArray
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """What is inside the levels further out, and the values at the end of level v that obey the cuts (rule IB15)."""
        for cut in cuts:
            if cut.level != v:
                continue
            obeys = (cells.tiles[cut.dim, cells.place[live[:, 1], cut.dim]] == cut.number) == cut.equal
            live, value = live[obeys], value[obeys]
            if cut.equal:
                row = ceilings(-(-int(self.data.bounds[cut.dim]) // int(inside[cut.dim])))
                inside = inside.copy()
                inside[cut.dim] *= int(row.tile[row.place_of[cut.number]])
        return inside, live, value

    @staticmethod
    def _without_steps(profile: Profile, v: int, most_steps: float) -> bool:
        """Whether a limit on steps changes nothing up to level v: no fan-out is in use there."""
        return math.isinf(most_steps) or not (profile.spread.factor[v:] > 1).any()

    def steps(self, profile: Profile, v: int, inner: Cells) -> IntArray:
        """Fewest steps of computing along each dimension with so many tiles at the fan-out of level v: ``D x places`` (rule IB13)."""
        inside = profile.spread.factor[v + 1 :].prod(axis=0)
        across = profile.spread.factor[: v + 1].prod(axis=0)
        found = np.ones((len(inside), int(inner.size.max())), np.int64)
        for d, bound in enumerate(self.data.bounds):
            row = ceilings(-(-int(bound) // int(inside[d])))
            for i in range(int(inner.size[d])):
                place = int(row.place_of[inner.tiles[d, i]])
                found[d, i] = fewest_steps_with(int(bound), int(inside[d]), int(across[d]), place)
        return found

    def _start(self) -> Cells:
        """The one cell at the MACs: no loop yet."""
        rows, ones = [ceilings(int(n)) for n in self.data.bounds], np.ones(len(self.data.bounds), np.int64)
        return Cells(
            np.zeros((1, len(rows)), SMALL), ones, np.zeros(1, SMALL), np.zeros(1, SMALL), ones, *_joined(rows)
        )


_NO_STEPS = np.zeros((0, 0), np.int64)


@lru_cache(maxsize=200_000)
def fewest_steps_with(bound: int, inside: int, across: int, place: int) -> int:
    """Fewest steps along a dimension where a fan-out finds the tiles at `place` of the lattice (rule IB13).

    `inside` children work within such a tile and `across` such tiles are worked on at a time. All passes but the last take as many steps as
    a whole tile has; the last one at least what is left for the first child.
    """
    row = ceilings(-(-bound // inside))
    first = int(row.tile[place])
    past = int(row.tile[place + 1]) if place + 1 < len(row.tile) else first + 1
    least = -(-bound // (inside * across))
    best = min(
        (passes - 1) * tile + min(tile, -(-(bound - (passes - 1) * tile * inside * across) // inside))
        for tile in range(first, past)
        for passes in [-(-bound // (tile * inside * across))]
    )
    return max(least, best)


def _joined(rows: list[Ceilings]) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
    """The lattices of all dimensions, as `Cells` has them."""
    places = np.cumsum([0, *(len(r.place_of) for r in rows[:-1])]).astype(np.int64)
    count, first, follow = (padded(part) for part in zip(*((r.number, r.first, r.next) for r in rows), strict=True))
    return count, first, follow, np.concatenate([r.place_of for r in rows]), places
