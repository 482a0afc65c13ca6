"""Order and replacement together in CP-SAT, time-indexed, with capacities only.

A binary says that an operator runs at a step; another that a tensor lies in the scratchpad at a step; a third that it
is retrieved for a step. Variables exist only within the steps that the precedences leave. Without addresses the model
is small enough to be solved where the full program is not, and its optimum is that of the full problem whenever
addresses can then be found. The state search (`states`) proves the same optimum faster; this is the independent check.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codesign.core.interruption import solved
from codesign.scheduling.cosma.graph import GraphIndex
from codesign.scheduling.cosma.objective import BYTES, TrafficWeights
from codesign.scheduling.cosma.ordering import Ordering
from codesign.scheduling.cosma.plan import plan_of, weighted_traffic

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


@dataclass(frozen=True)
class _Variables:
    """Per operator and step: runs; per tensor and step: resident, retrieved; per tensor: spilled."""

    runs: list[dict[int, Any]]
    resident: list[dict[int, Any]]
    retrieved: list[dict[int, Any]]
    spilled: list[Any]


def order_jointly(
    index: GraphIndex,
    capacity_bytes: int,
    *,
    weights: TrafficWeights = BYTES,
    time_limit_s: float = 60.0,
    workers: int = 1,
) -> Ordering:
    """The plan of least weighted traffic within the capacity, addresses apart.

    Args:
        index: The graph in numbers.
        capacity_bytes: At least the largest working set.
        weights: What a byte written and a byte read cost.
        time_limit_s: Seconds for the solver.
        workers: Threads.

    Returns:
        The best plan found with the bound proven; no plan if none was found in time.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    unit = math.gcd(*index.size_bytes, *(p for p in index.parameter_bytes if p))
    windows = [_window(index, o) for o in range(len(index.inputs))]
    variables = _variables(model, index, windows)
    _add_order(model, index, variables)
    _add_residency(model, index, variables)
    for step in range(len(index.inputs)):
        model.add(_load(index, variables, step, unit) <= capacity_bytes // unit)
    sizes = [s // unit for s in index.size_bytes]
    written = sum(weights.write * s * v for s, v in zip(sizes, variables.spilled, strict=True))
    read = sum(weights.read * s * v for s, back in zip(sizes, variables.retrieved, strict=True) for v in back.values())
    model.minimize(written + read)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = workers
    solver.parameters.max_time_in_seconds = time_limit_s
    status = solved(solver, model)
    bound = max(0, math.ceil(solver.best_objective_bound - 1e-6)) * unit
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Ordering(None, None, bound, "joint program")
    plan = plan_of(index, variables.runs, variables.retrieved, solver.boolean_value)
    return Ordering(plan, weighted_traffic(index, plan, weights), bound, "joint program")


def _window(index: GraphIndex, operator: int) -> tuple[int, int]:
    """First and last step at which an operator can run."""
    return index.ancestors[operator].bit_count(), len(index.inputs) - 1 - index.descendants[operator].bit_count()


def _variables(model: "cp_model.CpModel", index: GraphIndex, windows: list[tuple[int, int]]) -> _Variables:
    new = model.new_bool_var
    resident, retrieved = [], []
    for producer, readers in zip(index.producer, index.consumers, strict=True):
        first, latest = windows[producer]
        last = max((windows[r][1] for r in readers), default=latest)
        resident.append({t: new("") for t in range(first, last + 1)})
        # Made at `first` at the earliest and away for a step at least, it can come back two steps later.
        retrieved.append({t: new("") for t in range(first + 2, last + 1)})
    return _Variables(
        runs=[{t: new("") for t in range(first, last + 1)} for first, last in windows],
        resident=resident,
        retrieved=retrieved,
        spilled=[new("") for _ in index.size_bytes],
    )


def _add_order(model: "cp_model.CpModel", index: GraphIndex, variables: _Variables) -> None:
    """Every operator once, one operator a step, after the makers of its inputs."""
    for runs in variables.runs:
        model.add_exactly_one(runs.values())
    for step in range(len(index.inputs)):
        model.add_exactly_one(runs[step] for runs in variables.runs if step in runs)
    for reads, runs in zip(index.inputs, variables.runs, strict=True):
        for maker in {index.producer[t] for t in reads}:
            for step in runs:
                done = sum(v for t, v in variables.runs[maker].items() if t < step)
                model.add(sum(v for t, v in runs.items() if t <= step) <= done)


def _add_residency(model: "cp_model.CpModel", index: GraphIndex, variables: _Variables) -> None:
    """Operands and results are there when an operator runs; nothing is there that was neither kept, made nor fetched."""
    for tensor, (producer, readers) in enumerate(zip(index.producer, index.consumers, strict=True)):
        made, resident = variables.runs[producer], variables.resident[tensor]
        retrieved, spilled = variables.retrieved[tensor], variables.spilled[tensor]
        for step, here in resident.items():
            sources = [made.get(step), resident.get(step - 1), retrieved.get(step)]
            model.add(here <= sum(v for v in sources if v is not None))
            if step in made:
                model.add_implication(made[step], here)
            for reader in readers:
                if step in variables.runs[reader]:
                    model.add_implication(variables.runs[reader][step], here)
        for step, back in retrieved.items():
            model.add_implication(back, spilled)
            model.add(back <= sum(v for t, v in made.items() if t < step))
            # A retrieval can wait for the reader it is for.
            model.add(back <= sum(variables.runs[r][step] for r in readers if step in variables.runs[r]))


def _load(index: GraphIndex, variables: _Variables, step: int, unit: int) -> Any:
    tensors = sum(
        size // unit * here[step]
        for size, here in zip(index.size_bytes, variables.resident, strict=True)
        if step in here
    )
    parameters = sum(
        size // unit * runs[step]
        for size, runs in zip(index.parameter_bytes, variables.runs, strict=True)
        if size and step in runs
    )
    return tensors + parameters
