"""Fitting the weights of the objective to an architecture with a micro-benchmark (CoSA section III-D).

The objective is a sum of logarithms, so weights that suit an architecture are those of a linear fit: of small layers, schedules are
drawn (solutions of programs with random weights, so that they look like what the program will choose among), the cost kernel
measures each, and the logarithm of the measured objective is regressed on the three terms of the program. A constant per layer
absorbs its size. Coefficients of the wrong sign are held at zero (non-negative least squares).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from codesign.core.errors import UserError
from codesign.core.factors import prime_factors
from codesign.core.goals import Objective
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost
from codesign.mappers.cosa.integer_program import PUBLISHED, Settings, Weights, make_program
from codesign.mappers.cosa.schedules import repaired, solve_program
from codesign.mappers.cosa.solvers import Solver
from codesign.mappers.driver import Encoded
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import Mapping, Spatial, Storage
from codesign.mapping.nest import FloatArray


@dataclass(frozen=True)
class Fit:
    """Weights for an architecture.

    Args:
        weights: With the compute weight that of the published program; the others relative to it.
        samples: Schedules measured.
        r_squared: Part of the variance within layers that the fit explains.
    """

    weights: Weights
    samples: int
    r_squared: float


def fit_weights(
    problems: Sequence[MappingProblem],
    objective: Objective,
    *,
    samples: int = 24,
    seed: int = 0,
    solver: Solver = Solver.AUTO,
    reuse: Reuse = Reuse.TIMELOOP,
) -> Fit:
    """Weights under which the program's objective follows the measured one.

    Args:
        problems: The micro-benchmark: layers on the one architecture.
        objective: What is measured.
        samples: Schedules drawn a layer.
        seed: Of the random weights.
        solver: Of the programs.
        reuse: See `Reuse`.

    Raises:
        UserError: Too few different valid schedules to fit three weights.
    """
    rng = np.random.default_rng(seed)
    rows, targets = [], []
    for problem in problems:
        encoded = Encoded.of(problem, reuse)
        terms, values = _measure(encoded, objective, rng, samples, solver)
        if len(values) > 1:
            rows.append(terms - terms.mean(axis=0))
            targets.append(values - values.mean())
    if not rows or sum(len(r) for r in rows) < 6:
        raise UserError("the micro-benchmark gave fewer than 6 different schedules", hint="give more layers or samples")
    x, y = np.concatenate(rows), np.concatenate(targets)
    from scipy.optimize import nnls

    coefficients, _ = nnls(x, y)
    residual = y - x @ coefficients
    explained = 1.0 - float(residual @ residual) / max(float(y @ y), 1e-30)
    compute = max(float(coefficients[1]), 1e-3)
    scale = PUBLISHED.compute / compute
    weights = replace(PUBLISHED, utilization=float(coefficients[0]) * scale, traffic=float(coefficients[2]) * scale)
    return Fit(weights, len(y), explained)


def _measure(
    encoded: Encoded, objective: Objective, rng: np.random.Generator, samples: int, solver: Solver
) -> tuple[FloatArray, FloatArray]:
    """Terms (-utilisation, compute, traffic) and measured log2 objective of different schedules: ``n x 3`` and ``n``."""
    terms, values = [], []
    seen = set()
    for _ in range(samples):
        drawn = replace(
            PUBLISHED,
            utilization=float(10.0 ** rng.uniform(-2, 1)),
            traffic=float(10.0 ** rng.uniform(-1, 1.5)),
            compute=float(10.0 ** rng.uniform(-0.5, 1.5)),
        )
        program = make_program(encoded.source, Settings(weights=drawn, by_axis=True))
        schedule = repaired(encoded, program, solve_program(program, solver, None), solver, lambda: None)
        if schedule is None or schedule.key in seen:
            continue
        cost = encoded.cost_of(schedule.state)
        if isinstance(cost, Cost):
            seen.add(schedule.key)
            terms.append(_prices(encoded.source, schedule.program.settings, schedule.values))
            values.append(float(np.log2(objective.of(cost))))
    return np.array(terms).reshape(-1, 3), np.array(values)


def _prices(problem: MappingProblem, settings: Settings, values: tuple[float, ...]) -> tuple[float, float, float]:
    """(-utilisation, compute, traffic) of a tiling, unweighted: priced one weight at a time."""
    off = replace(PUBLISHED, utilization=0.0, compute=0.0, traffic=0.0)
    ones = (replace(off, utilization=1.0), replace(off, compute=1.0), replace(off, traffic=1.0))
    prices = [make_program(problem, replace(settings, weights=w)).price(values) for w in ones]
    return prices[0], prices[1], prices[2]


def mapping_terms(problem: MappingProblem, mapping: Mapping, settings: Settings) -> tuple[float, float, float]:
    """(-utilisation, compute, traffic), unweighted, that the program counts for the tiling of an even mapping.

    The traffic is that of the loop order that saves most, whatever the mapping's own. Factors must lie where the
    program may put them; it knows every place unless constraints fix some.
    """
    program = make_program(problem, replace(settings, by_axis=False))
    index = {(p.dim, p.prime, p.level, p.axis is not None): i for i, p in enumerate(program.places)}
    names = [v.name for v in problem.architecture.levels]
    values = [0.0] * len(program.places)
    level = 0
    for node in mapping.nodes:
        if isinstance(node, Storage):
            level = names.index(node.level)
            continue
        spatial = isinstance(node, Spatial)
        at = names.index(node.level) if isinstance(node, Spatial) else level
        for prime in prime_factors(node.factor):
            values[index[program.problem.computation.dims.index(node.dim), prime, at, spatial]] += 1.0
    return _prices(problem, program.settings, tuple(values))
