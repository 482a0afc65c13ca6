import importlib.util
import subprocess
import sys

import pytest
import typer

from codesign.cli import app as application


def _fail() -> None:
    raise RuntimeError("the odometer ran backwards")


def _run(monkeypatch: pytest.MonkeyPatch) -> int:
    broken = typer.Typer()
    broken.command()(_fail)
    monkeypatch.setattr(application, "app", broken)
    monkeypatch.setattr(application, "register_commands", lambda: None)
    monkeypatch.setattr(sys, "argv", ["codesign"])
    with pytest.raises(SystemExit) as stopped:
        application.main()
    assert isinstance(stopped.value.code, int)
    return stopped.value.code


def test_a_fault_of_ours_is_one_message_that_asks_for_a_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(application.TRACEBACK, raising=False)
    assert _run(monkeypatch) == 1
    message = capsys.readouterr().err
    assert "internal error: RuntimeError: the odometer ran backwards" in message
    assert "please report it" in message and "Traceback" not in message


def test_the_traceback_is_shown_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(application.TRACEBACK, "1")
    with pytest.raises(RuntimeError, match="odometer"):
        _run(monkeypatch)


def test_every_command_exists() -> None:
    for name in application.COMMANDS:
        assert importlib.util.find_spec(f"codesign.cli.{name}") is not None


_INTERRUPTED = """
import sys, threading
import typer
from codesign.cli import app as application

def wait_for_ever():
    threading.Thread(target=threading.Event().wait).start()
    print("kept")
    raise KeyboardInterrupt

application.app = typer.Typer()
application.app.command()(wait_for_ever)
application.register_commands = lambda: None
sys.argv = ["codesign"]
application.main()
"""


def test_an_interrupt_ends_the_command_although_a_thread_goes_on() -> None:
    """As the pool's does when the interrupt came between taking a lock and giving it back."""
    run = subprocess.run([sys.executable, "-c", _INTERRUPTED], capture_output=True, text=True, timeout=100)
    assert (run.returncode, run.stdout) == (130, "kept\n"), run.stderr
