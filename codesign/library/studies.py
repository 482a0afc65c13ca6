"""`explore`, `open_study` and `compare`: the Pareto front of accelerators for a workload, and what studies recorded, as results."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from codesign.evaluation.records import DetailRecord
from codesign.library.results import AbstractResult
from codesign.optim.certificate import Certificate
from codesign.optim.certify import CertifiedFront
from codesign.report.compare import Comparison, comparison_json
from codesign.report.compare import compare as compare_studies
from codesign.study.contended import ContendedDesign
from codesign.study.mapping_front import MappingFront
from codesign.study.retime import TimedDesign
from codesign.study.specification import StudySpec, read_study_spec
from codesign.study.study import Study, Trial

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from codesign.study.front_check import FrontDocument
    from codesign.study.run import Listener


@final
@dataclass(frozen=True)
class Exploration(AbstractResult):
    """A study: its trials and its Pareto front.

    Args:
        study: The durable record.
        certificate: What is proven of its front, where the search proves.
        certified: What bounds say of the designs not tried, where they were asked (`certify` of the search).
        spec: What was searched; None for a study that was opened again.
    """

    study: Study
    certificate: Certificate | None = None
    certified: CertifiedFront | None = None
    spec: StudySpec | None = None

    @property
    def trials(self) -> list[Trial]:
        """All of them, in the order they finished."""
        return list(self.study.trials)

    @property
    def front(self) -> list[Trial]:
        """Those no other one beats in every objective."""
        return self.study.front()

    @property
    def objectives(self) -> tuple[str, ...]:
        """Fields of the metrics that are minimised, with their units."""
        return self.study.objectives

    @property
    def feasible(self) -> bool:
        """Whether any design keeps all bounds."""
        return bool(self.front)

    def detail(self, number: int) -> DetailRecord:
        """Layers, mappings and breakdowns of one trial."""
        return self.study.detail(number)

    def front_certificate(self) -> "FrontDocument":
        """The certificate of a proven front, which `codesign.check_certificate` and ``codesign verify`` check.

        Raises:
            UserError: The front is not proven, or certificates do not cover the study.
        """
        from codesign.study.front_certificate import front_certificate

        if self.spec is None:
            raise UserError(
                "a study that was opened again has no certificate", hint="give `explore` its specification: it goes on"
            )
        return front_certificate(self.spec, self.study, self.certificate)

    def to_json(self) -> JsonObject:
        """See `AbstractResult`; the form of ``codesign explore --format json``."""
        return front_json(self.study, self.certificate, certified=self.certified)

    def headline(self) -> JsonObject:
        """See `AbstractResult`."""
        config = self.study.config
        return {
            "study": self.study.label,
            "networks": " + ".join(config["workload"].get("names", [])),
            "space": config["space"].get("name", ""),
            "optimizer": config["optimizer"],
            "trials": len(self.study.trials),
            "on the front": len(self.front),
        }

    def rows(self) -> list[JsonObject]:
        """One row for every trial: metrics, parameters, and whether it is on the front."""
        front = {t.number for t in self.front}
        return [
            {
                "trial": t.number,
                "front": t.number in front,
                **t.metrics,
                **t.point,
                "infeasible": None if t.infeasible is None else t.reason,
            }
            for t in self.study.trials
        ]

    def plot(self) -> "go.Figure":
        """Every design in the objectives; the front stands out."""
        from codesign.report.figures import front_figure

        front = {t.number for t in self.front}
        trials = [
            {"number": t.number, "metrics": t.metrics, "point": t.point, "front": t.number in front}
            for t in self.study.trials
            if self.study.is_valid(t)
        ]
        return front_figure(trials, self.objectives, str(self.headline()["networks"]))

    def write_report(self, path: str | Path | None = None) -> Path:
        """Write the self-contained HTML report; returns its path (default: report.html in the study's folder)."""
        from codesign.report.study_page import write_report

        return write_report(self.study, path=None if path is None else Path(path))

    def close(self) -> None:
        """Let go of the database."""
        self.study.close()


def front_json(
    study: Study,
    certificate: Certificate | None = None,
    timed: Sequence[TimedDesign | ContendedDesign] = (),
    mappings: MappingFront | None = None,
    certified: CertifiedFront | None = None,
    schedule_factor: float | None = None,
) -> JsonObject:
    """The front of a study as ``--format json`` prints it, and under the event tier where it was simulated."""
    front = study.front()
    every = {} if mappings is None else {"per_design": mappings.to_json()}
    events = {"front_event_timed": [design.to_json() for design in timed]} if timed else {}
    return {
        "status": "ok" if front else "infeasible",
        "trials": len(study.trials),
        "feasible": sum(study.is_valid(t) for t in study.trials),
        "objectives": list(study.objectives),
        "front": [{"trial": t.number, "point": t.point, "metrics": t.metrics} for t in front],
        **_provenance(study, front[0].number if front else None),
        **({} if certificate is None else certificate.to_json()),
        **({} if certified is None else certified.to_json()),
        **({} if schedule_factor is None else {"schedule_factor": schedule_factor}),
        **events,
        **every,
    }


def _provenance(study: Study, trial: int | None) -> JsonObject:
    """Where a design's area and energy come from, if its record says so; designs of a space share their technology or name their own."""
    architecture = {} if trial is None else study.detail(trial).get("architecture", {})
    return {"provenance": architecture["provenance"]} if "provenance" in architecture else {}


def explore(spec: StudySpec | str | Path, listener: "Listener | None" = None) -> Exploration:
    """Run or resume a study: the designs of a space that no other one beats in every objective.

    Args:
        spec: What to search, or the YAML or JSON file that says so.
        listener: Told how the run goes on; None for silence.

    Returns:
        The study with its front. Its trials are in the folder of `spec.place`; the same call goes on after an interruption.

    Raises:
        UserError: A field that cannot be used; the message names it.
    """
    from codesign.study.run import run_study

    spec = spec if isinstance(spec, StudySpec) else read_study_spec(spec)
    run = run_study(spec, listener)
    return Exploration(run.study, run.certificate, run.certified, spec)


def open_study(place: str | Path | None = None, *, storage: str | None = None, name: str | None = None) -> Exploration:
    """A study that was recorded.

    Args:
        place: Its folder, a .db file or a database URL.
        storage: URL of the database, where the place is a folder for reports.
        name: Of the study there; None for the only one.

    Raises:
        UserError: There is no such study.
    """
    return Exploration(Study.at(place, storage, name))


@final
@dataclass(frozen=True)
class ComparedStudies(AbstractResult):
    """Studies of one problem, by optimiser.

    Args:
        comparison: Curves, medians, rank tests.
    """

    comparison: Comparison

    def to_json(self) -> JsonObject:
        """See `AbstractResult`."""
        return comparison_json(self.comparison)

    def headline(self) -> JsonObject:
        """See `AbstractResult`."""
        best = self.comparison.groups[0]
        return {
            "problem": self.comparison.problem,
            "objectives": ", ".join(self.comparison.objectives),
            "best optimizer": best.optimizer,
            "its median hypervolume": float(best.quartiles[1, -1]),
        }

    def rows(self) -> list[JsonObject]:
        """One row for every optimiser: runs, quartiles of the last hypervolume."""
        return [
            {
                "optimizer": group.optimizer,
                "runs": len(group.seeds),
                "lower_quartile": float(group.quartiles[0, -1]),
                "median": float(group.quartiles[1, -1]),
                "upper_quartile": float(group.quartiles[2, -1]),
            }
            for group in self.comparison.groups
        ]

    def plot(self) -> "go.Figure":
        """A figure of hypervolume over trials, by optimiser."""
        from codesign.report.figures import curves_figure

        return curves_figure(
            {g.optimizer: g.quartiles.tolist() for g in self.comparison.groups}, self.comparison.problem
        )


def compare(studies: Sequence[Exploration | Study | str | Path], levels: Sequence[str] = ()) -> ComparedStudies:
    """Compare studies of one problem: hypervolume curves by optimiser, medians and quartiles, rank tests.

    Args:
        studies: Opened, or folders.
        levels: Hypervolumes to report trials for, as numbers or shares such as ``90%``.

    Raises:
        UserError: None is given, or they are of different problems.
    """
    if not studies:
        raise UserError("compare needs at least one study, got none")
    opened = [
        s.study if isinstance(s, Exploration) else s if isinstance(s, Study) else open_study(s).study for s in studies
    ]
    return ComparedStudies(compare_studies(opened, levels))
