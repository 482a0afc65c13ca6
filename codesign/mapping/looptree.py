"""What the uneven search maps: one operator on one chain of memories, under the LoopTree rules (U1-U9, docs/explanation/exact-mapper.md).

Units are the caller's: energies in joules, times in seconds, sizes in bits; nothing here depends on them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TypeVar

from codesign.core.kernel_library import FloatArray

Value = TypeVar("Value", float, FloatArray)


class Goal(Enum):
    """What is minimised; leakage is part of energy and grows with latency."""

    ENERGY = "energy"
    LATENCY = "latency"
    EDP = "edp"

    def of(self, energy: Value, latency: Value, leak_w: float) -> Value:
        """The value of dynamic `energy` and `latency`, numbers or arrays, where `leak_w` leaks all the time."""
        total = energy + leak_w * latency
        if self is Goal.ENERGY:
            return total
        return latency if self is Goal.LATENCY else total * latency


@dataclass(frozen=True)
class Operand:
    """One tensor of an operator.

    Args:
        name: Its name.
        axes: For each axis the dimensions that index it with their coefficients.
        output: Whether the operator writes it.
        bits: Width of an element.
        ranks: Names of the axes, by which operators that share the tensor agree.
        of: The tensor that this is a second reading of, where an operator reads a tensor twice; empty otherwise.
    """

    name: str
    axes: tuple[tuple[tuple[str, int], ...], ...]
    output: bool = False
    bits: float = 8
    ranks: tuple[str, ...] = ()
    of: str = ""

    @property
    def tensor(self) -> str:
        """Name of the tensor itself."""
        return self.of or self.name

    def axis(self, dim: str) -> str | None:
        """Name of the axis that `dim` alone indexes."""
        for rank, axis in zip(self.ranks, self.axes, strict=True):
            if axis == ((dim, 1),):
                return rank
        return None

    @cached_property
    def dims(self) -> frozenset[str]:
        """The dimensions that index the tensor."""
        return frozenset(d for axis in self.axes for d, _ in axis)

    @cached_property
    def sliding(self) -> frozenset[str]:
        """Dimensions that share an axis with another or have a coefficient: its tiles overlap along them."""
        return frozenset(d for axis in self.axes if len(axis) > 1 or axis[0][1] != 1 for d, _ in axis)

    def words(self, sizes: Mapping[str, float]) -> float:
        """Elements of the tile that these sizes of the dimensions touch (bounding box)."""
        return math.prod(1 + sum(c * (sizes[d] - 1) for d, c in axis) for axis in self.axes)


@dataclass(frozen=True)
class Operator:
    """One operator.

    Args:
        name: Its name.
        operands: Its tensors, one of them written.
        bounds: Size of every dimension.
        copy: It computes nothing: the input is only moved to where the output is kept.
    """

    name: str
    operands: tuple[Operand, ...]
    bounds: dict[str, int]
    copy: bool = False

    @cached_property
    def macs(self) -> int:
        """Points of the iteration space."""
        return math.prod(self.bounds.values())

    @cached_property
    def simple(self) -> frozenset[str]:
        """Dimensions that stand alone on every axis they index."""
        return frozenset(self.bounds) - frozenset(d for t in self.operands for d in t.sliding)


@dataclass(frozen=True)
class Memory:
    """One level.

    Args:
        name: Its name.
        capacity: Bits of one instance; infinite if unlimited.
        read, write: Energy of one bit.
        ports: Each a pair of seconds per bit read and seconds per bit written; the slowest counts.
        bits: Width of the elements of tensors that are stored wider or narrower than they are.
    """

    name: str
    capacity: float = math.inf
    read: float = 0.0
    write: float = 0.0
    ports: tuple[tuple[float, float], ...] = ()
    bits: dict[str, float] = field(default_factory=dict)

    def width(self, operand: Operand) -> float:
        """Bits of an element of `operand` here."""
        return self.bits.get(operand.name, operand.bits)


@dataclass(frozen=True)
class Fanout:
    """One axis of instances above a level.

    Args:
        name: Its name.
        size: Instances.
        dims: Dimensions whose loops may be laid out here.
        shared: Tensors that are sent once to instances that want the same words, or summed on the way.
        min_usage: Part of the instances that must be used, or as much as can be.
        fewest: Only as few dimensions are laid out here as reach that use.
    """

    name: str
    size: int
    dims: frozenset[str]
    shared: frozenset[str]
    min_usage: float = 0.0
    fewest: bool = False


@dataclass(frozen=True)
class Machine:
    """The memories of one operator, outermost first, and what lies between them.

    Args:
        memories: Levels, outermost first.
        fanouts: One tuple for each level (above it) and one above the compute units.
        mac_energy: Energy of one operation.
        mac_seconds: Seconds of one operation of one unit.
        leak_w: Leakage of everything.
        keeps: The sets of tensors that the levels may keep, level by level: one mapping space each.
    """

    memories: tuple[Memory, ...]
    fanouts: tuple[tuple[Fanout, ...], ...]
    mac_energy: float
    mac_seconds: float
    leak_w: float
    keeps: tuple[tuple[frozenset[str], ...], ...]


def renamed(machine: Machine, tensors: Mapping[str, str], dims: Mapping[str, str]) -> Machine:
    """The same machine for an operator whose tensors and dimensions have other names."""

    def named(names: frozenset[str]) -> frozenset[str]:
        return frozenset(tensors[n] for n in names if n in tensors)

    return replace(
        machine,
        memories=tuple(
            replace(m, bits={tensors[n]: b for n, b in m.bits.items() if n in tensors}) for m in machine.memories
        ),
        fanouts=tuple(
            tuple(
                replace(a, dims=frozenset(dims[d] for d in a.dims if d in dims), shared=named(a.shared)) for a in axes
            )
            for axes in machine.fanouts
        ),
        keeps=tuple(tuple(named(level) for level in keep) for keep in machine.keeps),
    )


@dataclass(frozen=True)
class Factors:
    """Which tile sizes a dimension may have.

    Args:
        imperfect_temporal: The outermost loop of any dimension may leave a remainder.
        imperfect_spatial: That of the dimensions that may be laid out in space may.
    """

    imperfect_temporal: bool = False
    imperfect_spatial: bool = False

    @property
    def imperfect(self) -> bool:
        """Whether any loop may leave a remainder."""
        return self.imperfect_temporal or self.imperfect_spatial
