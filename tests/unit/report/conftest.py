"""A small study, searched once for all tests of reports."""

from pathlib import Path

import pytest

from tests.command_line import run


@pytest.fixture(scope="session")
def study_folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two optimisers, two seeds each: twelve designs on AlexNet, a bound on power that some break."""
    root = tmp_path_factory.mktemp("studies")
    folders = []
    for optimizer in ("sobol", "random"):
        for seed in ("0", "1"):
            folders.append(root / f"{optimizer}{seed}")
            options = (
                f"--network alexnet --optimizer {optimizer} --seed {seed} --trials 12 --evaluations 60 --certify 0"
            )
            done = run("explore", *options.split(), "--constraint", "power_w<=0.6", "--out", folders[-1], cwd=root)
            assert done.code == 0, done.err
    return folders


@pytest.fixture(scope="session")
def study_folder(study_folders: list[Path]) -> Path:
    """The first of them."""
    return study_folders[0]
