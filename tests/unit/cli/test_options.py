"""Options as values: groups of fields become parameters, and come back as groups."""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from codesign.cli.app import RENAMED_OPTIONS, present_spelling
from codesign.cli.options import Fields, Flag, command, flattened, given_flags, refuse
from codesign.core.errors import UserError
from tests.command_line import run


@dataclass(frozen=True)
class Sizes:
    """A group."""

    rows: Annotated[int, typer.Option(rich_help_panel="Sizes", help="Of the array.", min=1)] = 4
    word_bits: Annotated[int | None, typer.Option(help="Of a word.")] = None
    tag: Annotated[list[str] | None, typer.Option(help="May be repeated.")] = None
    quiet: Annotated[bool, typer.Option("--quiet/--loud", help="Say less.")] = False


@dataclass(frozen=True)
class Target:
    """A group with a field that must be given."""

    out: Annotated[str, typer.Option("--to", help="Where it goes.")]


def test_groups_are_made_of_the_command_line() -> None:
    seen: list[object] = []
    app = typer.Typer()

    def grow(name: Annotated[str, typer.Argument()], sizes: Sizes, target: Target) -> None:
        """Grow."""
        seen.extend((name, sizes, target))

    command(app)(grow)
    runner = CliRunner()
    done = runner.invoke(app, ["a", "--rows", "8", "--tag", "x", "--tag", "y", "--quiet", "--to", "here"])
    assert done.exit_code == 0, done.output
    assert seen == ["a", Sizes(8, None, ["x", "y"], True), Target("here")]
    assert runner.invoke(app, ["a", "--to", "here"]).exit_code == 0 and seen[4].rows == 4  # type: ignore[attr-defined]
    assert runner.invoke(app, ["a"]).exit_code == 2
    shown = runner.invoke(app, ["--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    for words in ("Grow.", "--rows", "Of the array.", "--word-bits", "--to"):
        assert words in shown


def test_without_docstrings_an_option_has_no_help() -> None:
    """As under `python -OO`."""

    @dataclass(frozen=True)
    class Plain:
        rows: int = 4
        tags: tuple[str, ...] = ()

    app = typer.Typer()

    def grow(plain: Plain) -> None:
        typer.echo(f"{plain.rows} {plain.tags}")

    command(app)(grow)
    assert CliRunner().invoke(app, ["--rows", "8", "--tags", "a", "--tags", "b"]).output == "8 ['a', 'b']\n"
    assert "May be repeated." in CliRunner().invoke(app, ["--help"]).output


def test_a_function_keeps_its_name_and_text() -> None:
    def shrink(sizes: Sizes) -> None:
        """Make smaller."""

    made = flattened(shrink)
    assert (made.__name__, made.__doc__) == ("shrink", "Make smaller.")


def test_flags_that_were_given_are_named_as_they_are_spelt() -> None:
    assert [f for f, given in given_flags(Sizes(rows=4, word_bits=8, quiet=True)).items() if given] == [
        "--word-bits",
        "--quiet",
    ]
    assert not any(given_flags(Sizes(tag=[])).values())


def test_what_plays_no_part_is_refused_with_the_mend() -> None:
    refuse({"--rows": False}, "--network")
    with pytest.raises(UserError, match=r"--rows plays no part with --network; leave out --rows or --network"):
        refuse({"--quiet": False, "--rows": True}, "--network")


@dataclass(frozen=True)
class Limits:
    """Refuses what is not positive."""

    limit_s: float = 1.0

    def __post_init__(self) -> None:
        if self.limit_s <= 0:
            raise UserError("`limit_s` must be > 0", hint="see `other`")


def test_errors_of_a_record_name_options_as_they_are_spelt() -> None:
    group = Fields(Limits, flags={"limit_s": Flag("time-limit")})
    assert group.made({"time_limit": 2.0}) == Limits(2.0)
    with pytest.raises(UserError, match=r"^--time-limit must be > 0; see `other`$"):
        group.made({"time_limit": 0.0})


@pytest.mark.parametrize(("former", "present"), sorted(RENAMED_OPTIONS.items()))
def test_former_spellings_are_read(former: str, present: str) -> None:
    assert present_spelling(former) == present and present_spelling(f"{former}=3") == f"{present}=3"
    outcome = run("explore", "--network", "alexnet", "--out", "x", former, "0.5" if former.endswith("cost") else "2")
    assert outcome.code == 2 and f"{present} is used with --fidelity two only" in outcome.err
