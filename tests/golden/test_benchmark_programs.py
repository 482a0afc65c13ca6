"""Generated programs of the benchmark shapes, scaled down, run in the simulator and equal einsum on every intrinsic."""

import json

import numpy as np
import pytest

from codesign.tensorization.choice import choices
from codesign.tensorization.execute import affine_einsum, random_inputs
from codesign.tensorization.intrinsics import BUILT_IN_INTRINSICS, intrinsic
from codesign.tensorization.program import Program, generate_program
from codesign.tensorization.schedule import schedule_from_tiles
from codesign.tensorization.scratchpad import Scratchpad
from codesign.tensorization.simulator import simulate, wrapped
from codesign.tensorization.stages import split_stages
from codesign.workloads.computation import Computation
from tests.reference_data import supporting_files

(DATA,) = supporting_files("hasco", "benchmarks.json")
TESTBENCH = json.loads(DATA.read_text())["testbench"]
PLAIN = {  # dimensions in the order of the file, notation
    "GEMM": ("mnk", "L[m,n] += A[m,k] * B[k,n]"),
    "GEMV": ("mnl", "E[m,n] += C[n,m,l] * D[n,l]"),
    "TTM": ("mnkl", "C[m,n,k] += A[m,n,l] * B[l,k]"),
    "MTTKRP": ("mnkl", "D[m,n] += A[m,k,l] * B[n,k] * C[n,l]"),
}
SHRINK = 64
SIZES = {"dot": "4", "gemv": "4x4", "gemm": "4x4x4", "conv2d": "2x4x2x2x3x3"}


def _small(size: int) -> int:
    return max(1, -(-size // SHRINK)) + (1 if size > 1 else 0)


def _convolution(shape: list[int], *, depthwise: bool) -> Computation:
    n, c, y, x, k, r, s, stride = shape
    sizes = {
        "n": n,
        "c": _small(c),
        "p": min(4, (y - r) // stride + 1),
        "q": min(3, (x - s) // stride + 1),
        "r": r,
        "s": s,
    }
    window = f"{stride}*p+r,{stride}*q+s" if stride > 1 else "p+r,q+s"
    if depthwise:
        return Computation.parse(f"O[n,c,m,p,q] += I[n,c,{window}] * W[c,m,r,s]", {**sizes, "m": k})
    return Computation.parse(f"O[n,k,p,q] += I[n,c,{window}] * W[k,c,r,s]", {**sizes, "k": _small(k)})


def _cases() -> dict[str, Computation]:
    found: dict[str, Computation] = {}
    for kind, (dims, notation) in PLAIN.items():
        for shape in TESTBENCH[kind]:
            bounds = {d: _small(size) for d, size in zip(dims, shape, strict=True)}
            found[f"{kind} {shape}"] = Computation.parse(notation, bounds)
    for shape in [*TESTBENCH["CONV"], *TESTBENCH["LENET"]["conv"]]:
        found[f"CONV {shape}"] = _convolution(shape, depthwise=False)
    for shape in TESTBENCH["DWCONV"]:
        found[f"DWCONV {shape}"] = _convolution(shape, depthwise=True)
    return {name: computation.with_bits(8, 32) for name, computation in found.items()}


CASES = _cases()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.thinned(3)
def test_programs_equal_einsum(name: str) -> None:
    arrays = random_inputs(CASES[name], 7)
    whole = affine_einsum(CASES[name], arrays)
    used: set[str] = set()
    for stage in split_stages(CASES[name]):
        inputs = {t.name: wrapped(arrays[t.name], 1).astype(np.int64) for t in stage.inputs}
        arrays[stage.output.name] = affine_einsum(stage, inputs)
        for unit in BUILT_IN_INTRINSICS:
            found = choices(stage, intrinsic(unit, SIZES[unit]), partial=True)
            used.update({unit} if found else ())
            for choice in found[:1]:
                program = generate_program(
                    schedule_from_tiles(choice, dict.fromkeys(stage.dims, 4)), Scratchpad(1 << 15, 4)
                )
                assert isinstance(program, Program)
                result = simulate(program.to_json(), inputs)
                assert np.array_equal(result.output, wrapped(arrays[stage.output.name], 1)), choice.match
    assert {"dot", "gemv", "gemm"} <= used
    assert np.array_equal(wrapped(arrays[CASES[name].output.name], 1), wrapped(whole, 1))
