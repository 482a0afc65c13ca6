"""The default route: order and replacement within the capacity, then addresses.

1. The graph is divided where that loses nothing and every segment is searched exactly (`order_exactly`).
2. Where that takes too many states, the network is scheduled in windows (`order_in_windows`); the search that ended
   early leaves a lower bound.
3. Every stay in the scratchpad gets an address. If there are addresses, the whole schedule costs what order and
   replacement cost, and no schedule can cost less than that: the bound holds for the whole, addresses included.
4. If there are none, other orders of the same cost are tried; then the stays that cannot lie together are forbidden
   and the replacement is solved again for the order at hand.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from codesign.core import clock
from codesign.core.checks import check_positive
from codesign.core.goals import Proof
from codesign.scheduling.cosma.addresses import Placement, conflicting_gaps, place
from codesign.scheduling.cosma.baselines import Replacement, schedule_baseline
from codesign.scheduling.cosma.graph import GraphIndex, OperatorGraph
from codesign.scheduling.cosma.integer_program import ProgramResult, solve_program
from codesign.scheduling.cosma.objective import BYTES, TrafficWeights
from codesign.scheduling.cosma.ordering import Ordering, order_exactly, order_in_windows
from codesign.scheduling.cosma.plan import Plan, weighted_traffic
from codesign.scheduling.cosma.replacement import Gap, best_replacement
from codesign.scheduling.cosma.result import Schedule, TooSmall, Unplaced, priced_schedule

OTHER_ORDERS = 6
"""Orders of equal cost tried when the first has no addresses."""
OTHER_STATES = 100_000
"""States per segment in looking for one."""
EXACT_SHARE = 0.3
"""Share of the time limit for the exact search."""
PLACING_SHARE = 0.3
"""Share of the time limit that windows leave for addresses."""
CONFLICT_S = 0.5
"""Wall-clock seconds to decide whether part of a plan has addresses, when looking for a conflict."""
REPAIRS = 40
"""Sets of stays forbidden, at most, when no order of least cost has addresses."""


SMALL = 24
"""Operators up to which the whole program is solved when addresses stand in the way of the proof."""


class Route(Enum):
    """How a schedule is found.

    DECOMPOSED: order and replacement by state search, then addresses. The default.
    JOINT: the same with order and replacement from the paper's integer program without addresses.
    MONOLITHIC: the paper's integer program with addresses.
    """

    DECOMPOSED = "decomposed"
    JOINT = "joint"
    MONOLITHIC = "monolithic"


@dataclass(frozen=True)
class Effort:
    """How much a solution may cost.

    Args:
        states: States per segment of the exact search; past it, or past its share of the time limit, the network is
            scheduled in windows.
        window_states: States per window.
        time_limit_s: Wall-clock seconds after which no further window, order or address is tried.
        placing_s: Wall-clock seconds for the addresses of one plan.
        seed: Of every random choice.
    """

    states: int = 700_000
    window_states: int = 20_000
    time_limit_s: float = 40.0
    placing_s: float = 5.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive(states=self.states, window_states=self.window_states)
        check_positive(time_limit_s=self.time_limit_s, placing_s=self.placing_s)


DEFAULT_EFFORT = Effort()


@dataclass(frozen=True)
class Task:
    """A graph, the scratchpad it is scheduled in, what traffic costs there, and how much may be spent."""

    graph: OperatorGraph
    capacity_bytes: int
    weights: TrafficWeights = BYTES
    effort: Effort = DEFAULT_EFFORT
    deadline: float = math.inf

    @property
    def index(self) -> GraphIndex:
        """The graph in numbers."""
        return self.graph.index

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return clock.wall_seconds() > self.deadline

    def value(self, plan: Plan) -> int:
        """Weighted traffic of a plan."""
        return weighted_traffic(self.index, plan, self.weights)

    def program(self, *, addresses: bool) -> ProgramResult:
        """The answer of the paper's integer program, with its addresses or without them."""
        limit_s = self.effort.time_limit_s
        return solve_program(
            self.index, self.capacity_bytes, weights=self.weights, addresses=addresses, time_limit_s=limit_s
        )

    def place(self, plan: Plan) -> Placement:
        """Addresses for a plan, where some are found."""
        effort = self.effort
        return place(self.index, plan, self.capacity_bytes, time_limit_s=effort.placing_s, seed=effort.seed)


def schedule_cosma(
    graph: OperatorGraph,
    capacity_bytes: int,
    *,
    weights: TrafficWeights = BYTES,
    route: Route = Route.DECOMPOSED,
    effort: Effort = DEFAULT_EFFORT,
) -> Schedule | TooSmall | Unplaced:
    """Order, addresses and spills of least weighted non-compulsory traffic.

    Args:
        graph: With parameters if these share the scratchpad (else `OperatorGraph.without_parameters`).
        capacity_bytes: Scratchpad size.
        weights: What a byte written and a byte read cost.
        route: How to solve.
        effort: Limits.

    Returns:
        The schedule with its proof; `TooSmall` when an operator does not fit at all; `Unplaced` when all fit but no
        addresses were found.
    """
    if capacity_bytes < graph.minimum_bytes:
        return TooSmall(graph.largest_operator.name, graph.minimum_bytes, capacity_bytes)
    deadline = clock.wall_seconds() + effort.time_limit_s
    task = Task(graph, capacity_bytes, weights, effort, deadline)
    if route is Route.MONOLITHIC:
        return _monolithic(task)
    index = graph.index
    if route is Route.JOINT:
        # Its optimum is that of the whole wherever addresses are then found.
        solved = task.program(addresses=False)
        found = Ordering(solved.plan, solved.value, solved.bound, "joint program")
    else:
        exact_end = deadline - (1 - EXACT_SHARE) * effort.time_limit_s
        found = order_exactly(index, capacity_bytes, weights, effort.states, deadline=exact_end)
        if found.plan is None:
            windows_end = deadline - PLACING_SHARE * effort.time_limit_s
            found = order_in_windows(index, capacity_bytes, weights, found.bound, effort.window_states, windows_end)
    placed = _with_addresses(task, found)
    if len(graph.operators) <= SMALL and (placed is None or task.value(placed.plan) > found.bound):
        whole = _monolithic(task)
        if placed is None or (isinstance(whole, Schedule) and whole.proof is Proof.OPTIMAL):
            return whole
    if placed is None:
        return _last_resort(task, found)
    return _schedule(task, placed.plan, placed.offsets or (), found.bound, found.method, placed.allocation.method)


def _schedule(task: Task, plan: Plan, offsets: tuple[int, ...], bound: int, method: str, placement: str) -> Schedule:
    graph, capacity, weights = task.graph, task.capacity_bytes, task.weights
    return priced_schedule(graph, capacity, weights, plan, offsets, bound, method=method, placement=placement)


def _last_resort(task: Task, found: Ordering) -> Schedule | Unplaced:
    """The best baseline, which always has addresses: it moves operands, at a price, where they split the memory."""
    graph, capacity = task.graph, task.capacity_bytes
    order = range(len(graph.operators)) if found.plan is None else found.plan.order
    done = [schedule_baseline(graph, capacity, order, policy, weights=task.weights) for policy in Replacement]
    schedules = [result for result in done if isinstance(result, Schedule)]
    if not schedules:
        return Unplaced(capacity, proven=False)
    best = min(schedules, key=lambda schedule: schedule.value)
    return replace(best, bound=found.bound, proof=Proof.OPTIMAL if best.value == found.bound else Proof.GAP)


def _monolithic(task: Task) -> Schedule | Unplaced:
    """The paper's program, whole."""
    solved = task.program(addresses=True)
    if solved.plan is None:
        return Unplaced(task.capacity_bytes, proven=solved.infeasible)
    return _schedule(task, solved.plan, solved.offsets, solved.bound, "integer program", "integer program")


def _with_addresses(task: Task, found: Ordering) -> Placement | None:
    """The cheapest plan with addresses among those tried."""
    best: tuple[int, Placement] | None = None
    failed: list[Placement] = []
    for plan in _plans(task, found):
        placement = task.place(plan)
        if placement.offsets is not None:
            return placement
        failed.append(placement)
        if task.late:
            break
    for placement in failed:
        repaired = _repair(task, placement)
        if repaired is not None:
            value = task.value(repaired.plan)
            if best is None or value < best[0]:
                best = value, repaired
            if value == found.value or task.late:
                break
    return None if best is None else best[1]


def _plans(task: Task, found: Ordering) -> Iterator[Plan]:
    """The plan found, then others of the same cost where these are cheap to find."""
    if found.plan is None:
        return
    yield found.plan
    seen = {found.plan}
    for other in range(OTHER_ORDERS if found.value == found.bound else 0):
        seed = task.effort.seed + other
        again = order_exactly(task.index, task.capacity_bytes, task.weights, OTHER_STATES, shuffle_seed=seed)
        if again.plan is not None and again.plan not in seen:
            seen.add(again.plan)
            yield again.plan


def _repair(task: Task, placement: Placement) -> Placement | None:
    """The cheapest plan with addresses for the order of `placement`, or None when none was found."""
    index, capacity, effort, order = task.index, task.capacity_bytes, task.effort, placement.plan.order
    forbidden: list[list[Gap]] = []
    for _ in range(REPAIRS):
        conflict = conflicting_gaps(index, placement, capacity, time_limit_s=CONFLICT_S, seed=effort.seed)
        if not conflict or task.late:
            return None
        forbidden.append(conflict)
        again = best_replacement(
            index, order, capacity, weights=task.weights, forbidden=forbidden, time_limit_s=effort.placing_s
        )
        if again is None:
            return None
        placement = task.place(again.plan)
        if placement.offsets is not None:
            return placement
    return None
