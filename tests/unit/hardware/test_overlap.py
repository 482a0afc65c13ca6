"""What a machine does at once leaves results as they are, whatever the depths of its queues and the memory's pace."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from codesign.core.goals import Budget, Objective
from codesign.cost.cost import Infeasible
from codesign.hardware.array_cycles import IDLE, WENT, array_state, command, feed_cycles
from codesign.hardware.core_plan import CorePlan, core_parameters
from codesign.hardware.cycles import best_timed_plan, nest_times, queue_cycles
from codesign.hardware.execute import core_job, execute, nest_job, random_values
from codesign.hardware.layout import Layout, LayoutKind, Place, box_of_places
from codesign.hardware.memory_timing import MemoryTiming
from codesign.hardware.nest_image import nest_image
from codesign.hardware.nest_loops import parameters_of
from codesign.hardware.nest_plan import NestPlan
from codesign.hardware.queue_image import core_image
from codesign.hardware.rtl.machine import register_map
from codesign.hardware.simulate import simulate_in_python
from codesign.mappers.registry import create
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import LevelMapping, Mapping
from codesign.tensorization.core_program import program_on_core
from codesign.tensorization.encoding import SoftwareProblem
from codesign.tensorization.program import Program
from codesign.workloads.computation import Computation
from spaces.cores import DOT_CORE, core_of
from spaces.parameters import Value
from spaces.scratchpad import SCRATCHPAD
from spaces.software import SoftwareSpace
from tests.unit.hardware.test_machines import DESIGN

CORE = core_of(
    DOT_CORE,
    {
        "pe_rows": 4,
        "pe_cols": 4,
        "links": "systolic",
        "scratchpad_kib": 128,
        "local_bytes": 64,
        "banks": 2,
        "bus_bits": 64,
        "burst_bytes": 64,
    },
)
PRODUCT = Computation.parse("y[i] += M[i,k] * x[k]", i=4, k=32, bits=8, partial_bits=32)


def programs(count: int, seed: int) -> list[tuple[Program, Mapping]]:
    """Random programs of the product, without padding."""
    space, found = SoftwareSpace(SoftwareProblem.of(PRODUCT, CORE)), []
    for row in space.sample(200, seed):
        made = space.program(row)
        program = program_on_core(made)
        if made.schedule.padded.sizes == PRODUCT.sizes and not isinstance(program, Infeasible):
            found.append((program, made.mapping))
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow("oracle")) for n in (1, 2, 3))])
def test_no_depths_of_queues_let_a_core_stand_still(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for program, mapping in programs(1 + 2 * (seed > 0), seed):
        p = replace(core_parameters(CORE, "machine"), outstanding=int(rng.integers(2, 9)))
        memory = MemoryTiming(int(rng.integers(1, 60)), int(rng.integers(1, 4)), int(rng.integers(0, 4)))
        registers = register_map(p)
        job = core_job(program, mapping, CORE, p, registers)
        values = random_values(PRODUCT, rng)
        verdict = execute(
            job,
            values,
            lambda image, given, memory=memory: simulate_in_python(image, given, timing=memory, limit=20_000),
        )
        assert verdict.wrong is None
        assert verdict.differences == ()
        made = core_image(CorePlan(program, CORE, p), registers)
        assert verdict.run.cycles == queue_cycles(made, memory=memory)


def test_streams_of_many_programs_and_depths_come_to_their_end() -> None:
    rng = np.random.default_rng(0)
    for program, _ in programs(20, 7):
        p = replace(core_parameters(CORE, "machine"), outstanding=int(rng.integers(2, 33)))
        made = core_image(CorePlan(program, CORE, p), register_map(p))
        memory = MemoryTiming(int(rng.integers(1, 400)), requests=int(rng.integers(0, 6)))
        assert queue_cycles(made, memory=memory) > 0  # two queues that wait for each other are an error


def test_more_bursts_under_way_never_take_more_cycles_of_a_core() -> None:
    for program, _ in programs(4, 3):
        found = []
        for outstanding in (2, 4, 16):
            p = replace(core_parameters(CORE, "machine"), outstanding=outstanding)
            found.append(queue_cycles(core_image(CorePlan(program, CORE, p), register_map(p)), memory=MemoryTiming(80)))
        assert found == sorted(found, reverse=True)


# ---------------------------------------------------------------------- layouts
def test_a_layout_cut_along_loops_comes_back_as_it_was() -> None:
    parts = (
        (0, 4, 3),
        (1, 1, 5),
        (0, 1, 4),
    )  # axis 0 of 12 in blocks of 4, the blocks outermost and their elements innermost
    layout = Layout("T", 8, (12, 5), parts, 2)
    values = np.arange(60).reshape(12, 5)
    memory = b"\0" * 8 + layout.pack(values)
    assert (layout.unpack(memory) == values).all()
    for at in ((0, 0), (5, 3), (11, 4)):
        stored = int.from_bytes(memory[layout.address(at) : layout.address(at) + 2], "little")
        assert stored == values[at]


def test_a_blocked_tile_is_one_run() -> None:
    places = (Place(0, 4, 3, 1, temporal=0), Place(1, 1, 5, 5, temporal=1), Place(0, 1, 4, 4, spatial=0))
    box = box_of_places(places, 1, 1)
    assert (box.run_bytes, box.loops) == (20, ())


def test_a_tile_of_whole_axes_is_a_run_a_row() -> None:
    box = box_of_places((Place(0, 1, 12, 4), Place(1, 1, 8, 5)), 1, 4)
    assert (box.run_bytes, box.loops) == (5, ((4, 8, 20),))


def test_lines_of_a_blocked_layout_carry_more_words() -> None:
    computation = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=8, j=8, k=8, bits=8, partial_bits=32)
    architecture = SCRATCHPAD.build(DESIGN | {"dataflow": "weight-stationary", "links": "multicast"})
    mapping = Mapping.from_levels(
        [
            LevelMapping("DRAM", ("M", "N", "L"), (("i", 2),)),
            LevelMapping("Scratchpad", ("M", "N", "L"), (("j", 2), ("k", 2), ("i", 4)), (("k", 4, "y"), ("j", 4, "x"))),
            LevelMapping("Local", ("N",)),
        ]
    )
    p = parameters_of(architecture, computation, 8, 32, "machine")
    plain, blocked, *_ = (NestPlan(computation, architecture, mapping, p, kind) for kind in LayoutKind)
    assert len(blocked.windows["B"]) < len(plain.windows["B"])
    cycles = [nest_times(plan).cycles for plan in (plain, blocked)]
    assert cycles[1] < cycles[0]


def test_a_line_from_any_byte_on_has_all_its_bytes_where_banks_are_halved() -> None:
    computation = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=4, j=12, k=9, bits=8, partial_bits=32)
    architecture = SCRATCHPAD.build(DESIGN | {"dataflow": "output-stationary", "links": "multicast", "banks": 1})
    mapping = Mapping.from_levels(
        [
            LevelMapping("DRAM", ("M", "N", "L"), (("i", 2),)),
            LevelMapping("Scratchpad", ("M", "N", "L"), (("j", 4), ("i", 2), ("k", 3)), (("k", 3, "y"), ("j", 3, "x"))),
            LevelMapping("Local", ("L",)),
        ]
    )
    windows = []
    for outstanding in (1, 16):
        p = replace(parameters_of(architecture, computation, 8, 32, "machine"), outstanding=outstanding)
        plan = NestPlan(computation, architecture, mapping, p, LayoutKind.BLOCKED)
        windows.append(len(plan.windows["B"]))
        job = nest_job(computation, architecture, mapping, p, register_map(p))
        verdict = execute(job, random_values(computation, np.random.default_rng(0)), simulate_in_python)
        assert verdict.wrong is None and not verdict.differences and verdict.run.cycles == job.predicted_cycles
    assert windows == [9, 2]  # nine bytes side by side


@pytest.mark.parametrize(("words", "group"), [(2, 2), (3, 3), (4, 4), (8, 4)])
@pytest.mark.thinned(3)
def test_a_local_memory_takes_words_that_lie_side_by_side_at_once(words: int, group: int) -> None:
    computation = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=4, j=4, k=4 * words, bits=8, partial_bits=32)
    architecture = SCRATCHPAD.build(DESIGN | {"dataflow": "row-stationary", "links": "none", "local_bytes": 64})
    mapping = Mapping.from_levels(
        [
            LevelMapping("DRAM", ("M", "N", "L"), (("i", 2),)),
            LevelMapping("Scratchpad", ("M", "N", "L"), (("j", 2), ("i", 2), ("k", 4)), (("j", 2, "x"),)),
            LevelMapping("Local", ("M", "N", "L"), (("k", words),)),
        ]
    )
    p = parameters_of(architecture, computation, 8, 32, "machine")
    plan = NestPlan(computation, architecture, mapping, p, LayoutKind.GROUPED)
    assert [plan.groups[q] for q in "ABO"] == [group, group, 1]
    one = NestPlan(computation, architecture, mapping, p, LayoutKind.BLOCKED)
    assert nest_times(plan).cycles < nest_times(one).cycles
    job = nest_job(computation, architecture, mapping, p, register_map(p))
    verdict = execute(job, random_values(computation, np.random.default_rng(words)), simulate_in_python)
    assert verdict.wrong is None and not verdict.differences and verdict.run.cycles == job.predicted_cycles


@pytest.mark.parametrize(("words", "dataflow"), [(3, "weight-stationary"), (5, "row-stationary")])
@pytest.mark.thinned(2)
def test_the_last_words_of_a_local_tile_may_be_fewer(words: int, dataflow: str) -> None:
    computation = Computation.parse("O[k,p] += I[2*p+r] * W[k,r]", k=4, p=4, r=words, bits=8, partial_bits=32)
    architecture = SCRATCHPAD.build(DESIGN | {"dataflow": dataflow, "links": "none", "local_bytes": 128})
    kept = ("I", "W", "O") if dataflow == "row-stationary" else ("W",)
    mapping = Mapping.from_levels(
        [
            LevelMapping("DRAM", ("I", "W", "O"), (("k", 2),)),
            LevelMapping("Scratchpad", ("I", "W", "O"), (("p", 2),), (("k", 2, "x"), ("p", 2, "y"))),
            LevelMapping("Local", kept, (("r", words),)),
        ]
    )
    p = parameters_of(architecture, computation, 8, 32, "machine")
    plan = NestPlan(computation, architecture, mapping, p, LayoutKind.PARTLY)
    assert plan.groups["B"] == Fraction(words, -(-words // 4))
    one = NestPlan(computation, architecture, mapping, p, LayoutKind.BLOCKED)
    assert nest_times(plan).cycles <= nest_times(one).cycles
    job = nest_job(computation, architecture, mapping, p, register_map(p))
    mine = replace(job, image=nest_image(plan, register_map(p)), predicted_cycles=nest_times(plan).cycles)
    verdict = execute(mine, random_values(computation, np.random.default_rng(words)), simulate_in_python)
    assert verdict.wrong is None and not verdict.differences and verdict.run.cycles == mine.predicted_cycles


# ---------------------------------------------------------------------- folded loops
@pytest.mark.parametrize(
    ("links", "dataflow"),
    [("none", "weight-stationary"), ("multicast", "row-stationary"), ("systolic", "output-stationary")],
)
@pytest.mark.thinned(2)
def test_a_folded_loop_lets_elements_rest(links: str, dataflow: str) -> None:
    computation = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=4, j=5, k=4, bits=8, partial_bits=32)
    design = DESIGN | {"pe_rows": 8, "pe_cols": 4, "dataflow": dataflow, "links": links, "local_bytes": 64}
    architecture = SCRATCHPAD.build(design)
    kept = {"row-stationary": ("M", "N", "L"), "output-stationary": ("L",), "weight-stationary": ("N",)}[dataflow]
    mapping = Mapping.from_levels(
        [
            LevelMapping("DRAM", ("M", "N", "L"), (("k", 2),)),
            LevelMapping("Scratchpad", ("M", "N", "L"), (("i", 2),), (("j", 5, "y"), ("k", 2, "x"))),
            LevelMapping("Local", kept, (("i", 2),)),
        ]
    )
    p = parameters_of(architecture, computation, 8, 32, "machine")
    plan = NestPlan(computation, architecture, mapping, p)
    assert plan.fold is not None and len(plan.resting) > 0
    assert plan.used_rows * plan.used_cols - len(plan.resting) == 10
    job = nest_job(computation, architecture, mapping, p, register_map(p))
    verdict = execute(job, random_values(computation, np.random.default_rng(3)), simulate_in_python)
    assert verdict.wrong is None and not verdict.differences and verdict.run.cycles == job.predicted_cycles


# ---------------------------------------------------------------------- places of small tiles
@pytest.mark.parametrize("order", [("i", "k"), ("k", "i")])
def test_small_tiles_have_several_places(order: tuple[str, str]) -> None:
    computation = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=12, j=4, k=6, bits=8, partial_bits=32)
    architecture = SCRATCHPAD.build(DESIGN | {"dataflow": "weight-stationary", "links": "multicast"})
    mapping = Mapping.from_levels(
        [
            LevelMapping("DRAM", ("M", "N", "L"), tuple((d, {"i": 12, "k": 3}[d]) for d in order)),
            LevelMapping("Scratchpad", ("M", "N", "L"), (), (("k", 2, "y"), ("j", 4, "x"))),
            LevelMapping("Local", ("N",)),
        ]
    )
    p = parameters_of(architecture, computation, 8, 32, "machine")
    plan = NestPlan(computation, architecture, mapping, p)
    old_sums = order == ("k", "i")  # a tile must be stored before it comes again
    assert {q: len(plan.halves[q]) for q in "ABO"} == {"A": 8, "B": 8, "O": 2 if old_sums else 8}
    job = nest_job(computation, architecture, mapping, p, register_map(p))
    verdict = execute(job, random_values(computation, np.random.default_rng(5)), simulate_in_python)
    assert verdict.wrong is None and not verdict.differences and verdict.run.cycles == job.predicted_cycles


# ---------------------------------------------------------------------- feeding and filling at once
def annealed(**changes: Value) -> NestPlan:
    """A product of matrices on a small machine of loop nests."""
    computation = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=16, j=8, k=16, bits=8, partial_bits=32)
    architecture = SCRATCHPAD.build(DESIGN | {"links": "multicast"} | changes)
    budget = Budget(evaluations=200)
    found = create("anneal").map(MappingProblem(computation, architecture), Objective.LATENCY, budget=budget, seed=1)
    assert found.mapping is not None
    p = parameters_of(architecture, computation, 8, 32, "machine")
    return NestPlan(computation, architecture, found.mapping, p)


def test_both_operands_are_fed_at_once_only_where_sums_stay_local() -> None:
    plan = annealed(dataflow="output-stationary")
    assert plan.p.feeds_both
    windows = [len(plan.windows[q]) for q in "AB"]
    assert feed_cycles(plan.p, windows) == max(windows)
    assert feed_cycles(replace(plan.p, outstanding=1), windows) == sum(windows)
    assert not replace(plan.p, local=frozenset("AO")).feeds_both


def test_a_run_goes_on_while_drained_lines_leave_and_the_next_drain_waits_for_them() -> None:
    plan = annealed(dataflow="output-stationary")
    state, ring = array_state(plan.p, [1, 1], plan.emissions)
    command(ring, state, 0, 1, 0, True, True, 8, 1)  # one word, eight lines
    drained = int(state[WENT])
    command(ring, state, state[IDLE] - 1, 5, 1, True, False, 8, 1)
    assert state[WENT] == drained + 5
    command(ring, state, state[IDLE] - 1, 1, 0, True, True, 8, 1)
    assert state[WENT] == drained + 8


def test_results_have_the_second_place_where_that_takes_fewer_cycles() -> None:
    computation = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=16, j=16, k=16, bits=8, partial_bits=32)
    architecture = SCRATCHPAD.build(DESIGN | {"links": "multicast"})
    problem, budget = MappingProblem(computation, architecture), Budget(evaluations=3)
    mapping = create("random").map(problem, Objective.EDP, budget=budget, seed=36).mapping
    assert mapping is not None
    p = replace(parameters_of(architecture, computation, 8, 32, "machine"), scratchpad_bytes=640)
    plan, times = best_timed_plan(computation, architecture, mapping, p)
    operands_first = plan.in_layout(plan.layout)
    assert len(plan.halves["O"]) == 2 > len(operands_first.halves["O"])
    assert times.cycles < nest_times(operands_first).cycles


def test_a_local_memory_with_room_for_two_tiles_hides_filling() -> None:
    plan = annealed(dataflow="row-stationary", local_bytes=64)
    assert plan.p.fills_beside
    used = sum(math.prod(plan.local_tile(q)) * plan.chip_bytes(q) for q in "ABO")
    architecture = SCRATCHPAD.build(DESIGN | {"links": "multicast", "dataflow": "row-stationary", "local_bytes": 64})
    p = replace(plan.p, local_bytes=-(-used // 4) * 4)
    cramped = NestPlan(plan.computation, architecture, plan.mapping, p)
    assert sum(map(len, cramped.local_halves.values())) < sum(map(len, plan.local_halves.values()))
    assert nest_times(plan).cycles < nest_times(cramped).cycles


def test_halves_of_local_memories_never_overlap() -> None:
    for local_bytes in (64, 128, 512):
        plan = annealed(dataflow="row-stationary", local_bytes=local_bytes)
        taken: set[int] = set()
        for port, halves in plan.local_halves.items():
            size = math.prod(plan.local_tile(port)) * plan.chip_bytes(port)
            for start in halves:
                words = set(range(start, start + size))
                assert not words & taken
                taken |= words
        assert max(taken) < local_bytes
