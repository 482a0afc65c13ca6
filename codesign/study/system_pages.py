"""The front of a study of systems of many cores as files: each system, each tree, and a page that draws them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from codesign.arch.many_core import ManyCore
from codesign.core.files import write_atomic, write_json
from codesign.core.specs import spec_from_json
from codesign.evaluation.many_cores import SegmentsEvaluator
from codesign.scheduling.segments.bound import bound_of
from codesign.scheduling.segments.contention import Simulated
from codesign.scheduling.segments.evaluate import SEMANTICS, Evaluator
from codesign.scheduling.segments.layers import SegmentNetwork
from codesign.scheduling.segments.system_page import page
from codesign.scheduling.segments.tree_files import tree_from_json
from codesign.study.contended import ContendedDesign
from codesign.study.study import Study, Trial

FOLDER = "schedules"
"""What a study's folder holds the pages in."""

MOST_PAGES = 96
"""Pages that are written at most."""


def write_system_pages(
    study: Study, judged: SegmentsEvaluator, contended: Sequence[ContendedDesign] = ()
) -> list[Path]:
    """Write the designs of the front: ``trial-N.yaml`` for `schedule --arch`, and for each network a tree and a page.

    Args:
        study: With its trials.
        judged: How they were judged.
        contended: Designs that were simulated; their pages show links and cycles of the simulation.

    Returns:
        The pages.
    """
    folder = study.folder / FOLDER
    pages: list[Path] = []
    simulated = {(design.trial, network.name): network.run for design in contended for network in design.networks}
    by_name = {network.name: network for network, _ in judged.networks}
    for trial in study.front():
        for record in study.detail(trial.number).get("networks", ()):
            if len(pages) < MOST_PAGES and "encoding" in record and record["name"] in by_name:
                folder.mkdir(exist_ok=True)
                network = by_name[record["name"]]
                shown = simulated.get((trial.number, network.name))
                pages.append(_page(folder, trial.number, network, record["encoding"], judged, shown))
    return pages


def pages_of(study: Study, trial: Trial) -> dict[str, str]:
    """The pages of a design that are there, from the study's folder; by network."""
    named = {
        r["name"]: f"{FOLDER}/trial-{trial.number}-{r['name']}.html"
        for r in study.detail(trial.number).get("networks", ())
    }
    return {name: path for name, path in named.items() if (study.folder / path).is_file()}


def _page(
    folder: Path,
    trial: int,
    network: SegmentNetwork,
    encoding: Any,
    judged: SegmentsEvaluator,
    simulated: Simulated | None,
) -> Path:
    system = spec_from_json(ManyCore, encoding["system"], f"trial {trial}")
    evaluator = Evaluator(system, network, SEMANTICS[judged.rules])
    found = evaluator.evaluate(tree_from_json(encoding["tree"], network, f"trial {trial}"))
    write_atomic(folder / f"trial-{trial}.yaml", yaml.safe_dump(encoding["system"], sort_keys=False))
    name = f"trial-{trial}-{network.name}"
    write_json(folder / f"{name}.json", {"tree": encoding["tree"]})
    path = folder / f"{name}.html"
    write_atomic(path, page(evaluator, found, bound_of(evaluator, judged.batch), simulated))
    return path
