"""Runs a schedule on real data: one flat array as the scratchpad, every tensor at its address, spills to a host copy.

Nothing here trusts the solvers. Steps are carried out literally; an address that another live tensor holds, an
operand that is not there, or a retrieval without a copy is a fault, and what comes out must equal, byte for byte, what
an ordinary run of the graph gives. The bytes moved are counted and must equal the objective.
"""

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from codesign.core.errors import CodesignError
from codesign.scheduling.cosma.graph import OperatorGraph
from codesign.scheduling.cosma.plan import Plan, Residency

Data = npt.NDArray[np.uint8]
Kernel = Callable[[int, Sequence[Data], Data, Sequence[int]], list[Data]]
"""Operator, its inputs in the order of the graph, its parameters, sizes of its outputs -> its outputs."""


def common_divisor(graph: OperatorGraph, *extra: int) -> int:
    """The largest number that divides every size of the graph and the `extra` numbers."""
    return math.gcd(*graph.index.size_bytes, *graph.index.parameter_bytes, *extra)


class ExecutionFaultError(CodesignError):
    """A schedule that cannot be carried out, or gives wrong results."""


@dataclass(frozen=True)
class Execution:
    """What moved while a schedule ran.

    Args:
        outputs: Network outputs, by name.
        written_bytes: Spilled.
        read_bytes: Retrieved.
        compulsory_bytes: Network inputs, parameters and outputs.
    """

    outputs: Mapping[str, Data]
    written_bytes: int
    read_bytes: int
    compulsory_bytes: int


def mixing_kernel(operator: int, inputs: Sequence[Data], parameters: Data, sizes: Sequence[int]) -> list[Data]:
    """A stand-in for any operator: every byte of every operand changes every byte of every output."""
    digest = operator + 1
    for operand in (*inputs, parameters):
        digest = zlib.crc32(operand.tobytes(), digest)
    made = []
    for position, size in enumerate(sizes):
        mixed = np.arange(size, dtype=np.uint64) * np.uint64(2654435761) + np.uint64(digest + 7919 * position)
        made.append((mixed ^ mixed >> np.uint64(15)).astype(np.uint8))
    return made


def execute(
    graph: OperatorGraph,
    plan: Plan,
    stays: Sequence[Residency],
    offsets: Sequence[int],
    capacity_bytes: int,
    kernel: Kernel = mixing_kernel,
    *,
    unit: int | None = None,
) -> Execution:
    """Carry out a schedule and compare every network output with an ordinary run.

    Args:
        graph: What is computed.
        plan: Order and retrievals.
        stays: Every stay in the scratchpad.
        offsets: Byte address per stay.
        capacity_bytes: Scratchpad size.
        kernel: Computes an operator.
        unit: Bytes that one byte of the run stands for; default: the largest number that divides all sizes.

    Raises:
        ExecutionFaultError: The schedule breaks a rule, or an output differs.
    """
    scale = common_divisor(graph, capacity_bytes, *offsets) if unit is None else unit
    run = _Run(graph, plan, stays, offsets, capacity_bytes // scale, kernel, scale)
    for step in range(len(plan.order)):
        run.step(step)
    ordinary = run_in_order(graph, kernel, scale)
    for name, data in ordinary.items():
        if not np.array_equal(data, run.outputs.get(name, np.empty(0, np.uint8))):
            raise ExecutionFaultError(f"output {name!r} differs from an ordinary run")
    return Execution(run.outputs, run.written * scale, run.read * scale, run.compulsory * scale)


def run_in_order(graph: OperatorGraph, kernel: Kernel = mixing_kernel, unit: int = 1) -> dict[str, Data]:
    """The network outputs when the graph runs in its default order with room for everything."""
    index = graph.index
    values: dict[int, Data] = {}
    for operator in range(len(graph.operators)):
        inputs = [values[t] for t in index.inputs[operator]]
        sizes = [index.size_bytes[t] // unit for t in index.outputs[operator]]
        made = kernel(operator, inputs, _parameters(operator, index.parameter_bytes[operator] // unit), sizes)
        values.update(zip(index.outputs[operator], made, strict=True))
    return {t.name: values[i] for i, t in enumerate(graph.tensors) if t.name in graph.outputs}


def _parameters(operator: int, size: int) -> Data:
    return np.random.default_rng(operator).integers(0, 256, size, dtype=np.uint8)


class _Run:
    """The machine: memory, who holds which byte, host copies, counters."""

    def __init__(
        self,
        graph: OperatorGraph,
        plan: Plan,
        stays: Sequence[Residency],
        offsets: Sequence[int],
        capacity: int,
        kernel: Kernel,
        unit: int,
    ) -> None:
        self._graph, self._plan, self._stays, self._kernel, self._unit = graph, plan, stays, kernel, unit
        self._offsets = [offset // unit for offset in offsets]
        self._memory = np.zeros(capacity, np.uint8)
        self._owner = np.full(capacity, -1, np.int64)
        self._host: dict[int, Data] = {}
        self._resident: dict[tuple[int | None, int], int] = {}
        self._last_stay = {stay.tensor: i for i, stay in sorted(enumerate(stays), key=lambda p: p[1].first_step)}
        self._spilled = {t for retrieved in plan.retrieved for t in retrieved}
        self._results = {i for i, t in enumerate(graph.tensors) if t.name in graph.outputs}
        self.outputs: dict[str, Data] = {}
        self.written = self.read = self.compulsory = 0

    def step(self, step: int) -> None:
        """Begin the stays of the step, run its operator, end the stays that end with it."""
        index = self._graph.index
        operator = self._plan.order[step]
        starting = [i for i, stay in enumerate(self._stays) if stay.first_step == step]
        for position in starting:
            self._begin(position)
        for tensor in self._plan.retrieved[step]:
            self._retrieve(tensor)
        inputs = [self._load(t, operator) for t in index.inputs[operator]]
        parameters = np.empty(0, np.uint8)
        if index.parameter_bytes[operator]:
            parameters = self._load(None, operator)
        sizes = [index.size_bytes[t] // self._unit for t in index.outputs[operator]]
        made = self._kernel(operator, inputs, parameters, sizes)
        for tensor, data in zip(index.outputs[operator], made, strict=True):
            self._store(tensor, operator, data)
        if not inputs:
            self.compulsory += sum(sizes)
        for position, stay in enumerate(self._stays):
            if stay.last_step == step:
                self._end(position)

    def _begin(self, position: int) -> None:
        stay = self._stays[position]
        start, end = self._span(position)
        if start < 0 or end > self._memory.size:
            raise ExecutionFaultError(f"{self._name(position)} lies outside the scratchpad")
        holder = self._owner[start:end].max(initial=-1)
        if holder >= 0:
            raise ExecutionFaultError(
                f"{self._name(position)} overlaps {self._name(int(holder))} at step {stay.first_step}"
            )
        self._owner[start:end] = position
        self._resident[self._key(stay)] = position
        if stay.tensor is None:
            data = _parameters(stay.operator, end - start)
            self._memory[start:end] = data
            self.compulsory += data.size

    def _retrieve(self, tensor: int) -> None:
        if tensor not in self._host:
            raise ExecutionFaultError(f"{self._graph.tensors[tensor].name!r} is retrieved but was never spilled")
        position = self._resident.get((tensor, -1))
        if position is None or not self._stays[position].retrieved:
            raise ExecutionFaultError(f"{self._graph.tensors[tensor].name!r} is retrieved to no address")
        start, end = self._span(position)
        self._memory[start:end] = self._host[tensor]
        self.read += end - start

    def _load(self, tensor: int | None, operator: int) -> Data:
        position = self._resident.get((tensor, operator if tensor is None else -1))
        if position is None:
            name = "its parameters" if tensor is None else repr(self._graph.tensors[tensor].name)
            raise ExecutionFaultError(f"{self._graph.operators[operator].name!r} reads {name}, not in the scratchpad")
        start, end = self._span(position)
        return self._memory[start:end].copy()

    def _store(self, tensor: int, operator: int, data: Data) -> None:
        position = self._resident.get((tensor, -1))
        if position is None:
            raise ExecutionFaultError(f"{self._graph.operators[operator].name!r} has no room for its output")
        start, end = self._span(position)
        self._memory[start:end] = data

    def _end(self, position: int) -> None:
        """Free the bytes; a tensor spilled for the first time, and a result used for the last, go off chip."""
        stay = self._stays[position]
        start, end = self._span(position)
        data = self._memory[start:end].copy()
        if stay.tensor is not None:
            if stay.tensor in self._spilled and stay.tensor not in self._host:
                self._host[stay.tensor] = data
                self.written += data.size
            if stay.tensor in self._results and self._last_stay[stay.tensor] == position:
                self.outputs[self._graph.tensors[stay.tensor].name] = data
                self.compulsory += data.size
        self._owner[start:end] = -1
        # A freed address holds nothing: whoever still relied on it must not find its data there.
        self._memory[start:end] = 0xA5
        del self._resident[self._key(stay)]

    def _span(self, position: int) -> tuple[int, int]:
        return self._offsets[position], self._offsets[position] + self._stays[position].size_bytes // self._unit

    def _key(self, stay: Residency) -> tuple[int | None, int]:
        return stay.tensor, stay.operator if stay.tensor is None else -1

    def _name(self, position: int) -> str:
        stay = self._stays[position]
        if stay.tensor is None:
            return f"parameters of {self._graph.operators[stay.operator].name!r}"
        return f"tensor {self._graph.tensors[stay.tensor].name!r}"
