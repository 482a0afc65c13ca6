"""Matrix products over all cores: the tiling of least time, found by trying every one (rules G2 to G4).

* G3, Tilings: A block of threads makes one tile of the result. Its sides are powers of two from 16 to 256, its depth
  is 32 or, up to `deepest_step`, 64. The reduced length is split into 1, 2, 4 and up to `largest_split` parts. The sums, in 32 bits, fit
  half the registers, and the steps in flight fit local memory. At most two blocks share a core. Every such tiling is
  tried. DRAM moves the rows and columns of each round of blocks once, in the best rectangle of blocks; operands that
  the cache holds come once.
* G4, Waves: Blocks run in rounds over all cores. A step takes the longest of four: arithmetic, local memory, the
  cache's bandwidth shared by all blocks, and the latency of a load over the steps prefetched. In a cluster of
  `cluster_blocks` blocks that share their rows or their columns, the shared ones leave the cache once. After its last step a
  block writes its results at DRAM's rate. A product takes the longer of its rounds and its DRAM bytes. Split products
  pay for their partial sums and a second kernel.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from codesign.core.checks import check_least
from codesign.timing.cores.system import CoreSystem

SIDES = (16, 32, 64, 128, 256)
"""Sides of a block's tile of the result. Libraries have powers of two (CUTLASS, rocBLAS), of which the least is a matrix core's."""

PARTIAL_BYTES = 4
"""Sums are held in 32 bits."""

DEPTHS = (32, 64)
"""Depths of a step over the reduced length; a library has the first, or both, and a small tile leaves room for the deeper one."""

COPIES = 2
"""Four parts of a core, two by two, each read their rows and columns of a tile: every word is read twice from local memory."""

MOST_RESIDENT = 2
"""Blocks of a matrix product that libraries let share a core."""


@final
@dataclass(frozen=True)
class Product:
    """`batch` products of ``m x k`` and ``k x n``.

    Args:
        m: Rows of the result.
        n: Columns of the result.
        k: Reduced length.
        batch: How many of them.
        left_bytes: Of one element of the left operand.
        right_bytes: Of the right one.
        output_bytes: Of the result.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    left_bytes: float = 2.0
    right_bytes: float = 2.0
    output_bytes: float = 2.0

    def __post_init__(self) -> None:
        check_least(1, where="matrix product", m=self.m, n=self.n, k=self.k, batch=self.batch)

    @property
    def input_bytes(self) -> float:
        """Bytes of both operands, each counted once."""
        return self.batch * self.k * (self.m * self.left_bytes + self.n * self.right_bytes)

    @property
    def result_bytes(self) -> float:
        """Bytes of the result, counted once."""
        return self.batch * self.m * self.n * self.output_bytes


@final
@dataclass(frozen=True)
class Tiling:
    """How a product is laid over the cores.

    Args:
        rows: Of a block's tile of the result.
        columns: Of it.
        depth: Of one step over the reduced length.
        split: Parts that the reduced length is cut into.
    """

    rows: int
    columns: int
    depth: int = 32
    split: int = 1


@final
@dataclass(frozen=True)
class ProductTime:
    """What one product takes on the cores, launch apart.

    Args:
        seconds: In all.
        tiling: Of it.
        waves: Rounds of blocks, the last one included.
        dram_s: Moving all bytes through DRAM at the rate it reaches.
        core_s: What cores need for their tiles, DRAM apart.
    """

    seconds: float
    tiling: Tiling
    waves: int
    dram_s: float
    core_s: float

    @property
    def bound_by(self) -> str:
        """``DRAM`` or ``compute``."""
        return "DRAM" if self.dram_s >= self.core_s else "compute"


def product_time(system: CoreSystem, product: Product) -> ProductTime:
    """The least time over every tiling that fits: a proof by trial, 25 tiles and up to five splits."""
    return min(
        (tiled_time(system, product, tiling) for tiling in tilings(system, product)),
        key=lambda t: (t.seconds, -t.tiling.rows * t.tiling.columns, t.tiling.split),
    )


def tilings(system: CoreSystem, product: Product) -> Iterator[Tiling]:
    """Every tile whose sums fit half the registers and whose operands fit local memory, with every split of the reduced length (rule G3)."""
    most = int(system.constant("largest_split"))
    for rows in SIDES:
        for columns in SIDES:
            for depth in DEPTHS:
                if depth > system.constant("deepest_step"):
                    continue
                split = 1
                while split <= most and (split == 1 or product.k // split >= 4 * depth):
                    tiling = Tiling(rows, columns, depth, split)
                    if resident_blocks(system, product, tiling):
                        yield tiling
                    split *= 2


def resident_blocks(system: CoreSystem, product: Product, tiling: Tiling) -> int:
    """Blocks with such a tile that fit on a core at a time."""
    sums = tiling.rows * tiling.columns * PARTIAL_BYTES
    stages = system.constant("prefetched_steps") + 1
    held = stages * tiling.depth * (tiling.rows * product.left_bytes + tiling.columns * product.right_bytes)
    return min(int(system.register_bytes / 2 // sums), int(system.local_bytes // held), MOST_RESIDENT)


def tiled_time(system: CoreSystem, product: Product, tiling: Tiling) -> ProductTime:
    """What a product takes with a tiling (rules G2 to G4)."""
    blocks = product.batch * math.ceil(product.m / tiling.rows) * math.ceil(product.n / tiling.columns) * tiling.split
    resident = resident_blocks(system, product, tiling)
    full, rest = divmod(blocks, system.cores * resident)
    core_s = full * _wave_s(system, product, tiling, system.cores * resident, resident)
    if rest:
        core_s += _wave_s(system, product, tiling, rest, math.ceil(rest / system.cores))
    at_once = min(blocks, system.cores * resident)
    moved = _input_bytes(system, product, tiling, at_once) + product.result_bytes
    dram_s = moved / system.dram_rate
    seconds = max(core_s, dram_s)
    if tiling.split > 1:
        # partial sums are written and added up by a second kernel
        sums = product.batch * product.m * product.n * PARTIAL_BYTES * tiling.split
        fits = sums <= system.held_bytes
        seconds += 2 * sums / (system.cache_rate if fits else system.dram_rate) + system.constant("start_s")
    return ProductTime(seconds, tiling, full + bool(rest), dram_s, core_s)


def _wave_s(system: CoreSystem, product: Product, tiling: Tiling, blocks: int, resident: int) -> float:
    """One round of blocks: the steps over the reduced length, then the results, which nothing hides (rule G4)."""
    depth = tiling.depth
    steps = math.ceil(math.ceil(product.k / tiling.split) / depth)
    words = depth * (tiling.rows * product.left_bytes + tiling.columns * product.right_bytes)
    step = max(
        resident * tiling.rows * tiling.columns * depth / system.macs_per_s,
        resident * COPIES * words / system.local_bytes_per_s,
        blocks * _cached_words(system, product, tiling) / system.cache_rate,
        system.constant("step_latency_s") / system.constant("prefetched_steps"),
    )
    written = product.output_bytes if tiling.split == 1 else PARTIAL_BYTES
    results = blocks * min(tiling.rows, product.m) * min(tiling.columns, product.n) * written
    return steps * step + system.constant("step_latency_s") + results / system.dram_rate


def _cached_words(system: CoreSystem, product: Product, tiling: Tiling) -> float:
    """Operand bytes that a block takes out of the cache in a step; of those its cluster shares, its part (rule G4)."""
    rows, columns = tiling.rows * product.left_bytes, tiling.columns * product.right_bytes
    by_rows, by_columns = rows * (product.n > tiling.columns), columns * (product.m > tiling.rows)  # with another block
    shared = max(by_rows, by_columns) * (1.0 - 1.0 / system.constant("cluster_blocks"))
    return tiling.depth * (rows + columns - shared)


def _input_bytes(system: CoreSystem, product: Product, tiling: Tiling, at_once: int) -> float:
    """Operand bytes from DRAM: of each round of blocks its rows and columns once, in the best rectangle of blocks (rule G3).

    Operands that the shared cache holds, and products that one round covers, come once.
    """
    compulsory = product.input_bytes
    down, across = math.ceil(product.m / tiling.rows), math.ceil(product.n / tiling.columns)
    if at_once >= down * across or compulsory / product.batch <= system.held_bytes:
        return compulsory
    least = math.inf
    for high in range(1, min(down, at_once) + 1):
        wide = min(across, math.ceil(at_once / high))
        if high * wide * 2 < at_once:
            continue
        edge = high * tiling.rows * product.left_bytes + wide * tiling.columns * product.right_bytes
        least = min(least, math.ceil(down / high) * math.ceil(across / wide) * edge)
    return max(compulsory, product.batch * product.k * least)
