"""Depth-first search of one profile, loop by loop, where the dynamic program is only a bound.

The tables bound every completion from below, so only nests whose bound beats the incumbent are walked, and
every one that is completed is scored by the kernel. Used where windows may slide on (chains), where reuse is only
bounded, and nowhere else.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from codesign.cost.arrays import Reuse
from codesign.mappers.exact.chains import most_saved
from codesign.mappers.exact.dp import Charges, after_loop, may_loop, slide_cost
from codesign.mappers.exact.incumbent import Incumbent
from codesign.mappers.exact.profile import Profile
from codesign.mappers.exact.trace import LevelLoops, build_nest

MOST_STEPS = 40_000
"""Loops placed before the search of one profile gives up and leaves a gap."""

_CELLS_A_STEP = 100_000
"""Cells of the dynamic program that take as long as one step."""


@dataclass(frozen=True)
class Chain:
    """Boundaries of one tensor closed along a sliding axis, whose windows may slide on.

    Args:
        tensor: The tensor.
        axis: Dimensions of the axis.
        wanted: Travel a later loop must have to repeat the first one's translation.
        worth: Cost of all words not fetched if every further step repeats it, at the closing tile.
        share: Iterations left now over those left at the closing tile.
        credit: What the bound still takes off for this chain.
    """

    tensor: int
    axis: tuple[int, ...]
    wanted: int
    worth: float
    share: float
    credit: float


def chase(profile: Profile, charges: Charges, constant: float, quickest: float, best: Incumbent) -> bool:
    """Score every nest of the profile that may beat the incumbent; False if it gave up.

    Args:
        profile: The profile, whose tables have just been filled for `charges`.
        charges: Prices in energy.
        constant: Energy beside the priced words.
        quickest: Least cycles of the profile.
        best: The incumbent, improved in place.
    """
    return _Chase(profile, charges, constant, quickest, best).run()


class _Chase:
    def __init__(self, profile: Profile, charges: Charges, constant: float, quickest: float, best: Incumbent) -> None:
        self.profile, self.charges, self.constant, self.quickest, self.best = profile, charges, constant, quickest, best
        self.fixed = profile.fixed
        self.table, self.machine, self.grid = self.fixed.table[0], self.fixed.machine, self.fixed.grid
        self.chains = self.fixed.chains()
        self.divisors = self.fixed.instance.lattice.divisors
        self.levels = [LevelLoops() for _ in range(self.fixed.instance.n_levels)]
        self.steps = 0

    def run(self) -> bool:
        level = self.fixed.instance.n_levels - 1
        return self.cross(self.fixed.states.start, 0, level, 0.0, ())

    def may_win(self, spent: float, s: int, x: int) -> bool:
        least = self.constant + spent + float(self.table[s, x])
        return self.best.beaten_by(self.best.goal.value(least, self.quickest)) and math.isfinite(least)

    def grown(self, x: int, d: int, j: int) -> int:
        i = x // int(self.grid.stride[d]) % int(self.grid.n_divisors[d])
        k = int(self.grid.grow[d, j, i])
        return -1 if k < 0 else x + (k - i) * int(self.grid.stride[d])

    def cross(self, s: int, x: int, m: int, spent: float, live: tuple[Chain, ...]) -> bool:
        """Try every spatial vector of fan-out m, then the loops of that level."""
        found: list[tuple[float, int, tuple[tuple[int, int], ...]]] = []
        for vector, y in self.vectors(x, int(self.charges.group[m]), int(self.charges.group[m + 1])):
            if self.may_win(spent, s, y):
                found.append((float(self.table[s, y]), y, vector))
        for _, y, vector in sorted(found):
            self.levels[m].spatial = dict(vector)
            if not self.walk(s, y, m, spent, 0, -1, live):
                return False
        self.levels[m].spatial = {}
        return True

    def vectors(self, x: int, g: int, past: int) -> list[tuple[tuple[tuple[int, int], ...], int]]:
        if g == past:
            return [((), x)]
        found: list[tuple[tuple[tuple[int, int], ...], int]] = []
        for v in range(int(self.charges.vector[g]), int(self.charges.vector[g + 1])):
            y, loops = x, list[tuple[int, int]]()
            for d, j in enumerate(self.charges.factors[v]):
                if j > 0 and y >= 0:
                    y = self.grown(y, d, int(j))
                    loops.append((d, self.divisors[d][int(j)]))
            if y >= 0:
                found.extend(((*loops, *rest), z) for rest, z in self.vectors(y, g + 1, past))
        return found

    def walk(self, s: int, x: int, level: int, spent: float, used: int, last: int, live: tuple[Chain, ...]) -> bool:
        """Everything that may follow at this level and outside it; False if it gave up.

        Args:
            s: State.
            x: Tile.
            level: Level.
            spent: Priced words so far, less what live chains may still save.
            used: Bit mask of the dimensions this level has looped over.
            last: The last loop's dimension if it closed nothing (such loops commute), else -1.
            live: Chains that may still go on; while there are any, no two loops commute.
        """
        self.steps += 1
        self.best.count(_CELLS_A_STEP, programs=0)
        if self.steps > MOST_STEPS or self.best.late:
            return False
        states = self.fixed.states
        if states.stage_dim[s] >= 0 and self.machine.ordered_fixed[level, states.stage_dim[s]] <= 0:
            after = int(states.advance[s])
            if self.may_win(spent, after, x) and not self.walk(after, x, level, spent, used, last, live):
                return False
        if not self.end(s, x, level, spent, live):
            return False
        found = []
        for d, values in enumerate(self.divisors):
            closes = bool(self.machine.relevant[d] & self.machine.open[s])
            if used >> d & 1 or (not closes and not live and last > d):
                continue
            for j in range(1, len(values)):
                y = self.grown(x, d, j) if may_loop(s, d, j, self.machine) else -1
                if y < 0:
                    continue
                after = after_loop(s, d, self.machine)
                cost = slide_cost(s, d, j, x, self.grid, self.machine, self.charges, self.chains)
                if not math.isfinite(cost) or not self.may_win(spent + cost, after, y):
                    continue
                going, lost = self.advance(live, level, used, d, j, x, y)
                if self.may_win(spent + cost + lost, after, y):
                    going = (*going, *(self.begin(s, x, y, level, d, j) if closes else ()))
                    found.append((cost + lost + float(self.table[after, y]), d, j, y, after, cost + lost, going))
        for _, d, j, y, after, cost, going in sorted(found, key=lambda item: item[:3]):
            closes = bool(self.machine.relevant[d] & self.machine.open[s])
            self.levels[level].temporal.append((d, self.divisors[d][j]))
            done = self.walk(after, y, level, spent + cost, used | 1 << d, -1 if closes else d, going)
            self.levels[level].temporal.pop()
            if not done:
                return False
        return True

    def begin(self, s: int, x: int, y: int, level: int, d: int, j: int) -> tuple[Chain, ...]:
        """The chains that start when a loop over d closes boundaries of state s at tile x."""
        c, h, instance = self.charges, self.chains, self.fixed.instance
        factor = self.divisors[d][j]
        found = []
        for t in range(instance.n_tensors):
            number = int(c.chain_of[level, t, d])
            if number < 0 or not self.machine.relevant[d] >> t & 1:
                continue
            axis = next(a for a in instance.sliding_axes[t] if d in a)
            travel = self.travel(t, axis, d, x)
            moved = travel * (factor - 1) if instance.problem.reuse == Reuse.WALK.value else travel
            sub = h.axis_index[h.row_of[t, d], x]
            for i in range(int(self.machine.counts[s, t])):
                b = int(self.machine.boundary[level, t, i])
                untouched = i < self.machine.virgin[s, t] and c.slide_of[level, b, d] >= 0
                base = c.base[c.slide_of[level, b, d] if untouched else c.base_of[level, b], x]
                saved = float(h.table[number, int(untouched), j, sub])
                if saved > 0.0:
                    worth = float(base * c.scale[level, b] * c.price[b])
                    wanted = moved + travel if untouched else moved
                    found.append(Chain(t, axis, wanted, worth, 1.0 / factor, worth * saved))
        return tuple(chain for chain in found if chain.credit > 0.0)

    def advance(
        self, live: tuple[Chain, ...], level: int, used: int, d: int, j: int, x: int, y: int
    ) -> tuple[tuple[Chain, ...], float]:
        """Chains after a loop over d from tile x to y, and the credit they lost by it."""
        instance, factor = self.fixed.instance, self.divisors[d][j]
        going, lost = [], 0.0
        for chain in live:
            if d not in chain.axis and instance.relevant[chain.tensor, d]:
                lost += chain.credit
                continue
            share, wanted, saved = chain.share / factor, chain.wanted, 0.0
            if instance.bounded_only(chain.tensor):
                saved, most = 1.0, 1.0
            else:
                if d in chain.axis:
                    travel = self.travel(chain.tensor, chain.axis, d, x)
                    saved = float(travel == wanted)
                    wanted += travel * (factor - 1) if instance.problem.reuse == Reuse.WALK.value else travel
                most = self.most(chain, level, used | 1 << d, wanted, y)
            credit = chain.worth * share * most
            lost += chain.credit - saved * chain.worth * (chain.share - share) - credit
            if credit > 0.0:
                going.append(replace(chain, share=share, wanted=wanted, credit=credit))
        return tuple(going), lost

    def travel(self, t: int, axis: tuple[int, ...], d: int, x: int) -> int:
        """How far a loop over d moves the tensor along its sliding axis at tile x."""
        coef = self.fixed.instance.coef[t]
        row = int(np.flatnonzero(coef[:, axis[0]])[0])
        i = x // int(self.grid.stride[d]) % int(self.grid.n_divisors[d])
        return int(coef[row, d]) * self.divisors[d][i]

    def most(self, chain: Chain, level: int, used: int, wanted: int, x: int) -> float:
        """The most a chain may still save, as a share of its worth now."""
        instance, axis = self.fixed.instance, list(chain.axis)
        row = int(np.flatnonzero(instance.coef[chain.tensor][:, axis[0]])[0])
        tile = instance.lattice.sizes(x)
        spatial = self.fixed.options.factor[self.profile.choice[:level]][:, axis].astype(np.int64)
        mask = sum(1 << i for i, d in enumerate(axis) if used >> d & 1)
        return most_saved(
            level, mask, wanted, np.array([tile[d] for d in axis], np.int64),
            np.array([instance.lattice.bounds[d] for d in axis], np.int64),
            instance.coef[chain.tensor, row, axis], np.ascontiguousarray(spatial),
            instance.problem.reuse == Reuse.WALK.value,
        )  # fmt: skip

    def end(self, s: int, x: int, level: int, spent: float, live: tuple[Chain, ...]) -> bool:
        """End the level here if the state may."""
        outer = int(self.fixed.states.outer[s])
        if outer == -1 or self.charges.penalty[level, x] > 0.0:
            return True
        if level > 0:
            return self.cross(outer, x, level - 1, spent, live)
        if x == self.table.shape[1] - 1:
            nest, count = build_nest(self.fixed, self.levels)
            self.best.offer(nest, count)
        return True
