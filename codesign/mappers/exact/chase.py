"""Depth-first search of one profile, loop by loop, where the dynamic program is only a bound.

The tables bound every completion from below, so only nests whose bound beats the incumbent are walked, and
every one that is completed is scored by the kernel. Used where windows may slide on (chains), where reuse is only
bounded, and nowhere else.
"""

import math

from codesign.mappers.exact.dp import Charges, after_loop, may_loop, slide_cost
from codesign.mappers.exact.incumbent import Incumbent
from codesign.mappers.exact.profile import Profile
from codesign.mappers.exact.trace import LevelLoops, build_nest

MOST_STEPS = 300_000
"""Loops placed before the search of one profile gives up and leaves a gap."""


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
        return self.cross(self.fixed.states.start, 0, level, 0.0)

    def may_win(self, spent: float, s: int, x: int) -> bool:
        least = self.constant + spent + float(self.table[s, x])
        return self.best.beaten_by(self.best.goal.value(least, self.quickest)) and math.isfinite(least)

    def grown(self, x: int, d: int, j: int) -> int:
        i = x // int(self.grid.stride[d]) % int(self.grid.n_divisors[d])
        k = int(self.grid.grow[d, j, i])
        return -1 if k < 0 else x + (k - i) * int(self.grid.stride[d])

    def cross(self, s: int, x: int, m: int, spent: float) -> bool:
        """Try every spatial vector of fan-out m, then the loops of that level."""
        found: list[tuple[float, int, tuple[tuple[int, int], ...]]] = []
        for vector, y in self.vectors(x, int(self.charges.group[m]), int(self.charges.group[m + 1])):
            if self.may_win(spent, s, y):
                found.append((float(self.table[s, y]), y, vector))
        for _, y, vector in sorted(found):
            self.levels[m].spatial = dict(vector)
            if not self.walk(s, y, m, spent, 0, -1, False):
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

    def walk(self, s: int, x: int, level: int, spent: float, used: int, last: int, alive: bool) -> bool:
        """Everything that may follow at this level and outside it.

        Args:
            s: State.
            x: Tile.
            level: Level.
            spent: Priced words so far.
            used: Bit mask of the dimensions this level has looped over.
            last: The last loop's dimension if it closed nothing (such loops commute), else -1.
            alive: Whether some chain may still go on, so that no two loops commute.
        """
        self.steps += 1
        if self.steps > MOST_STEPS or self.best.late:
            return False
        states = self.fixed.states
        if states.stage_dim[s] >= 0 and self.machine.ordered_fixed[level, states.stage_dim[s]] <= 0:
            after = int(states.advance[s])
            if self.may_win(spent, after, x) and not self.walk(after, x, level, spent, used, last, alive):
                return False
        if not self.end(s, x, level, spent):
            return False
        found = []
        for d, values in enumerate(self.divisors):
            if used >> d & 1:
                continue
            for j in range(1, len(values)):
                y = self.grown(x, d, j) if may_loop(s, d, j, self.machine) else -1
                if y < 0:
                    continue
                closes = bool(self.machine.relevant[d] & self.machine.open[s])
                if not closes and not alive and last > d:
                    continue
                after = after_loop(s, d, self.machine)
                cost = slide_cost(s, d, j, x, self.grid, self.machine, self.charges, self.chains)
                if math.isfinite(cost) and self.may_win(spent + cost, after, y):
                    found.append((cost + float(self.table[after, y]), d, j, y, after, cost, closes))
        for _, d, j, y, after, cost, closes in sorted(found):
            going = alive or (closes and bool((self.charges.chain_of[level, :, d] >= 0).any()))
            self.levels[level].temporal.append((d, self.divisors[d][j]))
            done = self.walk(after, y, level, spent + cost, used | 1 << d, -1 if closes else d, going)
            self.levels[level].temporal.pop()
            if not done:
                return False
        return True

    def end(self, s: int, x: int, level: int, spent: float) -> bool:
        """End the level here if the state may."""
        outer = int(self.fixed.states.outer[s])
        if outer == -1 or self.charges.penalty[level, x] > 0.0:
            return True
        if level > 0:
            return self.cross(outer, x, level - 1, spent)
        if x == self.table.shape[1] - 1:
            nest, count = build_nest(self.fixed, self.levels)
            self.best.offer(nest, count)
        return True
