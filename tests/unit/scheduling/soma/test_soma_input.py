"""Bad input is refused with one clear message; infeasible is a value."""

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.scheduling.soma.evaluator import Invalid, Problem, evaluate
from codesign.scheduling.soma.model.hardware import (
    EDGE,
    PRESETS,
    SomaHardware,
    hardware_from_constants,
    read_hardware,
)
from codesign.scheduling.soma.model.layer_graph import LayerGraph, graph_from_json
from codesign.scheduling.soma.model.load import load_graph
from codesign.scheduling.soma.model.notation import (
    Encoding,
    FusionScheme,
    Status,
    encodings_from_json,
)
from codesign.scheduling.soma.model.rules import DEFAULT, REFERENCE
from codesign.scheduling.soma.search.two_stages import SearchOptions, search

DATA = Path(__file__).parents[3] / "data" / "soma"


def toy() -> dict[str, Any]:
    value: dict[str, Any] = json.loads((DATA / "networks" / "toy_903.json").read_text())
    return value


def graph() -> LayerGraph:
    return graph_from_json(toy(), "toy")


def scheme(tiles: int = 1) -> FusionScheme:
    return FusionScheme((0, 1, 2, 3, 4), (0, 2), (1,), (tiles, 1, 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda layers: layers[0].update(ifm_prevs=[4]), "has a cycle: .*A"),
        (lambda layers: layers[2].update(type="Poling"), "unknown operator type 'Poling'.*did you mean 'Pooling'"),
        (lambda layers: layers[2].pop("K"), "`K` is missing .*layer 2 'C'"),
        (lambda layers: layers[2].update(K=0), "`K` must be an integer >= 1, got 0"),
        (lambda layers: layers[2].update(ifm_prevs=[77]), "producer 77 does not exist"),
        (lambda layers: layers[2].update(ifm_prevs=[]), "must read something"),
        (lambda layers: layers[0].update(ext_prevs=[3]), "external input 3 does not exist"),
        (lambda layers: layers[1].update(id=9), "layer ids must count"),
        (lambda layers: layers.clear(), "at least one layer"),
        (lambda layers: layers[1].update(ifmap_real_CHW=[1, "a", 3]), "`ifmap_real_CHW` must be three integers"),
        (lambda layers: layers[1].update(order_CHW=5), "`order_CHW` must be a permutation of 0, 1, 2, got 5"),
        (lambda layers: layers[0].update(ext_prevs=[True]), "`ext_prevs` must be a list of indices"),
    ],
)
def test_malformed_networks_are_refused(change: Any, message: str) -> None:
    value = copy.deepcopy(toy())
    change(value["network"]["layers"])
    with pytest.raises(UserError, match=message):
        graph_from_json(value, "toy")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (((0, 0, 1), (0,), (), (1,)), "name each layer"),
        (((0, 1, 2), (1,), (), (1,)), "must begin with 0"),
        (((0, 1, 2), (0,), (0,), (1, 1)), "in both"),
        (((0, 1, 2), (0,), (5,), (1, 1)), "increasing places"),
        (((0, 1, 2), (0,), (1,), (1,)), "2 integers >= 1"),
        (((0, 1, 2), (0,), (1,), (1, 0)), "2 integers >= 1"),
    ],
)
def test_malformed_schemes_are_refused(fields: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        FusionScheme(*fields)


def test_an_encoding_of_another_network_is_refused() -> None:
    other = json.loads((DATA / "eval" / "in_900.json").read_text())
    with pytest.raises(UserError, match=r"orders 3 layers, network 'toy' has 5.*another network"):
        encodings_from_json(other, graph(), "in_900.json")


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"edits": [{"tensor": 99, "start": 0}]}, "edit of tensor 99: the scheme has tensors 0..16"),
        ({"edits": [{"tensor": 5, "begin": 0}]}, "unknown key 'begin'"),
        ({"edits": [{"tensor": 5, "start": 40}]}, "must lie in -1..8, got 40"),
        ({"order": [0, 1, 2]}, "each of the 13 DRAM tensors once, got 3"),
    ],
)
def test_malformed_dram_attributes_are_refused(extra: dict[str, Any], message: str) -> None:
    raw = {"name": "x", "enc": scheme(2).to_json() | {"layer_order_to_id": [0, 1, 2, 4, 3]}, **extra}
    problem = Problem(graph(), 1, EDGE, REFERENCE)
    with pytest.raises(UserError, match=message):
        evaluate(problem, encodings_from_json([raw], problem.graph, "file")[0])


@pytest.mark.parametrize("batch", [0, -1, True])
def test_a_batch_below_one_is_refused(batch: int) -> None:
    with pytest.raises(UserError, match="`batch` must be an integer >= 1"):
        Problem(graph(), batch, EDGE, DEFAULT)


@pytest.mark.parametrize("field", ["chains", "workers"])
def test_an_empty_budget_is_refused(field: str) -> None:
    with pytest.raises(UserError, match="must be >"):
        SearchOptions(**{field: 0})


def test_unknown_architectures_and_constants_are_refused() -> None:
    with pytest.raises(UserError, match="did you mean 'soma-edge'"):
        read_hardware("soma-egde")
    with pytest.raises(UserError, match="constant 'pe_array' is missing"):
        hardware_from_constants({}, "file")
    with pytest.raises(UserError, match="`pe_dim` must be an integer >= 1"):
        replace(PRESETS["soma-edge"], pe_dim=0)


def test_a_layer_that_does_not_fit_is_infeasible_with_its_name_and_sizes() -> None:
    outcome = search(Problem(graph(), 1, EDGE, DEFAULT, 9000), Objective(), SearchOptions(Budget(evaluations=100)))
    assert isinstance(outcome, Invalid)
    assert outcome.status is Status.BUFFER_OVERFLOW
    assert "layer 'B'" in outcome.reason and "limit 9000" in outcome.reason
    assert outcome.demand_bytes is not None and outcome.demand_bytes > 9000


def test_a_scheme_over_the_limit_is_infeasible_with_its_place() -> None:
    outcome = evaluate(Problem(graph(), 1, EDGE, REFERENCE, 50_000), Encoding(scheme()))
    assert isinstance(outcome, Invalid)
    assert "the buffer would hold" in outcome.reason and "layer 'B' tile 0" in outcome.reason


def test_notation_survives_json() -> None:
    written = scheme(2)
    again = encodings_from_json([Encoding(written).to_json()], graph(), "x")[0]
    assert again.fusion == written


def test_buffer_scaling_reproduces_the_published_power_rule() -> None:
    larger: SomaHardware = EDGE.with_buffer(32 << 20)
    assert larger.gbuf.read_pj_per_byte == pytest.approx(0.217125 * 8 * 0.6 * 1.1**16)
    assert larger.with_buffer(8 << 20).gbuf.read_pj_per_byte == pytest.approx(EDGE.gbuf.read_pj_per_byte)


def test_the_randomly_wired_network_has_a_name() -> None:
    recorded = json.loads((DATA / "networks" / "randwire_small.json").read_text())
    named = load_graph("randwire_small").graph
    assert named.layers == graph_from_json(recorded, "recorded").layers
    assert named.external_inputs == graph_from_json(recorded, "recorded").external_inputs
