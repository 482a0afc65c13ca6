"""The best schedule of a fused graph and what it costs."""

from dataclasses import dataclass

from codesign.cost.looptree_graph import GraphCost, Leaf, graph_cost
from codesign.mapping.looptree import Operator
from codesign.scheduling.fused.operator_front import Mapping
from codesign.scheduling.fused.trace import Part


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

    def lines(self) -> list[str]:
        """The tree as text."""
        return self.tree(nests=False)

    def tree(self, nests: bool) -> list[str]:
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
