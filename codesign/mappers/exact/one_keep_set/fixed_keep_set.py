"""One problem with fixed keep sets: its profiles, their bounds, and the dynamic program of one profile."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from codesign.mappers.exact.one_keep_set.dynamic_program import cross_point, run_profile
from codesign.mappers.exact.problem.boundary_costs import (
    Coefficients,
    Hardware,
    Options,
    Running,
    bound_profiles,
    make_coefficients,
    make_running,
    profile_coefficients,
)
from codesign.mappers.exact.problem.boundary_states import States, make_states
from codesign.mappers.exact.problem.charge_bases import BaseArrays
from codesign.mappers.exact.problem.conflict_bound import Fitting, profile_tension, sharpen_choices
from codesign.mappers.exact.problem.instance import Instance
from codesign.mappers.exact.problem.spatial import FanoutOptions, options_of
from codesign.mappers.exact.problem.tables import Chains, Charges, Machine
from codesign.mapping.nest import FloatArray, IntArray

KeepSets = tuple[tuple[bool, ...], ...]


@dataclass(frozen=True, eq=False)
class FixedKeep:
    """A problem with fixed keep sets, ready for search.

    Attributes:
        instance: The problem.
        keep: ``L`` tuples, whether each tensor is kept.
        bases: Base arrays, shared by all keep sets of the instance.
        table: Room for the dynamic program, grown by `run`; keep sets searched in turns may share it.
    """

    instance: Instance
    keep: KeepSets
    bases: BaseArrays
    table: list[FloatArray] = field(default_factory=list)

    @cached_property
    def boundaries(self) -> tuple[tuple[int, int], ...]:
        """(level, tensor) of every boundary."""
        levels, tensors = range(1, self.instance.n_levels), range(self.instance.n_tensors)
        return tuple((v, t) for v in levels for t in tensors if self.keep[v][t])

    @cached_property
    def fanouts(self) -> tuple[FanoutOptions, ...]:
        """The options that every fan-out has."""
        found = []
        for m in range(self.instance.n_levels):
            inside = tuple(
                any(self.keep[v][t] for v in range(m + 1, self.instance.n_levels))
                for t in range(self.instance.n_tensors)
            )
            found.append(options_of(self.instance, m, inside))
        return tuple(found)

    @cached_property
    def n_profiles(self) -> int:
        """Number of combinations of options."""
        return int(np.prod([len(f.children) for f in self.fanouts], dtype=object))

    @cached_property
    def options(self) -> Options:
        """The options of all fan-outs, one after another."""
        plain = self.instance.plain
        plain_share, share = [], np.concatenate([f.share for f in self.fanouts])
        for f in self.fanouts:
            beside = np.array(
                [
                    np.where(plain[t] | ~self.instance.relevant[t], 1.0, f.factor).prod(axis=1)
                    for t in range(self.instance.n_tensors)
                ]
            )
            plain_share.append(f.share / beside.T)
        return Options(
            first=np.cumsum([0] + [len(f.children) for f in self.fanouts]),
            children=np.concatenate([f.children for f in self.fanouts]),
            share=share,
            plain_share=np.concatenate(plain_share),
            distinct=np.concatenate([f.distinct for f in self.fanouts]),
            factor=np.concatenate([f.factor for f in self.fanouts]),
            by_kind=np.concatenate([f.by_kind for f in self.fanouts]),
        )

    @cached_property
    def ports(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The limited sides (level, 0 read or 1 write) of every port: two where they take turns on one (rule L4)."""
        problem = self.instance.problem
        found: list[tuple[tuple[int, int], ...]] = []
        for v, row in enumerate(problem.bandwidth > 0.0):
            sides = [(v, int(k)) for k in np.flatnonzero(row)]
            found.extend([tuple(sides)] if sides and problem.one_port[v] else [(side,) for side in sides])
        return tuple(found)

    @cached_property
    def hardware(self) -> Hardware:
        """The architecture as arrays for compiled code."""
        instance, problem = self.instance, self.instance.problem
        n_levels, n_tensors = instance.n_levels, instance.n_tensors
        kept = np.full((n_levels, n_tensors), -1, np.int64)
        for b, (v, t) in enumerate(self.boundaries):
            kept[v, t] = b
        above = np.zeros((n_levels + 1, n_tensors), np.int64)
        for v in range(1, n_levels + 1):
            for t in range(n_tensors):
                above[v, t] = v - 1 if self.keep[v - 1][t] else above[v - 1, t]
        port = np.full((n_levels, 2), -1, np.int64)
        for j, sides in enumerate(self.ports):
            for v, kind in sides:
                port[v, kind] = j
        axes = instance.coef * ~instance.plain[:, None, :]
        axes[problem.entangled == 1] = 0  # boxes of such tensors overlap in ways no product bounds
        return Hardware(
            kept=kept,
            above=above,
            pair=np.ascontiguousarray(
                np.concatenate([problem.energy, problem.words[..., None], problem.hop_energy[..., None]], axis=-1)
            ),
            hops=problem.hops,
            shares=problem.shares,
            port=port,
            bandwidth=problem.bandwidth,
            n_ports=len(self.ports),
            axes=axes.astype(np.float64),
            strided=instance.strided,
            plain=instance.plain.astype(np.int64),
            bounds=np.array(instance.lattice.bounds, np.float64),
            kind_bounds=instance.kind_bounds,
            output_words=float(problem.tensor_words[-1]),
            macs=float(problem.macs),
            mac_energy=float(problem.mac_energy),
        )

    @cached_property
    def states(self) -> States:
        """The states of the dynamic program and their transitions."""
        slides = tuple(bool(axes) for axes in self.instance.sliding_axes)
        return make_states(self.keep, slides, self.instance.rules)

    @property
    def cells(self) -> int:
        """Figures that one run of the dynamic program finds."""
        return len(self.states.level) * self.instance.lattice.n_tiles

    @cached_property
    def machine(self) -> Machine:
        """The state machine for compiled code."""
        instance, states = self.instance, self.states
        n_levels, n_dims = instance.n_levels, instance.n_dims
        free = np.zeros((n_levels, n_dims), np.int64)
        ordered_fixed = np.full((n_levels, n_dims), -1, np.int64)
        for v, rule in enumerate(instance.rules):
            free[v, list(rule.free)] = 1
            for d in rule.ordered:
                if d not in rule.free:
                    ordered_fixed[v, d] = instance.lattice.place(d, dict(rule.fixed).get(d, 1))
        loose = free.copy()
        for v, rule in enumerate(instance.rules):
            loose[v, list(rule.ordered)] = 0
        fixed_place = np.full_like(states.fixed_dim, -1)
        for v, i in zip(*np.nonzero(states.fixed_dim >= 0), strict=True):
            fixed_place[v, i] = instance.lattice.place(int(states.fixed_dim[v, i]), int(states.fixed_factor[v, i]))
        order = [
            [[b for b, (v, u) in enumerate(self.boundaries) if u == t and v > level] for t in range(instance.n_tensors)]
            for level in range(n_levels)
        ]
        width = max(1, max(len(row) for level in order for row in level))
        boundary = np.array([[row + [-1] * (width - len(row)) for row in level] for level in order], np.int64)
        return Machine(
            level=states.level, open=states.open, counts=states.count, virgin=states.virgin, close=states.close,
            stage_dim=states.stage_dim, advance=states.advance, waiting=states.waiting, place=states.place,
            outer=states.outer, body=states.body, first=states.first, first_virgin=states.first_virgin,
            fixed_dim=states.fixed_dim, fixed_place=fixed_place, relevant=instance.relevant_mask, free=free, loose=loose,
            ordered_fixed=ordered_fixed, boundary=boundary,
        )  # fmt: skip

    @cached_property
    def penalty(self) -> FloatArray:
        """``(L + 1) x N`` 0 where tiles fit; the last row is the MACs, where any does."""
        rows = [self.instance.penalty(v, self.keep[v]) for v in range(self.instance.n_levels)]
        return np.array([*rows, np.zeros(self.instance.lattice.n_tiles)])

    @cached_property
    def _room(self) -> tuple[Running, Coefficients]:
        n_ports = len(self.ports)
        running = make_running(
            self.instance.n_levels,
            self.instance.n_tensors,
            self.instance.n_dims,
            len(self.instance.kind_bounds),
            n_ports,
        )
        return running, make_coefficients(len(self.boundaries), n_ports)

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower bounds on the energy and the cycles of every profile."""
        energy, cycles = np.empty(self.n_profiles), np.empty(self.n_profiles)
        bound_profiles(self.hardware, self.options, *self._room, energy, cycles)
        return energy, cycles

    def choices_at(self, profiles: IntArray) -> IntArray:
        """``P x L`` option of every fan-out (an index into `options`) of some profiles."""
        counts = [len(f.children) for f in self.fanouts]
        return np.asarray(self.options.first[:-1] + np.stack(np.unravel_index(profiles, counts), axis=-1), np.int64)

    def coefficients(self, choice: IntArray) -> tuple[Coefficients, float, float]:
        """Coefficients of a profile and its bounds on energy and cycles."""
        running, result = self._room
        energy, cycles = profile_coefficients(choice, self.hardware, self.options, running, result)
        return Coefficients(*(a.copy() for a in result)), energy, cycles

    @cached_property
    def _tight_points(self) -> tuple[FloatArray, IntArray]:
        """Tile points of every level, one after another, and where each level's begin."""
        tables = [
            self.bases.points(v, self.keep[v], self.penalty[v])
            if v and any(self.keep[v])
            else np.zeros((0, self.instance.n_tensors))
            for v in range(self.instance.n_levels)
        ]
        return np.concatenate(tables), np.cumsum([0] + [len(table) for table in tables])

    def sharper_bounds(self, choices: IntArray) -> tuple[FloatArray, FloatArray]:
        """Bounds B1 and B2 together on energy and cycles of some profiles, ``P x L`` options."""
        energy, cycles = np.empty(len(choices)), np.empty(len(choices))
        points, first = self._tight_points
        sharpen_choices(choices, self.hardware, self.options, *self._room, points, first, energy, cycles)
        return energy, cycles

    @cached_property
    def _fitting(self) -> Fitting:
        """Tiles that fit each level, and `BaseArrays.moved_rows` of each level."""
        n_levels, tiles = self.instance.n_levels, [np.zeros(0, np.int64)]
        for v in range(1, n_levels):
            fits = np.flatnonzero(np.isfinite(self.penalty[v]))
            tiles.append(fits if any(self.keep[v]) else fits[:0])
        of = np.array([self.bases.moved_rows(self.keep[v]) for v in range(n_levels)])
        kind_of, by_kind = self.instance.kind_sizes
        first = np.cumsum([0] + [len(t) for t in tiles])
        value, moved = self.instance.lattice.value, self.bases.moved[0]
        return Fitting(np.concatenate(tiles), first, value, by_kind, kind_of, moved, of)

    def tension_of(self, choice: IntArray, terms: Coefficients) -> FloatArray:
        """``1 + J`` energy and each port's cycles beyond those of the fewest words (bound B2), for one profile.

        `terms` must be those that `boundary_costs` has just given for the choice.
        """
        excess = np.zeros(1 + len(self.ports))
        children = self.options.children[choice]
        profile_tension(self._fitting, self.hardware, self._room[0], terms, children, excess)
        return excess

    def charges(self, choice: IntArray, price: FloatArray, least: FloatArray, most: FloatArray) -> Charges:
        """What the dynamic program needs of a profile when words of boundaries are priced like this."""
        instance, options = self.instance, self.options
        n_levels, n_dims, n_boundaries = instance.n_levels, instance.n_dims, len(self.boundaries)
        base_of = np.zeros((n_levels, n_boundaries), np.int64)
        slide_of = np.full((n_levels, n_boundaries, n_dims), -1, np.int64)
        scale = np.zeros((n_levels, n_boundaries))
        steady = np.zeros((n_levels, n_boundaries, n_dims), np.int64)
        chain_of = np.full((n_levels, instance.n_tensors, n_dims), -1, np.int64)
        outside = float(instance.problem.macs)
        for level in range(n_levels):
            for b, (v, t) in enumerate(self.boundaries):
                if v <= level:
                    continue
                crossed = choice[level:v]
                factor = options.factor[crossed].prod(axis=0)
                spread = tuple(
                    int(f) if r and not p else 1
                    for f, r, p in zip(factor, instance.relevant[t], instance.plain[t], strict=True)
                )
                base_of[level, b] = self.bases.words(t, spread)
                steady[level, b] = np.array(spread) == 1
                for axis in instance.sliding_axes[t]:
                    for d in axis:
                        slide_of[level, b, d] = self.bases.overlap(t, spread, d)
                scale[level, b] = outside / options.plain_share[crossed, t].prod()
            for t, axis in self.bases.axis_rows():
                if any(v > level for v, u in self.boundaries if u == t):
                    factors = options.factor[choice[:level]][:, list(axis)].astype(np.int64)
                    spatial = tuple(tuple(int(f) for f in row) for row in factors)
                    for d, number in self.bases.chain(t, axis, level, spatial).items():
                        chain_of[level, t, d] = number
            outside /= options.children[choice[level]]
        group, vector, factors = self._vectors(choice)
        return Charges(
            base=self.bases.pool, base_of=base_of, slide_of=slide_of, scale=scale, price=price, least=least,
            most=most, penalty=self._penalty_of(choice), group=group, vector=vector, factors=factors, steady=steady, chain_of=chain_of,
        )  # fmt: skip

    def _penalty_of(self, choice: IntArray) -> FloatArray:
        """``(L + 1) x N`` the penalty with the tiles inside every fan-out restricted to those the option is meant for."""
        penalty = self.penalty
        for m, f in enumerate(self.fanouts):
            allowed = f.tiles[choice[m] - self.options.first[m]]
            if allowed is not None:
                penalty = penalty.copy() if penalty is self.penalty else penalty
                penalty[m + 1] += self.instance.outside_of(allowed, self.instance.lattice.value)
        return penalty

    def _vectors(self, choice: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        group, vector, rows = [0], [0], []
        for m, f in enumerate(self.fanouts):
            products = f.choice[choice[m] - self.options.first[m]]
            for by_product, product in zip(f.vectors, products, strict=True):
                if product > 1:
                    rows.append(by_product[int(product)])
                    vector.append(vector[-1] + len(rows[-1]))
            group.append(len(vector) - 1)
        n_dims = self.instance.n_dims
        factors = np.concatenate(rows) if rows else np.zeros((0, n_dims), np.int64)
        return np.array(group), np.array(vector), factors

    def forget(self) -> None:
        """Drop the arrays over all tiles; they are made again when needed."""
        for name in ("penalty", "_fitting", "_tight_points", "states", "machine"):
            self.__dict__.pop(name, None)

    def chains(self) -> Chains:
        """Chain tables of all profiles charged so far."""
        return Chains(*self.bases.axis_tables, *self.bases.chains())

    def run(self, charges: Charges, tight: bool = True) -> float:
        """Run the dynamic program; the least priced words of the profile. The tables stay in `table`."""
        n_states, n_tiles = len(self.states.level), self.instance.lattice.n_tiles
        if not self.table or len(self.table[0]) < n_states:
            self.table[:] = [np.empty((n_states, n_tiles)), np.empty((5, n_tiles))]
        run_profile(
            self.table[0], self.instance.lattice.grid, self.machine, charges, self.chains(), self.table[1], tight
        )
        m = self.instance.n_levels - 1
        if charges.penalty[m + 1, 0] > 0.0:
            return float("inf")
        start = self.table[0][self.states.start]
        return float(
            cross_point(start, 0, m, self.instance.lattice.grid, charges.group, charges.vector, charges.factors)
        )
