"""No mapper, whatever its luck, beats what the exact mapper claims of imperfect factors on random machines."""

import random
from dataclasses import replace

import pytest

from codesign.arch.presets import load_preset
from codesign.core.goals import OBJECTIVES, Budget, Objective, Proof
from codesign.cost.arrays import Reuse
from codesign.library.inputs import as_computation
from codesign.mappers.annealing import AnnealingMapper
from codesign.mappers.registry import create
from codesign.mapping.constraints import MappingProblem
from experiments.attacks.imperfect_problems import draw


def attack(seed: int, evaluations: int) -> None:
    """One problem: every other mapper tries to get below the claimed bound."""
    rng = random.Random(seed)
    problem, objective = draw(rng), rng.choice(OBJECTIVES)
    claimed = create("exact").map(problem, objective, budget=Budget(), seed=seed)
    if claimed.cost is None:
        return
    value = objective.of(claimed.cost)
    bound = 0.0 if claimed.gap is None else value / (1.0 + claimed.gap)
    assert (claimed.proof is Proof.OPTIMAL) == (claimed.gap == 0.0)
    for name in ("anneal", "random", "genetic"):
        found = create(name).map(problem, objective, budget=Budget(evaluations=evaluations), seed=seed + 1)
        assert found.cost is None or objective.of(found.cost) >= bound * (1 - 1e-9), (seed, name, objective)


def test_claims_of_imperfect_factors_hold() -> None:
    for seed in range(2):
        attack(seed, 1500)


@pytest.mark.slow("oracle")
def test_claims_of_imperfect_factors_hold_on_many_machines() -> None:
    for seed in range(2, 42):
        attack(seed, 20_000)


def attack_layer(layer: str, preset: str, evaluations: int) -> None:
    """A layer of a real size: annealing goes on from what the exact mapper found."""
    problem = MappingProblem(as_computation(layer), load_preset(preset), imperfect=True)
    claimed = create("exact").map(problem, Objective.EDP, budget=Budget(), seed=0)
    assert claimed.mapping is not None and claimed.cost is not None and claimed.gap is not None
    bound = Objective.EDP.of(claimed.cost) / (1.0 + claimed.gap)
    perfect = create("exact").map(replace(problem, imperfect=False), Objective.EDP, budget=Budget(), seed=0)
    for start in (perfect.mapping, claimed.mapping):
        budget = Budget(evaluations=evaluations)
        found = AnnealingMapper().search_from(start, problem, Objective.EDP, budget, 0, Reuse.TIMELOOP)
        assert found.cost is not None
        assert Objective.EDP.of(found.cost) >= bound * (1 - 1e-9), (layer, preset)


def test_words_sent_to_many_children_at_once_are_not_counted_for_each() -> None:
    attack_layer("gemm M=197 N=64 K=197", "eyeriss", 180_000)


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("preset", ["simba", "eyeriss"])
def test_claims_of_imperfect_factors_hold_on_layers_of_real_sizes(preset: str) -> None:
    for layer in (
        "gemm M=127 N=127 K=127",
        "gemm M=197 N=64 K=197",
        "gemm M=197 N=768 K=768",
        "gemm M=1500 N=1500 K=64",
        "conv K=1024 C=256 P=14 Q=14",
        "conv K=192 C=64 P=27 Q=27 R=5 S=5",
    ):
        attack_layer(layer, preset, 300_000)
