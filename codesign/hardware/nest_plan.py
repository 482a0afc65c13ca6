"""A mapping shared out among the parts of a machine of loop nests.

G1 to G7 of docs/explanation/hardware.md: which mappings the family runs, how the loops are shared out, where tiles lie.
"""

import math
from dataclasses import dataclass
from functools import cached_property

from codesign.arch.architecture import Architecture, Links
from codesign.core.errors import UserError
from codesign.hardware.image import (
    place,
    strides_of,
)
from codesign.hardware.lanes import Element, Emissions, Start, Window, group_bytes, operand_windows, result_emissions
from codesign.hardware.layout import Box, Layout, LayoutKind, Place, box_of_places, distance, strides_by_place
from codesign.hardware.parameters import PARTIAL_BYTES, WORD_BYTES, Control, Parameters
from codesign.hardware.sharing import shared_out
from codesign.mapping.layout import Digit, TensorLayout
from codesign.mapping.mapping import Mapping, Spatial, Storage, Temporal
from codesign.mapping.validate import check_mapping
from codesign.workloads.computation import Computation, Role, Tensor

SCRATCHPAD, LOCAL = 1, 2
"""Positions of the levels on chip."""

PORTS = ("A", "B", "O")


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
    scratchpad, local = architecture.levels[SCRATCHPAD], architecture.levels[LOCAL]
    assert scratchpad.capacity_bytes is not None and local.capacity_bytes is not None
    kept = {port for port, t in ports_of(computation).items() if t.name in local.keep or t.role.value in local.keep}
    return Parameters(
        name=name,
        control=Control.NEST,
        rows=scratchpad.fanout.y,
        cols=scratchpad.fanout.x,
        links=scratchpad.fanout.links,
        banks=scratchpad.banks,
        scratchpad_bytes=int(scratchpad.capacity_bytes),
        local_bytes=int(local.capacity_bytes),
        local=frozenset(kept),
        bus_bytes=bus_bytes,
        burst_bytes=burst_bytes,
    )


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


class NestPlan:
    """How a mapping is shared out among loader, sequencer and array.

    Args:
        computation: What is computed.
        architecture: The design; its level names are those of the mapping.
        mapping: The nest.
        parameters: Of the machine.
        layout: How tensors lie.
    """

    def __init__(
        self,
        computation: Computation,
        architecture: Architecture,
        mapping: Mapping,
        parameters: Parameters,
        layout: LayoutKind = LayoutKind.PLAIN,
    ) -> None:
        check_mapping(computation, architecture, mapping)
        self.computation, self.mapping, self.p, self.layout = computation, mapping, parameters, layout
        self.names = [level.name for level in architecture.levels]
        self.tensors = ports_of(computation)
        self._read_nest()
        self._check()
        if parameters.overlaps:
            self._share_out()

    def _read_nest(self) -> None:
        sizes = dict.fromkeys(self.computation.dims, 1)
        steps: list[TemporalLoop] = []
        self.spatial: list[tuple[Spatial, int]] = []
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
        moves = [any(self._moves("O", node.dim, step)) for node, step in self.spatial]
        self.spatial = shared_out(self.spatial, moves, self.p)

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
        if self.used_rows > p.rows or self.used_cols > p.cols:
            raise UserError(
                f"the mapping uses {self.used_rows} x {self.used_cols} elements, the array has {p.rows} x {p.cols}",
                where=where,
            )
        for port, tensor in self.tensors.items():
            if port == "O" and tensor.bits not in (8, 16, 32):
                raise UserError(f"results of {tensor.bits} bits in DRAM: 8, 16 or 32 are moved (rule G4)", where=where)
            if port != "O" and tensor.bits != 8:
                raise UserError(
                    f"operand {tensor.name!r} has {tensor.bits} bits, elements multiply 8 (rule G4)", where=where
                )
        used = sum(math.prod(self.tile(port, self.sp(port))) * self.chip_bytes(port) for port in PORTS)
        capacity = p.lines * p.line_bytes
        if used > capacity:
            raise TilesTooLargeError("the scratchpad", used, capacity, where)
        local = sum(
            math.prod(self.tile(port, self.loc(port), local=True)) * self.chip_bytes(port) for port in sorted(p.local)
        )
        if local > p.local_bytes:
            raise TilesTooLargeError("a local memory", local, p.local_bytes, where)
        given = {item.tensor: item for item in self.mapping.layouts}
        for port, tensor in self.tensors.items():
            if tensor.name in given:  # refused before anything is generated
                self._given_places(port, given[tensor.name])

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

    def move(self, port: str, loop: int) -> tuple[int, ...]:
        """What one iteration of a temporal loop moves, on each axis of the tensor."""
        item = self.loops[loop]
        return self._moves(port, item.dim, item.step)

    def _moves(self, port: str, dim: str, step: int) -> tuple[int, ...]:
        return tuple(sum(c * step for d, c in axis.terms if d == dim) for axis in self.tensors[port].axes)

    def tile(self, port: str, outside: int, local: bool = False) -> tuple[int, ...]:
        """Extent of the tensor's tile inside so many temporal loops (C1); a local tile stands inside the spatial loops."""
        sizes = dict.fromkeys(self.computation.dims, 1)
        for item in self.loops[outside:]:
            sizes[item.dim] *= item.factor
        if not local:
            for node, _ in self.spatial:
                sizes[node.dim] *= node.factor
        return tuple(axis.extent(sizes) for axis in self.tensors[port].axes)

    @property
    def used_rows(self) -> int:
        """Rows of the array in use."""
        return math.prod(node.factor for node, _ in self.spatial if node.axis == "y")

    @property
    def used_cols(self) -> int:
        """Columns of the array in use."""
        return math.prod(node.factor for node, _ in self.spatial if node.axis == "x")

    def order(self, port: str) -> tuple[int, ...]:
        """Axes from the outermost to the innermost: the wider an axis is spread over the array, the further in it lies.

        Of results, axes spread over columns lie further in than those spread over rows: columns share lines, rows do not.
        """
        spread = [0] * len(self.tensors[port].axes)
        wide, side = [False] * len(spread), port == "O" and self.p.overlaps
        for node, step in self.spatial:
            for a, move in enumerate(self._moves(port, node.dim, step)):
                wide[a] = wide[a] or (side and move != 0 and node.axis == "x")
                spread[a] += abs(move) * (node.factor - 1)
        return tuple(sorted(range(len(spread)), key=lambda a: (spread[a] > 0, wide[a], spread[a], a)))

    @cached_property
    def places(self) -> dict[str, tuple[Place, ...]]:
        """By port, the places of its tensor, the outermost first."""
        blocked = self.layout is not LayoutKind.PLAIN
        given = {item.tensor: item for item in self.mapping.layouts}
        found = {}
        for port, tensor in self.tensors.items():
            if tensor.name in given:
                found[port] = self._given_places(port, given[tensor.name])
            else:
                found[port] = self._blocked_places(port) if blocked else self._plain_places(port)
        return found

    def _given_places(self, port: str, layout: TensorLayout) -> tuple[Place, ...]:
        """Those of a layout in the mapping: whole axes, and loops of the mapping.

        Raises:
            UserError: A digit is neither.
        """
        sizes, tensor, sp = self.computation.sizes, self.tensors[port], self.sp(port)
        loops = [(x.dim, x.step, x.factor, True, i) for i, x in enumerate(self.loops)]
        loops += [(node.dim, step, node.factor, False, k) for k, (node, step) in enumerate(self.spatial)]
        found, taken = [], set()
        for axis, step, count in layout.parts(tensor, sizes):
            if step == 1 and count == tensor.axes[axis].extent(sizes):
                found.append(self._whole(port, axis))
                continue
            cut = self._cut(port).items()
            fits = [x for x in loops if (axis, step, count) == next(((a, *x[1:3]) for d, a in cut if d == x[0]), None)]
            if not fits or fits[0] in taken:
                digit = Digit(str(tensor.axes[axis]), step, count)
                raise UserError(
                    f"digit {str(digit)!r} of {tensor.name!r} is neither a whole axis nor one of the mapping's loops",
                    where="mapping, layout",
                    hint=f"loops: {', '.join(f'{d}/{s}%{n}' for d, s, n, _, _ in loops)}",
                )
            taken.add(fits[0])
            temporal, number = fits[0][3:]
            inside = count if number >= sp or not temporal else 1
            place = Place(axis, step, count, inside, *((number, None) if temporal else (None, number)))
            found.append(place)
        return tuple(found)

    def _cut(self, port: str) -> dict[str, int]:
        """Dimensions that alone make up an axis of the tensor, in steps of one: its number by dimension."""
        axes = self.tensors[port].axes
        terms = [[(d, c) for d, c in axis.terms if self.computation.sizes[d] > 1] for axis in axes]
        used = [d for found in terms for d, _ in found]
        return {t[0][0]: a for a, t in enumerate(terms) if len(t) == 1 and t[0][1] == 1 and used.count(t[0][0]) == 1}

    def _whole(self, port: str, axis: int) -> Place:
        extents = self.tensors[port].axes[axis].extent(self.computation.sizes)
        return Place(axis, 1, extents, self.tile(port, self.sp(port))[axis])

    def _plain_places(self, port: str) -> tuple[Place, ...]:
        return tuple(self._whole(port, axis) for axis in self.order(port))

    def _blocked_places(self, port: str) -> tuple[Place, ...]:
        """Loops outside the tile, whole axes, loops within it, whole axes that are spread over the array, what is spread."""
        sp, cut = self.sp(port), self._cut(port)
        outer: list[Place] = []
        inner: list[Place] = []
        spread: list[Place] = []
        for i, loop in enumerate(self.loops):
            if loop.dim in cut:
                place = Place(cut[loop.dim], loop.step, loop.factor, loop.factor if i >= sp else 1, temporal=i)
                (inner if i >= sp else outer).append(place)
        order = sorted(range(len(self.spatial)), key=lambda k: port == "O" and self.spatial[k][0].axis == "x")
        for k in order:
            node, step = self.spatial[k]
            if node.dim in cut:
                spread.append(Place(cut[node.dim], step, node.factor, node.factor, spatial=k))
        whole: list[Place] = []
        wide: list[Place] = []
        for axis in self.order(port):
            if axis not in cut.values():
                moves = any(self._moves(port, node.dim, step)[axis] for node, step in self.spatial)
                (wide if moves else whole).append(self._whole(port, axis))
        if port in self._grouped:
            local = [x for x in inner if x.temporal is not None and x.temporal >= self.loc(port) and x.step == 1]
            best = max(local, key=lambda x: (group_of(x.count), -x.count), default=None)
            if best is not None:
                return (*outer, *whole, *(x for x in inner if x is not best), *wide, *spread, best)
        return (*outer, *whole, *inner, *wide, *spread)

    @cached_property
    def chip_strides(self) -> dict[str, tuple[int, ...]]:
        """By port, bytes that a step of each place moves in the scratchpad."""
        counts = {q: [x.inside for x in self.places[q]] for q in PORTS}
        return {q: strides_by_place(counts[q], self.chip_bytes(q), self.padded[q]) for q in PORTS}

    @cached_property
    def padded(self) -> dict[str, dict[int, int]]:
        """By port, what the extents of places in the scratchpad take whole multiples of, in bytes: groups that enter a local memory at once."""
        found: dict[str, dict[int, int]] = {q: {} for q in PORTS}
        for q in self._grouped:
            last = len(self.places[q]) - 1
            if self.places[q][last].temporal is not None:
                found[q][last] = group_bytes(group_of(self.places[q][last].count))
        return found

    @cached_property
    def _grouped(self) -> frozenset[str]:
        """Operand ports whose layout is made for groups."""
        return self.p.local & {"A", "B"} if self.layout is LayoutKind.GROUPED else frozenset()

    @cached_property
    def tile_bytes(self) -> dict[str, int]:
        """By port, bytes that a tile takes in the scratchpad, those left free between its parts included."""
        found = {}
        for q in PORTS:
            outermost = next((i for i, x in enumerate(self.places[q]) if x.inside > 1), None)
            inside = 1 if outermost is None else self.places[q][outermost].inside
            step = self.chip_bytes(q) if outermost is None else self.chip_strides[q][outermost]
            found[q] = inside * step
        return found

    def chip_distance(self, port: str, loop: int) -> int:
        """Bytes in the scratchpad that one iteration of a temporal loop within the tile moves."""
        return distance(self.places[port], self.chip_strides[port], self.move(port, loop), loop, True)

    def local_words(self, port: str) -> list[tuple[int, int, int]]:
        """The words of a local tile as loops, innermost first: (bound, bytes in the scratchpad, bytes in the local memory)."""
        shape, local = self.tile(port, self.loc(port), local=True), self.local_strides(port)
        found = []
        for x, stride in zip(self.places[port], self.chip_strides[port], strict=True):
            if x.whole:
                found.append((shape[x.axis], stride, local[x.axis]))
            elif x.temporal is not None and x.temporal >= self.loc(port):
                found.append((x.count, stride, x.step * local[x.axis]))
        found = [item for item in reversed(found) if item[0] > 1]
        if len(found) > self.p.run_loops:
            raise UserError(
                f"a local tile of {self.tensors[port].name!r} has {len(found)} loops of words, the array walks {self.p.run_loops} (rule G3)"
            )
        return found

    def local_strides(self, port: str) -> tuple[int, ...]:
        """Bytes a step on each axis moves in a local memory; the axis of the words that enter at once is the innermost."""
        shape, last = list(self.tile(port, self.loc(port), local=True)), self.places[port][-1]
        order = list(range(len(shape)))
        if self.p.fills_wide and port in "AB" and last.step == 1:
            order.sort(key=lambda a: a == last.axis)
            size = group_bytes(group_of(shape[last.axis]))
            shape[last.axis] = -(-shape[last.axis] // size) * size if port in self._grouped else shape[last.axis]
        return strides_of(shape, tuple(order), self.chip_bytes(port))

    @cached_property
    def local_bytes(self) -> dict[str, int]:
        """By port kept there, bytes that its tile takes in a local memory."""
        found = {}
        for q in self.p.local:
            shape, strides = self.tile(q, self.loc(q), local=True), self.local_strides(q)
            outermost = max(range(len(shape)), key=lambda a: (strides[a], shape[a]))
            size = shape[outermost] * strides[outermost]
            found[q] = -(-size // PARTIAL_BYTES) * PARTIAL_BYTES if q in self._grouped else size
        if sum(found.values()) > self.p.local_bytes:
            raise UserError("tiles with whole groups of words do not fit a local memory")
        return found

    @cached_property
    def groups(self) -> dict[str, int]:
        """By operand port, the words of a local tile that an element takes at once: 1 to 4 that lie side by side, in bytes of their own."""
        return {q: self._group(q) if self.p.fills_wide and q in self.p.local and q in "AB" else 1 for q in PORTS}

    def _group(self, port: str) -> int:
        words = self.local_words(port)
        if not words or words[0][1:] != (1, 1):
            return 1
        group = group_of(words[0][0])
        size = group_bytes(group)
        rows, cols = self.spread(port)
        places = [*rows, *cols, *self.halves[port], *self.local_halves[port]]
        places += [d for _, chip, local in words[1:] for d in (chip, local)]
        places += [self.chip_distance(port, i) for i in range(self.sp(port), self.loc(port))]
        return group if all(d % size == 0 for d in places) else 1

    def grouped_words(self, port: str) -> list[tuple[int, int, int]]:
        """`local_words`, in groups of those that enter at once."""
        words, group = self.local_words(port), self.groups[port]
        if group == 1:
            return words
        first = words[0][0] // group
        return [(first, group, group), *words[1:]] if first > 1 else words[1:]

    def local_distance(self, port: str, loop: int) -> int:
        """Bytes in a local memory that one iteration of a temporal loop moves."""
        return sum(m * s for m, s in zip(self.move(port, loop), self.local_strides(port), strict=True))

    def changes(self, port: str, outside: int, first: int, last: int) -> list[bool]:
        """By temporal loop of [first, last): whether the tile inside `outside` loops moves when that loop advances."""
        found = []
        for i in range(first, last):
            if i >= outside:
                found.append(False)
                continue
            total = list(self.move(port, i))
            for j in range(i + 1, outside):
                total = [a - (self.loops[j].factor - 1) * b for a, b in zip(total, self.move(port, j), strict=True)]
            found.append(any(total))
        return found

    def spread(self, port: str) -> tuple[list[int], list[int]]:
        """Bytes from the tile's address that each row, and each column, adds."""
        places, strides = self.places[port], self.chip_strides[port]
        found = {}
        for axis, used in (("y", self.used_rows), ("x", self.used_cols)):
            offsets = [0] * used
            inside = 1
            for n, (node, step) in reversed(list(enumerate(self.spatial))):
                if node.axis != axis:
                    continue
                step_bytes = distance(places, strides, self._moves(port, node.dim, step), n, False)
                for k in range(used):
                    offsets[k] += k // inside % node.factor * step_bytes
                inside *= node.factor
            found[axis] = offsets
        return found["y"], found["x"]

    @cached_property
    def halves(self) -> dict[str, tuple[int, ...]]:
        """By port, the scratchpad address of its tile, or of both where a second one fits (rule G5)."""
        size, capacity = self.tile_bytes, self.p.lines * self.p.line_bytes
        if sum(size.values()) > capacity:
            raise UserError("tiles with whole groups of words do not fit the scratchpad")
        aligned = {port: -(-n // WORD_BYTES) * WORD_BYTES for port, n in size.items()}
        step = aligned if sum(aligned.values()) <= capacity else size
        left = capacity - sum(step.values())
        two = set()
        moving = [port for port in PORTS if any(self.changes(port, self.sp(port), 0, self.n_loads))]
        for port in sorted(moving, key=lambda q: step[q]):
            if step[port] <= left:
                two.add(port)
                left -= step[port]
        found, at = {}, 0
        for port in ("O", "A", "B"):  # results first: their words must not straddle
            found[port] = tuple(at + k * step[port] for k in range(2 if port in two else 1))
            at += step[port] * len(found[port])
        return found

    @cached_property
    def local_halves(self) -> dict[str, tuple[int, ...]]:
        """By port kept in the local memories, where its tile begins: partial sums first, their words must not straddle.

        Where local memories fill beside the array, an operand whose tile moves has a second place if it fits, the smaller tile first (rule G5).
        """
        kept: list[str] = [q for q in ("O", "A", "B") if q in self.p.local]
        size = self.local_bytes
        left = self.p.local_bytes - sum(size.values())
        two: set[str] = set()
        for q in sorted(set(kept) - {"O"}, key=lambda q: (size[q], q)):
            if self.p.fills_beside and size[q] <= left and any(self.changes(q, self.loc(q), 0, self.n_seq)):
                two.add(q)
                left -= size[q]
        found: dict[str, tuple[int, ...]] = {}
        at = 0
        for q in kept:
            found[q] = tuple(at + k * size[q] for k in range(2 if q in two else 1))
            at += size[q] * len(found[q])
        return found

    def _begins(self, port: str) -> Start:
        """Where the lines of the array begin."""
        if self.p.halved_banks:
            return Start.ANY
        return Start.WORD if self._aligned(port) else Start.WITHIN

    def _aligned(self, port: str) -> bool:
        """Whether every address of the array's is a multiple of a bank's word."""
        distances = [self.chip_distance(port, i) for i in range(self.sp(port), len(self.loops))]
        if port in self.p.local:
            distances += [stride for _, stride, _ in self.grouped_words(port)]
        if port == "O":
            distances += self.spread(port)[0]
        return all(d % WORD_BYTES == 0 for d in (*distances, *self.halves[port]))

    @cached_property
    def windows(self) -> dict[str, tuple[Window, ...]]:
        """By operand port, the lines that serve the elements."""
        shared = self.p.links is not Links.NONE
        found = {}
        for port in ("A", "B"):
            rows, cols = self.spread(port)
            offset: dict[Element, int] = {(y, x): r + c for y, r in enumerate(rows) for x, c in enumerate(cols)}
            found[port] = operand_windows(offset, self.p.line_bytes, self._begins(port), shared, self.groups[port])
        return found

    @cached_property
    def emissions(self) -> Emissions:
        """How results leave."""
        rows, cols = self.spread("O")
        return result_emissions(rows, cols, self.p.line_bytes, self._begins("O"), self.p.links is not Links.NONE)


def group_of(words: int) -> int:
    """How many of so many words side by side enter a local memory at once.

    >>> [group_of(n) for n in (1, 2, 3, 4, 5, 6, 7, 8)]
    [1, 2, 3, 4, 1, 2, 1, 4]
    """
    if words <= 4:
        return words
    return 4 if words % 4 == 0 else 2 if words % 2 == 0 else 1


def layouts_of(plan: NestPlan) -> dict[str, Layout]:
    """Where the tensors lie in DRAM, by port."""
    wanted = []
    for port, tensor in plan.tensors.items():
        shape = tuple(axis.extent(plan.computation.sizes) for axis in tensor.axes)
        parts = tuple((x.axis, x.step, x.count) for x in plan.places[port])
        wanted.append(Layout(tensor.name, 0, shape, parts, tensor.bits // 8))
    placed, _ = place(wanted)
    return dict(zip(plan.tensors, placed, strict=True))


def box_of(plan: NestPlan, port: str, layout: Layout) -> Box:
    """The transfers of a tensor's tile."""
    box = box_of_places(plan.places[port], layout.element_bytes, plan.chip_bytes(port), plan.padded[port])
    if len(box.loops) > plan.p.box_loops:
        raise UserError(
            f"a tile of {layout.tensor!r} has {len(box.loops)} axes around its runs, the DMA engine walks {plan.p.box_loops} (rule G3)"
        )
    return box
