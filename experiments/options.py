"""Command-line options of experiments from the fields of their configurations."""

import argparse
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

C = TypeVar("C")


def head_parser(
    description: str | None,
    *,
    out: Path | None,
    seed: int | None = None,
    smoke: str | None = None,
    about_out: str | None = None,
) -> argparse.ArgumentParser:
    """A parser with the options that experiments share: `--out`, and `--seed` and `--smoke` where they play a part.

    Args:
        description: Of the program.
        out: Folder or file of the results by default.
        seed: By default; None where nothing is random.
        smoke: What the small run is; None where there is none.
        about_out: What is written, where that needs saying.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if seed is not None:
        parser.add_argument("--seed", type=int, default=seed, help=f"of all that is random, default {seed}")
    parser.add_argument("--out", type=Path, default=out, help=about_out or "where the results go")
    if smoke is not None:
        parser.add_argument("--smoke", action="store_true", help=smoke)
    return parser


def parse_config(
    description: str | None,
    default: C,
    smoke: Mapping[str, Any],
    arguments: list[str] | None = None,
    *,
    left_out: tuple[str, ...] = (),
    choices: Mapping[str, tuple[str, ...]] | None = None,
) -> C:
    """A configuration from the command line: one option for each field, and `--smoke`.

    Args:
        description: Of the program.
        default: Its values where an option is not given.
        smoke: What `--smoke` sets, whatever the other options say.
        arguments: In place of the command line.
        left_out: Fields that are no options.
        choices: Values that a field takes.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [field.name for field in fields(default) if field.name not in left_out]  # type: ignore[arg-type]
    for name in names:
        value, allowed = getattr(default, name), (choices or {}).get(name)
        flag = "--" + name.replace("_", "-")
        if isinstance(value, tuple):
            parser.add_argument(flag, nargs="+", default=value, choices=allowed)
        else:
            kind = Path if isinstance(value, Path) else type(value)
            parser.add_argument(flag, type=kind, default=value, choices=allowed, help=f"default {value}")
    parser.add_argument("--smoke", action="store_true", help="a small run")
    given = vars(parser.parse_args(arguments))
    values = {name: tuple(given[name]) if isinstance(given[name], list) else given[name] for name in names}
    return replace(default, **{**values, **(smoke if given["smoke"] else {})})  # type: ignore[type-var]
