"""Bounds of designs: exact where they claim to be, never above an evaluation, sharper where asked to be."""

from collections.abc import Mapping
from dataclasses import replace
from typing import final

import numpy as np
import pytest

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, LevelKind, Links, StorageLevel
from codesign.arch.sparsity import RankFormat
from codesign.arch.zero_support import compressed
from codesign.bounds import DesignBounds, bounds_of
from codesign.bounds.array_choices import COPIES, LOCAL_WRITE, SENT
from codesign.bounds.design import why_not
from codesign.bounds.layer import LayerFacts, touched_words
from codesign.core.errors import UserError
from codesign.core.factors import divisors
from codesign.core.goals import Budget, Objective
from codesign.core.point import PointValue
from codesign.cost.cost import Infeasible
from codesign.evaluation.network import EvaluationOptions, evaluate_workload
from codesign.mappers.exact import ExactMapper
from codesign.mapping.constraints import Constraints
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.computation import Computation
from codesign.workloads.network import Network
from experiments.exhaustive import TABLES, cases, read_table
from spaces.cores import CORE_SPACES
from spaces.design import DesignSpace
from spaces.eyeriss import EYERISS
from spaces.parameters import Ordinal
from spaces.scratchpad import SCRATCHPAD
from spaces.space import Space

FIELDS = ("latency_s", "energy_j", "area_mm2")

SPACES = {s.name: s for s in (*CORE_SPACES.values(), SCRATCHPAD, EYERISS)}


def small_network(bits: int, partial_bits: int) -> Network:
    net = NetworkBuilder("small", bits=bits, partial_bits=partial_bits)
    x = net.input("x", (1, 16, 12, 12))
    y = net.conv(x, 24, 3, padding=1, name="window")
    z = net.conv(y, 32, 1, name="pointwise")
    w = net.conv(z, 32, 3, padding=1, groups=32, name="depthwise")
    return net.build(net.relu(w))


def sampled(space: DesignSpace, count: int, seed: int = 0) -> np.ndarray:
    return space.space.sample(count, np.random.default_rng(seed))


@pytest.mark.parametrize("name", SPACES)
def test_area_and_leakage_are_exact_also_where_built_by_parts(name: str) -> None:
    space = SPACES[name]
    rows = sampled(space, 40)
    table = DesignBounds(space, small_network(space.bits, space.partial_bits)).table(rows)
    for k, point in enumerate(space.space.to_points(rows)):
        built = space.build(point)
        assert table.area_mm2[k] == pytest.approx(built.area_mm2, rel=1e-12)
        assert table.leakage_w[k] == pytest.approx(built.leakage_w, rel=1e-12)


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("objective", [Objective.EDP, Objective.ENERGY])
@pytest.mark.thinned(5)
def test_no_design_is_evaluated_below_its_bound_nor_below_a_sharpened_one(name: str, objective: Objective) -> None:
    space = SPACES[name]
    network = small_network(space.bits, space.partial_bits)
    rows = sampled(space, 6, seed=1)
    table = DesignBounds(space, network).table(rows)
    first = table.values(FIELDS)
    assert all(table.sharpen(k, np.arange(6)) for k in range(6))
    assert not any(table.sharpen(k, np.arange(6)) for k in range(6))
    sharp = table.values(FIELDS)
    assert (sharp >= first * (1 - 1e-12)).all()
    slopes, least = table.supports(np.arange(6))
    for k, point in enumerate(space.space.to_points(rows)):
        options = EvaluationOptions(objective=objective, budget=Budget(time_limit_s=20.0))
        found = evaluate_workload(network, space.build(point), ExactMapper(), options)
        assert not isinstance(found, Infeasible)
        metrics = found.metrics.to_dict()
        values = np.array([metrics[f] for f in FIELDS])
        assert (values >= sharp[k] * (1 - 1e-9)).all(), (point, values, sharp[k])
        if objective == Objective.EDP:  # a bound of use
            assert values[0] <= 1.5 * sharp[k, 0] and values[1] <= 1.2 * sharp[k, 1]
        assert (slopes[k] * values[0] + values[1] >= least[k] * (1 - 1e-9)).all()
        assert table.reaches(np.array([k]), values[None] * (1 + 1e-6), FIELDS, {}).all()


@pytest.mark.parametrize("name", ["gemmcore", "convcore"])
def test_no_design_of_an_exhaustive_table_is_below_its_bound(name: str) -> None:
    case = cases()[name]
    bounds = DesignBounds(case.space, case.network).lower_bounds(case.space.space.enumerate(), FIELDS)
    rows = sorted(read_table(TABLES / f"{name}.csv").items())
    truth = np.array([[getattr(row, f) for f in FIELDS] for _, row in rows])
    ratio = bounds / truth
    assert ratio.max() <= 1 + 1e-8
    assert np.median(ratio, axis=0) == pytest.approx([0.998, 0.99, 1.0], abs=0.005)
    assert ratio.min() > 0.93


@pytest.mark.slow("speed")
def test_no_design_of_the_eyeriss_table_is_below_its_bound() -> None:
    case = cases()["eyeriss"]
    table = DesignBounds(case.space, case.network).table(case.space.space.enumerate())
    rows = sorted(read_table(TABLES / "eyeriss.csv").items())
    truth = np.array([[getattr(row, f) for f in FIELDS] for _, row in rows])
    assert (table.values(FIELDS) / truth).max() <= 1 + 1e-8
    some = np.arange(0, len(truth), 37)
    for k in some:
        table.sharpen(int(k), some)
    assert (table.values(FIELDS) / truth).max() <= 1 + 1e-8


def test_what_is_expected_is_nearer_to_evaluations_than_the_bound() -> None:
    case = cases()["eyeriss"]
    bounds, rows = DesignBounds(case.space, case.network), case.space.space.enumerate()[::61]
    table = read_table(TABLES / "eyeriss.csv")
    truth = np.array([[getattr(table[61 * k], f) for f in FIELDS] for k in range(len(rows))])
    low, expected = bounds.lower_bounds(rows, FIELDS), bounds.expected(rows, FIELDS)
    assert (expected >= low * (1 - 1e-12)).all() and (expected[:, 2] == low[:, 2]).all()
    missed, left = np.log(truth / expected)[:, 1], np.log(truth / low)[:, 1]
    assert missed.mean() < 0.8 * left.mean() and missed.std() < 0.8 * left.std()


def test_a_judge_of_energy_expects_no_speed() -> None:
    case, rows = cases()["eyeriss"], sampled(EYERISS, 4)
    frugal = DesignBounds(case.space, case.network, EvaluationOptions(objective=Objective.ENERGY)).expected(
        rows, FIELDS
    )
    assert (frugal[:, 0] > DesignBounds(case.space, case.network).expected(rows, FIELDS)[:, 0]).all()


def test_designs_that_differ_by_a_turn_of_the_array_are_alike() -> None:
    space = SCRATCHPAD
    point = dict(space.space.presets[0], pe_rows=8, pe_cols=32, links="systolic")
    turned = {**point, "pe_rows": 32, "pe_cols": 8}
    other = {**point, "banks": 8}
    bus, turned_bus = {**point, "links": "multicast"}, {**turned, "links": "multicast"}
    rows = space.space.to_indices([point, turned, other, bus, turned_bus])
    alike = DesignBounds(space, small_network(8, 24)).table(rows).alike()
    assert alike[0] == alike[1] and len({alike[0], alike[2], alike[3], alike[4]}) == 4  # a bus has its trunk along y


def test_a_limit_on_power_keeps_fast_corners_out_of_reach() -> None:
    space = SCRATCHPAD
    rows = sampled(space, 1)
    table = DesignBounds(space, small_network(8, 24)).table(rows)
    latency, energy = table.values(["latency_s", "energy_j"])[0]
    corner = np.array([[2 * latency, np.inf]])
    assert table.reaches(np.array([0]), corner, ["latency_s", "energy_j"], {}).all()
    limits = {"power_w": energy / (2 * latency) * 0.99}  # needs more than twice the least latency
    assert not table.reaches(np.array([0]), corner, ["latency_s", "energy_j"], limits).any()


@pytest.mark.parametrize(
    ("mapper", "options", "reason"),
    [
        ("salsa", EvaluationOptions(), "mappings that the bounds do not cover"),
        ("exact", EvaluationOptions(constraints=Constraints(free_bypass=True)), "bypassed freely"),
        ("exact", replace(EvaluationOptions(), rules=None), "stay on chip"),
    ],
)
def test_judges_that_bounds_do_not_cover_are_named(mapper: str, options: EvaluationOptions, reason: str) -> None:
    if options.rules is None:
        from codesign.workloads.traffic import TrafficRules, Weights

        options = replace(options, rules=TrafficRules(weights=Weights.RESIDENT))
    assert reason in (why_not(options, mapper) or "")
    with pytest.raises(UserError, match="no bounds"):
        bounds_of(SCRATCHPAD, small_network(8, 24), options, mapper)


@final
class _SpaceThatLeavesZerosOut:
    """Gemmcore with its off-chip weights compressed: a dense bound would be too high."""

    space = CORE_SPACES["gemmcore"].space
    parts = None

    def build(self, point: Mapping[str, PointValue]) -> Architecture:
        return compressed(CORE_SPACES["gemmcore"].build(point), "weight", RankFormat.BITMASK, 1)


def test_designs_that_leave_zeros_out_get_no_dense_bound() -> None:
    bounds = DesignBounds(_SpaceThatLeavesZerosOut(), small_network(8, 24))
    with pytest.raises(UserError, match="leaves zeros out"):
        bounds.table(np.zeros((1, len(CORE_SPACES["gemmcore"].space.names)), dtype=np.int64))


def test_facts_of_a_layer() -> None:
    conv = Computation.parse("O[k,p,q] += I[c,2*p+r,2*q+s] * W[k,c,r,s]", k=4, p=5, q=5, c=3, r=1, s=1)
    assert touched_words(conv, conv.tensors[0]) == 3 * 5 * 5  # every second pixel
    assert divisors(12) == (1, 2, 3, 4, 6, 12)
    window = LayerFacts(Computation.parse("O[p] += I[p+r] * W[r]", p=4, r=2))
    whole = window.splits(8, 1)
    assert [
        8.0,
        5.0,
        2.0,
        4.0,
        8.0,
        2.0,
        4.0,
    ] in whole.tolist()  # 4 + 2 - 1 words of the window, 8 where steps leave gaps


def test_children_whose_windows_leave_gaps_hold_fewer_copies() -> None:
    strided = LayerFacts(Computation.parse("O[p] += I[2*p+r] * W[r]", p=4, r=5))
    rows = strided.array_rows(20, 1, True, (True, False, False), 0)
    split = rows[rows[:, 0] == 1.0]  # all twenty at once: 11 words of inputs, each for 20 / 11 children on average
    assert split[:, COPIES].min() <= (20 + 20 + 20) * 8 and split[:, SENT].min() >= 11 * 8
    assert (rows[:, LOCAL_WRITE] <= 20 * 8).any()


@pytest.mark.parametrize("links", [Links.SYSTOLIC, Links.MULTICAST, Links.NONE])
def test_a_single_child_is_reached_without_a_hop(links: Links) -> None:
    """The words of a design with one child cost nothing on its links, so no bound may count them."""
    energy, everything = AccessEnergy(1.0, 1.0, 1.0), frozenset({"input", "weight", "output"})

    def build(point: Mapping[str, PointValue]) -> Architecture:
        levels = (
            StorageLevel("DRAM", LevelKind.DRAM, word_bits=8, keep=everything, energy=energy),
            StorageLevel("Buffer", capacity_bytes=1024.0, word_bits=32, keep=everything, energy=energy, area_mm2=0.1, fanout=Fanout(int(point["x"]), 1, links, 0.4)),
            StorageLevel("Local", capacity_bytes=24.0, word_bits=64, keep=frozenset({"weight", "output"}), energy=energy, area_mm2=0.1),
        )  # fmt: skip
        return Architecture("single", levels, Arithmetic(8, 0.5, 1e-3, 0.0), 1e9)

    space = DesignSpace("single", Space([Ordinal("x", [1, 2])]), build, bits=8, partial_bits=24)
    builder = NetworkBuilder("small", bits=8, partial_bits=24)
    network = builder.build(builder.linear(builder.input("x", (1, 3, 7)), 5))
    rows = space.space.enumerate()
    bounds = DesignBounds(space, network).lower_bounds(rows, ["energy_j"])[:, 0]
    for bound, point in zip(bounds, space.space.to_points(rows), strict=True):
        options = EvaluationOptions(objective=Objective.ENERGY, budget=Budget())
        found = evaluate_workload(network, space.build(point), ExactMapper(), options)
        assert not isinstance(found, Infeasible)
        truth = found.metrics.to_dict()["energy_j"]
        assert 0.5 * truth <= bound <= truth
