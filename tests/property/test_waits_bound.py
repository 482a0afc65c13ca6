"""Waits in closed form (rule E12) and shortened runs (E13) are never above the simulated cycles, nor below the analytical ones."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.core.rng import make_state
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost, evaluate
from codesign.cost.kernel import score
from codesign.cost.packed import VALID
from codesign.mappers.driver import Encoded
from codesign.mappers.moves import change_state
from codesign.mappers.random_search import RandomMapper
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.space import build_nest, copy_state, factor_table, outermost_state
from codesign.timing.derive import derive
from codesign.timing.engine import run
from codesign.timing.event_plan import Plan
from codesign.timing.least_cycles import cycles_with_waits, least_cycles
from codesign.timing.simulate import Run, simulate
from codesign.timing.table import Overlap, Timing, encode_timing, load_timing, timing_for
from codesign.workloads.load import load_network
from codesign.workloads.workload import Workload
from experiments.models.waits import latency_with_waits
from tests.examples import ALL, examples
from tests.property.random_timing import SMALL, level_timings, plan_of
from tests.property.test_ideal_timing_is_analytical import Problem, with_bandwidths
from tests.property.test_kernel_against_oracle import problems

NO_EVENTS = np.zeros((0, 4))


def check(plan: Plan) -> tuple[float, float]:
    """The bound and the simulated cycles of a plan."""
    status, cycles, *_ = run(plan, True, 20_000, NO_EVENTS)
    least, _ = cycles_with_waits(plan)
    assert least >= least_cycles(plan)
    if status == 0:
        assert least <= cycles * (1 + 1e-9)
    return least, cycles


@examples(200)
@given(problems(), st.data())
def test_any_machine(problem: Problem, data: st.DataObject) -> None:
    computation, architecture, mapping = problem
    architecture = with_bandwidths(architecture, data)
    levels = tuple(
        replace(level, retain=data.draw(st.booleans()), early_release_cycles=data.draw(st.sampled_from([0, 0, 2])))
        for level in level_timings(architecture, data)
    )
    timing = Timing(
        "random",
        levels,
        fill_drain_cycles=data.draw(SMALL),
        issue_cycles=data.draw(st.sampled_from([0, 0, 3])),
        steps_in_flight=data.draw(st.sampled_from([None, None, 2])),
    )
    plan = plan_of(computation, architecture, mapping, timing)
    check(plan)


@pytest.mark.parametrize("name", ["gemmini", "eyeriss", "simba"])
@pytest.mark.parametrize("reuse", [Reuse.TIMELOOP, Reuse.RESIDENT])
@pytest.mark.thinned(4)
def test_walks_of_mappings_on_presets(name: str, reuse: Reuse) -> None:
    architecture = load_preset(name)
    machine = encode_timing(timing_for(architecture), architecture)
    network = load_network("resnet50", bits=architecture.mac.bits)
    shares = []
    for group in Workload.of([network]).distinct_layers()[1::11]:
        encoded = Encoded.of(MappingProblem(group.computation, architecture), reuse)
        table, random = factor_table(encoded.space), make_state(5, 1)
        trial, at = outermost_state(encoded.space), outermost_state(encoded.space)
        for _ in range(400 if ALL else 200):
            copy_state(at, trial)
            change_state(encoded.space, trial, random)
            count = build_nest(encoded.space, trial, table, encoded.nest)
            status, _, cycles = score(encoded.kernel, encoded.nest, count)
            if status == VALID:
                copy_state(trial, at)
                plan, _ = derive(encoded.kernel, encoded.nest, count, machine)
                least, simulated = check(plan)
                shares.append(max(least, cycles) / simulated)
    assert len(shares) > 100
    assert np.median(shares) > 0.99


@examples(60)
@given(problems(), st.data())
def test_between_both_models(problem: Problem, data: st.DataObject) -> None:
    computation, architecture, mapping = problem
    assume(all(level.fanout.mesh is None for level in architecture.levels))
    architecture = with_bandwidths(architecture, data)
    timing = Timing("plain", fill_drain_cycles=data.draw(st.integers(0, 3)), run_cycles=2)
    cost = evaluate(computation, architecture, mapping)
    simulated = simulate(computation, architecture, mapping, timing)
    assert isinstance(cost, Cost)
    assert isinstance(simulated, Run)
    least = latency_with_waits(computation, architecture, mapping, timing)
    assert isinstance(least, int)
    assert cost.latency_cycles <= least <= simulated.latency_cycles
    perfect = replace(timing, overlap=Overlap.PERFECT)
    assert latency_with_waits(computation, architecture, mapping, perfect) == cost.latency_cycles


def test_machines_that_the_rule_does_not_know() -> None:
    architecture = load_preset("gemmini")
    layer = Workload.of([load_network("resnet50", bits=8)]).distinct_layers()[1].computation
    problem = MappingProblem(layer, architecture)
    found = RandomMapper().map(problem, Objective.LATENCY, budget=Budget(evaluations=20), seed=0).mapping
    assert found is not None
    with pytest.raises(UserError, match=r"waits in closed form \(E12\) know no"):
        latency_with_waits(layer, architecture, found, load_timing("generated"))
