"""Proof by execution: run the tiled program of a choice on numbers, one NumPy call per intrinsic call.

This is independent of the cost model and of the generated programs: it takes operand blocks straight from the arrays.
"""

from collections.abc import Mapping as MappingABC
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from codesign.core.errors import UserError
from codesign.tensorization.choice import TensorizeChoice
from codesign.tensorization.intrinsics import Intrinsic
from codesign.tensorization.matching import OperandMap
from codesign.workloads.computation import Computation, Tensor

Array = npt.NDArray[Any]


def random_inputs(computation: Computation, seed: int) -> dict[str, Array]:
    """Small random integers (64 bit, so that every sum is exact) for each input."""
    rng = np.random.default_rng(seed)
    return {t.name: rng.integers(-8, 9, t.shape(computation.sizes), dtype=np.int64) for t in computation.inputs}


def affine_einsum(computation: Computation, inputs: MappingABC[str, Array]) -> Array:
    """What the computation yields, by `numpy.einsum` over strided views (one view axis per dimension).

    Args:
        computation: The operator; sums of dimensions may index inputs and output.
        inputs: Array by tensor name, of the tensor's extents.

    Raises:
        UserError: An array is missing or has another shape.
    """
    letters = {d: chr(ord("a") + i) if i < 26 else chr(ord("A") + i - 26) for i, d in enumerate(computation.dims)}
    views, subscripts = [], []
    for tensor in computation.inputs:
        array = _given(computation, tensor, inputs)
        dims = [d for d in computation.dims if d in tensor.dims]
        strides = [
            sum(
                c * stride
                for axis, stride in zip(tensor.axes, array.strides, strict=True)
                for e, c in axis.terms
                if e == d
            )
            for d in dims
        ]
        shape = [computation.sizes[d] for d in dims]
        views.append(np.lib.stride_tricks.as_strided(array, shape, strides, writeable=False))
        subscripts.append("".join(letters[d] for d in dims))
    in_inputs = {d for t in computation.inputs for d in t.dims}
    out_dims = [d for d in computation.dims if d in computation.output.dims and d in in_inputs]
    spec = f"{','.join(subscripts)}->{''.join(letters[d] for d in out_dims)}"
    return _scatter(computation, out_dims, np.einsum(spec, *views))


def _given(computation: Computation, tensor: Tensor, inputs: MappingABC[str, Array]) -> Array:
    if tensor.name not in inputs:
        raise UserError(f"no array given for tensor {tensor.name!r}", where=str(computation))
    array, shape = inputs[tensor.name], tensor.shape(computation.sizes)
    if array.shape != shape:
        raise UserError(f"array of {tensor.name!r} must have shape {shape}, got {array.shape}", where=str(computation))
    return array


def _scatter(computation: Computation, out_dims: list[str], values: Array) -> Array:
    """Values by dimension, added up at their place in the output (two of them may share one: ``O[x+r]``)."""
    output = computation.output
    shape = output.shape(computation.sizes)
    grids = np.indices(values.shape) if values.ndim else np.zeros((0,), np.int64)
    position = {d: grids[i] for i, d in enumerate(out_dims)}
    place = tuple(
        sum((c * position[d] for d, c in axis.terms if d in position), np.zeros(values.shape, np.int64))
        for axis in output.axes
    )
    result = np.zeros(shape, values.dtype)
    np.add.at(result, place, values)
    for dim in output.dims.difference(out_dims):  # an index of the output alone repeats the values along it
        for at, axis in enumerate(output.axes):
            if axis.terms == ((dim, 1),):
                first = result.take([0], axis=at)
                result = np.repeat(first, shape[at], axis=at)
    return result


def run_choice(choice: TensorizeChoice, inputs: MappingABC[str, Array]) -> Array:
    """Run the tiled program with intrinsic calls.

    Every call sees blocks of the intrinsic's full size, zero beyond the bounds of the computation; what it returns
    inside the bounds is added to the output. The program is run as the match says, so an unsound match gives numbers
    that differ from `affine_einsum`: an uncovered occurrence of a matched index stays at the tile's first iteration, and
    a row of the result that has no place in the output is added where its tile is.

    Raises:
        UserError: The padding cannot be silenced (see `TensorizeChoice.unmaskable`), or an array is missing.
    """
    if choice.unmaskable:
        unsilenced = ", ".join(choice.unmaskable)
        raise UserError(
            f"the size must divide the bound of {unsilenced}: zeros cannot silence its padding", where=str(choice.match)
        )
    computation, intrinsic = choice.computation, choice.intrinsic.computation
    arrays = {t.name: _given(computation, t, inputs) for t in computation.inputs}
    result = np.zeros(computation.output.shape(computation.sizes), np.result_type(*arrays.values()))
    dims = [d for d, _ in choice.outer_loops]
    for tile_at in product(*(range(n) for _, n in choice.outer_loops)):
        base = dict.fromkeys(computation.dims, 0)
        base.update({d: i * choice.tile[d] for d, i in zip(dims, tile_at, strict=True)})
        valid = dict.fromkeys(intrinsic.dims, 1)
        for index, dim in choice.match.index_map:
            valid[index] = min(choice.tile[dim], computation.sizes[dim] - base[dim])
        blocks = {
            operand.intrinsic_tensor: _block(choice, operand, tensor, arrays, base, valid)
            for operand, tensor in zip(choice.match.operands[:-1], intrinsic.inputs, strict=True)
        }
        value = affine_einsum(intrinsic, blocks)
        for name in choice.match.scalars:
            value = value * arrays[name][_origin(computation.tensor(name), base)]
        _accumulate(choice, result, value, base, valid)
    return result


def _origin(tensor: Tensor, base: MappingABC[str, int]) -> tuple[int, ...]:
    return tuple(sum(c * base[d] for d, c in axis.terms) for axis in tensor.axes)


def _region(
    operand: OperandMap, tensor: Tensor, theirs: Tensor, base: MappingABC[str, int], valid: MappingABC[str, int]
) -> tuple[list[slice | int], list[int]]:
    """Where a call's block lies in a tensor, and the axes of that region in the order of the intrinsic's axes."""
    where: list[slice | int] = list(_origin(tensor, base))
    walked = []
    for spot, axis in zip(operand.axes, theirs.axes, strict=True):
        if spot is not None:
            at, step = spot
            length = axis.extent(valid)
            start = where[at]
            if isinstance(start, int):
                where[at] = slice(start, start + step * (length - 1) + 1, step)
                walked.append(at)
    kept = sorted(walked)
    return where, [kept.index(at) for at in walked]


def _block(
    choice: TensorizeChoice,
    operand: OperandMap,
    theirs: Tensor,
    arrays: MappingABC[str, Array],
    base: MappingABC[str, int],
    valid: MappingABC[str, int],
) -> Array:
    """One operand block of the intrinsic's full size, zero where the computation has nothing."""
    full = theirs.shape(choice.intrinsic.computation.sizes)
    if operand.tensor is None:
        unit = np.zeros(full, np.int64)
        unit[(0,) * len(full)] = 1
        return unit
    array = arrays[operand.tensor]
    where, order = _region(operand, choice.computation.tensor(operand.tensor), theirs, base, valid)
    part = np.asarray(array[tuple(where)]).transpose(order)
    block = np.zeros(full, array.dtype)
    lengths = iter(part.shape)
    inside = tuple(slice(0, 1 if spot is None else next(lengths)) for spot in operand.axes)
    block[inside] = part.reshape(block[inside].shape)
    return block


def _accumulate(
    choice: TensorizeChoice, result: Array, value: Array, base: MappingABC[str, int], valid: MappingABC[str, int]
) -> None:
    operand, theirs = choice.match.operands[-1], choice.intrinsic.computation.output
    used = value[tuple(slice(0, axis.extent(valid)) for axis in theirs.axes)]
    homeless = tuple(at for at, spot in enumerate(operand.axes) if spot is None)
    if homeless:
        used = used.sum(axis=homeless)
    where, order = _region(operand, choice.computation.output, theirs, base, valid)
    part = result[tuple(where)]
    result[tuple(where)] = part + used.transpose(np.argsort(order))


def scaled_down(choice: TensorizeChoice) -> TensorizeChoice:
    """The same match on a small instance: tiles of at most 2, about 2 of them a dimension, the last one ragged.

    Whether a match is sound depends on how the notation is built, not on sizes, so this is what a proof needs to run.
    """
    sizes = {d: min(b, 2) for d, b in choice.intrinsic.computation.sizes.items()}
    small = Intrinsic(choice.intrinsic.name, choice.intrinsic.computation.with_bounds(**sizes))
    tile = {dim: sizes[index] for index, dim in choice.match.index_map}
    silent = {dim for index, dim in choice.match.index_map if index in choice.intrinsic.computation.reduced_dims}
    bounds = {}
    for dim, bound in choice.computation.sizes.items():
        wanted = tile.get(dim, 1) * 2
        ragged = dim in tile and tile[dim] > 1 and not (dim in silent and choice.unmaskable)
        bounds[dim] = min(bound, wanted + 1 if ragged else wanted)
    return TensorizeChoice(choice.computation.with_bounds(**bounds), small, choice.match)


def proves_equal(choice: TensorizeChoice) -> bool:
    """Whether running a small instance of the choice gives exactly `affine_einsum`'s numbers."""
    small = scaled_down(choice)
    inputs = random_inputs(small.computation, seed=0)
    return np.array_equal(run_choice(small, inputs), affine_einsum(small.computation, inputs))
