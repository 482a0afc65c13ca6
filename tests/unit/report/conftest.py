"""A small study, searched once for all tests of reports."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXPLORE = """
import json, sys, typer
from codesign.cli import explore
app = typer.Typer()
explore.register(app)
for arguments in json.loads(sys.argv[1]):
    app(arguments, standalone_mode=False)
"""
"""Several runs of the command in one process, so that everything is imported once."""


@pytest.fixture(scope="session")
def study_folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two optimisers, two seeds each: twelve designs on AlexNet, a bound on power that some break."""
    root = tmp_path_factory.mktemp("studies")
    folders, commands = [], []
    for optimizer in ("sobol", "random"):
        for seed in ("0", "1"):
            folders.append(root / f"{optimizer}{seed}")
            options = (
                f"--network alexnet --optimizer {optimizer} --seed {seed} --trials 12 --evaluations 60 --certify 0"
            )
            commands.append([*options.split(), "--constraint", "power_w<=0.6", "--out", str(folders[-1])])
    command = [sys.executable, "-W", "ignore", "-c", EXPLORE, json.dumps(commands)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return folders


@pytest.fixture(scope="session")
def study_folder(study_folders: list[Path]) -> Path:
    """The first of them."""
    return study_folders[0]
