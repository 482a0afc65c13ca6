"""Free keep sets: a bound for every one of them from sums over single tensors, then the most promising first.

Under a spatial profile the bound on the energy is a sum over tensors of a sum over neighbouring levels that keep
the tensor. So the costs of all (outer level, inner level) pairs are computed once per tensor, for all profiles at a
time, and the bound of a keep set is the least total over profiles (bound B3 in docs/exact-mapper.md).
"""

import math
from itertools import pairwise, product

import numpy as np

from codesign.mappers.exact.bases import BaseArrays
from codesign.mappers.exact.fixed import FixedKeep, KeepSets
from codesign.mappers.exact.incumbent import TOLERANCE, Incumbent
from codesign.mappers.exact.instance import Instance
from codesign.mappers.exact.search import bound_values, search_choices, search_fixed
from codesign.mappers.exact.spatial import FanoutOptions, options_of
from codesign.mapping.constraints import Keep
from codesign.mapping.nest import FloatArray, IntArray

_MOST_SUMS = 4e9
"""Additions the bounds of all keep sets may take; beyond, the sets are searched without a bound of their own."""

_FEW = 16
"""So few keep sets are searched without looking for a good one first."""

_PROMISING = 12
"""Keep sets of which a few profiles are looked at before any is searched."""

_PROFILES_FIRST, _PROFILES_LATER = 16, 6
"""Profiles looked at in each of these, and in their neighbours."""

_NEAR = 64
"""Coarse profiles looked at for one mapping of a keep set."""

Chain = tuple[bool, ...]


def keep_sets(instance: Instance) -> list[tuple[Chain, ...]]:
    """Every assignment of the free decisions, as one chain (kept per level) for each tensor."""
    choices = {Keep.YES: (True,), Keep.NO: (False,), Keep.FREE: (True, False)}
    per_tensor = [list(product(*[choices[row[t]] for row in instance.decisions])) for t in range(instance.n_tensors)]
    return list(product(*per_tensor))


def search_keep_sets(instance: Instance, bases: BaseArrays, best: Incumbent) -> float:
    """Search every keep set; returns a lower bound on what was not searched (infinite if nothing)."""
    sets = keep_sets(instance)
    if len(sets) == 1:
        return search_fixed(FixedKeep(instance, _by_level(sets[0]), bases), best)
    return _FreeKeep(instance, sets, bases, best).search()


def _by_level(chains: tuple[Chain, ...]) -> KeepSets:
    return tuple(zip(*chains, strict=True))


class _FreeKeep:
    """The search over keep sets: bounds from coarse profiles, a climb for a good incumbent, then all that may win."""

    def __init__(self, instance: Instance, sets: list[tuple[Chain, ...]], bases: BaseArrays, best: Incumbent) -> None:
        self.instance, self.sets, self.bases, self.best = instance, sets, bases, best
        self.tables = _Tables(instance)
        self.coarse = len(sets) * float(self.tables.count) <= _MOST_SUMS
        self.constant = float(instance.problem.macs) * float(instance.problem.mac_energy)
        self.chain_cost: list[dict[Chain, FloatArray]] = []
        if self.coarse:
            self.chain_cost = [
                {chain: self.tables.chain(t, chain) for chain in {chains[t] for chains in sets}}
                for t in range(instance.n_tensors)
            ]
            compute = instance.problem.macs / self.tables.instances[-1]
            self.cycles = np.ceil(np.maximum(compute, self.tables.least_outer_cycles()) * (1.0 - 1e-12))

    def search(self) -> float:
        """See `search_keep_sets`."""
        bounds = (
            np.array([self.values(chains).min() for chains in self.sets]) if self.coarse else np.zeros(len(self.sets))
        )
        if len(self.sets) > _FEW and self.coarse:
            self.climb(bounds)
        unsearched = math.inf
        for i in np.argsort(bounds, kind="stable"):
            if not self.best.beaten_by(float(bounds[i])):
                break
            if self.best.late and self.best.nest is not None:
                return min(unsearched, float(bounds[i]))
            fixed = FixedKeep(self.instance, _by_level(self.sets[i]), self.bases)
            if self.coarse:
                choices = self.choices(fixed, self.values(self.sets[i]), self.best.value * (1.0 - TOLERANCE))
                unsearched = min(unsearched, search_choices(fixed, choices, self.best))
            else:
                unsearched = min(unsearched, search_fixed(fixed, self.best))
        return unsearched

    def values(self, chains: tuple[Chain, ...]) -> FloatArray:
        """Bound of every coarse profile with these keep sets."""
        energy = self.constant + self.tables.impossible + self.chain_cost[0][chains[0]]
        for t in range(1, len(chains)):
            energy = energy + self.chain_cost[t][chains[t]]
        return bound_values(self.best.goal, energy, self.cycles)

    def choices(self, fixed: FixedKeep, values: FloatArray, limit: float) -> IntArray:
        """``P x L`` the profiles of a keep set whose coarse profile has a bound below the limit."""
        fine = [self.tables.fine_of(m, f) for m, f in enumerate(fixed.fanouts)]
        rows: list[tuple[int, ...]] = []
        for i in np.flatnonzero(values < limit):
            lists = [fine[m][c] for m, c in enumerate(self.tables.digits(int(i)))]
            rows.extend(product(*lists))
        return np.array(rows, np.int64).reshape(-1, self.instance.n_levels) + fixed.options.first[:-1]

    def climb(self, bounds: FloatArray) -> None:
        """Find a good incumbent: a few profiles of the promising sets, then one decision at a time from the best."""
        index = {chains: i for i, chains in enumerate(self.sets)}
        tried: set[tuple[Chain, ...]] = set()

        def improves(chains: tuple[Chain, ...], profiles: int) -> bool:
            """Look at a few profiles of a keep set that may win."""
            if chains in tried or self.best.late or not self.best.beaten_by(float(bounds[index[chains]])):
                return False
            tried.add(chains)
            before, values = self.best.value, self.values(chains)
            near = min(_NEAR, len(values) - 1)
            limit = min(self.best.value, float(np.partition(values, near)[near]) * (1.0 + TOLERANCE))
            fixed = FixedKeep(self.instance, _by_level(chains), self.bases)
            search_choices(fixed, self.choices(fixed, values, limit), self.best, profiles)
            return self.best.value < before

        current = self.sets[0]
        for i in np.argsort(bounds, kind="stable")[:_PROMISING]:
            if improves(self.sets[i], _PROFILES_FIRST):
                current = self.sets[i]
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


class _Tables:
    """Energy of every (tensor, outer level, inner level) under all coarse profiles at a time."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        n_levels = instance.n_levels
        rows = [self._coarse(m) for m in range(n_levels)]
        self.rows = rows
        self.count = int(np.prod([len(r) for r in rows], dtype=object))
        if self.count > _MOST_SUMS:
            return
        index = np.indices([len(r) for r in rows]).reshape(n_levels, -1)
        n = instance.n_tensors
        children = np.array([rows[m][index[m], 0] for m in range(n_levels)])
        one = np.ones((1, self.count))
        self.children = children
        kinds = np.array([rows[m][index[m], 1 + 2 * n :] for m in range(n_levels)]).prod(axis=0)
        left = instance.kind_bounds / kinds
        self.impossible = np.where((left == np.floor(left)).all(axis=1), 0.0, np.inf)
        self.instances = np.concatenate([one, children]).cumprod(axis=0)
        self.shares, self.distinct, self.copies = [], [], []
        for t in range(n):
            share = np.array([rows[m][index[m], 1 + t] for m in range(n_levels)])
            distinct = np.array([rows[m][index[m], 1 + n + t] for m in range(n_levels)])
            self.shares.append(np.concatenate([one, share]).cumprod(axis=0))
            self.distinct.append(distinct)
            self.copies.append(np.concatenate([one, distinct]).cumprod(axis=0))
        self.pairs: dict[tuple[int, int, int], FloatArray] = {}

    def _coarse(self, m: int) -> FloatArray:
        """Different options of a fan-out: children, product of the factors per tensor, different words per tensor."""
        options = options_of(self.instance, m, (False,) * self.instance.n_tensors)
        return np.unique(_alike(self.instance, m, options), axis=0)

    def digits(self, profile: int) -> tuple[int, ...]:
        """Row of every fan-out of a coarse profile."""
        return tuple(int(i) for i in np.unravel_index(profile, [len(r) for r in self.rows]))

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
        return max(words / float(rate) if rate > 0.0 else 0.0 for words, rate in limits)

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
