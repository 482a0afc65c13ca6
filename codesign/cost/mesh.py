"""What a mapping sends over the routers of a mesh: flits of every link and port, by multicast and reduction trees.

Compiled and allocation-free: the kernel calls it for every mapping it scores. Rules N5-N9 of docs/reference/cost-model.md.
Which children share a word is what matrix A of CoSA says (Q. Huang et al., ISCA 2021, Fig. 5): a spatial loop over a dimension
that does not index a tensor makes multicast of an input, reduction of an output; one that does makes unicast.
"""

from typing import NamedTuple

import numpy as np

from codesign.arch.architecture import Architecture, LevelKind
from codesign.core.jit import njit
from codesign.mapping.nest import FloatArray, IntArray
from codesign.workloads.computation import Computation

PORTS, LOCAL, INJECTION = 5, 4, 5
EAST, WEST, SOUTH, NORTH = 0, 1, 2, 3
"""Ports: to and from x + 1, x - 1, y + 1, y - 1, and the node itself (`LOCAL`: out to it; `INJECTION`: in from it)."""

DOWN, UP = 0, 1
ON, WIDTH, NODES, TREES, FLIT_BITS, PARENTS, FIRST_PARENT = 0, 1, 2, 3, 4, 5, 6
KEY, NODE = 0, 1
"""Rows of `MeshArrays.child`."""
_INCOMING, _MEMBER = 0, 1


class MeshArrays(NamedTuple):
    """The meshes of an architecture, and room to count on.

    Attributes:
        level: ``L x (6 + P)`` columns `ON`, `WIDTH`, `NODES`, `TREES`, `FLIT_BITS`, `PARENTS`, then the parents.
        bits: ``L x T`` bits of an element on the way.
        unit: ``T x A`` weights that make one number of an offset vector.
        load: ``2 x nodes x 6`` flits, by direction (`DOWN`, `UP`), node and port.
        mark: ``nodes x 6`` trees that have passed a port.
        child: ``2 x children`` offset and node of every child in use.
        role: ``2 x nodes`` links of a tree that end at a node, whether it sends into the tree.
        turns: ``L + 1`` 1 where tensors that enter a level move as transfers and take turns on a mesh; 0 for registers and
            MACs, whose words stream side by side (rule N9).
    """

    level: IntArray
    bits: IntArray
    unit: IntArray
    load: FloatArray
    mark: IntArray
    child: IntArray
    role: IntArray
    turns: IntArray


def make_mesh(computation: Computation, architecture: Architecture, bounds: IntArray, coef: IntArray) -> MeshArrays:
    """The arrays of an architecture; of one without a mesh they are as small as can be."""
    found = [level.fanout.mesh for level in architecture.levels]
    most = max((len(m.parents) for m in found if m is not None), default=0)
    nodes = max((m.width * m.height for m in found if m is not None), default=1)
    children = max((v.fanout.size for v in architecture.levels if v.fanout.mesh is not None), default=1)
    level = np.zeros((len(found), FIRST_PARENT + most), np.int64)
    bits = np.zeros((len(found), len(computation.tensors)), np.int64)
    for v, mesh in enumerate(found):
        if mesh is not None:
            size = mesh.width * mesh.height
            level[v, :FIRST_PARENT] = (1, mesh.width, size, mesh.trees, mesh.flit_bits, len(mesh.parents))
            level[v, FIRST_PARENT : FIRST_PARENT + len(mesh.parents)] = mesh.parents
        for t, tensor in enumerate(computation.tensors):
            bits[v, t] = tensor.bits if v == 0 else tensor.partial_bits
    reach = 1 + (coef * (bounds - 1)[None, None, :]).sum(axis=2)
    unit = np.cumprod(np.concatenate([np.ones((len(coef), 1), np.int64), reach[:, :-1]], axis=1), axis=1)
    return MeshArrays(
        level,
        bits,
        np.ascontiguousarray(unit),
        np.zeros((2, nodes, 6)),
        np.zeros((nodes, 6), np.int64),
        np.zeros((2, children), np.int64),
        np.zeros((2, nodes), np.int64),
        np.array([v.kind is not LevelKind.REGISTERS for v in architecture.levels] + [False], np.int64),
    )


@njit
def route(here: int, target: int, width: int) -> int:
    """The port towards a node under X-Y routing."""
    x, y, tx, ty = here % width, here // width, target % width, target // width
    if tx > x:
        return EAST
    if tx < x:
        return WEST
    if ty > y:
        return SOUTH
    if ty < y:
        return NORTH
    return LOCAL


@njit
def neighbour(here: int, port: int, width: int) -> int:
    """The node behind a port."""
    if port == EAST:
        return here + 1
    if port == WEST:
        return here - 1
    if port == SOUTH:
        return here + width
    if port == NORTH:
        return here - width
    return here


@njit
def _send_down(
    mesh: MeshArrays, m: int, total: int, leader: int, everyone: bool, parent: int, flits: float, token: int
) -> int:
    """A parent's multicast to the children that share the leader's tile, or to the leader alone; returns its links."""
    child, load, mark, width = mesh.child, mesh.load, mesh.mark, mesh.level[m, WIDTH]
    links, trees = 0, mesh.level[m, TREES]
    load[DOWN, parent, INJECTION] += flits
    for c in range(leader, total):
        if c != leader and (not everyone or trees == 0 or child[KEY, c] != child[KEY, leader]):
            continue
        here, target = parent, child[NODE, c]
        while here != target:
            port = route(here, target, width)
            if mark[here, port] != token:
                mark[here, port] = token
                load[DOWN, here, port] += flits
                links += 1
            here = neighbour(here, port, width)
        load[DOWN, target, LOCAL] += flits
    return links


@njit
def _send_up(mesh: MeshArrays, m: int, total: int, leader: int, parent: int, flits: float, token: int) -> int:
    """The reduction of the leader's output to a parent; returns its links.

    Sums are added at the nodes where two ways meet or a member sits: packets end there and the sum goes on as a packet.
    """
    child, load, mark, role, width = mesh.child, mesh.load, mesh.mark, mesh.role, mesh.level[m, WIDTH]
    links, nodes, trees = 0, mesh.level[m, NODES], mesh.level[m, TREES]
    for r in range(nodes):
        role[_INCOMING, r] = 0
        role[_MEMBER, r] = 0
    for c in range(leader, total):
        if c != leader and (trees == 0 or child[KEY, c] != child[KEY, leader]):
            continue
        here = child[NODE, c]
        role[_MEMBER, here] = 1
        while here != parent:
            port = route(here, parent, width)
            if mark[here, port] == token:
                break
            mark[here, port] = token
            load[UP, here, port] += flits
            links += 1
            here = neighbour(here, port, width)
            role[_INCOMING, here] += 1
    for r in range(nodes):
        if r == parent:
            load[UP, r, LOCAL] += flits * (role[_INCOMING, r] + role[_MEMBER, r])
            load[UP, r, INJECTION] += flits * role[_MEMBER, r]
        elif role[_MEMBER, r] == 1 or role[_INCOMING, r] > 1:
            load[UP, r, INJECTION] += flits
            load[UP, r, LOCAL] += flits * role[_INCOMING, r]
    return links


@njit
def _leads(child: IntArray, leader: int) -> bool:
    """Whether no child before this one shares its part."""
    c = 0
    while c < leader and child[KEY, c] != child[KEY, leader]:
        c += 1
    return c == leader


@njit
def add_loads(
    mesh: MeshArrays, m: int, total: int, flits_down: float, flits_up: float, everyone: bool, token: int
) -> tuple[int, int, int]:
    """Add one tensor's flits to the links of the mesh below level m.

    Args:
        mesh: Its `load` is added to; `child` holds the children in use.
        total: How many these are.
        flits_down: That each child gets from each parent.
        flits_up: That each child gives to each parent.
        everyone: Whether what goes down goes to all children that share it (inputs), or to the first of them (old sums).
        token: Larger than any in `mark`.

    Returns:
        The next token, and the links of all ways down, and up, that one flit of each transfer passes.
    """
    links_down, links_up = 0, 0
    for leader in range(total):
        if mesh.level[m, TREES] == 1 and not _leads(mesh.child, leader):
            continue
        for s in range(mesh.level[m, PARENTS]):
            parent = mesh.level[m, FIRST_PARENT + s]
            if flits_down > 0.0:
                links_down += _send_down(mesh, m, total, leader, everyone, parent, flits_down, token)
                token += 1
            if flits_up > 0.0:
                links_up += _send_up(mesh, m, total, leader, parent, flits_up, token)
                token += 1
    return token, links_down, links_up


@njit
def transfer_flits(mesh: MeshArrays, m: int, t: int, words: float, tile: float) -> float:
    """Flits at one parent of level m of all transfers of tensor t: each transfer has whole flits (rule N9).

    Args:
        words: Elements of all transfers to, or from, a child.
        tile: Elements of one transfer where all are alike; 0 where they are not, or where words stream: these are not rounded up.
    """
    flit_bits, bits = mesh.level[m, PARENTS] * mesh.level[m, FLIT_BITS], mesh.bits[m, t]
    if tile <= 0.0:
        return words * bits / flit_bits  # type: ignore[no-any-return]
    return words / tile * np.ceil(tile * bits / flit_bits - 1e-9)  # type: ignore[no-any-return]


@njit
def busiest(mesh: MeshArrays, m: int, way: int) -> float:
    """Flits of the busiest link or port, in one direction."""
    most = 0.0
    for r in range(mesh.level[m, NODES]):
        for port in range(6):
            most = max(most, mesh.load[way, r, port])
    return most


@njit
def clear(mesh: MeshArrays) -> None:
    """Set loads and marks of all links and ports back: nothing is sent."""
    for r in range(mesh.mark.shape[0]):
        for port in range(6):
            mesh.mark[r, port] = -1
            mesh.load[DOWN, r, port] = 0.0
            mesh.load[UP, r, port] = 0.0
