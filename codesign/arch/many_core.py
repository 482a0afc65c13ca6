"""Systems of many cores: cores and their network, dies, memories, energies (docs/explanation/many-cores.md, rules M1 to M3)."""

from dataclasses import dataclass, field

from codesign.arch.core_network import CoreNetwork, Grid, check_network, ring_order
from codesign.core.checks import check_least, check_positive, repeated
from codesign.core.errors import UserError, unknown_name


@dataclass(frozen=True)
class Buffer:
    """A buffer of a core.

    Args:
        bytes: Capacity.
        read_pj: Energy of a word read.
        write_pj: Energy of a word written.
    """

    bytes: int
    read_pj: float
    write_pj: float

    def __post_init__(self) -> None:
        check_least(1, where="buffer", bytes=self.bytes)
        check_least(0, where="buffer", read_pj=self.read_pj, write_pj=self.write_pj)


@dataclass(frozen=True)
class VectorMacCore:
    """A core of processing elements with vector MACs, and a vector unit.

    Args:
        inputs: Buffer of inputs of each processing element.
        weights: Buffer of weights of each.
        sums: Buffer of partial sums of each.
        outputs: Buffer of outputs.
        big: Buffer that the network fills.
        vector: Input channels of a processing element.
        lanes: Output channels of one.
        elements_a: Processing elements along the first axis.
        elements_o: Along the second.
        bus_words_per_cycle: Of the bus between elements.
        bus_pj: Energy of a word on it.
        mac_pj: Energy of a MAC.
        vector_unit_macs: Operations a cycle of the vector unit.
        vector_unit_pj: Energy of one.
        buffer_words_per_cycle: Words a cycle of the big buffer.
        output_reserve_bytes: Bytes of the big buffer kept for outputs.
    """

    inputs: Buffer
    weights: Buffer
    sums: Buffer
    outputs: Buffer
    big: Buffer
    vector: int = 8
    lanes: int = 8
    elements_a: int = 4
    elements_o: int = 4
    bus_words_per_cycle: int = 16
    bus_pj: float = 0.018
    mac_pj: float = 0.018
    vector_unit_macs: int = 64
    vector_unit_pj: float = 0.0873
    buffer_words_per_cycle: int = 256
    output_reserve_bytes: int = 10240

    def __post_init__(self) -> None:
        check_least(1, where="core", vector=self.vector, lanes=self.lanes, elements_a=self.elements_a)
        check_least(1, where="core", elements_o=self.elements_o, vector_unit_macs=self.vector_unit_macs)
        check_least(
            1,
            where="core",
            buffer_words_per_cycle=self.buffer_words_per_cycle,
            bus_words_per_cycle=self.bus_words_per_cycle,
        )
        check_least(0, where="core", bus_pj=self.bus_pj, mac_pj=self.mac_pj, vector_unit_pj=self.vector_unit_pj)
        check_least(0, where="core", output_reserve_bytes=self.output_reserve_bytes)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of a core in a cycle."""
        return self.vector * self.lanes * self.elements_a * self.elements_o


def mesh_order(width: int, height: int, stride: int) -> list[tuple[int, int]]:
    """Places of a mesh in its order: stripes of columns, up one and down the next (rule M3)."""
    found = []
    for stripe in range(width // stride):
        rows = range(height) if stripe % 2 == 0 else range(height - 1, -1, -1)
        found += [(stripe * stride + x, y) for y in rows for x in range(stride)]
    return found


FIRST_KIND = "core"
"""The kind of the record `core` of a system."""

MOST_KINDS = 4
"""Kinds of cores that one system may have."""


@dataclass(frozen=True)
class CoreKind:
    """A further kind of cores: a record as `core` is one, or an architecture.

    Args:
        name: What `places` call it.
        core: What such a core is; left out where an architecture is named.
        architecture: Name or file of an architecture, or the architecture as JSON; its DRAM is left out, its outermost buffer is what the network fills.
        vector_unit_macs: Operations a cycle of the vector unit beside an architecture.
        vector_unit_pj: Energy of one.
        output_reserve_bytes: Bytes of an architecture's buffer kept for outputs.
    """

    name: str
    core: VectorMacCore | None = None
    architecture: str | None = None
    vector_unit_macs: int = 64
    vector_unit_pj: float = 0.0873
    output_reserve_bytes: int = 10240

    def __post_init__(self) -> None:
        where = f"kind {self.name!r}"
        if not self.name:
            raise UserError("a kind of cores needs a name, by which `places` call it", where="kinds")
        if (self.core is None) == (self.architecture is None):
            given = "neither" if self.core is None else "both"
            raise UserError(f"a kind of cores is a `core` or an `architecture`, got {given}", where=where)
        check_least(1, where=where, vector_unit_macs=self.vector_unit_macs)
        check_least(0, where=where, vector_unit_pj=self.vector_unit_pj, output_reserve_bytes=self.output_reserve_bytes)
        if self.architecture is None:
            for name in ("vector_unit_macs", "vector_unit_pj", "output_reserve_bytes"):
                if getattr(self, name) != getattr(CoreKind, name):
                    raise UserError(f"`{name}` stands beside an `architecture`; a `core` has its own", where=where)


@dataclass(frozen=True)
class Links:
    """Links between cores.

    Args:
        words_per_cycle: Of each directed link.
        pj_per_word_hop: Energy of a word over the distance of two neighbours.
    """

    words_per_cycle: int
    pj_per_word_hop: float

    def __post_init__(self) -> None:
        check_least(1, where="links", words_per_cycle=self.words_per_cycle)
        check_least(0, where="links", pj_per_word_hop=self.pj_per_word_hop)


@dataclass(frozen=True)
class Dies:
    """How the mesh is cut into dies.

    Args:
        x: Dies along x.
        y: Dies along y.
        words_per_cycle: Of a link between dies.
        pj_per_word_hop: Energy of a word on one.
        interface: ``USR``, ``XSR`` or ``UCIe``.
        package: ``OS`` (organic substrate), ``FO`` (fan-out) or ``SI`` (silicon interposer).
        lanes: Serial lanes that draw power all the time; 0 for none.
        mw_per_lane: Of each.
    """

    x: int = 1
    y: int = 1
    words_per_cycle: int = 1
    pj_per_word_hop: float = 0.0
    interface: str = "USR"
    package: str = "OS"
    lanes: int = 0
    mw_per_lane: float = 0.0

    def __post_init__(self) -> None:
        check_least(1, where="dies", x=self.x, y=self.y)
        if self.words_per_cycle < 1 and self.count > 1:
            raise UserError(
                f"the mesh is cut into {self.count} unconnected parts: links between dies carry {self.words_per_cycle} words a cycle",
                where="dies",
                hint="`words_per_cycle` of at least 1, or one die",
            )
        check_least(1, where="dies", words_per_cycle=self.words_per_cycle)
        check_least(
            0, where="dies", pj_per_word_hop=self.pj_per_word_hop, lanes=self.lanes, mw_per_lane=self.mw_per_lane
        )

    @property
    def count(self) -> int:
        """How many dies with cores the system is cut into."""
        return self.x * self.y

    @property
    def lane_pj(self) -> float:
        """Energy of all serial lanes in a nanosecond."""
        return float(self.lanes * int(self.mw_per_lane))

    @property
    def link_pj(self) -> float:
        """Energy of a word on a link between dies; none where lanes draw power all the time."""
        return 0.0 if self.lanes else self.pj_per_word_hop


@dataclass(frozen=True)
class Memories:
    """DRAMs of a system.

    Args:
        ports: Places ``[x, y]`` of the ports of each DRAM: routers of the mesh, or -1 and `width` for the columns beside it.
        words_per_cycle_each: Of each DRAM.
        pj_per_word: Energy of a word.
        kind: Of the devices, for costs.
    """

    ports: tuple[tuple[tuple[int, ...], ...], ...]
    words_per_cycle_each: int
    pj_per_word: float
    kind: str = "GDDR6X"

    def __post_init__(self) -> None:
        check_least(1, where="memories", words_per_cycle_each=self.words_per_cycle_each)
        check_least(0, where="memories", pj_per_word=self.pj_per_word)
        if not self.ports:
            raise UserError("a system needs a DRAM controller, got none", where="memories", hint="`ports: [[[0, 0]]]`")
        if any(not ports for ports in self.ports):
            raise UserError("`ports` must name at least one place for every DRAM", where="memories")
        if len(self.ports) > 4:
            raise UserError(f"at most 4 DRAMs are counted apart, got {len(self.ports)}", where="memories")
        if len({len(ports) for ports in self.ports}) > 1:
            raise UserError("every DRAM must have the same number of ports", where="memories")


@dataclass(frozen=True)
class ManyCore:
    """A system of many cores, all equal or of several kinds.

    Args:
        name: Of the system.
        width: Cores along x.
        height: Cores along y.
        stride: Columns of a stripe of the mesh order.
        core: What a core is; with `kinds` the kind named ``core``.
        links: Between cores.
        memories: DRAMs.
        dies: How the mesh is cut into dies.
        clock_ghz: Of all cores.
        technology_nm: For costs.
        network: Which cores are joined, and the ways between them.
        kinds: Further kinds of cores.
        places: Kind of the core at every place, row by row from y = 0; empty where all are equal.
    """

    name: str
    width: int
    height: int
    stride: int
    core: VectorMacCore
    links: Links
    memories: Memories
    dies: Dies = field(default_factory=Dies)
    clock_ghz: float = 1.0
    technology_nm: int = 12
    network: CoreNetwork = field(default_factory=CoreNetwork)
    kinds: tuple[CoreKind, ...] = ()
    places: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        where = f"system {self.name!r}"
        check_least(1, where=where, width=self.width, height=self.height, stride=self.stride)
        check_positive(where=where, clock_ghz=self.clock_ghz)
        if self.width % self.stride:
            raise UserError(f"`stride` must divide the width {self.width}, got {self.stride}", where=where)
        if self.width % self.dies.x or self.height % self.dies.y:
            raise UserError(
                f"{self.dies.x} x {self.dies.y} dies do not cut a mesh of {self.width} x {self.height} evenly",
                where=where,
                hint="dies must be rectangles of equal size",
            )
        for place in (place for ports in self.memories.ports for place in ports):
            if len(place) != 2 or not (-1 <= place[0] <= self.width and 0 <= place[1] < self.height):
                raise UserError(
                    f"a DRAM port at {list(place)} is nowhere on a mesh of {self.width} x {self.height}",
                    where=where,
                    hint=f"[x, y] with x from -1 to {self.width} and y from 0 to {self.height - 1}",
                )
        check_network(self.network, self.grid, where)

        self._check_kinds(where)

    def _check_kinds(self, where: str) -> None:
        """Every place has a kind that there is, and every kind a place (rule M121)."""
        names = [FIRST_KIND, *(kind.name for kind in self.kinds)]
        if not self.kinds and not self.places:
            return
        if len(names) > MOST_KINDS:
            raise UserError(f"at most {MOST_KINDS} kinds of cores are told apart, got {len(names)}", where=where)
        if (twice := repeated(names)) is not None:
            raise UserError(f"two kinds of cores are named {twice!r}", where=where)
        if len(self.places) > self.height or any(len(row) > self.width for row in self.places):
            raise UserError(
                f"`places` must be {self.height} rows of {self.width} kinds, got rows of {[len(r) for r in self.places]}",
                where=where,
            )
        rows = [*self.places, *[()] * (self.height - len(self.places))]
        for y, row in enumerate(rows):
            for name in row:
                if name not in names:
                    raise unknown_name("kind of core", name, names, where=f"{where}, `places`, row {y}")
            if len(row) < self.width:
                raise UserError(
                    f"the core at ({len(row)}, {y}) has no kind",
                    where=where,
                    hint=f"`places`: {self.height} rows of {self.width} names",
                )
        for name in names:
            if not any(name in row for row in self.places):
                raise UserError(f"the kind {name!r} has no place on the mesh", where=where, hint="`places`")

    @property
    def cores(self) -> int:
        """Number of cores."""
        return self.width * self.height

    @property
    def grid(self) -> Grid:
        """Where cores and DRAM ports are."""
        ports = tuple(place for ports in self.memories.ports for place in ports)
        return Grid(self.width, self.height, self.dies.x, self.dies.y, ports)

    @property
    def core_places(self) -> list[tuple[int, int]]:
        """Column and row of each core in the order in which cores are shared out, kind by kind (rules M3, M111, M122).

        Along a ring; else in stripes of columns, every second one downwards.
        """
        ring = self.network.topology == "ring"
        found = ring_order(self.width, self.height) if ring else mesh_order(self.width, self.height, self.stride)
        if not self.kinds:
            return found
        rank = {name: i for i, name in enumerate([FIRST_KIND, *(kind.name for kind in self.kinds)])}
        return sorted(found, key=lambda place: rank[self.places[place[1]][place[0]]])
