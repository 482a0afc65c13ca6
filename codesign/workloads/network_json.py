"""The file form of a network (JSON or YAML), and its content hash."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from codesign.core.errors import UserError, closest, unknown_name
from codesign.workloads.computation import Computation, Role
from codesign.workloads.network import Network, NetworkTensor, Operator, OperatorKind, Window

FORMAT = "codesign-network-1"

T = TypeVar("T")


def network_to_json(network: Network) -> dict[str, Any]:
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


def _sparse(value: dict[str, Any], keep: tuple[str, ...] = ()) -> dict[str, Any]:
    empty = (None, "", 0, False)
    return {k: v for k, v in value.items() if k in keep or not (v in empty or v == [] or v == {})}


def _tensor_to_json(tensor: NetworkTensor) -> dict[str, Any]:
    value: dict[str, Any] = {"shape": list(tensor.shape), "bits": tensor.bits}
    if tensor.is_parameter:
        value["parameter"] = True
    if tensor.batch_axis is not None:
        value["batch_axis"] = tensor.batch_axis
    return value


def _operator_to_json(operator: Operator) -> dict[str, Any]:
    window = operator.window
    return _sparse(
        {
            "name": operator.name,
            "kind": operator.kind.value,
            "function": operator.function,
            "inputs": list(operator.inputs),
            "outputs": list(operator.outputs),
            "computation": None if operator.computation is None else computation_to_json(operator.computation),
            "operands": list(operator.operands),
            "batch_dim": operator.batch_dim,
            "operations": operator.operations,
            "window": None
            if window is None
            else {
                "kernel": list(window.kernel),
                "stride": list(window.stride),
                "dilation": list(window.dilation),
                "padding": [list(p) for p in window.padding],
            },
            "fused": list(operator.fused),
            "permutation": list(operator.permutation),
        }
    )


def computation_to_json(computation: Computation) -> dict[str, Any]:
    """A computation as its notation, bounds, and the role and widths of each tensor."""
    return {
        "notation": str(computation),
        "bounds": dict(computation.sizes),
        "roles": {t.name: t.role.value for t in computation.inputs},
        "bits": {t.name: t.bits for t in computation.tensors},
        "partial_bits": computation.output.partial_bits,
        **({"name": computation.name} if computation.name else {}),
    }


def computation_from_json(value: object, *, where: str = "computation") -> Computation:
    """The inverse of `computation_to_json`; `roles`, `bits` and `partial_bits` may be left out.

    Raises:
        UserError: An unknown or missing field, or what `Computation.parse` refuses.
    """
    fields = _Fields(value, where, {"notation", "bounds", "roles", "bits", "partial_bits", "name"})
    roles = {tensor: _enum(Role, "role", text, where) for tensor, text in fields.get("roles", _dictionary, {}).items()}
    bounds = fields.require("bounds", _dictionary)
    try:
        computation = Computation.parse(
            fields.require("notation", _string), bounds, name=fields.get("name", _string, ""), roles=roles
        )
        return _with_widths(computation, fields, where)
    except UserError as error:
        raise error.within(where) from None


def _with_widths(computation: Computation, fields: "_Fields", where: str) -> Computation:
    bits = fields.get("bits", _widths, 8)
    if isinstance(bits, int):
        return computation.with_bits(bits, fields.get("partial_bits", _integer, bits))
    unknown = set(bits) - {t.name for t in computation.tensors}
    if unknown:
        raise unknown_name("tensor", sorted(unknown)[0], [t.name for t in computation.tensors])
    tensors = tuple(replace(t, bits=bits.get(t.name, 8), partial_bits=bits.get(t.name, 8)) for t in computation.tensors)
    partial = fields.get("partial_bits", _integer, tensors[-1].bits)
    return replace(computation, tensors=(*tensors[:-1], replace(tensors[-1], partial_bits=partial)))


def _network_from_json(value: object) -> Network:
    allowed = {
        "format",
        "name",
        "batch",
        "fixed_batch",
        "inputs",
        "outputs",
        "tensors",
        "operators",
        "warnings",
    }
    fields = _Fields(value, None, allowed)
    form = fields.get("format", _string, FORMAT)
    if form != FORMAT:
        raise UserError(f"`format` must be {FORMAT!r}, got {form!r}")
    tensors = [_tensor_from_json(n, v) for n, v in fields.require("tensors", _dictionary).items()]
    operators = [_operator_from_json(v, i) for i, v in enumerate(fields.require("operators", _list))]
    return Network.sorted(
        fields.get("name", _string, "network"),
        operators,
        tensors,
        fields.require("inputs", _strings),
        fields.require("outputs", _strings),
        fields.get("batch", _integer, 1),
        fields.get("fixed_batch", _boolean, False),
        fields.get("warnings", _strings, ()),
    )


def _tensor_from_json(name: str, value: object) -> NetworkTensor:
    where = f"tensor {name!r}"
    fields = _Fields(value, where, {"shape", "bits", "parameter", "batch_axis"})
    return NetworkTensor(
        name,
        fields.require("shape", _integers),
        fields.get("bits", _integer, 8),
        fields.get("parameter", _boolean, False),
        fields.get("batch_axis", _integer, None),
    )


def _operator_from_json(value: object, index: int) -> Operator:
    where = f"operator {index}"
    allowed = {
        "name",
        "kind",
        "function",
        "inputs",
        "outputs",
        "computation",
        "operands",
        "batch_dim",
        "operations",
        "window",
        "fused",
        "permutation",
    }
    fields = _Fields(value, where, allowed)
    name = fields.require("name", _string)
    fields.where = where = f"operator {name!r}"
    computation = fields.get("computation", lambda v: computation_from_json(v, where=where), None)
    return Operator(
        name,
        _enum(OperatorKind, "kind", fields.require("kind", _string), where),
        fields.require("inputs", _strings),
        fields.require("outputs", _strings),
        computation,
        fields.get("operands", _strings, ()),
        fields.get("batch_dim", _string, None),
        fields.get("operations", _integer, 0),
        fields.get("window", lambda v: _window_from_json(v, where), None),
        fields.get("function", _string, ""),
        fields.get("fused", _strings, ()),
        fields.get("permutation", _integers, ()),
    )


def _window_from_json(value: object, where: str) -> Window:
    fields = _Fields(value, f"{where}: window", {"kernel", "stride", "dilation", "padding"})
    kernel = fields.require("kernel", _integers)
    ones = (1,) * len(kernel)
    return Window(
        kernel,
        fields.get("stride", _integers, ones),
        fields.get("dilation", _integers, ones),
        fields.get("padding", _pairs, ((0, 0),) * len(kernel)),
    )


class _Fields:
    """The fields of one object of the file, each read with its type checked."""

    def __init__(self, value: object, where: str | None, allowed: set[str]) -> None:
        if not isinstance(value, dict):
            raise UserError(f"expected named fields, got {_describe(value)}", where=where)
        for key in value:
            if key not in allowed:
                near = closest(str(key), allowed)
                hint = f"did you mean {near!r}? " if near else ""
                raise UserError(
                    f"unknown field {key!r}", where=where, hint=f"{hint}known: {', '.join(sorted(allowed))}"
                )
        self.value = value
        self.where = where

    def require(self, name: str, read: Callable[[object], T]) -> T:
        """The field, which must be there."""
        if name not in self.value:
            raise UserError(f"field {name!r} is missing", where=self.where)
        return self._read(name, read)

    def get(self, name: str, read: Callable[[object], T], default: Any) -> T:
        """The field, or its default."""
        if self.value.get(name) is None:
            result: T = default
            return result
        return self._read(name, read)

    def _read(self, name: str, read: Callable[[object], T]) -> T:
        try:
            return read(self.value[name])
        except _WrongTypeError as error:
            message = f"`{name}` must be {error}, got {_describe(self.value[name])}"
            raise UserError(message, where=self.where) from None


class _WrongTypeError(Exception):
    """A value is not of the type its field needs; the argument says which."""


def _describe(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _enum(kind: type[Any], label: str, text: object, where: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise unknown_name(label, str(text), [m.value for m in kind], where=where) from None


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise _WrongTypeError("a text")
    return value


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _WrongTypeError("an integer")
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise _WrongTypeError("true or false")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise _WrongTypeError("a list")
    return value


def _dictionary(value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(k, str) for k in value):
        raise _WrongTypeError("named values")
    return value


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise _WrongTypeError("a list of texts")
    return tuple(value)


def _integers(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(isinstance(v, int) and not isinstance(v, bool) for v in value):
        raise _WrongTypeError("a list of integers")
    return tuple(value)


def _pairs(value: object) -> tuple[tuple[int, int], ...]:
    if not isinstance(value, list) or not all(isinstance(v, list) and len(v) == 2 for v in value):
        raise _WrongTypeError("a list of pairs of integers")
    return tuple((_integer(a), _integer(b)) for a, b in value)


def _widths(value: object) -> int | dict[str, int]:
    if isinstance(value, dict):
        return {str(k): _integer(v) for k, v in value.items()}
    return _integer(value)
