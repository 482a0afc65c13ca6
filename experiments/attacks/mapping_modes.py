"""Attacks on mappings called optimal: even ones, free keep sets, uneven places, imperfect factors."""

import math
import random
from collections.abc import Callable

import numpy as np

from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.arrays import Reuse
from codesign.mappers.exact import ExactMapper
from codesign.mappers.protocol import MapResult
from codesign.mappers.registry import create
from codesign.mapping.constraints import MappingProblem
from experiments.attacks.even_mappings import enumerate_all
from experiments.attacks.findings import Findings
from experiments.attacks.imperfect_nests import least_of_all
from experiments.attacks.imperfect_problems import draw, draw_small
from experiments.attacks.interpreter import interpret
from experiments.attacks.problems import PLAIN, random_problem
from experiments.attacks.uneven_places import enumerate_uneven

OBJECTIVES = (Objective.ENERGY, Objective.LATENCY, Objective.EDP)

RIVALS = ("anneal", "genetic", "hybrid", "random")
"""Mappers that attack what cannot be enumerated."""

RIVALS_WINDOW = ("anneal", "genetic", "random")
"""Those that know imperfect factors."""

SCORED = 4_000
"""Mappings each of them scores."""

FACTORISATIONS, PLACED, WALKED = 30_000, 100_000, 3_000
"""The most factorisations, mappings with places, and iterations of a nest that is walked word by word."""

LIMIT_S = 8.0
"""Of a search that is not enumerated; a gap is a claim as well."""

Enumeration = Callable[[], list[float]]


def attack_even(rng: np.random.Generator) -> Findings:
    """Even mappings with fixed keep sets, constraints at times."""
    large = rng.random() < 0.3
    size = int(rng.choice([500, 5_000, 50_000] if large else [12, 20, 40]))
    problem = random_problem(rng, size=size, constrained=bool(rng.random() < 0.4), busy=bool(rng.random() < 0.3))
    reuse = Reuse.WALK if rng.random() < 0.2 else Reuse.TIMELOOP
    return _attack(problem, ExactMapper(), reuse, lambda: list(enumerate_all(problem, reuse, FACTORISATIONS)[0]), rng)


def attack_free(rng: np.random.Generator) -> Findings:
    """Even mappings whose levels may be bypassed freely."""
    size = int(rng.choice([8, 10, 16, 500]))
    problem = random_problem(
        rng, size=size, free_bypass=True, constrained=bool(rng.random() < 0.2), busy=bool(rng.random() < 0.5)
    )
    return _attack(
        problem,
        ExactMapper(),
        Reuse.TIMELOOP,
        lambda: list(enumerate_all(problem, Reuse.TIMELOOP, FACTORISATIONS // 10)[0]),
        rng,
    )


def attack_uneven(rng: np.random.Generator) -> Findings:
    """Uneven places under the default rules."""
    forms = PLAIN if rng.random() < 0.6 else ("conv1d", "conv1d_strided", "conv1d_dilated", "depthwise")
    size = int(rng.choice([8, 12, 16, 24]))
    problem = random_problem(rng, forms, size=size, free_bypass=bool(rng.random() < 0.3), busy=bool(rng.random() < 0.5))
    return _attack(
        problem,
        ExactMapper(uneven=True),
        Reuse.TIMELOOP,
        lambda: list(enumerate_uneven(problem, PLACED)[0]),
        rng,
    )


def attack_imperfect(rng: np.random.Generator) -> Findings:
    """Imperfect factors: all nests of small problems, other mappers on larger ones."""
    draw_from = random.Random(int(rng.integers(2**31)))
    found = Findings()
    small = rng.random() < 0.6
    problem = draw_small(draw_from) if small else draw(draw_from)
    objective = draw_from.choice(OBJECTIVES)
    try:
        claimed = create("exact").map(problem, objective, budget=Budget(time_limit_s=LIMIT_S), seed=0)
    except UserError:
        found.how = "refused"
        return found
    if small:
        found.how = "enumerated"
        least, _ = least_of_all(problem, objective)
        _compare(found, claimed, objective, least)
    else:
        found.how = "searched"
        _search(found, claimed, problem, objective, Reuse.TIMELOOP, RIVALS_WINDOW, int(rng.integers(1000)))
    return found


def _attack(
    problem: MappingProblem, mapper: ExactMapper, reuse: Reuse, enumeration: Enumeration, rng: np.random.Generator
) -> Findings:
    """Hold all three objectives against enumeration, or one against all other mappers where there is too much to enumerate."""
    found = Findings("enumerated")
    try:
        best = enumeration()
    except OverflowError:
        found.how, best = "searched", []
    for objective in OBJECTIVES if best else (OBJECTIVES[int(rng.integers(3))],):
        try:
            limit = Budget() if best else Budget(time_limit_s=LIMIT_S)
            claimed = mapper.map(problem, objective, budget=limit, seed=0, reuse=reuse)
        except UserError as error:  # constraints that contradict each other
            if best and not math.isinf(best[0]):
                found.mismatches.append(f"refused though a mapping exists: {error.message}")
            return found
        if best:
            _compare(found, claimed, objective, best[OBJECTIVES.index(objective)])
        else:
            _search(found, claimed, problem, objective, reuse, RIVALS, int(rng.integers(1000)))
        _walk(found, claimed, problem, reuse)
    return found


def _claim(claimed: MapResult, objective: Objective) -> tuple[float, float]:
    """The value found and the bound that is claimed of all others."""
    if claimed.cost is None:
        return math.inf, math.inf if claimed.infeasible is not None else 0.0
    value = objective.of(claimed.cost)
    return value, 0.0 if claimed.gap is None else value / (1.0 + claimed.gap)


def _compare(found: Findings, claimed: MapResult, objective: Objective, least: float) -> None:
    name = _name(objective)
    value, bound = _claim(claimed, objective)
    if math.isinf(least):
        if claimed.mapping is not None:
            found.mismatches.append(f"{name}: a mapping of value {value!r}, enumeration found none")
        return
    if claimed.proof is Proof.OPTIMAL:
        found.attained(name, value, least)
    found.bounded_by(name, bound, least, "enumeration")


def _search(
    found: Findings,
    claimed: MapResult,
    problem: MappingProblem,
    objective: Objective,
    reuse: Reuse,
    rivals: tuple[str, ...],
    seed: int,
) -> None:
    _, bound = _claim(claimed, objective)
    for rival in rivals:
        try:
            other = create(rival).map(problem, objective, budget=Budget(evaluations=SCORED), seed=seed, reuse=reuse)
        except UserError:
            continue  # says that it does not cover such a problem
        if other.cost is not None:
            found.bounded_by(_name(objective), bound, objective.of(other.cost), rival)


def _walk(found: Findings, claimed: MapResult, problem: MappingProblem, reuse: Reuse) -> None:
    """The counts of the mapping found, by walking it word by word."""
    if claimed.mapping is None or claimed.cost is None or problem.computation.macs > WALKED:
        return
    walked = interpret(problem.computation, problem.architecture, claimed.mapping, reuse)
    for level in claimed.cost.levels:
        for tensor in level.tensors:
            counted = walked[level.level, tensor.tensor]
            if (tensor.reads, tensor.fills, tensor.updates) != (counted.reads, counted.fills, counted.updates):
                found.mismatches.append(f"{level.level} {tensor.tensor}: kernel {tensor}, walked {counted}")


def _name(objective: Objective) -> str:
    return f"energy^{objective.energy_exponent:g} latency^{objective.latency_exponent:g}"
