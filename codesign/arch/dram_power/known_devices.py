"""The DRAM devices with currents that come with the project, and devices in files of a user's own."""

from functools import cache
from pathlib import Path
from typing import Any

from codesign.arch.dram_power.power_device import CommandTimes, PowerDevice, Standard, Supply, parse_standard
from codesign.core.errors import unknown_name
from codesign.core.fields import Fields
from codesign.core.files import read_structured

_TABLE = Path(__file__).parent / "devices.yaml"


def read_power_devices(path: str | Path) -> dict[str, PowerDevice]:
    """The devices of a YAML or JSON file with `devices:` at its top, by name.

    Raises:
        UserError: A field is missing, unknown or wrong, or the currents of a device contradict each other.
    """
    fields = Fields(read_structured(path), str(path))
    entries = fields.items("devices")
    fields.finish()
    found = [_device(entry, f"{path}: device {index + 1}") for index, entry in enumerate(entries)]
    return {device.name: device for device in found}


@cache
def power_devices() -> dict[str, PowerDevice]:
    """The devices of the project."""
    return read_power_devices(_TABLE)


def power_device(name: str) -> PowerDevice:
    """A device of the project by name.

    Raises:
        UserError: There is none.
    """
    devices = power_devices()
    if name not in devices:
        raise unknown_name("DRAM device", name, devices)
    return devices[name]


def _device(entry: Any, where: str) -> PowerDevice:
    fields = Fields(entry, where)
    name = fields.text("name")
    standard = parse_standard(fields.text("standard"), where)
    geometry = Fields(fields.raw("geometry"), f"{where}, `geometry`")
    banks, groups = geometry.integer("banks", least=1), geometry.integer("bank_groups", 1, least=1)
    supplies = [_supply(item, f"{where}, supply {i + 1}") for i, item in enumerate(fields.items("supplies"))]
    device = PowerDevice(
        name=name,
        standard=standard,
        supplies=tuple(supplies),
        times=_times(fields, where),
        banks=banks,
        bank_groups=groups,
        banks_per_group=max(1, banks // groups),
        burst_length=geometry.integer("burst_length", least=1),
        data_rate=geometry.integer("data_rate", 2, least=1),
        width_bits=geometry.integer("width_bits", least=1),
        row_bytes=geometry.integer("row_bytes", least=1),
        rho=geometry.number("rho", 1.0, least=0),
        ranks=geometry.integer("ranks", 1, least=1),
        devices=geometry.integer("devices", 1, least=1),
        grouped=standard is Standard.LPDDR6 or groups > 1,
        pair_offset=geometry.integer("pair_offset", banks // 2, least=0),
        io_pj_per_bit=fields.number("io_pj_per_bit", 0.0, least=0),
        source=fields.text("source"),
    )
    geometry.finish()
    fields.finish()
    return device.checked()


def _supply(entry: Any, where: str) -> Supply:
    item = Fields(entry, where)
    volt = item.number("volt", above=0)
    needed = {name: 1e-3 * item.number(name, least=0) for name in ("i0", "i2n", "i3n", "i4r", "i4w", "i5")}
    others = ("i6", "i2p", "i3p", "i5_bank", "i5_same", "i6_deep")
    optional = {name: 1e-3 * item.number(name, 0.0, least=0) for name in others}
    beta = item.number("i_beta", None, least=0)
    item.finish()
    return Supply(volt=volt, **needed, **optional, i_beta=None if beta is None else 1e-3 * beta)


def _times(fields: Fields, where: str) -> CommandTimes:
    item = Fields(fields.raw("times"), f"{where}, `times`")
    rcd = item.integer("rcd", least=1)
    data_ns = fields.number("data_clock_ns", None, above=0)
    times = CommandTimes(
        clock_s=1e-9 * fields.number("clock_ns", above=0),
        ras=item.integer("ras", least=1),
        rp=item.integer("rp", least=1),
        rcd_read=rcd,
        rcd_write=item.integer("rcd_write", rcd, least=1),
        rfc=item.integer("rfc", least=1),
        refi=item.integer("refi", 0, least=0),
        rfc_bank=item.integer("rfc_bank", 0, least=0),
        rfc_same=item.integer("rfc_same", 0, least=0),
        read_to_close=item.integer("read_to_close", 0, least=0),
        write_to_close=item.integer("write_to_close", 0, least=0),
        data_clock_s=None if data_ns is None else 1e-9 * data_ns,
    )
    item.finish()
    return times
