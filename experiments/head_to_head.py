"""The same problems under the same rules, theirs recorded and ours searched: one command for each peer.

``python -m experiments.head_to_head --peer factorflow|airchitect|accelforge --data FOLDER``. The last line is JSON: `problems`,
`equal_or_better`, `proven`, `ratio_median`, `ratio_worst` (ours over theirs, of what the peer minimises), `cpu_seconds`, `their_cpu_seconds`.

* factorflow: a folder with ``architectures.json`` and ``mappings.jsonl``. Its rules (`experiments.factorflow_rules`) are first held against every
  recorded mapping; `reproduced` counts those with the recorded energy, latency and utilisation.
* accelforge: a folder of recorded runs (``*.json``), or one with such folders in it.
* airchitect: the published label tables (``*.csv``). Under MAESTRO's rules (`experiments.airchitect_rules`) the least cycles of all 768 designs are
  compared with those of the label. `reproduced` and `proven` count labels with the recorded cycles. A row of products may stem from several
  convolutions: `optimal` counts labels that no design beats for any of them, a ratio below 1 is a label beaten for each. `as_product_*` are
  about the product alone.
"""

import csv
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, final

from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from experiments import accelforge_runs
from experiments.airchitect_rules import read_label
from experiments.factorflow_rules import Machine, Recorded, evaluate, read_machines, read_recorded
from experiments.factorflow_search import prepare, solve
from experiments.mappers_common import markdown, save
from experiments.options import head_parser

PEERS = ("factorflow", "airchitect", "accelforge")

SAME = 1.0 + 1e-9
"""Relative; for recorded numbers of double precision."""

REPRODUCED = 1e-9
"""Relative; how near the rules must come to a recorded figure."""


@final
@dataclass(frozen=True)
class HeadToHeadConfig:
    """What is compared.

    Args:
        peer: One of `PEERS`.
        data: Folder of what they recorded.
        time_limit: CPU seconds of each of our searches.
        only: Only problems whose name contains this.
        smoke: Only the first problem of each machine or file.
        out: Folder of results.
    """

    peer: str
    data: Path
    time_limit: float = 120.0
    only: str = ""
    smoke: bool = False
    out: Path = Path("results/head_to_head")


@final
@dataclass(frozen=True)
class Row:
    """One problem.

    Args:
        name: Of the problem.
        ratio: Ours over theirs, of what they minimise.
        proven: Whether ours is proven the least.
        cpu_seconds: Of ours.
        their_cpu_seconds: Of theirs; None where none are recorded.
        more: Further figures by name.
    """

    name: str
    ratio: float
    proven: bool
    cpu_seconds: float
    their_cpu_seconds: float | None
    more: JsonObject


def factorflow(config: HeadToHeadConfig) -> Iterator[Row]:
    """Every recorded product, searched under FactorFlow's rules for what FactorFlow minimises, and for the product alone.

    Raises:
        UserError: A file is missing or of another form.
    """
    machines = read_machines(config.data)
    seen: set[str] = set()
    _warm_up(next(iter(machines.values())))
    for run in read_recorded(config.data):
        name = f"{run.machine} {run.name}"
        if config.only not in name or (config.smoke and run.machine in seen):
            continue
        if run.machine not in machines:
            raise UserError(f"machine {run.machine!r} is not in architectures.json", where=str(config.data))
        seen.add(run.machine)
        yield _against_factorflow(machines[run.machine], run, name, config.time_limit)


def _warm_up(machine: Machine) -> None:
    """Load the compiled code, so that it is not counted."""
    solve(machine, (16, 16, 16), by_use=True, time_limit_s=10.0)


def _against_factorflow(machine: Machine, run: Recorded, name: str, time_limit: float) -> Row:
    started = time.process_time()
    ready = prepare(machine, run.sizes)
    found = solve(machine, run.sizes, by_use=True, time_limit_s=time_limit, prepared=ready)
    spent = time.process_time() - started
    plain = solve(machine, run.sizes, by_use=False, time_limit_s=time_limit, prepared=ready)
    more: dict[str, Any] = {"sizes": list(run.sizes), "reproduced": _reproduced(machine, run)}
    if found.figures is None:
        return Row(name, float("inf"), False, spent, run.cpu_seconds, more)
    more["edp_ratio"] = None if plain.figures is None else plain.figures.edp / run.figures.edp
    more["edp_proven"] = plain.proven
    more["edp_cpu_seconds"] = time.process_time() - started - spent
    return Row(name, found.figures.goal / run.figures.goal, found.proven, spent, run.cpu_seconds, more)


def _reproduced(machine: Machine, run: Recorded) -> bool | None:
    """Whether the rules give what was recorded; None where no mapping was."""
    if run.loops is None:
        return None
    try:
        found = evaluate(machine, run.sizes, run.loops)
    except UserError:
        return False
    pairs = (
        (found.energy_pj, run.figures.energy_pj),
        (found.latency_cycles, run.figures.latency_cycles),
        (found.utilisation, run.figures.utilisation),
    )
    return all(abs(a - b) <= REPRODUCED * abs(b) for a, b in pairs)


def accelforge(config: HeadToHeadConfig) -> Iterator[Row]:
    """Every recorded run under AccelForge's rules.

    Raises:
        UserError: No run is there.
    """
    folders = [config.data] if _holds_runs(config.data) else sorted(p for p in config.data.iterdir() if _holds_runs(p))
    if not folders:
        raise UserError("no recorded runs (*.json, or results.csv) there or in folders there", where=str(config.data))
    accelforge_runs.warm_up()
    for folder in folders:
        kind = "regression" if (folder / "results.csv").exists() else "head"
        for name, run in accelforge_runs.read_runs(accelforge_runs.Config(kind, folder)):
            if config.only not in name:
                continue
            yield _against_accelforge(f"{folder.name} {name}", run, config.time_limit)
            if config.smoke:
                break


def _holds_runs(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    if (folder / "results.csv").exists():
        return True
    return any('"metric"' in p.read_text(encoding="utf-8", errors="replace") for p in sorted(folder.glob("*.json"))[:3])


def _against_accelforge(name: str, run: accelforge_runs.Run | UserError, time_limit: float) -> Row:
    try:
        if isinstance(run, UserError):
            raise run
        found = accelforge_runs.compare(run, time_limit)
    except (UserError, *accelforge_runs.BROKEN) as error:
        return Row(name, float("inf"), False, 0.0, None, {"status": f"not supported: {error}"})
    theirs = found["theirs"]["cpu_seconds"]
    return Row(name, found["ratio"], found["proven"], found["ours"]["cpu_seconds"], theirs, {"goal": found["goal"]})


def airchitect(config: HeadToHeadConfig) -> Iterator[Row]:
    """Every label against the best of all designs.

    Raises:
        UserError: No table is there, or a row is of another form.
    """
    paths = sorted(config.data.glob("*.csv"))
    if not paths:
        raise UserError("no label tables (*.csv) there", where=str(config.data))
    for path in paths:
        with path.open(encoding="utf-8", newline="") as file:
            for number, row in enumerate(csv.DictReader(file)):
                if config.smoke and number:
                    break
                name = f"{path.stem} {number + 1}"
                if config.only not in name:
                    continue
                started = time.process_time()
                try:
                    label = read_label(row)
                except (UserError, KeyError, ValueError, TypeError) as error:
                    raise UserError(f"row {number + 1}: {type(error).__name__} {error}", where=str(path)) from error
                ratios = [label.ratio_of(v) for v in label.convolutions] or [float("inf")]
                more: dict[str, Any] = {
                    "reproduced": label.reproduced,
                    "optimal": label.reproduced and min(ratios) == 1.0,
                }
                if label.product is not None:
                    more["as_product"] = label.ratio_of(label.product)
                yield Row(name, max(ratios), label.reproduced, time.process_time() - started, None, more)


def summary(config: HeadToHeadConfig, rows: list[Row]) -> JsonObject:
    """The object of the last line."""
    finite = [r.ratio for r in rows if r.ratio < float("inf")]
    theirs = [r.their_cpu_seconds for r in rows if r.their_cpu_seconds is not None]
    same = accelforge_runs.SAME if config.peer == "accelforge" else SAME
    found: dict[str, Any] = {
        "peer": config.peer,
        "problems": len(rows),
        "equal_or_better": sum(r.ratio <= same for r in rows),
        "better": sum(r.ratio < 1.0 / same for r in rows),
        "proven": sum(r.proven for r in rows),
        "ratio_median": median(finite) if finite else None,
        "ratio_best": min(finite, default=None),
        "ratio_worst": None if len(finite) < len(rows) else max(finite, default=None),
        "cpu_seconds": round(sum(r.cpu_seconds for r in rows), 3),
        "their_cpu_seconds": round(sum(theirs), 3) if theirs else None,
        "not_mapped": len(rows) - len(finite),
    }
    if config.peer != "accelforge":
        found["reproduced"] = sum(r.more["reproduced"] is True for r in rows)
    if config.peer == "factorflow":
        edp = [float(str(r.more["edp_ratio"])) for r in rows if r.more.get("edp_ratio") is not None]
        found |= {
            "edp_proven": sum(r.more.get("edp_proven") is True for r in rows),
            "edp_ratio_median": median(edp) if edp else None,
            "edp_ratio_worst": max(edp, default=None),
        }
    if config.peer == "airchitect":
        found["optimal"] = sum(r.more["optimal"] is True for r in rows)
        alone = [float(str(r.more["as_product"])) for r in rows if "as_product" in r.more]
        found |= {"as_product_optimal": sum(v == 1.0 for v in alone), "as_product_worst": min(alone, default=None)}
    return found


def table(rows: list[Row]) -> str:
    """The rows as Markdown, at most a thousand."""
    lines = [
        [
            r.name,
            f"{r.ratio:.6f}",
            "yes" if r.proven else "no",
            f"{r.cpu_seconds:.2f}",
            "" if r.their_cpu_seconds is None else f"{r.their_cpu_seconds:.2f}",
        ]
        for r in rows[:1000]
    ]
    return markdown(["problem", "ours / theirs", "proven", "CPU s", "their CPU s"], lines)


def run(config: HeadToHeadConfig) -> JsonObject:
    """Compare, write `results.json` and `table.md`; returns the summary.

    Raises:
        UserError: The peer is unknown or its data cannot be read.
    """
    peers = {"factorflow": factorflow, "airchitect": airchitect, "accelforge": accelforge}
    if not config.data.is_dir():
        raise UserError("no such folder", where=str(config.data))
    rows = []
    for row in peers[config.peer](config):
        rows.append(row)
        if config.peer != "airchitect":
            print(
                f"{row.name}: ratio {row.ratio:.6f}, {'proven' if row.proven else 'not proven'}, {row.cpu_seconds:.2f} CPU s",
                file=sys.stderr,
                flush=True,
            )
    found = summary(config, rows)
    kept = [
        {"name": r.name, "ratio": r.ratio, "proven": r.proven, "cpu_seconds": r.cpu_seconds, **r.more} for r in rows
    ]
    save(config.out / config.peer, config, {"rows": kept[:1000], "summary": found}, table(rows))
    return found


def main() -> int:
    """Run and print table and summary."""
    parser = head_parser(__doc__, out=HeadToHeadConfig.out, smoke="a small run")
    parser.add_argument("--peer", required=True, choices=PEERS)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--time-limit", type=float, default=HeadToHeadConfig.time_limit)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    config = HeadToHeadConfig(given.peer, given.data, given.time_limit, given.only, given.smoke, given.out)
    try:
        found = run(config)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print((config.out / config.peer / "table.md").read_text(encoding="utf-8"))
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
