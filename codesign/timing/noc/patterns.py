"""Synthetic traffic of a mesh: Bernoulli sources and the usual destinations."""

from dataclasses import dataclass

import numpy as np

from codesign.core.errors import unknown_name
from codesign.mapping.nest import IntArray
from codesign.timing.noc.mesh import Mesh
from codesign.timing.noc.router import Traffic

PATTERNS = ("uniform", "transpose", "neighbor", "hotspot", "one_to_many")


@dataclass(frozen=True)
class Load:
    """Offered load.

    Args:
        pattern: One of `PATTERNS`.
        rate: Flits a node and cycle at each source.
        packet_flits: Flits of a packet.
        cycles: How long packets are created.
    """

    pattern: str
    rate: float
    packet_flits: int
    cycles: int


def sources(mesh: Mesh, pattern: str) -> IntArray:
    """The nodes that send: all, but for `one_to_many` the corner 0."""
    return np.arange(1 if pattern == "one_to_many" else mesh.nodes, dtype=np.int64)


def targets(mesh: Mesh, pattern: str, source: IntArray, rng: np.random.Generator) -> IntArray:
    """Where packets of these sources go.

    Raises:
        UserError: There is no such pattern.
    """
    x, y = source % mesh.width, source // mesh.width
    if pattern == "uniform":
        return rng.integers(0, mesh.nodes, len(source))
    if pattern == "transpose":
        return x * mesh.width + y
    if pattern == "neighbor":
        return (y + 1) % mesh.height * mesh.width + (x + 1) % mesh.width
    if pattern == "hotspot":
        return np.zeros(len(source), np.int64)
    if pattern == "one_to_many":
        drawn = rng.integers(1, mesh.nodes, len(source))
        return drawn
    raise unknown_name("traffic pattern", pattern, PATTERNS)


def bernoulli(mesh: Mesh, load: Load, rng: np.random.Generator) -> Traffic:
    """Packets of sources that each create one with probability rate / flits a cycle."""
    nodes = sources(mesh, load.pattern)
    made = rng.random((load.cycles, len(nodes))) < load.rate / load.packet_flits
    created, which = np.nonzero(made)
    source = nodes[which]
    target = targets(mesh, load.pattern, source, rng)
    flits = np.full(len(created), load.packet_flits, np.int64)
    return Traffic(created.astype(np.int64), source, target.astype(np.int64), flits)
