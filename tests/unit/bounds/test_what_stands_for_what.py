"""Machines whose searches must not be used for each other: single children, meshes, quarter turns under constraints."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pytest

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, LevelKind, Links, StorageLevel
from codesign.arch.mesh import MeshLinks
from codesign.bounds import DesignBounds
from codesign.bounds.design import bounds_of
from codesign.core.goals import Budget, Objective
from codesign.cost.cost import Infeasible
from codesign.evaluation.network import EvaluationOptions, evaluate_workload
from codesign.mappers.exact import ExactMapper
from codesign.mapping.constraints import Constraints, LevelConstraints
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.network import Network
from spaces.design import DesignSpace
from spaces.parameters import Ordinal, Value
from spaces.space import Space


class Builder:
    """DRAM and one memory whose children are linked as given."""

    parts: ClassVar = {"L1": (("bytes",),), "L1.fanout": (("x", "trees"),)}

    def __init__(self, links: Links) -> None:
        self._links = links

    def __call__(self, point: Mapping[str, Value]) -> Architecture:
        x = int(point["x"])
        mesh = MeshLinks(x, 1, trees=bool(point["trees"])) if self._links is Links.MESH else None
        levels = (
            StorageLevel("DRAM", LevelKind.DRAM, word_bits=8, energy=AccessEnergy(50.0, 10.0, 50.0)),
            StorageLevel(
                "L1",
                capacity_bytes=float(point["bytes"]),
                word_bits=64,
                keep=frozenset({"weight"} if int(point["bytes"]) > 8 else {"weight", "input", "output"}),
                energy=AccessEnergy(3.0, 0.3, 3.0),
                area_mm2=0.1,
                fanout=Fanout(x, 1, self._links, 0.4, mesh),
            ),
        )
        return Architecture("a", levels, Arithmetic(8, 0.5, 1e-3, 0.0), 1e9, None, 0.01, 0.0)


def _space(links: Links, size: int, widths: tuple[int, ...], trees: tuple[int, ...] = (0,)) -> DesignSpace:
    parameters = [Ordinal("x", widths), Ordinal("trees", trees), Ordinal("bytes", [size])]
    return DesignSpace("t", Space(parameters), Builder(links), bits=8, partial_bits=24)


def _network() -> Network:
    builder = NetworkBuilder("n", bits=8, partial_bits=24)
    return builder.build(builder.linear(builder.input("x", (1, 3, 7)), 5))


def test_a_machine_on_which_nothing_fits_is_sharpened_to_that() -> None:
    space = _space(Links.SYSTOLIC, 2, (1, 2))  # weights, inputs and sums of 24 bits in two bytes
    table = DesignBounds(space, _network()).table(space.space.enumerate())
    for k in (0, 1):
        table.sharpen(k, np.arange(2))
    assert np.isinf(table.values(("energy_j",))).all()


@pytest.mark.parametrize(("links", "widths", "trees"), [(Links.SYSTOLIC, (1, 2), (0,)), (Links.MESH, (4,), (0, 1))])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_design_sharpened_after_another_is_not_below_its_bound(
    links: Links, widths: tuple[int, ...], trees: tuple[int, ...], order: tuple[int, int]
) -> None:
    space, network = _space(links, 48, widths, trees), _network()
    rows = space.space.enumerate()
    table = DesignBounds(space, network).table(rows)
    for k in order:
        table.sharpen(k, np.arange(2))
    options = EvaluationOptions(objective=Objective.ENERGY, budget=Budget(time_limit_s=10.0))
    for k, point in enumerate(space.space.to_points(rows)):
        found = evaluate_workload(network, space.build(point), ExactMapper(), options)
        assert not isinstance(found, Infeasible)
        assert table.values(("energy_j",))[k, 0] <= found.metrics.to_dict()["energy_j"] * (1.0 + 1e-9)


def test_a_box_in_which_a_layer_fits_nowhere_has_no_finite_bound() -> None:
    boxes = DesignBounds(_space(Links.SYSTOLIC, 1, (1, 2)), _network()).boxes
    low, high = np.array([0, 0, 0]), np.array([1, 0, 0])
    for bound in (
        boxes.sharpened(low, high, ("latency_s", "energy_j")),
        boxes.lower_bounds(low[None], high[None], ("latency_s", "energy_j"))[0],
    ):
        assert bound.tolist() == [np.inf, np.inf]


def test_quarter_turns_differ_where_a_constraint_names_an_axis() -> None:
    def build(point: Mapping[str, Value]) -> Architecture:
        made = Builder(Links.SYSTOLIC)({"x": 1, "trees": 0, "bytes": 48})
        return made.with_level("L1", fanout=Fanout(int(point["x"]), int(point["y"]), Links.SYSTOLIC, 0.4))

    space = DesignSpace(
        "t", Space([Ordinal("x", [2, 8]), Ordinal("y", [2, 8])]), build, bits=8, partial_bits=24
    )  # fmt: skip
    rows = space.space.enumerate()
    named = EvaluationOptions(constraints=Constraints((LevelConstraints("L1", along_x=frozenset({"K"})),)))
    free = bounds_of(space, _network()).table(rows).alike()
    told = bounds_of(space, _network(), named).table(rows).alike()
    assert len(set(free.tolist())) == 3
    assert len(set(told.tolist())) == 4
