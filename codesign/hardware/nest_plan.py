"""A mapping shared out among the parts of a machine of loop nests.

G2 and G5 of docs/explanation/hardware.md: where tiles lie, in DRAM, in the scratchpad and in the local memories. Loops are `nest_loops.py`'s.
"""

from collections import Counter
from collections.abc import Iterator
from collections.abc import Mapping as MappingABC
from copy import copy
from fractions import Fraction
from functools import cached_property
from typing import Self

from codesign.arch.architecture import Architecture, Links
from codesign.core.errors import UserError
from codesign.core.kept import kept, kept_by
from codesign.hardware.image import place, strides_of
from codesign.hardware.lanes import Element, Emissions, Start, Window, lines_served, operand_windows, result_emissions
from codesign.hardware.layout import (
    Box,
    Layout,
    LayoutKind,
    Place,
    along_axis,
    box_of_places,
    distance,
    strides_by_place,
)
from codesign.hardware.nest_loops import NestLoops
from codesign.hardware.parameters import PARTIAL_BYTES, PORTS, WORD_BYTES, Parameters
from codesign.mapping.layout import Digit, TensorLayout
from codesign.mapping.mapping import Mapping
from codesign.workloads.computation import Computation


class NestPlan(NestLoops):
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
        super().__init__(computation, architecture, mapping, parameters)
        self.layout, self.results_first = layout, False
        given = {item.tensor: item for item in mapping.layouts}
        for port, tensor in self.tensors.items():
            if tensor.name in given:  # refused before anything is generated
                self._given_places(port, given[tensor.name])

    def in_layout(self, layout: LayoutKind, *, results_first: bool = False) -> Self:
        """The same mapping with tensors that lie in another way, or with a second place for results before any other."""
        other = copy(self)
        other.layout, other.results_first = layout, results_first
        for name in kept_by(NestPlan):  # what the loops alone say stays
            other.__dict__.pop(name, None)
        return other

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
            cut = self.cut(port).items()
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

    def _whole(self, port: str, axis: int) -> Place:
        extents = self.tensors[port].axes[axis].extent(self.computation.sizes)
        return Place(axis, 1, extents, self.tile(port)[axis])

    def _plain_places(self, port: str) -> tuple[Place, ...]:
        return tuple(self._whole(port, axis) for axis in self.order(port))

    def _blocked_places(self, port: str) -> tuple[Place, ...]:
        """Loops outside the tile, whole axes, loops within it, whole axes that are spread over the array, what is spread."""
        sp, cut = self.sp(port), self.cut(port)
        outer: list[Place] = []
        inner: list[Place] = []
        spread: list[Place] = []
        for i, loop in enumerate(self.loops):
            if loop.dim in cut:
                place = Place(cut[loop.dim], loop.step, loop.factor, loop.factor if i >= sp else 1, temporal=i)
                (inner if i >= sp else outer).append(place)
        # a folded loop lies outside those along columns alone: what lies side by side is one run
        folded = None if self.fold is None else self.fold.loop
        order = sorted(
            range(len(self.spatial)), key=lambda k: (port == "O" and self.spatial[k][0].axis == "x", k != folded)
        )
        for k in order:
            node, step = self.spatial[k]
            if node.dim in cut:
                spread.append(Place(cut[node.dim], step, node.factor, node.factor, spatial=k))
        whole: list[Place] = []
        wide: list[Place] = []
        for axis in self.order(port):
            if axis not in cut.values():
                moves = any(self.moves_of(port, node.dim, step)[axis] for node, step in self.spatial)
                (wide if moves else whole).append(self._whole(port, axis))
        if port in self._grouped:
            shape = self.local_tile(port)
            local = {
                x: x.count for x in inner if x.temporal is not None and x.temporal >= self.loc(port) and x.step == 1
            }
            axes = {x: shape[x.axis] for x in (*whole, *wide) if shape[x.axis] > 1}
            partly = self.layout is LayoutKind.PARTLY
            local = local | axes if partly else local
            at_once = {
                x: n / groups_in(n) if partly or n < 5 else next(k for k in (4, 2, 1) if n % k == 0)
                for x, n in local.items()
            }
            best = max(local, key=lambda x: (at_once[x], -local[x]), default=None)
            if best is not None:
                return (*(x for x in (*outer, *whole, *inner, *wide, *spread) if x is not best), best)
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
            if self.places[q][last].temporal is not None or self.layout is LayoutKind.PARTLY:
                count = self.places[q][last].inside
                found[q][last] = bytes_at_once(count) if count == 3 or self.layout is LayoutKind.PARTLY else 1
        return found

    @cached_property
    def _grouped(self) -> frozenset[str]:
        """Operand ports whose layout is made for groups."""
        return self.p.local & {"A", "B"} if self.layout in (LayoutKind.GROUPED, LayoutKind.PARTLY) else frozenset()

    @property
    def groups_partly(self) -> bool:
        """Whether a local tile of an operand has a number of words along an axis that is no multiple of four."""
        return any(n % 4 for q in self.p.local & {"A", "B"} for n in self.local_tile(q) if n > 1)

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

    @kept
    def local_words(self, port: str) -> list[tuple[int, int, int]]:
        """The words of a local tile as loops, innermost first: (bound, bytes in the scratchpad, bytes in the local memory)."""
        shape, local = self.local_tile(port), self.local_strides(port)
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
        return self._local_strides(port, port in self._padded_locally)

    def _local_strides(self, port: str, padded: bool) -> tuple[int, ...]:
        shape, last = list(self.local_tile(port)), self.places[port][-1]
        order = list(range(len(shape)))
        if self.p.fills_wide and port in "AB" and last.step == 1:
            order.sort(key=lambda a: a == last.axis)
            size = bytes_at_once(shape[last.axis]) if padded else 1
            shape[last.axis] = -(-shape[last.axis] // size) * size
        return strides_of(shape, tuple(order), self.chip_bytes(port))

    @kept
    def _local_size(self, port: str, padded: bool) -> int:
        """Bytes that a tile takes in a local memory; those of a padded one are whole groups."""
        shape, strides = self.local_tile(port), self._local_strides(port, padded)
        outermost = max(range(len(shape)), key=lambda a: (strides[a], shape[a]))
        size = shape[outermost] * strides[outermost]
        at_once = bytes_at_once(shape[self.places[port][-1].axis]) if padded else 1
        return -(-size // at_once) * at_once

    @cached_property
    def _padded_locally(self) -> frozenset[str]:
        """Operand ports whose local tile has whole groups of words: those that fit, the ones that grow least first.

        Where the layout is not made for groups, second places come first.
        """
        ports = [q for q in "AB" if q in self.p.local] if self.p.fills_wide else []
        plain = {q: self._local_size(q, False) for q in self.p.local}
        two = set() if self._grouped else self._twice(plain)
        more = {q: (self._local_size(q, True) - plain[q]) * (1 + (q in two)) for q in ports}
        left = self.p.local_bytes - sum(n * (1 + (q in two)) for q, n in plain.items())
        found = set()
        for q in sorted(ports, key=lambda q: (more[q], q)):
            if more[q] <= left:
                found.add(q)
                left -= more[q]
        return frozenset(found)

    @cached_property
    def local_bytes(self) -> dict[str, int]:
        """By port kept there, bytes that its tile takes in a local memory."""
        return {q: self._local_size(q, q in self._padded_locally) for q in self.p.local}

    @cached_property
    def group_bytes(self) -> dict[str, int]:
        """By operand port, bytes of a local tile that an element takes at once: 1, 2 or 4 that lie side by side."""
        return {q: self._group(q) if self.p.fills_wide and q in self.p.local and q in "AB" else 1 for q in PORTS}

    @cached_property
    def groups(self) -> dict[str, Fraction]:
        """By operand port, the words that these are, on average: the last ones of a tile may be fewer."""
        found = {}
        for q, size in self.group_bytes.items():
            words = self.local_words(q)[0][0] if size > 1 else 1
            found[q] = Fraction(words, -(-words // size))
        return found

    def _group(self, port: str) -> int:
        words = self.local_words(port)
        if not words or words[0][1:] != (1, 1):
            return 1
        places = [*self.local_halves[port], *(local for _, _, local in words[1:])]
        if port not in self._padded_locally:
            places.append(words[0][0])
        sizes = [n for n in (1, 2, 4) if n < words[0][0] + 2 and all(d % n == 0 for d in places)]
        return min(sizes, key=lambda n: (-(-words[0][0] // n) * self._lines(port, n), n)) if sizes[1:] else 1

    @kept
    def _lines(self, port: str, size: int) -> int:
        """How many lines serve the elements with so many bytes at once."""
        shared = self.p.links is not Links.NONE
        return lines_served(self.times(port), self.p.line_bytes, self._begins(port), shared, size)

    def grouped_words(self, port: str) -> list[tuple[int, int, int]]:
        """`local_words`, in groups of those that enter at once."""
        words, size = self.local_words(port), self.group_bytes[port]
        if size == 1:
            return words
        first = -(-words[0][0] // size)
        return [(first, size, size), *words[1:]] if first > 1 else words[1:]

    def local_distance(self, port: str, loop: int) -> int:
        """Bytes in a local memory that one iteration of a temporal loop moves."""
        return sum(m * s for m, s in zip(self.move(port, loop), self.local_strides(port), strict=True))

    @kept
    def spread(self, port: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Bytes from the tile's address that each row, and each column, adds."""
        places, strides = self.places[port], self.chip_strides[port]
        far = [
            distance(places, strides, self.moves_of(port, x.dim, s), n, False) for n, (x, s) in enumerate(self.spatial)
        ]
        rows, cols = (along_axis([(count, times * far[n]) for n, count, times in self.along(axis)]) for axis in "yx")
        return rows, cols

    def offsets(self, port: str) -> dict[Element, int]:
        """By element at work, bytes from the tile's address to what it wants."""
        rows, cols = self.spread(port)
        places = ((y, x, r + c) for y, r in enumerate(rows) for x, c in enumerate(cols))
        return {(y, x): at for y, x, at in places if (y, x) not in self.resting}

    @kept
    def times(self, port: str) -> dict[int, int]:
        """By distance from the tile's address, the elements at work that want what lies there."""
        if self.resting:
            return Counter(self.offsets(port).values())
        rows, cols = self.spread(port)
        found: dict[int, int] = {}
        for r in set(rows):
            many = rows.count(r)
            for c in cols:
                found[r + c] = found.get(r + c, 0) + many
        return found

    @cached_property
    def halves(self) -> dict[str, tuple[int, ...]]:
        """By port, the scratchpad addresses of its tiles: a second one of each where it fits, then further ones (rule G5)."""
        size, capacity = self.tile_bytes, self.p.lines * self.p.line_bytes
        if sum(size.values()) > capacity:
            raise UserError("tiles with whole groups of words do not fit the scratchpad")
        aligned = {port: -(-n // WORD_BYTES) * WORD_BYTES for port, n in size.items()}
        step = aligned if sum(aligned.values()) <= capacity else size
        left = capacity - sum(step.values())
        places = dict.fromkeys(PORTS, 1)
        moving = [port for port in PORTS if any(self.changes(port, self.sp(port), self.n_loads))]
        for most in range(2, self.p.most_places + 1):
            for port in sorted(moving, key=lambda q: (self.results_first and most == 2 and q != "O", step[q])):
                if (
                    step[port] <= left
                    and places[port] == most - 1
                    and (most == 2 or port != "O" or not self._comes_back)
                ):
                    places[port] = most
                    left -= step[port]
        found, at = {}, 0
        for port in ("O", "A", "B"):  # results first: their words must not straddle
            found[port] = tuple(at + k * step[port] for k in range(places[port]))
            at += step[port] * places[port]
        return found

    @cached_property
    def _comes_back(self) -> bool:
        """Whether old sums are loaded: a tile of results must be stored before it comes again, which two places see to."""
        adds = [not any(self.move("O", i)) for i in range(self.sp("O"))]
        return any(add and not all(adds[i:]) for i, add in enumerate(adds))

    @cached_property
    def local_halves(self) -> dict[str, tuple[int, ...]]:
        """By port kept in the local memories, where its tile begins: partial sums first, then whole groups; they must not straddle.

        Where local memories fill beside the array, an operand whose tile moves has a second place if it fits, the smaller tile first (rule G5).
        """
        size = self.local_bytes
        kept = sorted(self.p.local, key=lambda q: (q != "O", size[q] % PARTIAL_BYTES != 0, q))
        two = self._twice(size)
        found: dict[str, tuple[int, ...]] = {}
        at = 0
        for q in kept:
            found[q] = tuple(at + k * size[q] for k in range(2 if q in two else 1))
            at += size[q] * len(found[q])
        return found

    def _twice(self, size: MappingABC[str, int]) -> set[str]:
        """The operands kept in local memories whose tiles have a second place there, with tiles of so many bytes."""
        left = self.p.local_bytes - sum(size.values())
        two: set[str] = set()
        for q in sorted(set(size) - {"O"}, key=lambda q: (size[q], q)):
            if self.p.fills_beside and size[q] <= left and any(self.changes(q, self.loc(q), self.n_seq)):
                two.add(q)
                left -= size[q]
        return two

    @cached_property
    def dram_layouts(self) -> dict[str, Layout]:
        """By port, where its tensor lies in DRAM."""
        wanted = []
        for port, tensor in self.tensors.items():
            shape = tensor.shape(self.computation.sizes)
            parts = tuple((x.axis, x.step, x.count) for x in self.places[port])
            wanted.append(Layout(tensor.name, 0, shape, parts, tensor.bits // 8))
        placed, _ = place(wanted)
        return dict(zip(self.tensors, placed, strict=True))

    @kept
    def box(self, port: str) -> Box:
        """The transfers of a tensor's tile."""
        box = box_of_places(self.places[port], self.tensors[port].bits // 8, self.chip_bytes(port), self.padded[port])
        if len(box.loops) > self.p.box_loops:
            raise UserError(
                f"a tile of {self.tensors[port].name!r} has {len(box.loops)} axes around its runs, the DMA engine walks {self.p.box_loops} (rule G3)"
            )
        return box

    def _begins(self, port: str) -> Start:
        """Where the lines of the array begin."""
        return Start.of(self.p, self._distances(port))

    def _distances(self, port: str) -> Iterator[int]:
        """By which addresses of the array lie apart."""
        yield from (self.chip_distance(port, i) for i in range(self.sp(port), len(self.loops)))
        if port in self.p.local:
            yield from (stride for _, stride, _ in self.grouped_words(port))
        if port == "O":
            yield from self.spread(port)[0]
        yield from self.halves[port]

    @cached_property
    def windows(self) -> dict[str, tuple[Window, ...]]:
        """By operand port, the lines that serve the elements."""
        shared, line = self.p.links is not Links.NONE, self.p.line_bytes
        return {
            q: operand_windows(self.offsets(q), line, self._begins(q), shared, self.groups[q], self.group_bytes[q])
            for q in ("A", "B")
        }

    def lines(self, port: str) -> int:
        """How many lines serve the elements: as many as the operand has windows."""
        return self._lines(port, self.group_bytes[port])

    @cached_property
    def emissions(self) -> Emissions:
        """In which lines the results of an iteration leave."""
        rows, cols = self.spread("O")
        shared = self.p.links is not Links.NONE
        return result_emissions(rows, cols, self.p.line_bytes, self._begins("O"), shared, self.resting)


def bytes_at_once(words: int) -> int:
    """Bytes in which so many words side by side enter a local memory.

    >>> [bytes_at_once(n) for n in (1, 2, 3, 4, 5, 8)]
    [1, 2, 4, 4, 4, 4]
    """
    return min(words, 2) if words <= 2 else 4


def groups_in(words: int) -> int:
    """Times that they enter.

    >>> [groups_in(n) for n in (1, 2, 3, 4, 5, 8)]
    [1, 1, 1, 1, 2, 2]
    """
    return -(-words // bytes_at_once(words))
