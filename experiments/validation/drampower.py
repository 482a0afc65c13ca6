"""DRAM energy by commands: the counts, cycles and energies that DRAMPower 5's own tests assert (a model, not silicon)."""

import json
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from codesign.arch.dram_power.power_device import PowerDevice, Standard
from codesign.core.errors import UserError, member_of
from experiments.models.dram_command_trace import (
    CommandReplay,
    Kind,
    TimedCommand,
    TraceStatistics,
    parse_kind,
)
from experiments.models.dram_specification import device_from_specification
from experiments.models.dram_trace_energy import BankEnergy, TraceEnergy, trace_energy
from experiments.validation.common import Comparison, Point, read_json
from experiments.validation.expressions import Number, evaluate

_Item = TypeVar("_Item")

_BANK_PARTS = {
    "E_act": "activate",
    "E_pre": "precharge",
    "E_RD": "read",
    "E_WR": "write",
    "E_RDA": "read_auto",
    "E_WRA": "write_auto",
    "E_pre_RDA": "close_read",
    "E_pre_WRA": "close_write",
    "E_ref_AB": "refresh_all",
    "E_ref_PB": "refresh_bank",
    "E_ref_SB": "refresh_same",
    "E_ref_2B": "refresh_two",
    "E_ref_DB": "refresh_dual",
    "E_bg_act": "background_open",
    "E_bg_pre": "background_closed",
}
_RANK_PARTS = {
    "E_bg_act_shared": "open_shared",
    "E_PDNA": "power_down_active",
    "E_PDNP": "power_down_closed",
    "E_sref": "self_refresh",
    "E_dsm": "deep_sleep",
}
_CYCLES = {
    "act": "active",
    "activeTime()": "active",
    "pre": "closed",
    "powerDownAct": "power_down_active",
    "powerDownPre": "power_down_closed",
    "selfRefresh": "self_refresh",
    "deepSleepMode": "deep_sleep",
}
_GEOMETRY = {
    "numberOfBanks": "banks",
    "numberOfBankGroups": "bank_groups",
    "banksPerGroup": "banks_per_group",
    "numberOfRanks": "ranks",
    "numberOfDevices": "devices",
    "burstLength": "burst_length",
    "dataRate": "data_rate",
    "bitWidth": "width_bits",
    "perTwoBankOffset": "pair_offset",
    "bwParams.bwPowerFactRho": "rho",
}
_TIMES = {
    "memTimingSpec.tCK": "clock_s",
    "memTimingSpec.tWCK": "data_clock_s",
    "memTimingSpec.tRAS": "ras",
    "memTimingSpec.tRP": "rp",
    "memTimingSpec.tRCDR": "rcd_read",
    "memTimingSpec.tRCDW": "rcd_write",
    "memTimingSpec.tRFC": "rfc",
    "memTimingSpec.tRFCAB": "rfc",
    "memTimingSpec.tRFCPB": "rfc_bank",
    "memTimingSpec.tRFCDB": "rfc_bank",
    "memTimingSpec.tRFCSB": "rfc_bank",
    "memTimingSpec.tRFCsb": "rfc_same",
    "memTimingSpec.tREFI": "refi",
    "prechargeOffsetRD": "read_to_close",
    "prechargeOffsetWR": "write_to_close",
}
_CURRENTS = {
    "v": "volt",
    "0": "i0",
    "2N": "i2n",
    "3N": "i3n",
    "4R": "i4r",
    "4W": "i4w",
    "5": "i5",
    "5PB": "i5_bank",
    "5PDB": "i5_bank",
    "5C": "i5_same",
    "6": "i6",
    "6N": "i6",
    "6DS": "i6_deep",
    "2P": "i2p",
    "3P": "i3p",
    "Beta": "i_beta",
}
_SUPPLY = re.compile(r"memPowerSpec\[(\d+)\]\.(v|i)(?:DD|XX|PP)?(.*?)X?$")
_PATH_BANK = re.compile(r"(stats|window)\.bank\[(\d+)\]\.(counter|cycles)\.(.+)")
_PATH_RANK = re.compile(r"(stats|window)\.rank_total\[(\d+)\]\.cycles\.(.+)")


def compare_drampower(folder: Path, smoke: bool) -> Comparison:
    """Every check of `cases.jsonl`, each by its own comparison; `base_specs.json` holds the specifications."""
    specifications = read_json(folder / "base_specs.json")
    base = {
        name: device_from_specification(
            value, member_of(Standard, name, "DRAM standard"), name, f"{folder / 'base_specs.json'}: {name}"
        )
        for name, value in specifications.items()
    }
    points: list[Point] = []
    missing: dict[str, str] = {}
    held = asked = 0
    for row, where in _rows(folder / "cases.jsonl")[:: 8 if smoke else 1]:
        if row["standard"] not in base:
            missing[row["case"]] = f"no specification of {row['standard']}"
            continue
        try:
            case = Case(row, base[row["standard"]], specifications[row["standard"]]["memtimingspec"], where)
        except UserError as error:
            missing[row["case"]] = str(error)
            continue
        for check in row["checks"]:
            label = f"{row['case']}: {check[1]}" + (f" until {check[4]}" if check[4] is not None else "")
            try:
                predicted, recorded = case.figure(check), float(check[2])
            except UserError as error:
                missing[label] = str(error)
                continue
            asked += 1
            held += predicted == recorded
            points.append(Point(label, predicted, recorded, row["standard"]))
    more = {"checks": asked, "checks_held": held, "cases": len({p.name.split(":")[0] for p in points})}
    return Comparison("drampower", points, "counts, cycles and energies", {}, "nothing: no constant", more, missing)


def _rows(path: Path) -> list[tuple[dict[str, Any], str]]:
    rows = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"cannot read the recorded rows: {error.strerror}", where=str(path)) from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}: line {number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(f"not JSON: {error}", where=where) from None
        for key in ("standard", "case", "commands", "checks"):
            if key not in row:
                raise UserError(f"`{key}` is missing", where=where)
        rows.append((row, where))
    return rows


@dataclass(frozen=True)
class _State:
    """What a trace has come to at a cycle."""

    statistics: TraceStatistics
    energy: TraceEnergy


class Case:
    """One recorded trace on its device.

    Args:
        row: Of `cases.jsonl`.
        base: The specification its overrides start from.
        timing: Its timings by their names, for expressions.
        where: For messages.
    """

    def __init__(self, row: dict[str, Any], base: PowerDevice, timing: dict[str, Any], where: str) -> None:
        self._where = where
        known = {f"memTimingSpec.t{name}": value for name, value in timing.items()} | _known_fields(base)
        self.device = overridden(base, known | row.get("overrides", {}), row, where)
        self._commands = [_command(entry, self.device, where) for entry in row["commands"]]
        self._known: dict[int | None, _State] = {}

    def figure(self, check: list[Any]) -> float:
        """What is predicted for a check, rounded as the check rounds.

        Raises:
            UserError: The check asks for a quantity or a comparison that is not known.
        """
        _, quantity, _, comparison, until = check
        state = self._state(until)
        value = float(evaluate(quantity, lambda path: _quantity(path, state, self._where), self._where))
        return _rounded(value, comparison, self._where)

    def _state(self, until: int | None) -> _State:
        if until not in self._known:
            memory = CommandReplay(self.device)
            for command in self._commands:
                if until is None or command.cycle <= until:
                    memory.issue(command)
            end = self._commands[-1].cycle if until is None else until
            statistics = memory.statistics(end)
            self._known[until] = _State(statistics, trace_energy(self.device, statistics))
        return self._known[until]


def _rounded(value: float, comparison: str, where: str) -> float:
    match comparison:
        case "truncate":
            # a whole number that sums of floats missed by their last bits counts as that number
            nearest = math.floor(value + 0.5)
            return float(nearest if math.isclose(value, nearest, rel_tol=1e-12) else math.trunc(value))
        case "round":
            return float(math.copysign(math.floor(abs(value) + 0.5), value))
        case "exact":
            return value
    raise UserError(f"a comparison is truncate, round or exact, got {comparison!r}", where=where)


def _command(entry: list[Any], device: PowerDevice, where: str) -> TimedCommand:
    cycle, name, *target = entry
    kind = parse_kind(name, device.standard, where)
    bank = int(target[0]) if target else 0
    rank = int(target[2]) if len(target) > 2 else 0
    if kind is Kind.END:
        bank = rank = 0
    return TimedCommand(int(cycle), kind, bank, rank)


def _quantity(path: str, state: _State, where: str) -> Number:
    """A count, a number of cycles or an energy by its recorded name."""
    energy = state.energy
    if path == "total_energy.total()":
        return energy.core
    if path == "energy.total()":
        return energy.total
    name = path.rpartition(".")[2]
    if path.startswith("total_energy.") and name in _BANK_PARTS:
        return energy.of(_BANK_PARTS[name])
    if path.startswith("energy.bank_energy[") and name in _BANK_PARTS:
        banks: tuple[BankEnergy, ...] = energy.banks
        index = int(path.partition("[")[2].partition("]")[0])
        return float(getattr(_at(banks, index, path, where), _BANK_PARTS[name]))
    if path.startswith("energy.") and name in _RANK_PARTS:
        return float(getattr(energy, _RANK_PARTS[name]))
    if match := _PATH_BANK.fullmatch(path):
        bank = _at(state.statistics.banks, int(match[2]), path, where)
        if match[3] == "counter" and match[4] in bank.counts:
            return bank.counts[match[4]]
        if match[3] == "cycles" and match[4] in _CYCLES:
            return int(getattr(bank, _CYCLES[match[4]]))
    if match := _PATH_RANK.fullmatch(path):
        rank = _at(state.statistics.ranks, int(match[2]), path, where)
        if match[3] in _CYCLES:
            return int(getattr(rank, _CYCLES[match[3]]))
    raise UserError(f"no quantity {path!r}", where=where)


def _at(items: tuple[_Item, ...], index: int, path: str, where: str) -> _Item:
    if index >= len(items):
        raise UserError(f"the device has {len(items)}, asked for {path}", where=where)
    return items[index]


def overridden(base: PowerDevice, known: dict[str, Any], row: dict[str, Any], where: str) -> PowerDevice:
    """The device with the fields that a row sets by their recorded names, then those that expressions set, in order.

    Args:
        base: The device before.
        known: Values that expressions may name.
        row: Of `cases.jsonl`.
        where: For messages.

    Raises:
        UserError: A field is not known.
    """
    device, values = base, dict(known)
    for name, value in row.get("overrides", {}).items():
        device = _with_field(device, name, value, where)
    for text in row.get("derived_overrides", []):
        name, _, expression = (part.strip() for part in text.partition("="))
        values[name] = evaluate(expression, lambda path: _known(values, path, where), where)
        if not name.endswith(".tBurst"):
            device = _with_field(device, name, values[name], where)
    return device


def _known(values: dict[str, Any], path: str, where: str) -> Number:
    if path not in values:
        raise UserError(f"the expression names {path!r}, which nothing sets", where=where)
    value: Number = values[path]
    return value


def _known_fields(device: PowerDevice) -> dict[str, Any]:
    found = {name: getattr(device, field) for name, field in _GEOMETRY.items()}
    found |= {name: getattr(device.times, field) for name, field in _TIMES.items()}
    ratio = round(device.times.clock_s / device.times.burst_clock_s)
    return found | {"memTimingSpec.WCKtoCK": ratio}


def _with_field(device: PowerDevice, name: str, value: Any, where: str) -> PowerDevice:
    if name in _GEOMETRY:
        return replace(device, **{_GEOMETRY[name]: value})
    if name in _TIMES:
        return replace(device, times=replace(device.times, **{_TIMES[name]: value}))
    if name == "memTimingSpec.tRCD":
        return replace(device, times=replace(device.times, rcd_read=value, rcd_write=value))
    if name in ("bank_arch", "BGroupMode"):
        return replace(device, grouped=value in ("MBG", True, 1))
    if match := _SUPPLY.fullmatch(name):
        index, state = int(match[1]), match[3] if match[2] == "i" else "v"
        if index < len(device.supplies) and state in _CURRENTS:
            supplies = list(device.supplies)
            supplies[index] = replace(supplies[index], **{_CURRENTS[state]: float(value)})
            return replace(device, supplies=tuple(supplies))
    if name in _UNREAD:
        return device
    raise UserError(f"no field {name!r} of a specification", where=where)


_UNREAD = frozenset(("numberOfChannels", "numberOfColumns", "numberOfRows")) | frozenset(
    f"memTimingSpec.{name}" for name in ("tWR", "tWL", "tRTP", "tRBTP", "tAL", "tBurst", "WCKtoCK", "tRL")
)
"""Sizes that no check asks for, and timings that only enter the distance from a column command to its precharge, which is set by itself."""
