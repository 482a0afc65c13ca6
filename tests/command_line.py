"""Runs the `codesign` command inside the test process, through the same entry as the installed script."""

import contextlib
import io
import json
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codesign.cli.app import app, main


@dataclass(frozen=True)
class Outcome:
    """What a run left behind."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """All that was written, on one line."""
        return " ".join((self.out + self.err).split())

    @property
    def json(self) -> Any:
        """Standard output as one JSON document."""
        return json.loads(self.out)

    @property
    def result(self) -> Any:
        """The same without the seconds that compiling took."""
        return {name: value for name, value in self.json.items() if name != "compile_seconds"}


def run(*arguments: object, cwd: Path | None = None) -> Outcome:
    """Run `codesign ARGUMENTS`, in the current folder or in `cwd`; warnings are not this process's errors there."""
    if cwd is not None:
        with contextlib.chdir(cwd), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return run(*arguments)
    out, err = io.StringIO(), io.StringIO()
    before = sys.argv
    sys.argv = ["codesign", *(str(a) for a in arguments)]
    code = 0
    app.registered_commands.clear()  # `main` registers them again; a process runs it once, these tests many times
    app.registered_groups.clear()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.argv = before
    return Outcome(code, out.getvalue(), err.getvalue())
