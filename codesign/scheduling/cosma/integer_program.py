"""The integer program of the paper in full: order, replacement and addresses at once (equations 1-17, but those of the least peak, 13-15).

One binary per tensor and step says whether it is created (C), preserved (P), spilled (S) or retrieved (R) there; L is
its address, V whether it keeps it, u and d order two tensors that lie in the scratchpad together. Variables exist only
where they can matter: a tensor is created no earlier than its ancestors allow, preserved no later than its last
reader can run, and two tensors are ordered only at steps where both can be there (Section III-F).

Three things the equations leave open are settled as the text has them. Every step runs exactly one operator
(Section III-A), which no numbered equation says. Parameters, which only one operator reads, are tensors that are
created with its output. And V (eq. 11) is bounded below by ``resident(t-1) + P(t) - 1``.
"""

import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import Any

from codesign.core.errors import MissingDependencyError
from codesign.scheduling.cosma.graph import GraphIndex
from codesign.scheduling.cosma.objective import BYTES, TrafficWeights
from codesign.scheduling.cosma.plan import Plan, Residency, residencies, uses, weighted_traffic


class Solver(Enum):
    """Who solves the program; Gurobi only where it is installed and licensed."""

    CP_SAT = "SAT"
    SCIP = "SCIP"
    GUROBI = "GUROBI"


@dataclass(frozen=True)
class ProgramResult:
    """What the solver answered.

    Args:
        plan: Order and retrievals, None when nothing was found in time.
        offsets: Byte address of each of its `residencies`; empty when addresses were left out.
        value: Weighted traffic, or the peak in bytes.
        bound: No solution has a smaller value.
        infeasible: Whether it is proven that there is none.
    """

    plan: Plan | None
    offsets: tuple[int, ...]
    value: int | None
    bound: int
    infeasible: bool


@dataclass(frozen=True)
class _Tensors:
    """Tensors of the program: those of the graph, then one per operator with parameters.

    Args:
        size: In units.
        producer: Operator that makes it (or whose parameters it is).
        readers: Operators that read it.
        first: First step at which it can be made.
        last_created: Last step at which it can be made.
        last: Last step at which it can be needed.
    """

    size: tuple[int, ...]
    producer: tuple[int, ...]
    readers: tuple[tuple[int, ...], ...]
    first: tuple[int, ...]
    last_created: tuple[int, ...]
    last: tuple[int, ...]


def solve_program(
    index: GraphIndex,
    capacity_bytes: int,
    *,
    weights: TrafficWeights = BYTES,
    order: Sequence[int] | None = None,
    addresses: bool = True,
    solver: Solver | None = None,
    time_limit_s: float = 300.0,
) -> ProgramResult:
    """Least weighted traffic (eq. 1-12), for a given order if `order` is not None (eq. 16-17).

    Args:
        index: The graph in numbers.
        capacity_bytes: M_B, at least the largest working set.
        weights: What a byte written and a byte read cost.
        order: A fixed order.
        addresses: Whether equations 9-11 take part; without them only capacities bind.
        solver: Default: Gurobi if it is there, else CP-SAT (far quicker here than SCIP).
        time_limit_s: Seconds for the solver.
    """
    program = _Program(index, solver, order)
    program.add_actions()
    program.add_capacity(capacity_bytes)
    if addresses:
        program.add_addresses(capacity_bytes)
    program.minimise_traffic(weights)
    return program.solve(time_limit_s)


class _Program:
    """The program being built; the methods add the equations they name."""

    def __init__(self, index: GraphIndex, solver: Solver | None, order: Sequence[int] | None) -> None:
        self._index = index
        self._model = _backend(solver)
        self._unit = math.gcd(*index.size_bytes, *(p for p in index.parameter_bytes if p))
        self._steps = len(index.inputs)
        self._position = None if order is None else {o: step for step, o in enumerate(order)}
        self._tensors = self._windows()
        self._created: list[dict[int, Any]] = []
        self._preserved: list[dict[int, Any]] = []
        self._spilled: list[dict[int, Any]] = []
        self._retrieved: list[dict[int, Any]] = []
        self._address: list[dict[int, Any]] = []
        self._weights = BYTES

    def add_actions(self) -> None:
        """Equations 1-8 (and 16, through the windows of a fixed order), one operator a step."""
        tensors, new = self._tensors, self._model.BoolVar
        for a in range(len(tensors.size)):
            first, created, last = tensors.first[a], tensors.last_created[a], tensors.last[a]
            self._created.append({t: new("") for t in range(first, created + 1)})
            later = range(first + 1, last + 1)
            self._preserved.append({t: new("") for t in later})
            self._spilled.append({t: new("") for t in later})
            self._retrieved.append({t: new("") for t in later})
        for a in range(len(tensors.size)):
            self._add_life(a)
            self._add_data(a)
        for step in range(self._steps):
            runs = [self._created[made[0]].get(step) for made in self._index.outputs]
            self._model.Add(sum(r for r in runs if r is not None) == 1)

    def _add_life(self, a: int) -> None:
        """Equations 1-4, 7, 8 for one tensor."""
        add, zero = self._model.Add, 0
        created, preserved = self._created[a], self._preserved[a]
        spilled, retrieved = self._spilled[a], self._retrieved[a]
        add(sum(created.values()) == 1)
        add(sum(spilled.values()) <= 1)
        before: list[Any] = []
        for t in preserved:
            was = created.get(t - 1, zero) + preserved.get(t - 1, zero)
            add(created.get(t, zero) + preserved[t] + spilled[t] + retrieved[t] <= 1)
            add(preserved[t] <= was + retrieved.get(t - 1, zero))
            add(spilled[t] <= was)
            before.append(spilled[t])
            add(retrieved[t] <= sum(before))

    def _add_data(self, a: int) -> None:
        """Equations 5 and 6 for the operator that makes the tensor."""
        producer = self._tensors.producer[a]
        leader = self._index.outputs[producer][0]
        if a != leader:
            for t, variable in self._created[a].items():
                self._model.Add(variable == self._created[leader][t])
            return
        for b in self._index.inputs[producer]:
            for t, variable in self._created[a].items():
                self._model.Add(variable <= self._preserved[b].get(t, 0) + self._retrieved[b].get(t, 0))

    def add_capacity(self, capacity_bytes: int) -> None:
        """The sum of what is resident fits: implied by equations 9 and 10, and what binds when they are left out."""
        for step in range(self._steps):
            self._model.Add(self._load(step) <= capacity_bytes // self._unit)

    def add_addresses(self, capacity_bytes: int) -> None:
        """Equations 9-11."""
        height = capacity_bytes // self._unit
        tensors, model = self._tensors, self._model
        for a, size in enumerate(tensors.size):
            steps = range(tensors.first[a], tensors.last[a] + 1)
            self._address.append({t: model.IntVar(0, height - size, "") for t in steps})
            for t in self._preserved[a]:
                keeps = model.BoolVar("")
                here, before = self._address[a][t], self._address[a][t - 1]
                model.Add(before <= here + height * (1 - keeps))
                model.Add(here <= before + height * (1 - keeps))
                model.Add(keeps >= self._resident(a, t - 1) + self._preserved[a][t] - 1)
                model.Add(keeps <= self._resident(a, t - 1))
                model.Add(keeps <= self._preserved[a][t])
        for a in range(len(tensors.size)):
            for b in range(a):
                if self._may_meet(a, b):
                    self._keep_apart(a, b, height)

    def _may_meet(self, a: int, b: int) -> bool:
        """Whether two tensors can lie in the scratchpad together: neither dies before the other is made."""
        if max(self._tensors.first[a], self._tensors.first[b]) > min(self._tensors.last[a], self._tensors.last[b]):
            return False
        return not self._dies_before(a, b) and not self._dies_before(b, a)

    def _dies_before(self, a: int, b: int) -> bool:
        producer = self._tensors.producer[b]
        above = self._index.ancestors[producer]
        users = self._tensors.readers[a] or (self._tensors.producer[a],)
        return all(above >> user & 1 for user in users)

    def _keep_apart(self, a: int, b: int, height: int) -> None:
        """Equation 10 for two tensors, at every step where both can be there."""
        tensors, model = self._tensors, self._model
        for t in range(max(tensors.first[a], tensors.first[b]), min(tensors.last[a], tensors.last[b]) + 1):
            above, below = model.BoolVar(""), model.BoolVar("")
            model.Add(above + below <= 1)
            model.Add(above + below >= self._resident(a, t) + self._resident(b, t) - 1)
            reach_a, reach_b = height + tensors.size[a], height + tensors.size[b]
            model.Add(self._address[a][t] + tensors.size[a] - self._address[b][t] <= reach_a * (1 - below))
            model.Add(self._address[b][t] + tensors.size[b] - self._address[a][t] <= reach_b * (1 - above))

    def minimise_traffic(self, weights: TrafficWeights) -> None:
        """Equations 12 and 17."""
        self._weights = weights
        terms = []
        for a, size in enumerate(self._tensors.size):
            terms += [weights.write * size * v for v in self._spilled[a].values()]
            terms += [weights.read * size * v for v in self._retrieved[a].values()]
        self._model.Minimize(sum(terms))

    def solve(self, time_limit_s: float) -> ProgramResult:
        """Run the solver and read the answer."""
        model = self._model
        model.SetTimeLimit(int(time_limit_s * 1000))
        status = model.Solve()
        found = status in (model.OPTIMAL, model.FEASIBLE)
        bound = math.ceil(model.Objective().BestBound() - 1e-6) * self._unit if found else 0
        result = ProgramResult(
            plan=None,
            offsets=(),
            value=None,
            bound=max(bound, 0),
            infeasible=status == model.INFEASIBLE,
        )
        if not found:
            return result
        plan = self._plan()
        value = weighted_traffic(self._index, plan, self._weights)
        offsets = tuple(self._offset(stay) for stay in residencies(self._index, plan)) if self._address else ()
        return replace(result, plan=plan, offsets=offsets, value=value)

    def _plan(self) -> Plan:
        """What the variables say; a retrieval made early is moved to the use it is for."""
        index = self._index
        order = [0] * self._steps
        for operator, made in enumerate(index.outputs):
            for step, variable in self._created[made[0]].items():
                if variable.solution_value() > 0.5:
                    order[step] = operator
        back: list[set[int]] = [set() for _ in order]
        for tensor, used in enumerate(uses(index, order)):
            fetched = [step for step, variable in self._retrieved[tensor].items() if variable.solution_value() > 0.5]
            for before, after in pairwise(used):
                if any(before < step <= after for step in fetched):
                    back[after].add(tensor)
        return Plan(tuple(order), tuple(tuple(sorted(r)) for r in back))

    def _offset(self, stay: Residency) -> int:
        if stay.tensor is not None:
            tensor = stay.tensor
        else:
            extra = [o for o, size in enumerate(self._index.parameter_bytes) if size]
            tensor = len(self._index.size_bytes) + extra.index(stay.operator)
        return int(round(self._address[tensor][stay.first_step].solution_value()) * self._unit)

    def _windows(self) -> _Tensors:
        """Sizes, makers and readers of all tensors, and the steps at which each can be made and be there."""
        index = self._index
        extra = [o for o, size in enumerate(index.parameter_bytes) if size]
        sizes = (*index.size_bytes, *(index.parameter_bytes[o] for o in extra))
        producer = (*index.producer, *extra)
        readers = (*index.consumers, *(() for _ in extra))
        windows = [self._operator_window(p) for p in producer]
        ends = [
            max((self._operator_window(r)[1] for r in rs), default=w[1]) for rs, w in zip(readers, windows, strict=True)
        ]
        return _Tensors(
            size=tuple(s // self._unit for s in sizes),
            producer=producer,
            readers=readers,
            first=tuple(w[0] for w in windows),
            last_created=tuple(w[1] for w in windows),
            last=tuple(ends),
        )

    def _operator_window(self, operator: int) -> tuple[int, int]:
        """First and last step at which an operator can run."""
        if self._position is not None:
            return self._position[operator], self._position[operator]
        before = self._index.ancestors[operator].bit_count()
        after = self._index.descendants[operator].bit_count()
        return before, self._steps - 1 - after

    def _resident(self, a: int, t: int) -> Any:
        """res(a, t) of equation 10."""
        return self._created[a].get(t, 0) + self._preserved[a].get(t, 0) + self._retrieved[a].get(t, 0)

    def _load(self, step: int) -> Any:
        tensors = self._tensors
        alive = [a for a in range(len(tensors.size)) if tensors.first[a] <= step <= tensors.last[a]]
        return sum(tensors.size[a] * self._resident(a, step) for a in alive)


def _backend(solver: Solver | None) -> Any:
    """An empty model of the solver asked for, or of the best there is.

    Raises:
        MissingDependencyError: The solver is not installed.
    """
    from ortools.linear_solver import pywraplp

    if solver is None:
        solver = Solver.GUROBI if importlib.util.find_spec("gurobipy") is not None else Solver.CP_SAT
    model = pywraplp.Solver.CreateSolver(solver.value)
    if model is None:
        raise MissingDependencyError(f"solver {solver.name} is not available", hint="use CP_SAT or SCIP")
    return model
