"""Tensor syntax trees: a computation as operations over index variables.

HASCO (ISCA 2021), Sec. IV-B: every leaf is an index variable of one tensor axis, every inner node an operation
(summation, multiplication, indexing, addition of indices). Two leaves are related by the operation at their lowest
common ancestor (LCA): leaves of different operands meet at the multiplication, leaves of different axes of one
operand at its indexing node, leaves inside one axis (``x + r``) at an addition.

The tree holds the right-hand side only, as in the paper; what an index means for the output is its iteration type.
"""

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from codesign.workloads.computation import AffineIndex, Computation, Tensor


class Operation(Enum):
    """What an inner node of the tree does with its children."""

    SUM = "sum"
    MULTIPLY = "multiply"
    INDEX = "index"
    ADD = "add"
    SCALE = "scale"


@dataclass(frozen=True)
class Leaf:
    """One occurrence of a dimension.

    Args:
        dim: The dimension.
        bound: Its range.
        operand: Position of the tensor among the inputs.
        axis: Position of the axis in that tensor.
        coefficient: Its factor in the axis's affine sum.
    """

    dim: str
    bound: int
    operand: int
    axis: int
    coefficient: int


@dataclass(frozen=True)
class Node:
    """An operation over its children; `label` names the tensor, the reduced dimensions or the factor."""

    operation: Operation
    children: "tuple[Node | Leaf, ...]"
    label: str = ""


@dataclass(frozen=True)
class SyntaxTree:
    """The tree of one computation's right-hand side."""

    root: Node

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The leaves from left to right; their order within an operand is its data layout."""
        return tuple(path[-1] for path in self._paths)  # type: ignore[misc]

    @cached_property
    def _paths(self) -> tuple[tuple[Node | Leaf, ...], ...]:
        found: list[tuple[Node | Leaf, ...]] = []

        def walk(node: Node | Leaf, above: tuple[Node | Leaf, ...]) -> None:
            here = (*above, node)
            if isinstance(node, Leaf):
                found.append(here)
                return
            for child in node.children:
                walk(child, here)

        walk(self.root, ())
        return tuple(found)

    @cached_property
    def lca(self) -> tuple[tuple[Operation, ...], ...]:
        """``leaves x leaves``: the operation at the lowest common ancestor of each two leaves."""
        return tuple(tuple(_common(a, b) for b in self._paths) for a in self._paths)

    def render(self) -> str:
        """The tree as indented text, one node a line."""
        lines: list[str] = []

        def walk(node: Node | Leaf, depth: int) -> None:
            if isinstance(node, Leaf):
                lines.append(f"{'  ' * depth}{node.dim} [0, {node.bound})")
                return
            lines.append(f"{'  ' * depth}{node.operation.value}{' ' + node.label if node.label else ''}")
            for child in node.children:
                walk(child, depth + 1)

        walk(self.root, 0)
        return "\n".join(lines)


def syntax_tree(computation: Computation) -> SyntaxTree:
    """The tensor syntax tree of a computation (HASCO Sec. IV-B, Fig. 5b).

    >>> from codesign.workloads.computation import Computation
    >>> gemm = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=2, j=2, k=2)
    >>> tree = syntax_tree(gemm)
    >>> [leaf.dim for leaf in tree.leaves], tree.lca[0][1].value, tree.lca[1][2].value
    (['i', 'k', 'k', 'j'], 'index', 'multiply')
    """
    operands = tuple(_operand(computation, position, tensor) for position, tensor in enumerate(computation.inputs))
    product = operands[0] if len(operands) == 1 else Node(Operation.MULTIPLY, operands)
    if not computation.reduced_dims:
        return SyntaxTree(product)
    return SyntaxTree(Node(Operation.SUM, (product,), ",".join(computation.reduced_dims)))


def _operand(computation: Computation, position: int, tensor: Tensor) -> Node:
    axes = tuple(_axis(computation, position, number, axis) for number, axis in enumerate(tensor.axes))
    return Node(Operation.INDEX, axes, tensor.name)


def _axis(computation: Computation, operand: int, number: int, axis: AffineIndex) -> Node | Leaf:
    terms: list[Node | Leaf] = []
    for dim, coefficient in axis.terms:
        leaf = Leaf(dim, computation.sizes[dim], operand, number, coefficient)
        terms.append(leaf if coefficient == 1 else Node(Operation.SCALE, (leaf,), str(coefficient)))
    return terms[0] if len(terms) == 1 else Node(Operation.ADD, tuple(terms))


def _common(a: tuple[Node | Leaf, ...], b: tuple[Node | Leaf, ...]) -> Operation:
    lowest = Operation.SUM
    for x, y in zip(a, b, strict=False):
        if x is not y or isinstance(x, Leaf):
            break
        lowest = x.operation
    return lowest
