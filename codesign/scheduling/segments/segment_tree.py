"""Trees of segments: cuts in time and space down to layers with their partition and place (rules M4 to M10)."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from codesign.core.errors import UserError
from codesign.core.kernel_library import FloatArray, IntArray
from codesign.scheduling.segments.kernels import tree as arrays
from codesign.scheduling.segments.layers import SegmentNetwork

DIMENSIONS = "KBHW"
"""Output channels, batch, rows, columns: what a layer is cut along."""


class CutKind(IntEnum):
    """How the children of a cut share its cores."""

    SPACE = arrays.SPACE
    TIME = arrays.TIME


@dataclass(frozen=True)
class Group:
    """Cores that receive the same words.

    Args:
        box: Four ranges: first and one past the last, of channels, batch, rows, columns.
        places: Coordinates ``(x, y)`` of the cores.
    """

    box: tuple[int, ...]
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class GivenLayout:
    """Tiles and groups as another program placed them.

    Args:
        tiles: Output range and place of each core.
        inputs: Groups of inputs.
        weights: Groups of weights.
    """

    tiles: tuple[Group, ...]
    inputs: tuple[Group, ...]
    weights: tuple[Group, ...]


@dataclass(frozen=True)
class Leaf:
    """One layer.

    Args:
        layer: Number of the layer.
        batch: Samples of a run.
        parts: Parts of K, B, H, W.
        order: The dimensions by number, outermost first; the parts of the last are neighbours.
        drams: DRAM of inputs, weights and outputs; negative for all.
        fetch: Pieces of K, B, H, W, then fetches of inputs and weights; None for a tile at once.
        given: Where another program placed the parts; None for the range of cores that the tree gives.
        sizes: Sizes of the parts of K, B, H, W, none of a dimension whose parts are equal (rule M123).
        kind: Name of the kind whose cores do it; empty for all that the tree gives.
    """

    layer: int
    batch: int
    parts: tuple[int, int, int, int]
    order: tuple[int, ...] = (0, 1, 2, 3)
    drams: tuple[int, int, int] = (-2, -2, -2)
    fetch: tuple[int, ...] | None = None
    given: GivenLayout | None = None
    sizes: tuple[tuple[int, ...], ...] = ((), (), (), ())
    kind: str = ""

    @property
    def cores(self) -> int:
        """Number of cores that the leaf's layer runs on."""
        k, b, h, w = self.parts
        return k * b * h * w


@dataclass(frozen=True)
class Cut:
    """Children side by side or one after another.

    Args:
        kind: `CutKind.SPACE` or `CutKind.TIME`.
        batch: Samples of a run.
        children: In order.
    """

    kind: CutKind
    batch: int
    children: tuple["Cut | Leaf", ...]

    @property
    def groups(self) -> int:
        """Runs of the children in one run."""
        return self.batch // self.children[0].batch


Node = Cut | Leaf


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it, in preorder."""
    yield node
    if isinstance(node, Cut):
        for child in node.children:
            yield from walk(child)


def leaves(node: Node) -> list[Leaf]:
    """The leaves below a node, in order."""
    return [leaf for _, leaf in leaf_nodes(node)]


def leaf_nodes(root: Node) -> list[tuple[int, Leaf]]:
    """The leaves of a tree in order, each with its number in preorder."""
    return [(number, found) for number, found in enumerate(walk(root)) if isinstance(found, Leaf)]


def check_tree(root: Cut, network: SegmentNetwork) -> None:
    """Refuse what no tree may be.

    Raises:
        UserError: A layer is missing or twice, a batch does not divide, the root is no cut in time, or a layer comes before one it reads.
    """
    if root.kind is not CutKind.TIME:
        raise UserError("the root must be a cut in time", where="tree")
    seen = Counter(leaf.layer for leaf in leaves(root))
    for i, layer in enumerate(network.layers):
        if seen[i] != 1:
            raise UserError(f"layer {layer.name!r} stands {seen[i]} times in the tree, expected once", where="tree")
    for node in walk(root):
        if isinstance(node, Cut):
            _check_cut(node)
    place = {leaf.layer: n for n, leaf in enumerate(leaves(root))}
    for i, layer in enumerate(network.layers):
        for producer in (*layer.inputs, *layer.weight_inputs):
            if place[producer] > place[i]:
                other = network.layers[producer].name
                raise UserError(f"layer {layer.name!r} stands before {other!r}, which it reads", where="tree")


def _check_cut(cut: Cut) -> None:
    if not cut.children:
        raise UserError("a cut has no children", where="tree")
    batches = {child.batch for child in cut.children}
    if len(batches) > 1:
        raise UserError(f"children of one cut must have the same batch, got {sorted(batches)}", where="tree")
    if cut.batch % cut.children[0].batch:
        raise UserError(f"batch {cut.children[0].batch} of a child does not divide {cut.batch}", where="tree")


def tree_arrays(root: Cut, unit_times: FloatArray) -> arrays.Tree:
    """A tree in the kernels' form, before stages and cores are found."""
    n = sum(1 for _ in walk(root))
    columns = {name: np.full(n, -1, np.int64) for name in arrays.Tree._fields if name != "unit_time"}
    tree = arrays.Tree(unit_time=np.zeros((n, unit_times.shape[1])), **columns)
    tree.stage[:] = tree.stages[:] = 0
    at = leaf = 0

    def add(node: Node, parent: int) -> None:
        nonlocal at, leaf
        mine, at = at, at + 1
        tree.parent[mine], tree.batch[mine], tree.leaf_first[mine] = parent, node.batch, leaf
        if isinstance(node, Leaf):
            tree.kind[mine], tree.groups[mine], tree.layer[mine] = arrays.LEAF, 1, node.layer
            tree.unit_time[mine] = unit_times[node.layer]
            leaf += 1
        else:
            tree.kind[mine], tree.groups[mine], tree.first[mine] = node.kind, node.groups, at
            places = []
            for child in node.children:
                places.append(at)
                add(child, mine)
            tree.next[places[:-1]] = places[1:]
        tree.leaf_past[mine] = leaf

    add(root, -1)
    return tree


def children_of(tree: arrays.Tree, node: int) -> list[int]:
    """Children of a node of a tree in the kernels' form."""
    found, child = [], int(tree.first[node])
    while child >= 0:
        found.append(child)
        child = int(tree.next[child])
    return found


def leaf_places(tree: arrays.Tree, layers: int) -> tuple[IntArray, IntArray, IntArray]:
    """Leaf number and node of each layer, and layer of each leaf."""
    node_of = np.zeros(layers, np.int64)
    found = np.flatnonzero(tree.kind == arrays.LEAF)
    layer_of = tree.layer[found].copy()
    leaf_of = np.zeros(layers, np.int64)
    leaf_of[layer_of] = np.arange(len(found))
    node_of[layer_of] = found
    return leaf_of, node_of, layer_of
