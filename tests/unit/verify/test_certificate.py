"""Certificates of optimality: accepted when true, refused when anything in them is not."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest

from codesign.core.errors import UserError
from codesign.mappers.uneven.claims import certify
from codesign.mappers.uneven.nest import nest_of
from codesign.mappers.uneven.search import solve
from codesign.mapping.looptree import Fanout, Goal, Machine, Memory, Operand, Operator
from codesign.verify import certificate, restored, verify


def problem(capacity: float = 40.0) -> tuple[Operator, Machine]:
    """A matrix product on two levels with a fan-out."""
    axes = {"A": "mk", "B": "kn", "Z": "mn"}
    operands = tuple(Operand(t, tuple(((d, 1),) for d in ds), t == "Z", 1) for t, ds in axes.items())
    everything = frozenset("ABZ")
    machine = Machine(
        (Memory("outer", math.inf, 8.0, 9.0, ((0.5, 0.5),)), Memory("inner", capacity, 1.0, 1.2, ((0.1, 0.1),))),
        ((), (), (Fanout("x", 2, frozenset("mn"), everything, 1.0),)),
        0.2,
        1.0,
        0.1,
        ((everything, everything), (everything, frozenset("AZ"))),
    )
    return Operator("G", operands, {"m": 8, "n": 4, "k": 6}), machine


def document(goal: Goal = Goal.EDP) -> dict[str, Any]:
    """A true certificate."""
    operator, machine = problem()
    found = solve(operator, machine, goal)
    made: dict[str, Any] = json.loads(json.dumps(certificate(certify(operator, machine, goal, found))))
    return made


@pytest.mark.parametrize("goal", list(Goal))
def test_true_certificate_is_accepted(goal: Goal) -> None:
    verdict = verify(restored(document(goal)))
    assert verdict.accepted, verdict.reason
    assert "4 claims" in verdict.reason


def test_worse_nest_with_its_own_value_is_refused() -> None:
    """Everything is consistent, but a better mapping exists."""
    operator, machine = problem(20.0)
    worse = solve(operator, machine, Goal.ENERGY)
    roomy = problem(40.0)[1]
    assert worse.case is not None
    false = certificate(certify(operator, machine, Goal.ENERGY, worse))
    false["machine"] = certificate(certify(operator, roomy, Goal.ENERGY, solve(operator, roomy, Goal.ENERGY)))[
        "machine"
    ]
    assert nest_of(worse.case, worse.placed)
    verdict = verify(restored(false))
    assert not verdict.accepted
    assert "exists" in verdict.reason


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda d: d.update(value=d["value"] * 0.999), "the nest has the value"),
        (lambda d: d["claims"].pop(), "no claim covers"),
        (lambda d: d["claims"][0].update(bound=d["value"] * 0.9), "a claim says only"),
        (lambda d: d["machine"]["memories"][1].update(capacity=1.0), "the nest: level 'inner' holds"),
        (lambda d: d["nest"].pop(0), "the nest"),
        (lambda d: d["machine"]["memories"][0].update(read=7.0), "the nest has the value"),
        (lambda d: d["machine"]["keeps"].append([["A", "B", "Z"], []]), "no claim covers"),
    ],
)
def test_damaged_certificate_is_refused(damage: Any, reason: str) -> None:
    damaged = copy.deepcopy(document())
    damage(damaged)
    verdict = verify(restored(damaged))
    assert not verdict.accepted
    assert reason in verdict.reason


def test_what_is_no_certificate_is_a_users_mistake() -> None:
    with pytest.raises(UserError, match="not a certificate of this version"):
        restored({"format": "other"})
    broken = document()
    del broken["machine"]["mac_energy"]
    with pytest.raises(UserError, match=r"the certificate is damaged: `machine\.mac_energy` is missing"):
        restored(broken)


def test_checker_imports_nothing_of_the_mappers() -> None:
    folder = Path(__file__).parents[3] / "codesign" / "verify"
    assert all(
        "mappers" not in p.read_text().replace("imports nothing of the mappers", "") for p in folder.glob("*.py")
    )
