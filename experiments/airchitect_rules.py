"""What a label of AIrchitect v2 costs: MAESTRO's cycles of one convolution under one of three dataflows.

The labels (maestro-project/AIrchitect-v2) come from ConfuciuX's search with MAESTRO. A design is a number of processing elements (PE), 1 to 64,
and a tile of output channels (k), 1 to 12; the objective is latency. Buffers and bandwidth are without limit there, and all elements form one
cluster. With P = X - R + 1 and Q = Y - S + 1 outputs, ``T = min(k, K)`` and ``n = ceil(K / T)`` tiles, the cycles are 1 more than

* ``dla``: ``n ceil(C / PE) P Q (T R S + 1)``, channels in space;
* ``eye``: ``n C ceil(P / PE) ceil(Q / S) (T R S + 1)``, rows in space, S columns a step;
* ``shi``: ``n C ceil(Q / PE) (P T R S + ceil(P / R))``, columns in space, R rows a step.

These follow from ConfuciuX's dataflows, with one cycle a step for what moves; they give every figure of the labels in ``tests/data/airchitect``.
Cycles are a factor of the tile times one of the elements, so the least of all 768 designs is found in each alone.

The table of products has the convolutions' labels: M = K, N = P Q, GEMM_K = C R S of the same run. Its cycles depend on R and S, which it lacks, so
a row is read as every convolution of the published ranges that has its sizes and its cycles. As a product in its own right, as ConfuciuX writes
one, it has C = GEMM_K, P = N and Q = R = S = 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from codesign.core.errors import UserError

DATAFLOWS = ("dla", "eye", "shi")

ELEMENTS, TILES = 64, 12
"""The most of each that a design has."""

EXTENTS = (1, *range(8, 257, 8))
KERNELS = (1, 3, 5, 7, 9)
CHANNELS = range(2, 513, 2)
"""Sizes that the tables draw from."""


@final
@dataclass(frozen=True)
class Convolution:
    """A convolution of square kernels without padding, and what runs it.

    Args:
        k: Output channels.
        c: Input channels.
        p: Outputs along X.
        q: Outputs along Y.
        r: Side of the kernel.
        dataflow: One of `DATAFLOWS`.
    """

    k: int
    c: int
    p: int
    q: int
    r: int
    dataflow: str

    def cycles(self, elements: int, tile: int) -> int:
        """On a design."""
        return 1 + self._of_tile(tile) * self._of_elements(elements)

    @property
    def least(self) -> int:
        """Of all designs."""
        return 1 + min(map(self._of_tile, range(1, TILES + 1))) * min(map(self._of_elements, range(1, ELEMENTS + 1)))

    def _of_tile(self, tile: int) -> int:
        held = min(tile, self.k)
        step = held * self.r * self.r
        return -(-self.k // held) * (self.p * step - (-self.p // self.r) if self.dataflow == "shi" else step + 1)

    def _of_elements(self, elements: int) -> int:
        if self.dataflow == "dla":
            return -(-self.c // elements) * self.p * self.q
        if self.dataflow == "eye":
            return self.c * -(-self.p // elements) * -(-self.q // self.r)
        return self.c * -(-self.q // elements)


@final
@dataclass(frozen=True)
class Label:
    """A row of a table.

    Args:
        convolutions: What it may be a label of; more than one, or none, only where the table is one of products.
        product: The product of its own right; None for a convolution.
        elements: Of the design called best.
        tile: Of the design called best.
        cycles: As recorded.
    """

    convolutions: tuple[Convolution, ...]
    product: Convolution | None
    elements: int
    tile: int
    cycles: float

    @property
    def reproduced(self) -> bool:
        """Whether the rules give the recorded cycles."""
        return bool(self.convolutions) and all(
            v.cycles(self.elements, self.tile) == self.cycles for v in self.convolutions
        )

    def ratio_of(self, run: Convolution) -> float:
        """Least cycles over those of the label's design."""
        return run.least / run.cycles(self.elements, self.tile)


def read_label(row: dict[str, str]) -> Label:
    """A row of a table of convolutions or of products.

    Raises:
        UserError: A dataflow or a design that is not known, or sizes without an output.
        KeyError, ValueError, TypeError: A column is missing or no number.
    """
    dataflow, config, cycles = row["df"], int(row["ConfigID"]), float(row["rewards"])
    if dataflow not in DATAFLOWS:
        raise UserError(f"`df` must be one of {', '.join(DATAFLOWS)}, got {dataflow!r}")
    if not 0 <= config < ELEMENTS * TILES:
        raise UserError(f"`ConfigID` must be in 0..{ELEMENTS * TILES - 1}, got {config}")
    elements, tile = config // TILES + 1, config % TILES + 1
    if "GEMM_K" in row:
        m, n, depth = (int(row[d]) for d in ("M", "N", "GEMM_K"))
        if min(m, n, depth) < 1:
            raise UserError(f"sizes must be positive, got {[m, n, depth]}")
        found = [v for v in _convolutions(m, n, depth, dataflow) if v.cycles(elements, tile) == cycles]
        return Label(tuple(found), Convolution(m, depth, n, 1, 1, dataflow), elements, tile, cycles)
    k, c, x, y, r, s = (int(row[d]) for d in "KCXYRS")
    if r != s or min(k, c, r) < 1 or min(x, y) < r:
        raise UserError(f"sizes must be positive, R = S, and X and Y at least R: got {[k, c, x, y, r, s]}")
    return Label((Convolution(k, c, x - r + 1, y - r + 1, r, dataflow),), None, elements, tile, cycles)


def _convolutions(m: int, n: int, k: int, dataflow: str) -> Iterator[Convolution]:
    """Those of the published ranges with the sizes of a product."""
    for r in KERNELS:
        channels, rest = divmod(k, r * r)
        if rest or channels not in CHANNELS:
            continue
        for x in EXTENTS:
            p = x - r + 1
            if p >= 1 and n % p == 0 and n // p + r - 1 in EXTENTS:
                yield Convolution(m, channels, p, n // p, r, dataflow)
