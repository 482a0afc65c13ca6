"""A mixed-integer program as a value, and its solvers behind one function: OR-Tools' CP-SAT, the HiGHS inside its model builder, Gurobi where the user has it.

CP-SAT's own limit is deterministic (its count of its work), HiGHS and Gurobi are given a generous time that the programs here use a
thousandth of; so the same program has the same answer on a busy machine unless the caller sets a shorter time.
"""

import contextlib
import ctypes
import importlib
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from codesign.core import clock
from codesign.core.errors import MissingDependencyError
from codesign.core.interruption import solved

SCALE = 10**6
"""CP-SAT knows integers only: one bit of a logarithm is so many units. Rounding moves a limit by at most 0.5 / SCALE bits a prime
factor. Ten times finer, some programs of near ties are no longer solved in minutes."""

FIRST_EFFORT = 0.1
"""What AUTO grants CP-SAT, in deterministic time: five times what it needs as a rule."""

EFFORT = 30.0
"""Default limit per program: seconds; for CP-SAT its deterministic time (about as many seconds of one core)."""


@dataclass(frozen=True)
class Row:
    """``low <= sum(coefficient * variable) <= high``.

    Args:
        terms: Pairs (variable, coefficient).
        low: None is unbounded.
        high: None is unbounded.
    """

    terms: tuple[tuple[int, float], ...]
    low: float | None
    high: float | None


@dataclass(frozen=True)
class LinearProgram:
    """Minimise ``sum(cost * x)`` over non-negative variables.

    Args:
        upper: Largest value of each variable.
        integral: Whether it must be whole. The others may stand in rows with coefficients +1 and -1 only.
        cost: Objective coefficient of each variable.
        rows: The constraints.
    """

    upper: tuple[float, ...]
    integral: tuple[bool, ...]
    cost: tuple[float, ...]
    rows: tuple[Row, ...]

    def value(self, solution: tuple[float, ...]) -> float:
        """The objective at a solution."""
        return sum(c * x for c, x in zip(self.cost, solution, strict=True))

    def without(self, forbidden: Iterable[tuple[int, ...]]) -> "LinearProgram":
        """The program with a no-good cut per forbidden point of its first variables, in rows any MIP solver understands.

        Counts are not binary: "differs from the point" is "some variable lies above or below it", one binary for either.
        """
        upper, rows = list(self.upper), list(self.rows)
        for point in forbidden:
            sides = []
            for i, value in enumerate(point):
                for above in (True, False):
                    room = upper[i] - value if above else value
                    if room < 1:
                        continue
                    side = len(upper)
                    upper.append(1.0)
                    sides.append(side)
                    if above:  # side = 1 makes x >= value + 1
                        rows.append(Row(((i, 1.0), (side, -(value + 1.0))), 0.0, None))
                    else:  # side = 1 makes x <= value - 1
                        rows.append(Row(((i, 1.0), (side, upper[i] - value + 1.0)), None, upper[i]))
            rows.append(Row(tuple((s, 1.0) for s in sides), 1.0, None))
        more = len(upper) - len(self.upper)
        return LinearProgram(tuple(upper), (*self.integral, *[True] * more), (*self.cost, *[0.0] * more), tuple(rows))


class Solver(Enum):
    """The backends. AUTO is CP-SAT, and HiGHS where CP-SAT has not proven the optimum soon."""

    AUTO = "auto"
    CP_SAT = "cp-sat"
    HIGHS = "highs"
    GUROBI = "gurobi"


class Status(Enum):
    """How the solve of a program ended."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    STOPPED = "stopped without a solution"


@dataclass(frozen=True)
class Solution:
    """What a solver returned.

    Args:
        status: How it ended.
        values: Of all variables; empty when there is no solution.
        objective: Their objective, recomputed in double precision; infinite when there is none.
        bound: Proven lower bound.
        seconds: CPU time of building and solving.
    """

    status: Status
    values: tuple[float, ...]
    objective: float
    bound: float
    seconds: float


@dataclass(frozen=True)
class _Limits:
    """Of one solve: work, and wall-clock time if there is such a limit."""

    effort: float
    time_s: float | None

    @property
    def seconds(self) -> float:
        """Both as a time, for solvers that count nothing else."""
        return self.effort if self.time_s is None else min(self.effort, self.time_s)


_Backend = Callable[[LinearProgram, _Limits], tuple[Status, tuple[float, ...], float]]

_LIBRARIES = {Solver.CP_SAT: "ortools.sat.python.cp_model", Solver.HIGHS: "ortools.linear_solver.python.model_builder"}


def solve(
    program: LinearProgram, solver: Solver = Solver.AUTO, *, time_limit_s: float | None = None, effort: float = EFFORT
) -> Solution:
    """Solve a program.

    Args:
        solver: By which backend, on one thread.
        time_limit_s: Wall-clock limit beside the limit on effort.
        effort: Limit on the solver's work, see `EFFORT`.

    Raises:
        MissingDependencyError: Gurobi is not installed or has no licence.
    """
    if solver is Solver.AUTO:
        first = solve(program, Solver.CP_SAT, time_limit_s=time_limit_s, effort=min(effort, FIRST_EFFORT))
        if first.status in (Status.OPTIMAL, Status.INFEASIBLE):
            return first
        second = solve(program, Solver.HIGHS, time_limit_s=time_limit_s, effort=effort)
        best = second if second.objective <= first.objective else first
        return replace(best, seconds=first.seconds + second.seconds, bound=max(first.bound, second.bound))
    backend: _Backend = {Solver.CP_SAT: _cp_sat, Solver.HIGHS: _highs, Solver.GUROBI: _gurobi}[solver]
    if solver in _LIBRARIES:
        importlib.import_module(_LIBRARIES[solver])  # loading a library is not solving
    started = clock.cpu_seconds()
    status, values, bound = backend(program, _Limits(effort, time_limit_s))
    values = tuple(float(round(x)) if whole else x for x, whole in zip(values, program.integral, strict=False))
    objective = program.value(values) if values else math.inf
    return Solution(status, values, objective, min(bound, objective), clock.cpu_seconds() - started)


def _scaled(value: float) -> int:
    return round(value * SCALE)


def _cp_sat(program: LinearProgram, limits: _Limits) -> tuple[Status, tuple[float, ...], float]:
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    variables = [
        model.new_int_var(0, int(u) if whole else _scaled(u), "")
        for u, whole in zip(program.upper, program.integral, strict=True)
    ]
    for row in program.rows:
        coefficients, scale, slack = _integers(program, row)
        low = cp_model.INT_MIN if row.low is None else round(row.low * scale) - slack
        high = cp_model.INT_MAX if row.high is None else round(row.high * scale) + slack
        expression = cp_model.LinearExpr.weighted_sum([variables[i] for i, _ in row.terms], coefficients)
        model.add_linear_constraint(expression, low, high)
    costs = [_scaled(c) if whole else round(c) for c, whole in zip(program.cost, program.integral, strict=True)]
    model.minimize(cp_model.LinearExpr.weighted_sum(variables, costs))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2  # knapsacks with near ties (all primes equal) are hopeless without cuts
    solver.parameters.max_deterministic_time = limits.effort
    solver.parameters.max_time_in_seconds = 2.0 + 4.0 * limits.effort if limits.time_s is None else limits.time_s
    code = solved(solver, model)
    if code == cp_model.INFEASIBLE:
        return Status.INFEASIBLE, (), math.inf
    bound = solver.best_objective_bound / SCALE
    if code not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Status.STOPPED, (), bound
    values = tuple(
        float(solver.value(x)) if whole else solver.value(x) / SCALE
        for x, whole in zip(variables, program.integral, strict=True)
    )
    return (Status.OPTIMAL if code == cp_model.OPTIMAL else Status.FEASIBLE), values, bound


def _integers(program: LinearProgram, row: Row) -> tuple[list[int], int, int]:
    """Whole coefficients of a row, the unit of its bounds, and the slack for rounding; whole rows stay as they are."""
    whole = all(c == int(c) and program.integral[i] for i, c in row.terms)
    if whole and all(b is None or b == int(b) for b in (row.low, row.high)):
        return [int(c) for _, c in row.terms], 1, 0
    coefficients = [_scaled(c) if program.integral[i] else round(c) for i, c in row.terms]
    if not all(program.integral[i] for i, _ in row.terms):
        return coefficients, SCALE, 0  # a row that defines a continuous variable needs no tolerance
    count = sum(program.upper[i] for i, _ in row.terms)
    return coefficients, SCALE, math.ceil(count / 2)


def _highs(program: LinearProgram, limits: _Limits) -> tuple[Status, tuple[float, ...], float]:
    from ortools.linear_solver.python import model_builder

    model = model_builder.Model()
    variables = [
        model.new_var(0, u, whole, f"x{i}")
        for i, (u, whole) in enumerate(zip(program.upper, program.integral, strict=True))
    ]
    for row in program.rows:
        expression = sum(c * variables[i] for i, c in row.terms)
        low = -math.inf if row.low is None else row.low
        model.add_linear_constraint(expression, low, math.inf if row.high is None else row.high)
    model.minimize(sum(c * x for c, x in zip(program.cost, variables, strict=True) if c))
    solver = model_builder.Solver("highs")
    solver.set_time_limit_in_seconds(limits.seconds)
    solver.set_solver_specific_parameters("output_flag=false\nthreads=1\nmip_rel_gap=1e-9")
    with _stdout_to_stderr():
        code = solver.solve(model)
    if code == model_builder.SolveStatus.INFEASIBLE:
        return Status.INFEASIBLE, (), math.inf
    if code not in (model_builder.SolveStatus.OPTIMAL, model_builder.SolveStatus.FEASIBLE):
        return Status.STOPPED, (), -math.inf
    values = tuple(float(solver.value(x)) for x in variables)
    optimal = code == model_builder.SolveStatus.OPTIMAL
    return (Status.OPTIMAL if optimal else Status.FEASIBLE), values, float(solver.best_objective_bound)


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """HiGHS prints a line of its own now and then, output switched off or not; standard output is for results alone."""
    libc = ctypes.CDLL(None) if os.name == "posix" else None
    if libc is None:
        yield
        return
    with contextlib.suppress(AttributeError, ValueError):
        sys.stdout.flush()
    libc.fflush(None)
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        libc.fflush(None)  # what C code printed waits in its buffer when standard output is a pipe
        os.dup2(kept, 1)
        os.close(kept)


def _gurobi(program: LinearProgram, limits: _Limits) -> tuple[Status, tuple[float, ...], float]:
    try:
        import gurobipy
    except ImportError:
        raise MissingDependencyError(
            "solver 'gurobi' needs the package gurobipy and a licence", hint="use solver=cp-sat or solver=highs"
        ) from None
    grb: Any = gurobipy.GRB
    with gurobipy.Env(params={"OutputFlag": 0, "Threads": 1}) as env, gurobipy.Model(env=env) as model:
        model.Params.TimeLimit = limits.seconds
        model.Params.MIPGap = 1e-9
        variables = [
            model.addVar(ub=u, vtype=grb.INTEGER if whole else grb.CONTINUOUS)
            for u, whole in zip(program.upper, program.integral, strict=True)
        ]
        for row in program.rows:
            expression = gurobipy.LinExpr([c for _, c in row.terms], [variables[i] for i, _ in row.terms])
            if row.low is not None:
                model.addConstr(expression >= row.low)
            if row.high is not None:
                model.addConstr(expression <= row.high)
        model.setObjective(gurobipy.LinExpr(list(program.cost), variables), grb.MINIMIZE)
        model.optimize()
        if model.Status in (grb.INFEASIBLE, grb.INF_OR_UNBD):
            return Status.INFEASIBLE, (), math.inf
        if model.SolCount == 0:
            return Status.STOPPED, (), float(model.ObjBound)
        values = tuple(float(x.X) for x in variables)
        return (Status.OPTIMAL if model.Status == grb.OPTIMAL else Status.FEASIBLE), values, float(model.ObjBound)
