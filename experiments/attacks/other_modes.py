"""Attacks on fused pairs, AccelForge's and ZigZag's rules, proven fronts and certified gaps, and on certificates with damage."""

import copy
import json
import math
import random
from typing import Any

import numpy as np

import codesign.optim
from codesign.bounds import DesignBounds
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Infeasible
from codesign.evaluation.network import EvaluationOptions, evaluate_workload
from codesign.mappers.exact import ExactMapper
from codesign.mappers.loop_order.exact_orders import ExactOrders
from codesign.mappers.loop_order.factors import prime_loops
from codesign.mappers.loop_order.salsa import SalsaMapper
from codesign.mappers.uneven.search import solve
from codesign.mapping.looptree import Factors
from codesign.optim.certify import certify as certify_front
from codesign.scheduling.fused.loop_tree import Fusion
from codesign.verify import certificate, restored, verify
from codesign.verify.even.claims import EvenCertificate, certify
from experiments.attacks import fused_pairs, uneven_nests, zigzag_orders
from experiments.attacks.even_mappings import enumerate_all
from experiments.attacks.findings import TIGHT, Findings
from experiments.attacks.hardware_spaces import random_network, random_space
from experiments.attacks.problems import PLAIN, WINDOWS, random_problem

METRICS = (
    ("latency_s", "energy_j", "area_mm2"),
    ("latency_s", "energy_j"),
    ("edp_js", "area_mm2"),
    ("latency_s", "power_w", "area_mm2"),
    ("energy_j", "power_w"),
)

ORDERS = 4_000
"""Orders with cuts that are enumerated at most."""

_SOUND = 1e-6
"""Relative; how far a front may be from its certificate, whose sums are rounded in another order."""


def attack_accelforge(rng: np.random.Generator) -> Findings:
    """Uneven nests under AccelForge's rules, imperfect at times."""
    imperfect = bool(rng.random() < 0.3)
    operator, machine, goal = uneven_nests.problem(int(rng.integers(10**6)), imperfect)
    found = Findings("enumerated")
    least = uneven_nests.blind(operator, machine, goal, imperfect)
    claimed = solve(operator, machine, goal, Factors(imperfect, imperfect))
    _hold(found, claimed.value, claimed.proven, least)
    return found


def attack_fused(rng: np.random.Generator) -> Findings:
    """Two chained products, the tensor between them on the chip or not."""
    operators, machines, goal = fused_pairs.pair(random.Random(int(rng.integers(10**6))))
    found = Findings("enumerated")
    claimed = Fusion(operators, machines, frozenset({"T"}), goal).solve()
    _hold(found, claimed.value, claimed.proven, fused_pairs.blind(operators, machines[0][0], goal))
    return found


def _hold(found: Findings, value: float, proven: bool, least: float) -> None:
    if math.isinf(least) or math.isinf(value):
        if math.isinf(least) != math.isinf(value):
            found.mismatches.append(f"{value!r} was found, enumeration found {least!r}")
        return
    if proven:
        found.attained("value", value, least)
    elif value < least * (1.0 - TIGHT):
        found.mismatches.append(f"{value!r} is below the least of all, {least!r}")


def attack_zigzag(rng: np.random.Generator) -> Findings:
    """Loop orders with cuts under the zigzag semantics: least energy by enumeration, all goals by annealing."""
    case = zigzag_orders.layer(random.Random(int(rng.integers(10**6))))
    found = Findings("searched")
    objective = (Objective.ENERGY, Objective.LATENCY, Objective.EDP)[int(rng.integers(3))]
    claimed = ExactOrders().map_orders(case, objective, budget=Budget(), seed=0)
    bound = 0.0
    if claimed.cost is not None and claimed.gap is not None:
        bound = objective.of(claimed.cost) / (1.0 + claimed.gap)
    rival = SalsaMapper().map_orders(case, objective, budget=Budget(evaluations=2_000), seed=int(rng.integers(1000)))
    if rival.cost is not None:
        found.bounded_by("order", bound, objective.of(rival.cost), "salsa")
    n = len(prime_loops(case))
    levels = [len(case.accelerator.chain(t.role)) for t in case.computation.tensors]
    many = math.factorial(min(n, 12)) * math.prod(math.comb(n + v - 1, v - 1) for v in levels)
    if objective == Objective.ENERGY and many <= ORDERS:
        found.how = "enumerated"
        least = zigzag_orders.least(case)
        value = math.inf if claimed.cost is None else claimed.cost.energy_pj
        if claimed.mapping is not None and not zigzag_orders.fits(case, claimed.mapping):
            found.mismatches.append(f"{claimed.mapping} does not fit")
        _hold(found, value, claimed.proof is Proof.OPTIMAL, least)
    return found


def attack_front(rng: np.random.Generator) -> Findings:
    """A proven front, and certified gaps on the way, against the evaluation of every design."""
    seed = int(rng.integers(10**6))
    space, network = random_space(seed), random_network(seed)
    objectives = METRICS[int(rng.integers(len(METRICS)))]
    rows = space.space.enumerate()
    values: list[dict[str, float] | None] = []
    for point in space.space.to_points(rows):
        options = EvaluationOptions(budget=Budget(time_limit_s=2.0))
        design = evaluate_workload(network, space.build(point), ExactMapper(), options)
        values.append(None if isinstance(design, Infeasible) else design.metrics.to_dict())
    found = Findings("enumerated")
    truth = np.array([[v[o] for o in objectives] for v in values if v is not None]).reshape(-1, len(objectives))
    bounds = DesignBounds(space, network)
    least = bounds.lower_bounds(rows, objectives)
    for k, value in enumerate(values):
        for column, name in enumerate(objectives):
            if value is not None:
                found.bounded_by(f"design {k}, {name}", float(least[k, column]), value[name], "an evaluation")
    optimizer = codesign.optim.create("exact", space.space, objectives, bounds=bounds)
    by_row = {row.tobytes(): v for row, v in zip(rows, values, strict=True)}
    told: list[list[float]] = []
    while points := optimizer.ask(1):
        metrics = by_row[space.space.to_indices(points)[0].tobytes()]
        optimizer.tell(points[0], metrics, feasible=metrics is not None)
        if metrics is not None:
            told.append([metrics[o] for o in objectives])
            if len(told) in (2, 5):
                shown, _ = certify_front(optimizer.problem, optimizer.history(), 0.5)
                _honest(found, "certified gap", shown.factor, np.array(told), truth)
    state = optimizer.certificate()
    if state is None or state.withdrawn:
        found.mismatches.append(f"nothing proven: {state}")
    elif told:
        gap = state.finite_gap
        _honest(found, "front", None if gap is None else 1.0 + gap, np.array(told), truth)
        if not state.proven:
            found.mismatches.append(f"not proven in the end: {state}")
    return found


def _honest(found: Findings, claim: str, factor: float | None, told: Any, truth: Any) -> None:
    """No design beats all those told by more than what is claimed."""
    if factor is None:
        return
    real = float((told[None] / truth[:, None]).max(axis=2).min(axis=1).max())
    if real > factor * (1.0 + _SOUND):
        found.beaten.append(f"{claim}: a design beats the front by {real!r}, {factor!r} was claimed")


def attack_certificate(rng: np.random.Generator) -> Findings:
    """The certificate of an optimum is accepted; with random damage it is refused, or what it then says is true."""
    problem = random_problem(
        rng,
        PLAIN if rng.random() < 0.5 else WINDOWS,
        size=int(rng.choice([8, 12, 20])),
        constrained=bool(rng.random() < 0.3),
        busy=bool(rng.random() < 0.3),
    )
    found = Findings("enumerated")
    objective = (Objective.ENERGY, Objective.LATENCY, Objective.EDP)[int(rng.integers(3))]
    try:
        claimed = ExactMapper().map(problem, objective, budget=Budget(), seed=0)
    except UserError:
        found.how = "refused"
        return found
    if claimed.mapping is None:
        found.how = "refused"
        return found
    document = json.loads(json.dumps(certificate(certify(problem, objective, claimed.mapping))))
    verdict = verify(restored(document))
    if not verdict.accepted:
        found.mismatches.append(f"a true certificate is refused: {verdict.reason}")
    for _ in range(6):
        damaged = copy.deepcopy(document)
        where = damage(damaged, rng)
        try:
            given = restored(damaged)
            verdict = verify(given, time_limit=5.0)
        except UserError:
            continue
        if verdict.accepted and not _true(given):
            found.mismatches.append(f"believed with damage at {where}: {verdict.reason}")
    return found


def damage(document: Any, rng: np.random.Generator) -> str:
    """Change, remove or double one part of a document; says where."""
    path, part = "", document
    while True:
        keys = list(part) if isinstance(part, dict) else list(range(len(part)))
        key = keys[int(rng.integers(len(keys)))]
        path += f"/{key}"
        value = part[key]
        if isinstance(value, dict | list) and value and rng.random() < 0.85:
            part = value
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            del part[key]
            return f"{path} removed"
        change = int(rng.integers(4))
        part[key] = (value + 1, value * (1.0 - 1e-6), value * 2, 0)[change]
        return f"{path} = {value!r} made {part[key]!r}"


def _true(given: Any) -> bool:
    """Whether enumeration agrees that nothing is better than a certificate's value."""
    if not isinstance(given, EvenCertificate):
        return False  # damage does not turn one kind into another that holds
    try:
        best, _ = enumerate_all(given.space.source, Reuse.TIMELOOP, 60_000)
    except OverflowError:
        return True  # cannot be told
    goals = (Objective.ENERGY, Objective.LATENCY, Objective.EDP)
    return bool(given.value <= best[goals.index(given.space.objective)] * (1.0 + 2.0 * TIGHT))
