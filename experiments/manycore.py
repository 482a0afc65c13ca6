"""Recorded schemes of SET and Gemini, judged again: `python -m experiments.manycore --set set|gemini --data FOLDER`.

Every node of every recorded tree is evaluated under the program's own rules and compared: DRAM words, hops (those between
dies too) and cycles must be equal, energies agree within six digits. The last line is one JSON object.
With `--faults` it prints what each fault of the rules is worth on every scheme.
"""

import argparse
import csv
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from codesign.arch.chiplet_cost import GEMINI_MONEY, Money, money
from codesign.arch.many_core import Dies, ManyCore
from codesign.scheduling.segments.evaluate import GEMINI_START_RULES, Evaluation, Evaluator, Row
from experiments.manycore_records import Run, Scheme, one_memory, read_runs

ENERGIES = ("energy_pj", "ubuf_pj", "buf_pj", "bus_pj", "mac_pj")
USES = ("buf_usage", "ifm_usage", "wgt_usage")


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        program: ``set`` or ``gemini``.
        data: Folder with the recorded runs, or above it.
        faults: Print what each fault is worth.
        out: File for all results as JSON; None for none.
    """

    program: str
    data: Path
    faults: bool = False
    out: Path | None = None


@dataclass
class Totals:
    """Sums over all schemes.

    Attributes:
        schemes: Trees.
        rows: Nodes.
        dram_equal: Rows whose DRAM words agree.
        hops_equal: Rows whose hops of both kinds agree.
        cycles_equal: Rows whose cycles agree.
        energy_worst_error: Largest relative error of any energy.
        links_equal: Rows whose busiest link, or words on every recorded link, agree.
        buffers_equal: Rows whose buffer needs agree.
        money_worst_error: Largest relative error of any recorded cost.
        differing: Schemes with a row that differs.
    """

    schemes: int = 0
    rows: int = 0
    dram_equal: int = 0
    hops_equal: int = 0
    cycles_equal: int = 0
    energy_worst_error: float = 0.0
    links_equal: int = 0
    buffers_equal: int = 0
    money_worst_error: float = 0.0
    differing: list[str] = field(default_factory=list)


def evaluator_of(run: Run, scheme: Scheme) -> Evaluator:
    """The evaluator of a recorded scheme under its own rules."""
    system = one_memory(run.system) if scheme.semantics == GEMINI_START_RULES else run.system
    figures = None if run.core_known else scheme.core_figures
    return Evaluator(system, run.network, scheme.semantics, figures)


def relative(ours: float, theirs: float) -> float:
    """Relative error; of nothing it is absolute."""
    return abs(ours - theirs) / max(1.0, abs(theirs))


def compare_scheme(run: Run, scheme: Scheme, totals: Totals) -> Evaluation:
    """Judge a scheme again and count the rows that agree."""
    evaluation = evaluator_of(run, scheme).evaluate(scheme.tree)
    totals.schemes += 1
    good = True
    for row, recorded in zip(evaluation.rows, scheme.rows, strict=True):
        equal = _compare_row(run, row, recorded, totals)
        good = good and equal
    if not good:
        totals.differing.append(f"{run.name} {scheme.name}")
    return evaluation


def _compare_row(run: Run, row: Row, node: dict[str, Any], totals: Totals) -> bool:
    figures = node["eval"]
    dram = row.dram_words == figures["dram_words"]
    hops = row.hops == figures["noc_hops"] and row.die_hops == figures.get("d2d_hops", 0)
    cycles = row.time == figures["cycles" if "cycles" in figures else "time"]
    links = _links_equal(run.system, row, node)
    uses = [[int(use.max()), int(use.sum())] for use in row.usage_bytes]
    buffers = uses == [[figures[key]["max"], figures[key]["sum"]] for key in USES]
    for ours, key in zip((row.energy_pj, *row.parts_pj), ENERGIES, strict=True):
        totals.energy_worst_error = max(totals.energy_worst_error, relative(ours, figures[key]))
    totals.rows += 1
    totals.dram_equal += dram
    totals.hops_equal += hops
    totals.cycles_equal += cycles
    totals.links_equal += links
    totals.buffers_equal += buffers
    return dram and hops and cycles and links and buffers


def _links_equal(system: ManyCore, row: Row, node: dict[str, Any]) -> bool:
    """Whether the busiest link agrees, and every link of a segment whose links were recorded."""
    figures = node["eval"]
    if row.busiest_link != figures.get("max_link", row.busiest_link):
        return False
    recorded = {_link(system, entry): words for *entry, words in map(_end_words, node.get("links", ()))}
    if not recorded:
        return True
    loads = row.counter[8:]
    return {i: int(loads[i]) for i in loads.nonzero()[0]} == {i: w for i, w in recorded.items() if w}


def _end_words(entry: list[Any]) -> list[Any]:
    """Gemini marks links between dies behind the words; the mark goes."""
    return entry[:4] if isinstance(entry[2], str) else entry


def _link(system: ManyCore, entry: list[Any]) -> int:
    """Number of a recorded link: by its two ends, or by one end and a direction."""
    if isinstance(entry[2], str):
        x, y, direction = entry
    else:
        x, y, x1, y1 = entry
        direction = "E" if x1 > x else "W" if x1 < x else "N" if y1 > y else "S"
    return 4 * ((int(x) + 1) * system.height + int(y)) + "EWNS".index(direction)


MONEY = {
    "core_area_um2": "core_area_um2",
    "d2d_area_per_compute_die_um2": "die_interface_um2",
    "compute_die_area_mm2": "compute_die_mm2",
    "io_die_area_total_mm2": "io_mm2",
    "total_die_area_mm2": "total_mm2",
    "cost_chip": "chip_usd",
    "cost_package": "package_usd",
    "cost_dram": "dram_usd",
    "cost_overall": "overall_usd",
}


def money_error(ours: Money, recorded: dict[str, Any]) -> float:
    """Largest relative error of recorded areas and costs."""
    errors = [0.0]
    for key, name in MONEY.items():
        value = recorded.get(key, recorded.get(f"{key}_usd"))
        if value is not None:
            errors.append(relative(getattr(ours, name), float(value)))
    return max(errors)


def tabled_systems(path: Path, like: ManyCore) -> list[tuple[ManyCore, dict[str, float]]]:
    """Systems of a table of costs with their recorded figures; what it does not say is as in `like`."""
    found = []
    with path.open(encoding="utf-8") as stream:
        for line in csv.DictReader(stream):
            number = {key: float(value) for key, value in line.items() if key not in ("package", "interface")}
            found.append((_tabled(line, number, like), number))
    return found


def _tabled(line: dict[str, str], number: dict[str, float], like: ManyCore) -> ManyCore:
    core = like.core
    sizes = {"inputs": "al1_bytes", "weights": "wl1_bytes", "sums": "ol1_bytes", "big": "ul3_bytes"}
    buffers = {name: replace(getattr(core, name), bytes=int(number[key])) for name, key in sizes.items()}
    core = replace(
        replace(core, **buffers),
        vector=int(number["vector"]),
        lanes=int(number["lanes"]),
        vector_unit_macs=int(number["vector_unit_macs"]),
    )
    x, y = int(number["mesh_x"]), int(number["mesh_y"])
    dies = Dies(
        int(number["chiplets_x"]),
        int(number["chiplets_y"]),
        int(number["d2d_words_per_cycle"]),
        interface=line["interface"],
        package=line["package"],
    )
    ports = tuple(tuple((-1 if d < 2 else x, row) for row in range(y)) for d in range(4))
    each = int(number["dram_words_per_cycle_each"])
    return replace(
        like,
        width=x,
        height=y,
        stride=1,
        core=core,
        links=replace(like.links, words_per_cycle=int(number["noc_words_per_cycle"])),
        memories=replace(like.memories, ports=ports, words_per_cycle_each=each),
        dies=dies,
        technology_nm=int(number["technology_nm"]),
    )


def compare_money(runs: list[Run], data: Path, totals: Totals) -> None:
    """Compare recorded costs of runs, and of a table where there is one."""
    for run in runs:
        if run.money:
            error = money_error(money(run.system, GEMINI_MONEY), run.money)
            totals.money_worst_error = max(totals.money_worst_error, error)
    for path in (data / "money.csv", data / "gemini" / "money.csv"):
        if path.is_file():
            for system, recorded in tabled_systems(path, runs[0].system):
                error = money_error(money(system, GEMINI_MONEY), recorded)
                totals.money_worst_error = max(totals.money_worst_error, error)


def main(config: Config) -> dict[str, Any]:
    """Run and print; returns the last line."""
    runs = read_runs(config.data, config.program)
    totals = Totals()
    for run in runs:
        for scheme in run.schemes:
            evaluation = compare_scheme(run, scheme, totals)
            print(f"{run.name:34} {scheme.name:6} {evaluation.edp:.6e} pJ x cycles", flush=True)
    if config.program == "gemini":
        compare_money(runs, config.data, totals)
    found = asdict(totals)
    if config.out is not None:
        from codesign.core.files import write_json

        write_json(config.out, found)
    print(json.dumps(found))
    return found


def parse(arguments: list[str] | None = None) -> Config:
    """Options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--set", choices=("set", "gemini"), required=True, dest="program")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    return Config(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    main(parse())
