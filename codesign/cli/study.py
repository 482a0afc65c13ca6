"""`codesign study`: list studies, look into one, take them out of a database and into another."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from codesign.cli.inputs import counted
from codesign.cli.options import OutputFormat
from codesign.cli.study_location import Place, Storage, StudyName, open_study
from codesign.core.errors import UserError

if TYPE_CHECKING:
    from codesign.evaluation.records import EvaluationRecord
    from codesign.study.study import Study


study_command = typer.Typer(no_args_is_help=True, help="Studies: list, show, export and import them.")


@study_command.command("list")
def list_studies(
    places: Annotated[
        list[str] | None, typer.Argument(help="Folders (searched for studies), .db files or database URLs.")
    ] = None,
    output_format: OutputFormat = "text",
) -> None:
    """List studies: name, trials done and running, what was searched for. Without arguments: below this folder.

    For example:

    codesign study list runs
    """
    _print_list([row for place in places or ["."] for row in _list(place)], output_format)


@study_command.command("show")
def show_study(
    place: Place = None, storage: Storage = None, name: StudyName = None, output_format: OutputFormat = "text"
) -> None:
    """Show what a study searches, how far it is, why designs failed, and its front.

    For example:

    codesign study show runs/first
    """
    _show(open_study(place, storage, name), output_format)


@study_command.command("export")
def export_to_file(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="[PLACE] FILE",
            help="The study (folder, .db file or URL; or --storage), and the file: .json (everything), .csv or .parquet.",
        ),
    ],
    storage: Storage = None,
    name: StudyName = None,
) -> None:
    """Write a study to a file. JSON holds mappings and breakdowns too; CSV gets NAME.study.json beside it.

    For example:

    codesign study export runs/first first.csv
    """
    from codesign.study.exchange_files import export_study

    if len(names) > 2 or (len(names) == 1 and storage is None):
        raise UserError("expected a study and a file to write", hint="codesign study export runs/a a.csv")
    file = Path(names[-1])
    opened = open_study(names[0] if len(names) == 2 else None, storage, name)
    export_study(opened, file)
    typer.echo(f"{counted(len(opened.trials), 'trial')} written to {file}", err=True)


@study_command.command("import")
def import_from_file(
    file: Annotated[Path, typer.Argument(help="An exported study, or a folder with trials.jsonl.")],
    out: Annotated[Path, typer.Option(help="Folder of the new study.")],
    storage: Storage = None,
    name: StudyName = None,
    like: Annotated[
        str | None, typer.Option(help="Study with the same space and objectives, for a CSV that does not say them.")
    ] = None,
) -> None:
    """Make a study of a file; explore goes on with it when given the options it was started with.

    For example:

    codesign study import first.csv --out runs/again
    """
    from codesign.study.exchange_files import import_study

    made = import_study(file, out, storage=storage, name=name, like=None if like is None else open_study(like))
    typer.echo(f"{counted(len(made.trials), 'trial')} in {made.storage}", err=True)
    made.close()


# ---- list ------------------------------------------------------------------------------------------


class StudyRow(TypedDict):
    """A study of a folder or a database."""

    place: str
    study: str
    finished: int
    running: int
    workload: list[str]
    space: str | None
    optimizer: str
    seed: int
    started: str | None


def _list(place: str) -> list[StudyRow]:
    from codesign.study.storage import Database, is_url, sqlite_url
    from codesign.study.study import DATABASE_FILE

    if is_url(place):
        urls = [(place, place)]
    elif Path(place).is_dir():
        found = sorted(p for p in Path(place).rglob(DATABASE_FILE) if p.is_file())
        urls = [(str(p.parent), sqlite_url(p)) for p in found]
    elif Path(place).exists():
        urls = [(place, sqlite_url(Path(place)))]
    else:
        raise UserError(f"no such folder or file: {place}")
    rows: list[StudyRow] = []
    for where, url in urls:
        database = Database(url, create=False)
        for summary in database.studies():
            config = summary.head["config"]
            rows.append(
                {
                    "place": database.place if is_url(where) else where,
                    "study": summary.name,
                    "finished": summary.finished,
                    "running": summary.running,
                    "workload": config["workload"].get("names", []),
                    "space": config["space"].get("name"),
                    "optimizer": config["optimizer"],
                    "seed": config["seed"],
                    "started": None if summary.started is None else summary.started.isoformat(timespec="seconds"),
                }
            )
    return rows


def _print_list(rows: list[StudyRow], output_format: str) -> None:
    if output_format == "json":
        typer.echo(json.dumps(rows, indent=1))
        return
    if not rows:
        typer.echo("no studies found")
        return
    place = None
    for row in rows:  # a place on a line of its own: paths are long, and are there to be copied
        if row["place"] != place:
            place = row["place"]
            typer.echo(place)
        running = f", {row['running']} running or left over" if row["running"] else ""
        started = f", started {row['started'][:16].replace('T', ' ')}" if row["started"] else ""
        typer.echo(f"  {row['study']}: {counted(row['finished'], 'trial')}{running}{started}")
        searched = f"{' + '.join(row['workload'])} on {row['space']}"
        typer.echo(f"    {searched}, {row['optimizer']}, seed {row['seed']}")


# ---- show ------------------------------------------------------------------------------------------


def _show(study: "Study", output_format: str) -> None:
    reasons: dict[str, int] = {}
    for trial in study.trials:
        if trial.infeasible:
            reasons[trial.reason] = reasons.get(trial.reason, 0) + 1
    front = study.front()
    if output_format == "json":
        record = {
            "status": "ok" if front else "infeasible",
            "storage": study.storage,
            "study": study.name,
            "config": study.config,
            "versions": study.versions,
            "finished": len(study.trials),
            "running": len(study.running_elsewhere),
            "infeasible": reasons,
            "front": [{"trial": t.number, "point": t.point, "metrics": t.metrics} for t in front],
        }
        typer.echo(json.dumps(record, indent=1))
        return
    from rich.console import Console

    from codesign.cli.exploring import print_front

    config = study.config
    networks = zip(config["workload"].get("names", []), config["workload"].get("hashes", []), strict=False)
    typer.echo(f"study       {study.name} in {study.storage}")
    typer.echo(f"workload    {' + '.join(f'{name} ({digest[:12]})' for name, digest in networks)}")
    typer.echo(f"space       {config['space'].get('name')}")
    typer.echo(f"optimiser   {config['optimizer']}, seed {config['seed']}")
    typer.echo(f"inner loop  {config['mapper'].get('name')}, {_options(config['evaluation'])}")
    typer.echo(f"objectives  {', '.join(study.objectives)}{''.join(f'; {c}' for c in study.constraints)}")
    rules = [str(rule["rule"]) for rule in config["space"].get("space", {}).get("constraints", [])]
    if rules:
        typer.echo(f"rules       {'; '.join(rules)}")
    typer.echo(f"trials      {len(study.trials)} finished, {len(study.running_elsewhere)} running or left over")
    for reason, count in sorted(reasons.items(), key=lambda item: -item[1]):
        typer.echo(f"            {count} infeasible: {reason}")
    typer.echo(f"versions    {', '.join(f'{name} {version}' for name, version in study.versions.items())}")
    print_front(study, Console())


def _options(evaluation: "EvaluationRecord") -> str:
    return ", ".join(f"{name} {value}" for name, value in evaluation.items() if value not in (None, False, 0))
