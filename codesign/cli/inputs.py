"""What `evaluate`, `map` and `convert` share: arguments that are files, preset names or layers."""

import logging

import typer

from codesign.core.errors import UserError


def parse_dims(text: str | None) -> dict[str, int] | None:
    """Lengths of axes by name from ``batch=4 seq=128``; None where nothing was given.

    Raises:
        UserError: It is not a list of NAME=NUMBER, or a name is given twice.

    >>> parse_dims("batch=4 seq=128")
    {'batch': 4, 'seq': 128}
    """
    if text is None:
        return None
    dims: dict[str, int] = {}
    for part in text.replace(",", " ").split():
        name, _, number = part.rpartition("=")
        if not name or not number.isdigit():
            raise UserError(
                f"--dims must be NAME=NUMBER, separated by spaces, got {part!r}", hint="--dims batch=4 seq=128"
            )
        if name in dims:
            raise UserError(f"--dims gives {name!r} twice")
        dims[name] = int(number)
    return dims


def counted(count: int, noun: str) -> str:
    """A number of things in words.

    >>> counted(1, "trial"), counted(3, "trial")
    ('1 trial', '3 trials')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


class _StderrHandler(logging.Handler):
    """Writes to what is stderr at the moment, which progress bars replace."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(self.format(record), err=True)


def warnings_to_stderr() -> None:
    """Show the warnings of file readers as plain lines on stderr, each once, so that stdout holds the result alone."""
    seen: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        new = message not in seen
        seen.add(message)
        return new

    handler = _StderrHandler(logging.WARNING)
    handler.addFilter(is_new)
    handler.setFormatter(logging.Formatter("warning: %(message)s"))
    logging.getLogger("codesign").handlers[:] = [handler]
