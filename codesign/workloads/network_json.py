"""The file form of a network (JSON or YAML), and its content hash."""

import hashlib
import json

from codesign.core.errors import UserError
from codesign.core.fields import Fields, describe
from codesign.core.json_types import JsonObject
from codesign.core.specs import changed
from codesign.workloads.files import computation_from_json, computation_to_json
from codesign.workloads.network import Network, NetworkTensor, Operator, Window

FORMAT = "codesign-network-1"


def network_to_json(network: Network) -> JsonObject:
    """The network as plain values. Fields that hold their default are left out."""
    return _sparse(
        {
            "format": FORMAT,
            "name": network.name,
            "batch": network.batch,
            "fixed_batch": network.fixed_batch,
            "inputs": list(network.inputs),
            "outputs": list(network.outputs),
            "tensors": {t.name: _tensor_to_json(t) for t in network.tensors},
            "operators": [_operator_to_json(o) for o in network.operators],
            "warnings": list(network.warnings),
        },
        keep=("inputs", "outputs", "batch"),
    )


def network_from_json(value: object, *, where: str = "network") -> Network:
    """The network of such values; operators may stand in any order.

    Raises:
        UserError: An unknown or missing field, a wrong type, or what `Network` refuses.
    """
    try:
        return _network_from_json(value)
    except UserError as error:
        raise error.within(where) from None


def content_hash(network: Network) -> str:
    """A hash of everything but the label and the warnings: equal networks hash equal, on every machine."""
    value = network_to_json(network)
    value.pop("name", None)
    value.pop("warnings", None)
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _sparse(value: JsonObject, keep: tuple[str, ...] = ()) -> JsonObject:
    empty = (None, "", 0, False)
    return {k: v for k, v in value.items() if k in keep or not (v in empty or v == [] or v == {})}


def _tensor_to_json(tensor: NetworkTensor) -> JsonObject:
    value: JsonObject = {"shape": list(tensor.shape), "bits": tensor.bits}
    if tensor.is_parameter:
        value["parameter"] = True
    if tensor.batch_axis is not None:
        value["batch_axis"] = tensor.batch_axis
    return value


def _operator_to_json(operator: Operator) -> JsonObject:
    value = changed(operator, "computation")
    if operator.computation is not None:
        value["computation"] = computation_to_json(operator.computation)
    return value


def _network_from_json(value: object) -> Network:
    fields = Fields(value, "network")
    form = fields.text("format", FORMAT)
    if form != FORMAT:
        raise UserError(f"`format` must be {FORMAT!r}, got {form!r}")
    operators = fields.items("operators")
    fields.raw("tensors")  # must be there
    tensors = fields.child("tensors")
    name, batch = fields.text("name", "network"), fields.integer("batch", 1)
    fixed_batch = fields.flag("fixed_batch", False)
    inputs, outputs = fields.names("inputs"), fields.names("outputs")
    warnings = fields.names("warnings", [])
    fields.finish()
    return Network.sorted(
        name,
        [_operator_from_json(v, f"operator {i}") for i, v in enumerate(operators)],
        [_tensor_from_json(n, tensors.child(n)) for n in tensors.rest()],
        inputs,
        outputs,
        batch,
        fixed_batch,
        warnings,
    )


def _tensor_from_json(name: str, fields: Fields) -> NetworkTensor:
    shape = _integers(fields, "shape")
    bits, batch_axis = fields.integer("bits", 8), fields.integer("batch_axis", None)
    is_parameter = fields.flag("parameter", False)
    fields.finish()
    return NetworkTensor(name, shape, bits, is_parameter, batch_axis)


def _operator_from_json(value: object, where: str) -> Operator:
    fields = Fields(value, where)
    name = fields.text("name")
    fields.where = f"operator {name!r}"
    computation = None
    if fields.has("computation"):
        computation = computation_from_json(fields.raw("computation"), fields.where)
    window = _window_from_json(fields.child("window")) if fields.has("window") else None
    permutation = _integers(fields, "permutation", ())
    return fields.record(Operator, name=name, computation=computation, window=window, permutation=permutation)


def _window_from_json(fields: Fields) -> Window:
    kernel = _integers(fields, "kernel")
    ones = (1,) * len(kernel)
    stride, dilation = _integers(fields, "stride", ones), _integers(fields, "dilation", ones)
    padding = fields.items("padding", [[0, 0]] * len(kernel))
    if not all(_is_integers(p) and len(p) == 2 for p in padding):
        raise UserError(f"`padding` must be a list of pairs of integers, got {describe(padding)}", where=fields.where)
    fields.finish()
    return Window(kernel, stride, dilation, tuple((before, after) for before, after in padding))


def _integers(fields: Fields, key: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
    values = fields.items(key) if default is None else fields.items(key, list(default))
    if not _is_integers(values):
        raise UserError(f"`{key}` must be a list of integers, got {values!r}", where=fields.where)
    return tuple(values)


def _is_integers(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(v, int) and not isinstance(v, bool) for v in values)
