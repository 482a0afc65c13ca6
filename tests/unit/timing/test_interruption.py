"""Ctrl-C and limits give a stated partial result."""

from typing import Any

import pytest

from codesign.arch.presets import load_preset
from codesign.core.goals import Budget
from codesign.evaluation import timed
from codesign.evaluation.network import EvaluationOptions
from codesign.evaluation.whole_network import NetworkResult, map_network
from codesign.mappers.annealing import AnnealingMapper
from codesign.timing import simulate as tier
from codesign.timing.table import Timing
from codesign.workloads.load import load_network
from experiments.models.plan import Kind, Process, make_plan


def interrupted_at(call: int, function: Any) -> Any:
    calls = iter(range(1, 1000))

    def stopped(*arguments: Any, **named: Any) -> Any:
        if next(calls) == call:
            raise KeyboardInterrupt
        return function(*arguments, **named)

    return stopped


def long_plan() -> Any:
    process = Process("x", Kind.COMPUTE, ("array",), {(0, 0): 1, (0, 2): 1})
    return make_plan([[1, 300_000]], 0, [process])


def test_an_interrupted_run_is_the_part_that_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    named = long_plan()
    monkeypatch.setattr(tier, "run", interrupted_at(2, tier.run))
    part = tier.run_plan(named.plan, named.processes, named.resources, Timing("x"), skip=False)
    assert not part.complete
    assert tier.FIRST_OPERATIONS <= part.latency_cycles < 300_000
    monkeypatch.setattr(tier, "run", interrupted_at(1, tier.run))
    with pytest.raises(KeyboardInterrupt):
        tier.run_plan(named.plan, named.processes, named.resources, Timing("x"), skip=False)


def test_a_run_without_interruption_reaches_its_end() -> None:
    named = long_plan()
    whole = tier.run_plan(named.plan, named.processes, named.resources, Timing("x"), skip=False)
    assert (whole.complete, whole.latency_cycles) == (True, 300_000)


def test_an_interrupted_network_names_the_layers_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    architecture = load_preset("gemmini")
    network = load_network("alexnet", bits=architecture.mac.bits)
    options = EvaluationOptions(budget=Budget(evaluations=50))
    result = map_network(network, architecture, AnnealingMapper(), options)
    assert isinstance(result, NetworkResult)
    whole = timed.time_network(result, Timing("x"))
    monkeypatch.setattr(timed, "timed_run", interrupted_at(4, timed.timed_run))
    part = timed.time_network(result, Timing("x"))
    assert part.layers == whole.layers[:3]
    assert part.missing == tuple(layer.name for layer in whole.layers[3:])
    assert (part.to_json()["status"], whole.to_json()["status"]) == ("partial", "ok")
    assert part.latency_cycles < whole.latency_cycles
