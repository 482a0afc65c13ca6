"""Programs of cores, padded and whole: K7 holds, and commands move what the cost model counts, block by block."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Infeasible, evaluate
from codesign.hardware.core_blocks import local_words
from codesign.hardware.core_plan import CorePlan, core_parameters
from codesign.hardware.execute import Job, core_job, execute, program_traffic, random_values
from codesign.hardware.port_counts import counts_of_cost, counts_of_program
from codesign.hardware.queue_image import core_image
from codesign.hardware.rtl.machine import register_map
from codesign.hardware.simulate import simulate_in_python
from codesign.hardware.streams import CoreImage
from codesign.hardware.words import Command
from codesign.tensorization.core_program import program_on_core
from codesign.tensorization.encoding import SoftwareProblem
from codesign.tensorization.intrinsic_core import Core
from codesign.tensorization.program import Program, generate_program
from codesign.tensorization.program_cost import CallProgram
from codesign.tensorization.schedule import Loop, Schedule
from codesign.tensorization.scratchpad import scratchpad_of
from codesign.workloads.computation import Computation
from experiments.hardware_agreement import CORE_NOTATIONS, draw_design, with_widths
from spaces.cores import CORE_SPACES, core_of
from spaces.parameters import Value
from spaces.software import SoftwareSpace

CONVOLUTION = "O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]"
Drawn = tuple[Program, CallProgram, Job, CoreImage]


def drawn_computation(rng: np.random.Generator, core: Core, notation: str, *, pads: bool) -> Computation:
    """Bounds of up to three calls, not whole ones if it pads; a result of 1, 2 or 4 bytes."""
    dims = sorted({d for d in "ijkpqcrs" if d in notation.replace("*", "")})
    draft = Computation.parse(notation, dict.fromkeys(dims, 2), bits=8, partial_bits=32)
    choices = SoftwareProblem.of(draft, core).choices
    choice = choices[int(rng.integers(len(choices)))]
    sizes = {d: int(rng.integers(1, 4)) for d in draft.dims}
    for index, dim in choice.match.index_map:
        call = core.intrinsic.computation.sizes[index]
        sizes[dim] = int(rng.integers(1, 2 * call + 1)) if pads else call * int(rng.integers(1, 4))
    return with_widths(Computation.parse(notation, sizes, bits=8, partial_bits=32), int(rng.choice([8, 16, 32])))


def programs(seed: int, family: str, outstanding: int, *, pads: bool) -> Iterator[Drawn]:
    """Programs on random designs of a family, without end."""
    rng = np.random.default_rng([seed, sorted(CORE_SPACES).index(family)])
    while True:
        core = core_of(CORE_SPACES[family], draw_design(CORE_SPACES[family], rng, 8, {}))
        notation = CORE_NOTATIONS[family][int(rng.integers(len(CORE_NOTATIONS[family])))]
        computation = drawn_computation(rng, core, notation, pads=pads)
        if np.prod(list(computation.sizes.values())) > 400_000:
            continue
        space = SoftwareSpace(SoftwareProblem.of(computation, core))
        p = replace(core_parameters(core, "m"), outstanding=outstanding)
        for row in space.sample(4, int(rng.integers(1 << 30))):
            found = space.program(row)
            program = program_on_core(found)
            if (found.schedule.padded.sizes != computation.sizes) != pads or isinstance(program, Infeasible):
                continue
            try:
                job = core_job(program, found.mapping, core, p, register_map(p))
            except UserError:  # factors that scale (G6), or more blocks than fit (G4)
                continue
            yield program, found, job, core_image(CorePlan(program, core, p), register_map(p))


@cache
def first(seed: int, family: str, outstanding: int, count: int, *, pads: bool) -> tuple[Drawn, ...]:
    """The first programs of a seed."""
    drawn = programs(seed, family, outstanding, pads=pads)
    return tuple(next(drawn) for _ in range(count))


def fills(made: CoreImage) -> dict[str, int]:
    """By tensor in local memories, words that the commands bring in."""
    p, image = made.image.parameters, made.image
    return {
        image.layouts[port].tensor: sum(s.items for s in made.shapes if s.kind == kind)
        * sum(w.taken for w in image.windows[port])
        for kind, port in ((Command.FILL_A, "A"), (Command.FILL_B, "B"))
        if port in p.local and port in image.layouts
    }


@pytest.mark.parametrize("outstanding", [1, 16])
@pytest.mark.parametrize("family", sorted(CORE_SPACES))
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow("oracle"))])
@pytest.mark.thinned(3)
def test_no_padded_program_is_faster_than_its_analytical_cycles(seed: int, family: str, outstanding: int) -> None:
    for program, _, job, made in first(seed, family, outstanding, 6 if seed == 0 else 50, pads=True):
        assert job.counted_cycles <= job.analytic_cycles <= job.predicted_cycles
        counts = counts_of_program(made)
        words = {t.name: t.bits // 8 for t in job.computation.tensors}
        moved = program_traffic(program)
        assert counts.loaded == sum(n[0] * words[t] for (_, t), n in moved.items())
        assert counts.stored == sum(n[2] * words[t] for (_, t), n in moved.items())


@pytest.mark.parametrize("family", sorted(CORE_SPACES))
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow("oracle"))])
def test_commands_of_whole_programs_move_what_the_cost_model_counts(seed: int, family: str) -> None:
    for program, found, job, made in first(seed, family, 16, 4 if seed == 0 else 40, pads=False):
        cost = evaluate(job.computation, found.core.scored, found.mapping, reuse=Reuse.WHOLE)
        assert not isinstance(cost, Infeasible)
        output = job.computation.output.name
        mine = counts_of_program(made)
        model = counts_of_cost(cost, job.computation)
        assert (mine.steps, mine.loaded, mine.stored) == (model.steps, model.loaded, model.stored)
        assert (mine.filled, mine.updated) == (model.filled, model.updated)
        assert mine.reads[output] <= model.reads[output]
        for tensor in (t.name for t in job.computation.inputs if t.name in mine.reads):
            assert mine.reads[tensor] == job.expected["scratchpad", tensor][0]
        assert fills(made) == {tensor: job.expected["local", tensor][1] for tensor in fills(made)}
        assert {k: n for k, n in job.expected.items() if k[0] == "DRAM"} == program_traffic(program)
        assert job.analytic_cycles <= job.predicted_cycles


def written(
    family: str, design: dict[str, Value], computation: Computation, host: tuple[Loop, ...], inner: tuple[Loop, ...]
) -> CallProgram:
    """A program with these loops, of the first choice that covers the bounds without padding."""
    space = CORE_SPACES[family]
    chosen = {p.name: next(iter(p.choices)) for p in space.space.parameters} | design
    core = core_of(space, chosen)
    for choice in SoftwareProblem.of(computation, core).choices:
        try:
            schedule = Schedule(choice, host, inner)
        except UserError:
            continue
        if schedule.padded.sizes == computation.sizes:
            return CallProgram(core, schedule, (1,) * len(schedule.host))
    raise AssertionError("no choice has these loops")


def job_of(found: CallProgram, outstanding: int = 16) -> Job:
    """The program on its machine."""
    memory = scratchpad_of(found.core.architecture, found.core.architecture.levels[1].name)
    program = generate_program(found.schedule, memory, reuse=Reuse.RESIDENT)
    assert not isinstance(program, Infeasible)
    p = replace(core_parameters(found.core, "m"), outstanding=outstanding)
    return core_job(program, found.mapping, found.core, p, register_map(p))


def sliding(**sizes: int) -> Computation:
    """A convolution with results of two bytes."""
    return with_widths(Computation.parse(CONVOLUTION, sizes, bits=8, partial_bits=32), 16)


def test_a_call_gives_neighbouring_positions_to_neighbouring_columns() -> None:
    """Calls of 8 positions, three beside each other and two taps: a column wants 6 words, three neighbours with two taps only 4."""
    found = written(
        "gemmcore",
        {"dataflow": "weight-stationary"},
        sliding(k=8, p=3, q=24, c=8, r=3, s=2),
        host=(("p", 3), ("r", 3)),
        inner=(("q", 3), ("s", 2)),
    )
    assert found.core.stationary_tensor(found.schedule.choice) == "I"
    assert local_words(found.core, found.schedule) == (6, 4)
    assert job_of(found).expected["local", "I"] == (3 * 24 * 64 * 6, 9 * 64 * 6, 0)


@pytest.mark.parametrize("outstanding", [1, 16])
@pytest.mark.thinned(2)
def test_a_tile_that_slid_there_and_back_is_not_loaded_again(outstanding: int) -> None:
    """Host loops q and s step I by one position each: of six tiles in a row two are the one before (R4)."""
    found = written(
        "dotcore",
        {"pe_rows": 4, "pe_cols": 4},
        sliding(k=2, p=2, q=3, c=16, r=1, s=2),
        host=(("q", 3), ("s", 2)),
        inner=(("k", 2), ("p", 2)),
    )
    job = job_of(found, outstanding)
    assert job.expected["DRAM", "I"] == (4 * 32, 0, 0)
    verdict = execute(job, random_values(job.computation, np.random.default_rng(outstanding)), simulate_in_python)
    assert verdict.wrong is None
    assert not verdict.differences
    assert verdict.run.cycles == job.predicted_cycles >= job.analytic_cycles
