"""The loops of a mapping shared out among loader, sequencer and array of a machine of loop nests.

G1 to G4 and G7 of docs/explanation/hardware.md: which mappings the family runs, and which loops are whose. How tensors lie is `nest_plan.py`'s.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError
from codesign.core.kept import kept
from codesign.hardware.layout import along_axis
from codesign.hardware.nest_walk import Nest
from codesign.hardware.parameters import LOCAL, PARTIAL_BYTES, PORTS, SCRATCHPAD, Control, Parameters, machine_of_levels
from codesign.hardware.sharing import Fold, shared_out
from codesign.mapping.mapping import Mapping, Spatial, Storage, Temporal
from codesign.mapping.validate import check_mapping
from codesign.workloads.computation import Computation, Role, Tensor


class TilesTooLargeError(UserError):
    """Tiles of a mapping that do not fit with partial sums of 32 bits (rule G4)."""

    def __init__(self, memory: str, demand_bytes: int, limit_bytes: int, where: str) -> None:
        self.memory, self.demand_bytes, self.limit_bytes = memory, demand_bytes, limit_bytes
        super().__init__(
            f"the tiles take {demand_bytes} bytes of {memory}'s {limit_bytes} with partial sums of 32 bits (rule G4)",
            where=where,
            hint="search with sums of 32 bits: explore --space scratchpad-built, or build --remap",
        )


@dataclass(frozen=True)
class TemporalLoop:
    """A loop with what one iteration of it steps."""

    dim: str
    factor: int
    step: int


def ports_of(computation: Computation) -> dict[str, Tensor]:
    """Which tensor is at which port: A the input, B the weight, O the result.

    Raises:
        UserError: The computation does not have two operands.
    """
    inputs = computation.inputs
    if len(inputs) != 2:
        raise UserError(
            f"an element multiplies two operands, the computation has {len(inputs)} (rule G1)", where=str(computation)
        )
    first, second = inputs
    if first.role is Role.WEIGHT and second.role is Role.INPUT:
        first, second = second, first
    return {"A": first, "B": second, "O": computation.output}


def parameters_of(
    architecture: Architecture, computation: Computation, bus_bytes: int, burst_bytes: int, name: str
) -> Parameters:
    """The machine of loop nests for a design and a kind of computation.

    Raises:
        UserError: The architecture is not DRAM, scratchpad, local memories.
    """
    check_family(architecture)
    local = architecture.levels[LOCAL]
    kept = {port for port, t in ports_of(computation).items() if t.name in local.keep or t.role.value in local.keep}
    return machine_of_levels(architecture, Control.NEST, kept, bus_bytes, burst_bytes, name)


def check_family(architecture: Architecture) -> None:
    """Refuse an architecture that is not DRAM, scratchpad, local memories.

    Raises:
        UserError: It is not, with the rule.
    """
    where = f"architecture {architecture.name!r}"
    if len(architecture.levels) != 3:
        raise UserError(
            f"this family has DRAM, a scratchpad and local memories, got {len(architecture.levels)} levels (rule G1)",
            where=where,
        )
    if any(architecture.levels[depth].capacity_bytes is None for depth in (SCRATCHPAD, LOCAL)):
        raise UserError("both memories on chip need a capacity (rule G1)", where=where)


class NestLoops:
    """A mapping's loops and tiles on a machine, however its tensors lie; see `NestPlan`."""

    def __init__(
        self, computation: Computation, architecture: Architecture, mapping: Mapping, parameters: Parameters
    ) -> None:
        check_mapping(computation, architecture, mapping)
        self.computation, self.mapping, self.p = computation, mapping, parameters
        self.names = [level.name for level in architecture.levels]
        self.tensors = ports_of(computation)
        self._read_nest()
        self._check()
        if parameters.folds:
            self._share_out()

    def _read_nest(self) -> None:
        sizes = dict.fromkeys(self.computation.dims, 1)
        steps: list[TemporalLoop] = []
        self.spatial: list[tuple[Spatial, int]] = []
        self.fold: Fold | None = None
        for node in reversed(self.mapping.loops):
            if isinstance(node, Temporal):
                steps.append(TemporalLoop(node.dim, node.factor, sizes[node.dim]))
            else:
                self.spatial.append((node, sizes[node.dim]))
            sizes[node.dim] *= node.factor
        self.loops = tuple(reversed(steps))
        self.spatial.reverse()
        count = 0
        self.outside: dict[tuple[str, str], int] = {}
        spatial_seen = False
        self.spatial_before: dict[tuple[str, str], bool] = {}
        for n in self.mapping.nodes:
            if isinstance(n, Storage):
                self.outside[n.tensor, n.level] = count
                self.spatial_before[n.tensor, n.level] = spatial_seen
            elif isinstance(n, Temporal):
                count += 1
            else:
                spatial_seen = True

    def _share_out(self) -> None:
        """Spatial loops along the axes with which results leave in the fewest lines (rule G7)."""
        moves = [any(self.moves_of("O", node.dim, step)) for node, step in self.spatial]
        self.spatial, self.fold = shared_out(self.spatial, moves, self.p)

    def _check(self) -> None:
        """Rules G1 to G3."""
        p, where = self.p, f"mapping of {self.computation}"
        for port, tensor in self.tensors.items():
            if self.spatial and port in p.local and not self.spatial_before.get((tensor.name, self.names[LOCAL]), True):
                raise UserError(
                    f"the local tile of {tensor.name!r} stands outside the spatial loops (rule G2)", where=where
                )
            levels = self.mapping.levels_of(tensor.name)
            wanted = tuple(self.names) if port in p.local else tuple(self.names[:2])
            if levels != wanted:
                raise UserError(
                    f"{tensor.name!r} is kept at {', '.join(levels)}, this machine keeps it at {', '.join(wanted)} (rule G2)",
                    where=where,
                )
        if self.n_seq > p.outer_loops:
            raise UserError(
                f"the mapping has {self.n_seq} temporal loops outside the array's nest, the machine has {p.outer_loops} (rule G3)",
                where=where, hint="generate it with more `outer_loops`",
            )  # fmt: skip
        rows, cols = (math.prod(node.factor for node, _ in self.spatial if node.axis == axis) for axis in "yx")
        if rows > p.rows or cols > p.cols:
            raise UserError(
                f"the mapping uses {rows} x {cols} elements, the array has {p.rows} x {p.cols}",
                where=where,
            )
        for port, tensor in self.tensors.items():
            if port == "O" and tensor.bits not in (8, 16, 32):
                raise UserError(f"results of {tensor.bits} bits in DRAM: 8, 16 or 32 are moved (rule G4)", where=where)
            if port != "O" and tensor.bits != 8:
                raise UserError(
                    f"operand {tensor.name!r} has {tensor.bits} bits, elements multiply 8 (rule G4)", where=where
                )
        used = sum(math.prod(self.tile(port)) * self.chip_bytes(port) for port in PORTS)
        capacity = p.lines * p.line_bytes
        if used > capacity:
            raise TilesTooLargeError("the scratchpad", used, capacity, where)
        local = sum(math.prod(self.local_tile(port)) * self.chip_bytes(port) for port in p.local)
        if local > p.local_bytes:
            raise TilesTooLargeError("a local memory", local, p.local_bytes, where)

    def chip_bytes(self, port: str) -> int:
        """Bytes of an element on chip."""
        return PARTIAL_BYTES if port == "O" else 1

    def sp(self, port: str) -> int:
        """Temporal loops outside the tensor's tile in the scratchpad."""
        return self.outside[self.tensors[port].name, self.names[SCRATCHPAD]]

    def loc(self, port: str) -> int:
        """Temporal loops outside the tensor's tile in a local memory, or all where it is not kept there."""
        return self.outside.get((self.tensors[port].name, self.names[LOCAL]), len(self.loops))

    @cached_property
    def n_loads(self) -> int:
        """Loops the loader walks: those outside any scratchpad tile."""
        return max(self.sp(port) for port in PORTS)

    @cached_property
    def n_seq(self) -> int:
        """Loops the sequencer walks; the rest are the array's: as many as move no local tile and stand inside the scratchpad."""
        first = max(self.n_loads, len(self.loops) - self.p.run_loops)
        for i in range(len(self.loops) - 1, first - 1, -1):
            for port in self.p.local:
                if i < self.loc(port) and any(self.move(port, i)):
                    return i + 1
        return first

    @cached_property
    def nest(self) -> Nest:
        """The sequencer's loops as compiled code takes them, the same in every layout."""
        n = self.n_seq
        return Nest(
            np.array([x.factor for x in self.loops[:n]], np.int64),
            self.n_loads,
            np.array([self.changes(q, self.sp(q), n) for q in PORTS], np.bool_).reshape(3, n),
            np.array([self.changes(q, self.loc(q), n) for q in PORTS], np.bool_).reshape(3, n),
            np.array([any(self.move("O", i)) for i in range(n)], np.bool_),
        )

    def move(self, port: str, loop: int) -> tuple[int, ...]:
        """What one iteration of a temporal loop moves, on each axis of the tensor."""
        return self._loop_moves[port][loop]

    @cached_property
    def _loop_moves(self) -> dict[str, list[tuple[int, ...]]]:
        return {port: [self.moves_of(port, item.dim, item.step) for item in self.loops] for port in PORTS}

    def moves_of(self, port: str, dim: str, step: int) -> tuple[int, ...]:
        """What a step on a dimension moves, on each axis of the tensor."""
        return tuple([c * step for c in self._coefficients[port, dim]])

    @cached_property
    def _coefficients(self) -> dict[tuple[str, str], tuple[int, ...]]:
        """By port and dimension, its coefficient on each axis of the tensor."""
        return {
            (port, dim): tuple(sum(c for d, c in axis.terms if d == dim) for axis in tensor.axes)
            for port, tensor in self.tensors.items()
            for dim in self.computation.dims
        }

    @kept
    def tile(self, port: str) -> tuple[int, ...]:
        """Extent of the tensor's tile in the scratchpad (C1)."""
        return self._extents(port, [*self.loops[self.sp(port) :], *(node for node, _ in self.spatial)])

    @kept
    def local_tile(self, port: str) -> tuple[int, ...]:
        """Extent of the tensor's tile in a local memory, inside the spatial loops."""
        return self._extents(port, self.loops[self.loc(port) :])

    def _extents(self, port: str, inside: Iterable[TemporalLoop | Spatial]) -> tuple[int, ...]:
        sizes = dict.fromkeys(self.computation.dims, 1)
        for loop in inside:
            sizes[loop.dim] *= loop.factor
        return self.tensors[port].shape(sizes)

    @kept
    def order(self, port: str) -> tuple[int, ...]:
        """Axes from the outermost to the innermost: the wider an axis is spread over the array, the further in it lies.

        Of results, axes spread over columns lie further in than those spread over rows: columns share lines, rows do not.
        """
        spread = [0] * len(self.tensors[port].axes)
        wide, side = [False] * len(spread), port == "O" and self.p.overlaps
        for node, step in self.spatial:
            for a, move in enumerate(self.moves_of(port, node.dim, step)):
                wide[a] = wide[a] or (side and move != 0 and node.axis == "x")
                spread[a] += abs(move) * (node.factor - 1)
        return tuple(sorted(range(len(spread)), key=lambda a: (spread[a] > 0, wide[a], spread[a], a)))

    @kept
    def cut(self, port: str) -> dict[str, int]:
        """Dimensions that alone make up an axis of the tensor, in steps of one: its number by dimension."""
        axes = self.tensors[port].axes
        terms = [[(d, c) for d, c in axis.terms if self.computation.sizes[d] > 1] for axis in axes]
        used = [d for found in terms for d, _ in found]
        return {t[0][0]: a for a, t in enumerate(terms) if len(t) == 1 and t[0][1] == 1 and used.count(t[0][0]) == 1}

    @property
    def used_rows(self) -> int:
        """Rows of the array in use."""
        return math.prod(count for _, count, _ in self.along("y"))

    @property
    def used_cols(self) -> int:
        """Columns of the array in use."""
        return math.prod(count for _, count, _ in self.along("x"))

    @kept
    def along(self, axis: str) -> list[tuple[int, int, int]]:
        """The spatial loops of an axis, the outermost first: number, iterations, and what one of these steps in iterations of the loop."""
        found = []
        for k, (node, _) in enumerate(self.spatial):
            if self.fold is not None and self.fold.loop == k:
                wide = axis == "x"
                found.append((k, self.fold.cols if wide else self.fold.rows, 1 if wide else self.fold.cols))
            elif node.axis == axis:
                found.append((k, node.factor, 1))
        return found

    @cached_property
    def resting(self) -> frozenset[tuple[int, int]]:
        """Elements between those in use that have no iteration: what the last row of a folded loop leaves free."""
        if self.fold is None:
            return frozenset()
        number = self.fold.loop
        rows, cols = (along_axis([(n, step * (k == number)) for k, n, step in self.along(axis)]) for axis in "yx")
        most = self.spatial[number][0].factor
        return frozenset((y, x) for y, r in enumerate(rows) for x, c in enumerate(cols) if r + c >= most)

    @kept
    def changes(self, port: str, outside: int, last: int) -> tuple[bool, ...]:
        """By temporal loop up to `last`: whether the tile inside `outside` loops moves when that loop advances."""
        moves, found = self._loop_moves[port], [False] * last
        inside = [0] * len(self.tensors[port].axes)  # what the loops further in come back from
        for i in range(outside - 1, -1, -1):
            if i < last:
                found[i] = any(a != b for a, b in zip(moves[i], inside, strict=True))
            count = self.loops[i].factor - 1
            inside = [b + count * a for a, b in zip(moves[i], inside, strict=True)]
        return tuple(found)
