"""DRAM devices from memory specifications in the form DRAMPower 5 and DRAMSys read (JSON: `memarchitecturespec`, `mempowerspec` ...)."""

from dataclasses import dataclass
from typing import Any

from codesign.arch.dram_power.power_device import CommandTimes, PowerDevice, Standard, Supply
from codesign.core.errors import UserError
from codesign.core.fields import Fields


@dataclass(frozen=True)
class _Names:
    """How a standard's specification names its currents.

    Args:
        supplies: Pairs (name of the voltage, pattern of a current: ``idd{}1`` with `0`, `2n` ... in place of the braces).
        refresh: Refresh of all banks, by `RefMode`: what stands in the braces, and the name of its time.
        sleep: Self-refresh.
        bank: Refresh of a bank (LPDDR6: of two); none where the standard has none.
        bank_time: Its time.
        closing: Precharge to activate.
    """

    supplies: tuple[tuple[str, str], ...]
    refresh: tuple[tuple[str, str], ...]
    sleep: str
    bank: str = ""
    bank_time: str = ""
    closing: str = "RP"


_NAMES = {
    Standard.DDR4: _Names(
        (("vdd", "idd{}"), ("vpp", "ipp{}")), (("5B", "RFC1"), ("5F2", "RFC2"), ("5F4", "RFC4")), "6n"
    ),
    Standard.DDR5: _Names((("vdd", "idd{}"), ("vpp", "ipp{}")), (("5b", "RFC1"), ("5f", "RFC2")), "6n"),
    Standard.LPDDR4: _Names(
        (("vdd1", "idd{}1"), ("vdd2", "idd{}2")), (("5", "RFCab"),), "6", "5pb", "RFCpb", closing="RPpb"
    ),
    Standard.LPDDR5: _Names(
        (("vdd1", "idd{}1"), ("vdd2h", "idd{}2h"), ("vdd2l", "idd{}2l")),
        (("5", "RFCab"),),
        "6",
        "5pb",
        "RFCpb",
        closing="RPpb",
    ),
    Standard.LPDDR6: _Names(
        (("vdd1", "idd{}1"), ("vdd2c", "idd{}2c"), ("vdd2d", "idd{}2d")),
        (("5", "RFCab"),),
        "6",
        "5pdb",
        "RFCdb",
        closing="RPpb",
    ),
    Standard.HBM2: _Names((("vdd", "idd{}"), ("vpp", "ipp{}")), (("5b", "RFC"),), "6n", "5bpb", "RFCSB"),
}


def device_from_specification(value: Any, standard: Standard, name: str, where: str) -> PowerDevice:
    """A device whose specification stands in a JSON object; times in cycles, currents in ampere.

    Raises:
        UserError: A field is missing or wrong, or the currents contradict each other.
    """
    file = Fields(value, where)
    geometry = Fields(file.raw("memarchitecturespec"), f"{where}, `memarchitecturespec`")
    power = Fields(file.raw("mempowerspec"), f"{where}, `mempowerspec`")
    timing = Fields(file.raw("memtimingspec"), f"{where}, `memtimingspec`")
    bankwise = Fields(file.raw("bankwisespec", {}), f"{where}, `bankwisespec`")
    names = _NAMES[standard]
    mode = geometry.integer("RefMode", 1, least=1)
    modes = (1, 2, 4)[: len(names.refresh)]
    if mode not in modes:
        raise UserError(f"`RefMode` must be one of {', '.join(map(str, modes))}, got {mode}", where=geometry.where)
    current, time = names.refresh[modes.index(mode)]
    banks, groups = geometry.integer("nbrOfBanks", least=1), geometry.integer("nbrOfBankGroups", 1, least=1)
    burst, rate = geometry.integer("burstLength", least=1), geometry.integer("dataRate", 2, least=1)
    width = geometry.integer("width", least=1)
    device = PowerDevice(
        name=name,
        standard=standard,
        supplies=tuple(_supply(power, volt, pattern, names, current) for volt, pattern in names.supplies),
        times=_times(timing, standard, names, time, (burst, rate)),
        banks=banks,
        bank_groups=groups,
        banks_per_group=max(1, banks // groups),
        burst_length=burst,
        data_rate=rate,
        width_bits=width,
        row_bytes=max(1, geometry.integer("nbrOfColumns", 1024, least=1) * width // 8),
        rho=bankwise.number("factRho", 1.0, least=0),
        ranks=geometry.integer("nbrOfRanks", geometry.integer("nbrOfPseudoChannels", 1, least=1), least=1),
        devices=geometry.integer("nbrOfDevices", 1, least=1),
        grouped=standard is Standard.LPDDR6 or groups > 1,
        pair_offset=geometry.integer("per2BankOffset", 8, least=0),
        source=where,
    )
    return device.checked()


def _supply(power: Fields, volt: str, pattern: str, names: _Names, refresh: str) -> Supply:
    def ampere(state: str) -> float:
        return float(power.number(pattern.format(state)))

    def optional(state: str) -> float:
        return float(power.number(pattern.format(state), 0.0))

    return Supply(
        volt=power.number(volt, above=0),
        i0=ampere("0"),
        i2n=ampere("2n"),
        i3n=ampere("3n"),
        i4r=ampere("4r"),
        i4w=ampere("4w"),
        i5=ampere(refresh),
        i6=optional(names.sleep),
        i2p=optional("2p"),
        i3p=optional("3p"),
        i5_bank=optional(names.bank) if names.bank else 0.0,
        i5_same=optional("5c"),
        i6_deep=optional("6ds"),
        i_beta=power.number(f"iBeta_{volt}", None),
    )


def _times(timing: Fields, standard: Standard, names: _Names, refresh: str, burst: tuple[int, int]) -> CommandTimes:
    clock_s = timing.number("tCK", above=0)
    ratio = timing.integer("WCK2CK", 1, least=1)
    split_rcd = timing.has("RCD_r") or timing.has("RCDRD")
    read, write = ("RCD_r", "RCD_w") if standard is Standard.LPDDR6 else ("RCDRD", "RCDWR")
    read, write = (read, write) if split_rcd else ("RCD", "RCD")
    to_close = _auto_precharge(timing, standard, burst, ratio)
    return CommandTimes(
        clock_s=clock_s,
        ras=timing.integer("RAS", least=1),
        rp=timing.integer(names.closing, least=1),
        rcd_read=timing.integer(read, least=0),
        rcd_write=timing.integer(write, least=0),
        rfc=timing.integer(refresh, least=0),
        refi=timing.integer("REFI", timing.integer("REFI1", 0, least=0), least=0),
        rfc_bank=timing.integer(names.bank_time, 0, least=0) if names.bank_time else 0,
        rfc_same=timing.integer("RFCsb", 0, least=0),
        read_to_close=to_close[0],
        write_to_close=to_close[1],
        data_clock_s=clock_s / ratio if timing.has("WCK2CK") else None,
    )


def _auto_precharge(timing: Fields, standard: Standard, burst: tuple[int, int], ratio: int) -> tuple[int, int]:
    """Cycles from a read and from a write with auto-precharge to the precharge (P11)."""
    length, rate = burst
    written = timing.integer("WL", 0, least=0) + timing.integer("WR", 0, least=0)
    if standard is Standard.LPDDR4:
        read = timing.integer("RTP", 0, least=0) + (0 if length == 16 else 8)
        return read, written + length // 2 + 1
    if standard in (Standard.LPDDR5, Standard.LPDDR6):
        beats = length // (rate * ratio)
        return beats + timing.integer("RBTP", 0, least=0), written + beats + 1
    read = timing.integer("AL", 0, least=0) + timing.integer("RTP", 0, least=0)
    return read, written + length // rate
