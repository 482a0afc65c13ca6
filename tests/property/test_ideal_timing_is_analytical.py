"""With perfect overlap the event tier gives the analytical latency; with waits it is never faster; skipping changes nothing."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from codesign.arch.architecture import Architecture, Ports
from codesign.cost.arrays import Reuse, encode_problem
from codesign.cost.columns import FILLS, SHARE
from codesign.cost.cost import Cost, evaluate
from codesign.cost.kernel import score
from codesign.cost.packed import make_kernel
from codesign.mapping.mapping import Mapping
from codesign.mapping.nest import BYPASSED, FACTOR, encode_nest
from codesign.timing.derive import moved_words
from codesign.timing.engine import run
from codesign.timing.simulate import Run, simulate
from codesign.timing.table import IDEAL, Timing
from codesign.workloads.computation import Computation
from tests.examples import examples
from tests.oracle.event_walk import walk_plan
from tests.property.random_timing import SMALL, level_timings, plan_of
from tests.property.test_kernel_against_oracle import problems

Problem = tuple[Computation, Architecture, Mapping]
REUSES = [Reuse.TIMELOOP, Reuse.WALK, Reuse.RESIDENT]
"""The tier refuses the rule `whole`."""

BANDWIDTHS = st.sampled_from([None, 0.5, 1.0, 3.0, 4.0])


def with_bandwidths(architecture: Architecture, draw: st.DataObject) -> Architecture:
    levels = tuple(
        replace(
            level,
            read_bandwidth_words_per_cycle=draw.draw(BANDWIDTHS),
            write_bandwidth_words_per_cycle=draw.draw(BANDWIDTHS),
        )
        for level in architecture.levels
    )
    return replace(architecture, levels=levels)


@examples(250)
@given(problems(), st.sampled_from(REUSES), st.data())
def test_ideal_equals_analytical(problem: Problem, reuse: Reuse, data: st.DataObject) -> None:
    computation, architecture, mapping = problem
    architecture = with_bandwidths(architecture, data)
    cost = evaluate(computation, architecture, mapping, reuse=reuse)
    ideal = simulate(computation, architecture, mapping, IDEAL, reuse=reuse)
    assert isinstance(cost, Cost)
    assert isinstance(ideal, Run)
    exact = port_cycles(computation, architecture, cost)
    assert ideal.latency_cycles == math.ceil(exact)
    # the kernel divides in floating point, as Timeloop does: where the quotient is whole it may end one cycle up
    assert cost.latency_cycles - ideal.latency_cycles in ((0, 1) if exact == math.ceil(exact) else (0,))


def port_cycles(computation: Computation, architecture: Architecture, cost: Cost) -> Fraction:
    """The slowest of compute, every mesh and every port, in fractions, from the counts of a cost."""
    worst = Fraction(max(cost.compute_cycles, *(level.mesh_cycles or 0 for level in cost.levels)))
    for level, counted in zip(architecture.levels, cost.levels, strict=True):
        ways = [Fraction(0), Fraction(0)]
        for tensor in counted.tensors:
            value = next(t for t in computation.tensors if t.name == tensor.tensor)
            outermost = level is architecture.levels[0]
            words = Fraction(level.element_bits(value.bits if outermost else value.partial_bits), level.word_bits)
            ways[0] += words * tensor.reads / counted.instances
            ways[1] += words * (tensor.fills + tensor.updates) / counted.instances
        rates = (level.read_bandwidth_words_per_cycle, level.write_bandwidth_words_per_cycle)
        busy = [words / Fraction(rate) for words, rate in zip(ways, rates, strict=True) if rate is not None]
        worst = max(worst, *busy, sum(busy, Fraction(0)) if level.ports is Ports.SHARED else Fraction(0))
    return worst


@examples(150)
@given(problems(), st.data())
def test_waiting_never_helps_and_the_walk_agrees(problem: Problem, data: st.DataObject) -> None:
    computation, architecture, mapping = problem
    architecture = with_bandwidths(architecture, data)
    levels = level_timings(architecture, data)
    timing = Timing("random", levels, fill_drain_cycles=data.draw(SMALL), issue_cycles=data.draw(SMALL))
    cost = evaluate(computation, architecture, mapping)
    assert isinstance(cost, Cost)
    plan = plan_of(computation, architecture, mapping, timing)
    _, cycles, _busy, _, counts, _ = run(plan, True, 10**8, np.zeros((0, 4)))
    assert cycles >= cost.latency_cycles
    assert cycles == run(plan, False, 10**8, np.zeros((0, 4)))[1]
    if counts.sum() < 600:
        assert cycles == walk_plan(plan)[0]


@examples(200)
@given(problems(), st.sampled_from(REUSES))
def test_words_moved_by_each_loop_add_up_to_the_count(problem: Problem, reuse: Reuse) -> None:
    computation, architecture, mapping = problem
    nest = encode_nest(computation, architecture, mapping)
    count = nest.loops.shape[0]
    kernel = make_kernel(encode_problem(computation, architecture, reuse), count)
    score(kernel, nest, count)
    moved, travelled = np.zeros(max(count, 1), np.int64), np.zeros((max(count, 1), kernel.coef.shape[1]), np.int64)
    output = len(computation.tensors) - 1
    for v in range(1, len(architecture.levels)):
        for t in range(output + 1):
            if nest.position[v, t] == BYPASSED:
                continue
            total = moved_words(kernel, nest, v, t, moved, travelled)
            for i in range(count):
                total += (int(nest.loops[i, FACTOR]) - 1) * int(kernel.outside[i, 0]) * int(moved[i])
            share = int(kernel.use[v, SHARE]) if t == output else 0
            outermost = all(nest.position[u, t] == BYPASSED for u in range(v))
            if not outermost:
                assert total == kernel.counts[v, t, FILLS] + share
