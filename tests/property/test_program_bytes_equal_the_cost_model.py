"""Generated programs in the simulator: einsum's numbers, and DRAM bytes equal to what the cost model counts."""

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, LevelKind, StorageLevel
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost, evaluate
from codesign.tensorization.choice import TensorizeChoice, choices
from codesign.tensorization.execute import affine_einsum, random_inputs
from codesign.tensorization.gemmini import GemminiMemory, GemminiProgram, gemmini_program
from codesign.tensorization.gemmini_simulator import simulate_gemmini
from codesign.tensorization.intrinsics import intrinsic
from codesign.tensorization.program import Program, generate_program
from codesign.tensorization.schedule import Schedule, schedule_from_mapping, schedule_from_tiles
from codesign.tensorization.scratchpad import Scratchpad
from codesign.tensorization.simulator import simulate, wrapped
from codesign.workloads.computation import Computation

LIMITS = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
NOTATIONS = (
    "L[i,j] += M[i,k] * N[k,j]",
    "C[i,j,k] += A[i,j,l] * B[l,k]",
    "D[i,j] += A[i,k,l] * B[l,j] * C[k,j]",
    "C[k,x,y] += A[c,x+r,y+s] * B[k,c,r,s]",
    "C[x,k] += A[2*x+r,c] * B[r,c,k]",
    "C[c,x] += A[c,x+2*r] * B[c,r]",
)
ACCESS = AccessEnergy(1.0, 1.0, 1.0)
MACHINE = Architecture(
    "two levels",
    (
        StorageLevel("DRAM", LevelKind.DRAM, word_bits=8, energy=ACCESS),
        StorageLevel("Scratchpad", word_bits=8, energy=ACCESS),
    ),
    mac=Arithmetic(energy_pj=1.0),
)


@st.composite
def schedules(draw: st.DrawFn, units: tuple[str, ...]) -> Schedule:
    """A random choice with random tiles, loop order and storage depths."""
    notation = draw(st.sampled_from(NOTATIONS))
    dims = sorted({c for c in notation if c.islower()})
    computation = Computation.parse(
        notation, {d: draw(st.integers(1, 5)) for d in dims}, bits=8, partial_bits=draw(st.sampled_from([8, 32]))
    )
    if units == ("gemm",):
        computation = computation.with_bits(8, 32)
    known = intrinsic(draw(st.sampled_from(units)))
    unit = intrinsic(known.name, {d: draw(st.integers(1, 3)) for d in known.computation.dims})
    found = choices(computation, unit, partial=True)
    if not found:
        unit = intrinsic("dot", "2")
        found = choices(computation, unit)
    choice = draw(st.sampled_from(found))
    tiles = {d: draw(st.integers(1, 5)) for d in computation.dims}
    plain = schedule_from_tiles(choice, tiles, draw(st.permutations(computation.dims)))
    names = draw(st.lists(st.sampled_from([t.name for t in computation.tensors]), unique=True, max_size=2))
    return Schedule(choice, plain.host, plain.inner, {n: draw(st.integers(0, len(plain.host))) for n in names})


@LIMITS
@given(schedules(("dot", "gemv", "gemm", "conv2d")), st.sampled_from([1, 2, 4, 8]), st.integers(0, 9))
def test_ragged_programs_give_the_right_numbers(schedule: Schedule, banks: int, seed: int) -> None:
    program = generate_program(schedule, Scratchpad(1 << 13, banks))
    assert isinstance(program, Program)
    computation = schedule.choice.computation
    inputs = random_inputs(computation, seed)
    result = simulate(program.to_json(), inputs)
    assert np.array_equal(result.output, wrapped(affine_einsum(computation, inputs), 1))
    assert result.calls == schedule.choice.calls


@LIMITS
@given(schedules(("dot", "gemv", "gemm", "conv2d")), st.sampled_from([Reuse.RESIDENT, Reuse.WALK]))
def test_dram_bytes_equal_the_cost_model(schedule: Schedule, reuse: Reuse) -> None:
    padded = TensorizeChoice(schedule.padded, schedule.choice.intrinsic, schedule.choice.match)
    whole = Schedule(padded, schedule.host, schedule.inner, schedule.depth)
    mapping = whole.to_mapping("DRAM", "Scratchpad")
    program = generate_program(whole, Scratchpad(1 << 13, 4), reuse=reuse)
    cost = evaluate(padded.computation, MACHINE, mapping, reuse=reuse)
    assert isinstance(program, Program)
    assert isinstance(cost, Cost)
    result = simulate(program.to_json(), random_inputs(padded.computation, 0))
    assert result.dram_bytes == cost.dram_bytes
    traffic = {t.tensor: (t.reads, t.updates) for t in cost.levels[0].tensors}
    counted = {t: (result.dram_read_bytes[t], result.dram_write_bytes[t]) for t in result.dram_read_bytes}
    assert counted == traffic  # elements are one byte wide in DRAM
    assert sum(b.size_bytes for b in program.buffers) == cost.levels[1].used_bytes
    again = schedule_from_mapping(padded, mapping)
    assert again.to_mapping("DRAM", "Scratchpad") == mapping


@LIMITS
@given(schedules(("gemm",)), st.integers(0, 9))
def test_gemmini_programs_give_the_right_numbers(schedule: Schedule, seed: int) -> None:
    choice = schedule.choice
    assume(len(choice.intrinsic.computation.dims) == 3)  # the fallback to dot is no matrix product
    assume(not choice.match.scalars and all(o.tensor is not None for o in choice.match.operands))
    program = generate_program(schedule, Scratchpad(1 << 13, 4))
    assert isinstance(program, Program)
    translated = gemmini_program(program, GemminiMemory(1 << 14, 1 << 15))
    assert isinstance(translated, GemminiProgram)
    inputs = random_inputs(choice.computation, seed)
    blank = np.full(choice.computation.output.shape(choice.computation.sizes), 77, np.int8)
    result = simulate_gemmini(translated, inputs, (choice.computation.output.name, blank))
    assert np.array_equal(result.output, wrapped(affine_einsum(choice.computation, inputs), 1))
    assert result.computes == choice.calls
