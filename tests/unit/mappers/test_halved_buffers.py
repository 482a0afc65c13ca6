"""Exact search gives further mappings: optima with halved buffers, which fit the whole machine and wait less."""

from dataclasses import replace

import pytest

from codesign.arch.presets import load_preset
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.cost import Cost, evaluate
from codesign.evaluation.timed import EventMapper
from codesign.mappers.exact.halved_buffers import map_with_room
from codesign.mappers.exact.mapper import ExactMapper
from codesign.mappers.protocol import MapResult
from codesign.mapping.constraints import MappingProblem
from codesign.timing.simulate import Run, simulate
from codesign.timing.table import tile_buffers, timing_for
from codesign.workloads.operators import conv2d

BUFFERS = ("Scratchpad", "Accumulator")


def problem() -> MappingProblem:
    return MappingProblem(conv2d(N=1, K=64, C=64, P=56, Q=56, R=1, S=1, bits=8), load_preset("gemmini"))


def cycles(result: MapResult) -> int:
    assert result.mapping is not None
    run = simulate(problem().computation, problem().architecture, result.mapping)
    assert isinstance(run, Run)
    return run.latency_cycles


def test_buffers_whose_tiles_are_events_may_be_halved() -> None:
    architecture = load_preset("gemmini")
    assert tile_buffers(timing_for(architecture), architecture) == BUFFERS


@pytest.mark.parametrize("objective", [Objective.LATENCY, Objective.EDP])
def test_alternatives_are_optima_of_machines_with_halved_buffers(objective: Objective) -> None:
    posed = problem()
    found = map_with_room(ExactMapper(), posed, objective, BUFFERS, 3, budget=Budget(), seed=0)
    plain = ExactMapper().map(posed, objective, budget=Budget(), seed=0)
    assert found.mapping == plain.mapping and found.proof is Proof.OPTIMAL and found.cost is not None
    values = [objective.of(found.cost)]
    machine = posed.architecture
    for name in BUFFERS:
        capacity = machine.level(name).capacity_bytes
        assert capacity is not None
        machine = machine.with_level(name, capacity_bytes=capacity / 2)
    halves = ExactMapper().map(replace(posed, architecture=machine), objective, budget=Budget(), seed=0)
    assert halves.mapping in found.alternatives
    for mapping in found.alternatives:
        cost = evaluate(posed.computation, posed.architecture, mapping)
        assert isinstance(cost, Cost)
        values.append(objective.of(cost))
    assert values == sorted(values)
    assert len({found.mapping, *found.alternatives}) == len(values)


def test_ranking_optima_by_events_finds_room_for_a_second_tile() -> None:
    plain = ExactMapper().map(problem(), Objective.LATENCY, budget=Budget(), seed=0)
    ranked = EventMapper(ExactMapper(), candidates=6).map(problem(), Objective.LATENCY, budget=Budget(), seed=0)
    assert plain.cost is not None and ranked.cost is not None
    assert ranked.cost.latency_cycles == plain.cost.latency_cycles  # both are optimal by the analytical model
    assert cycles(ranked) < 0.85 * cycles(plain)


def test_a_problem_without_any_mapping_has_no_alternatives() -> None:
    machine = load_preset("gemmini").with_level("Scratchpad", capacity_bytes=1.0)
    found = map_with_room(
        ExactMapper(),
        replace(problem(), architecture=machine),
        Objective.LATENCY,
        BUFFERS,
        3,
        budget=Budget(),
        seed=0,
    )
    assert found.mapping is None and found.alternatives == () and found.infeasible is not None
