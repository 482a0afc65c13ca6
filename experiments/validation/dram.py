"""DRAM: recorded runs of DRAMsim3, command counts, cycles, energy; zero-load latencies; streams."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from codesign.core.errors import UserError
from codesign.mapping.nest import IntArray
from codesign.timing.dram.device import DramDevice, DramTiming, known_devices
from codesign.timing.dram.memory import serve_stream
from experiments.models.dram_streams import Stream, Strided, interleave, random_bursts
from experiments.validation.common import Comparison, Point, read_json

_COMMANDS = ("RD", "WR", "ACT", "PRE", "REF")
_ROW = 5
_PAUSE = 2000


def trace_stream(trace: dict[str, Any], burst_bytes: int) -> Stream:
    """The bursts of a trace description."""
    kind = trace.get("kind")
    if kind == "affine":
        loops = tuple((int(n), int(s)) for n, s in trace["loops"])
        return Strided(trace["base"], trace["run"], loops, trace["op"] == "W").expand(burst_bytes)
    if kind == "random":
        seed, n, base, span, align, every = (
            int(trace[k]) for k in ("seed", "n", "base", "span", "align", "write_every")
        )
        return random_bursts(seed, n, base, span, align, every, burst_bytes)
    if kind == "interleave":
        streams = [trace_stream(t, burst_bytes) for t in trace["streams"]]
        return interleave(streams, max(1, int(trace["granule"]) // burst_bytes))
    raise UserError(f"trace `kind` must be affine, random or interleave, got {kind!r}")


def trace_ready(trace: dict[str, Any], count: int) -> IntArray:
    """Cycle before which each burst of a trace is not there."""
    pace = trace.get("pace")
    order = np.arange(count, dtype=np.int64)
    return order // int(pace["group"]) * int(pace["gap"]) if pace else order * 0


def recorded_device(entry: dict[str, Any]) -> DramDevice:
    """A device that the project's tables lack, from its recorded description."""
    g, t, c, amps = entry["geometry"], entry["timing"], entry["controller"], entry["currents"]
    cycles = dict(t["cycles"])
    for key in ("tRCDRD", "tRCDWR"):
        cycles.setdefault(key, cycles.get("tRCD"))
    return DramDevice(
        name=entry["id"],
        ranks=g["ranks"],
        bank_groups=g["bankgroups"],
        banks_per_group=g["banks_per_group"],
        rows=g["rows"],
        bursts_per_row=g["bursts_per_row"],
        burst_bytes=g["burst_bytes"],
        devices_per_rank=g["devices_per_rank"],
        address_mapping=entry["address_mapping"]["string_msb_first"],
        clock_ns=t["tCK_ns"],
        timing=DramTiming(**{k: int(cycles[k]) for k in DramTiming.__dataclass_fields__ if k in cycles}),
        vdd_v=amps["VDD_V"],
        currents_ma=tuple(sorted(amps["mA"].items())),
        queue=c["transaction_queue"],
        bank_queue=c["command_queue_per_bank"],
        dual_command=bool(c.get("hbm_dual_command", False)),
    )


def _devices(folder: Path) -> dict[str, DramDevice]:
    found = dict(known_devices())
    for path in sorted(folder.glob("devices*.json")):
        for entry in read_json(path)["devices"]:
            if entry["id"] not in found:
                found[entry["id"]] = recorded_device(entry)
    return found


def compare_dram(folder: Path, smoke: bool) -> Comparison:
    """Every run of `runs*.json`, every command of `small*.json.gz`, every figure of `limits*.json`."""
    devices = _devices(folder)
    runs = [run for path in sorted(folder.glob("runs*.json")) for run in read_json(path)]
    points, missing, energy_errors, equal = [], {}, [], 0
    for run in runs[:: 10 if smoke else 1]:
        device = devices.get(run["device"])
        if device is None:
            missing[run["id"]] = "the device is in no table"
            continue
        device = replace(device, address_mapping=run["mapping"])
        stream = trace_stream(run["trace"], device.burst_bytes)
        mine, served = serve_stream(device, stream.address, stream.write, trace_ready(run["trace"], len(stream)))
        truth = run["result"]
        points.append(Point(run["id"], mine.cycles, truth["cycles"], run["device"]))
        if "energy_pJ" in truth:
            energy_errors.append(abs(mine.total_energy_pj / truth["energy_pJ"]["total"] - 1))
        keys = ("read_commands", "write_commands", "activates", "precharges", "refreshes")
        equal += [truth[k] for k in keys] == [int(x) for x in served.counts[:5]]
    if not runs:
        raise UserError("no recorded runs: expected runs.json", where=str(folder))
    more: dict[str, Any] = {
        "runs_with_equal_counts": equal,
        "energy_median_error": float(np.median(energy_errors)) if energy_errors else None,
        "energy_worst_error": max(energy_errors, default=None),
    }
    more |= _commands(folder, devices)
    more |= _limits(folder, devices, smoke)
    return Comparison("dram", points, "cycles", {}, "nothing: rules and device tables alone", more, missing)


def _commands(folder: Path, devices: dict[str, DramDevice]) -> dict[str, Any]:
    """Runs whose every command was recorded: how many commands come in the recorded cycle."""
    equal = total = 0
    for path in sorted(folder.glob("small*.json.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            entries = json.load(file)
        for run in entries:
            if run["device"] not in devices:
                continue
            device = replace(devices[run["device"]], address_mapping=run["mapping"])
            bursts = run["bursts"]
            address = np.array([b[2] for b in bursts], np.int64)
            write = np.array([b[1] == "W" for b in bursts]).astype(np.int64)
            ready = np.array([b[0] for b in bursts], np.int64)
            _, served = serve_stream(device, address, write, ready, log=len(run["commands"]) + 16)
            mine = [(int(c[0]), _COMMANDS[c[1]], int(c[2])) for c in served.commands]
            theirs = [(c[0], c[1], c[2]) for c in run["commands"]]
            equal += sum(a == b for a, b in zip(mine, theirs, strict=False))
            total += max(len(mine), len(theirs))
    return {"commands": total, "commands_in_the_recorded_cycle": equal} if total else {}


def _address(device: DramDevice, rank: int, group: int, bank: int, row: int, column: int) -> int:
    value = {"ro": row, "ch": 0, "ra": rank, "ba": bank, "bg": group, "co": column}
    size = {
        "ro": device.rows,
        "ch": device.channels,
        "ra": device.ranks,
        "ba": device.banks_per_group,
        "bg": device.bank_groups,
        "co": device.bursts_per_row,
    }
    address = 0
    for i in range(0, len(device.address_mapping), 2):
        name = device.address_mapping[i : i + 2]
        address = address * size[name] + value[name]
    return address * device.burst_bytes


def _latencies(device: DramDevice, places: list[tuple[int, int, int, int, int]], write: bool, opened: int) -> list[int]:
    """Cycles from the acceptance of the first access after the first `opened` ones, which come a pause before."""
    quiet = replace(device, timing=replace(device.timing, tREFI=0))
    address = np.array([_address(device, *p) for p in places], np.int64)
    writes = np.array([int(write and i >= opened) for i in range(len(places))], np.int64)
    ready = np.array([i * _PAUSE if i < opened else opened * _PAUSE for i in range(len(places))], np.int64)
    _, served = serve_stream(quiet, address, writes, ready)
    return [int(x) - opened * _PAUSE - 1 for x in served.done[opened:]]


_OTHER = {
    "same_row": (0, 0, 0, _ROW, 1),
    "same_bank_other_row": (0, 0, 0, _ROW + 4, 0),
    "other_bank_same_group": (0, 0, 1, _ROW, 0),
    "other_bankgroup": (0, 1, 0, _ROW, 0),
    "other_rank": (1, 0, 0, _ROW, 0),
}


def _zero_load(device: DramDevice, recorded: dict[str, Any]) -> tuple[int, int]:
    """How many zero-load figures of a device are met to the cycle, of how many."""
    first = (0, 0, 0, _ROW, 0)
    found = []
    for write, key in ((False, "read_latency_cycles"), (True, "write_latency_cycles")):
        truth = recorded.get(key, {})
        cases = {"closed": [first], "hit": [first, (0, 0, 0, _ROW, 1)], "conflict": [first, (0, 0, 0, _ROW + 4, 0)]}
        for name, places in cases.items():
            if name in truth:
                found.append(_latencies(device, places, write, len(places) - 1)[0] == truth[name])
    for key, opened in (("pair_of_reads", 0), ("pair_of_reads_rows_open", 1)):
        for name, truth in recorded.get(key, {}).items():
            other = _OTHER[name]
            before = [first, (*other[:4], 3)] if other[:4] != first[:4] else [(*first[:4], 3)]
            places = [*(before if opened else []), first, other]
            mine = _latencies(device, places, False, len(places) - 2)
            found.append(mine == [truth["first_done"], truth["second_done"]])
    if "eight_rows_of_one_bank" in recorded:
        places = [(0, 0, 0, _ROW + i, 0) for i in range(8)]
        found.append(max(_latencies(device, places, False, 0)) == recorded["eight_rows_of_one_bank"]["all_done"])
    if "one_read_to_each_bank_of_rank_0" in recorded:
        mapping = device.address_mapping
        order = sorted(
            (_address(device, 0, g, b, _ROW, 0), g, b)
            for g in range(device.bank_groups)
            for b in range(device.banks_per_group)
        )
        assert mapping
        places = [(0, g, b, _ROW, 0) for _, g, b in order]
        found.append(
            max(_latencies(device, places, False, 0)) == recorded["one_read_to_each_bank_of_rank_0"]["all_done"]
        )
    return sum(found), len(found)


def _limits(folder: Path, devices: dict[str, DramDevice], smoke: bool) -> dict[str, Any]:
    met = asked = 0
    streams = []
    for path in sorted(folder.glob("limits*.json")):
        for name, recorded in read_json(path).items():
            if name not in devices:
                continue
            device = devices[name]
            good, of = _zero_load(device, recorded.get("zero_load", {}))
            met, asked = met + good, asked + of
            sustained = recorded.get("sustained_sequential", {})
            for key, truth in list(sustained.items())[: 1 if smoke else None]:
                mapping = "rochrabacobg" if key.endswith("bg_low") else device.address_mapping
                stream = Strided(0, truth["bytes"], (), key.startswith("write")).expand(device.burst_bytes)
                for refresh, field in ((True, "cycles"), (False, "cycles_without_refresh")):
                    timing = device.timing if refresh else replace(device.timing, tREFI=0)
                    changed = replace(device, address_mapping=mapping, timing=timing)
                    mine, _ = serve_stream(changed, stream.address, stream.write)
                    streams.append(abs(mine.cycles / truth[field] - 1))
    if not asked:
        return {}
    return {
        "zero_load_figures": asked,
        "zero_load_figures_met": met,
        "streaming_worst_error": max(streams, default=None),
    }
