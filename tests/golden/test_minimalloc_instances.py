"""Every public instance of the static allocation problem, solved and checked."""

from pathlib import Path

import pytest

from codesign.scheduling.allocation.buffers import AllocationStatus, height, read_buffers
from codesign.scheduling.allocation.solve import allocate
from tests.buffer_overlap import overlap
from tests.reference_data import REFERENCE

DATA = REFERENCE / "minimalloc"


@pytest.mark.parametrize("path", sorted(DATA.glob("*/*.csv")), ids=lambda p: p.stem)
@pytest.mark.thinned(3)
def test_instance_is_solved(path: Path) -> None:
    capacity = int(path.stem.split(".")[-1])
    buffers = read_buffers(path)
    found = allocate(
        buffers, capacity, time_limit_s=60.0
    )  # takes about a second; wall clock, so a busy machine needs room
    assert found.status is AllocationStatus.FEASIBLE
    assert found.offsets is not None
    assert min(found.offsets) >= 0
    assert height(buffers, found.offsets) <= capacity
    assert overlap(buffers, found.offsets) is None
