"""K7 of docs/explanation/hardware.md: no generated machine takes fewer cycles than the analytical model with its ports."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from codesign.arch.architecture import Ports
from codesign.arch.dram import effective_bandwidth
from codesign.core.goals import Budget, Objective
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost, evaluate
from codesign.hardware.analytical import array_least, as_generated, least_cycles, side_of_table
from codesign.hardware.cycles import best_timed_plan
from codesign.hardware.nest_loops import parameters_of
from codesign.hardware.port_counts import counts_of_cost
from codesign.hardware.timed import timed_run, timing_at
from codesign.mappers.registry import create
from codesign.mapping.constraints import MappingProblem
from codesign.timing.simulate import Run
from codesign.timing.table import Timing, load_timing, with_constants
from codesign.workloads.computation import Computation
from experiments.cycle_ratios import predicted
from experiments.hardware_agreement import Config
from spaces.cores import CORE_SPACES
from spaces.parameters import Value
from spaces.scratchpad import SCRATCHPAD

NOTATIONS = (
    "O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]",
    "O[c,p,q] += I[c,p+r,q+s] * W[c,r,s]",
    "L[i,j] += M[i,k] * N[k,j]",
)


def drawn_computation(rng: np.random.Generator) -> Computation:
    """A layer with 8-bit operands, results of 1, 2 or 4 bytes, sums of 4."""
    notation = NOTATIONS[int(rng.integers(3))]
    dims = sorted({d for d in "ijkpqcrs" if d in notation.split("[", 1)[1]})
    sizes = {d: int(rng.integers(1, 4)) if d in "rs" else int(2 ** rng.integers(0, 6)) for d in dims}
    plain = Computation.parse(notation, sizes, bits=8, partial_bits=32)
    width = int(rng.choice([8, 16, 32]))
    return replace(plain, tensors=tuple(replace(t, bits=width) if t.is_output else t for t in plain.tensors))


def drawn(rng: np.random.Generator) -> tuple[Computation, dict[str, Value], Timing]:
    """A layer, any design of the space, and a memory."""
    space = SCRATCHPAD.space
    design = {p.name: list(p.choices)[int(rng.integers(len(list(p.choices))))] for p in space.parameters}
    constants = {"outstanding": int(rng.choice([1, 2, 4, 16, 64])), "dram_latency_cycles": int(rng.choice([1, 14, 90]))}
    return drawn_computation(rng), design, timing_at(with_constants(load_timing("generated"), constants), design)


@cache
def checked(seed: int, count: int) -> tuple[tuple[float, float, float], ...]:
    """Of random triples: generated cycles, those of the architecture with the machine's ports, and the least by port."""
    rng = np.random.default_rng(seed)
    found: list[tuple[float, float, float]] = []
    while len(found) < count:
        computation, design, timing = drawn(rng)
        plain, side = SCRATCHPAD.build(design), side_of_table(timing)
        ported = as_generated(plain, side)
        mapper, seed_of = ("random", "anneal")[int(rng.integers(2))], int(rng.integers(1 << 30))
        budget = Budget(evaluations=int(rng.integers(1, 200)))
        result = create(mapper).map(MappingProblem(computation, ported), Objective.LATENCY, budget=budget, seed=seed_of)
        run = None if result.mapping is None else timed_run(computation, plain, result.mapping, timing)
        if not isinstance(run, Run) or result.mapping is None:
            continue
        cost = evaluate(computation, ported, result.mapping, reuse=Reuse.WHOLE)
        assert isinstance(cost, Cost)
        p = replace(
            parameters_of(plain, computation, side.bus_bytes, side.burst_bytes, "m"), outstanding=side.under_way
        )
        array = array_least(best_timed_plan(computation, plain, result.mapping, p)[0])
        counts = counts_of_cost(cost, computation)
        least = least_cycles(counts, computation.output.name, p, side, array)
        found.append((float(run.latency_cycles), cost.latency_cycles + side.ramp_cycles, float(least)))
    return tuple(found)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow("oracle"))])
def test_no_machine_is_faster_than_its_analytical_cycles(seed: int) -> None:
    for generated, ported, least in checked(seed, 150 if seed == 0 else 3000):
        assert ported <= least + 1  # rounding
        assert least <= generated


def test_the_bound_is_met_within_a_twentieth_somewhere() -> None:
    assert min(generated / least for generated, _, least in checked(0, 150)) < 1.05


def test_one_burst_under_way_has_the_bandwidth_that_it_had() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        _, design, timing = drawn(rng)
        side = side_of_table(with_constants(timing, {"outstanding": 1}))
        beats = side.burst_bytes // side.bus_bytes
        assert side.bytes_per_cycle == pytest.approx(effective_bandwidth(side.bus_bytes, beats, side.latency_cycles))
        dram = as_generated(SCRATCHPAD.build(design), side).levels[0]
        assert dram.ports is Ports.SEPARATE
        assert dram.read_bandwidth_words_per_cycle == pytest.approx(side.bytes_per_cycle)


@pytest.mark.parametrize("outstanding", [1, 16])
@pytest.mark.parametrize("seed", [3, *(pytest.param(n, marks=pytest.mark.slow("oracle")) for n in range(4, 8))])
def test_no_core_is_faster_than_its_analytical_cycles(seed: int, outstanding: int) -> None:
    for family in CORE_SPACES:
        count = 8 if seed == 3 else 60
        config = Config(count, seed, family, "none", 4, 60_000, None, outstanding=outstanding)
        for _, _, least, counted, cycles in predicted(config):
            assert counted <= least <= cycles
