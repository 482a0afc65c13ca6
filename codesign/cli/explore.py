"""`codesign explore`: the Pareto front of accelerators for a workload."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.cli.compiling import echo_json
from codesign.cli.explore_options import Choices, Fidelity, Judge, Search, Workers, Workload
from codesign.cli.options import asked, check_format
from codesign.cli.study_location import Storage, StudyName
from codesign.core.errors import UserError

if TYPE_CHECKING:
    from codesign.core.json_types import JsonObject
    from codesign.study.specification import StudySpec

COMMAND_LINE = "command line"

StudyFile = Annotated[
    Path | None,
    typer.Argument(help="A study as a YAML or JSON file (--save-config writes one); flags count above it."),
]


@dataclass(frozen=True)
class PlaceFlags:
    """Where a study is kept, and whether it is written as a file.

    Args:
        out: Folder for study and report; the same command goes on where it stopped.
        save_config: Write the whole study as a file to this path, and run it.
        certificate: With --optimizer exact: write what `codesign verify` needs to check the front to this file.
    """

    out: Path | None = None
    save_config: Path | None = None
    storage: Storage = None
    study: StudyName = None
    certificate: Path | None = None

    def to_json(self) -> "JsonObject":
        """In the form of a study's file."""
        return {"out": None if self.out is None else str(self.out), "storage": self.storage, "study": self.study}

    def check(self, spec: "StudySpec") -> None:
        """Refuse a study whose front no certificate covers, where one is asked for, before the search."""
        if self.certificate is not None:
            from codesign.study.front_check import task_of

            task_of(spec.to_json())

    def save(self, spec: "StudySpec") -> None:
        """Write the study as a file, where that is asked for."""
        if self.save_config is not None:
            from codesign.study.specification import write_study_spec

            typer.echo(f"study written to {write_study_spec(spec, self.save_config)}", err=True)


@dataclass(frozen=True)
class SpaceFlags:
    """The hardware space and its technology.

    Args:
        space: Hardware space by name, or your own: a file (mine.yaml) or module:attribute; an unknown name lists them.
        technology: Technology that gives energies and areas, e.g. cmos-7nm; short for --space NAME@TECHNOLOGY.
    """

    space: str | None = asked(None, shown="scratchpad")
    technology: str | None = asked(None, shown="the space's")


def explore_command(
    file: StudyFile = None,
    *,
    workload: Workload,
    place: PlaceFlags,
    space: SpaceFlags,
    search: Search,
    output_format: Annotated[
        str, typer.Option("--format", help="text or json (of the front).", callback=check_format)
    ] = "text",
    choices: Choices,
    judge: Judge,
    fidelity: Fidelity,
    workers: Workers,
) -> None:
    """Search a hardware space for the designs no other one beats in every objective.

    Every design is judged by the whole workload with the best mapping or schedule found for it. The front is printed,
    the report is OUT/report.html.

    Trials are stored as they finish. After Ctrl-C, a crash or kill -9 the same command goes on; the same command
    started again elsewhere (--storage) or beside it works on the same study.

    For example:

    codesign explore --network resnet50 --constraint "power_w<=2" --workers 2 --out runs/a

    codesign explore --network model.onnx --mapper exact --fidelity two --trials 100 --out runs/b

    codesign explore --network resnet50 --space gemmcore --optimizer exact --epsilon 0.02 --workers 2 --out runs/e

    codesign explore --network gpt2-small-block --space soma-edge --scheduler soma --out runs/c

    codesign explore --network vit-b16 --precision "W8A8 W4A8" --accuracy table.csv --objectives latency error --out runs/p

    codesign explore study.yaml --trials 200

    codesign explore --network vgg16 --storage postgresql://me@server/studies --out runs/d
    """
    from codesign.cli.exploring import run_explore
    from codesign.library.studies import front_json

    what: JsonObject = {"workload": workload, "place": place.to_json(), "space": space.space, "choices": choices}
    how: JsonObject = {"search": search, "judge": judge, "fidelity": fidelity, "workers": workers}
    spec = specification(file, what | how)
    if space.technology is not None:
        spec = replace(spec, space=f"{spec.space.partition('@')[0]}@{space.technology}")
    place.check(spec)
    place.save(spec)
    run = run_explore(spec, front_to_stderr=output_format == "json", certificate=place.certificate)
    if output_format == "json":
        timed = run.timed or run.contended
        front = front_json(run.study, run.certificate, timed, run.mappings, run.certified, run.schedule_factor)
        echo_json(front, indent=1)


def specification(file: Path | None, flags: "JsonObject") -> "StudySpec":
    """The study that a file and flags describe; flags count above the file.

    Args:
        file: A study file.
        flags: What a file would hold, None where a flag is not given.

    Raises:
        UserError: No network or place is named, or something in them is wrong.
    """
    from codesign.core.files import read_structured
    from codesign.core.specs import check_keys, merged
    from codesign.study.specification import StudySpec

    below = {} if file is None else read_structured(file)
    if not isinstance(below, dict):
        return StudySpec.from_json(below, str(file))
    check_keys(StudySpec, below, str(file))
    whole = merged(below, given_only(flags))
    if isinstance(found := whole.get("workload", {}), dict) and not {"networks", "serving"} & set(found):
        raise UserError("which network?", hint="give --network or --workload, or a study file that names one")
    if isinstance(found := whole.get("place", {}), dict) and "out" not in found:
        raise UserError("nothing says where the study is kept", hint="give --out FOLDER")
    if file is not None:
        return StudySpec.from_json(whole, str(file))
    try:
        return StudySpec.from_json(whole, COMMAND_LINE)
    except UserError as error:  # a flag is place enough
        place = error.where if error.where is not None and not error.where.startswith(COMMAND_LINE) else None
        raise type(error)(error.message, where=place, hint=error.hint) from None


def given_only(flags: "JsonObject") -> "JsonObject":
    """The flags that were given, nested as in a file."""
    found = {k: given_only(v) if isinstance(v, dict) and k != "dims" else v for k, v in flags.items()}
    return {key: value for key, value in found.items() if value is not None and value != {}}
