"""The accelerator template of SoMa (paper Fig. 1) as one value, with its edge and cloud presets.

One core group: a ``pe_rows x pe_cols`` array of PEs, each with `vector_lanes` (input channels) times `kernel_lanes` (output channels)
multipliers and private buffers for activations (AL1), weights (WL1) and partial sums (OL1); a vector unit; one global
buffer (GBUF); a DRAM channel. Times are cycles of a 1 GHz clock, one element is one byte.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from codesign.core.checks import check_least
from codesign.core.errors import UserError, unknown_name
from codesign.core.files import read_structured

MIB = 1 << 20

# Columns of the integer and the real vector the compiled code reads.
VEC, LANE, PE_DIM, AL1_BYTES, WL1_BYTES, OL1_BYTES, GBUF_BW, VECTOR_UNIT, DRAM_BW, N_INTS = range(10)
(
    E_MAC, E_VECTOR, E_BUS, E_DRAM, E_AL1_R, E_AL1_W, E_WL1_R, E_WL1_W, E_OL1_R, E_OL1_W, E_OL2_R, E_OL2_W, E_GBUF_R, E_GBUF_W,
    N_REALS,
) = range(15)  # fmt: skip


@dataclass(frozen=True)
class Memory:
    """Size and energy of one on-chip memory."""

    capacity_bytes: int
    read_pj_per_byte: float
    write_pj_per_byte: float

    def __post_init__(self) -> None:
        check_least(1, capacity_bytes=self.capacity_bytes)
        check_least(0, read_pj_per_byte=self.read_pj_per_byte, write_pj_per_byte=self.write_pj_per_byte)


@dataclass(frozen=True)
class SomaHardware:
    """The template's parameters.

    Args:
        name: For messages.
        vector_lanes: Input channels a PE reduces per cycle.
        kernel_lanes: Output channels a PE computes per cycle.
        pe_dim: PEs along each side of the array.
        mac_pj: Energy of one multiply-accumulate.
        vector_op_pj: Energy of one operation of the vector unit.
        bus_pj_per_byte: Energy per byte and hop between PEs.
        dram_pj_per_byte: Energy per byte to or from DRAM.
        dram_bytes_per_cycle: DRAM bandwidth.
        gbuf_bytes_per_cycle: Read bandwidth of the global buffer.
        al1: Activation buffer of a PE.
        wl1: Weight buffer of a PE.
        ol1: Partial-sum buffer of a PE.
        ol2: Output staging buffer.
        gbuf: Global buffer.
    """

    name: str
    vector_lanes: int
    kernel_lanes: int
    pe_dim: int
    mac_pj: float
    vector_op_pj: float
    bus_pj_per_byte: float
    dram_pj_per_byte: float
    dram_bytes_per_cycle: int
    gbuf_bytes_per_cycle: int
    al1: Memory
    wl1: Memory
    ol1: Memory
    ol2: Memory
    gbuf: Memory

    def __post_init__(self) -> None:
        for field in ("vector_lanes", "kernel_lanes", "pe_dim", "dram_bytes_per_cycle", "gbuf_bytes_per_cycle"):
            value = getattr(self, field)
            if not isinstance(value, int) or value < 1:
                raise UserError(
                    f"`{field}` must be an integer >= 1, got {value!r}", where=f"architecture {self.name!r}"
                )

    @property
    def macs(self) -> int:
        """Multipliers of the whole array."""
        return self.vector_lanes * self.kernel_lanes * self.pe_dim**2

    @property
    def vector_unit_lanes(self) -> int:
        """Operations the vector unit finishes per cycle."""
        return self.macs // 16

    def integers(self) -> npt.NDArray[np.int64]:
        """The integer parameters in the order of the column constants above."""
        values = [
            self.vector_lanes,
            self.kernel_lanes,
            self.pe_dim,
            self.al1.capacity_bytes,
            self.wl1.capacity_bytes,
            self.ol1.capacity_bytes,
            self.gbuf_bytes_per_cycle,
            self.vector_unit_lanes,
            self.dram_bytes_per_cycle,
        ]
        return np.array(values, dtype=np.int64)

    def reals(self) -> npt.NDArray[np.float64]:
        """The energies in the order of the column constants above."""
        values = [self.mac_pj, self.vector_op_pj, self.bus_pj_per_byte, self.dram_pj_per_byte]
        for memory in (self.al1, self.wl1, self.ol1, self.ol2, self.gbuf):
            values += [memory.read_pj_per_byte, memory.write_pj_per_byte]
        return np.array(values, dtype=np.float64)

    def with_buffer(self, capacity_bytes: int) -> "SomaHardware":
        """The same template with another global buffer.

        Energy per byte of GBUF and OL2 grows by 10 % per whole 2 MiB of buffer, the published template's rule.
        """
        scale = 1.1 ** (capacity_bytes // (2 * MIB) - self.gbuf.capacity_bytes // (2 * MIB))
        return replace(
            self,
            gbuf=_scaled(self.gbuf, scale, capacity_bytes),
            ol2=_scaled(self.ol2, scale, self.ol2.capacity_bytes),
        )


def _scaled(memory: Memory, scale: float, capacity_bytes: int) -> Memory:
    return Memory(capacity_bytes, memory.read_pj_per_byte * scale, memory.write_pj_per_byte * scale)


# Measured constants of the published template (constants.json of the reference data): energies from its SRAM table.
EDGE = SomaHardware(
    "soma-edge", 16, 32, 4, 0.018, 0.0873, 0.018, 84.0, 16, 256,
    Memory(16384, 2.24871, 0.32084999999999997), Memory(32768, 0.51204, 0.50589),
    Memory(8192, 0.284592, 0.37171200000000004), Memory(229376, 0.5374857510000002, 0.6956524740000002),
    Memory(8 * MIB, 1.5258850200000005, 1.6446528120000004),
)  # fmt: skip
CLOUD = SomaHardware(
    "soma-cloud", 64, 64, 4, 0.018, 0.0873, 0.018, 84.0, 128, 512,
    Memory(65536, 4.22145855, 0.3725106), Memory(262144, 0.38145855000000006, 0.3725106),
    Memory(16384, 0.3443563200000001, 0.44977152000000015), Memory(1835008, 1.6868605330215998, 2.1832554647377704),
    Memory(32 * MIB, 4.788880846381496, 5.161625055034795),
)  # fmt: skip
PRESETS = {EDGE.name: EDGE, CLOUD.name: CLOUD}


def _memory(raw: Mapping[str, Any], key: str, where: str) -> Memory:
    entry = raw.get(key)
    if not isinstance(entry, Mapping):
        raise UserError(f"`{key}` must be an object with size_bytes, read_pJ_per_byte, write_pJ_per_byte", where=where)
    try:
        return Memory(int(entry["size_bytes"]), float(entry["read_pJ_per_byte"]), float(entry["write_pJ_per_byte"]))
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"`{key}` is incomplete: {error}", where=where) from None


def hardware_from_constants(raw: Mapping[str, Any], name: str) -> SomaHardware:
    """The template with the constants of a reference file (`constants` objects and constants.json).

    Raises:
        UserError: A constant is missing or not a number.
    """
    try:
        array = raw["pe_array"]
        if array[0] != array[1]:
            raise UserError(f"`pe_array` must be square, got {array}", where=name)
        return SomaHardware(
            name=name,
            vector_lanes=int(raw["vector_len_C"]),
            kernel_lanes=int(raw["lane_len_K"]),
            pe_dim=int(array[0]),
            mac_pj=float(raw["mac_energy_pJ"]),
            vector_op_pj=float(raw["vector_op_energy_pJ"]),
            bus_pj_per_byte=float(raw["bus_hop_energy_pJ_per_byte"]),
            dram_pj_per_byte=float(raw["dram_energy_pJ_per_byte"]),
            dram_bytes_per_cycle=int(raw["dram_bw_bytes_per_cycle"]),
            gbuf_bytes_per_cycle=int(raw["gbuf_read_bw_bytes_per_cycle"]),
            al1=_memory(raw, "al1_per_pe", name),
            wl1=_memory(raw, "wl1_per_pe", name),
            ol1=_memory(raw, "ol1_per_pe", name),
            ol2=_memory(raw, "ol2", name),
            gbuf=_memory(raw, "ul3_gbuf", name),
        )
    except KeyError as error:
        raise UserError(f"constant {error} is missing", where=name) from None
    except (TypeError, ValueError, IndexError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"constants are malformed: {error}", where=name) from None


def read_hardware(name: str) -> SomaHardware:
    """A preset by name, or the template in a JSON/YAML file of constants."""
    if name in PRESETS:
        return PRESETS[name]
    if not Path(name).suffix:
        raise unknown_name("architecture", name, PRESETS)
    raw = read_structured(name)
    if not isinstance(raw, Mapping):
        raise UserError("expected an object of constants", where=name)
    return hardware_from_constants(raw.get("constants", raw), Path(name).name)
