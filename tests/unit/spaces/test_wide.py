"""The large space: its size, conditional parameters, parts that depend on nothing but what they say, boxes that have bounds."""

import numpy as np
import pytest

from codesign.bounds import DesignBounds
from spaces.wide import WIDE
from tests.unit.bounds.test_design_bounds import small_network

FIELDS = ("latency_s", "energy_j", "area_mm2")


def test_it_has_a_million_million_designs() -> None:
    assert WIDE.space.cardinality_bound >= 10**12 and 15 <= WIDE.space.dimension <= 25


def test_parts_depend_on_their_parameters_alone() -> None:
    """Two designs that agree in the parameters of a part have the same part."""
    rng = np.random.default_rng(0)
    names = {name: k for k, name in enumerate(WIDE.space.names)}
    for part in ("DRAM", "Scratchpad", "Local"):
        (parameters,) = WIDE.builder.parts[part]  # type: ignore[attr-defined]
        columns = [names[p] for p in parameters]
        for row, other in zip(*(WIDE.space.sample(15, rng) for _ in range(2)), strict=True):
            mixed = other.copy()
            mixed[columns] = row[columns]
            one, two = (WIDE.builder(p) for p in WIDE.space.to_points(np.stack([row, mixed])))
            a, b = one.level(part), two.level(part)
            assert (a.capacity_bytes, a.energy, a.area_mm2, a.read_bandwidth_words_per_cycle) == (
                b.capacity_bytes,
                b.energy,
                b.area_mm2,
                b.read_bandwidth_words_per_cycle,
            )


@pytest.mark.slow("speed")
def test_no_design_lies_below_the_bound_of_its_box() -> None:
    rng = np.random.default_rng(4)
    boxes = DesignBounds(WIDE, small_network(8, 24)).boxes
    assert boxes.why_not == "" and not boxes.slow
    sizes = np.array(WIDE.space.cardinalities)
    roots = boxes.roots(np.zeros(len(sizes), dtype=np.int64), sizes - 1)
    low, high = roots[int(rng.integers(len(roots)))]
    rows = WIDE.space.canonical(rng.integers(low, high + 1, (30, len(low))))
    bound = boxes.lower_bounds(low[None], high[None], FIELDS)[0]
    each = boxes.lower_bounds(rows, rows, FIELDS)
    assert (bound <= each * (1 + 1e-9)).all()
    alone = DesignBounds(WIDE, small_network(8, 24)).lower_bounds(rows[:5], FIELDS)
    assert each[:5] == pytest.approx(alone, rel=1e-6)
