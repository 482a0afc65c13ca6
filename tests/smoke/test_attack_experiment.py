"""The attack on everything called optimal: it runs on time, finds what is planted, and its problems can be drawn again."""

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from experiments import attack
from experiments.attack import MODES, AttackConfig, Tally
from experiments.attacks import mapping_modes
from experiments.attacks.findings import Findings
from experiments.attacks.other_modes import damage


def test_command_ends_with_counts() -> None:
    line = [sys.executable, "-m", "experiments.attack", "--seconds", "40", "--seed", "7", "--problems", "1"]
    modes = ["even", "fused", "zigzag", "certificate"]
    run = subprocess.run([*line, "--mode", *modes], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["problems"] == dict.fromkeys(modes, 1)
    assert (found["beaten"], found["mismatches"], found["crashes"]) == (0, 0, 0)


def test_time_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(rng: np.random.Generator) -> Findings:
        while True:
            rng.random()

    monkeypatch.setitem(attack.MODES, "even", endless)
    found = attack.run(AttackConfig(seconds=0.3, modes=("even",)))
    assert found["problems"] == {"even": 0} and float(str(found["seconds"])) < 2.0
    assert found["unfinished"] == 0


def test_what_is_wrong_is_counted_and_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def wrong(rng: np.random.Generator) -> Findings:
        found = Findings("enumerated")
        found.attained("value", 2.0, 1.0)
        found.attained("value", 1.0, 2.0)
        found.bounded_by("bound", 2.0, 1.0, "random")
        return found

    def crash(rng: np.random.Generator) -> Findings:
        raise ZeroDivisionError

    monkeypatch.setitem(attack.MODES, "even", wrong)
    monkeypatch.setitem(attack.MODES, "free", crash)
    found = attack.run(AttackConfig(seconds=5.0, modes=("even", "free"), problems=1, first=3))
    assert (found["beaten"], found["mismatches"], found["crashes"]) == (2, 1, 1)
    said = capsys.readouterr().out
    assert "even 3: beaten: value: 2.0, enumeration found 1.0" in said and "free 3: crash" in said


def test_a_mapper_that_calls_anything_optimal_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from codesign.core.goals import Proof
    from codesign.mappers.random_search import RandomMapper

    class Boasting:
        def map(self, problem: Any, objective: Any, **how: Any) -> Any:
            from dataclasses import replace

            found = RandomMapper().map(problem, objective, **(how | {"budget": mapping_modes.Budget(evaluations=1)}))
            return replace(found, proof=Proof.OPTIMAL, gap=0.0) if found.mapping is not None else found

    monkeypatch.setattr(mapping_modes, "ExactMapper", Boasting)
    beaten = [mapping_modes.attack_even(np.random.default_rng([1, k])).beaten for k in range(12)]
    assert sum(map(bool, beaten)) >= 2


def test_damage_changes_a_document() -> None:
    document = {"a": [1, 2.0, {"b": "c"}], "d": {"e": 3}}
    for seed in range(20):
        copy = json.loads(json.dumps(document))
        said = damage(copy, np.random.default_rng(seed))
        assert copy != document or said.endswith("= 0 made 0"), said
    assert set(Tally().to_json(AttackConfig(), 0.0)["problems"]) == set(MODES)  # type: ignore[arg-type]


def test_an_optimum_is_found_where_annealing_cannot_begin() -> None:
    """Found by an attack: all its loops as far out as they may go crowd a fan-out, and the exact search was refused with it."""
    found = mapping_modes.attack_free(np.random.default_rng([2026, list(MODES).index("free"), 43]))
    assert not found.beaten and not found.mismatches, found


@pytest.mark.slow("oracle")
def test_an_attack_of_two_minutes_finds_nothing() -> None:
    found = attack.run(AttackConfig(seconds=120.0, seed=123))
    assert (found["beaten"], found["mismatches"], found["crashes"]) == (0, 0, 0)
