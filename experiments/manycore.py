"""Recorded schemes of SET and Gemini, judged again: `python -m experiments.manycore --set set|gemini --data FOLDER`.

Every node of every recorded tree is evaluated under the program's own rules and compared: DRAM words, hops (those between
dies too) and cycles must be equal, energies agree within six digits. The last line is one JSON object.
With `--search` each run is searched anew under the same rules, by default in half the CPU seconds of the recorded search. The
energy x time found is divided by the best recorded one. Gemini's trees before annealing follow other rules (no
links) and are not compared with. Kernels are compiled, and each core mapper is warmed up on nothing, before time is taken.
With `--contention` every scheme runs on the routers of its mesh, and with `--device` on a DRAM device too. `--table` is a CSV of
either.
With `--in-view` each run is searched without and with the loads of links in view, and both trees are simulated.
With `--tree` a tree of one's own is judged instead of searched for.
With `--faults` it prints what each fault of the recorded rules is worth on every scheme, one mended at a time.
"""

import argparse
import csv
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from codesign.arch.chiplet_cost import GEMINI_MONEY, Money, money
from codesign.arch.many_core import Dies, ManyCore
from codesign.core.errors import UserError
from codesign.core.files import read_structured
from codesign.scheduling.segments.bound import bound_of
from codesign.scheduling.segments.evaluate import GEMINI_START_RULES, SEMANTICS, Evaluation, Evaluator, Row
from codesign.scheduling.segments.kernels.fabric import LINKS, OWN
from codesign.scheduling.segments.search import SearchSettings, TreeSearch, warm_up
from codesign.scheduling.segments.tree_files import tree_from_json
from experiments.manycore_contention import compare_searches, simulate_all
from experiments.manycore_records import Run, Scheme, evaluator_of, read_runs

ENERGIES = ("energy_pj", "ubuf_pj", "buf_pj", "bus_pj", "mac_pj")
SET_LEAST_USE = 0.75
"""Share of core time that a space cut must use for SET to accept it; Gemini has no such floor."""

MARGIN = 0.97
"""Share of the time allowed that a search plans with: its last steps may take a little longer."""

USES = ("buf_usage", "ifm_usage", "wgt_usage")


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        program: ``set`` or ``gemini``.
        data: Folder with the recorded runs, or above it.
        search: Search each run anew.
        faults: Print what each fault is worth.
        contention: Run every scheme on the routers of its mesh.
        device: DRAM device of the simulation; None for a steady rate alone.
        in_view: Search each run without and with the loads of links in view, and simulate both.
        tree: File with a tree that is judged on the runs; None for none.
        only: Part of the names of the runs that are taken; empty for all.
        table: CSV file for the table of contention, or of the searches; None for none.
        seconds: CPU seconds of each search; None for half of the recorded ones.
        seed: Of the searches.
        out: File for all results as JSON; None for none.
    """

    program: str
    data: Path
    search: bool = False
    faults: bool = False
    contention: bool = False
    device: str | None = None
    table: Path | None = None
    in_view: bool = False
    tree: Path | None = None
    only: str = ""
    seconds: float | None = None
    seed: int = 0
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
    busiest = int(row.counter[LINKS:].max())
    if busiest != figures.get("max_link", busiest):
        return False
    recorded = {_link(system, entry): words for *entry, words in map(_end_words, node.get("links", ()))}
    if not recorded:
        return True
    loads = row.counter[LINKS:]
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


MENDED: dict[str, dict[str, Any]] = {
    "concatenated inputs": {"drop_shifted": False},
    "groups by position": {"groups_as_given": False},
    "DRAM places": {"forget_drams": False},
    "hops between dies": {"counting": OWN},
}
"""Faults, and the rule that mends each."""


def fault_lines(run: Run, scheme: Scheme) -> list[str]:
    """What each fault is worth on a scheme: hops, hops between dies and energy x time, mended over recorded."""
    before = evaluator_of(run, scheme).evaluate(scheme.tree)
    lines = []
    together = {key: value for change in MENDED.values() for key, value in change.items()}
    for name, change in [*MENDED.items(), ("all", together)]:
        system = evaluator_of(run, scheme).system
        rules = replace(scheme.semantics, **change)
        figures = None if run.core_known else scheme.core_figures
        after = Evaluator(system, run.network, rules, figures).evaluate(scheme.tree)
        changed = sum(
            a.layer is not None and not np.array_equal(a.counter, b.counter)
            for a, b in zip(before.rows, after.rows, strict=True)
        )
        old, new = before.rows[0], after.rows[0]
        if changed:
            hops = (new.hops + new.die_hops) / (old.hops + old.die_hops) - 1
            dies = f"{old.die_hops:.4g} | {new.die_hops:.4g}" if run.system.dies.count > 1 else "- | -"
            edp = after.edp / before.edp - 1
            lines.append(f"| {run.name} {scheme.name} | {name} | {changed} | {hops:+.2%} | {dies} | {edp:+.2%} |")
    return lines


def print_faults(runs: list[Run]) -> None:
    """Print the tables of faults: of schemes, and of costs."""
    print("| scheme | mended | layers | all hops | between dies, before | after | energy x time |")
    print("|---|---|---|---|---|---|---|")
    for run in runs:
        for scheme in run.schemes:
            for line in fault_lines(run, scheme):
                print(line)
    if runs[0].money:
        print("| run | dies | package | recorded USD | mended USD |")
        print("|---|---|---|---|---|")
        for run in runs:
            old, new = money(run.system, GEMINI_MONEY).overall_usd, money(run.system).overall_usd
            if old != new:
                print(f"| {run.name} | {run.system.dies.count} | {run.system.dies.package} | {old:.2f} | {new:.2f} |")


@dataclass(frozen=True)
class Race:
    """A search beside a recorded one.

    Attributes:
        run: Name of the recorded run.
        edp: Energy x time found.
        ratio: Over the best recorded.
        gap: (found - bound) / bound.
        cpu_seconds: CPU seconds of the search here.
        their_seconds: CPU seconds of the recorded search.
        steps: Trees tried.
    """

    run: str
    edp: float
    ratio: float
    gap: float
    cpu_seconds: float
    their_seconds: float
    steps: int

    @property
    def bound_ratio(self) -> float:
        """The bound over the best recorded: no tree has a lesser ratio."""
        return self.ratio / (1.0 + self.gap)


def recorded_edp(run: Run) -> float:
    """The least energy x time of a run's schemes whose rules count links."""
    found = []
    for scheme in run.schemes:
        if scheme.semantics != GEMINI_START_RULES:
            figures = scheme.rows[0]["eval"]
            found.append(figures["energy_pj"] * figures.get("cycles", figures.get("time")))
    return float(min(found))


def race(run: Run, seconds: float | None, seed: int) -> Race | None:
    """Search a run anew; None where its core mapper is not known."""
    if not run.core_known:
        return None
    least_use = SET_LEAST_USE if run.program == "set" else 0.0
    evaluator = Evaluator(run.system, run.network, SEMANTICS[run.program])
    limit = run.cpu_seconds / 2 if seconds is None else seconds
    found = TreeSearch(
        evaluator, run.batch, SearchSettings(seconds=MARGIN * limit, seed=seed, least_use=least_use)
    ).run()
    edp = found.evaluation.edp
    gap = bound_of(evaluator, run.batch).gap(edp)
    return Race(run.name, edp, edp / recorded_edp(run), gap, found.seconds, run.cpu_seconds, found.steps)


def judge_tree(run: Run, path: Path) -> None:
    """Print energy x time of a tree of a file under a run's rules, over the best recorded, and its gap to the bound."""
    evaluator = Evaluator(run.system, run.network, SEMANTICS[run.program])
    found = evaluator.evaluate(tree_from_json(read_structured(path), run.network, str(path)))
    ratio, gap = found.edp / recorded_edp(run), bound_of(evaluator, found.root.batch).gap(found.edp)
    fits = evaluator.overflow(found) or "fits"
    print(f"{run.name:34} {found.edp:.4e}, {ratio:.3f} of recorded; gap {gap:.2f}; {fits}")


RACE_HEADS = (
    *("run", "energy x time, pJ x cycles", "of the best recorded", "gap to the bound", "CPU s", "CPU s of the record"),
    "bound, of the best recorded",
)


def write_races(found: list[Race], path: Path) -> None:
    """The table of the results."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(RACE_HEADS)
        for one in found:
            seconds = f"{one.cpu_seconds:.2f}", f"{one.their_seconds:.2f}"
            writer.writerow(
                (one.run, f"{one.edp:.3e}", f"{one.ratio:.3f}", f"{one.gap:.2f}", *seconds, f"{one.bound_ratio:.3f}")
            )


def races(runs: list[Run], config: Config) -> dict[str, Any]:
    """Search all runs anew; returns what the last line says of it."""
    warm_up()
    found = []
    for run in runs:
        one = race(run, config.seconds, config.seed)
        if one is None:
            print(f"{run.name:34} not searched: its core mapper is not known")
            continue
        found.append(one)
        pace = one.steps / one.cpu_seconds
        print(
            f"{run.name:34} {one.edp:.4e}, {one.ratio:.3f} of recorded, bound {one.bound_ratio:.3f}; gap {one.gap:.2f}; {one.cpu_seconds:.2f} s beside"
            f" {one.their_seconds:.2f} s; {pace:,.0f} trees/s",
            flush=True,
        )
    if config.table is not None and not config.contention:
        write_races(found, config.table)
    return {
        "edp_ratio_median": median(r.ratio for r in found) if found else None,
        "edp_ratio_worst": max((r.ratio for r in found), default=None),
        "cpu_seconds": sum(r.cpu_seconds for r in found),
        "their_seconds": sum(r.their_seconds for r in found),
        "gap_median": median(r.gap for r in found) if found else None,
        "races": [asdict(r) for r in found],
    }


def main(config: Config) -> dict[str, Any]:
    """Run and print; returns the last line."""
    runs = [run for run in read_runs(config.data, config.program) if config.only in run.name]
    if not runs:
        raise UserError(f"no recorded run's name holds {config.only!r}", where="--only")
    totals = Totals()
    for run in runs:
        for scheme in run.schemes:
            evaluation = compare_scheme(run, scheme, totals)
            print(f"{run.name:34} {scheme.name:6} {evaluation.edp:.6e} pJ x cycles", flush=True)
    if config.program == "gemini":
        compare_money(runs, config.data, totals)
    if config.faults:
        print_faults(runs)
    found = asdict(totals)
    if config.contention:
        found |= simulate_all(runs, config.device, config.table)
    if config.in_view:
        found |= compare_searches(runs, config.seed)
    if config.tree is not None:
        for run in runs:
            judge_tree(run, config.tree)
    if config.search:
        found |= races(runs, config)
    if config.out is not None:
        from codesign.core.files import write_json

        write_json(config.out, found)
    for key in ("races", "contended", "in_view"):
        found.pop(key, None)
    print(json.dumps(found))
    return found


def parse(arguments: list[str] | None = None) -> Config:
    """Options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--set", choices=("set", "gemini"), required=True, dest="program")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--contention", action="store_true")
    parser.add_argument("--device", help="DRAM device of --contention, for example gddr6_x16")
    parser.add_argument("--table", type=Path, help="CSV file of --contention or --search")
    parser.add_argument("--in-view", action="store_true")
    parser.add_argument("--tree", type=Path, help="file with a tree of the runs that --only names")
    parser.add_argument("--only", default="", help="part of the names of the runs that are taken")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    return Config(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    main(parse())
