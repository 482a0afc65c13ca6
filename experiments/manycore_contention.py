"""Recorded and found schemes on the routers of their mesh: what contention costs, and whether the best stays the best."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from codesign.arch.many_core import ManyCore
from codesign.core import clock
from codesign.scheduling.segments.contention import ContentionSimulator
from codesign.scheduling.segments.device_memory import DeviceMemory
from codesign.scheduling.segments.evaluate import GEMINI_START_RULES, Evaluation, Evaluator
from codesign.scheduling.segments.packet_lists import MemoryClock
from codesign.timing.dram.device import load_device
from experiments.manycore_records import Run, evaluator_of


@dataclass(frozen=True)
class Contended:
    """A scheme as it was simulated.

    Attributes:
        run: Name of the recorded run.
        scheme: Name of the scheme.
        edp: Recorded energy x time.
        time: Recorded time.
        free: Time of the same steps without contention.
        simulated: Time on routers and DRAM queues of a steady rate.
        on_device: Time with the DRAM as a device; None where none was asked for.
        simulated_edp: Energy x simulated time.
        flit_hops: Flits sent by routers in the steps simulated.
        cpu_seconds: Of the simulation at a steady rate.
    """

    run: str
    scheme: str
    edp: float
    time: int
    free: int
    simulated: int
    on_device: int | None
    simulated_edp: float
    flit_hops: int
    cpu_seconds: float


def memory_of(system: ManyCore, device: str | None) -> MemoryClock | None:
    """A DRAM as a device, at the system's peak; None for a steady rate."""
    return None if device is None else DeviceMemory(system.memories.words_per_cycle_each, load_device(device))


def contend(name: str, scheme: str, evaluator: Evaluator, found: Evaluation, device: str | None) -> Contended:
    """Simulate a tree."""
    begin = clock.cpu_seconds()
    steady = ContentionSimulator(evaluator).simulate(found)
    spent = clock.cpu_seconds() - begin
    on_device = None
    if device is not None:
        memory = memory_of(evaluator.system, device)
        on_device = ContentionSimulator(evaluator, memory).simulate(found).time
    whole = found.rows[0]
    return Contended(
        name, scheme, found.edp, whole.time, steady.free, steady.time, on_device, steady.edp, steady.flit_hops, spent
    )


def contended_schemes(runs: list[Run], device: str | None) -> list[Contended]:
    """All recorded schemes but Gemini's before annealing, whose rules leave links out."""
    found = []
    for run in runs:
        for scheme in run.schemes:
            if scheme.semantics != GEMINI_START_RULES:
                evaluator = evaluator_of(run, scheme)
                found.append(contend(run.name, scheme.name, evaluator, evaluator.evaluate(scheme.tree), device))
    return found


def table_lines(found: Iterable[Contended]) -> list[str]:
    """The table of all schemes."""
    lines = [
        "| scheme | recorded time | steps without contention | simulated | simulated / recorded | simulated / steps | with DRAM device | CPU s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for c in found:
        device = "-" if c.on_device is None else f"{c.on_device / c.time:.3f}"
        lines.append(
            f"| {c.run} {c.scheme} | {c.time:,} | {c.free:,} | {c.simulated:,} | {c.simulated / c.time:.3f}"
            f" | {c.simulated / c.free:.3f} | {device} | {c.cpu_seconds:.2f} |"
        )
    return lines


def overtaken(found: list[Contended]) -> list[str]:
    """Runs whose best recorded scheme is not the best on the routers."""
    lines = []
    for run in dict.fromkeys(c.run for c in found):
        mine = [c for c in found if c.run == run]
        best, now = min(mine, key=lambda c: c.edp), min(mine, key=lambda c: c.simulated_edp)
        if len(mine) > 1 and best.scheme != now.scheme:
            lines.append(
                f"{run}: {best.scheme} recorded {best.edp:.3e}, simulated {best.simulated_edp:.3e};"
                f" {now.scheme} recorded {now.edp:.3e}, simulated {now.simulated_edp:.3e}"
            )
    return lines


def simulate_all(runs: list[Run], device: str | None) -> dict[str, Any]:
    """Simulate, print the table and what is overtaken; returns what the last line says of it."""
    found = contended_schemes(runs, device)
    for line in (*table_lines(found), *overtaken(found)):
        print(line, flush=True)
    ratios = [c.simulated / c.time for c in found]
    return {
        "simulated": len(found),
        "simulated_ratio_median": median(ratios),
        "simulated_ratio_worst": max(ratios),
        "overtaken": len(overtaken(found)),
        "simulation_cpu_seconds": sum(c.cpu_seconds for c in found),
        "contended": [asdict(c) for c in found],
    }
