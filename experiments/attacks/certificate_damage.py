"""Attacks on certificates of imperfect factors and uneven mappings: true ones accepted, damaged ones refused or still true."""

import copy
import json
import math
import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.library.certificates import check_certificate
from codesign.mappers.exact import ExactMapper
from codesign.verify import certificate, restored
from codesign.verify.even.claims import EvenCertificate, certify
from codesign.verify.files import AnyCertificate
from codesign.verify.seal import SEAL, seal
from experiments.attacks.findings import TIGHT, Findings
from experiments.attacks.imperfect_nests import how_many, least_of_all
from experiments.attacks.imperfect_problems import MOST_CHOICES, draw_small
from experiments.attacks.other_modes import damage
from experiments.attacks.problems import PLAIN, random_problem
from experiments.attacks.uneven_places import enumerate_uneven

_GOALS = (Objective.ENERGY, Objective.LATENCY, Objective.EDP)
_DRAWS = 6
_MOST_UNEVEN = 100_000
"""Uneven nests that are enumerated at most."""

Least = Callable[[AnyCertificate], float]
"""The least value of the problem of a certificate, by enumeration; infinite where it cannot be told."""


def attack_certificates(rng: np.random.Generator) -> Findings:
    """The certificate of one layer that a search with all freedom made."""
    return (_imperfect, _uneven)[int(rng.integers(2))](rng)


def _uneven(rng: np.random.Generator) -> Findings:
    """Of uneven mappings."""
    forms = PLAIN if rng.random() < 0.5 else ("conv1d", "conv1d_strided", "conv1d_dilated", "depthwise")
    busy = bool(rng.random() < 0.5)
    problem = random_problem(
        rng, forms, size=int(rng.choice([6, 8, 12])), busy=busy, free_bypass=bool(rng.random() < 0.3)
    )
    objective = _GOALS[int(rng.integers(len(_GOALS)))]
    found = Findings("enumerated")
    try:
        claimed = ExactMapper(uneven=True).map(problem, objective, budget=Budget(time_limit_s=5.0), seed=0)
        if claimed.mapping is None or claimed.proof is Proof.NONE:
            raise UserError("nothing is proven")
        given = certify(problem, objective, claimed.mapping, claimed.shown(objective), uneven=True)
    except UserError:
        found.how = "refused"
        return found
    least = _least_uneven(given)
    if math.isinf(least):
        found.how = "searched"
    found.bounded_by("uneven", given.bound, least, "enumeration")
    _damaged(found, json.loads(json.dumps(certificate(given))), _least_uneven, rng)
    return found


def _least_uneven(given: AnyCertificate) -> float:
    if not isinstance(given, EvenCertificate) or given.places is None:
        return math.inf
    try:
        best, _ = enumerate_uneven(given.space.source, _MOST_UNEVEN)
    except OverflowError:
        return math.inf
    return float(best[_GOALS.index(given.space.objective)])


def _imperfect(rng: np.random.Generator) -> Findings:
    """Of imperfect factors."""
    problem = draw_small(random.Random(int(rng.integers(2**31))))
    objective = _GOALS[int(rng.integers(len(_GOALS)))]
    found = Findings("enumerated")
    claimed = ExactMapper().map(problem, objective, budget=Budget(), seed=0)
    if claimed.mapping is None or claimed.proof is Proof.NONE:
        found.how = "refused"
        return found
    try:
        given = certify(problem, objective, claimed.mapping, claimed.shown(objective))
    except UserError:
        found.how = "refused"
        return found
    least, _ = least_of_all(problem, objective)
    found.bounded_by("imperfect", given.bound, least, "enumeration")
    _damaged(found, json.loads(json.dumps(certificate(given))), _least_imperfect, rng)
    return found


def _least_imperfect(given: AnyCertificate) -> float:
    if not isinstance(given, EvenCertificate) or given.imperfect is None:
        return math.inf
    problem = replace(given.space.source, imperfect=True)
    return least_of_all(problem, given.space.objective)[0] if how_many(problem) <= MOST_CHOICES else math.inf


def _damaged(found: Findings, document: dict[str, object], least: Least, rng: np.random.Generator) -> None:
    """The document is accepted; damaged it is refused with its old seal, and with a new one refused or true."""
    verdict = check_certificate(document)
    if not verdict.accepted:
        found.mismatches.append(f"a true certificate is refused: {verdict.reason}")
    for _ in range(_DRAWS):
        whole = {key: part for key, part in document.items() if key != SEAL}
        changed = copy.deepcopy(whole)
        where = damage(changed, rng)
        if changed == whole:
            continue
        try:
            if check_certificate({**changed, SEAL: document[SEAL]}, time_limit_s=5.0).accepted:
                found.mismatches.append(f"believed with damage at {where} and the old seal")
            resealed = {**changed, SEAL: seal(changed)}
            verdict = check_certificate(resealed, time_limit_s=5.0)
            again = restored(resealed)
        except UserError:
            continue
        if verdict.accepted and isinstance(again, EvenCertificate):
            best = least(again)
            if again.bound > best * (1.0 + 2.0 * TIGHT):
                found.mismatches.append(f"believed with damage at {where}: {verdict.reason}")
