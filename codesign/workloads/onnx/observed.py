"""A network run on samples: how many zeros its tensors have, and where (rules Z5 to Z7)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from codesign.core.errors import UserError, unknown_name
from codesign.workloads.computation import Computation, Tensor
from codesign.workloads.network import Network, Operator

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

_ZERO_POINTS: dict[str, dict[int | str, int]] = {
    "QLinearConv": {0: 2, 3: 5, "output": 7},
    "QLinearMatMul": {0: 2, 3: 5, "output": 7},
    "ConvInteger": {0: 2, 1: 3},
    "MatMulInteger": {0: 2, 1: 3},
    "QuantizeLinear": {"output": 2},
}
"""Of integer operators: which input holds the zero point of which input or of the output."""


_FILTERS = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3}
"""Which input of a convolution holds its filters."""


@dataclass(frozen=True)
class ObservedTensor:
    """The zeros of one operand of one matrix operator.

    Args:
        operator: Name.
        kind: ``weight``, ``input`` or ``output``.
        tensor: Name in the network.
        density: Share of non-zeros over all samples.
        least: Of the samples' own shares.
        most: Of the samples' own shares.
        mask: True where the first samples' element is not zero, as the computation indexes it; None where it cannot be laid out so.
    """

    operator: str
    kind: str
    tensor: str
    density: float
    least: float
    most: float
    mask: Mask | None = None


def observe(path: Path, network: Network, samples: Mapping[str, Array], masks: bool) -> tuple[ObservedTensor, ...]:
    """Run an ONNX file on samples and count the zeros of its matrix operators' tensors.

    Args:
        path: The file, weights included.
        network: As `load_onnx` reads it.
        samples: By input; the first axis runs over samples.
        masks: Whether masks are kept.

    Raises:
        UserError: The samples do not fit the inputs, or the file cannot be run.
    """
    import onnx

    model = onnx.load(str(path))
    operators = [o for o in network.operators if o.computation is not None]
    wanted = {name for o in operators for name in o.operands}
    zeros = _zero_points(model)
    constants = _constants(model, wanted)
    produced = {name for node in model.graph.node for name in node.output} - constants.keys()
    given = _inputs(model, samples)
    runs = _run(model, sorted(wanted & produced), given, str(path))
    values = {name: np.concatenate(parts) for name, parts in runs.items()} | constants
    values |= {name: array for name, array in given.items() if name in wanted}
    pads = {node.input[_FILTERS[node.op_type]]: _pads(node) for node in model.graph.node if node.op_type in _FILTERS}
    found = []
    for operator in operators:
        assert operator.computation is not None
        for tensor, name in operator.operand_pairs:
            if name in values:
                kind = network.operand_kind(tensor, name)
                full = values[name] != zeros.get(name, 0)
                shown = _observed(operator, kind, name, full)
                mask = None
                if masks:
                    first = full if kind == "weight" else full[: network.batch]
                    mask = _laid_out(first, operator.computation, tensor, pads.get(operator.operands[1]))
                found.append(replace(shown, mask=mask))
    return tuple(found)


def _constants(model: Any, wanted: set[str]) -> dict[str, Array]:
    """Parameters by tensor: initializers, and values of `Constant` nodes."""
    from onnx import numpy_helper

    found = {c.name: numpy_helper.to_array(c) for c in model.graph.initializer if c.name in wanted}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.output[0] in wanted:
            values = [numpy_helper.to_array(a.t) for a in node.attribute if a.name == "value"]
            found |= dict(zip(node.output, values, strict=False))
    return found


def _observed(operator: Operator, kind: str, name: str, full: Mask) -> ObservedTensor:
    if kind == "weight":
        share = float(full.mean())
        return ObservedTensor(operator.name, kind, name, share, share, share)
    shares = full.reshape(len(full), -1).mean(axis=1)
    return ObservedTensor(operator.name, kind, name, float(shares.mean()), float(shares.min()), float(shares.max()))


def _zero_points(model: Any) -> dict[str, int]:
    """The integer that stands for zero, by tensor; other tensors' is 0. Functions without arithmetic hand it on."""
    import onnx

    constants = {c.name: c for c in model.graph.initializer}
    found: dict[str, int] = {}
    for node in model.graph.node:
        for place, point in _ZERO_POINTS.get(node.op_type, {}).items():
            if point < len(node.input) and node.input[point] in constants:
                value = onnx.numpy_helper.to_array(constants[node.input[point]])
                name = node.output[0] if place == "output" else node.input[int(place)]
                if value.size == 1:
                    found[name] = int(value.reshape(-1)[0])
    for node in model.graph.node:
        if node.op_type in ("MaxPool", "Reshape", "Flatten", "Transpose", "Relu") and node.input[0] in found:
            found.setdefault(node.output[0], found[node.input[0]])
    return found


def _inputs(model: Any, samples: Mapping[str, Array]) -> dict[str, Array]:
    """The samples by input, checked.

    Raises:
        UserError: One is missing or of the wrong shape.
    """
    parameters = {c.name for c in model.graph.initializer}
    inputs = [v for v in model.graph.input if v.name not in parameters]
    given = dict(samples)
    if len(inputs) == 1 and len(given) == 1:
        given = {inputs[0].name: next(iter(given.values()))}
    names = [v.name for v in inputs]
    for name in given:
        if name not in names:
            raise unknown_name("input", name, names, where="samples")
    for value in inputs:
        if value.name not in given:
            raise UserError(f"no samples for input {value.name!r}", where="samples", hint=f"inputs: {', '.join(names)}")
        shape = [d.dim_value if d.HasField("dim_value") else None for d in value.type.tensor_type.shape.dim]
        _check_shape(value.name, given[value.name], shape)
        _check_numbers(value.name, given[value.name])
    counts = {len(a) for a in given.values()}
    if len(counts) > 1:
        raise UserError(
            f"inputs have different numbers of samples: {', '.join(map(str, sorted(counts)))}", where="samples"
        )
    return {name: np.asarray(array) for name, array in given.items()}


def _check_shape(name: str, array: Array, shape: list[int | None]) -> None:
    wanted = " x ".join("n" if d is None or i == 0 else str(d) for i, d in enumerate(shape))
    fits = array.ndim == len(shape) and array.ndim > 0 and len(array) > 0
    if not fits or any(d not in (None, n) for d, n in zip(shape[1:], array.shape[1:], strict=False)):
        got = " x ".join(map(str, array.shape)) or "a number"
        raise UserError(f"input {name!r} takes samples of {wanted}, got {got}", where="samples")


def _check_numbers(name: str, array: Array) -> None:
    if array.dtype.kind not in "fiub":
        raise UserError(f"input {name!r} takes numbers, got {array.dtype}", where="samples")
    broken = int(array.size - np.isfinite(array).sum())
    if broken:
        raise UserError(f"input {name!r} has {broken} values that are no finite numbers", where="samples")


def _run(model: Any, names: list[str], given: dict[str, Array], where: str) -> dict[str, list[Array]]:
    """Values of tensors for all samples, in the batches that the file takes."""
    import onnxruntime
    from onnx import helper

    known = {o.name for o in model.graph.output}
    model.graph.output.extend(helper.make_empty_tensor_value_info(n) for n in names if n not in known)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        lengths = {i.name: i.shape[0] for i in session.get_inputs() if i.shape and isinstance(i.shape[0], int)}
        count = len(next(iter(given.values())))
        step = next(iter(lengths.values()), count)
        if count % step:
            raise UserError(f"this file runs {step} samples at once, got {count}", where="samples")
        runs: dict[str, list[Array]] = {name: [] for name in names}
        for start in range(0, count, step):
            feed = {
                i.name: given[i.name][start : start + step].astype(_dtype(i.type), copy=False)
                for i in session.get_inputs()
            }
            for name, value in zip(names, session.run(names, feed) if names else (), strict=True):
                runs[name].append(np.asarray(value))
    except UserError:
        raise
    except Exception as error:  # ONNX Runtime raises classes of its own for all that a file or an input may lack
        raise UserError(f"ONNX Runtime cannot run it: {str(error).splitlines()[0]}", where=where) from None
    return runs


_DTYPES = {"float": np.float32, "double": np.float64, "float16": np.float16, "bool": np.bool_}


def _dtype(kind: str) -> Any:
    """NumPy's type of ``tensor(float)``, ``tensor(int64)`` ..."""
    name = kind.removeprefix("tensor(").removesuffix(")")
    return _DTYPES.get(name) or np.dtype(name)


def _pads(node: Any) -> tuple[int, ...] | None:
    """Zeros before each spatial axis; None where they are split evenly, the smaller half before."""
    from onnx import helper

    values = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if "pads" in values:
        pads = list(values["pads"])
        return tuple(pads[: len(pads) // 2])
    auto = values.get("auto_pad", b"NOTSET")
    return None if auto in (b"SAME_UPPER", b"SAME_LOWER") else ()


def _laid_out(full: Mask, computation: Computation, tensor: Tensor, pads: tuple[int, ...] | None) -> Mask | None:
    """A mask as the computation indexes the tensor: padding added as zeros, groups split, transposed; None where that is not enough (Z6)."""
    extents = tensor.shape(computation.sizes)
    if full.shape == extents:
        return full
    space = len(full.shape) - 2
    if (
        space > 0
        and len(extents) > space
        and not (tensor.is_output or (pads == () and full.shape[2:] == extents[-space:]))
    ):
        full = _padded(full, extents[-space:], pads)
    if full.size == int(np.prod(extents)):
        flipped = full.ndim == 2 and full.shape[::-1] == extents
        return full.T if flipped else full.reshape(extents)
    return None


def _padded(full: Mask, wanted: tuple[int, ...], pads: tuple[int, ...] | None) -> Mask:
    """The last axes grown by zeros, or cut where a stride leaves elements unread."""
    space = len(wanted)
    for place, size in enumerate(wanted):
        axis = full.ndim - space + place
        missing = size - full.shape[axis]
        before = pads[place] if pads and place < len(pads) else 0
        if pads is None:
            before = max(0, missing) // 2
        after = max(0, size - full.shape[axis] - before)
        widths = [(0, 0)] * full.ndim
        widths[axis] = (before, after)
        full = np.pad(full, widths)
        full = np.take(full, range(size), axis=axis)
    return full
