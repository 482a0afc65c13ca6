"""The graph that is scheduled: operators, the tensors between them, sizes in bytes.

One operator runs at a time. While it runs, its inputs, its outputs and, when parameters take part, its
parameters lie in the scratchpad together. An operator without inputs brings a network input on chip.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from codesign.core.checks import check_whole
from codesign.core.errors import UserError, unknown_name
from codesign.core.runnable import runnable_order


@dataclass(frozen=True)
class GraphTensor:
    """A tensor that one operator makes and others read.

    Args:
        name: Unique in the graph.
        size_bytes: Space it takes in the scratchpad.
        shape: Its axes, outermost first; empty where unknown.
    """

    name: str
    size_bytes: int
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        where = f"tensor {self.name!r}"
        check_whole(size_bytes=self.size_bytes, where=where)


@dataclass(frozen=True)
class Operator:
    """One step of the schedule.

    Args:
        name: Unique in the graph.
        kind: What it computes, for people (``conv2d+batch_norm+relu``).
        inputs: Names of the tensors it reads.
        outputs: Names of the tensors it makes, all at once (siblings, eq. 6).
        parameter_bytes: Size of the constants it alone reads.
        macs: Multiply-accumulates, where known; they cost no traffic.
        weight_bytes: Size of the weights among the constants, where known (not of biases and normalisation constants).
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameter_bytes: int = 0
    macs: int = 0
    weight_bytes: int = 0

    def __post_init__(self) -> None:
        where = f"operator {self.name!r}"
        check_whole(0, parameter_bytes=self.parameter_bytes, where=where)
        if not self.outputs:
            raise UserError("an operator must make at least one tensor", where=where)


@dataclass(frozen=True)
class GraphIndex:
    """The graph in numbers: operators and tensors by position, sets of operators as bit masks.

    Args:
        inputs: Per operator the tensors it reads, ascending.
        outputs: Per operator the tensors it makes.
        producer: Per tensor the operator that makes it.
        consumers: Per tensor the operators that read it, ascending.
        size_bytes: Per tensor.
        parameter_bytes: Per operator; all 0 when parameters stay out of the scratchpad.
        ancestors: Per operator the mask of everything that must run before it.
        descendants: Per operator the mask of everything that must run after it.
    """

    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    producer: tuple[int, ...]
    consumers: tuple[tuple[int, ...], ...]
    size_bytes: tuple[int, ...]
    parameter_bytes: tuple[int, ...]
    ancestors: tuple[int, ...]
    descendants: tuple[int, ...]

    def working_set_bytes(self, operator: int) -> int:
        """Bytes that must lie in the scratchpad while `operator` runs."""
        tensors = (*self.inputs[operator], *self.outputs[operator])
        return sum(self.size_bytes[t] for t in tensors) + self.parameter_bytes[operator]


@dataclass(frozen=True)
class OperatorGraph:
    """A directed acyclic graph of operators, listed in an order in which they can run.

    Args:
        name: For people.
        operators: In default order; sorted topologically (stable) when made if they are not.
        tensors: Every tensor once.
        outputs: Names of the results, written off chip when made or last used.
    """

    name: str
    operators: tuple[Operator, ...]
    tensors: tuple[GraphTensor, ...]
    outputs: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.operators:
            raise UserError("the graph has no operators", where=self.name)
        known = _unique("tensor", [t.name for t in self.tensors], self.name)
        _unique("operator", [o.name for o in self.operators], self.name)
        made: set[str] = set()
        for operator in self.operators:
            for tensor in (*operator.inputs, *operator.outputs):
                if tensor not in known:
                    raise unknown_name("tensor", tensor, known, where=f"{self.name}: operator {operator.name!r}")
            for tensor in operator.outputs:
                if tensor in made:
                    raise UserError(f"tensor {tensor!r} is made by two operators", where=self.name)
                made.add(tensor)
        for tensor in sorted(known - made):
            raise UserError(
                f"no operator makes tensor {tensor!r}",
                where=self.name,
                hint="a network input needs an operator without inputs that makes it",
            )
        for tensor in self.outputs:
            if tensor not in known:
                raise unknown_name("output tensor", tensor, known, where=self.name)
        object.__setattr__(self, "operators", _topological(self.operators, self.name))

    @cached_property
    def index(self) -> GraphIndex:
        """The graph in numbers, parameters included."""
        number = {t.name: i for i, t in enumerate(self.tensors)}
        inputs = tuple(tuple(sorted({number[t] for t in o.inputs})) for o in self.operators)
        outputs = tuple(tuple(number[t] for t in o.outputs) for o in self.operators)
        producer = [0] * len(self.tensors)
        consumers: list[list[int]] = [[] for _ in self.tensors]
        ancestors: list[int] = []
        for position, (reads, makes) in enumerate(zip(inputs, outputs, strict=True)):
            for tensor in makes:
                producer[tensor] = position
            above = 0
            for tensor in reads:
                consumers[tensor].append(position)
                above |= ancestors[producer[tensor]] | 1 << producer[tensor]
            ancestors.append(above)
        return GraphIndex(
            inputs=inputs,
            outputs=outputs,
            producer=tuple(producer),
            consumers=tuple(tuple(c) for c in consumers),
            size_bytes=tuple(t.size_bytes for t in self.tensors),
            parameter_bytes=tuple(o.parameter_bytes for o in self.operators),
            ancestors=tuple(ancestors),
            descendants=_descendants(outputs, consumers),
        )

    def without_parameters(self) -> "OperatorGraph":
        """The same graph with parameters kept elsewhere: only activations share the scratchpad."""
        return replace(self, operators=tuple(replace(o, parameter_bytes=0) for o in self.operators))

    @property
    def minimum_bytes(self) -> int:
        """M_R: the largest working set of one operator; no schedule exists below it."""
        return max(self.index.working_set_bytes(o) for o in range(len(self.operators)))

    @property
    def largest_operator(self) -> Operator:
        """The operator whose working set is M_R."""
        return max(
            zip(self.operators, range(len(self.operators)), strict=True),
            key=lambda pair: (self.index.working_set_bytes(pair[1]), -pair[1]),
        )[0]

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all operators."""
        return sum(o.macs for o in self.operators)

    @property
    def weight_bytes(self) -> int:
        """Weights of all operators, biases and normalisation constants left out; all parameters where no operator says."""
        return sum(o.weight_bytes for o in self.operators) or self.parameter_bytes

    @property
    def parameter_bytes(self) -> int:
        """Parameters that all operators read; one that two operators read counts twice."""
        return sum(o.parameter_bytes for o in self.operators)

    @property
    def loaded_bytes(self) -> int:
        """Traffic inwards that no schedule avoids: network inputs and parameters."""
        sizes = {t.name: t.size_bytes for t in self.tensors}
        inputs = sum(sizes[t] for o in self.operators if not o.inputs for t in o.outputs)
        return inputs + sum(o.parameter_bytes for o in self.operators)

    @property
    def stored_bytes(self) -> int:
        """Traffic outwards that no schedule avoids: network outputs."""
        sizes = {t.name: t.size_bytes for t in self.tensors}
        return sum(sizes[t] for t in set(self.outputs))

    @property
    def compulsory_bytes(self) -> int:
        """Traffic no schedule avoids: network inputs and parameters in, network outputs out."""
        return self.loaded_bytes + self.stored_bytes


def graph_from_dict(value: Any, where: str) -> OperatorGraph:
    """The graph of a JSON value ``{"name", "ops": [{name, type, ins, out, param_bytes}], "tensors": {name: {bytes, shape}}}``.

    ``out`` is a tensor name or, for operators that make several, a list of names. Without ``outputs`` the tensors
    that nothing reads are the results.

    Raises:
        UserError: A key is missing or of the wrong kind, a size is not positive, the graph is empty or has a cycle.
    """
    if not isinstance(value, Mapping):
        raise UserError(f"expected an object with 'ops' and 'tensors', got {type(value).__name__}", where=where)
    operators = tuple(_operator(entry, i, where) for i, entry in enumerate(_key(value, "ops", list, where)))
    tensors = tuple(_tensor(name, entry, where) for name, entry in _key(value, "tensors", Mapping, where).items())
    if "outputs" in value:
        outputs = tuple(str(t) for t in _key(value, "outputs", list, where))
    else:
        outputs = unread_tensors(operators)
    return OperatorGraph(str(value.get("name", Path(where).stem)), operators, tensors, outputs)


def unread_tensors(operators: Sequence[Operator]) -> tuple[str, ...]:
    """The tensors that no operator reads."""
    read = {t for o in operators for t in o.inputs}
    return tuple(t for o in operators for t in o.outputs if t not in read)


def _key(value: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    if key not in value:
        raise UserError(f"missing {key!r}", where=where, hint="a graph has 'ops' (a list) and 'tensors' (an object)")
    if not isinstance(value[key], kind):
        wanted = "a list" if kind is list else "an object"
        raise UserError(f"{key!r} must be {wanted}, got {type(value[key]).__name__}", where=where)
    return value[key]


def _operator(entry: Any, position: int, where: str) -> Operator:
    place = f"{where}: ops[{position}]"
    if not isinstance(entry, Mapping):
        raise UserError(f"an operator must be an object, got {type(entry).__name__}", where=place)
    for key in ("name", "ins", "out"):
        if key not in entry:
            raise UserError(f"missing {key!r}", where=place)
    reads, makes = entry["ins"], entry["out"]
    if not isinstance(reads, list):
        raise UserError(f"'ins' must be a list of tensor names, got {type(reads).__name__}", where=place)
    if not isinstance(makes, str | list):
        raise UserError(f"'out' must be a tensor name or a list of them, got {type(makes).__name__}", where=place)
    outputs = [makes] if isinstance(makes, str) else makes
    return Operator(
        name=str(entry["name"]),
        kind=str(entry.get("type", "operator")),
        inputs=tuple(str(t) for t in reads),
        outputs=tuple(str(t) for t in outputs),
        parameter_bytes=entry.get("param_bytes", 0),
    )


def _tensor(name: str, entry: Any, where: str) -> GraphTensor:
    if not isinstance(entry, Mapping) or "bytes" not in entry:
        raise UserError("a tensor must be an object with 'bytes'", where=f"{where}: tensor {name!r}")
    shape = entry.get("shape") or []
    if not isinstance(shape, list) or any(isinstance(axis, bool) or not isinstance(axis, int) for axis in shape):
        raise UserError(f"shape must be a list of whole numbers, got {shape!r}", where=f"{where}: tensor {name!r}")
    return GraphTensor(str(name), entry["bytes"], tuple(shape))


def _unique(kind: str, names: Sequence[str], where: str) -> set[str]:
    known: set[str] = set()
    for name in names:
        if name in known:
            raise UserError(f"two {kind}s are named {name!r}", where=where)
        known.add(name)
    return known


def _topological(operators: tuple[Operator, ...], where: str) -> tuple[Operator, ...]:
    """The operators in a runnable order, earliest listed first (the order given, if it is runnable)."""
    producer = {t: i for i, o in enumerate(operators) for t in o.outputs}
    waits_for = [{producer[t] for t in o.inputs} for o in operators]
    return tuple(operators[i] for i in runnable_order(waits_for, [o.name for o in operators], where))


def _descendants(outputs: Sequence[tuple[int, ...]], consumers: Sequence[Iterable[int]]) -> tuple[int, ...]:
    below = [0] * len(outputs)
    for position in reversed(range(len(outputs))):
        for tensor in outputs[position]:
            for reader in consumers[tensor]:
                below[position] |= below[reader] | 1 << reader
    return tuple(below)
