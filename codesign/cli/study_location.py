"""Where studies are: the options `--storage` and `--study`, declared once, and opening what they and a folder name."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.core.errors import UserError, unknown_name

if TYPE_CHECKING:
    from codesign.study.study import Study

_PANEL = "Storage"

Storage = Annotated[
    str | None,
    typer.Option(
        "--storage",
        help="URL of the study's database, e.g. postgresql://user@host/name; default the file study.db in its folder.",
        rich_help_panel=_PANEL,
    ),
]

StudyName = Annotated[
    str | None,
    typer.Option(
        "--study",
        help="Name of the study in that database; default the only one there (new ones: made of network, space, optimiser, seed).",
        rich_help_panel=_PANEL,
    ),
]

StudyNames = Annotated[
    list[str] | None,
    typer.Option(
        "--study",
        help="Name of a study in --storage, or a pattern such as 'resnet50-*'; may be repeated; default all of them.",
        rich_help_panel=_PANEL,
    ),
]

Place = Annotated[
    str | None,
    typer.Argument(help="Folder of the study (explore --out), a .db file or a database URL.", show_default=False),
]


def open_study(place: str | None, storage: str | None = None, name: str | None = None) -> "Study":
    """The study that a command names; see `codesign.study.study.Study.at`."""
    from codesign.study.study import Study

    if place is None and storage is None:
        raise UserError("which study?", hint="give its folder, a .db file, or --storage URL with --study NAME")
    return Study.at(place, storage, name)


def open_studies(places: Sequence[str], storage: str | None, patterns: Sequence[str]) -> list["Study"]:
    """Several studies: those of folders, .db files and URLs, and those of one database by name or pattern.

    Raises:
        UserError: Nothing is named, or a pattern fits no study.
    """
    if storage is None:
        if patterns:
            raise UserError("--study names studies of --storage, which is not given")
        if not places:
            raise UserError("which studies?", hint="give their folders, or --storage URL")
        return [open_study(place) for place in places]
    from codesign.study.config import is_low_fidelity
    from codesign.study.storage import Database, public_url

    summaries = Database(storage, create=False).studies()
    names = [s.name for s in summaries if not is_low_fidelity(s.head["config"])]
    if not names:
        raise UserError("the database holds no study", where=f"--storage {public_url(storage)}")
    chosen: list[str] = []
    for pattern in patterns or ("*",):
        found = [name for name in names if name == pattern or fnmatchcase(name, pattern)]
        if not found:
            raise unknown_name("study", pattern, names, where="--storage")
        chosen += [name for name in found if name not in chosen]
    return [open_study(place) for place in places] + [open_study(None, storage, name) for name in chosen]
