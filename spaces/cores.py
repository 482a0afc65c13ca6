"""Cores that a generator makes for one intrinsic: GEMMCore, GEMV core, DOT core, ConvCore.

Parameters and their ranges are those of HASCO's released explorer (Xiao et al., ISCA 2021, Sec. V-A), with the paper's `linkPEs`
added; what each one changes is formulas H1-H7 of docs/reference/hardware-space.md and Q1-Q9 of docs/explanation/hasco.md. The paper's Listing 2 reads

>>> space = reshape_array(GEMM_CORE, 16, 16)
>>> space = partition_banks(add_cache(space, 256), 4)
>>> space.space.cardinality_bound
72
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any

from codesign.arch.architecture import Architecture, Arithmetic, Fanout, Links, StorageLevel
from codesign.arch.dram import effective_bandwidth
from codesign.arch.technology import apply_technology
from codesign.arch.technology_files import load_technology
from codesign.core.errors import UserError, unknown_name
from codesign.core.files import read_structured
from codesign.mapping.mapping import Axis
from codesign.tensorization.intrinsic_core import Core, Dma, Overheads
from codesign.tensorization.intrinsics import Intrinsic, intrinsic
from spaces.design import DesignSpace
from spaces.levels import dram_level, scratchpad_level
from spaces.parameters import AbstractParameter, Categorical, Integer, Ordinal, PowerOfTwo, Value
from spaces.scratchpad import BURST_OVERHEAD_CYCLES, LOCAL_WORD_BITS, SCRATCHPAD_WORD_BITS, add_dma
from spaces.space import Space

FILTER = 3
"""Rows and columns of the filter that a convolution core applies in one call, if nothing else is said (HASCO's release)."""

LINK_CHOICES = tuple(links.value for links in (Links.SYSTOLIC, Links.MULTICAST, Links.NONE))


class Kind(Enum):
    """The intrinsic a core performs."""

    GEMM = "gemm"
    GEMV = "gemv"
    DOT = "dot"
    CONV2D = "conv2d"


@dataclass(frozen=True)
class Unit:
    """The array of a core.

    Args:
        intrinsic: What one call computes.
        unrolled: (index, PEs, axis of the array).
        stationary: Operand kept in the local memories.
        role: What it is to a workload whose weights and inputs stand as in the intrinsic.
    """

    intrinsic: Intrinsic
    unrolled: tuple[tuple[str, int, Axis], ...]
    stationary: str
    role: str


@lru_cache(maxsize=256)  # designs by the thousand share a few arrays
def make_unit(kind: Kind, rows: int, cols: int, dataflow: str, pixels: int, taps: int = FILTER) -> Unit:
    """The array of a core of that kind: sizes of the intrinsic follow the array."""
    if kind is Kind.GEMM:
        if dataflow == "output-stationary":  # a call streams as many steps of the sum as the array has rows
            unit = intrinsic("gemm", {"i": rows, "j": cols, "k": rows})
            return Unit(unit, (("i", rows, "y"), ("j", cols, "x")), "L", "output")
        unit = intrinsic("gemm", {"i": rows, "j": cols, "k": rows})
        return Unit(unit, (("k", rows, "y"), ("j", cols, "x")), "N", "weight")
    if kind is Kind.GEMV:
        unit = intrinsic("gemv", {"i": cols, "j": rows})
        return Unit(unit, (("j", rows, "y"), ("i", cols, "x")), "C", "output")
    if kind is Kind.DOT:
        return Unit(intrinsic("dot", {"i": rows * cols}), (("i", rows, "y"), ("i", cols, "x")), "S", "output")
    sizes = {"k": cols, "c": rows, "x": pixels, "y": pixels, "r": taps, "s": taps}
    return Unit(intrinsic("conv2d", sizes), (("c", rows, "y"), ("k", cols, "x")), "B", "weight")


def array_latency(links: Links, rows: int, cols: int) -> int:
    """Cycles from the first operand to the last result: a hand-over a PE, or a tree of adders under a bus."""
    if links is Links.SYSTOLIC:
        return rows + cols - 2
    return math.ceil(math.log2(rows * cols)) if links is Links.MULTICAST else 0


@dataclass(frozen=True)
class CoreBuilder:
    """Makes the core of one design.

    Args:
        kind: Its intrinsic.
        technology: Name of the table that gives energies and areas.
        clock_hz: Cycles per second.
        bits: Width of an operand.
        pixels: Rows, and columns, of the output part that one call of a convolution core computes; a space may have a parameter of that name.
        taps: Rows, and columns, of the filter in one call of a convolution core; a space may have a parameter of that name.
        overheads: Of calls and of the host; the array's latency is set from its shape.
    """

    kind: Kind
    technology: str = "cmos-22nm"
    clock_hz: float = 1e9
    bits: int = 8
    pixels: int = 16
    taps: int = FILTER
    overheads: Overheads = field(default_factory=Overheads)

    def __call__(self, point: Mapping[str, Value]) -> Architecture:
        """The architecture of a design."""
        return self.core(point).architecture

    def core(self, point: Mapping[str, Value]) -> Core:
        """The architecture of a design with its intrinsic, DMA engine and overheads."""
        table = load_technology(self.technology)
        rows, cols = int(point.get("pe", 0) or point["pe_rows"]), int(point.get("pe", 0) or point["pe_cols"])
        links = Links(point["links"])
        pixels, taps = int(point.get("pixels", self.pixels)), int(point.get("taps", self.taps))
        unit = make_unit(self.kind, rows, cols, str(point.get("dataflow", "")), pixels, taps)
        bus_bytes, burst_bytes = int(point["bus_bits"]) // 8, int(point["burst_bytes"])
        words = effective_bandwidth(bus_bytes, burst_bytes // bus_bytes, BURST_OVERHEAD_CYCLES) * 8 / self.bits  # H6
        levels = (
            dram_level(self.bits, words),
            scratchpad_level(
                int(point["scratchpad_kib"]), int(point["banks"]), SCRATCHPAD_WORD_BITS, Fanout(cols, rows, links)
            ),
            StorageLevel(
                "Local",
                capacity_bytes=float(int(point["local_bytes"])),
                word_bits=LOCAL_WORD_BITS,
                keep=frozenset({unit.role}),
            ),
        )
        plain = Architecture(f"{self.kind.value}-core", levels, Arithmetic(bits=self.bits), self.clock_hz)
        filled = add_dma(
            apply_technology(plain, table, dram_burst_bytes=burst_bytes), table, 8 * bus_bytes, burst_bytes
        )
        return Core(
            architecture=filled,
            intrinsic=unit.intrinsic,
            unrolled=unit.unrolled,
            stationary=unit.stationary,
            dma=Dma(bus_bytes, burst_bytes, BURST_OVERHEAD_CYCLES, table.dram_type()),
            overheads=replace(self.overheads, array=array_latency(links, rows, cols)),
        )


def core_of(space: DesignSpace, point: Mapping[str, Value]) -> Core:
    """The core of a design of one of this module's spaces.

    Raises:
        UserError: The space is of another kind, or the design is not of it.
    """
    if not isinstance(space.builder, CoreBuilder):
        raise UserError(f"space {space.name!r} has no intrinsic", hint=f"core spaces are {', '.join(CORE_SPACES)}")
    return space.builder.core(space.space.to_points(space.space.to_indices([point]))[0])


def _core_space(
    name: str, kind: Kind, array: Sequence[AbstractParameter], times: int, dataflows: Sequence[str] = ()
) -> DesignSpace:
    """The space of one kind of core.

    Args:
        name: What the command line calls it.
        kind: Its intrinsic.
        array: Parameters of the array's shape; the preset is 16 wherever.
        times: How many times what small cores have its memories, bus and bursts are at most.
        dataflows: What the array may keep, where that can be chosen.
    """
    preset: dict[str, Value] = dict.fromkeys((p.name for p in array), 16)
    preset |= {"links": "systolic", "scratchpad_kib": 256, "local_bytes": 64, "banks": 4}
    preset |= {"bus_bits": 128, "burst_bytes": 128}
    parameters: list[AbstractParameter] = [
        *array,
        Categorical("links", LINK_CHOICES),
        PowerOfTwo("scratchpad_kib", 128, 512 * times),
        PowerOfTwo("local_bytes", 64, 256 * times),
        Integer("banks", 1, 8),
        PowerOfTwo("bus_bits", 64, 128 * times),
        PowerOfTwo("burst_bytes", 64, 128 * times),
    ]
    if dataflows:
        parameters.append(Categorical("dataflow", dataflows))
        preset["dataflow"] = dataflows[0]
    return DesignSpace(name, Space(parameters, presets=[preset]), CoreBuilder(kind), partial_bits=32)


_SQUARE = (PowerOfTwo("pe", 8, 32),)
_ANY_SHAPE = (Integer("pe_rows", 4, 32), Integer("pe_cols", 4, 32))

GEMM_CORE = _core_space("gemmcore", Kind.GEMM, _SQUARE, 1, ["weight-stationary", "output-stationary"])
"""A matrix unit; a call multiplies blocks as large as the array."""

GEMV_CORE = _core_space("gemvcore", Kind.GEMV, _SQUARE, 1)
"""A matrix-vector unit, sums kept in the array."""

DOT_CORE = _core_space("dotcore", Kind.DOT, _ANY_SHAPE, 2)
"""A dot-product unit as long as the array has PEs."""

CONV_CORE = _core_space("convcore", Kind.CONV2D, _ANY_SHAPE, 2)
"""A convolution unit: input channels along y, output channels along x, 3 x 3 weights in each local memory."""

CORE_SPACES: dict[str, DesignSpace] = {s.name: s for s in (GEMM_CORE, GEMV_CORE, DOT_CORE, CONV_CORE)}


def restrict(space: DesignSpace, parameter: str, values: Sequence[Value]) -> DesignSpace:
    """The space with one parameter confined to some of its values; presets outside are dropped.

    Raises:
        UserError: No such parameter, a value outside its domain, or nothing left.
    """
    known = {p.name: p for p in space.space.parameters}
    where = f"space {space.name!r}"
    if parameter not in known:
        raise unknown_name("parameter", parameter, known, where=where)
    if not values:
        raise UserError(f"no value is left for {parameter!r}: the space is empty", where=where)
    old = known[parameter]
    kept = [old.choices[k] for k in sorted({old.index(v) for v in values})]
    new: AbstractParameter = (
        Ordinal(parameter, kept, when=old.when) if old.ordered else Categorical(parameter, kept, when=old.when)
    )
    presets = [p for p in space.space.presets if p.get(parameter, kept[0]) in kept]
    parameters = [new if p.name == parameter else p for p in space.space.parameters]
    return replace(space, space=Space(parameters, space.space.constraints, presets))


def reshape_array(space: DesignSpace, rows: int, cols: int) -> DesignSpace:
    """`reshapeArray`: an array of rows x cols PEs, and with it the size of the intrinsic."""
    if "pe" in space.space.names:
        if rows != cols:
            raise UserError(f"space {space.name!r} has square arrays, got {rows}x{cols}")
        return restrict(space, "pe", [rows])
    return restrict(restrict(space, "pe_rows", [rows]), "pe_cols", [cols])


def link_pes(space: DesignSpace, *links: str) -> DesignSpace:
    """`linkPEs`: none, systolic, or multicast (a bus that every PE hears)."""
    return restrict(space, "links", links)


def add_cache(space: DesignSpace, *kib: int) -> DesignSpace:
    """`addCache`: a scratchpad of one of these sizes in KiB."""
    return restrict(space, "scratchpad_kib", kib)


def partition_banks(space: DesignSpace, *banks: int) -> DesignSpace:
    """`partitionBanks`: one of these numbers of banks."""
    return restrict(space, "banks", banks)


def distribute_cache(space: DesignSpace, *local_bytes: int) -> DesignSpace:
    """`distributeCache`: a local memory of one of these sizes in each PE."""
    return restrict(space, "local_bytes", local_bytes)


def burst_transfer(space: DesignSpace, bus_bits: Sequence[int] = (), burst_bytes: Sequence[int] = ()) -> DesignSpace:
    """`burstTransfer`: these widths of the bus and lengths of a burst; an empty sequence leaves one open."""
    found = restrict(space, "bus_bits", list(bus_bits)) if bus_bits else space
    return restrict(found, "burst_bytes", list(burst_bytes)) if burst_bytes else found


_PRIMITIVES: dict[str, Any] = {
    "reshapeArray": reshape_array,
    "linkPEs": link_pes,
    "addCache": add_cache,
    "partitionBanks": partition_banks,
    "distributeCache": distribute_cache,
}


def core_space_from_json(value: Any, where: str) -> DesignSpace:
    """A pruned space from plain values: ``core``, and primitives by the paper's names with their arguments.

    >>> core_space_from_json({"core": "gemmcore", "reshapeArray": [16, 16], "addCache": 256}, "here").space.cardinality_bound
    576

    Raises:
        UserError: Unknown core or primitive, or values outside the space.
    """
    if not isinstance(value, Mapping) or "core" not in value:
        raise UserError("expected `core` and primitives such as `addCache: 256`", where=where)
    if value["core"] not in CORE_SPACES:
        raise unknown_name("core", str(value["core"]), CORE_SPACES, where=where)
    space = CORE_SPACES[value["core"]]
    try:
        for name, given in value.items():
            if name == "core":
                continue
            if name == "burstTransfer":
                space = _burst_from_json(space, given)
            elif name not in _PRIMITIVES:
                raise unknown_name("primitive", str(name), [*_PRIMITIVES, "burstTransfer"])
            else:
                arguments = given if isinstance(given, list) else [given]
                if name == "reshapeArray" and len(arguments) != 2:
                    raise UserError(f"`reshapeArray` takes rows and columns, got {given!r}")
                space = _PRIMITIVES[name](space, *arguments)
    except UserError as error:
        raise error.within(where) from None
    return space


def _burst_from_json(space: DesignSpace, given: Any) -> DesignSpace:
    if not isinstance(given, Mapping) or set(given) - {"bus_bits", "burst_bytes"} or not given:
        raise UserError(f"`burstTransfer` takes `bus_bits` and `burst_bytes`, got {given!r}")
    lists = {k: v if isinstance(v, list) else [v] for k, v in given.items()}
    return burst_transfer(space, lists.get("bus_bits", ()), lists.get("burst_bytes", ()))


def read_core_space(path: str | Path) -> DesignSpace:
    """The pruned space of a YAML or JSON file, see `core_space_from_json`."""
    return core_space_from_json(read_structured(path), str(path))
