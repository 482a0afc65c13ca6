"""The elements whose bursts are fetched and stored are exactly those that the cost model counts, whatever the layout."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.arch.architecture import Architecture, LevelKind
from codesign.arch.memory_device import DramUse
from codesign.cost.arrays import Reuse
from codesign.cost.columns import READS, UPDATES
from codesign.mapping.mapping import Mapping
from codesign.mapping.nest import BYPASSED
from codesign.timing.derive import EVENTS
from codesign.timing.dram.plan_bursts import device_of
from codesign.timing.dram.transfers import list_bursts, outer_level, places, regions
from codesign.timing.engine import run
from codesign.timing.event_plan import STORE
from codesign.timing.mapped_plan import MappedPlan
from codesign.timing.simulate import Run, simulate
from codesign.timing.table import Timing, encode_timing
from codesign.workloads.computation import Computation
from tests.property.test_kernel_against_oracle import problems

Problem = tuple[Computation, Architecture, Mapping]
NO_LATENCIES = Timing("none")


def with_device(architecture: Architecture, layout: str) -> Architecture:
    roles = ("input", "weight", "output")
    use = DramUse("ddr4_2400_x16", layouts=tuple((role, layout) for role in roles))
    top = replace(architecture.levels[0], kind=LevelKind.DRAM, dram=use)
    return replace(architecture, levels=(top, *architecture.levels[1:]))


@settings(max_examples=100)
@given(
    problems(), st.sampled_from([Reuse.TIMELOOP, Reuse.WALK, Reuse.RESIDENT]), st.sampled_from(["row-major", "tiled"])
)
def test_elements_are_the_counted_ones(problem: Problem, reuse: Reuse, layout: str) -> None:
    computation, plain, mapping = problem
    architecture = with_device(plain, layout)
    machine = encode_timing(NO_LATENCIES, architecture)
    mapped = MappedPlan.of(computation, architecture, mapping, machine, reuse)
    plan, kernel, nest = mapped.plan, mapped.kernel, mapped.nest
    if np.prod(plan.factors) > 20_000:
        return
    found = regions(mapped, 0)
    device = device_of(architecture)
    assert device is not None
    where = places(mapped, 0, device[1], found)
    _, _, _, _, counts, _ = run(plan, True, 10**7, np.zeros((0, 4)))
    room = np.zeros((int(counts.sum()), 4))
    run(plan, False, 10**7, room)
    mine = room[found.tensor[room[:, 0].astype(np.int64)] >= 0]
    address, write, first, elements, listed = list_bursts(
        found, where, mine[:, 0].astype(np.int64), mine[:, 3].astype(np.int64), plan.factors[0], 64, 1 << 40
    )
    assert listed == len(mine)
    assert first[-1] == len(address) == len(write)
    output = len(computation.tensors) - 1
    for t in range(output + 1):
        inner = [v for v in range(1, len(architecture.levels)) if nest.position[v, t] != BYPASSED]
        if nest.position[0, t] == BYPASSED or not inner or machine.level_int[inner[0], EVENTS] == 0:
            continue
        assert outer_level(nest.position, inner[0], t) == 0
        by_events = {plan.kind[k] == STORE for k in range(len(plan.kind)) if found.tensor[k] == t}
        assert by_events
        assert elements[t, 0] == kernel.counts[0, t, READS], (computation.tensors[t].name, mapping)
        assert elements[t, 1] == (kernel.counts[0, t, UPDATES] if t == output else 0)


@settings(max_examples=25)
@given(problems(), st.sampled_from(["row-major", "tiled"]))
def test_runs_to_its_end_and_counts_every_burst(problem: Problem, layout: str) -> None:
    computation, plain, mapping = problem
    run_ = simulate(computation, with_device(plain, layout), mapping, NO_LATENCIES)
    assert isinstance(run_, Run)
    assert run_.complete
    if run_.memory is not None:
        served = run_.memory.served
        assert served.complete
        assert run_.memory.useful_bytes > 0
        assert served.row_hits <= served.reads + served.writes
