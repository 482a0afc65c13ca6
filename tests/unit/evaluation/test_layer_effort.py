"""Exact search without a limit is given one per layer; each layer says what is proven."""

from codesign.core.goals import Budget
from codesign.evaluation.network import LAYER_EFFORT, EvaluationOptions, WorkloadResult, evaluate_workload, with_effort
from codesign.mappers.exact import ExactMapper
from codesign.mappers.registry import create
from codesign.workloads.load import load_network
from spaces.scratchpad import SCRATCHPAD


def test_only_exact_search_without_a_limit_is_given_one() -> None:
    limited = with_effort(ExactMapper(), Budget())
    assert isinstance(limited, ExactMapper)
    assert limited.effort == LAYER_EFFORT
    assert with_effort(ExactMapper(), Budget(time_limit_s=1.0)) == ExactMapper()
    assert with_effort(ExactMapper(effort=5.0), Budget()) == ExactMapper(effort=5.0)
    annealing = create("anneal")
    assert with_effort(annealing, Budget()) is annealing


def test_every_layer_says_whether_its_mapping_is_proven() -> None:
    network = load_network("alexnet", partial_bits=SCRATCHPAD.partial_bits)
    architecture = SCRATCHPAD.build(SCRATCHPAD.space.presets[0])
    result = evaluate_workload(network, architecture, create("exact"), EvaluationOptions())
    assert isinstance(result, WorkloadResult)
    for layer in result.to_json()["layers"]:
        assert layer["proof"] in ("optimal", "gap")
        assert (layer["gap"] == 0.0) == (layer["proof"] == "optimal")
