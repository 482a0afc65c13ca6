"""Pages that the site makes from the program and from data: options of commands, names of Python, source files, tables of results."""

import csv
import re
from pathlib import Path
from typing import Any

import mkdocs_gen_files
import typer
from typer.main import get_command

import codesign
from codesign.cli.app import app, register_commands

INTRODUCTION = (
    "`codesign COMMAND --help` prints the same. Exit codes: 0 done, 2 a mistake in the input, 1 a fault of the program."
)


def command_line(root: Any) -> str:
    """Markdown of every command, in the order of `codesign --help`."""
    context = typer.Context(root)
    parts = ["# Command line", "", INTRODUCTION, ""]
    for name in root.list_commands(context):
        parts += section(root.get_command(context, name), f"codesign {name}", 2)
    return "\n".join(parts)


def section(command: Any, name: str, depth: int) -> list[str]:
    """Help, arguments and options of one command; of a group its subcommands too."""
    text = (command.help or "").split("\f")[0].strip()
    parts = [f"{'#' * depth} {name}", "", as_blocks(text), ""]
    rows = [row(p) for p in command.params if not getattr(p, "hidden", False) and p.name != "help"]
    if rows:
        parts += ["| argument or option | meaning | default |", "|---|---|---|", *rows, ""]
    for sub in getattr(command, "commands", {}).values():
        parts += section(sub, f"{name} {sub.name}", depth + 1)
    return parts


def as_blocks(text: str) -> str:
    """The help text with its example commands set as code."""
    paragraphs = [p.strip() for p in text.split("\n\n")]
    return "\n\n".join(f"    {p}" if p.startswith("codesign ") else p for p in paragraphs)


def row(parameter: Any) -> str:
    """A table row of one argument or option."""
    names = ", ".join(f"`{o}`" for o in [*parameter.opts, *parameter.secondary_opts])
    if parameter.param_type_name == "argument":
        names = f"`{(parameter.metavar or parameter.name).upper()}`"
    meaning = " ".join((parameter.help or "").split()).replace("|", "\\|")
    default = parameter.default
    plain = isinstance(default, (str, int, float)) and not isinstance(default, bool) and default != ""
    shown = f"`{default}`" if plain else ""
    return f"| {names} | {meaning} | {shown} |"


def python() -> str:
    """The names that `import codesign` offers, functions first, each documented by its docstring."""
    names = sorted(codesign.offered(), key=lambda n: (n[0].isupper(), n))
    parts = ["# Python", "", "`import codesign` offers these names. Each is imported when it is first used.", ""]
    return "\n".join([*parts, *(f"::: {codesign.offered()[n]}.{n}\n" for n in names)])


def tables(folder: Path) -> str:
    """Every data file of a folder as a table, by name."""
    parts = [
        "# All tables",
        "",
        "Every data file of the results in full; the pages show some of them and say what they mean.",
        "",
    ]
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="") as stream:
            heads, *rows = csv.reader(stream)
        lines = [heads, ["---"] * len(heads), *rows]
        parts += [
            f"## {path.stem}",
            "",
            *("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |" for cells in lines),
            "",
        ]
    return "\n".join(parts)


def source_files(root: Path) -> str:
    """Every file of the packages with the first line of its docstring, folder by folder; pages it names become links."""
    parts = ["# Source files", "", "What each file of the code holds, in the words of the file itself.", ""]
    files = sorted(p for folder in ("codesign", "spaces", "envs") for p in (root / folder).rglob("*.py"))
    for folder in sorted({p.parent for p in files}):
        rows = [(p.name, first_line(p)) for p in files if p.parent == folder]
        described = [f"| `{name}` | {line} |" for name, line in rows if line]
        if described:
            parts += [f"## {folder.relative_to(root)}", "", "| file | what it holds |", "|---|---|", *described, ""]
    return "\n".join(parts)


def first_line(path: Path) -> str:
    """The first line of a file's docstring as the cell of a table; empty if it has none."""
    before, _, text = path.read_text().partition('"""')
    line = "" if before.strip() else re.split('"""|\n', text, maxsplit=1)[0].replace("|", "\\|")
    return re.sub(r"docs/([\w-]+/)([\w-]+)\.md", r"[\2](../\1\2.md)", line)


register_commands()
with mkdocs_gen_files.open("reference/command-line.md", "w") as page:
    page.write(command_line(get_command(app)))
with mkdocs_gen_files.open("reference/python.md", "w") as page:
    page.write(python())
with mkdocs_gen_files.open("reference/source-files.md", "w") as page:
    page.write(source_files(Path(__file__).parents[1]))
with mkdocs_gen_files.open("results/tables.md", "w") as page:
    page.write(tables(Path(__file__).parent / "results" / "data"))
