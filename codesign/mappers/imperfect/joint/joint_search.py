"""Best first over what the fan-outs do: the least energy, latency or product of both that no imperfect mapping is below (rule IB13).

* IB13, Parts: If the nest read off is slower than the profile's least cycles, the profile is divided. The slower part
  costs its energy times these cycles; the faster is walked without places of too many steps, or with the prices of
  B6. The search ends within 0.05 %, or after 1.5 x 10^8 steps, or the effort given.
* IB15, Tiles that are products: The least tile may be no product of inner factors. Then the profile is divided by the
  number of inner tiles along the dimension that exceeds most: this one, and any other.
"""

import heapq
import math
from dataclasses import dataclass, field, replace

import numpy as np

from codesign.core.goals import Objective
from codesign.cost.arrays import encode_problem
from codesign.cost.columns import CYCLES
from codesign.cost.packed import VALID
from codesign.mappers.driver import OBJECTIVE_CODE, Encoded, value_of
from codesign.mappers.exact.incumbent import Goal, Incumbent
from codesign.mappers.imperfect.bound import MOST_FREE, keep_sets, least_cycles, least_energy
from codesign.mappers.imperfect.joint.joint_problem import MOST_PROFILES, Cut, JointProblem, OuterCosts, Profile
from codesign.mappers.imperfect.joint.nest_of_walk import cut_of_walk, state_of_walk
from codesign.mappers.imperfect.joint.outer_walk import outer_costs
from codesign.mapping.nest import FloatArray, IntArray
from codesign.mapping.space import MapState, kept_and_free

FEW_OPENED = 8
"""Profiles up to which the outer levels are not bounded by themselves."""
FIRST_OPENED = 32
"""Profiles of all bounds that are opened first where there are four times as many."""
FIRST_SHARE = 0.2
"""Share of the effort for that."""
DEEPEST = 4
"""Divisions of a part that is opened first."""
_FEW_PROFILES, _MANY_LOOKS = 20_000, 200_000
NEAR = 0.0005
"""Gap at which a search that cannot prove its optimum ends."""
_EQUAL = 1e-9


@dataclass(order=True, frozen=True)
class Part:
    """Mappings of one profile with a latency from `low` to `high`.

    Args:
        bound: No value of them is below.
        profile: Its row.
        low: Cycles.
        high: Cycles.
        energy: Least energy known.
        final: Whether nothing can sharpen the bound.
        cuts: Conditions on the tiles (rule IB15).
    """

    bound: float
    profile: int
    low: float
    high: float
    energy: float
    final: bool = False
    cuts: tuple[Cut, ...] = ()


@dataclass
class Best(Incumbent):
    """The best mapping known; its state is None until the search improves what it started from."""

    state: MapState | None = None


@dataclass
class JointSearch:
    """The search of one keep set.

    Args:
        best: The best mapping known.
        chosen: Vectors of each profile.
        outer: What the outer levels cost whatever the profile (rule IB16).
        busy: The same in cycles of the outermost port.
        profiles: Those made ready, by row.
        lowest: Least bound of the parts that nothing sharpens.
    """

    joint: JointProblem
    encoded: Encoded
    best: Best
    chosen: IntArray
    outer: OuterCosts | None = None
    busy: OuterCosts | None = None
    profiles: dict[int, Profile] = field(default_factory=dict)
    lowest: float = math.inf

    @property
    def objective(self) -> Objective:
        """What the search minimises."""
        return self.best.goal.objective

    def profile(self, row: int) -> Profile:
        """A profile under energy prices."""
        if row not in self.profiles:
            self.profiles[row] = self.joint.prepare(self.chosen[row], self.joint.energy)
        return self.profiles[row]

    def run(self, cycles: FloatArray, energy: FloatArray) -> float:
        """The bound of the keep set: of all profiles and parts of them."""
        bounds = _values(self.objective, energy, cycles)
        order = np.argsort(bounds, kind="stable")
        heap: list[Part] = []
        at = 0
        self.lowest = math.inf
        tried = self._try_some(order, cycles, energy, bounds, heap)
        while True:
            while at < len(order) and int(order[at]) in tried:
                at += 1
            ahead = float(bounds[order[at]]) if at < len(order) else math.inf
            least = min(ahead, heap[0].bound if heap else math.inf)
            bound = min(self.lowest, least, self.best.value)
            near = math.isfinite(self.lowest) and bound * (1.0 + NEAR) >= self.best.value
            if not self.best.beaten_by(least) or self.best.late or near:
                return bound
            if ahead <= least:
                row = int(order[at])
                heapq.heappush(heap, Part(ahead, row, float(cycles[row]), math.inf, float(energy[row])))
                at += 1
                continue
            self._divide(heapq.heappop(heap), heap)

    def _divide(self, part: Part, heap: list[Part]) -> None:
        """Sharpen a part; what may still hold better mappings goes onto the heap."""
        latency = self.objective is Objective.LATENCY
        for smaller in [part] if latency else self._sharpen(part):
            if smaller.final or latency:  # nothing sharpens it; others may still be improved on
                self.lowest = min(self.lowest, smaller.bound)
            elif self.best.beaten_by(smaller.bound):
                heapq.heappush(heap, smaller)

    def _try_some(
        self, order: IntArray, cycles: FloatArray, energy: FloatArray, bounds: FloatArray, heap: list[Part]
    ) -> set[int]:
        """Where profiles are many, open some of all bounds first: a better mapping spares most of the others. Returns their rows."""
        tried: set[int] = set()
        if len(order) < 4 * FIRST_OPENED or self.objective is Objective.LATENCY:
            return tried
        until = self.best.spent + FIRST_SHARE * (self.best.effort - self.best.spent)
        for row in order[_spread(len(order), FIRST_OPENED)].tolist():
            if self.best.spent > until:
                break
            tried.add(row)
            if self.best.beaten_by(bounds[row]):
                part = Part(float(bounds[row]), row, float(cycles[row]), math.inf, float(energy[row]))
                self._dive(part, heap)
        return tried

    def _dive(self, part: Part, heap: list[Part]) -> None:
        """Divide a part, then the piece of it with the least bound, and so on: pieces of few cycles are reached early."""
        for _ in range(DEEPEST):
            pieces: list[Part] = []
            self._divide(part, pieces)
            if not pieces:
                return
            part, *others = sorted(pieces)
            for other in others:
                heapq.heappush(heap, other)
        heapq.heappush(heap, part)

    def _sharpen(self, part: Part) -> list[Part]:
        """Run the program on a part; the nest it finds divides the part by its latency."""
        profile, joint = self.profile(part.profile), self.joint
        before = joint.work
        most = joint.thresholds(profile, self.best.goal.dearest_useful(part.low, self.best.value))
        energy, _ = joint.least(profile, most, part.high, part.cuts, self.outer)
        energy = max(energy, part.energy)
        self.best.count(joint.work - before)
        bound = max(part.bound, self.objective.score(energy, part.low))
        if not self.best.beaten_by(bound):
            return []
        known = replace(part, bound=bound, energy=energy)
        cycles, cut = self._follow(known, profile)
        if cut is not None:
            return [replace(known, cuts=(*part.cuts, c)) for c in (cut, cut._replace(equal=False))]
        stuck = cycles <= part.low * (1.0 + _EQUAL) or cycles > part.high  # nothing left to divide by
        if self.objective is not Objective.EDP or stuck:
            return [replace(known, final=True)]
        slower = replace(known, bound=energy * cycles, low=cycles, final=True)
        faster = self._faster(known, profile, min(cycles - 1.0, part.high))
        return [slower, faster] if faster is not None else [slower]

    def _follow(self, part: Part, profile: Profile) -> tuple[float, Cut | None]:
        """Score the nest that the program found; its cycles, infinite where it is no mapping, and the tile that is why."""
        before = self.joint.work
        most = self.joint.thresholds(profile, part.energy * (1.0 + 1e-9))
        least, walk = self.joint.least(profile, most, part.high, part.cuts, self.outer, recorded=True)
        self.best.count(self.joint.work - before)
        if walk is None or math.isinf(least):
            return math.inf, None
        chosen = self.chosen[part.profile]
        state = state_of_walk(self.joint, self.encoded.space, chosen, walk)
        if state is None:
            return math.inf, None
        status, energy, cycles = self.encoded.score(state)
        if status != VALID:
            return math.inf, cut_of_walk(self.joint, chosen, walk, part.cuts)
        value = value_of(OBJECTIVE_CODE[self.objective], energy, cycles)
        if value < self.best.value:
            self.best.value, self.best.state = value, state
        return float(cycles), None

    def _faster(self, part: Part, profile: Profile, high: float) -> Part | None:
        """The part of at most `high` cycles, bounded by the energy and by the port that is busy longest (B6)."""
        if high < part.low:
            return None
        energy = part.energy
        bound = energy * part.low
        busy = self.encoded.kernel.spent[:, CYCLES]
        slow = [(v, w) for v, w in self.joint.ports if busy[v] > high]
        before = self.joint.work
        for v, w in slow:
            port = self.joint.port_prices(v, w, profile.spread.factor)
            weight = energy / high
            prices = self.joint.energy + weight * port
            together = self.joint.prepare(self.chosen[part.profile], prices)
            limit = self.best.goal.dearest_useful(part.low, self.best.value) + weight * high
            most = self.joint.thresholds(together, limit)
            sums = None
            if self.outer is not None and self.busy is not None and v == 0:
                sums = self.outer.plus(weight, self.busy)
            least, _ = self.joint.least(together, most, high, part.cuts, sums)
            if math.isinf(least):  # whatever is as fast has more energy than matters
                least = limit
            ends = [c * max(energy, least - weight * c) for c in (part.low, high)]
            bound = max(bound, min(ends))
        self.best.count(self.joint.work - before)
        return replace(part, bound=bound, high=high)


def search_jointly(
    encoded: Encoded, objective: Objective, value: float, effort: float, deadline: float
) -> tuple[float, MapState | None]:
    """The bound of a problem, and the best mapping where one is better than what is known.

    Args:
        value: Value of the best mapping known.
        effort: Steps of the program.
        deadline: On `clock.wall_seconds`.
    """
    problem, least = encoded.source, math.inf
    best = Best(encoded.kernel, Goal(objective), deadline, effort, tolerance=_EQUAL, value=value)
    keep, free = kept_and_free(problem)
    if len(free) > MOST_FREE or not math.isfinite(value):
        return 0.0, None
    arrays = encode_problem(problem.computation, problem.architecture, encoded.reuse)
    cycles = least_cycles(problem, arrays)
    for chosen in keep_sets(keep, free):
        joint = JointProblem(problem, arrays, chosen)
        energy = least_energy(joint)
        coarse = objective.score(energy, cycles)
        if best.beaten_by(coarse):
            searched = not best.overdue or math.isinf(least)  # one keep set at least
            least = min(least, max(coarse, _of_keep_set(joint, encoded, best, energy, cycles) if searched else 0.0))
    return min(least, best.value), best.state


def _of_keep_set(joint: JointProblem, encoded: Encoded, best: Best, energy_floor: float, cycles_floor: float) -> float:
    """The bound of one keep set, given what no mapping of it is below; 0 where its profiles are too many."""
    objective, most = best.goal.objective, math.inf
    if objective is Objective.LATENCY:
        most = best.value
    elif objective is Objective.EDP:
        most = best.value / energy_floor if energy_floor > 0.0 else math.inf
    outer, busy = None, None
    proven, done, resolved = 0.0, 0.0, math.inf
    for share, room in ((1.0 - NEAR, MOST_PROFILES), (1.0, _FEW_PROFILES)):
        limit = best.value * share
        listed = joint.profiles(most, cycles_floor, limit, objective, room, outer)
        if listed is not None and len(listed[0]) > FEW_OPENED and outer is None:
            outer, busy = _outer(joint)
            if busy is not None and math.isfinite(busy.least):
                cycles_floor = max(cycles_floor, math.ceil(busy.least * (1.0 - 1e-9)))
            listed = joint.profiles(most, cycles_floor, limit, objective, room, outer)
        if listed is None:
            break
        chosen, cycles, energy = listed
        new = _values(objective, energy, cycles) >= done  # the others were searched already
        resolved = min(
            resolved, JointSearch(joint, encoded, best, chosen[new], outer, busy).run(cycles[new], energy[new])
        )
        proven, done = max(proven, min(resolved, limit)), limit
        if resolved < best.value * (1.0 - NEAR) * (1.0 - _EQUAL) or best.late or joint.looks > _MANY_LOOKS:
            break
    return proven


def _spread(many: int, few: int) -> IntArray:
    """Few places out of many, in an order in which any first ones of them are spread over all, the first place ahead."""
    halved = sorted(range(few), key=lambda i: f"{i:032b}"[::-1])
    return np.linspace(0, many - 1, few).astype(np.int64)[halved]


def _outer(joint: JointProblem) -> tuple[OuterCosts | None, OuterCosts | None]:
    """What the outer levels cost whatever the profile: energy, and cycles of the outermost port where it has a limit (rule IB16)."""
    outer = outer_costs(joint, joint.energy)
    if outer is None or joint.ports[:1] != [(0, False)]:
        return outer, None
    return outer, outer_costs(joint, joint.port_prices(0, False, np.ones((len(joint.keep), len(joint.dims)), np.int64)))


def _values(objective: Objective, energy: FloatArray, cycles: FloatArray) -> FloatArray:
    """The objective of every profile."""
    values: FloatArray = energy**objective.energy_exponent * cycles**objective.latency_exponent
    return values
