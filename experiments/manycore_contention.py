"""Recorded schemes on the routers of their mesh: what contention costs, and whether the best stays the best."""

import csv
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from codesign.core import clock
from codesign.scheduling.segments.contention import ContentionSimulator, stretched_pj
from codesign.scheduling.segments.device_memory import DeviceMemory
from codesign.scheduling.segments.evaluate import MESH_RULES, OWN_RULES, Evaluator
from codesign.scheduling.segments.search import SearchSettings, TreeSearch
from codesign.timing.dram.device import load_device
from experiments.manycore_records import Run, Scheme, own_evaluator, their_evaluator


@dataclass(frozen=True)
class Contended:
    """A scheme as it was simulated.

    Attributes:
        run: Name of the recorded run.
        scheme: Name of the scheme.
        edp: Recorded energy x time, pJ x cycles.
        time: Recorded time, cycles.
        free: Time of the same steps without contention, under our own rules.
        simulated: Time on routers and DRAM queues of a steady rate.
        on_device: Time with the DRAM as a device; None where none was asked for.
        simulated_edp: Energy x simulated time; the energy is that of the program's rules.
        flit_hops: Flits sent by routers in the steps simulated.
        complete: Whether every step came to its end.
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
    complete: bool
    cpu_seconds: float


def contend(run: Run, scheme: Scheme, device: str | None) -> Contended:
    """Simulate a recorded scheme."""
    evaluator = own_evaluator(run, scheme)
    found = evaluator.evaluate(scheme.tree)
    begin = clock.cpu_seconds()
    steady = ContentionSimulator(evaluator).simulate(found)
    spent = clock.cpu_seconds() - begin
    theirs = their_evaluator(run, scheme)
    energy_pj = stretched_pj(theirs, theirs.evaluate(scheme.tree), steady.time)
    time = scheme.cycles
    return Contended(
        run.name,
        scheme.name,
        scheme.energy_pj * time,
        time,
        steady.free,
        steady.time,
        None if device is None else _on_device(evaluator, scheme, device),
        energy_pj * steady.time,
        steady.flit_hops,
        steady.complete,
        spent,
    )


def _on_device(evaluator: Evaluator, scheme: Scheme, device: str) -> int:
    """Time with a DRAM as a device, at the system's peak."""
    memory = DeviceMemory(evaluator.system.memories.words_per_cycle_each, load_device(device))
    return ContentionSimulator(evaluator, memory).simulate(evaluator.evaluate(scheme.tree)).time


STEPS = 20_000
"""Trees of each search with and without loads in view."""


@dataclass(frozen=True)
class InView:
    """Trees found with and without the loads of links in view, both simulated.

    Attributes:
        run: Name of the recorded run: its system, network and batch.
        edp: Energy x simulated time of the tree found without.
        edp_in_view: Of the tree found with loads in view.
        loss: Simulated time over that of the same steps without contention, of the tree found without.
        loss_in_view: The same of the tree found with.
        predicted: Simulated time over the time that the search with loads in view saw.
    """

    run: str
    edp: float
    edp_in_view: float
    loss: float
    loss_in_view: float
    predicted: float


def search_in_view(run: Run, seed: int) -> InView:
    """Search a run under our own rules twice, without and with loads in view, and simulate what is found."""
    own = Evaluator(run.system, run.network, OWN_RULES)
    found = [
        TreeSearch(Evaluator(run.system, run.network, rules), run.batch, SearchSettings(steps=STEPS, seed=seed)).run()
        for rules in (OWN_RULES, MESH_RULES)
    ]
    plain, aware = (ContentionSimulator(own).simulate(own.evaluate(f.evaluation.root)) for f in found)
    predicted = aware.time / found[1].evaluation.rows[0].time
    return InView(run.name, plain.edp, aware.edp, plain.time / plain.free, aware.time / aware.free, predicted)


def compare_searches(runs: list[Run], seed: int) -> dict[str, Any]:
    """Print what loads in view are worth; returns what the last line says of it."""
    found = []
    for run in runs:
        if run.core_known:
            found.append(one := search_in_view(run, seed))
            print(
                f"| {run.name} | {one.edp:.3e} | {one.edp_in_view / one.edp:.3f} | {one.loss - 1:.1%}"
                f" | {one.loss_in_view - 1:.1%} | {one.predicted - 1:+.1%} |",
                flush=True,
            )
    return {
        "in_view_edp_ratio_median": median(f.edp_in_view / f.edp for f in found),
        "loss_median": median(f.loss - 1 for f in found),
        "loss_in_view_median": median(f.loss_in_view - 1 for f in found),
        "loss_in_view_worst": max(f.loss_in_view - 1 for f in found),
        "in_view": [asdict(f) for f in found],
    }


COLUMNS = (
    "scheme",
    "recorded cycles",
    "simulated over recorded",
    "over the same steps without contention",
    "place in its run, recorded and simulated",
    "CPU s",
)


def table_rows(found: list[Contended]) -> list[list[str]]:
    """The table of all schemes, `COLUMNS` and the DRAM device where there is one."""
    rows = []
    for c in found:
        places = f"{_place(found, c, 'edp')}, {_place(found, c, 'simulated_edp')}"
        row = [
            f"{c.run} {c.scheme}",
            f"{c.time:,}",
            f"{c.simulated / c.time:.3f}",
            f"{c.simulated / c.free:.3f}",
            places,
        ]
        rows.append([*row, f"{c.cpu_seconds:.1f}"] + ([] if c.on_device is None else [f"{c.on_device / c.time:.3f}"]))
    return rows


def _place(found: list[Contended], one: Contended, key: str) -> int:
    """Place of a scheme among those of its run, 1 for the least energy x time."""
    mine = [float(getattr(c, key)) for c in found if c.run == one.run]
    return 1 + sum(value < float(getattr(one, key)) for value in mine)


def overtaken(found: list[Contended]) -> list[str]:
    """Runs whose best recorded scheme is not the best on the routers."""
    lines = []
    for run in dict.fromkeys(c.run for c in found):
        mine = [c for c in found if c.run == run]
        best, now = min(mine, key=lambda c: c.edp), min(mine, key=lambda c: c.simulated_edp)
        if best.scheme != now.scheme:
            lines.append(
                f"{run}: {best.scheme} recorded {best.edp:.4e}, simulated {best.simulated_edp:.4e};"
                f" {now.scheme} recorded {now.edp:.4e}, simulated {now.simulated_edp:.4e}"
            )
    return lines


def simulate_all(runs: list[Run], device: str | None, table: Path | None) -> dict[str, Any]:
    """Simulate, print the table and what is overtaken; returns what the last line says of it."""
    found = []
    for run in runs:
        for scheme in run.schemes:
            found.append(contend(run, scheme, device))
            print(f"{run.name:34} {scheme.name:6} {found[-1].simulated / found[-1].time:.3f}", flush=True)
    header = [*COLUMNS] + ([] if device is None else [f"with {device} over recorded"])
    rows = [header, *table_rows(found)]
    for row in rows:
        print("| " + " | ".join(row) + " |")
    for line in overtaken(found):
        print(line)
    if table is not None:
        with table.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerows(rows)
    ratios = [c.simulated / c.time for c in found]
    return {
        "simulated": len(found),
        "simulated_complete": sum(c.complete for c in found),
        "simulated_ratio_median": median(ratios),
        "simulated_ratio_worst": max(ratios),
        "overtaken": len(overtaken(found)),
        "simulation_cpu_seconds": sum(c.cpu_seconds for c in found),
        "contended": [asdict(c) for c in found],
    }
