"""Where golden tests find recorded data: the folder in `CODESIGN_REFERENCE`, by default the copy kept here.

Another data set may hold other files of the same layout and formats, and may lack a folder altogether: tests iterate over what
is there. What only supports a comparison (a graph, a list of layers, an accelerator) may also come from the copy kept here.
"""

import os
from collections.abc import Sized
from pathlib import Path

import pytest

KEPT_HERE = Path(__file__).parent / "data"
REFERENCE = Path(os.environ.get("CODESIGN_REFERENCE", KEPT_HERE))


def supporting_files(folder: str, pattern: str) -> list[Path]:
    """Files of a folder, those of the data set before those kept here that it lacks."""
    found = sorted((REFERENCE / folder).glob(pattern))
    names = {path.name for path in found}
    return found + [path for path in sorted((KEPT_HERE / folder).glob(pattern)) if path.name not in names]


def needs_data(folder: str, found: Sized) -> None:
    """Skip where the data set lacks the folder; fail where it has the folder and nothing was found in it."""
    if not (REFERENCE / folder).is_dir():
        pytest.skip(f"this data set has no folder {folder}")
    assert found, f"nothing of {folder} was read"
