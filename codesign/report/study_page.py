"""The report of a study: which accelerator to build and why, the front, the search, every design."""

from pathlib import Path

from codesign.core.files import write_atomic
from codesign.core.json_types import JsonObject
from codesign.evaluation.metrics import units_of
from codesign.report.design_data import DesignData
from codesign.report.html_page import asset, build_page
from codesign.report.importance import LEAST_TRIALS, effects
from codesign.report.recommend import knee_design, labels_of
from codesign.report.summary import EffectsRecord, is_finite, recommended_rows, summary
from codesign.study.built import BuiltRecord, read_built
from codesign.study.certified import read_certified
from codesign.study.contended import CONTENTION_FILE
from codesign.study.machines import CPU_SECONDS, MachineCycles, machine_cycles
from codesign.study.mapping_front import read_mapping_front
from codesign.study.proof import read_proof
from codesign.study.retime import TIMING_FILE
from codesign.study.simulated_fronts import read_front
from codesign.study.study import REPORT_FILE, Study, Trial, hypervolume_curve
from codesign.study.system_pages import pages_of

SCRIPTS = ("scene.js", "parallel.js", "front.js", "search.js", "table.js", "drawing.js", "design.js", "study.js")

MOST_DESIGNS = 150
"""Designs shown in detail, the front's first; a page of that many stays under some megabytes."""


def write_report(
    study: Study, *, space: str | None = None, path: Path | None = None, machine_seconds: float = CPU_SECONDS
) -> Path:
    """Write the page; returns its path.

    Args:
        study: What to report.
        space: ``module:attribute`` of a space that is not registered by name.
        path: Of the page; default ``report.html`` in the study's folder.
        machine_seconds: CPU seconds in which cycles of generated machines are predicted.
    """
    target = path or study.folder / REPORT_FILE
    title = f"Accelerators for {' + '.join(study.config['workload']['names'])}"
    write_atomic(target, build_page(title, asset("study.html"), report_data(study, space, machine_seconds), SCRIPTS))
    return target


def report_data(study: Study, space: str | None = None, machine_seconds: float = CPU_SECONDS) -> JsonObject:
    """Everything the page shows, as plain values."""
    front = {t.number for t in study.front()}
    valid = [t for t in study.trials if study.is_valid(t)]
    reference = study.reference_point()
    curve = [] if reference is None else hypervolume_curve(study.values(study.trials), reference)
    maker = DesignData(study, space)
    ordered = [t for t in valid if t.number in front] + [t for t in valid if t.number not in front]
    designs = {t.number: data for t in ordered[:MOST_DESIGNS] if (data := maker.of(t)) is not None}
    found = importance(study, valid)
    knee = knee_design(study)
    timed = read_front(study.folder / TIMING_FILE)
    built = {int(number): layers for number, layers in read_built(study.folder).items()}
    machines = machine_cycles(study, ordered, space=space, seconds=machine_seconds)
    for number in designs:
        designs[number] |= {"built": built[number]} if number in built else {}
        designs[number] |= {"machine": machines[number]} if number in machines else {}
    for key, simulated in (("events", timed), ("simulated", read_front(study.folder / CONTENTION_FILE))):
        for design in simulated:
            if isinstance(of := design["trial"], int) and of in designs:
                designs[of][key] = design
    for trial in study.front():
        if trial.number in designs and (pages := pages_of(study, trial)):
            designs[trial.number]["pages"] = pages
    mappings = read_mapping_front(study.folder)
    return {
        "config": study.config,
        "versions": study.versions,
        "objectives": list(study.objectives),
        "labels": labels_of(study.objectives),
        "units": units_of(study.objectives),
        "parameters": [p["name"] for p in study.config["space"]["space"]["parameters"]],
        "trials": [
            {
                **_trial_json(study, t, t.number in front),
                "cycles": _cycles_json(machines[t.number], built.get(t.number, [])),
            }
            if t.number in machines
            else _trial_json(study, t, t.number in front)
            for t in study.trials
        ],
        "curve": curve,
        "proof": read_certified(study) or read_proof(study.folder),
        "compromises": [] if mappings is None else [c.to_json() for c in mappings.compromises],
        "reference": None if reference is None else list(reference),
        "designs": {str(number): data for number, data in designs.items()},
        "note": maker.note,
        "importance": found,
        "least_trials": LEAST_TRIALS,
        "knee": None if knee is None else knee.number,
        "summary": summary(study, designs, found, maker.space_size),
        "recommended": recommended_rows(study, designs),
    }


def _trial_json(study: Study, trial: Trial, on_front: bool) -> JsonObject:
    broken = [] if trial.infeasible else [str(c) for c in study.constraints if not c.kept_by(trial.metrics)]
    return {
        "number": trial.number,
        "point": trial.point,
        "metrics": trial.metrics,
        "infeasible": trial.infeasible,
        "broken": broken,
        "valid": study.is_valid(trial),
        "front": on_front,
        "seconds": trial.seconds,
        "elapsed": trial.elapsed_s,
    }


def _cycles_json(machine: MachineCycles, built: list[BuiltRecord]) -> JsonObject:
    """A design's cycles by the cost model, on its machine, and simulated, those of the layers that were."""
    runs = {b["layer"]: b["simulation"]["cycles"] for b in built if "simulation" in b}
    return {
        "analytical": machine["analytical"],
        "generated": machine.get("generated"),
        "why": machine.get("why"),
        "simulated": sum(runs.values()) if runs else None,
        "simulated_layers": list(runs),
    }


def importance(study: Study, valid: list[Trial]) -> dict[str, EffectsRecord]:
    """Importance and main effects by objective; empty with too few trials."""
    if len(valid) < LEAST_TRIALS:
        return {}
    names = [p["name"] for p in study.config["space"]["space"]["parameters"]]
    found: dict[str, EffectsRecord] = {}
    for column, objective in enumerate(study.objectives):
        result = effects([t.point for t in valid], names, study.values(valid)[:, column])
        found[objective] = {
            "q2": is_finite(result.q2) or 0.0,
            "first": result.first,
            "total": result.total,
            "main": {name: [list(pair) for pair in pairs] for name, pairs in result.main.items()},
        }
    return found
