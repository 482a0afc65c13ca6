"""The same problems under the same rules, theirs recorded and ours searched: one command for each peer.

``python -m experiments.head_to_head --peer PEER --data FOLDER [--table FILE]``; the row of the table replaces that of the same name. The last line is JSON: `problems`, `equal_or_better`, `better`, `proven`,
`ratio_median`, `ratio_best`, `ratio_worst` (ours over theirs, of what the peer minimises), `cpu_seconds`, `their_cpu_seconds`.

* factorflow: a folder with ``architectures.json`` and ``mappings.jsonl``. Its rules (`experiments.factorflow_rules`) are first held against every
  recorded mapping; `reproduced` counts those with the recorded energy, latency and utilisation.
* accelforge: a folder of recorded runs (``*.json``), or one with such folders in it.
* timeloop: ``tests/data/timeloop``, or a folder of that form; `reproduced` counts mappings with the recorded energy-delay product.
* zigzag: ``tests/data/zigzag``, or a folder of that form.
* airchitect: the published label tables (``*.csv``). Under MAESTRO's rules (`experiments.airchitect_rules`) the least cycles of all 768 designs are
  compared with those of the label. `reproduced` and `proven` count labels with the recorded cycles. A row of products may stem from several
  convolutions: `optimal` counts labels that no design beats for any of them, a ratio below 1 is a label beaten for each. `as_product_*` are
  about the product alone.
"""

import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from experiments import accelforge_runs
from experiments.head_peers import HeadToHeadConfig, Row, accelforge, airchitect, factorflow, timeloop, zigzag
from experiments.mappers_common import markdown, put_rows, save
from experiments.options import head_parser

PEERS = {
    "factorflow": factorflow,
    "airchitect": airchitect,
    "accelforge": accelforge,
    "timeloop": timeloop,
    "zigzag": zigzag,
}

SAME = 1.0 + 1e-9
"""Relative; for recorded numbers of double precision."""


def same_of(config: HeadToHeadConfig) -> float:
    """Ratio up to which two values are one; recorded numbers of AccelForge have fewer digits."""
    return accelforge_runs.SAME if config.peer == "accelforge" else SAME


def summary(config: HeadToHeadConfig, rows: list[Row]) -> JsonObject:
    """The object of the last line."""
    finite = [r.ratio for r in rows if r.ratio < float("inf")]
    theirs = [r.their_cpu_seconds for r in rows if r.their_cpu_seconds is not None]
    same = same_of(config)
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
    if config.peer not in ("accelforge", "zigzag"):
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


HEAD = (
    "peer",
    "problems",
    "equal or better",
    "better",
    "proven",
    "ours / theirs: median, worst, best",
    "CPU s",
    "their CPU s",
    "who wins",
    "options",
)

NAMES = {
    "factorflow": "FactorFlow, `{}`",
    "accelforge": "AccelForge, {}",
    "timeloop": "Timeloop's mapper, EDP on Simba",
    "zigzag": "ZigZag, {}",
    "airchitect": "AIrchitect v2, {}",
}
"""Rows of the table; the part is what `--only` names, of AccelForge the folder."""

PARTS = {
    "head": "`head`",
    "accelforge_regression": "regression",
    "salsa": "SALSA",
    **{f"loma{n}": f"LOMA-{n}" for n in (6, 7, 8)},
    "conv": "convolutions",
    "gemm": "products",
}


def table_row(config: HeadToHeadConfig, rows: list[Row], found: Any) -> list[str]:
    """The row of `docs/results/data/head-to-head.csv`."""
    by_folder = config.peer == "accelforge"
    part = config.data.resolve().name if by_folder else config.only
    option = f" --data {part}" if by_folder else f" --only {part}" if part else ""
    timed = sum(r.their_cpu_seconds is not None for r in rows)
    theirs = "not recorded" if not timed else f"{found['their_cpu_seconds']:.1f}"
    if 0 < timed < len(rows):
        theirs += f" ({timed} layers)"
    ratios = [found[f"ratio_{which}"] for which in ("median", "worst", "best")]
    return [
        NAMES[config.peer].format(PARTS.get(part, part)),
        *(str(found[k]) for k in ("problems", "equal_or_better", "better", "proven")),
        ", ".join("none" if r is None else ratio_text(r, same_of(config)) for r in ratios),
        f"{found['cpu_seconds']:.1f}" if found["cpu_seconds"] >= 0.1 else f"{found['cpu_seconds']:.2g}",
        theirs,
        winner(rows, found),
        f"--peer {config.peer}{option}",
    ]


def winner(rows: list[Row], found: Any) -> str:
    """Who wins in how many problems."""
    better, worse = found["better"], found["problems"] - found["equal_or_better"]
    counts = [f"{who} in {n}" for who, n in (("theirs", worse), ("ours", better)) if n]
    text = ", ".join([*counts, "else ties"] if counts else ["ties"])
    if better == found["problems"]:
        text = "ours"
    if "optimal" in found:
        text += f": {found['optimal']} labels are optimal"
    quicker = sum(r.their_cpu_seconds is not None and r.their_cpu_seconds < r.cpu_seconds for r in rows)
    return f"{text}; theirs is quicker in {quicker}" if quicker else text


def ratio_text(ratio: float, same: float) -> str:
    """A ratio with three digits after the point; 1 where it is one, one digit where it is small.

    >>> ratio_text(1.0 - 1e-12, SAME), ratio_text(0.9996, SAME), ratio_text(0.033, SAME), ratio_text(0.00071, SAME)
    ('1', '1.000', '0.033', '0.0007')
    """
    if abs(ratio - 1) <= same - 1:
        return "1"
    return f"{ratio:.3f}" if ratio >= 0.001 else f"{ratio:.1g}"


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
    if not config.data.is_dir():
        raise UserError("no such folder", where=str(config.data))
    rows = []
    for row in PEERS[config.peer](config):
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
    if config.table is not None:
        put_rows(config.table, HEAD, [table_row(config, rows, found)])
    return found


def main() -> int:
    """Run and print table and summary."""
    parser = head_parser(__doc__, out=HeadToHeadConfig.out, smoke="a small run")
    parser.add_argument("--peer", required=True, choices=PEERS)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--time-limit", type=float, default=HeadToHeadConfig.time_limit)
    parser.add_argument("--only", default="")
    parser.add_argument("--table", type=Path, default=None, help="CSV table that the row of this comparison goes into")
    given = parser.parse_args()
    config = HeadToHeadConfig(given.peer, given.data, given.time_limit, given.only, given.smoke, given.out, given.table)
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
