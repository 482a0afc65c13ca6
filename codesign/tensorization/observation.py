"""What a learned search sees of a candidate: the computation, the hardware and the current program as one vector.

Fixed length for all computations of up to `MAX_DIMS` dimensions and `MAX_TENSORS` tensors; logarithms to base 2, scaled to about [-1, 1].
The last `REVISIONS` entries are the mask of revise choices, so that whoever reads the vector knows what is possible.
"""

import math

import numpy as np
import numpy.typing as npt

from codesign.core.errors import UserError
from codesign.core.jit import njit
from codesign.mapping.nest import FloatArray, IntArray
from codesign.tensorization.encoding import MAX_CHOICES, ProgramArrays, SoftwareProblem
from codesign.tensorization.intrinsic_core import LOCAL, SCRATCHPAD
from codesign.tensorization.revisions import (
    CHOICE,
    FIRST_CALLS,
    FUSED,
    MAX_DIMS,
    REVISIONS,
    mask_revisions,
    revise,
    score_candidate,
    total_calls,
)
from codesign.tensorization.scoring import (
    ARRAY,
    DRAM_TIME,
    FIRST_TENSOR,
    FITS,
    HOST,
    LATENCY,
    OVERLAP,
    TRIPS,
    USED_BITS,
)

FloatVector = npt.NDArray[np.float32]

MAX_TENSORS = 4
_DIM_STATIC, _DIM_MOVING, _TENSOR_MOVING, _CORE, _MOVING = 3 + 2 * MAX_TENSORS, 6, 3, 12, MAX_CHOICES + 9
STATIC = _DIM_STATIC * MAX_DIMS + _CORE + 2 * MAX_CHOICES
FIRST_MASK = STATIC + _DIM_MOVING * MAX_DIMS + _TENSOR_MOVING * MAX_TENSORS + _MOVING
OBSERVATION = FIRST_MASK + REVISIONS
"""Length of an observation."""

VERSION = 0
"""Changes whenever an entry changes its meaning: policies trained on another version are refused."""

NO_SUCH_REVISION = 2
"""Status of a revision that does not exist for a candidate (next to `FITS` and `TOO_LARGE`)."""


def static_features(problem: SoftwareProblem) -> FloatVector:
    """The part that no revision changes: ``STATIC``.

    Raises:
        UserError: More dimensions or tensors than an observation has room for.
    """
    computation, core = problem.computation, problem.core
    for what, count, limit in (
        ("dimensions", len(computation.dims), MAX_DIMS),
        ("tensors", len(computation.tensors), MAX_TENSORS),
    ):
        if count > limit:
            raise UserError(
                f"a learned search takes at most {limit} {what}, got {count}",
                where=str(computation),
                hint="use the heuristic or annealing",
            )
    values = np.zeros(STATIC, np.float32)
    for d, (dim, bound) in enumerate(computation.sizes.items()):
        row = values[d * _DIM_STATIC : (d + 1) * _DIM_STATIC]
        row[0], row[1], row[2] = 1.0, math.log2(bound) / 12, float(dim in computation.reduced_dims)
        for t, tensor in enumerate((*computation.inputs, computation.output)):
            place = MAX_TENSORS - 1 if tensor.is_output else t
            row[3 + place] = float(dim in tensor.dims)
            row[3 + MAX_TENSORS + place] = float(bool(tensor.axes) and dim in dict(tensor.axes[-1].terms))
    scratchpad, local = core.architecture.levels[SCRATCHPAD], core.architecture.levels[LOCAL]
    place = _DIM_STATIC * MAX_DIMS
    values[place : place + _CORE] = [
        math.log2(scratchpad.fanout.x) / 6,
        math.log2(scratchpad.fanout.y) / 6,
        math.log2((scratchpad.capacity_bytes or 1e9) / 2**17) / 4,
        math.log2((local.capacity_bytes or 1e9) / 64) / 4,
        math.log2(scratchpad.words_per_cycle[0] or 64.0) / 4,
        math.log2(core.dma.bus_bytes / 8) / 4,
        math.log2(core.dma.burst_bytes / 64) / 4,
        math.log2(core.call_cycles) / 12,
        math.log2(core.intrinsic.computation.macs) / 16,
        core.overheads.array / 64,
        float(scratchpad.fanout.links.value == "none"),
        len(problem.choices) / MAX_CHOICES,
    ]
    place += _CORE
    for c, choice in enumerate(problem.choices):
        values[place + c] = 1.0
        values[place + MAX_CHOICES + c] = math.log2(choice.executed_macs / computation.macs) / 8
    return values


@njit
def _log2(value: float) -> float:
    return np.log2(max(1.0, value))  # type: ignore[no-any-return]


@njit
def observe(
    problem: ProgramArrays,
    static: FloatVector,
    candidate: IntArray,
    result: FloatArray,
    mask: IntArray,
    out: FloatVector,
) -> None:
    """Write the observation of a candidate with its score and mask into `out` (``OBSERVATION``)."""
    n_dims, n_tensors = problem.bounds.shape[0], problem.bits.shape[0]
    out[:] = 0.0
    out[:STATIC] = static
    choice = candidate[CHOICE]
    hosts = 0
    for at in range(n_dims):
        d = candidate[FIRST_CALLS + n_dims + at]
        total, calls = total_calls(problem, choice, d), candidate[FIRST_CALLS + d]
        trips = -(-total // calls)
        first = STATIC + d * _DIM_MOVING
        out[first] = _log2(problem.tile[choice, d]) / 6
        out[first + 1] = _log2(calls) / 10
        out[first + 2] = _log2(trips) / 10
        out[first + 5] = _log2(trips * calls * problem.tile[choice, d] / problem.bounds[d]) / 4
        if trips > 1:
            hosts += 1
            out[first + 3] = hosts / MAX_DIMS
    inners = 0
    for at in range(n_dims):
        d = candidate[FIRST_CALLS + 2 * n_dims + at]
        if candidate[FIRST_CALLS + d] > 1:
            inners += 1
            out[STATIC + d * _DIM_MOVING + 4] = inners / MAX_DIMS
    latency = result[LATENCY]
    for t in range(n_tensors):
        first = STATIC + _DIM_MOVING * MAX_DIMS + _TENSOR_MOVING * (MAX_TENSORS - 1 if t == n_tensors - 1 else t)
        out[first] = result[FIRST_TENSOR + 2 * t] / latency
        out[first + 1] = _log2(result[FIRST_TENSOR + 2 * t + 1] * problem.bits[t] / 8) / 10
        out[first + 2] = 1.0 if problem.stationary[choice] == t else 0.0
    first = STATIC + _DIM_MOVING * MAX_DIMS + _TENSOR_MOVING * MAX_TENSORS
    out[first + choice] = 1.0
    first += MAX_CHOICES
    ideal = 1.0
    for d in range(n_dims):
        ideal *= problem.bounds[d]
    fan_x, fan_y = problem.kernel.level_int[SCRATCHPAD, 1], problem.kernel.level_int[SCRATCHPAD, 2]
    out[first] = min(candidate[FUSED], max(1, hosts)) / MAX_DIMS
    out[first + 1] = hosts / MAX_DIMS
    out[first + 2] = result[USED_BITS] / problem.kernel.level_int[SCRATCHPAD, 0]
    out[first + 3] = _log2(latency * fan_x * fan_y / ideal) / 8
    out[first + 4] = result[ARRAY] / latency
    out[first + 5] = result[DRAM_TIME] / latency
    out[first + 6] = result[HOST] / latency
    out[first + 7] = _log2(result[OVERLAP]) / 10
    out[first + 8] = _log2(result[TRIPS]) / 12
    for r in range(REVISIONS):
        out[FIRST_MASK + r] = mask[r]


@njit
def look(
    problem: ProgramArrays,
    static: FloatVector,
    candidate: IntArray,
    room: IntArray,
    result: FloatArray,
    mask: IntArray,
    out: FloatVector,
) -> None:
    """Mask and observation of a candidate that has been scored. `room` is a row to work in."""
    mask_revisions(problem, candidate, room, mask)
    observe(problem, static, candidate, result, mask, out)


@njit
def advance(
    problem: ProgramArrays,
    static: FloatVector,
    candidate: IntArray,
    revision: int,
    room: IntArray,
    loops: IntArray,
    result: FloatArray,
    mask: IntArray,
    out: FloatVector,
) -> int:
    """Revise a candidate in place, score it, and write its result, mask and observation.

    Returns:
        `FITS`, or why nothing was written: `NO_SUCH_REVISION` or `TOO_LARGE`.
    """
    room[:] = candidate
    if not revise(problem, room, revision):
        return NO_SUCH_REVISION
    before = result.copy()
    status = score_candidate(problem, room, loops, result)
    if status != FITS:
        result[:] = before
        return status
    candidate[:] = room
    look(problem, static, candidate, room, result, mask, out)
    return FITS
