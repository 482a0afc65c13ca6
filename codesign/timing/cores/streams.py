"""Vector operators as streams through the cores, with reductions over rows (rules G5 to G7).

* G6, Rows read again: Softmax and layer normalisation read a row three times. Later readings are free where the rows
  in flight fit the local memory of their core, and for the share that the cache holds. Softmax holds rows of up to
  1,024 elements in registers.
* G7, What barriers expose: Softmax adds two exponentials an element that no load hides; where a block takes a row,
  rounds of rows count. Layer normalisation adds `row_latency_s` for every round of rows.
"""

import math
from dataclasses import dataclass
from enum import Enum
from typing import final

from codesign.timing.cores.system import CoreSystem


class StreamKind(Enum):
    """What is done to the rows."""

    SOFTMAX = "softmax"
    LAYERNORM = "layernorm"
    GELU = "gelu"
    COPY = "copy"


@final
@dataclass(frozen=True)
class RowRule:
    """How the common kernel of an operator goes over its rows.

    Args:
        again: Times a row is read again after its first reading, where it is not held.
        threads: Of the block that takes one row.
        held_elements: Longest row that one warp holds in registers, so that nothing is read again.
        exponentials: Of an element that barriers keep from being hidden behind loads.
        waits: Whether a round of rows waits for its sums, whatever their length.
    """

    again: int
    threads: int
    held_elements: int
    exponentials: int
    waits: bool


ROW_RULES = {
    # PyTorch: rows of up to 1,024 elements are held by a warp; longer ones by a block of up to 1,024 threads, which reads them for the
    # largest element, the sum of exponentials and the result (aten/src/ATen/native/cuda/SoftMax.cu)
    StreamKind.SOFTMAX: RowRule(again=2, threads=1024, held_elements=1024, exponentials=2, waits=False),
    # mean, variance and result, one after the other, in blocks of 256 threads
    StreamKind.LAYERNORM: RowRule(again=2, threads=256, held_elements=0, exponentials=0, waits=True),
}
"""The operators that reduce over rows."""


@final
@dataclass(frozen=True)
class Stream:
    """A vector operator on ``rows x length`` elements.

    Args:
        kind: What it does.
        rows: How many rows.
        length: Elements of a row.
        read_bytes: Of an element, all inputs together.
        write_bytes: Of an element.
    """

    kind: StreamKind
    rows: int
    length: int
    read_bytes: float = 2.0
    write_bytes: float = 2.0

    @property
    def elements(self) -> int:
        """Elements of all rows together."""
        return self.rows * self.length


@final
@dataclass(frozen=True)
class StreamTime:
    """What a stream takes on the cores, launch apart.

    Args:
        seconds: In all.
        dram_bytes: What crosses the DRAM port.
    """

    seconds: float
    dram_bytes: float


def stream_time(system: CoreSystem, stream: Stream) -> StreamTime:
    """Bytes over the rate that DRAM reaches, or lane operations where they take longer; what barriers expose comes on top (G5 to G7)."""
    again = _again_bytes(system, stream)
    moved = stream.elements * (stream.read_bytes + stream.write_bytes) + again
    lanes = system.constant("vector_lanes") * system.clock_hz
    operations = system.constant("gelu_lane_operations") if stream.kind is StreamKind.GELU else 0.0
    seconds = max(moved / system.dram_rate, stream.elements * operations / lanes)
    rule = ROW_RULES.get(stream.kind)
    if rule is not None:
        seconds += _exposed_s(system, stream, rule)
    return StreamTime(seconds, moved)


def _again_bytes(system: CoreSystem, stream: Stream) -> float:
    """Bytes that rows read again bring through DRAM once more: rows in flight that neither core nor cache holds (rule G6)."""
    rule = ROW_RULES.get(stream.kind)
    if rule is None or stream.length <= rule.held_elements:
        return 0.0
    row = stream.length * stream.read_bytes
    on_core = min(_rows_on_core(system, rule), math.ceil(stream.rows / system.cores))
    if on_core * row <= system.local_bytes:
        return 0.0
    flying = min(stream.rows, on_core * system.cores) * row
    missing = max(0.0, 1.0 - system.held_bytes / flying)
    return stream.elements * stream.read_bytes * rule.again * missing


def _rows_on_core(system: CoreSystem, rule: RowRule) -> int:
    return max(1, int(system.constant("resident_threads") // rule.threads))


def _exposed_s(system: CoreSystem, stream: Stream, rule: RowRule) -> float:
    """What barriers keep from being hidden (rule G7): a round of rows takes as long whether all cores have rows or few."""
    rounds = _rounds(system, stream, rule)
    waiting = rounds * system.constant("row_latency_s") if rule.waits else 0.0
    rows = stream.rows
    if stream.length > rule.held_elements:
        rows = rounds * _rows_on_core(system, rule) * system.cores
    return waiting + rows * stream.length * rule.exponentials * system.constant("exponential_s")


def _rounds(system: CoreSystem, stream: Stream, rule: RowRule) -> int:
    """Times that the cores take a new set of rows."""
    return math.ceil(stream.rows / (_rows_on_core(system, rule) * system.cores))
