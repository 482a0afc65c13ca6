"""Program generation: transfers between DRAM and named scratchpad addresses, intrinsic calls, loops on the host.

A `Program` is a loop tree. `instructions` unrolls it into concrete instructions: every address is a number, every
transfer a box of a tensor. HASCO (ISCA 2021), Sec. VI-C, inserts data movement around the intrinsic call in the same way; here
a transfer is moved out of every loop that does not change what it brings.

When a window slides (``x + r``), the part that the next tile shares with the last one stays on chip (a `Move`), and only
the rest crosses the DRAM port, as far as the reuse rule says; the rules are those of the cost model (R1-R4).

* P1: Every tensor has one buffer, row-major, at a fixed address, in banks of its own where they suffice (else
  `shared_banks` is set). No element straddles two banks.
* P2: A transfer stands outside every loop that does not change what it brings; a tensor's `depth` moves it further
  out.
* P3: When a window slides, the shared part is moved inside the buffer: whatever is shared (`--reuse resident`), or
  only while the window slides the same way (`--reuse walk`).
* P4: An output part is zeroed on its first visit, loaded on later ones, stored at the end of each. Partial sums have
  their own width on chip.
* P5: Transfers are clipped to the tensor and calls to the bounds; iterations wholly beyond make no call.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Infeasible
from codesign.tensorization.schedule import Schedule
from codesign.tensorization.scratchpad import Buffer, Memories, Region, Scratchpad, allocate, element_bytes
from codesign.workloads.computation import Tensor

Box = tuple[tuple[int, ...], tuple[int, ...]]
"""First position and extent on each axis."""


class _OnBox:
    """An instruction on a box of a buffer."""

    op: str

    def to_json(self) -> JsonObject:
        """One entry of the instruction list."""
        fields = {k: list(v) if isinstance(v, tuple) else v for k, v in vars(self).items()}
        return {"op": self.op, **fields}


@dataclass(frozen=True)
class Transfer(_OnBox):
    """A box of a tensor crosses the DRAM port; `op` is ``load`` or ``store``."""

    op: str
    buffer: str
    dram: tuple[int, ...]
    at: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Move(_OnBox):
    """A box of a buffer moves to another place in it, on chip."""

    op = "move"
    buffer: str
    source: tuple[int, ...]
    at: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Zero(_OnBox):
    """A box of a buffer becomes zero, before the partial sums of the output's part at `dram` are added to it."""

    op = "zero"
    buffer: str
    dram: tuple[int, ...]
    at: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Operand:
    """A block of a buffer as one tensor of the intrinsic.

    Args:
        name: The intrinsic's tensor.
        buffer: The buffer, or None for the constant one.
        at: First element.
        axes: For each axis of the intrinsic's tensor (buffer axis, elements per step), or None where it is one long.
        shape: Valid length of each axis; the hardware feeds zeros beyond, up to the intrinsic's size.
    """

    name: str
    buffer: str | None
    at: tuple[int, ...]
    axes: tuple[tuple[int, int] | None, ...]
    shape: tuple[int, ...]

    def to_json(self) -> JsonObject:
        """Part of a call in the instruction list."""
        axes = [None if a is None else list(a) for a in self.axes]
        return {"name": self.name, "buffer": self.buffer, "at": list(self.at), "axes": axes, "shape": list(self.shape)}


@dataclass(frozen=True)
class Call:
    """One call: the output's block grows by the intrinsic of the operands, times one element of each scale buffer."""

    operands: tuple[Operand, ...]
    output: Operand
    scale: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def to_json(self) -> JsonObject:
        """One entry of the instruction list."""
        return {
            "op": "call",
            "operands": [o.to_json() for o in self.operands],
            "output": self.output.to_json(),
            "scale": [{"buffer": b, "at": list(at)} for b, at in self.scale],
        }


Instruction = Transfer | Move | Zero | Call


@dataclass(frozen=True)
class ForLoop:
    """A loop of the tree; `step` iterations of `dim` a round."""

    dim: str
    count: int
    step: int
    on_chip: bool
    body: "tuple[TreeNode, ...]"


@dataclass(frozen=True)
class Fetch:
    """Bring the current part of an input into its buffer."""

    tensor: str


@dataclass(frozen=True)
class Begin:
    """Zero the output's buffer, or load its partial sums unless all loops over `first` are in their first round."""

    first: tuple[int, ...]


@dataclass(frozen=True)
class Finish:
    """An instruction that stores the buffer of the output."""


@dataclass(frozen=True)
class Issue:
    """An instruction that calls the intrinsic once."""


TreeNode = ForLoop | Fetch | Begin | Finish | Issue


@dataclass(frozen=True)
class Program:
    """A generated program.

    Args:
        schedule: Loops and calls that the program runs.
        buffers: One per tensor, in the computation's order.
        body: The loop tree.
        reuse: What of a sliding window stays on chip.
    """

    schedule: Schedule
    buffers: tuple[Buffer, ...]
    body: tuple[TreeNode, ...]
    reuse: Reuse

    def instructions(self, *, whole_tiles: bool = False) -> Iterator[Instruction]:
        """The unrolled program.

        Args:
            whole_tiles: Load every part that moved in one piece (R4), for machines that cannot shift a window in place.
        """
        return _Unroller(self, whole_tiles).run()

    @property
    def shares_banks(self) -> bool:
        """Whether two buffers touch one bank, so that calls are serialised there."""
        return any(a.shares_bank(b) for a, b in combinations(self.buffers, 2))

    @property
    def regions(self) -> tuple[Region, ...]:
        """The memories it uses, in the order of their addresses."""
        return tuple(dict.fromkeys(b.region for b in sorted(self.buffers, key=lambda b: b.address)))

    def buffer_of(self, tensor: str) -> Buffer:
        """The buffer of a tensor."""
        return next(b for b in self.buffers if b.tensor == tensor)

    def to_json(self) -> JsonObject:
        """Header and instruction list: all that a simulator or a loader needs."""
        choice = self.schedule.choice
        computation, intrinsic = choice.computation, choice.intrinsic
        return {
            "status": "ok",
            "computation": {"notation": str(computation), "bounds": computation.sizes},
            "intrinsic": {
                "name": intrinsic.name,
                "notation": str(intrinsic.computation),
                "size": intrinsic.computation.sizes,
            },
            "index_map": choice.index_map,
            "dram": [
                {
                    "tensor": t.name,
                    "shape": list(t.shape(computation.sizes)),
                    "element_bytes": element_bytes(t, t.bits),
                    "output": t.is_output,
                }
                for t in computation.tensors
            ],
            "memories": [
                {
                    "name": r.memory.name,
                    "address": r.address,
                    "capacity_bytes": r.memory.capacity_bytes,
                    "banks": r.memory.banks,
                }
                for r in self.regions
            ],
            "shared_banks": self.shares_banks,
            "buffers": [
                {
                    "name": b.name,
                    "tensor": b.tensor,
                    "shape": list(b.shape),
                    "element_bytes": b.element_bytes,
                    "address": b.address,
                    "place": b.place,
                }
                for b in self.buffers
            ],
            "instructions": [i.to_json() for i in self.instructions()],
        }


def generate_program(
    schedule: Schedule, memory: Scratchpad | Memories, *, reuse: Reuse = Reuse.RESIDENT
) -> Program | Infeasible:
    """The program of a schedule.

    Args:
        schedule: Loops, calls and where tensors are kept.
        memory: One for all tensors, or one for each (`memories_of` a design).
        reuse: RESIDENT keeps whatever the next tile shares with the last one; WALK only while the window keeps sliding
            the same way. The DRAM bytes of the program are those that the cost model counts under the same rule.

    Returns:
        The program, or what does not fit.

    Raises:
        UserError: The match is unsound or its padding cannot be silenced, the output is indexed by a sum, widths that
            bytes cannot address, or `reuse` is TIMELOOP, whose extrapolated counts no program can follow.
    """
    choice = schedule.choice
    if not choice.match.is_sound:
        raise UserError(f"choice {choice.match} is not sound: {choice.match.reason}")
    if choice.unmaskable:
        raise UserError(
            f"the intrinsic's size must divide the bound of {', '.join(choice.unmaskable)}: zeros cannot silence its padding"
        )
    if reuse is Reuse.TIMELOOP:
        raise UserError("a program follows reuse rule 'resident' or 'walk', not the extrapolated 'timeloop'")
    axes = choice.computation.output.axes
    if any(len(a.terms) != 1 or a.terms[0][1] != 1 for a in axes) or len({a.terms for a in axes}) != len(axes):
        raise UserError(
            f"every index of the output {choice.computation.output} must be a dimension of its own",
            where=str(choice.computation),
            hint="write the computation as a gather: sums of dimensions belong into the inputs",
        )
    if isinstance(memory, Scratchpad):
        memory = {t.name: memory for t in choice.computation.tensors}
    buffers = allocate(schedule, memory)
    if isinstance(buffers, Infeasible):
        return buffers
    return Program(schedule, buffers, _tree(schedule), reuse)


def _placement(schedule: Schedule, tensor: Tensor) -> int:
    """Number of host loops outside a tensor's transfer: out of every loop that does not change what it brings."""
    relevant = [
        i + 1
        for i, (dim, count) in enumerate(schedule.host[: schedule.depth_of(tensor)])
        if dim in tensor.dims and count > 1
    ]
    return relevant[-1] if relevant else 0


def _tree(schedule: Schedule) -> tuple[TreeNode, ...]:
    computation = schedule.choice.computation
    place = {t.name: _placement(schedule, t) for t in computation.tensors}
    output = computation.output
    revisits = tuple(
        i for i in range(place[output.name]) if schedule.host[i][0] not in output.dims and schedule.host[i][1] > 1
    )

    def inside(at: int) -> tuple[TreeNode, ...]:
        fetches: list[TreeNode] = [Fetch(t.name) for t in computation.inputs if place[t.name] == at]
        body: tuple[TreeNode, ...]
        if at == len(schedule.host):
            body = _calls(schedule, 0)
        else:
            dim, count = schedule.host[at]
            body = (ForLoop(dim, count, schedule.tile_from(dim, at + 1), False, inside(at + 1)),)
        if place[output.name] == at:
            return (Begin(revisits), *fetches, *body, Finish())
        return (*fetches, *body)

    return inside(0)


def _calls(schedule: Schedule, at: int) -> tuple[TreeNode, ...]:
    if at == len(schedule.inner):
        return (Issue(),)
    dim, count = schedule.inner[at]
    step = schedule.choice.tile[dim]
    for later, times in schedule.inner[at + 1 :]:
        step *= times if later == dim else 1
    return (ForLoop(dim, count, step, True, _calls(schedule, at + 1)),)


class _Unroller:
    """Walks the loop tree; remembers which box of each tensor is on chip."""

    def __init__(self, program: Program, whole_tiles: bool) -> None:
        self.program = program
        self.whole_tiles = whole_tiles
        self.schedule = program.schedule
        self.choice = program.schedule.choice
        self.computation = self.choice.computation
        self.base = dict.fromkeys(self.computation.dims, 0)
        self.rounds: list[int] = []
        self.resident: dict[str, Box] = {}
        self.buffers = {b.tensor: b.name for b in program.buffers}
        self.inside: dict[str, dict[str, int]] = {}
        self.shapes: dict[tuple[int, ...], list[tuple[int, ...]]] = {}

    def run(self) -> Iterator[Instruction]:
        yield from self._walk(self.program.body)

    def _walk(self, nodes: tuple[TreeNode, ...]) -> Iterator[Instruction]:
        for node in nodes:
            if isinstance(node, ForLoop):
                yield from self._loop(node)
            elif isinstance(node, Fetch):
                yield from self._fetch(self.computation.tensor(node.tensor))
            elif isinstance(node, Begin):
                yield self._begin(node)
            elif isinstance(node, Finish):
                box = self._box(self.computation.output)
                buffer = self.buffers[self.computation.output.name]
                yield Transfer("store", buffer, box[0], (0,) * len(box[0]), box[1])
            else:
                yield self._call()

    def _loop(self, node: ForLoop) -> Iterator[Instruction]:
        start = self.base[node.dim]
        self.rounds.append(0)
        for turn in range(node.count):
            self.base[node.dim] = start + turn * node.step
            if self.base[node.dim] >= self.computation.sizes[node.dim]:
                break
            self.rounds[-1] = turn
            yield from self._walk(node.body)
        self.rounds.pop()
        self.base[node.dim] = start

    def _box(self, tensor: Tensor) -> Box:
        """The part of a tensor that the loops inside its place touch now, clipped to the bounds."""
        if tensor.name not in self.inside:
            depth = self.schedule.depth_of(tensor)
            self.inside[tensor.name] = {d: self.schedule.tile_from(d, depth) for d in self.base}
        sizes = self.computation.sizes
        valid = {d: min(n, sizes[d] - self.base[d]) for d, n in self.inside[tensor.name].items()}
        return self._element(tensor), tensor.shape(valid)

    def _element(self, tensor: Tensor) -> tuple[int, ...]:
        """The first element of a tensor that the current iteration touches."""
        base = self.base
        return tuple([sum([c * base[d] for d, c in axis.terms]) for axis in tensor.axes])

    def _begin(self, node: Begin) -> Instruction:
        tensor = self.computation.output
        start, shape = self.resident[tensor.name] = self._box(tensor)
        buffer, origin = self.buffers[tensor.name], (0,) * len(shape)
        if all(self.rounds[i] == 0 for i in node.first):
            return Zero(buffer, start, origin, shape)
        return Transfer("load", buffer, start, origin, shape)

    def _fetch(self, tensor: Tensor) -> Iterator[Instruction]:
        buffer = self.buffers[tensor.name]
        new, old = self._box(tensor), self.resident.get(tensor.name)
        self.resident[tensor.name] = new
        if old == new and self.whole_tiles:
            return  # a tile that has not moved (R4): two loops slid it there and back
        shared = None if old is None or not self._keeps(tensor, old, new) else _overlap(old, new)
        if shared is None or old is None:
            yield Transfer("load", buffer, new[0], (0,) * len(new[0]), new[1])
            return
        if old[0] != new[0]:
            yield Move(buffer, _minus(shared[0], old[0]), _minus(shared[0], new[0]), shared[1])
        for start, shape in _difference(new, shared):
            yield Transfer("load", buffer, start, _minus(start, new[0]), shape)

    def _keeps(self, tensor: Tensor, old: Box, new: Box) -> bool:
        """Whether the reuse rule lets the overlap of two successive tiles stay on chip."""
        if self.whole_tiles:
            return False
        if self.program.reuse is Reuse.RESIDENT:
            return True
        depth = self.schedule.depth_of(tensor)
        innermost = next((i for i in range(depth - 1, -1, -1) if self.schedule.host[i][1] > 1), None)
        if innermost is None:
            return False
        dim = self.schedule.host[innermost][0]
        step = self.schedule.tile_from(dim, innermost + 1)
        sliding = tuple(sum(c * step for d, c in axis.terms if d == dim) for axis in tensor.axes)
        return _minus(new[0], old[0]) == sliding

    def _call(self) -> Call:
        theirs, match = self.choice.intrinsic.computation, self.choice.match
        tile, sizes = self.choice.tile, self.computation.sizes
        size = tuple([min(tile[dim], sizes[dim] - self.base[dim]) for _, dim in match.index_map])
        if size not in self.shapes:
            valid = dict.fromkeys(theirs.dims, 1) | {
                index: n for (index, _), n in zip(match.index_map, size, strict=True)
            }
            self.shapes[size] = [tensor.shape(valid) for tensor in theirs.tensors]
        operands = []
        for spec, shape in zip(match.operands, self.shapes[size], strict=True):
            if spec.tensor is None:
                operands.append(Operand(spec.intrinsic_tensor, None, (), spec.axes, shape))
                continue
            at = self._position(self.computation.tensor(spec.tensor))
            operands.append(Operand(spec.intrinsic_tensor, self.buffers[spec.tensor], at, spec.axes, shape))
        scale = tuple((self.buffers[name], self._position(self.computation.tensor(name))) for name in match.scalars)
        return Call(tuple(operands[:-1]), operands[-1], scale)

    def _position(self, tensor: Tensor) -> tuple[int, ...]:
        """Where in its buffer the element of a tensor at the current iteration lies."""
        return _minus(self._element(tensor), self.resident[tensor.name][0])


def _minus(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([x - y for x, y in zip(a, b, strict=True)])


def _overlap(a: Box, b: Box) -> Box | None:
    start = tuple(max(x, y) for x, y in zip(a[0], b[0], strict=True))
    ends = zip(a[0], a[1], b[0], b[1], strict=True)
    shape = tuple(min(x + n, y + m) - s for s, (x, n, y, m) in zip(start, ends, strict=True))
    return (start, shape) if all(n > 0 for n in shape) else None


def _difference(whole: Box, part: Box) -> Iterator[Box]:
    """Disjoint boxes that make up `whole` without `part`, which lies inside it: at most two an axis."""
    start, shape = list(whole[0]), list(whole[1])
    for axis, (first, extent) in enumerate(zip(*part, strict=True)):
        before, after = first - start[axis], start[axis] + shape[axis] - first - extent
        if before:
            yield tuple(start), (*shape[:axis], before, *shape[axis + 1 :])
        if after:
            yield (*start[:axis], first + extent, *start[axis + 1 :]), (*shape[:axis], after, *shape[axis + 1 :])
        start[axis], shape[axis] = first, extent
