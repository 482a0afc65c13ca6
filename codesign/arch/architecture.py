"""The hardware value: an ordered memory hierarchy with fan-outs, ending in multiply-accumulate units.

Levels are listed outermost (DRAM) to innermost. Each level has a fan-out: one of its instances
feeds ``fanout_x * fanout_y`` instances of the next level in, the innermost level feeds the MACs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from codesign.arch.memory_device import DramUse
from codesign.arch.mesh import MeshLinks
from codesign.arch.sparsity import NO_SPARSITY, LevelSparsity, ZeroKind
from codesign.core.checks import check_positive, repeated
from codesign.core.errors import UserError, unknown_name
from codesign.core.specs import at_least


class LevelKind(Enum):
    """What a level is built from; decides which technology constants apply."""

    DRAM = "dram"
    SRAM = "sram"
    REGISTERS = "registers"


class Ports(Enum):
    """How a level's reads and writes share its bandwidth (rules L2 and L4 in docs/reference/cost-model.md).

    SEPARATE: full duplex. A read port and a write port, each with its own bandwidth; Timeloop's reading.
    SHARED: half duplex. One port, as every DRAM channel has: reads and writes take turns.
    """

    SEPARATE = "separate"
    SHARED = "shared"


class Links(Enum):
    """How the children of one fan-out are connected (HASCO's linkPEs; rules N1-N4 in docs/reference/cost-model.md).

    NONE: unicast. Every child is served by its own read of the parent, partial sums are written back one by one.
    SYSTOLIC: words are handed from child to child, so equal words are read once; each hand-over is one hop.
    MULTICAST: a bus. Equal words are read once and reach all children; each word drives the whole bus.
    PEER: a bus, and a child also takes from its neighbours the words they held one step before.
    MESH: routers. Equal words are read once and sent as a tree of links, each of which passes one flit a cycle.
    """

    NONE = "none"
    SYSTOLIC = "systolic"
    MULTICAST = "multicast"
    PEER = "peer"
    MESH = "mesh"


@dataclass(frozen=True)
class AccessEnergy:
    """Energy of one access of one word, in picojoules.

    Args:
        read_pj: A word read and sent inwards.
        fill_pj: A word written on arrival from the parent.
        update_pj: A word written on arrival from a child (partial sums).
    """

    read_pj: float
    fill_pj: float
    update_pj: float

    def __post_init__(self) -> None:
        for name in ("read_pj", "fill_pj", "update_pj"):
            _at_least(0.0, name, getattr(self, name))


@dataclass(frozen=True)
class Fanout:
    """The network from one instance of a level to its children.

    Args:
        x: Children along X.
        y: Children along Y.
        links: Interconnect of the children.
        hop_pj_per_bit: Energy to move one bit by one hop (the pitch of one child).
        mesh: The routers of `Links.MESH`; by default a mesh of the fan-out's own size.
    """

    x: int = at_least(1, 1)
    y: int = at_least(1, 1)
    links: Links = Links.MULTICAST
    hop_pj_per_bit: float = 0.0
    mesh: MeshLinks | None = None

    def __post_init__(self) -> None:
        _at_least(1, "fanout x", self.x)
        _at_least(1, "fanout y", self.y)
        _at_least(0.0, "hop_pj_per_bit", self.hop_pj_per_bit)
        if self.links is Links.MESH and self.mesh is None:
            object.__setattr__(self, "mesh", MeshLinks(self.x, self.y))
        if self.mesh is not None and self.links is not Links.MESH:
            raise UserError(f"`mesh` needs `links: mesh`, got `links: {self.links.value}`")
        if self.mesh is not None and (self.mesh.width < self.x or self.mesh.height < self.y):
            raise UserError(
                f"the mesh must hold the fan-out of {self.x} x {self.y}, got a mesh of {self.mesh.width} x {self.mesh.height}",
                hint="give `mesh` a `width` and a `height` of at least the fan-out's, or leave them out",
            )

    @property
    def shares(self) -> bool:
        """Whether equal words are read once for all children."""
        return self.links is not Links.NONE and (self.mesh is None or self.mesh.trees)

    @property
    def size(self) -> int:
        """Number of children."""
        return self.x * self.y


@dataclass(frozen=True)
class StorageLevel:
    """One level of the memory hierarchy.

    Args:
        name: Unique within the architecture.
        kind: DRAM, SRAM or registers.
        capacity_bytes: Bytes of one instance; None is unbounded.
        word_bits: Width of one physical access; energy and bandwidth are per such word.
        one_element_per_word: If true, every tensor element takes one whole word whatever its
            width (Timeloop's files with block-size 1); else elements are packed.
        keep: Roles (``input``, ``weight``, ``output``) or tensor names this level may hold.
        read_bandwidth_words_per_cycle: Per instance; None is unlimited.
        write_bandwidth_words_per_cycle: Per instance; None is unlimited.
        ports: Whether reads and writes have a port each or take turns on one.
        banks: Number of banks (a technology makes area and energy from it).
        energy: Per word access; None until a technology fills it in.
        area_mm2: Of one instance; None until a technology fills it in.
        leakage_mw: Of one instance; None until a technology fills it in.
        fanout: Network to the next level in.
        dram: The device behind a DRAM level; only the event tier reads it.
        sparsity: What it does about zeros: formats, gating, skipping.
    """

    name: str
    kind: LevelKind = LevelKind.SRAM
    capacity_bytes: float | None = None
    word_bits: int = at_least(1, 16)
    one_element_per_word: bool = False
    keep: frozenset[str] = frozenset({"input", "weight", "output"})
    read_bandwidth_words_per_cycle: float | None = None
    write_bandwidth_words_per_cycle: float | None = None
    ports: Ports = Ports.SEPARATE
    banks: int = at_least(1, 1)
    energy: AccessEnergy | None = None
    area_mm2: float | None = at_least(0)
    leakage_mw: float | None = at_least(0)
    fanout: Fanout = field(default_factory=Fanout)
    dram: DramUse | None = None
    sparsity: LevelSparsity = NO_SPARSITY

    def __post_init__(self) -> None:
        try:
            if self.dram is not None and self.kind is not LevelKind.DRAM:
                raise UserError(f"`device` needs `kind: dram`, got `kind: {self.kind.value}`")
            _at_least(1, "word_bits", self.word_bits)
            _at_least(1, "banks", self.banks)
            check_positive(
                hint="leave it out for unlimited",
                read_bandwidth_words_per_cycle=self.read_bandwidth_words_per_cycle,
                write_bandwidth_words_per_cycle=self.write_bandwidth_words_per_cycle,
                capacity_bytes=self.capacity_bytes,
            )
            for name in ("area_mm2", "leakage_mw"):
                if getattr(self, name) is not None:
                    _at_least(0.0, name, getattr(self, name))
        except UserError as error:
            raise error.within(f"level {self.name!r}") from None

    @property
    def capacity_bits(self) -> int | None:
        """Bits of one instance; None is unbounded."""
        return None if self.capacity_bytes is None else round(self.capacity_bytes * 8)

    @property
    def words_per_cycle(self) -> tuple[float | None, float | None]:
        """Words that the ports of one instance read and write in a cycle; None is unlimited.

        The cost model and its oracles take both from here, so that an attribute that slows ports has one place.
        """
        return self.read_bandwidth_words_per_cycle, self.write_bandwidth_words_per_cycle

    def busy_cycles(self, read_words: float, written_words: float) -> float:
        """Cycles in which one instance reads and writes so many words, not rounded up (rules L2 and L4)."""
        read, write = self.words_per_cycle
        reading, writing = read_words / (read or math.inf), written_words / (write or math.inf)
        return reading + writing if self.ports is Ports.SHARED else max(reading, writing)

    def element_bits(self, bits: int) -> int:
        """Bits that a tensor element of width `bits` occupies here."""
        return self.word_bits if self.one_element_per_word else bits


@dataclass(frozen=True)
class Arithmetic:
    """The multiply-accumulate units under the innermost level, one MAC per unit and cycle.

    Args:
        bits: Operand width.
        energy_pj: Energy of one MAC; None until a technology fills it in.
        area_mm2: Of one unit; None until a technology fills it in.
        leakage_mw: Of one unit; None until a technology fills it in.
        name: As other tools' files call it.
        zeros: Whether a MAC with a zero operand is gated or skipped; None computes it.
        by_width: (bits, bits, pJ) of MACs whose two operands have these widths, the wider first; others cost `energy_pj`.
        unpack_pj: Of widening one operand that is narrower than the MAC, where `by_width` does not say.
    """

    bits: int = at_least(1, 8)
    energy_pj: float | None = None
    area_mm2: float | None = None
    leakage_mw: float | None = None
    name: str = "MAC"
    zeros: ZeroKind | None = None
    by_width: tuple[tuple[int, int, float], ...] = ()
    unpack_pj: float = 0.0

    def __post_init__(self) -> None:
        _at_least(1, "mac bits", self.bits)
        for name in ("energy_pj", "area_mm2", "leakage_mw"):
            if getattr(self, name) is not None:
                _at_least(0.0, f"mac {name}", getattr(self, name))
        for wide, narrow, energy in self.by_width:
            if not 1 <= narrow <= wide <= self.bits or energy < 0.0:
                raise UserError(
                    f"`by_width` needs {self.bits} >= wider >= narrower >= 1 bits and pJ >= 0, got {wide}, {narrow}, {energy}"
                )
        _at_least(0.0, "mac unpack_pj", self.unpack_pj)

    @property
    def least_energy_pj(self) -> float:
        """Of the cheapest pair of widths; 0 until a technology fills it in."""
        return min([self.energy_pj or 0.0, *(energy for _, _, energy in self.by_width)])

    def energy_of(self, widths: Sequence[int]) -> float | None:
        """Energy of one MAC on operands of these widths (rule P4); None until a technology fills it in."""
        pair = tuple(sorted(widths, reverse=True))
        for wide, narrow, energy in self.by_width:
            if pair == (wide, narrow):
                return energy
        if self.energy_pj is None:
            return None
        return self.energy_pj + self.unpack_pj * sum(w < self.bits for w in widths)


@dataclass(frozen=True)
class Architecture:
    """A tensor accelerator.

    Args:
        name: A label for people.
        levels: Storage levels, outermost first; at least one.
        mac: The arithmetic units.
        clock_hz: Cycles per second.
        technology: Name of the technology that filled in energies and areas, if one did.
        extra_area_mm2: Area outside levels and MACs (interconnect, DMA, control).
        extra_leakage_mw: Their leakage.
    """

    name: str
    levels: tuple[StorageLevel, ...]
    mac: Arithmetic = field(default_factory=Arithmetic)
    clock_hz: float = field(default=1e9, metadata={"above": 0})
    technology: str | None = None
    extra_area_mm2: float = at_least(0, 0.0)
    extra_leakage_mw: float = at_least(0, 0.0)

    def __post_init__(self) -> None:
        where = f"architecture {self.name!r}"
        if not self.levels:
            raise UserError("an architecture needs at least one storage level", where=where)
        if (twice := repeated([level.name for level in self.levels])) is not None:
            raise UserError(f"two levels are named {twice!r}", where=where)
        check_positive(where=where, clock_hz=self.clock_hz)

    @cached_property
    def level_index(self) -> dict[str, int]:
        """Position of each level, 0 outermost."""
        return {level.name: i for i, level in enumerate(self.levels)}

    def level(self, name: str) -> StorageLevel:
        """The level of that name.

        Raises:
            UserError: There is none.
        """
        if name not in self.level_index:
            raise unknown_name("level", name, self.level_index, where=f"architecture {self.name!r}")
        return self.levels[self.level_index[name]]

    @cached_property
    def instances(self) -> tuple[int, ...]:
        """Instances of each level in the machine, outermost (1) first."""
        counts = [1]
        for level in self.levels[:-1]:
            counts.append(counts[-1] * level.fanout.size)
        return tuple(counts)

    @cached_property
    def mac_units(self) -> int:
        """Number of MAC units."""
        return math.prod(level.fanout.size for level in self.levels)

    @property
    def mesh(self) -> tuple[int, int]:
        """Extent of the MAC array along X and Y."""
        return math.prod(v.fanout.x for v in self.levels), math.prod(v.fanout.y for v in self.levels)

    @property
    def area_mm2(self) -> float | None:
        """Sum over on-chip levels, MACs and the rest; None while some part has no figure. DRAM is off chip."""
        total = self.extra_area_mm2
        for level, count in zip(self.levels, self.instances, strict=True):
            if level.kind is LevelKind.DRAM:
                continue
            if level.area_mm2 is None:
                return None
            total += level.area_mm2 * count
        return None if self.mac.area_mm2 is None else total + self.mac.area_mm2 * self.mac_units

    @property
    def leakage_w(self) -> float:
        """Static power of everything that has a leakage figure (DRAM's background power included if given)."""
        milliwatts = self.extra_leakage_mw + (self.mac.leakage_mw or 0.0) * self.mac_units
        for level, count in zip(self.levels, self.instances, strict=True):
            milliwatts += (level.leakage_mw or 0.0) * count
        return milliwatts * 1e-3

    def with_dram_ports(self, ports: Ports) -> "Architecture":
        """The same architecture with the ports of every DRAM level read so."""
        levels = tuple(replace(v, ports=ports) if v.kind is LevelKind.DRAM else v for v in self.levels)
        return replace(self, levels=levels)

    def with_level(self, name: str, **changes: object) -> "Architecture":
        """The same architecture with fields of one level replaced; energies and areas stay, whatever its new size."""
        self.level(name)
        levels = tuple(replace(v, **changes) if v.name == name else v for v in self.levels)  # type: ignore[arg-type]
        return replace(self, levels=levels)


def _at_least(least: float, name: str, value: float) -> None:
    if (type(value) is int or (type(value) is float and type(least) is float)) and least <= value < math.inf:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UserError(f"`{name}` must be a number, got {value!r}")
    if isinstance(least, int) and not isinstance(value, int):
        raise UserError(f"`{name}` must be an integer, got {value!r}")
    if not value >= least or value == math.inf:
        raise UserError(f"`{name}` must be >= {least} and finite, got {value}")
