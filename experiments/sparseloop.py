"""Recorded runs of Sparseloop (MICRO 2022) under its own rules, and true cycles: `python -m experiments.sparseloop --data FOLDER`.

Every recorded count (actual, gated and skipped accesses, metadata per rank, MACs) and the cycles are computed anew from the
densities, the formats, the actions and the mapping. A count agrees within 1 % or one access, since the record is rounded to whole
numbers. The last line of the output is one JSON object.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from codesign.core.errors import UserError
from codesign.cost.sparse.expectation import Flow, RankAccesses, Reading, SparseCounts, expect
from experiments.sparseloop_cases import Case, Unread, read_each, read_json, read_rows

TOLERANCE = 0.01


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        data: Folder of the recorded runs.
        smoke: Only the first runs.
        verbose: Also print every count that differs.
    """

    data: Path = Path(os.environ.get("CODESIGN_REFERENCE", "tests/data")) / "sparseloop"
    smoke: bool = False
    verbose: bool = False


@dataclass(frozen=True)
class Compared:
    """One recorded number.

    Args:
        what: Level, tensor, access.
        ours: Computed.
        recorded: In the file.
    """

    what: str
    ours: float
    recorded: float

    @property
    def agrees(self) -> bool:
        """Within 1 %, or within the rounding to a whole number."""
        return abs(self.ours - self.recorded) <= max(TOLERANCE * abs(self.recorded), 1.0)


def compare(case: Case, expected: SparseCounts) -> list[Compared]:
    """All recorded counts of a case beside ours."""
    row = case.row
    found = [
        Compared("cycles", expected.latency_cycles, float(row["cycles"])),
        Compared("MACs actual", expected.macs.actual, float(row["actual_computes"])),
        Compared("MACs gated", expected.macs.gated, float(row["gated_computes"] or 0)),
        Compared("MACs skipped", expected.macs.skipped, float(row["skipped_computes"] or 0)),
    ]
    names = [level.name for level in case.architecture.levels]
    ours = {(names[x.level], x.tensor): x for x in expected.traffic}
    for recorded in case.counts:
        traffic = ours[recorded["level_name"], recorded["tensor"]]
        for kind, flow in (("reads", traffic.reads), ("fills", traffic.fills), ("updates", traffic.updates)):
            what = f"{recorded['level_name']} {recorded['tensor']} {kind}"
            found.append(Compared(f"{what} dense", flow.dense, float(recorded[f"algorithmic_{kind}"])))
            found.extend(
                Compared(f"{what} {fate}", getattr(flow.data, fate), float(recorded[f"{fate}_{kind}"]))
                for fate in ("actual", "gated", "skipped")
            )
            found.extend(_metadata(what, flow, recorded[f"format_{kind}_by_rank"]))
    return found


def _metadata(what: str, flow: Flow, recorded: str) -> Iterator[Compared]:
    """Entries per rank. The record is a plain 0 where they have no bits."""
    if recorded in ("", "0"):
        if sum(rank.bits(8, None) for rank in flow.ranks) > 0.0:
            yield Compared(f"{what} metadata", sum(rank.metadata.actual for rank in flow.ranks), 0.0)
        return
    for part in recorded.split(";"):
        rank, _, entries = part.partition(":")
        metadata, _, payload = entries.partition("/")
        ours: RankAccesses | None = flow.ranks[int(rank)] if int(rank) < len(flow.ranks) else None
        yield Compared(f"{what} rank {rank} metadata", ours.metadata.actual if ours else 0.0, float(metadata))
        yield Compared(f"{what} rank {rank} payload", ours.payload.actual if ours else 0.0, float(payload))


def explanation(case: Case) -> str:
    """The rule that explains a difference, or nothing.

    Only what the folder lacks explains one: a run on masks of which the folder has the density alone (law A7).
    """
    return "; ".join(case.notes)


@dataclass(frozen=True)
class Layer:
    """A MobileNet layer with true cycles.

    Args:
        name: The layer.
        true_cycles: One effective MAC a cycle.
        by_densities: Expected effective MACs from the two densities.
        by_masks: Sum over channels of input times weight non-zeros; None where the masks are not given.
        sparseloop: Its prediction from the same densities; None where there is none.
    """

    name: str
    true_cycles: int
    by_densities: float
    by_masks: int | None
    sparseloop: float | None

    def error(self, cycles: float) -> float:
        """Relative to the true cycles."""
        return cycles / self.true_cycles - 1.0


def layers(folder: Path) -> list[Layer]:
    """The layers of a folder whose problem it tells."""
    masks = read_json(folder / "mask_nonzeros.json")
    found = []
    for row in read_rows(folder / "eyerissv2_pe_mobilenet.csv"):
        if not row["problem"] or not row["density_inputs"] or not row["density_weights"]:
            continue
        macs = 1
        for pair in row["problem"].split():
            macs *= int(pair.split("=")[1])
        by_masks = None
        if row["layer"] in masks:
            mask = masks[row["layer"]]
            pairs = zip(mask["input_nonzeros_per_channel"], mask["weight_nonzeros_per_channel"], strict=True)
            by_masks = sum(i * w for i, w in pairs)
        theirs = row.get("sparseloop_uniform_cycles") or row.get("sparseloop_paper_cycles")
        densities = float(row["density_inputs"]) * float(row["density_weights"])
        found.append(
            Layer(
                row["layer"],
                int(row["ground_truth_cycles"]),
                macs * densities,
                by_masks,
                float(theirs) if theirs else None,
            )
        )
    return found


def _errors(values: list[float]) -> tuple[float | None, float | None]:
    """Mean and worst size of some errors."""
    sizes = [abs(v) for v in values]
    return (sum(sizes) / len(sizes), max(sizes)) if sizes else (None, None)


def run(config: Config) -> dict[str, object]:
    """Compare a folder; prints a line for every case that differs.

    Raises:
        UserError: The folder has no recorded runs.
    """
    cases = list(read_each(config.data))
    cases = cases[:5] if config.smoke else cases
    matched = explained = total = agreeing = 0
    for case in cases:
        if isinstance(case, Unread):
            print(f"{case.name}: not read: {case.reason}")
            continue
        try:
            expected = expect(case.computation, case.architecture, case.mapping, reading=Reading.SPARSELOOP)
            compared = compare(case, expected)
        except UserError as error:
            print(f"{case.name}: not computed: {error}")
            continue
        off = [x for x in compared if not x.agrees]
        total, agreeing = total + len(compared), agreeing + len(compared) - len(off)
        matched += not off
        if off:
            why = explanation(case)
            explained += bool(why)
            print(f"{case.name}: {len(off)} of {len(compared)} counts differ{f' ({why})' if why else ''}")
            if config.verbose:
                for x in off:
                    print(f"    {x.what}: {x.ours:,.1f}, recorded {x.recorded:,.0f}")
    known = layers(config.data)
    for layer in known:
        print(
            f"{layer.name}: true cycles {layer.true_cycles:,}, by densities {layer.error(layer.by_densities):+.2%},"
            f" by masks {'-' if layer.by_masks is None else format(layer.error(layer.by_masks), '+.2%')}"
        )
    best = [x.error(x.by_densities if x.by_masks is None else x.by_masks) for x in known]
    densities = [x.error(x.by_densities) for x in known]
    theirs = [x.error(x.sparseloop) for x in known if x.sparseloop is not None]
    return {
        "cases": len(cases),
        "counts_within_1_percent": matched,
        "explained": explained,
        "counts": total,
        "counts_agreeing": agreeing,
        "cycles_mean_error": _errors(best)[0],
        "cycles_worst_error": _errors(best)[1],
        "layers": len(known),
        "layers_with_masks": sum(x.by_masks is not None for x in known),
        "densities_only_mean_error": _errors(densities)[0],
        "densities_only_worst_error": _errors(densities)[1],
        "sparseloop_mean_error_same_layers": _errors(theirs)[0],
        "sparseloop_worst_error_same_layers": _errors(theirs)[1],
    }


def main() -> int:
    """Parse the options, run, print one JSON object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Config.data, help="folder of the recorded runs")
    parser.add_argument("--smoke", action="store_true", help="only the first runs")
    parser.add_argument("--verbose", action="store_true", help="print every count that differs")
    options = parser.parse_args()
    try:
        result = run(Config(options.data, options.smoke, options.verbose))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
