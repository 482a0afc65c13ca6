"""Loop orders of the recorded layers: SALSA with its defaults finds the best known energy, the exact sweep proves it."""

from pathlib import Path

import pytest

from codesign.core.goals import Budget, Objective, Proof
from codesign.mappers.loop_order.exact_orders import ExactOrders
from codesign.mappers.loop_order.salsa import SalsaMapper
from tests.zigzag_reference import label, layer_files, read_layer


@pytest.mark.parametrize("path", layer_files(), ids=label)
@pytest.mark.thinned(3)
def test_a_single_run_reaches_the_best_known_energy(path: Path) -> None:
    reference = read_layer(path)
    result = SalsaMapper().map_orders(reference.layer, Objective.ENERGY, budget=Budget(), seed=0)
    best = reference.recorded["best"]
    assert result.cost is not None
    assert result.cost.energy_pj <= best["energy_total"] * (1 + 1e-9)
    if best["proven_optimal"]:
        assert result.cost.energy_pj == pytest.approx(best["energy_total"], rel=1e-9)
    assert result.evaluated <= 100_000
    assert (result.engine == "exhaustive") == result.complete and result.proof is Proof.NONE


@pytest.mark.parametrize("path", layer_files(), ids=label)
def test_the_proven_optimum_is_not_above_any_recorded_energy(path: Path) -> None:
    reference = read_layer(path)
    found = ExactOrders().map_orders(reference.layer, Objective.ENERGY, budget=Budget(), seed=0)
    assert found.cost is not None and found.mapping is not None and found.proof is Proof.OPTIMAL
    recorded = [r["energy_total"] for k, r in reference.recorded.items() if k == "best" or k.endswith("_best")]
    assert recorded and min(recorded) >= found.cost.energy_pj * (1 - 1e-9)
