"""The SoMa accelerator template as a hardware space: buffer size, DRAM bandwidth, array side.

The PE is the published edge or cloud one. Latency and energy of a design come from the whole-network scheduler with the
template's own constants; area and leakage from the technology table, as for every other space.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

from codesign.arch.architecture import Architecture, Arithmetic, Fanout, StorageLevel
from codesign.arch.technology import apply_technology
from codesign.arch.technology_files import load_technology
from codesign.scheduling.soma.model.hardware import CLOUD, EDGE, MIB, SomaHardware
from spaces.levels import dram_level
from spaces.parameters import PowerOfTwo, Value
from spaces.space import Space

_WORD_BITS = 64
_LOCAL_WORD_BITS = 32


@final
@dataclass(frozen=True)
class SomaSpace:
    """A space of SoMa templates.

    Args:
        name: What the command line calls it.
        space: Parameters `gbuf_mib`, `dram_bytes_per_cycle`, `pe_dim`.
        base: The template whose PE and constants every design shares.
        technology: Table that gives areas and leakage.
        bits: Width of an operand.
        partial_bits: Width of a partial sum.
    """

    name: str
    space: Space
    base: SomaHardware
    technology: str = "cmos-22nm"
    bits: int = 8
    partial_bits: int = 24

    def _point(self, point: Mapping[str, Value]) -> Mapping[str, Value]:
        return self.space.to_points(self.space.to_indices([point]))[0]

    def hardware(self, point: Mapping[str, Value]) -> SomaHardware:
        """The template of a design, as the scheduler takes it."""
        chosen = self._point(point)
        sized = self.base.with_buffer(int(chosen["gbuf_mib"]) * MIB)
        bandwidth, side = int(chosen["dram_bytes_per_cycle"]), int(chosen["pe_dim"])
        return replace(sized, dram_bytes_per_cycle=bandwidth, pe_dim=side)

    def build(self, point: Mapping[str, Value]) -> Architecture:
        """The storage hierarchy of a design with areas and leakage."""
        hardware = self.hardware(point)
        bandwidth = hardware.dram_bytes_per_cycle * 8 / self.bits
        local = hardware.al1.capacity_bytes + hardware.wl1.capacity_bytes + hardware.ol1.capacity_bytes
        levels = (
            dram_level(self.bits, bandwidth),
            StorageLevel(
                "GBUF",
                capacity_bytes=float(hardware.gbuf.capacity_bytes),
                word_bits=_WORD_BITS,
                banks=32,
                read_bandwidth_words_per_cycle=hardware.gbuf_bytes_per_cycle * 8 / _WORD_BITS,
                fanout=Fanout(hardware.pe_dim, hardware.pe_dim),
            ),
            StorageLevel(
                "PE",
                capacity_bytes=float(local),
                word_bits=_LOCAL_WORD_BITS,
                fanout=Fanout(hardware.vector_lanes, hardware.kernel_lanes),
            ),
        )
        plain = Architecture(self.name, levels, Arithmetic(bits=self.bits), 1e9)
        return apply_technology(plain, load_technology(self.technology), dram_burst_bytes=64)

    def to_json(self) -> dict[str, Any]:
        """What a study records of it."""
        return {"name": self.name, "space": self.space.to_json(), "template": self.base.name}


def _space(name: str, base: SomaHardware, bandwidth: tuple[int, int]) -> SomaSpace:
    space = Space(
        [PowerOfTwo("gbuf_mib", 1, 64), PowerOfTwo("dram_bytes_per_cycle", *bandwidth), PowerOfTwo("pe_dim", 2, 8)],
        presets=[
            {
                "gbuf_mib": base.gbuf.capacity_bytes // MIB,
                "dram_bytes_per_cycle": base.dram_bytes_per_cycle,
                "pe_dim": base.pe_dim,
            }
        ],
    )
    return SomaSpace(name, space, base)


SOMA_EDGE = _space("soma-edge", EDGE, (4, 128))
SOMA_CLOUD = _space("soma-cloud", CLOUD, (16, 512))
