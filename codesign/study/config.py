"""What a study searches and how, and how two of them are told apart."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from codesign.evaluation.records import ConfigRecord, EvaluationRecord, SpaceRecord, WorkloadRecord
from codesign.study.former_records import LOW_FIDELITY_PREFIX

_ABSENT = object()


@dataclass(frozen=True)
class StudyConfig:
    """What a study searches and how; two runs may share a folder only when all of this is equal.

    Args:
        space: Name and JSON of the design space.
        workload: Names, hashes, weights, batch and so on of the networks.
        objectives: Fields of the metrics to minimise.
        constraints: Bounds on metrics, such as ``power_w<=2``.
        optimizer: Name and options.
        mapper: Name and options of the inner search.
        evaluation: Options of the evaluation.
        seed: Of everything random.
    """

    space: SpaceRecord
    workload: WorkloadRecord
    objectives: tuple[str, ...]
    constraints: tuple[str, ...]
    optimizer: str
    mapper: JsonObject
    evaluation: EvaluationRecord
    seed: int

    def to_json(self) -> ConfigRecord:
        """The fields as plain values."""
        return {
            "space": self.space,
            "workload": self.workload,
            "objectives": list(self.objectives),
            "constraints": list(self.constraints),
            "optimizer": self.optimizer,
            "mapper": self.mapper,
            "evaluation": self.evaluation,
            "seed": self.seed,
        }


def check_same(recorded: ConfigRecord, asked: ConfigRecord, where: str) -> None:
    """Refuse to go on with another study.

    Raises:
        UserError: The configurations differ; the message says in what.
    """
    differences = list(_differences(_comparable(recorded), _comparable(asked)))
    if differences:
        key = differences[0][0].split(".")[0]
        shown = "; ".join(
            f"{'' if path == key else path.removeprefix(key + '.') + ': '}{_short(old)}, asked for {_short(new)}"
            for path, old, new in differences[:4]
        )
        more = f" (and {len(differences) - 4} more)" if len(differences) > 4 else ""
        raise UserError(
            f"{where} holds a study with {'other' if key.endswith('s') else 'another'} {key}: {shown}{more}",
            hint="give another --out (or --study), or the options it was started with",
        )


def _comparable(config: ConfigRecord) -> dict[str, object]:
    """The configuration without what may differ: how the optimiser is written, where the space was loaded from."""
    space = {key: value for key, value in config["space"].items() if key != "source"}
    return {**config, "space": space, "optimizer": _same_name(str(config["optimizer"]))}


def _same_name(optimizer: str) -> str:
    from codesign.optim.registry import canonical_name

    prefix = LOW_FIDELITY_PREFIX if optimizer.startswith(LOW_FIDELITY_PREFIX) else ""
    name, comma, rest = optimizer.removeprefix(prefix).partition(", ")
    return f"{prefix}{canonical_name(name)}{comma}{rest}"


def _differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two plain values differ: the path, what one has, what the other has."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in {**old, **new}:
            if old.get(key) is None and new.get(key) is None:
                continue  # an option that was not given, and one that did not exist yet
            yield from _differences(old.get(key, _ABSENT), new.get(key, _ABSENT), f"{path}.{key}" if path else str(key))
    elif isinstance(old, list) and isinstance(new, list) and old and new and _named(old) and _named(new):
        yield from _differences({v["name"]: v for v in old}, {v["name"]: v for v in new}, path)
    elif old != new:
        yield path, old, new


def _named(values: list[Any]) -> bool:
    return all(isinstance(v, Mapping) and "name" in v for v in values)


def _short(value: Any) -> str:
    text = "absent" if value is _ABSENT else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def default_name(config: ConfigRecord) -> str:
    """What a study is called in a database of many, made of what it searches.

    >>> default_name({"workload": {"names": ["alexnet"]}, "space": {"name": "scratchpad"}, "optimizer": "mobo", "seed": 3})
    'alexnet-scratchpad-mobo-seed3'
    """
    networks = "+".join(config["workload"].get("names", [])) or "workload"
    return f"{networks}-{config['space'].get('name', 'space')}-{config['optimizer']}-seed{config['seed']}"


def is_low_fidelity(config: ConfigRecord) -> bool:
    """Whether a study records the low-fidelity evaluations of another."""
    return str(config["optimizer"]).startswith(LOW_FIDELITY_PREFIX)


def note_of(config: ConfigRecord) -> str:
    """What a study searches, in Markdown."""
    bounds = f", subject to {', '.join(config['constraints'])}" if config["constraints"] else ""
    return (
        f"**Accelerators for {' + '.join(config['workload'].get('names', []))}**: designs of the space "
        f"{config['space'].get('name')}, judged with {config['mapper'].get('name')}; {', '.join(config['objectives'])} "
        f"minimised by {config['optimizer']}, seed {config['seed']}{bounds}.\n\nA trial that failed has its reason in the attribute "
        "`infeasible`; layers, mappings and breakdowns are in the report that `codesign report` makes."
    )
