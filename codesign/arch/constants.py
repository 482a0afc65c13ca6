"""Technology constants that vary: families of them that rise and fall together, and an architecture with some of them scaled."""

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, LevelKind, StorageLevel


class Constant(Enum):
    """A technology constant, or a family of them that rises and falls together."""

    DRAM = "dram"
    SRAM = "sram"
    REGISTERS = "registers"
    MAC = "mac"
    WIRES = "wires"
    LEAKAGE = "leakage"


_KIND = {Constant.DRAM: LevelKind.DRAM, Constant.SRAM: LevelKind.SRAM, Constant.REGISTERS: LevelKind.REGISTERS}


def scaled_architecture(architecture: Architecture, factors: Mapping[Constant, float]) -> Architecture:
    """The same hardware with some constants multiplied by a factor each."""
    levels = tuple(scaled_level(level, factors) for level in architecture.levels)
    extra = architecture.extra_leakage_mw * factors.get(Constant.LEAKAGE, 1.0)
    return replace(architecture, levels=levels, mac=scaled_mac(architecture.mac, factors), extra_leakage_mw=extra)


def scaled_mac(mac: Arithmetic, factors: Mapping[Constant, float]) -> Arithmetic:
    """The same arithmetic with some constants scaled."""
    arithmetic, leakage = factors.get(Constant.MAC, 1.0), factors.get(Constant.LEAKAGE, 1.0)
    if mac.energy_pj is not None:
        by_width = tuple((wide, narrow, energy * arithmetic) for wide, narrow, energy in mac.by_width)
        unpack = mac.unpack_pj * arithmetic
        mac = replace(mac, energy_pj=mac.energy_pj * arithmetic, by_width=by_width, unpack_pj=unpack)
    if mac.leakage_mw is not None:
        mac = replace(mac, leakage_mw=mac.leakage_mw * leakage)
    return mac


def scaled_level(level: StorageLevel, factors: Mapping[Constant, float]) -> StorageLevel:
    """The same level and its network to the next one with some constants scaled."""
    access = next((factors[c] for c, kind in _KIND.items() if kind is level.kind and c in factors), 1.0)
    energy = level.energy
    if energy is not None:
        energy = AccessEnergy(energy.read_pj * access, energy.fill_pj * access, energy.update_pj * access)
    leaked = None if level.leakage_mw is None else level.leakage_mw * factors.get(Constant.LEAKAGE, 1.0)
    return replace(level, energy=energy, fanout=scaled_fanout(level.fanout, factors), leakage_mw=leaked)


def scaled_fanout(fanout: Fanout, factors: Mapping[Constant, float]) -> Fanout:
    """The same network with its wires scaled."""
    return replace(fanout, hop_pj_per_bit=fanout.hop_pj_per_bit * factors.get(Constant.WIRES, 1.0))
