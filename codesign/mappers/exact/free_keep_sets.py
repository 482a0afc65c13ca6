"""Free keep sets: a bound for every one of them from sums over single tensors, then the most promising first.

Under a spatial profile the bound on the energy is a sum over tensors of a sum over neighbouring levels that keep
the tensor. So the costs of all (outer level, inner level) pairs are computed once per tensor, for all profiles at a
time, and the bound of a keep set is the least total over profiles (bound B3 in docs/explanation/exact-mapper.md).
"""

import heapq
import math
from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice, pairwise, product

import numpy as np

from codesign.mappers.exact.incumbent import Incumbent
from codesign.mappers.exact.one_keep_set.branch_and_bound import (
    ProfileSearch,
    bound_values,
    search_fixed,
)
from codesign.mappers.exact.one_keep_set.fixed_keep_set import FixedKeep, KeepSets
from codesign.mappers.exact.problem.charge_bases import BaseArrays
from codesign.mappers.exact.problem.instance import Instance
from codesign.mappers.exact.problem.spatial import FanoutOptions, options_of
from codesign.mapping.constraints import Keep
from codesign.mapping.nest import FloatArray, IntArray

_MOST_FIGURES = 5e7
"""Coarse profiles times chains (each 8 bytes); beyond, keep sets are searched without a bound of their own."""

_MOST_COMBINATIONS = 2e6
"""Combinations of the coarse options of all fan-outs, from which the coarse profiles are filtered."""

FEW = 16
"""So few keep sets are searched without looking for a good one first."""

_PROMISING = 12
"""Keep sets of which a few profiles are looked at before any is searched."""

_PROFILES_FIRST, _PROFILES_LATER = 16, 6
"""Profiles looked at in each of these, and in their neighbours."""

_COARSE_BLOCK = 8
"""Coarse profiles whose fine ones are bounded at a time."""

_WARM = 64
"""Keep sets whose arrays over all tiles stay in memory."""

Chain = tuple[bool, ...]


def by_level(chains: tuple[Chain, ...]) -> KeepSets:
    """What each level keeps, from the chain of each tensor."""
    return tuple(zip(*chains, strict=True))


class FreeKeep:
    """The search over keep sets: bounds from coarse profiles, a climb for a good incumbent, then all that may win."""

    def __init__(self, instance: Instance, sets: list[tuple[Chain, ...]], bases: BaseArrays, best: Incumbent) -> None:
        self.instance, self.sets, self.bases, self.best = instance, sets, bases, best
        self.room: list[FloatArray] = []
        self.tables = _Tables(instance)
        chains = [sorted({chains[t] for chains in sets}, reverse=True) for t in range(instance.n_tensors)]
        few = self.tables.count <= _MOST_COMBINATIONS
        self.coarse = few and sum(map(len, chains)) * float(self.tables.count) <= _MOST_FIGURES
        self.constant = float(instance.problem.macs) * float(instance.problem.mac_energy)
        if not self.coarse:
            return
        self.chain_cost = [{chain: self.tables.chain(t, chain) for chain in chains[t]} for t in range(len(chains))]
        compute = instance.problem.macs / self.tables.instances[-1]
        self.cycles = np.ceil(np.maximum(compute, self.tables.least_outer_cycles()) * (1.0 - 1e-12))
        # energy of tensors t and later when each takes, profile by profile, the chain that is best for itself
        self.later = [np.zeros(self.tables.count)]
        for costs in reversed(self.chain_cost):
            self.later.insert(0, self.later[0] + np.minimum.reduce(list(costs.values())))

    def search(self) -> float:
        """Keep set by keep set, the least bound first; returns as `search_keep_sets`."""
        if len(self.sets) > FEW:
            self.climb()
        unsearched, started = math.inf, 0
        waiting: list[tuple[float, int, ProfileSearch]] = []
        warm: OrderedDict[int, ProfileSearch] = OrderedDict()
        sets = self.in_order()
        upcoming, chains = next(sets)
        while True:
            bound = min(upcoming, waiting[0][0]) if waiting else upcoming
            if not self.best.beaten_by(bound):
                return unsearched
            if self.best.late and self.best.nest is not None:
                return min(unsearched, bound)
            if upcoming <= bound:
                if chains is not None:  # else several sets, not told apart yet
                    one, started = self.start(chains), started + 1
                    if self.best.beaten_by(one.bound):
                        heapq.heappush(waiting, (max(upcoming, one.bound), started, one))
                upcoming, chains = next(sets, (math.inf, None))
                continue
            bound, number, one = heapq.heappop(waiting)
            one.step()
            warm[number] = one
            warm.move_to_end(number)
            if len(warm) > _WARM:
                warm.popitem(last=False)[1].fixed.forget()
            unsearched = min(unsearched, one.unsearched)
            if self.best.beaten_by(one.bound):
                heapq.heappush(waiting, (max(bound, one.bound), number, one))

    def start(self, chains: tuple[Chain, ...], values: FloatArray | None = None) -> ProfileSearch:
        """The search of a keep set, given the bounds of its coarse profiles if they are known."""
        fixed = FixedKeep(self.instance, by_level(chains), self.bases, self.room)
        fine = [self.tables.fine_of(m, f) for m, f in enumerate(fixed.fanouts)]

        def choices_at(coarse: IntArray) -> IntArray:
            rows: list[tuple[int, ...]] = []
            for i in coarse:
                rows.extend(product(*[fine[m][c] for m, c in enumerate(self.tables.index[:, i])]))
            return np.array(rows, np.int64).reshape(-1, self.instance.n_levels) + fixed.options.first[:-1]

        bounds = self.values(chains) if values is None else values
        return ProfileSearch(fixed, bounds, choices_at, self.best, _COARSE_BLOCK)

    def one_by_one(self) -> float:
        """Search the keep sets in the order given, without a bound of their own; returns as `search_keep_sets`."""
        unsearched = math.inf
        for chains in self.sets:
            if self.best.late and self.best.nest is not None:
                return min(unsearched, self.floor())
            fixed = FixedKeep(self.instance, by_level(chains), self.bases, self.room)
            unsearched = min(unsearched, search_fixed(fixed, self.best))
        return unsearched

    def floor(self) -> float:
        """A bound on all keep sets: the arithmetic, and every tensor moved once to or from the outermost level."""
        instance, problem, output = self.instance, self.instance.problem, self.instance.n_tensors - 1
        energy = self.constant + instance.fewest_of_all(output) * float(problem.energy[0, output, 2])
        energy += sum(instance.fewest_of_all(t) * float(problem.energy[0, t, 0]) for t in range(output))
        children = float(np.prod([rows[:, 0].max() for rows in self.tables.rows]))
        cycles = max(float(problem.macs) / children, self.tables.least_outer_cycles())
        return float(bound_values(self.best.goal, np.array([energy]), np.array([cycles]))[0])

    def in_order(self) -> Iterator[tuple[float, tuple[Chain, ...] | None]]:
        """Keep sets and their bounds, least bound first; (bound on all that are left, None) in between.

        The chains of the tensors are decided one after another, those of the others left to what is best for each, and
        only the most promising partial decision is continued, so that most sets are never looked at one by one.
        """
        waiting: list[tuple[float, int, tuple[Chain, ...]]] = [(float(self.values(()).min(initial=math.inf)), 0, ())]
        ticket = 0
        while waiting:
            bound, _, chosen = heapq.heappop(waiting)
            if len(chosen) == len(self.chain_cost):
                yield bound, chosen
                continue
            yield bound, None
            for chain in self.chain_cost[len(chosen)]:
                part = (*chosen, chain)
                value = max(bound, float(self.values(part).min()))
                if self.best.beaten_by(value):
                    ticket += 1
                    heapq.heappush(waiting, (value, ticket, part))

    def values(self, chains: tuple[Chain, ...]) -> FloatArray:
        """Bound of every coarse profile with these chains of the first tensors and any of the others."""
        energy = self.constant + self.later[len(chains)]
        for t in range(len(chains)):
            energy += self.chain_cost[t][chains[t]]
        return bound_values(self.best.goal, energy, self.cycles)

    def climb(self) -> None:
        """Find a good incumbent: a few profiles of the promising sets, then one decision at a time from the best."""
        tried: set[tuple[Chain, ...]] = set()

        def improves(chains: tuple[Chain, ...], profiles: int) -> bool:
            """Look at a few profiles of a keep set that may win."""
            if chains in tried or (self.best.late and self.best.nest is not None):
                return False
            tried.add(chains)
            before, values = self.best.value, self.values(chains)
            if not self.best.beaten_by(float(values.min())):
                return False
            self.start(chains, values).run(profiles)
            return self.best.value < before

        current = self.sets[0]
        promising = (chains for _, chains in self.in_order() if chains is not None)
        for chains in islice(promising, _PROMISING):
            if improves(chains, _PROFILES_FIRST):
                current = chains
        decisions, going = self.instance.decisions, True
        free = [(t, v) for v, row in enumerate(decisions) for t, choice in enumerate(row) if choice is Keep.FREE]
        while going:
            going = False
            for t, v in free:
                chain = (*current[t][:v], not current[t][v], *current[t][v + 1 :])
                other = (*current[:t], chain, *current[t + 1 :])
                if improves(other, _PROFILES_LATER):
                    current, going = other, True


def _alike(instance: Instance, m: int, options: FanoutOptions) -> FloatArray:
    """``O x (1 + 2 T + C)`` what coarse profiles see of options: children, factors and different words, kinds."""
    children, share, distinct = options.children, options.share, options.distinct
    if instance.problem.shares[m] == 0:
        distinct = np.repeat(children[:, None], instance.n_tensors, axis=1)
    return np.concatenate([children[:, None], share, distinct, options.by_kind], axis=1)


def _products(columns: list[FloatArray]) -> FloatArray:
    """``(L + 1) x P`` products of the first so many columns."""
    out = np.ones((len(columns) + 1, len(columns[0])))
    for m, column in enumerate(columns):
        np.multiply(out[m], column, out=out[m + 1])
    return out


class _Tables:
    """Energy of every (tensor, outer level, inner level) under all coarse profiles at a time."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        n_levels = instance.n_levels
        rows = [self._coarse(m) for m in range(n_levels)]
        self.rows = rows
        self.count = int(np.prod([len(r) for r in rows], dtype=object))
        if self.count > _MOST_COMBINATIONS:
            return
        n = instance.n_tensors
        index = self._index(rows, 1 + 2 * n)
        self.index, self.count = index, index.shape[1]

        def column(c: int) -> list[FloatArray]:
            return [rows[m][index[m], c] for m in range(n_levels)]

        self.children = column(0)
        self.instances = _products(self.children)
        self.shares = [_products(column(1 + t)) for t in range(n)]
        self.distinct = [column(1 + n + t) for t in range(n)]
        self.copies = [_products(self.distinct[t]) for t in range(n)]
        self.pairs: dict[tuple[int, int, int], FloatArray] = {}

    def _index(self, rows: list[FloatArray], kinds: int) -> IntArray:
        """``L x P`` the row of every fan-out under each coarse profile: factors of each kind divide the bounds."""
        index = np.zeros((0, 1), np.int64)
        left = self.instance.kind_bounds[:, None]
        for table in rows:
            old, new = (i.ravel() for i in np.indices((index.shape[1], len(table))))
            now = left[:, old] / table[new, kinds:].T
            fits = (now == np.floor(now)).all(axis=0)
            index, left = np.concatenate([index[:, old[fits]], new[None, fits]]), now[:, fits]
        return index

    def _coarse(self, m: int) -> FloatArray:
        """Different options of a fan-out: children, product of the factors per tensor, different words per tensor."""
        options = options_of(self.instance, m, (False,) * self.instance.n_tensors)
        return np.unique(_alike(self.instance, m, options), axis=0)

    def fine_of(self, m: int, options: FanoutOptions) -> list[IntArray]:
        """For every coarse row of a fan-out, the options that are alike in it."""
        table = _alike(self.instance, m, options)
        where = {tuple(row): i for i, row in enumerate(self.rows[m])}
        found: list[list[int]] = [[] for _ in self.rows[m]]
        for o, row in enumerate(table):
            found[where[tuple(row)]].append(o)
        return [np.array(alike, np.int64) for alike in found]

    def least_outer_cycles(self) -> float:
        """Cycles the outermost level's ports need to move every tensor once, which no keep set avoids."""
        problem, output = self.instance.problem, self.instance.n_tensors - 1
        reads = sum(self.instance.fewest_of_all(t) * float(problem.words[0, t]) for t in range(output))
        writes = self.instance.fewest_of_all(output) * float(problem.words[0, output])
        limits = zip((reads, writes), problem.bandwidth[0], strict=True)
        busy = [words / float(rate) if rate > 0.0 else 0.0 for words, rate in limits]
        return sum(busy) if problem.one_port[0] else max(busy)

    def chain(self, t: int, kept: Chain) -> FloatArray:
        """Energy of one tensor with these levels keeping it."""
        levels = [v for v, k in enumerate(kept) if k] + [len(kept)]
        return np.asarray(sum(self.pair(t, p, v) for p, v in pairwise(levels)), np.float64)

    def pair(self, t: int, p: int, v: int) -> FloatArray:
        """Energy of the words between two neighbouring levels that keep the tensor (v past the last: the MACs)."""
        if (t, p, v) in self.pairs:
            return self.pairs[t, p, v]
        problem, n_levels = self.instance.problem, self.instance.n_levels
        is_output = t == self.instance.n_tensors - 1
        read, _, update = problem.energy[p, t]
        sent = self.copies[t][v] / self.copies[t][p]
        cost = self.instances[p] * sent * (read + (update if is_output else 0.0))
        for m in range(p, v):
            if problem.hop_energy[m, t] > 0.0:
                hops = problem.hops[m, 0] + problem.hops[m, 1] * self.children[m] / self.distinct[t][m]
                cost = (
                    cost + self.copies[t][v] / self.copies[t][m] * self.instances[m] * hops * problem.hop_energy[m, t]
                )
        words = (
            float(problem.macs) / self.instances[v]
            if v == n_levels
            else self.instance.fewest_of_all(t) / self.shares[t][v]
        )
        if v < n_levels:
            cost = cost + self.instances[v] * problem.energy[v, t, 1]
        energy = cost * words
        if is_output:
            share = float(problem.tensor_words[t])
            energy = energy - share / self.shares[t][p] * self.instances[p] * read
            if v < n_levels:
                energy = energy - share / self.shares[t][v] * self.instances[v] * problem.energy[v, t, 1]
        self.pairs[t, p, v] = energy
        return np.asarray(energy, np.float64)
