"""The cost of a fused schedule under LoopTree's rules (F1-F6, docs/explanation/exact-mapper.md), operator by operator.

The search computes the same numbers row by row; tests and the scheduler itself hold the two equal.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from codesign.core.errors import UserError
from codesign.cost.looptree import SHARED, Loop, Nest, NestCost, Store, compute_seconds, evaluate
from codesign.mapping.looptree import Machine, Operator


@dataclass(frozen=True)
class Leaf:
    """One operator of a schedule.

    Args:
        operator, machine: What runs and on what.
        nest: All its loops and nodes; the shared loops stand first.
        shared: How many of its loops are shared.
        on_chip: Its tensors that the shared level holds instead of the outermost memory, with the number of shared loops outside.
    """

    operator: Operator
    machine: Machine
    nest: Nest
    shared: int
    on_chip: tuple[tuple[str, int], ...]

    def cost(self) -> NestCost:
        """Energy, seconds and what moves."""
        return evaluate(self.operator, self.machine, self.nest, frozenset(t for t, _ in self.on_chip))

    def shared_loops(self) -> list[Loop]:
        """The shared loops, outermost first."""
        return [x for x in self.nest if isinstance(x, Loop)][: self.shared]

    def nodes(self) -> Iterator[tuple[str, int, float]]:
        """Nodes of the shared level: tensor, shared loops outside (at most all), bits of the tile."""
        sizes, loops = dict(self.operator.bounds), 0
        operands = {t.name: t for t in self.operator.operands}
        for x in self.nest:
            if isinstance(x, Loop):
                sizes[x.dim] = x.tile
                loops += 1
            elif x.level == SHARED and (not isinstance(x, Store) or x.held):
                tensor = operands[x.tensor]
                yield (
                    x.tensor,
                    min(loops, self.shared),
                    tensor.words(sizes) * self.machine.memories[SHARED].width(tensor),
                )


@dataclass(frozen=True)
class Group:
    """Parts under further shared loops.

    Args:
        loops: Number of those loops.
        parts: One after another.
    """

    loops: int
    parts: "tuple[Leaf | Group | Join, ...]"


@dataclass(frozen=True)
class Join:
    """A concatenation in place: nothing is computed or moved, the whole is its parts (G2).

    Args:
        whole: The tensor that is made.
        parts: Of what.
    """

    whole: str
    parts: tuple[str, ...]


def parts_of(tensors: Iterable[str], joins: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """What tensors consist of: a concatenation is its parts, and theirs, each once (G2).

    >>> sorted(parts_of(["c", "p"], {"c": ("p", "q")}))
    ['p', 'q']
    """
    found: set[str] = set()
    for tensor in tensors:
        found |= parts_of(joins[tensor], joins) if tensor in joins else {tensor}
    return frozenset(found)


def follows(operators: Sequence[tuple[Operator, str]]) -> bool:
    """Whether operators may run in turn inside one loop over the dimension that stands beside each (F2).

    Each tensor that one writes and a later one reads must be indexed by the loop along the same axis: otherwise it is read
    before it is complete.
    """
    for (writer, outer), (reader, inner) in itertools.combinations(operators, 2):
        for made in (t for t in writer.operands if t.output):
            for read in (t for t in reader.operands if not t.output and t.tensor == made.name):
                axis = made.axis(outer)
                if axis is None or read.axis(inner) != axis:
                    return False
    return True


def leaves(parts: "Sequence[Leaf | Group | Join]") -> Iterator[Leaf]:
    """All operators in the order they run."""
    for part in parts:
        if isinstance(part, Leaf):
            yield part
        elif isinstance(part, Group):
            yield from leaves(part.parts)


@dataclass(frozen=True)
class GraphCost:
    """What a schedule costs.

    Args:
        energy: Without leakage.
        seconds: Latency.
        outer_bits: Bits read and written at the outermost memory.
        peak_bits: Most bits in the shared level.
        outer_seconds: The slowest port of the outermost memory is busy.
        compute_seconds: Of the operations alone.
        energy_by_level: By the name of the level; the operations are `MAC`.
    """

    energy: float
    seconds: float
    outer_bits: float
    peak_bits: float
    outer_seconds: float = 0.0
    compute_seconds: float = 0.0
    energy_by_level: dict[str, float] = field(default_factory=dict)


def graph_cost(tree: Sequence[Leaf | Group | Join]) -> GraphCost:
    """Energies and latencies add (F1); what is held at any moment is counted part by part (F3, F4).

    Raises:
        UserError: A nest or the tree breaks a rule; the message names it.
    """
    every = list(leaves(tree))
    joins = {x.whole: x.parts for x in tree if isinstance(x, Join)}
    parts = [x for x in tree if not isinstance(x, Join)]
    _check_loops(parts, 0)
    _check_places(every, joins)
    costs = [leaf.cost() for leaf in every]
    outer = busy = computing = 0.0
    spent = {"MAC": 0.0}
    for leaf, cost in zip(every, costs, strict=True):
        computing += compute_seconds(leaf.operator, leaf.machine, leaf.nest)
        spent["MAC"] += leaf.machine.mac_energy * leaf.operator.macs
        for level, memory in enumerate(leaf.machine.memories):
            read = sum(v for (m, _), v in cost.reads.items() if m == level)
            write = sum(v for (m, _), v in cost.writes.items() if m == level)
            spent[memory.name] = spent.get(memory.name, 0.0) + read * memory.read + write * memory.write
            if level == 0:
                outer += read + write
                busy += max((read * a + write * b for a, b in memory.ports), default=0.0)
    energy, seconds = sum(c.energy for c in costs), sum(c.seconds for c in costs)
    peak = _peak(parts, 0, joins)
    room = min((leaf.machine.memories[SHARED].capacity for leaf in every), default=math.inf)
    if peak > room * (1 + 1e-12):
        raise UserError(f"the schedule holds {peak:g} bits at the shared level, its capacity is {room:g} (rule F4)")
    return GraphCost(energy, seconds, outer, peak, busy, computing, spent)


def _check_loops(parts: Sequence[Leaf | Group | Join], depth: int) -> None:
    """Whether the shared loops cut every tensor that is written and read inside them (F2)."""
    for group in (p for p in parts if isinstance(p, Group)):
        inside = list(leaves(group.parts))
        for i in range(depth, depth + group.loops):
            loops = [leaf.shared_loops()[i] for leaf in inside]
            names = ", ".join(leaf.operator.name for leaf in inside)
            if len({(x.steps, x.tile) for x in loops}) > 1:
                raise UserError(f"shared loop {i} is not the same for {names} (rule F2)")
            if not follows([(leaf.operator, x.dim) for leaf, x in zip(inside, loops, strict=True)]):
                raise UserError(f"shared loop {i} around {names} reads a tensor before it is complete (rule F2)")
        _check_loops(group.parts, depth + group.loops)


def _check_places(every: Sequence[Leaf], joins: Mapping[str, Sequence[str]]) -> None:
    """Whether every tensor is read where it was written (F2)."""
    written: dict[str, bool] = {}
    for leaf in every:
        chip = {t for t, _ in leaf.on_chip}
        for operand in leaf.operator.operands:
            here = operand.name in chip
            if operand.output:
                written[operand.name] = here
            elif any(written.get(part, here) != here for part in parts_of([operand.tensor], joins)):
                place = "on the chip" if here else "in the outermost memory"
                raise UserError(
                    f"tensor '{operand.tensor}' is read {place}, where it was not written (rule F2)",
                    where=leaf.operator.name,
                )


def _peak(parts: Sequence[Leaf | Group | Join], depth: int, joins: Mapping[str, Sequence[str]]) -> float:
    """Most bits held while parts run one after another inside `depth` shared loops, without what is held outside."""
    used: dict[str, tuple[int, int, float]] = {}
    for i, part in enumerate(parts):
        for leaf in leaves([part]):
            at = dict(leaf.on_chip)
            for tensor, _, bits in leaf.nodes():
                if at.get(tensor) == depth:
                    for piece in parts_of([tensor], joins):
                        # its producer comes first; padding takes no room
                        first, _, written = used.get(piece, (i, i, bits))
                        used[piece] = first, i, written
    live = [sum(bits for first, last, bits in used.values() if first <= i <= last) for i in range(len(parts))]
    return max((held + _inside(part, depth, joins) for held, part in zip(live, parts, strict=True)), default=0.0)


def _inside(part: Leaf | Group | Join, depth: int, joins: Mapping[str, Sequence[str]]) -> float:
    """Most bits of a part besides the intermediates held outside it."""
    if isinstance(part, Leaf):
        chip = {t for t, _ in part.on_chip}
        return sum(bits for tensor, at, bits in part.nodes() if tensor not in chip and at == depth)
    if isinstance(part, Join):
        return 0.0
    stay = sum(
        bits
        for leaf in leaves(part.parts)
        for tensor, at, bits in leaf.nodes()
        if depth <= at < depth + part.loops and tensor not in {t for t, _ in leaf.on_chip}
    )
    return stay + _peak(part.parts, depth + part.loops, joins)
