"""Fits the constants of the systems of cores, each on one to three recorded rows, and holds every sweep out in turn.

`python -m experiments.fit_cores --data FOLDER` prints one line of JSON: `fitted` (the value with the least squares of errors on the rows of `fitted_on`) and
`held_out` (errors of a sweep when every constant fitted on it comes from elsewhere: a row of another sweep, the other machine, or its
neutral value).
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from codesign.core.errors import UserError
from codesign.timing.cores.system import CoreSystem, carried_from, load_system, system_names
from experiments.validation.llmcompass_rows import Case, read_cases

GRID, REFINED = 9, 5
"""Values tried at a time, and how often their range is narrowed."""

ROUNDS = 2
"""Passes over all constants: some rows hang on two of them."""

OTHER_ROWS = {
    ("a100", "matrix_share"): "layer A100x4 prefill W1_proj",
    ("a100", "dram_share"): "matmul A100 64x12288x12288",
    ("a100", "gelu_lane_operations"): "layer A100x4 prefill GeLU",
    ("a100", "exponential_s"): "layer A100x4 prefill Softmax",
    ("mi210", "dram_share"): "softmax MI210 32768x4096",
}
"""A row of another sweep that tells the same constant."""

ELSEWHERE: dict[tuple[str, str], float | str] = {
    # peaks, where nothing else tells
    ("a100", "cache_share"): 1.0,
    ("a100", "cache_capacity_share"): 0.5,
    ("mi210", "row_latency_s"): 0.0,
    # the other machine's
    ("mi210", "matrix_share"): "a100",
    ("mi210", "exponential_s"): "a100",
    ("mi210", "step_latency_s"): "a100",
    # the overheads that LLMCompass' artefact states, less the start of a kernel
    ("a100", "dispatch_softmax_s"): 10e-6,
    ("a100", "dispatch_layernorm_s"): 43e-6,
    ("a100", "dispatch_gelu_s"): 43e-6,
    ("a100", "hidden_s"): 0.0,
    ("mi210", "dispatch_matmul_s"): 20e-6,
    ("mi210", "dispatch_softmax_s"): 20e-6,
    # NCCL's table
    ("a100", "link_start_s"): 0.0,
    ("a100", "low_latency_bytes_per_s"): 58.75e9,
    ("a100", "middle_bytes_per_s"): 216.2e9,
    ("a100", "simple_latency_s"): 28.8e-6,
}
"""Where a constant comes from when no other row tells it: a value, or a machine."""


Rows = dict[str, tuple[str, ...]]
"""Names of recorded rows by constant."""


@dataclass(frozen=True)
class Config:
    """What to run.

    Args:
        data: Folder of the recorded rows.
        smoke: One pass, no held-out sweeps.
    """

    data: Path
    smoke: bool = False


def solve(system: CoreSystem, name: str, cases: Sequence[Case]) -> float:
    """The value of a constant with the least squares of relative errors on some rows, over a factor of two about the present value.

    The best tiling changes with the constant, so the squares have kinks: a grid is refined four times.
    """
    now = system.constant(name)
    low, high = (now / 2, now * 2) if now else (0.0, 1e-4)

    def squares(value: float) -> float:
        changed = system.with_constants({name: value})
        return sum((case.predict(changed) / case.measured_s - 1) ** 2 for case in cases)

    best = now
    for _ in range(REFINED):
        grid = np.geomspace(low, high, GRID) if low > 0 else np.linspace(low, high, GRID)
        best = float(min(grid, key=lambda value: squares(float(value))))
        at = int(np.flatnonzero(grid == best)[0])
        low, high = float(grid[max(at - 1, 0)]), float(grid[min(at + 1, GRID - 1)])
    return best


def fit(system: CoreSystem, rows: Rows, cases: dict[str, Case], rounds: int) -> CoreSystem:
    """The system with each constant of `rows` solved on its rows, in turn, several times over."""
    for _ in range(rounds):
        for name, wanted in rows.items():
            found = [cases[row] for row in wanted if row in cases]
            if found:
                system = system.with_constants({name: solve(system, name, found)})
    return system


def own_rows(system: CoreSystem) -> Rows:
    """The rows each constant is fitted on, by the table; none for constants carried over from another machine's table."""
    carried = carried_from(system.name)
    return {} if carried else {c.name: c.fitted_on for c in system.constants if c.fitted_on}


def held_out(cases: Sequence[Case]) -> dict[str, Any]:
    """Errors of every sweep with constants from elsewhere."""
    by_name = {case.name: case for case in cases}
    found: dict[str, Any] = {}
    systems = {name: load_system(name) for name in system_names()}
    for sweep in dict.fromkeys((c.operator, c.device, c.sweep) for c in cases):
        those = [c for c in cases if (c.operator, c.device, c.sweep) == sweep]
        system = _without(systems, those, by_name)
        errors = np.abs([c.predict(system) / c.measured_s - 1 for c in those])
        kept = np.abs([c.predict(systems[c.system]) / c.measured_s - 1 for c in those])
        found[" ".join(sweep)] = {
            "rows": len(those),
            "mean_error": float(errors.mean()),
            "worst_error": float(errors.max()),
            "with_the_table": float(kept.mean()),
        }
    return found


def _without(systems: dict[str, CoreSystem], those: Sequence[Case], by_name: dict[str, Case]) -> CoreSystem:
    """The system of a sweep's rows, the constants fitted on the sweep taken from elsewhere."""
    system = systems[those[0].system]
    names = {case.name for case in those}
    rows: Rows = {}
    for constant, own in own_rows(system).items():
        if names.isdisjoint(own):
            continue
        other = OTHER_ROWS.get((system.name, constant))
        if other is not None and other in by_name and other not in names:
            rows[constant] = (other,)
            continue
        where = ELSEWHERE[system.name, constant]
        value = systems[where].constant(constant) if isinstance(where, str) else where
        system = system.with_constants({constant: value})
    return fit(system, rows, by_name, 2)


def run(config: Config) -> dict[str, Any]:
    """Fits on the recorded rows and, unless in smoke, the held-out sweeps."""
    cases = read_cases(config.data)
    by_name = {case.name: case for case in cases}
    fitted: dict[str, Any] = {}
    for name in system_names():
        system = load_system(name)
        rows = own_rows(system)
        if not rows:
            continue
        made = fit(system, rows, by_name, 1 if config.smoke else ROUNDS)
        fitted[name] = {constant: made.constant(constant) for constant in rows}
    return {"fitted": fitted} | ({} if config.smoke else {"held_out": held_out(cases)})


def main(arguments: list[str] | None = None) -> int:
    """Fit and print one line of JSON; 2 for a user's mistake."""
    parser = argparse.ArgumentParser(prog="python -m experiments.fit_cores", description=__doc__)
    parser.add_argument("--data", required=True, type=Path, help="folder of the recorded rows")
    parser.add_argument("--smoke", action="store_true", help="one pass, no held-out sweeps")
    given = parser.parse_args(arguments)
    try:
        print(json.dumps(run(Config(given.data, given.smoke))))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
