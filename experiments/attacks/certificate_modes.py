"""Attacks on certificates of whole networks."""

import copy
import json

import numpy as np

from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Infeasible
from codesign.evaluation.network import EvaluationOptions
from codesign.evaluation.network_certificate import network_certificate
from codesign.evaluation.whole_network import map_network
from codesign.library.certificates import check_certificate
from codesign.mappers.exact import ExactMapper
from codesign.mappers.random_search import RandomMapper
from codesign.mapping.constraints import Constraints, MappingProblem
from codesign.verify import restored
from codesign.verify.network import NetworkCertificate
from codesign.verify.seal import SEAL, seal
from codesign.workloads.computation import Computation
from experiments.attacks.even_mappings import enumerate_all
from experiments.attacks.findings import TIGHT, Findings
from experiments.attacks.hardware_spaces import random_network, random_space
from experiments.attacks.other_modes import damage

_GOALS = (Objective.ENERGY, Objective.LATENCY, Objective.EDP)


def _unconstrained(computation: Computation) -> Constraints:
    return Constraints()


def attack_network_certificate(rng: np.random.Generator) -> Findings:
    """A network's certificate is accepted, its bound holds for other mappings; with damage it is refused, or still true."""
    seed = int(rng.integers(10**6))
    space, network = random_space(seed), random_network(seed)
    points = space.space.to_points(space.space.enumerate())
    architecture = space.build(points[int(rng.integers(len(points)))])
    column = int(rng.integers(len(_GOALS)))
    objective = _GOALS[column]
    found = Findings("searched")
    claimed = map_network(network, architecture, ExactMapper(), EvaluationOptions(objective))
    if isinstance(claimed, Infeasible):
        found.how = "refused"
        return found
    try:
        document = json.loads(json.dumps(network_certificate(claimed, _unconstrained)))
    except UserError:
        found.how = "refused"
        return found
    given = restored(document)
    assert isinstance(given, NetworkCertificate)
    verdict = check_certificate(document)
    if not verdict.accepted:
        found.mismatches.append(f"a true certificate is refused: {verdict.reason}")
    for draw in range(4):
        options = EvaluationOptions(objective, Budget(evaluations=200), seed=draw)
        rival = map_network(network, architecture, RandomMapper(), options)
        if not isinstance(rival, Infeasible):
            found.bounded_by("network", given.bound, objective.score(rival.energy_pj, rival.latency_cycles), "random")
    least = _least(given, column)
    _damaged(found, document, least, rng)
    if least is not None:
        found.how = "enumerated"
        for layer in given.layers:
            found.bounded_by(layer.operator, layer.proof.bound, least[layer.operator], "enumeration")
    return found


def _least(given: NetworkCertificate, column: int) -> dict[str, float] | None:
    """The least objective of every layer; None where a layer cannot be enumerated."""
    try:
        return {
            group.operators[0]: float(
                enumerate_all(MappingProblem(group.computation, given.architecture), Reuse.TIMELOOP, 60_000)[0][column]
            )
            for group in given.network.distinct_layers()
        }
    except OverflowError:
        return None


def _damaged(
    found: Findings, document: dict[str, object], least: dict[str, float] | None, rng: np.random.Generator
) -> None:
    """Damage with the old seal is refused; with a seal made anew it is refused, or what it says of the layers is true."""
    for _ in range(6):
        whole = {key: part for key, part in document.items() if key != SEAL}
        changed = copy.deepcopy(whole)
        where = damage(changed, rng)
        if changed == whole:
            continue
        changed[SEAL] = document[SEAL]
        try:
            if check_certificate(changed, time_limit_s=5.0).accepted:
                found.mismatches.append(f"believed with damage at {where} and the old seal")
            resealed = {**changed, SEAL: seal(changed)}
            verdict = check_certificate(resealed, time_limit_s=5.0)
            again = restored(resealed)
        except UserError:
            continue
        same = isinstance(again, NetworkCertificate) and all(
            resealed[key] == document[key] for key in ("network", "architecture", "objective")
        )
        if verdict.accepted and same and least is not None and isinstance(again, NetworkCertificate):
            for layer in again.layers:
                if layer.proof.bound > least[layer.operator] * (1.0 + 2.0 * TIGHT):
                    found.mismatches.append(f"believed with damage at {where}: {verdict.reason}")
