"""What a person asked for: a whole study. Frozen, nested, a file and the flags of `codesign explore` alike.

A file holds the fields of `StudySpec` in YAML or JSON; `study.schema.json` beside this module is its JSON schema.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from codesign.core.checks import check_least
from codesign.core.errors import UserError, unknown_name
from codesign.core.files import read_structured, write_atomic
from codesign.core.json_types import JsonObject
from codesign.core.specs import at_least, spec_from_json, spec_to_json
from codesign.evaluation.specification import EXECUTORS, ChoicesSpec, JudgeSpec, WorkloadSpec

FIDELITIES = ("one", "two")
LOW_EVALUATIONS, LOW_COST = 200, 0.1
"""Of two fidelities, where nothing else is said."""

DEFAULT_TRIALS = 40
"""Designs evaluated where nothing is said, by optimisers that do not know when they are done."""

DEFAULT_CERTIFY_S = 20.0
"""CPU seconds after a search that bound the designs it did not try, where nothing is said."""

PROVING = "exact"
"""The optimiser that goes on until the front is proven."""


@final
@dataclass(frozen=True)
class SearchSpec:
    """How the space is searched, and for what.

    Args:
        optimizer: mobo, exact (a proven front), nsga2:POPULATION, random, sobol, optuna:tpe, rl:ppo ...; an unknown name lists them.
        trials: Designs evaluated in all, those already in the study included; default 40, with exact until proven.
        epsilon: With exact: leave designs out that are at most this share better, e.g. 0.02; default 0.
        objectives: Two to four of latency, energy, power, area, edp, metrics of the space, or module:function of your own; default:
            those of the space, else latency, energy, area.
        constraints: Bounds on metrics or parameters, each like power_w<=2, latency<=5ms or pe_rows>=8.
        seed: Seed of every random choice.
        certify: CPU seconds after the search that show how much better than the front any design may be; default 20, 0 for none.
    """

    optimizer: str = "mobo"
    trials: int | None = at_least(1)
    epsilon: float | None = None
    objectives: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    seed: int = at_least(0, 0)
    certify: float | None = None

    def __post_init__(self) -> None:
        if self.certify is not None and not 0.0 <= self.certify < math.inf:
            raise UserError(f"--certify must be a number of CPU seconds, 0 for none, got {self.certify:g}")
        check_least(1, trials=self.trials)
        if self.epsilon is not None and self.optimizer != PROVING:
            raise UserError(f"--epsilon is used with --optimizer exact only, got {self.optimizer!r}")
        check_least(0, seed=self.seed)

    @property
    def certify_s(self) -> float:
        """CPU seconds after the search that bound the designs not tried."""
        return DEFAULT_CERTIFY_S if self.certify is None else self.certify


@final
@dataclass(frozen=True)
class FidelitySpec:
    """One fidelity, or two: low-fidelity evaluations first where they tell more for their price.

    Args:
        fidelities: one, or two: low-fidelity evaluations first where they tell more for their price (mobo).
        low_mapper: Mapper of low-fidelity evaluations, default anneal.
        low_evaluations: Mappings (soma: schemes) scored per layer in a low-fidelity one, default 200.
        low_cost: Price of a low-fidelity evaluation as a share of a high-fidelity one, default 0.1.
    """

    fidelities: str = "one"
    low_mapper: str | None = None
    low_evaluations: int | None = at_least(1)
    low_cost: float | None = None

    def __post_init__(self) -> None:
        if self.fidelities not in FIDELITIES:
            raise unknown_name("fidelity", self.fidelities, FIDELITIES)
        given = {
            "--low-fidelity-mapper": self.low_mapper,
            "--low-fidelity-evaluations": self.low_evaluations,
            "--low-fidelity-cost": self.low_cost,
        }
        for option, value in given.items():
            if self.fidelities == "one" and value is not None:
                raise UserError(f"{option} is used with --fidelity two only")
        check_least(1, low_evaluations=self.low_evaluations)
        if self.low_cost is not None and not 0 < self.low_cost < 1:
            raise UserError(
                f"--low-fidelity-cost must be between 0 and 1 (a share of the high-fidelity cost), got {self.low_cost:g}"
            )

    @property
    def evaluations(self) -> int:
        """Mappings or schemes scored in a low-fidelity evaluation."""
        return self.low_evaluations or LOW_EVALUATIONS

    @property
    def cost(self) -> float:
        """Price of a low-fidelity evaluation."""
        return LOW_COST if self.low_cost is None else self.low_cost


@final
@dataclass(frozen=True)
class WorkersSpec:
    """Where designs are evaluated.

    Args:
        count: Designs evaluated at once; default 1, with Ray as many as cores.
        executor: process (on this machine) or ray (on a cluster).
        ray_address: Of a running Ray cluster: auto or HOST:PORT; without it one is started here.
    """

    count: int | None = at_least(1)
    executor: str = "process"
    ray_address: str | None = None

    def __post_init__(self) -> None:
        if self.executor not in EXECUTORS:
            raise unknown_name("executor", self.executor, EXECUTORS)
        check_least(1, count=self.count, where="workers")


@final
@dataclass(frozen=True)
class PlaceSpec:
    """Where the study is kept.

    Args:
        out: Folder for study and report; the same study goes on where it stopped.
        storage: URL of the database; default the file study.db in the folder.
        study: Name of the study in that database.
    """

    out: str
    storage: str | None = None
    study: str | None = None


@final
@dataclass(frozen=True)
class StudySpec:
    """A study: what is searched, for which workload, how designs are judged, and where it is kept.

    Args:
        workload: The networks.
        place: Folder and database.
        space: Hardware space by name, or your own: a file (mine.yaml) or module:attribute; @TECHNOLOGY behind it: scratchpad@cmos-7nm.
        choices: Precision, zeros and support for zeros, beside the parameters of the space.
        search: Optimiser, trials, objectives, constraints, seed.
        judge: How a design is judged.
        fidelity: One, or low-fidelity evaluations first.
        workers: Processes or a cluster.
    """

    workload: WorkloadSpec
    place: PlaceSpec
    space: str = "scratchpad"
    choices: ChoicesSpec = field(default_factory=ChoicesSpec)
    search: SearchSpec = field(default_factory=SearchSpec)
    judge: JudgeSpec = field(default_factory=JudgeSpec)
    fidelity: FidelitySpec = field(default_factory=FidelitySpec)
    workers: WorkersSpec = field(default_factory=WorkersSpec)

    def __post_init__(self) -> None:
        if self.fidelity.fidelities == "two" and self.search.optimizer != "mobo":
            raise UserError(f"--fidelity two is a way of --optimizer mobo, got {self.search.optimizer!r}")

    def to_json(self) -> JsonObject:
        """The specification as its file holds it."""
        return spec_to_json(self)

    @classmethod
    def from_json(cls, value: Any, where: str = "study") -> "StudySpec":
        """The specification that plain values hold.

        Raises:
            UserError: A key or a value is wrong; the message names the nearest key.
        """
        return spec_from_json(cls, value, where)


def read_study_spec(path: str | Path) -> StudySpec:
    """The specification of a YAML or JSON file.

    Raises:
        UserError: The file is missing or malformed.
    """
    return StudySpec.from_json(read_structured(path), str(path))


SCHEMA_FILE = Path(__file__).with_name("study.schema.json")
"""The JSON schema that ships with the package, for editors."""


def write_study_spec(spec: StudySpec, path: str | Path) -> Path:
    """Write a specification as YAML that editors check against the schema; returns the path."""
    import yaml

    text = yaml.safe_dump(spec.to_json(), sort_keys=False, allow_unicode=True, width=120)
    head = f"# codesign explore {Path(path).name}\n# yaml-language-server: $schema={SCHEMA_FILE.as_uri()}\n"
    write_atomic(Path(path), head + text)
    return Path(path)
