"""The cost of a fused schedule under LoopTree's rules (F1-F6, docs/explanation/fused-mapping.md), operator by operator.

The search computes the same numbers row by row; tests and the scheduler itself hold the two equal.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from codesign.cost.looptree import Loop, Nest, NestCost, Store, compute_seconds, evaluate
from codesign.mapping.looptree import Machine, Operator

SHARED = 1
"""The level that intermediates stay in (F2)."""


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
    parts: "tuple[Leaf | Group, ...]"


def leaves(parts: Sequence[Leaf | Group]) -> Iterator[Leaf]:
    """All operators in the order they run."""
    for part in parts:
        if isinstance(part, Leaf):
            yield part
        else:
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


def graph_cost(parts: Sequence[Leaf | Group]) -> GraphCost:
    """Energies and latencies add (F1); what is held at any moment is counted part by part (F3, F4).

    Raises:
        UserError: A nest breaks a rule; the message names it.
    """
    every = list(leaves(parts))
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
    return GraphCost(energy, seconds, outer, _peak(parts, 0), busy, computing, spent)


def _peak(parts: Sequence[Leaf | Group], depth: int) -> float:
    """Most bits held while parts run one after another inside `depth` shared loops, without what is held outside."""
    used: dict[str, tuple[int, int, float]] = {}
    for i, part in enumerate(parts):
        for leaf in leaves([part]):
            at = dict(leaf.on_chip)
            for tensor, _, bits in leaf.nodes():
                if at.get(tensor) == depth:
                    first, _, written = used.get(
                        tensor, (i, i, bits)
                    )  # its producer comes first; padding takes no room
                    used[tensor] = first, i, written
    live = [sum(bits for first, last, bits in used.values() if first <= i <= last) for i in range(len(parts))]
    return max((held + _inside(part, depth) for held, part in zip(live, parts, strict=True)), default=0.0)


def _inside(part: Leaf | Group, depth: int) -> float:
    """Most bits of a part besides the intermediates held outside it."""
    if isinstance(part, Leaf):
        chip = {t for t, _ in part.on_chip}
        return sum(bits for tensor, at, bits in part.nodes() if tensor not in chip and at == depth)
    stay = sum(
        bits
        for leaf in leaves(part.parts)
        for tensor, at, bits in leaf.nodes()
        if depth <= at < depth + part.loops and tensor not in {t for t, _ in leaf.on_chip}
    )
    return stay + _peak(part.parts, depth + part.loops)
