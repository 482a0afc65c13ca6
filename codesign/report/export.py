"""A recorded design as files: its architecture, and every layer's problem and mapping, own form and Timeloop's."""

import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from codesign.core.errors import UserError
from codesign.core.files import write_atomic, write_json
from codesign.core.json_types import JsonObject
from codesign.evaluation.exchange import timeloop_files
from codesign.evaluation.network import MappedLayer
from codesign.evaluation.replay import recorded_space, replay_layers
from codesign.formats.convert import to_files
from codesign.formats.documents import Dialect
from codesign.formats.load import Inputs
from codesign.mapping.constraints import NO_CONSTRAINTS
from codesign.study.study import Study

_log = logging.getLogger(__name__)


def export_design(
    study: Study, number: int, folder: Path, *, space: str | None = None, allow_added: bool = True
) -> list[Path]:
    """Write a design: what `codesign evaluate` and Timeloop read.

    ``arch.yaml`` is the architecture with all energies and areas; ``layers/NN-NAME/`` has ``problem.yaml`` and ``mapping.yaml``;
    ``timeloop/NN-NAME/`` has Timeloop's architecture, problem, mapping, energy and area tables (its word is one element,
    so they differ by layer); ``design.json`` says what the design is, which trial of which study, and what each layer costs.

    Args:
        study: That holds the design.
        number: Of the trial.
        folder: To write to.
        space: ``module:attribute`` of a space that is not registered by name.
        allow_added: Whether Timeloop's architectures may have levels that keep nothing, which mappings need that unroll a
            dimension along both axes.

    Returns:
        The files, ``design.json`` first. A mapping that Timeloop's files cannot express is left out of its
        folder under ``timeloop``; a warning says why.

    Raises:
        UserError: There is no such trial, or its space cannot be had.
    """
    trial = study.trial(number)
    found = recorded_space(study.config, space)
    architecture = found.build(trial.point)
    layers = replay_layers(found, architecture, study.detail(number))
    texts = {"arch.yaml": to_files(_inputs(architecture, None), Dialect.OWN)["arch.yaml"]}
    entries = []
    for position, layer in enumerate(layers):
        place = f"{position + 1:02d}-{_file_name(layer.name)}"
        inputs = _inputs(architecture, layer)
        own = to_files(inputs, Dialect.OWN)
        texts |= {f"layers/{place}/{name}": own[name] for name in ("problem.yaml", "mapping.yaml")}
        texts |= {f"timeloop/{place}/{name}": text for name, text in _timeloop(inputs, layer.name, allow_added).items()}
        entries.append(_entry(layer, place))
    design = {
        "study": {
            key: study.config[key] for key in ("workload", "objectives", "optimizer", "mapper", "evaluation", "seed")
        },
        "space": study.config["space"]["name"],
        "trial": number,
        "point": trial.point,
        "metrics": trial.metrics,
        "infeasible": trial.infeasible,
        "versions": study.versions,
        "layers": entries,
    }
    write_json(folder / "design.json", design)
    for name, text in texts.items():
        write_atomic(folder / name, text)
    return [folder / "design.json", *(folder / name for name in texts)]


def _inputs(architecture: Any, layer: MappedLayer | None) -> Inputs:
    computation = None if layer is None else layer.computation
    return Inputs(architecture, computation, None if layer is None else layer.mapping, NO_CONSTRAINTS, ())


def _timeloop(inputs: Inputs, name: str, allow_added: bool) -> dict[str, str]:
    try:
        return timeloop_files(inputs, allow_added=allow_added)
    except UserError as error:
        _log.warning("layer %r has no mapping in Timeloop's form: %s", name, error)
        return to_files(replace(inputs, mapping=None), Dialect.TIMELOOP)


def _entry(layer: MappedLayer, place: str) -> JsonObject:
    return {
        "name": layer.name,
        "folder": f"layers/{place}",
        "count": layer.count,
        "latency_cycles": layer.cost.latency_cycles,
        "energy_pj": layer.cost.energy_pj,
    }


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("._") or "layer"
