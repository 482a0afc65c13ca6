"""Generated machines run what mappers and the program generator give them: results, accesses and cycles."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.cost.cost import Infeasible
from codesign.hardware.core_plan import CorePlan, core_parameters
from codesign.hardware.execute import Job, core_job, execute, nest_job, random_values
from codesign.hardware.nest_loops import parameters_of
from codesign.hardware.nest_plan import NestPlan
from codesign.hardware.rtl.machine import register_map
from codesign.hardware.simulate import simulate_in_python
from codesign.mappers.registry import create
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import LevelMapping, Mapping
from codesign.tensorization.core_program import program_on_core
from codesign.tensorization.encoding import SoftwareProblem
from codesign.workloads.computation import Computation
from spaces.cores import DOT_CORE, core_of
from spaces.parameters import Value
from spaces.scratchpad import SCRATCHPAD
from spaces.software import SoftwareSpace

CONV = Computation.parse("O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]", k=4, c=2, p=3, q=2, r=2, s=2, bits=8, partial_bits=32)
GEMM = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=6, j=4, k=8, bits=8, partial_bits=32)
DESIGN: dict[str, Value] = {
    "pe_rows": 4,
    "pe_cols": 4,
    "links": "systolic",
    "scratchpad_kib": 32,
    "local_bytes": 64,
    "banks": 2,
    "burst_beats": 4,
    "bus_bits": 64,
    "dataflow": "weight-stationary",
}


def nest_case(computation: Computation, seed: int, **changes: Value) -> Job:
    design = DESIGN | changes
    architecture = SCRATCHPAD.build(design)
    budget = Budget(evaluations=20)
    found = create("random").map(MappingProblem(computation, architecture), Objective.EDP, budget=budget, seed=seed)
    assert found.mapping is not None
    bus = int(design["bus_bits"]) // 8
    p = parameters_of(architecture, computation, bus, bus * int(design["burst_beats"]), "machine")
    return nest_job(computation, architecture, found.mapping, p, register_map(p))


def check(job: Job, seed: int = 0) -> None:
    verdict = execute(job, random_values(job.computation, np.random.default_rng(seed)), simulate_in_python)
    assert verdict.wrong is None
    assert verdict.differences == ()
    assert verdict.run.cycles == job.predicted_cycles


@pytest.mark.parametrize(
    ("computation", "changes"),
    [
        (CONV, {}),
        (CONV, {"links": "none", "banks": 1, "bus_bits": 128}),
        (GEMM, {"links": "multicast", "dataflow": "output-stationary"}),
        (GEMM, {"dataflow": "row-stationary", "banks": 4, "bus_bits": 32}),
    ],
)
@pytest.mark.thinned(3)
def test_a_random_mapping_gives_einsum_s_integers_the_model_s_accesses_and_the_predicted_cycles(
    computation: Computation, changes: dict[str, Value]
) -> None:
    check(nest_case(computation, 3, **changes))


def test_a_program_on_a_core_too() -> None:
    design = {
        "pe_rows": 4,
        "pe_cols": 4,
        "links": "systolic",
        "scratchpad_kib": 128,
        "local_bytes": 64,
        "banks": 3,
        "bus_bits": 128,
        "burst_bytes": 64,
    }
    core = core_of(DOT_CORE, design)
    computation = Computation.parse("y[i] += M[i,k] * x[k]", i=3, k=32, bits=8, partial_bits=32)
    space = SoftwareSpace(SoftwareProblem.of(computation, core))
    found = next(
        p for p in (space.program(row) for row in space.sample(8, 1)) if p.schedule.padded.sizes == computation.sizes
    )
    program = program_on_core(found)
    assert not isinstance(program, Infeasible)
    p = core_parameters(core, "machine")
    check(core_job(program, found.mapping, core, p, register_map(p)))


def test_a_wrong_operand_is_found_with_its_address() -> None:
    job = nest_case(GEMM, 3)
    values = random_values(GEMM, np.random.default_rng(0))

    def broken(image, memory):  # type: ignore[no-untyped-def]
        run = simulate_in_python(image, memory)
        layout = image.layouts["O"]
        spoilt = bytearray(run.memory)
        spoilt[layout.base + 1] ^= 0xFF
        return replace(run, memory=bytes(spoilt))

    verdict = execute(job, values, broken)
    assert verdict.wrong is not None
    assert verdict.wrong[1] == job.image.layouts["O"].base + 1
    assert verdict.wrong_elements == 1
    assert 0 < verdict.wrong_cycle <= verdict.run.cycles


def _even(keep: tuple[str, ...], local: tuple[str, ...]) -> Mapping:
    return Mapping.from_levels(
        [
            LevelMapping("DRAM", ("M", "N", "L"), (("i", 6),)),
            LevelMapping("Scratchpad", keep, (("j", 4), ("k", 8))),
            LevelMapping("Local", local),
        ]
    )


def test_a_mapping_that_bypasses_the_scratchpad_is_refused_with_its_rule() -> None:
    architecture = SCRATCHPAD.build(DESIGN)
    p = parameters_of(architecture, GEMM, 8, 32, "machine")
    with pytest.raises(UserError, match=r"'M' is kept at DRAM, this machine keeps it at DRAM, Scratchpad \(rule G2\)"):
        NestPlan(GEMM, architecture, _even(("N", "L"), ("N",)), p)


def test_a_nest_with_more_loops_than_the_machine_is_refused() -> None:
    architecture = SCRATCHPAD.build(DESIGN)
    p = replace(parameters_of(architecture, GEMM, 8, 32, "machine"), outer_loops=1, run_loops=1)
    with pytest.raises(UserError, match=r"3 temporal loops outside the array's nest, the machine has 1 \(rule G3\)"):
        NestPlan(GEMM, architecture, _even(("M", "N", "L"), ("N",)), p)


def test_operands_of_16_bits_are_refused() -> None:
    wide = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=6, j=4, k=8, bits=16, partial_bits=32)
    architecture = SCRATCHPAD.build(DESIGN)
    p = parameters_of(architecture, wide, 8, 32, "machine")
    with pytest.raises(UserError, match=r"operand 'M' has 16 bits, elements multiply 8 \(rule G4\)"):
        NestPlan(wide, architecture, _even(("M", "N", "L"), ("N",)), p)


def test_a_program_of_another_core_is_refused() -> None:
    small, large = (
        core_of(
            DOT_CORE,
            {
                "pe_rows": n,
                "pe_cols": 4,
                "links": "none",
                "scratchpad_kib": 128,
                "local_bytes": 64,
                "banks": 1,
                "bus_bits": 64,
                "burst_bytes": 64,
            },
        )
        for n in (4, 8)
    )
    computation = Computation.parse("y[i] += M[i,k] * x[k]", i=3, k=32, bits=8, partial_bits=32)
    space = SoftwareSpace(SoftwareProblem.of(computation, small))
    program = program_on_core(space.program(space.sample(1, 1)[0]))
    assert not isinstance(program, Infeasible)
    with pytest.raises(UserError, match="it is of another core"):
        CorePlan(program, large, core_parameters(large, "machine"))
