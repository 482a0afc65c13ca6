"""Proofs over random parts of the toolkit's own spaces, each design evaluated too: no design below its bound, no certificate that promises too much."""

from functools import cache

import numpy as np
import pytest

import codesign.optim
from codesign.bounds import DesignBounds
from codesign.core.goals import Budget
from codesign.cost.cost import Infeasible
from codesign.evaluation.network import EvaluationOptions, evaluate_workload
from codesign.mappers.exact import ExactMapper
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.network import Network
from spaces.cores import CORE_SPACES, restrict
from spaces.design import DesignSpace
from spaces.dosa import DOSA
from spaces.eyeriss import EYERISS
from spaces.scratchpad import SCRATCHPAD
from spaces.wide import WIDE

FAMILIES = [*CORE_SPACES.values(), SCRATCHPAD, EYERISS, DOSA, WIDE]
OBJECTIVES = (("latency_s", "energy_j", "area_mm2"), ("edp_js",), ("edp_js", "area_mm2"), ("latency_s", "power_w"))
MOST = 24
"""Designs of a drawn space."""


def small_part(space: DesignSpace, rng: np.random.Generator) -> DesignSpace:
    """The space with two or three choices left of a few parameters, one of the others, around a random valid design."""
    middle = space.space.to_points(space.space.sample(1, rng))[0]
    parents = {p.when.parameter for p in space.space.parameters if p.when is not None}
    for name in parents:
        space = space.with_rules([f"{name} == {middle[name]!r}"])
    left = MOST
    for k in rng.permutation(len(space.space.parameters)):
        parameter = space.space.parameters[k]
        if parameter.name not in middle or parameter.name in parents:
            continue
        count = min(int(rng.integers(1, 4)), left, len(parameter.choices))
        others = [c for c in parameter.choices if c != middle[parameter.name]]
        drawn = [others[i] for i in rng.permutation(len(others))[: count - 1]]
        space = restrict(space, parameter.name, [middle[parameter.name], *drawn])
        left //= count
    return space


def small_network(space: DesignSpace, rng: np.random.Generator) -> Network:
    """Layers of several kinds and odd sizes."""
    net = NetworkBuilder("drawn", bits=space.bits, partial_bits=space.partial_bits)
    side, channels, wide = (int(rng.choice(v)) for v in ([5, 7, 8, 12], [3, 8, 12], [6, 10, 16]))
    x = net.input("x", (1, channels, side, side))
    y = net.conv(x, wide, int(rng.choice([1, 3, 5])), stride=int(rng.choice([1, 2])), padding=2, name="first")
    if rng.random() < 0.6:
        y = net.conv(net.relu(y), wide, 3, padding=1, groups=int(rng.choice([2, wide])), name="grouped")
    return net.build(net.conv(y, int(rng.choice([5, 9, 24])), 1, name="last"))


@cache
def case_of(seed: int) -> tuple[DesignSpace, Network, np.ndarray, list[dict[str, float] | None]]:
    """A space, a network, all designs and what they are evaluated at."""
    rng = np.random.default_rng([seed, 5])
    family = FAMILIES[seed % len(FAMILIES)]
    space = small_part(family, rng)
    network = small_network(space, rng)
    rows = space.space.enumerate()
    values = []
    for point in space.space.to_points(rows):
        options = EvaluationOptions(budget=Budget(time_limit_s=5.0))
        found = evaluate_workload(network, space.build(point), ExactMapper(), options)
        values.append(None if isinstance(found, Infeasible) else found.metrics.to_dict())
    return space, network, rows, values


def check(seed: int, *, boxes: bool) -> None:
    rng = np.random.default_rng([seed, 6])
    space, network, rows, values = case_of(seed)
    objectives = OBJECTIVES[int(rng.integers(len(OBJECTIVES)))]
    epsilon = float(rng.choice([0.0, 0.03]))
    bounds = DesignBounds(space, network)
    assert not boxes or not bounds.boxes.why_not
    optimizer = codesign.optim.create("exact", space.space, objectives, bounds=bounds, options={"epsilon": epsilon})
    by_row = {row.tobytes(): v for row, v in zip(rows, values, strict=True)}
    told: list[list[float]] = []
    truth = np.array([[v[o] for o in objectives] for v in values if v is not None]).reshape(-1, len(objectives))
    while points := optimizer.ask(1):
        metrics = by_row[space.space.to_indices(points)[0].tobytes()]
        optimizer.tell(points[0], metrics, feasible=metrics is not None)
        if metrics is not None:
            told.append([metrics[o] for o in objectives])
        state = optimizer.certificate()
        assert state is not None and not state.withdrawn, (seed, state)
        gap = state.finite_gap
        if gap is not None and told:  # honest at every moment
            factors = (np.array(told)[None] / truth[:, None]).max(axis=2).min(axis=1)
            assert factors.max() <= (1.0 + gap) * (1.0 + 1e-6), (seed, objectives, gap, factors.max())
    state = optimizer.certificate()
    assert state is not None
    gap = state.finite_gap
    assert state.open == 0 and (not len(truth) or (gap is not None and gap <= epsilon + 1e-7))
    for k, row in enumerate(rows):
        found = values[k]
        if found is not None:
            least = bounds.lower_bounds(row[None], objectives)[0]
            assert all(found[o] >= b * (1.0 - 1e-9) for o, b in zip(objectives, least, strict=True)), (seed, k)


@pytest.mark.parametrize("seed", [2, 4])
def test_a_listed_space_is_proven_as_enumeration_says(seed: int) -> None:
    check(seed, boxes=False)


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("seed", range(5, 45))
def test_more_listed_spaces(seed: int) -> None:
    check(seed, boxes=False)


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("seed", [s for s in range(45) if getattr(FAMILIES[s % len(FAMILIES)], "parts", None)])
def test_spaces_searched_by_boxes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codesign.optim.exact.LISTED", 1)
    check(seed, boxes=True)
