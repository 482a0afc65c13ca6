"""The best schedule of a fused graph and what it costs."""

from collections.abc import Iterator
from dataclasses import dataclass

from codesign.cost.looptree import Loop
from codesign.cost.looptree_graph import GraphCost, Group, Join, Leaf, graph_cost
from codesign.mappers.uneven.nest import lines as nest_lines
from codesign.mapping.looptree import Operator
from codesign.scheduling.fused.operator_front import Mapping


@dataclass(frozen=True)
class Part:
    """One operator, or several under further shared loops.

    Args:
        operators: Names, in the order they run.
        loops: Shared loops directly around the part: (dimension, iterations, tile inside) of its first operator.
        parts: What runs inside, one after another; empty for one operator.
        on_chip: Tensors that the shared level holds while the part runs instead of the outermost memory.
        among: Of one operator: its tensors that stand among the shared loops, with the number of loops outside.
        bits: Most bits of the shared level inside the innermost of its loops.
        energy: Of one run, leakage apart.
        seconds: Of one run.
        leaf: Of one operator: all its loops and nodes for the cost model, the shared loops first; none if it only moves a tensor.
        join: Of a concatenation: the whole and its parts.
    """

    operators: tuple[str, ...]
    loops: tuple[tuple[str, int, int], ...]
    parts: tuple["Part", ...]
    on_chip: tuple[str, ...]
    among: tuple[tuple[str, int], ...]
    bits: float
    energy: float
    seconds: float
    leaf: Leaf | None = None
    join: Join | None = None

    def costed(self) -> Iterator[Leaf | Group | Join]:
        """The part for the cost model; nothing of operators that only move a tensor."""
        if self.parts:
            yield Group(len(self.loops), tuple(p for part in self.parts for p in part.costed()))
        elif self.leaf is not None:
            yield self.leaf
        elif self.join is not None:
            yield self.join

    def lines(self, depth: int = 0, nests: bool = False) -> Iterator[str]:
        """The tree as text, outermost first; on request with each operator's own loops and nodes."""
        inside = depth
        for dim, count, tile in self.loops:
            yield f"{'  ' * inside}for {dim} in 0..{count - 1} (tiles of {tile})"
            inside += 1
        if self.parts:
            for part in self.parts:
                yield from part.lines(inside, nests)
            return
        held = f", on chip: {', '.join(self.on_chip)}" if self.on_chip else ""
        among = "".join(f", {tensor} held outside {_loops(inside - d)}" for tensor, d in self.among)
        yield f"{'  ' * inside}{self.operators[0]}{held}{among}"
        if nests and self.leaf is not None:
            yield from (f"{'  ' * (inside + 1)}{line}" for line in own_lines(self.leaf))


def own_lines(leaf: Leaf) -> list[str]:
    """An operator's loops and nodes inside the shared loops."""
    loops, start = 0, 0
    while loops < leaf.shared:
        loops += isinstance(leaf.nest[start], Loop)
        start += 1
    return nest_lines(leaf.nest[start:], leaf.machine)


def _loops(number: int) -> str:
    return "the innermost shared loop" if number == 1 else f"the innermost {number} shared loops"


@dataclass(frozen=True)
class Schedule:
    """The best schedule of a graph.

    Args:
        value: Objective.
        bound: What none is below.
        energy: With leakage; none where only latency was searched.
        seconds: Latency, operators one after another.
        parts: The tree: shared loops, what stays on the chip, order; empty where nothing stays.
    """

    value: float
    bound: float
    energy: float | None
    seconds: float
    parts: tuple[Part, ...] = ()

    def tree(self, nests: bool = False) -> list[str]:
        """The tree as text, on request with each operator's own loops and nodes."""
        alone = (
            [] if any(p.parts or p.on_chip for p in self.parts) else ["every operator alone, nothing stays on the chip"]
        )
        if alone and not nests:
            return alone
        return [*alone, *(line for part in self.parts for line in part.lines(nests=nests))]

    def cost(self) -> GraphCost:
        """Of the tree, counted operator by operator; operators that only move a tensor are left out."""
        return graph_cost([p for part in self.parts for p in part.costed()])

    @property
    def proven(self) -> bool:
        """Whether the value is the optimum."""
        return self.bound >= self.value * (1 - 1e-9)


def alone_part(operator: Operator, energy: float, seconds: float, mapping: Mapping) -> Part:
    """An operator that runs alone."""
    leaf = Leaf(operator, mapping.machine, mapping.nest, 0, ()) if mapping.nest else None
    bits = sum(b for _, _, b in leaf.nodes()) if leaf is not None else 0.0
    return Part((operator.name,), (), (), (), (), bits, energy, seconds, leaf)
