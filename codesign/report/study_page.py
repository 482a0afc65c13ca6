"""The report of a study: front, hypervolume, designs, and what the chosen one does."""

from pathlib import Path
from typing import Any

from codesign.core.files import write_atomic
from codesign.evaluation.metrics import UNITS
from codesign.optim.study import REPORT_FILE, Study, hypervolume_curve
from codesign.report.page import asset, build_page

_LABELS = {
    "latency_s": "latency",
    "energy_j": "energy",
    "power_w": "power",
    "area_mm2": "area",
    "edp_js": "energy-delay product",
}


def write_report(study: Study) -> Path:
    """Write ``report.html`` into the study's folder; returns its path."""
    path = study.folder / REPORT_FILE
    title = f"Accelerators for {' + '.join(study.config['workload']['names'])}"
    write_atomic(path, build_page(title, asset("study.html"), report_data(study), asset("study.js")))
    return path


def report_data(study: Study) -> dict[str, Any]:
    """Everything the page shows, as plain values."""
    front = {t.number for t in study.front()}
    trials = [
        {
            "number": t.number,
            "point": t.point,
            "metrics": t.metrics,
            "infeasible": t.infeasible,
            "valid": study.is_valid(t),
            "front": t.number in front,
            "seconds": t.seconds,
            "elapsed": t.elapsed_s,
        }
        for t in study.trials
    ]
    reference = study.reference_point()
    curve = [] if reference is None else hypervolume_curve(study.values(study.trials), reference)
    return {
        "config": study.config,
        "versions": study.versions,
        "objectives": list(study.objectives),
        "labels": _LABELS,
        "units": UNITS,
        "trials": trials,
        "curve": curve,
        "reference": None if reference is None else list(reference),
        "details": {str(number): study.detail(number) for number in sorted(front)},
        "balanced": balanced_design(study),
    }


def balanced_design(study: Study) -> int | None:
    """The front's design with the smallest product of objectives: the page shows it first."""
    front = study.front()
    if not front:
        return None

    def product(trial: Any) -> float:
        value = 1.0
        for objective in study.objectives:
            value *= trial.metrics[objective]
        return value

    return int(min(front, key=product).number)
