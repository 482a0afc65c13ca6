"""The CoSA mapper: one mixed-integer program for tiling, spatial mapping and loop order; more of them on request."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from codesign.core import clock
from codesign.core.checks import check_whole
from codesign.core.errors import UserError, member_of
from codesign.core.goals import Budget, Objective
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost, Infeasible
from codesign.mappers.cosa.decode import choose_orders
from codesign.mappers.cosa.integer_program import PUBLISHED, Form, Settings, make_program
from codesign.mappers.cosa.matrices import Reading
from codesign.mappers.cosa.polish import polish
from codesign.mappers.cosa.schedules import Schedule, further_schedules, repaired, solve_program
from codesign.mappers.cosa.solvers import Solution, Solver
from codesign.mappers.driver import Encoded, value_of
from codesign.mappers.padded_bounds import smoothed
from codesign.mappers.protocol import MapResult, MipReport
from codesign.mappers.resident_orders import chain_orders
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.nest import IntArray
from codesign.mapping.space import MapState, copy_state, outermost_state


@dataclass(frozen=True)
class CosaMapper:
    """Q. Huang et al., "CoSA: Scheduling by Constrained Optimization for Spatial Accelerators", ISCA 2021.

    The first schedule is the program's own, as published, tightened where it does not fit; with ``k = 1`` it is the result. Otherwise `k` schedules are
    enumerated, of programs with other weights (a sweep) and, when those are used up, of the first program with the
    schedules found excluded (no-good cuts); the cost kernel orders the loops of each and chooses among them. The best of
    them are then polished: descent under the cost kernel by moving prime factors, which is not in the paper (`polish = 0` leaves
    it out).

    Args:
        reading: Which published form: paper, head or pre.
        k: Schedules to enumerate, of at most twice as many programs.
        polish: How many of the best of them are polished when ``k > 1``.
        enumeration: How: ``sweep`` (then cuts), or ``cuts`` alone.
        form: ``weighted`` sum, or ``balance`` of traffic and compute.
        solver: auto (CP-SAT, then HiGHS where that takes long), cp-sat, highs or gurobi.
        utilization: Weight wU of the buffer use.
        compute: Weight wC of the cycles.
        traffic: Weight wT of the traffic.
        network_level: Level whose loop order the program chooses; empty: the outermost level on chip.
        pad_primes_above: Bounds with a larger prime factor are padded; the mapping is then one of the padded computation. 0: never.
    """

    reading: str = "paper"
    k: int = 8
    polish: int = 4
    enumeration: str = "sweep"
    form: str = "weighted"
    solver: str = "auto"
    utilization: float = PUBLISHED.utilization
    compute: float = PUBLISHED.compute
    traffic: float = PUBLISHED.traffic
    network_level: str = ""
    pad_primes_above: int = 0
    name: ClassVar[str] = "cosa"

    def __post_init__(self) -> None:
        check_whole(1, k=self.k, where="mapper 'cosa'")
        check_whole(0, polish=self.polish, where="mapper 'cosa'")
        if self.enumeration not in ("sweep", "cuts"):
            raise UserError(f"`enumeration` must be sweep or cuts, got {self.enumeration!r}", where="mapper 'cosa'")
        self.settings()
        member_of(Solver, self.solver, "MIP solver")

    def settings(self) -> Settings:
        """The program's settings that the options say."""
        weights = replace(PUBLISHED, utilization=self.utilization, compute=self.compute, traffic=self.traffic)
        return Settings(
            reading=member_of(Reading, self.reading, "reading of CoSA"),
            weights=weights,
            form=member_of(Form, self.form, "form of the objective"),
            network_level=self.network_level or None,
        )

    def _report(self, solution: Solution) -> MipReport:
        """What the solver says of the program."""
        return MipReport(
            objective=solution.objective if solution.values else None,
            reading=self.reading,
            bound=solution.bound if math.isfinite(solution.bound) else None,
            seconds=solution.seconds,
            status=solution.status.value,
            solver=self.solver,
        )

    def map(
        self, problem: MappingProblem, objective: Objective, *, budget: Budget, seed: int, reuse: Reuse = Reuse.TIMELOOP
    ) -> MapResult:
        """See `codesign.mappers.protocol.Mapper`. Nothing is random; `evaluated` counts mappings scored by the kernel."""
        problem.need_perfect(self.name)
        problem.need_any_utilization(self.name)
        started = clock.wall_seconds()
        computation, padding = smoothed(problem.computation, self.pad_primes_above)
        encoded = Encoded.of(replace(problem, computation=computation), reuse)
        solver = Solver(self.solver)
        program = make_program(encoded.source, self.settings())
        solution = solve_program(program, solver, budget.time_limit_s)
        chooser = _Chooser(encoded, objective, budget, started)
        note, one_shot, found = "", None, 0
        hopeless = encoded.is_hopeless
        best = None if hopeless else repaired(encoded, program, solution, solver, chooser.seconds_left)
        if best is not None:
            found = 1
            one_shot = chooser.offer(best.state)
            if best.repairs:
                note = f"the program's schedule does not fit; its limits were tightened {best.repairs} times"
            if self.k > 1:
                chooser.refine(best)
        if solution.values and self.k > 1 and not hopeless and not chooser.spent():
            for schedule in further_schedules(
                encoded,
                program,
                best,
                solver,
                cuts_only=self.enumeration == "cuts",
                attempts=2 * self.k,
                seconds_left=chooser.seconds_left,
            ):
                found += 1
                chooser.refine(schedule)
                if found >= self.k or chooser.spent():
                    break
        if chooser.best is None:
            note = f"no schedule of the program fits ({solution.status.value}); all loops stand as far out as they may"
            chooser.offer(outermost_state(encoded.space))
        if self.k > 1 and self.polish and chooser.best is not None:
            before = chooser.best_value
            orders = chain_orders(encoded.space, program.chains, program.matrices.relevant)
            chooser.polish(self.polish, orders)
            if chooser.best_value < before:
                polished = (
                    f"best of {found} schedules: {objective.value} {before:.6g}, polished to {chooser.best_value:.6g}"
                )
                note = "; ".join(part for part in (note, polished) if part)
        report = replace(self._report(solution), schedules=found, one_shot=one_shot, padding=padding, note=note)
        return replace(encoded.result(chooser.best, chooser.evaluated, started, None), mip=report)


class _Chooser:
    """The best valid state among those offered, and what is left of the budget."""

    def __init__(self, encoded: Encoded, objective: Objective, budget: Budget, started: float) -> None:
        self.encoded, self.budget, self.started = encoded, budget, started
        self.scorer = encoded.scorer(objective)
        self.best: MapState | None = None
        self.best_value = math.inf
        self.kept: list[tuple[float, MapState]] = []
        self.evaluated = 0

    @property
    def left(self) -> int:
        """Mappings that may still be scored."""
        return 1 << 62 if self.budget.evaluations is None else self.budget.evaluations - self.evaluated

    def seconds_left(self) -> float | None:
        """Of the time limit; at least a millisecond."""
        if self.budget.time_limit_s is None:
            return None
        return max(1e-3, self.started + self.budget.time_limit_s - clock.wall_seconds())

    def spent(self) -> bool:
        """Whether the budget is used up."""
        return clock.is_spent(self.budget, self.started, self.evaluated)

    def offer(self, state: MapState) -> Cost | None:
        """Score a state as it stands; its cost if it is valid."""
        if self.left < 1:
            return None
        self.evaluated += 1
        cost = self.encoded.cost_of(state)
        if isinstance(cost, Infeasible):
            return None
        self._keep(state, value_of(self.scorer.objective, cost.energy_pj, float(cost.latency_cycles)))
        return cost

    def refine(self, schedule: Schedule) -> None:
        """Let the kernel order the loops of a schedule."""
        if self.left < 1:
            return
        state = outermost_state(self.encoded.space)
        copy_state(schedule.state, state)
        scratch, program = outermost_state(self.encoded.space), schedule.program
        orders = chain_orders(self.encoded.space, program.chains, program.matrices.relevant)
        value, scored = choose_orders(self.scorer, state, scratch, orders, self.left)
        self.evaluated += int(scored)
        self._keep(state, value)

    def polish(self, count: int, orders: IntArray) -> None:
        """Polish the best of the valid states seen, best first, then the one with all loops outermost."""
        best = [start for _, start in sorted(self.kept, key=lambda item: item[0])[:count]]
        for start in (*best, outermost_state(self.encoded.space)):
            if self.spent():
                return
            state, trial, other = (outermost_state(self.encoded.space) for _ in range(3))
            copy_state(start, state)
            value, scored = polish(self.scorer, state, (trial, other), orders, self.left)
            self.evaluated += int(scored)
            self._keep(state, value)

    def _keep(self, state: MapState, value: float) -> None:
        if value < math.inf:
            self.kept.append((value, state))
        if value < self.best_value:
            self.best, self.best_value = state, value
