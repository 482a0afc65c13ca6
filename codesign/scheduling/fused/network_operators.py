"""A network as the operators that the fused search takes: tensors, axes that several operators share, memories (G2, G4-G7).

Rules G1, G2 and G7 stand in docs/explanation/exact-mapper.md.

* G4: Vector operators read and write the shared level; as many operations at once as the longer side of the array.
  Softmax and normalisation need their whole axis.
* G5, Axes: Two operators share a loop where both index the same axis of the tensor's shape, each with one dimension
  alone. Reshaped, transposed or sliced tensors stay whole or not at all; one read along different axes stays in DRAM.
* G6, Order: That of the network; outputs of the network go to DRAM.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError
from codesign.mapping.looptree import Machine, Operand, Operator
from codesign.scheduling.fused.machines import check_architecture, matrix_machine, vector_machine
from codesign.workloads.computation import Role
from codesign.workloads.fuse import fuse
from codesign.workloads.network import Network, OperatorKind
from codesign.workloads.network import Operator as NetworkOperator

TAKEN = frozenset(
    {
        OperatorKind.CONV,
        OperatorKind.MATMUL,
        OperatorKind.POOL,
        OperatorKind.ACTIVATION,
        OperatorKind.ELEMENTWISE,
        OperatorKind.SOFTMAX,
        OperatorKind.NORMALIZATION,
        OperatorKind.REDUCE,
        OperatorKind.GATHER,
        OperatorKind.SLICE,
        OperatorKind.CONCAT,
        OperatorKind.APPEND,
        OperatorKind.TRANSPOSE,
    }
)
"""Operators that the rules know (G2)."""

_VIEWS = frozenset({OperatorKind.RESHAPE, OperatorKind.TRANSPOSE, OperatorKind.SLICE, OperatorKind.CONCAT})
_WHOLE_AXIS = {**dict.fromkeys(("softmax", "log_softmax", "layer_norm", "rms_norm"), -1), "local_response_norm": 1}
"""Functions that need all of one axis at once."""

Axis = tuple[tuple[str, int], ...]
Group = tuple[int, ...]
"""Axes of a tensor that one axis of an operand runs over, those of length 1 left out."""


@dataclass(frozen=True)
class FusedGraph:
    """A network for the fused search.

    Args:
        name: Of the network.
        operators: In the order they run.
        machines: For each of them the machine that runs it.
        between: Intermediates that may stay on the chip.
        macs: Multiply-accumulates of all.
        weight_bytes: Parameters that matrix operators multiply with.
        capacity_bits: Of the shared level.
    """

    name: str
    operators: tuple[Operator, ...]
    machines: tuple[tuple[Machine, ...], ...]
    between: frozenset[str]
    macs: int
    weight_bytes: int
    capacity_bits: float


def graph_of(network: Network, architecture: Architecture, capacity_bytes: int | None = None) -> FusedGraph:
    """The operators of a network and the machines that run them.

    Args:
        network: As loaded, nothing fused.
        architecture: The accelerator.
        capacity_bytes: Of the level that intermediates may stay in; by default as the architecture says.

    Raises:
        UserError: An operator or the architecture is not taken; the message names the rule.
    """
    check_architecture(architecture)
    shared = architecture.levels[1]
    bits = float(8 * capacity_bytes if capacity_bytes is not None else shared.capacity_bits or 0)
    return _Converter(network, fuse(network), architecture, bits).graph()


@dataclass
class _Converter:
    original: Network
    network: Network
    architecture: Architecture
    capacity_bits: float
    groups: dict[str, tuple[Group, ...]] = field(default_factory=dict)
    part_of: dict[str, str] = field(default_factory=dict)

    def graph(self) -> FusedGraph:
        for operator in self.network.operators:
            self._check(operator)
            if operator.kind is OperatorKind.SLICE:  # readers read part of its source
                self.part_of[operator.outputs[0]] = self.source(operator.inputs[0])
        operators = [o for o in self.network.operators if o.kind is not OperatorKind.SLICE]
        if not operators:
            raise UserError("no operator computes anything (rule G2)", where=f"network {self.network.name!r}")
        made = [self._made(o) for o in operators]
        written = {o.outputs[0] for o in operators}
        read = {t.name for o in made for t in o.operands if not t.output}
        twice = {t.of for o in made for t in o.operands}  # stay in DRAM (G5)
        between = frozenset((written & read) - {self.source(n) for n in self.network.outputs} - twice)
        machines = tuple((self._machine(o, m, between),) for o, m in zip(operators, made, strict=True))
        found = self.network
        return FusedGraph(
            found.name, tuple(made), machines, between, found.macs, found.weight_bytes, self.capacity_bits
        )

    def _check(self, operator: NetworkOperator) -> None:
        where = f"operator {operator.name!r}"
        if operator.kind not in TAKEN:
            raise UserError(
                f"the fused scheduler takes {', '.join(sorted(k.value for k in TAKEN))}, got {operator.kind.value!r} (rule G2)",
                where=where,
                hint="--scheduler soma or cosma take it",
            )
        if len(operator.outputs) != 1:
            raise UserError(f"an operator must write one tensor, got {len(operator.outputs)} (rule G2)", where=where)

    # ------------------------------------------------------------------ tensors

    def source(self, name: str) -> str:
        """The tensor that a tensor is part of."""
        return self.part_of.get(name, name)

    def _bits(self, name: str) -> float:
        tensor = self.network.tensor_by_name[name]
        return tensor.bits + tensor.scale_bits

    def _viewed(self, operator: NetworkOperator, name: str) -> bool:
        """Whether the operator sees the tensor in another shape or order than its producer wrote it (G5)."""
        if name in operator.outputs:
            return False
        if name in self.part_of:
            return True
        original = self.original.operator_by_name.get(operator.name)
        if original is None:
            return True
        sources = (self.original.producers.get(n) for n in original.inputs)
        return name not in original.inputs and any(s is not None and s.kind in _VIEWS for s in sources)

    def _ranks(self, operator: NetworkOperator, name: str, extents: Sequence[int], sliding: bool) -> tuple[str, ...]:
        """Names of the axes of an operand; equal names in two operators are the same axis (G5)."""
        shape = self.network.tensor_by_name[name].shape
        groups: tuple[Group, ...] | None = None
        if not self._viewed(operator, name):
            if sliding and len(shape) == len(extents):
                groups = tuple((i,) for i in range(len(shape)))
            elif not sliding:
                groups = grouping(shape, extents)
        if groups is None:
            return tuple(f"{operator.name}:{i}" for i in range(len(extents)))
        return tuple("+".join(map(str, g)) for g in groups)

    def _made(self, operator: NetworkOperator) -> Operator:
        if operator.computation is not None:
            return self._matrix(operator)
        if operator.kind is OperatorKind.CONCAT:
            return self._joined(operator)
        if operator.kind is OperatorKind.APPEND:
            return self._appended(operator)
        return self._pool(operator) if operator.kind is OperatorKind.POOL else self._vector(operator)

    def _joined(self, operator: NetworkOperator) -> Operator:
        """A concatenation in place: every tensor is one element (G2)."""
        names = [*dict.fromkeys(self.source(n) for n in operator.inputs), operator.outputs[0]]
        sizes = [self._bits(n) * self.network.tensor_by_name[n].elements for n in names]
        operands = [Operand(n, (), n == names[-1], size) for n, size in zip(names, sizes, strict=True)]
        return Operator(operator.name, tuple(operands), {"d": 1}, copy=True)

    def _appended(self, operator: NetworkOperator) -> Operator:
        """The new part is read and stored; the cache stays in DRAM, where readers find all of it (G2)."""
        grown, new = operator.outputs[0], operator.inputs[-1]
        shape = self.network.tensor_by_name[new].shape
        dims: dict[str, Group] = {f"d{i}": (i,) for i, size in enumerate(shape) if size > 1}
        read = self._aligned(operator, new, shape, dims)
        stored = Operand(f"{grown} entries", read.axes, True, self._bits(grown), read.ranks, grown)
        return Operator(operator.name, (read, stored), {d: shape[i] for d, (i,) in dims.items()} or {"d": 1})

    # ------------------------------------------------------------------ matrix operators

    def _matrix(self, operator: NetworkOperator) -> Operator:
        computation = operator.computation
        assert computation is not None  # the caller's choice
        bounds = {d: b for d, b in computation.sizes.items() if b > 1} or {computation.dims[0]: 1}
        operands = []
        seen: set[str] = set()
        for tensor, name in zip(computation.tensors, operator.operands, strict=True):
            axes = tensor.axes
            extents = [axis.extent(computation.sizes) for axis in axes]
            sliding = any(len(axis.terms) > 1 for axis in axes)
            ranks = self._ranks(operator, name, extents, sliding)
            if tensor.role is Role.WEIGHT and len(extents) > 1 and extents[-1] == extents[-2]:
                ranks = (*ranks[:-2], f"{operator.name}:k", f"{operator.name}:n")  # either may stand first
            kept = [(tuple(t for t in a.terms if t[0] in bounds), r) for a, r in zip(axes, ranks, strict=True)]
            kept = [(a, r) for a, r in kept if a]
            whole = self.source(name)
            unique, of = (whole, "") if whole not in seen else (f"{whole} as {tensor.name}", whole)
            seen.add(whole)
            cut, names = tuple(a for a, _ in kept), tuple(r for _, r in kept)
            operands.append(Operand(unique, cut, tensor.is_output, self._bits(name), names, of))
            if tensor.is_output:
                found = grouping(self.network.tensor_by_name[name].shape, extents) or ()
                self.groups[name] = tuple(g for g in found if g)
        return Operator(operator.name, tuple(operands), bounds)

    # ------------------------------------------------------------------ vector operators

    def _vector(self, operator: NetworkOperator) -> Operator:
        """Every point of the output, or every row of it where the function needs whole rows (G4)."""
        out = operator.outputs[0]
        shape = self.network.tensor_by_name[out].shape
        activations = self.network.activation_inputs(operator)
        groups = next(
            (self.groups[t.name] for t in activations if t.shape == shape and self.groups.get(t.name)),
            tuple((i,) for i, s in enumerate(shape) if s > 1),
        )
        self.groups[out] = groups
        whole = {_WHOLE_AXIS[operator.function] % len(shape)} if operator.function in _WHOLE_AXIS else set[int]()
        if operator.kind is OperatorKind.NORMALIZATION and operator.function not in (*_WHOLE_AXIS, "batch_norm"):
            whole = {i for i, s in enumerate(shape) if i != self.network.tensor_by_name[out].batch_axis}
        if operator.kind is OperatorKind.TRANSPOSE:
            groups = self.groups[out] = tuple((i,) for i, s in enumerate(shape) if s > 1)
        groups = tuple(g for g in groups if not whole & set(g)) + tuple((i,) for i in whole if shape[i] > 1)
        dims = {f"d{'_'.join(map(str, g))}": g for g in groups if not whole & set(g)}
        bounds = {d: math.prod(shape[i] for i in g) for d, g in dims.items()} or {"d": 1}
        inputs = list(dict.fromkeys(reversed(operator.inputs)))
        if operator.kind is OperatorKind.GATHER:
            inputs = [
                n for n in inputs if not self.network.tensor_by_name[n].is_parameter and n != self._table(operator)
            ]
        operands = _read_once([self._aligned(operator, n, shape, dims) for n in inputs])
        if operator.kind is OperatorKind.GATHER:
            operands.append(self._entries(operator, out, shape, dims))
        operands.append(self._aligned(operator, out, shape, dims, output=True))
        return Operator(operator.name, tuple(operands), bounds)

    def _aligned(
        self, operator: NetworkOperator, name: str, shape: tuple[int, ...], dims: dict[str, Group], output: bool = False
    ) -> Operand:
        """A tensor of a vector operator: axes aligned from the last, as broadcasting has it; the rest is part of each element.

        Of an activation in other axes every element is read once, in an order of its own (G5).
        """
        own = self.network.tensor_by_name[name]
        is_index = operator.kind is OperatorKind.GATHER and name in operator.inputs
        of_channels = operator.function == "batch_norm" and own.is_parameter
        offset = 0 if is_index else int(of_channels) or len(shape) - len(own.shape)
        turned = operator.kind is OperatorKind.TRANSPOSE and not output
        viewed = not output and (self._viewed(operator, name) or (turned and not operator.permutation))
        axes: list[Axis] = []
        ranks: list[str] = []
        covered = 1
        for dim, group in dims.items():
            places = [i - offset for i in group]
            if turned and operator.permutation:
                places = [operator.permutation[i] for i in group]
            sizes = [own.shape[p] if 0 <= p < len(own.shape) else 1 for p in places]
            if any(s == shape[i] for s, i in zip(sizes, group, strict=True) if shape[i] > 1):
                if any(s != shape[i] for s, i in zip(sizes, group, strict=True)):
                    raise UserError(
                        f"tensor {name!r} of shape {list(own.shape)} is broadcast along part of a joined axis (rule G4)",
                        where=f"operator {operator.name!r}",
                    )
                axes.append(((dim, 1),))
                ranks.append(
                    f"{operator.name}:{dim}" if viewed else "+".join(str(p) for p in places if own.shape[p] > 1)
                )
                covered *= math.prod(sizes)
        width = self._bits(name) * max(own.elements // max(covered, 1), 1)
        spread = len(own.shape) <= len(shape) and all(
            s in (1, t) for s, t in zip(own.shape[::-1], shape[::-1], strict=False)
        )
        if len(axes) < len(dims) and not (spread or output or is_index or own.is_parameter):
            axes, ranks = [((d, 1),) for d in dims], [f"{operator.name}:{d}" for d in dims]
            width = self._bits(name) * own.elements / math.prod(shape[i] for g in dims.values() for i in g)
        return Operand(self.source(name), tuple(axes), output, width, tuple(ranks))

    def _entries(self, operator: NetworkOperator, out: str, shape: tuple[int, ...], dims: dict[str, Group]) -> Operand:
        """The entries of a table that a lookup reads: as many elements as it writes, each once (rule W7)."""
        table = self._table(operator)
        sizes = [self.network.tensor_by_name[n].elements for n in (table, out)]
        like = self._aligned(operator, out, shape, dims)
        return Operand(
            f"{table} entries",
            like.axes,
            False,
            self._bits(table) / self._bits(out) * like.bits * min(1.0, sizes[0] / sizes[1]),
            like.ranks,
            self.source(table),
        )

    def _table(self, operator: NetworkOperator) -> str:
        return next((n for n in operator.inputs if self.network.tensor_by_name[n].is_parameter), operator.inputs[0])

    def _pool(self, operator: NetworkOperator) -> Operator:
        out, source = operator.outputs[0], self.network.activation_inputs(operator)[0]
        shape, window = self.network.tensor_by_name[out].shape, operator.window
        if window is None or len(window.kernel) != len(shape) - 2 or len(source.shape) != len(shape):
            raise UserError(
                "a pooling needs a window over all axes after the second (rule G4)", where=f"operator {operator.name!r}"
            )
        bounds: dict[str, int] = {}
        axes_in: list[tuple[Axis, str]] = []
        axes_out: list[tuple[Axis, str]] = []
        for i, size in enumerate(shape):
            terms: list[tuple[str, int]] = []
            stride = window.stride[i - 2] if i >= 2 else 1
            if size > 1:
                bounds[f"d{i}"] = size
                axes_out.append((((f"d{i}", 1),), str(i)))
                terms.append((f"d{i}", stride))
            if i >= 2 and window.kernel[i - 2] > 1:
                bounds[f"w{i}"] = window.kernel[i - 2]
                terms.append((f"w{i}", window.dilation[i - 2]))
            if terms:
                axes_in.append(
                    (tuple(terms), f"{operator.name}:{i}" if self._viewed(operator, source.name) else str(i))
                )
        self.groups[out] = tuple((i,) for i, s in enumerate(shape) if s > 1)
        operands = (
            Operand(
                self.source(source.name),
                tuple(a for a, _ in axes_in),
                False,
                self._bits(source.name),
                tuple(r for _, r in axes_in),
            ),
            Operand(out, tuple(a for a, _ in axes_out), True, self._bits(out), tuple(r for _, r in axes_out)),
        )
        return Operator(operator.name, operands, bounds or {"d": 1})

    # ------------------------------------------------------------------ machines

    def _machine(self, operator: NetworkOperator, made: Operator, between: frozenset[str]) -> Machine:
        may_stay = between & frozenset(t.name for t in made.operands)
        computation = operator.computation
        if made.copy:
            return vector_machine(self.architecture, made, 0, made_together(made, may_stay), self.capacity_bits)
        if computation is None:
            return vector_machine(self.architecture, made, operator.operations, may_stay, self.capacity_bits)
        roles = {t.name: c.role for t, c in zip(made.operands, computation.tensors, strict=True)}
        extra = operator.operations * (self.architecture.mac.energy_pj or 0.0)
        partial = computation.output.partial_bits
        return matrix_machine(self.architecture, made, roles, partial, may_stay, extra, self.capacity_bits)


def _read_once(operands: Sequence[Operand]) -> list[Operand]:
    """Slices of one tensor as one operand that reads all their words, or as second readings where their axes differ (G5)."""
    found: list[Operand] = []
    for operand in operands:
        same = [i for i, t in enumerate(found) if t.tensor == operand.name]
        like = [i for i in same if (found[i].axes, found[i].ranks) == (operand.axes, operand.ranks)]
        if like:
            found[like[0]] = replace(found[like[0]], bits=found[like[0]].bits + operand.bits)
        elif same:
            found.append(replace(operand, name=f"{operand.name} again {len(same)}", of=operand.name))
        else:
            found.append(operand)
    return found


def made_together(join: Operator, may_stay: frozenset[str]) -> frozenset[str]:
    """The tensors of a concatenation if all of them may stay on the chip, else none (G2)."""
    return may_stay if all(t.name in may_stay for t in join.operands) else frozenset()


def grouping(shape: Sequence[int], extents: Sequence[int]) -> tuple[Group, ...] | None:
    """Which axes of a tensor each axis of an operand runs over, in the order of memory; None where they do not fit.

    >>> grouping((1, 128, 768), (128, 768)), grouping((2, 12, 64, 64), (24, 64, 64)), grouping((128, 768), (12, 128, 64))
    (((1,), (2,)), ((0, 1), (2,), (3,)), None)
    """
    found: list[Group] = []
    at = 0
    for extent in extents:
        covered, product = list[int](), 1
        while product < extent and at < len(shape):
            if shape[at] > 1:
                covered.append(at)
                product *= shape[at]
            at += 1
        if product != extent:
            return None
        found.append(tuple(covered))
    return tuple(found) if all(s == 1 for s in shape[at:]) else None
