"""Where golden tests find recorded data: the folder in `CODESIGN_REFERENCE`, by default the copy kept here.

Another data set may hold other files of the same layout and formats, and may lack a folder altogether: tests iterate over what
is there. What only supports a comparison (a graph, a list of layers, an accelerator) may also come from the copy kept here.
"""

import os
from collections.abc import Sized
from pathlib import Path
from typing import NoReturn

import pytest

KEPT_HERE = Path(__file__).parent / "data"
REFERENCE = Path(os.environ.get("CODESIGN_REFERENCE", KEPT_HERE))


def supporting_files(folder: str, pattern: str) -> list[Path]:
    """Files of a folder, those of the data set before those kept here that it lacks."""
    found = sorted((REFERENCE / folder).glob(pattern))
    names = {path.name for path in found}
    return found + [path for path in sorted((KEPT_HERE / folder).glob(pattern)) if path.name not in names]


def lacks(what: str) -> NoReturn:
    """Skip the test where the data set that was named lacks something; fail where the copy kept here does."""
    if REFERENCE.resolve() == KEPT_HERE.resolve():
        pytest.fail(f"the data kept in {KEPT_HERE} lack {what}: the checkout is damaged")
    pytest.skip(f"this data set has no {what}")


def needs_data(folder: str, found: Sized) -> None:
    """Skip where another data set lacks the folder; fail where the copy kept here does, or where the folder holds nothing that is read."""
    if not (REFERENCE / folder).is_dir():
        lacks(f"folder {folder}")
    assert found, f"nothing of {folder} was read"
