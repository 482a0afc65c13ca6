"""What low-fidelity evaluations before high-fidelity ones are worth: share of the exact front against what was spent.

    python -m experiments.fidelity --build eyeriss              # the low-fidelity table, about 100 CPU seconds
    python -m experiments.fidelity --seeds 10

High fidelity is the proven optimal mapping of every layer (`experiments.exhaustive`), low fidelity is simulated annealing with 200 mappings per
layer, whose latency and energy are 1.5 to 3.3 times higher, and not equally so. Both were evaluated for all designs of a case, so a
run only looks up. The price of a low-fidelity evaluation is its CPU time over a high-fidelity one's (`PRICES`).
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import codesign.optim
from codesign.core.errors import UserError, unknown_name
from codesign.core.goals import Budget
from codesign.cost.cost import Infeasible
from codesign.evaluation.network import EvaluationOptions, evaluate_workload
from codesign.mappers.annealing import AnnealingMapper
from codesign.optim import Frame
from codesign.optim.fidelity import TwoFidelityOptimizer
from codesign.optim.protocols import Problem
from experiments.exhaustive import TABLES, Row, cases, write_table
from experiments.table_box import TableBox

Floats = NDArray[np.float64]

EVALUATIONS = 200
"""Mappings scored per layer in a low-fidelity evaluation."""

LOW_TABLES = TABLES / "anneal200"

PRICES = {"eyeriss": 0.03}
"""CPU time of a low-fidelity evaluation (0.050 s) as a share of a high-fidelity one's (1.74 s, mean of 11 evenly spread designs)."""

MARKS = (2, 4, 6, 8, 10, 12, 16, 20, 30, 40)


def build(name: str, path: Path) -> float:
    """Evaluate every design of a case in low fidelity; returns CPU seconds per design."""
    case = cases()[name]
    network, rows = case.network, case.space.space.enumerate()
    options = EvaluationOptions(budget=Budget(evaluations=EVALUATIONS))
    table, start = {}, time.process_time()
    for design, point in enumerate(case.space.space.to_points(rows)):
        result = evaluate_workload(network, case.space.build(point), AnnealingMapper(), options)
        if isinstance(result, Infeasible):
            table[design] = Row(design, np.inf, np.inf, np.inf, np.inf, np.inf)
            continue
        m = result.metrics
        table[design] = Row(design, m.latency_s, m.energy_j, m.area_mm2, m.power_w, np.inf)
    write_table(path, table)
    return (time.process_time() - start) / len(rows)


def two_fidelities(high: TableBox, low: TableBox, price: float, seed: int, budget: float) -> tuple[Floats, Floats, int]:
    """Objectives of the high-fidelity evaluations (infinite where infeasible), what was spent after each, and how many were of low fidelity."""
    problem = Problem(high.space, high.objectives, seed=seed)
    optimizer = TwoFidelityOptimizer(problem, low_cost=price, high_cost=1.0)
    found: list[list[float]] = []
    spent: list[float] = []
    total, bought = 0.0, 0
    while total < budget:
        proposal = optimizer.ask()
        values, works = (high if proposal.high else low).evaluate(proposal.point)
        optimizer.tell(proposal, values, works)
        total += 1.0 if proposal.high else price
        bought += not proposal.high
        if proposal.high:
            found.append([values.get(o, np.inf) for o in high.objectives])
            spent.append(total)
    return np.array(found), np.array(spent), bought


def one_fidelity(high: TableBox, seed: int, budget: float) -> tuple[Floats, Floats, int]:
    """The same for `mobo` on high-fidelity evaluations alone."""
    optimizer = codesign.optim.create("mobo", high.space, high.objectives, seed=seed)
    found = []
    for _ in range(int(budget)):
        (point,) = optimizer.ask()
        values, works = high.evaluate(point)
        optimizer.tell(point, values, feasible=works)
        found.append([values.get(o, np.inf) for o in high.objectives])
    return np.array(found), np.arange(1.0, len(found) + 1.0), 0


def shares(found: Floats, spent: Floats, exact: Floats, marks: tuple[int, ...]) -> Floats:
    """The share of the exact front's hypervolume (log-scaled objectives) when so many high-fidelity evaluations' worth was spent."""
    frame = Frame.of_front(exact)
    whole = frame.hypervolume(exact)
    return np.array([frame.hypervolume(found[spent <= mark + 1e-9]) / whole for mark in marks])


def compare(name: str, seeds: int, budget: int, price: float) -> None:
    """Print medians and quartiles of both ways on one case."""
    high, low = TableBox(name), TableBox(name, folder=LOW_TABLES)
    exact = high.exact_front()
    marks = tuple(m for m in MARKS if m <= budget)
    for label in ("high fidelity alone", "two fidelities"):
        rows, counts = [], []
        for seed in range(seeds):
            if label == "high fidelity alone":
                found, spent, bought = one_fidelity(high, seed, budget)
            else:
                found, spent, bought = two_fidelities(high, low, price, seed, budget)
            rows.append(shares(found, spent, exact, marks))
            counts.append(bought)
        lower, middle, upper = np.quantile(np.array(rows), [0.25, 0.5, 0.75], axis=0)
        text = " ".join(f"{m}:{b:.2f}({a:.2f}-{c:.2f})" for m, a, b, c in zip(marks, lower, middle, upper, strict=True))
        print(f"{name} price {price:g} {label}: {text}  {np.mean(counts):.0f} low-fidelity", flush=True)


def main(arguments: list[str]) -> None:
    """Build a low-fidelity table, or compare one fidelity with two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", help="evaluate this case in low fidelity and write its table")
    parser.add_argument("--cases", nargs="+", default=list(PRICES))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", type=int, default=40, help="in high-fidelity evaluations")
    parser.add_argument(
        "--price",
        type=float,
        help="of a low-fidelity evaluation as a share of a high-fidelity one, instead of the measured one",
    )
    parser.add_argument("--smoke", action="store_true", help="a run of seconds, to see that everything works")
    options = parser.parse_args(arguments)
    if options.price is not None and not options.price > 0:
        raise UserError(f"--price must be > 0, got {options.price}")
    for name in [*([options.build] if options.build else []), *options.cases]:
        if name not in cases():
            raise unknown_name("case", name, cases())
    if options.build:
        seconds = build(options.build, LOW_TABLES / f"{options.build}.csv")
        print(f"{options.build}: {seconds:.3f} CPU s a design")
        return
    for name in options.cases:
        if name not in PRICES:
            raise unknown_name("case with a low-fidelity table", name, PRICES)
    for name in options.cases[:1] if options.smoke else options.cases:
        if options.smoke:
            compare(name, seeds=1, budget=4, price=0.2)
        else:
            price = PRICES[name] if options.price is None else options.price
            compare(name, options.seeds, options.budget, price)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"fidelity: {error}")
