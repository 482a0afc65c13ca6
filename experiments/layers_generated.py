"""Layers at full size on the machines of a study's recommended designs: `python -m experiments.layers_generated --study runs/demo`.

Each design that the study's report recommends is judged by the cycles of the machine that `codesign build` generates for it, as in
`experiments.generated_front`: mappings chosen for these cycles, sums of 32 bits. A row has a layer's cycles on the machine (K1 to K6) and the analytical
model's with the machine's ports (K7), which no run is below. Nothing is simulated. The last line is one JSON object.
"""

import argparse
import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from codesign.cli.study_location import open_study
from codesign.core.errors import UserError
from codesign.core.files import write_atomic
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost, evaluate
from codesign.evaluation.detail import LayersDetail
from codesign.evaluation.replay import recorded_space, replay_layers
from codesign.hardware.analytical import array_least, least_cycles, side_of_machine
from codesign.hardware.cycles import best_timed_plan
from codesign.hardware.port_counts import counts_of_cost
from codesign.hardware.timed import machine_of, timing_at
from codesign.report.recommend import Recommendation, recommendations
from codesign.study.study import Study
from codesign.timing.table import load_timing
from experiments.generated_front import TABLE, evaluator
from experiments.mappers_common import csv_of, markdown


@dataclass(frozen=True)
class Row:
    """A layer on one design's machine.

    Args:
        trial: The design's number.
        roles: What the study's report recommends it as.
        array: Rows and columns.
        layer: Its name; `count` times in the network.
        count: How often it stands there.
        macs: Multiplications.
        analytic_cycles: By K7, for the mapping that the machine runs.
        cycles: On the machine, by K1 to K6.
        ratio: Of the two.
    """

    trial: int
    roles: str
    array: str
    layer: str
    count: float
    macs: int
    analytic_cycles: int
    cycles: int
    ratio: float


def design_rows(study: Study, found: Recommendation, candidates: int) -> list[Row]:
    """The layers of a design, judged anew; none where no machine runs one of them."""
    trial, space = found.trial, recorded_space(study.config)
    evaluation = evaluator(study, candidates)(trial.point)
    if evaluation.metrics is None:
        print(f"trial {trial.number} has no machine: {evaluation.infeasible}", file=sys.stderr)
        return []
    detail = evaluation.detail
    assert isinstance(detail, LayersDetail)
    architecture, timing = space.build(trial.point), timing_at(load_timing(TABLE), dict(trial.point))
    rows = []
    for layer in replay_layers(space, architecture, detail.to_json()):
        c = layer.computation
        p, memory = machine_of(c, architecture, timing)
        plan, times = best_timed_plan(c, architecture, layer.mapping, p, memory=memory)
        cost = evaluate(c, architecture, layer.mapping, reuse=Reuse.WHOLE)
        assert isinstance(cost, Cost)
        counts = counts_of_cost(cost, c)
        least = least_cycles(counts, c.output.name, p, side_of_machine(p, memory), array_least(plan))
        roles, array = ", ".join(found.roles), f"{trial.point['pe_rows']} x {trial.point['pe_cols']}"
        ratio = round(times.cycles / least, 3)
        rows.append(Row(trial.number, roles, array, layer.name, layer.count, c.macs, least, times.cycles, ratio))
    return rows


def by_design(rows: list[Row]) -> list[dict[str, object]]:
    """By design: the whole network's ratio, the median and the worst layer's, and how many stay within 1.3."""
    found: list[dict[str, object]] = []
    for trial in dict.fromkeys(r.trial for r in rows):
        mine = [r for r in rows if r.trial == trial]
        cycles, least = (sum(getattr(r, name) * r.count for r in mine) for name in ("cycles", "analytic_cycles"))
        found.append(
            {
                "trial": trial,
                "roles": mine[0].roles,
                "array": mine[0].array,
                "layers": len(mine),
                "network_ratio": round(cycles / least, 3),
                "median_ratio": round(statistics.median(r.ratio for r in mine), 3),
                "worst_ratio": max(r.ratio for r in mine),
                "within_1_3": sum(r.ratio <= 1.3 for r in mine),
            }
        )
    return found


def main() -> None:
    """Parse, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", default="runs/demo", help="folder of the study")
    parser.add_argument("--candidates", type=int, default=64, help="mappings of a layer that are timed")
    parser.add_argument("--out", type=Path, help="a CSV file for all layers")
    given = parser.parse_args()
    study, rows = open_study(given.study), []
    for found in recommendations(study):
        rows += design_rows(study, found, given.candidates)
        print(f"trial {found.trial.number} ({', '.join(found.roles)}) judged", file=sys.stderr, flush=True)
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(given.out, csv_of(rows, Row))
    designs = by_design(rows)
    if designs:
        print(markdown(tuple(designs[0]), [[str(v) for v in d.values()] for d in designs]))
    print(json.dumps({"designs": designs, "worst_ratio": max((r.ratio for r in rows), default=0.0)}))


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
