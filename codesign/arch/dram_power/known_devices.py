"""The DRAM devices with currents that come with the project, and devices in files of a user's own."""

from functools import cache
from pathlib import Path
from typing import Any

from codesign.arch.dram_power.power_device import CommandTimes, PowerDevice, Standard, Supply
from codesign.core.errors import member_of, unknown_name
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
    standard = member_of(Standard, fields.text("standard"), "DRAM standard", where)
    geometry = Fields(fields.raw("geometry"), f"{where}, `geometry`")
    banks, groups = geometry.integer("banks", least=1), geometry.integer("bank_groups", 1, least=1)
    supplies = [_supply(item, f"{where}, supply {i + 1}") for i, item in enumerate(fields.items("supplies"))]
    device = geometry.record(
        PowerDevice,
        0,
        name=name,
        standard=standard,
        supplies=tuple(supplies),
        times=_times(fields, where),
        banks=banks,
        bank_groups=groups,
        banks_per_group=max(1, banks // groups),
        data_rate=geometry.integer("data_rate", 2, least=1),
        row_bytes=geometry.integer("row_bytes", least=1),
        grouped=standard is Standard.LPDDR6 or groups > 1,
        pair_offset=geometry.integer("pair_offset", banks // 2, least=0),
        io_pj_per_bit=fields.number("io_pj_per_bit", 0.0, least=0),
        source=fields.text("source"),
    )
    fields.finish()
    return device.checked()


def _supply(entry: Any, where: str) -> Supply:
    """The currents of a supply, which files state in mA."""
    stated = vars(Fields(entry, where).record(Supply, 0))
    return Supply(**{name: x if name == "volt" or x is None else 1e-3 * x for name, x in stated.items()})


def _times(fields: Fields, where: str) -> CommandTimes:
    item = Fields(fields.raw("times"), f"{where}, `times`")
    rcd = item.integer("rcd", least=1)
    data_ns = fields.number("data_clock_ns", None, above=0)
    return item.record(
        CommandTimes,
        0,
        clock_s=1e-9 * fields.number("clock_ns", above=0),
        rcd_read=rcd,
        rcd_write=item.integer("rcd_write", rcd, least=1),
        data_clock_s=None if data_ns is None else 1e-9 * data_ns,
    )
