"""A front in generated cycles beside the analytical one: `python -m experiments.generated_front --study runs/demo`.

Every feasible design of a study is judged a second time, by the cycles of the machine that `codesign build` generates for it (table `generated`), with
mappings chosen for these cycles and sums of 32 bits. Designs that stand on the analytical front but not on the generated one were wrongly chosen. What that
cost is the largest factor by which one other design is better in every objective at once. The last line is one JSON object.
"""

import argparse
import csv
import io
import json
import statistics
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codesign.cli.study_location import open_study
from codesign.core.files import write_atomic
from codesign.evaluation.design import DesignEvaluator
from codesign.evaluation.detail import LayersDetail
from codesign.evaluation.generated import WithMachinePorts
from codesign.evaluation.judges import load_networks
from codesign.evaluation.replay import recorded_mapper, recorded_options, recorded_space
from codesign.evaluation.specification import WorkloadSpec
from codesign.evaluation.timed import EventEvaluator
from codesign.optim.pareto import nondominated
from codesign.report.recommend import recommendations
from codesign.study.study import Study
from codesign.timing.table import load_timing
from codesign.workloads.workload import Workload

TABLE = "generated"
SUM_BITS = 32
OBJECTIVES = ("latency_s", "energy_j", "area_mm2")


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        study: Folder of a study whose machines are generated, judged analytically.
        candidates: Mappings of a layer that are timed on a design.
        designs: The first so many designs of the study; 0 for all.
        out: Where the table goes, or None.
        resume: A file that keeps the designs judged so far, or None.
    """

    study: str
    candidates: int
    designs: int
    out: Path | None
    resume: Path | None


@dataclass(frozen=True)
class Row:
    """A design under both models.

    Args:
        trial: Its number.
        array: Rows and columns.
        links: How operands reach its elements.
        roles: What the study's report recommends it as.
        analytic_front, generated_front: Whether it stands there.
        analytic_ms, generated_ms: Latency, as the study recorded it and on the machine.
        ratio: Of the two.
        analytic_mj, generated_mj: Energy; leakage lasts as long as the run.
        area_mm2: Area.
        layer_ratio: Median over layers of generated cycles over analytical ones with the machine's ports (K7).
        loss: By how much one other design is better in every objective at once, in generated cycles; 1 on the front.
    """

    trial: int
    array: str
    links: str
    roles: str
    analytic_front: bool
    generated_front: bool
    analytic_ms: float
    generated_ms: float
    ratio: float
    analytic_mj: float
    generated_mj: float
    area_mm2: float
    layer_ratio: float
    loss: float


def main() -> None:
    """Parse, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", default="runs/demo", help="folder of the study")
    parser.add_argument("--candidates", type=int, default=64, help="mappings of a layer that are timed")
    parser.add_argument("--designs", type=int, default=0, help="the study's first designs; 0 for all")
    parser.add_argument("--out", type=Path, help="a CSV file for the table")
    parser.add_argument("--resume", type=Path, help="a file that keeps the designs judged so far")
    given = parser.parse_args()
    config = Config(given.study, given.candidates, given.designs, given.out, given.resume)
    study = open_study(config.study)
    rows = judged(study, config)
    if config.out is not None:
        config.out.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(config.out, table(rows))
    print(json.dumps(summary(rows)))


def judged(study: Study, config: Config) -> list[Row]:
    """Every feasible design of the study under both models."""
    evaluate, known = evaluator(study, config.candidates), recorded(config)
    trials = [t for t in study.trials if study.is_valid(t)][: config.designs or None]
    found = []
    for trial in trials:
        if str(trial.number) in known:
            found.append((trial, known[str(trial.number)][0], known[str(trial.number)][1]))
            continue
        evaluation = evaluate(trial.point)
        if evaluation.metrics is None:
            print(f"trial {trial.number} has no machine: {evaluation.infeasible}", file=sys.stderr)
            continue
        detail = evaluation.detail
        assert isinstance(detail, LayersDetail)
        ratios = [x["event_cycles"] / x["latency_cycles"] for x in detail.layers]
        found.append((trial, evaluation.metrics.to_dict(), statistics.median(ratios)))
        if config.resume is not None:
            known[str(trial.number)] = (found[-1][1], found[-1][2])
            write_atomic(config.resume, json.dumps(known))
        print(f"trial {trial.number}: {found[-1][1]['latency_s'] / trial.metrics['latency_s']:.2f}", file=sys.stderr)
    before = np.array([[t.metrics[o] for o in OBJECTIVES] for t, _, _ in found])
    after = np.array([[m[o] for o in OBJECTIVES] for _, m, _ in found])
    fronts, losses = (nondominated(before), nondominated(after)), loss_of(after)
    roles = {r.trial.number: ", ".join(r.roles) for r in recommendations(study)}
    return [
        Row(
            trial=trial.number,
            array=f"{trial.point['pe_rows']} x {trial.point['pe_cols']}",
            links=str(trial.point["links"]),
            roles=roles.get(trial.number, ""),
            analytic_front=bool(fronts[0][k]),
            generated_front=bool(fronts[1][k]),
            analytic_ms=round(1e3 * before[k, 0], 4),
            generated_ms=round(1e3 * after[k, 0], 4),
            ratio=round(after[k, 0] / before[k, 0], 3),
            analytic_mj=round(1e3 * before[k, 1], 4),
            generated_mj=round(1e3 * after[k, 1], 4),
            area_mm2=round(float(after[k, 2]), 4),
            layer_ratio=round(ratio, 3),
            loss=round(float(losses[k]), 4),
        )
        for k, (trial, _, ratio) in enumerate(found)
    ]


def recorded(config: Config) -> dict[str, tuple[dict[str, float], float]]:
    """Metrics and median ratio by trial that an interrupted run has left."""
    if config.resume is None or not config.resume.exists():
        return {}
    return {key: (value[0], value[1]) for key, value in json.loads(config.resume.read_text("utf-8")).items()}


def evaluator(study: Study, candidates: int) -> EventEvaluator:
    """Judges the study's designs by their machines' cycles, with the study's own mapper, objective and effort."""
    config = study.config
    space = WithMachinePorts(recorded_space(config), load_timing(TABLE))
    recorded = config["workload"]
    names = {key: recorded.get(key) for key in ("batch", "seq", "past", "phase", "dims")}
    asked = WorkloadSpec(networks=tuple(recorded["networks"]), **names)  # type: ignore[arg-type]
    workload = Workload.of(load_networks(asked, space, SUM_BITS), tuple(recorded["weights"]))
    inner = DesignEvaluator(space, workload, recorded_mapper(config), recorded_options(config))
    return EventEvaluator(inner, TABLE, candidates)


def loss_of(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """By row, the largest factor by which another row is smaller in every column; 1 where none is.

    >>> loss_of(np.array([[2.0, 3.0], [1.0, 1.0], [4.0, 0.5]])).tolist()
    [2.0, 1.0, 1.0]
    """
    factors = (values[:, None, :] / values[None, :, :]).min(axis=2)
    return np.asarray(np.maximum(factors.max(axis=1), 1.0))


def table(rows: list[Row]) -> str:
    """The rows as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([f.name.replace("_", " ") for f in fields(Row)])
    for row in rows:
        values = asdict(row).values()
        writer.writerow([("yes" if v else "no") if isinstance(v, bool) else v for v in values])
    return text.getvalue()


def summary(rows: list[Row]) -> dict[str, float | int | list[int]]:
    """The last line."""
    wrong = [r for r in rows if r.analytic_front and not r.generated_front]
    missed = [r for r in rows if r.generated_front and not r.analytic_front]
    chosen = min(rows, key=lambda r: r.analytic_ms)
    fastest = min(rows, key=lambda r: r.generated_ms)
    return {
        "designs": len(rows),
        "analytic_front": sum(r.analytic_front for r in rows),
        "generated_front": sum(r.generated_front for r in rows),
        "wrongly_chosen": [r.trial for r in wrong],
        "missed": [r.trial for r in missed],
        "worst_loss": max((r.loss for r in wrong), default=1.0),
        "ratio_median": statistics.median(r.ratio for r in rows),
        "ratio_worst": max(r.ratio for r in rows),
        "layer_ratio_median": statistics.median(r.layer_ratio for r in rows),
        "fastest_loss": round(chosen.generated_ms / fastest.generated_ms, 3),
    }


if __name__ == "__main__":
    main()
