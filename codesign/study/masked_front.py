"""What recorded masks change for the front of a study (rule Z8): designs are searched with densities, their mappings costed with masks."""

from codesign.core.errors import UserError
from codesign.evaluation.judges import load_networks
from codesign.evaluation.real_masks import compare_mappings
from codesign.evaluation.replay import recorded_space
from codesign.mapping.files import mapping_from_json
from codesign.study.specification import StudySpec
from codesign.study.study import Study, Trial
from codesign.workloads.network import Network
from codesign.workloads.network_zeros import NetworkZeros, with_zeros

MOST_DESIGNS = 8
"""Of the front; the rest are not costed again."""


def masked_front(study: Study, spec: StudySpec) -> list[str]:
    """A sentence a design of the front: its cost with real masks, and how far zeros spread evenly are off.

    Empty where no masks were recorded, and for studies of several networks, of precisions, or of whole schedules.
    """
    texts = [text for text in spec.choices.zeros if NetworkZeros.parse(text).has_masks]
    several = spec.workload.serving is not None or len(spec.workload.networks) != 1 or bool(spec.choices.precision)
    if not texts or several or spec.judge.scheduler != "layers":
        return []
    (network,) = load_networks(spec.workload, recorded_space(study.config))
    sentences = []
    for trial in study.front()[:MOST_DESIGNS]:
        text = str(trial.point.get("zeros", spec.choices.zeros[0]))
        if text in texts:
            sentences += [f"trial {trial.number}: {line}" for line in _of_trial(study, trial, network, text)]
    return sentences


def _of_trial(study: Study, trial: Trial, network: Network, text: str) -> list[str]:
    zeros = NetworkZeros.parse(text)
    mappings = [
        (entry["name"], entry["count"], mapping_from_json(entry["mapping"], f"layer {entry['name']!r}"))
        for entry in study.detail(trial.number).get("layers", ())
    ]
    try:
        architecture = recorded_space(study.config).build(trial.point)
        return compare_mappings(with_zeros(network, zeros), architecture, mappings, zeros).describe()
    except UserError as error:
        return [f"not costed with its masks: {error}"]
