"""Traces of a Tenstorrent Wormhole chip: reads, barriers, and what reads pass on the chip's two networks."""

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from codesign.core.errors import UserError
from codesign.core.kernel_library import FloatArray
from experiments.validation.common import read_rows

EAST_OR_WEST, SOUTH_OR_NORTH, INJECTION, ABSORPTION = range(4)
"""Resources of a node in one network: its two links, what it sends, what it receives."""


@dataclass(frozen=True)
class Read:
    """A read of a trace.

    Attributes:
        reader: Place x, y of the core that reads.
        network: 0 or 1.
        source: Place x, y where the data come from.
        bytes: How many.
        issue: Measured cycle.
    """

    reader: tuple[int, int]
    network: int
    source: tuple[int, int]
    bytes: int
    issue: float


@dataclass(frozen=True)
class Barrier:
    """A barrier: it ends when all earlier reads of its processor have arrived.

    Attributes:
        start: Measured cycle.
        end: Measured cycle.
    """

    start: float
    end: float


@dataclass(frozen=True)
class Trace:
    """What was recorded of one run of the chip.

    Attributes:
        name: Of the trace.
        kind: ``dram_to_l1`` or ``l1_to_l1``.
        reads: Of each processor, in program order.
        barriers: Of each processor.
    """

    name: str
    kind: str
    reads: list[list[Read]]
    barriers: list[list[Barrier]]


class Torus:
    """Routes and constants of the chip's two networks.

    Args:
        topology: ``topology.json``.
    """

    def __init__(self, topology: dict[str, Any]) -> None:
        self.width, self.height = int(topology["grid"]["columns_x"]), int(topology["grid"]["rows_y"])
        self.model = topology["tt_npe_model"]
        self.dram = {tuple(place) for places in topology["dram_controllers"].values() for place in places}

    def resource(self, network: int, x: int, y: int, what: int) -> int:
        """Number of a resource of a node."""
        return ((network * self.height + y % self.height) * self.width + x % self.width) * 4 + what

    def route(self, read: Read) -> list[int]:
        """What the data of a read pass, from their source to the reader: with wraps, one direction for each network."""
        (x, y), (to_x, to_y) = read.source, read.reader
        step = 1 if read.network == 0 else -1
        along_x = (to_x - x) * step % self.width
        along_y = (to_y - y) * step % self.height
        found = [self.resource(read.network, x, y, INJECTION)]
        if read.network == 0:
            found += [self.resource(0, x + i, y, EAST_OR_WEST) for i in range(along_x)]
            found += [self.resource(0, to_x, y + i, SOUTH_OR_NORTH) for i in range(along_y)]
        else:
            found += [self.resource(1, x, y - i, SOUTH_OR_NORTH) for i in range(along_y)]
            found += [self.resource(1, x - i, to_y, EAST_OR_WEST) for i in range(along_x)]
        return [*found, self.resource(read.network, to_x, to_y, ABSORPTION)]

    def capacity(self) -> FloatArray:
        """Bytes a cycle of every resource."""
        found = np.full(2 * self.width * self.height * 4, float(self.model["link_bytes_per_cycle"]))
        for network in (0, 1):
            for x in range(self.width):
                for y in range(self.height):
                    kind = "dram" if (x, y) in self.dram else "worker"
                    for what, key in ((INJECTION, "injection"), (ABSORPTION, "absorption")):
                        found[self.resource(network, x, y, what)] = self.model[f"{key}_bytes_per_cycle"][kind]
        return found

    def latency(self, read: Read) -> float:
        """Cycles of a read of no bytes."""
        known = self.model["read_latency_cycles"]
        same_x, same_y = (read.source[i] == read.reader[i] for i in (0, 1))
        key = "same_core" if same_x and same_y else "same_column_x" if same_x else "same_row_y" if same_y else "other"
        return float(known[key])

    def limit(self, size: int) -> float:
        """Bytes a cycle of one transfer, by its size."""
        sizes, rates = np.array(self.model["transfer_bytes_per_cycle_by_packet_bytes"], float).T
        return float(np.interp(size, sizes, rates))


def _zipped_rows(path: Path) -> Iterator[dict[str, str]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            yield from csv.DictReader(stream)
    except OSError as error:
        raise UserError(f"cannot read the recorded rows: {error.strerror or error}", where=str(path)) from None


def _key(row: dict[str, str]) -> tuple[str, ...]:
    return row["trace"], row["core_x"], row["core_y"], row["processor"]


def read_traces(folder: Path) -> list[Trace]:
    """All traces of a folder.

    Raises:
        UserError: A file or a column is missing.
    """
    reads: dict[tuple[str, ...], list[Read]] = defaultdict(list)
    barriers: dict[tuple[str, ...], list[Barrier]] = defaultdict(list)
    for r in _zipped_rows(folder / "reads.csv.gz"):
        reader, source = (int(r["core_x"]), int(r["core_y"])), (int(r["from_x"]), int(r["from_y"]))
        reads[_key(r)].append(Read(reader, int(r["noc"][-1]), source, int(r["bytes"]), float(r["issue_cycle"])))
    for r in _zipped_rows(folder / "barriers.csv.gz"):
        barriers[_key(r)].append(Barrier(float(r["start_cycle"]), float(r["end_cycle"])))
    found = []
    for row in read_rows(folder / "traces.csv", ("trace", "kind")):
        keys = [key for key in reads if key[0] == row["trace"]]
        if keys:
            found.append(Trace(row["trace"], row["kind"], [reads[k] for k in keys], [barriers[k] for k in keys]))
    return found
