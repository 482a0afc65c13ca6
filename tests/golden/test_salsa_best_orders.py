"""SALSA with its defaults finds the best known energy of every recorded layer in a single run."""

from pathlib import Path

import pytest

from codesign.core.goals import Budget, Objective, Proof
from codesign.mappers.loop_order.salsa import SalsaMapper
from tests.zigzag_reference import label, layer_files, read_layer


@pytest.mark.parametrize("path", layer_files(), ids=label)
def test_a_single_run_reaches_the_best_known_energy(path: Path) -> None:
    reference = read_layer(path)
    result = SalsaMapper().map_orders(reference.layer, Objective.ENERGY, budget=Budget(), seed=0)
    best = reference.recorded["best"]
    assert result.cost is not None
    assert result.cost.energy_pj <= best["energy_total"] * (1 + 1e-9)
    if best["proven_optimal"]:
        assert result.cost.energy_pj == pytest.approx(best["energy_total"], rel=1e-9)
    assert result.evaluated <= 100_000
    assert (result.engine == "exhaustive") == (result.proof is Proof.OPTIMAL)
