"""Small random instances: the search agrees with trying every address."""

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.scheduling.allocation.buffers import (
    AllocationStatus,
    Buffer,
    format_buffers,
    height,
    parse_buffers,
    peak_load,
)
from codesign.scheduling.allocation.solve import _search, allocate
from tests.buffer_overlap import overlap

SETTINGS = settings(derandomize=True, deadline=None, max_examples=150)


@st.composite
def instances(draw: st.DrawFn) -> list[Buffer]:
    count = draw(st.integers(1, 7))
    buffers = []
    for i in range(count):
        lower = draw(st.integers(0, 6))
        buffers.append(Buffer(f"b{i}", lower, lower + draw(st.integers(1, 5)), draw(st.integers(1, 4))))
    return buffers


def has_solution(buffers: list[Buffer], capacity: int) -> bool:
    def extend(offsets: list[int]) -> bool:
        position = len(offsets)
        if position == len(buffers):
            return True
        return any(
            overlap(buffers[: position + 1], [*offsets, address]) is None and extend([*offsets, address])
            for address in range(capacity - buffers[position].size + 1)
        )

    return extend([])


@SETTINGS
@given(instances(), st.integers(0, 1))
def test_feasible_exactly_when_some_addresses_fit(buffers: list[Buffer], extra: int) -> None:
    capacity = max(peak_load(buffers)[0] + extra, max(b.size for b in buffers))
    expected = AllocationStatus.FEASIBLE if has_solution(buffers, capacity) else AllocationStatus.INFEASIBLE
    for found in (allocate(buffers, capacity), _search(buffers, capacity, 10.0, 0)):
        assert found.status is expected
        if found.offsets is not None:
            assert overlap(buffers, found.offsets) is None
            assert height(buffers, found.offsets) <= capacity


@SETTINGS
@given(instances(), st.integers(2, 1000))
def test_scaling_sizes_changes_nothing(buffers: list[Buffer], factor: int) -> None:
    capacity = max(peak_load(buffers)[0], max(b.size for b in buffers))
    scaled = [dataclasses.replace(b, size=b.size * factor) for b in buffers]
    assert allocate(buffers, capacity).status is allocate(scaled, capacity * factor).status


@SETTINGS
@given(instances())
def test_files_give_the_buffers_back(buffers: list[Buffer]) -> None:
    assert parse_buffers(format_buffers(buffers), "file") == tuple(buffers)
    assert parse_buffers(format_buffers(buffers, [0] * len(buffers)), "file") == tuple(buffers)
