"""The rule of batches, by hand, and where it has nothing to say (rule E11)."""

import pytest

from codesign.core.errors import UserError
from codesign.timing.batches import batch_bound
from codesign.timing.table import timing_from_json
from experiments.models.plan import Kind, NamedPlan, Process, make_plan

LOAD, COMPUTE, STORE = 10.0, 5.0, 30.0


def tiled(tiles: int, steps: int, store: float = STORE) -> NamedPlan:
    """Tiles of output, outer loop; steps of the reduction, inner loop."""
    every = ((0, 0), (0, 2), (0, 3))
    return make_plan(
        [[1, tiles, steps]],
        0,
        [
            Process("a", Kind.LOAD, ("port",), dict.fromkeys(every, LOAD / 2)),
            Process("b", Kind.LOAD, ("port",), dict.fromkeys(every, LOAD / 2)),
            Process("x", Kind.COMPUTE, ("array",), dict.fromkeys(every, COMPUTE), needs=("a", "b", "c")),
            Process("c", Kind.STORE, ("out",), {(0, 0): store, (0, 2): store}),
        ],
    )


@pytest.mark.parametrize(
    ("tiles", "steps", "cycles"),
    [
        (4, 2, 3 * 10 + (2 * 10 + 5 + 4 * 30)),
        (8, 2, 3 * 10 + 2 * (2 * 10 + 5 + 4 * 30)),
        (8, 4, 3 * 10 + 2 * (10 * 10 + 5 + 4 * 30)),
    ],
)
def test_batches_follow_each_other_in_one_chain(tiles: int, steps: int, cycles: float) -> None:
    assert batch_bound(tiled(tiles, steps).plan, 4) == cycles


@pytest.mark.parametrize(("tiles", "steps", "store"), [(4, 1, STORE), (6, 2, STORE), (4, 2, 8.0)])
def test_elsewhere_the_rule_is_silent(tiles: int, steps: int, store: float) -> None:
    """One step a tile, tiles that do not fill batches, stores that are not the longest."""
    assert batch_bound(tiled(tiles, steps, store).plan, 4) == 0.0


def test_a_batch_of_one_is_refused() -> None:
    with pytest.raises(UserError, match=r"`batch_outputs` must be an integer >= 2, got 1"):
        timing_from_json({"name": "x", "batch_outputs": 1}, "table.yaml")
