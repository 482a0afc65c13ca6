"""Two matrix products that share their intermediate on chip: C = A B, then E = C D, one block of rows of A at a time.

The block of C never leaves the chip. A plan has two phases a block: tiles of A and B, then tiles of D.
"""

from dataclasses import dataclass

import numpy as np

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError
from codesign.timing.engine import run
from codesign.timing.simulate import OPERATION_LIMIT
from codesign.timing.table import Timing
from experiments.models.plan import Kind, NamedPlan, Process, make_plan

_NO_EVENTS = np.zeros((0, 4))
_BLOCK, _PHASE, _TILE = 1, 2, 3
"""Ways into a step: the next block of rows, the next product, the next tile."""


@dataclass(frozen=True)
class FusedPair:
    """C[M,L] = A[M,K] B[K,L], then E[M,N] = C[M,L] D[L,N].

    Args:
        m: Rows of A and E.
        n: Columns of D and E.
        k: Columns of A.
        l: Columns of B.
        tile_m: Rows of a block.
        tile_k: Columns of A in a tile of the first product.
        tile_l: Rows of D in a tile of the second product.
    """

    m: int
    n: int
    k: int
    l: int  # noqa: E741 - the name of the dimension
    tile_m: int
    tile_k: int
    tile_l: int

    def __post_init__(self) -> None:
        for whole, part in (("m", "tile_m"), ("k", "tile_k"), ("l", "tile_l")):
            size, tile = getattr(self, whole), getattr(self, part)
            if tile < 1 or size % tile:
                raise UserError(f"`{part}` must divide `{whole}`, got {tile} and {size}", where="fused pair")


def pair_plan(pair: FusedPair, architecture: Architecture, timing: Timing) -> NamedPlan:
    """The plan of a pair on an array behind one buffer."""
    memory, macs = architecture.levels[0], architecture.mac_units
    read, write = memory.read_bandwidth_words_per_cycle or np.inf, memory.write_bandwidth_words_per_cycle or np.inf
    start = next((v for v in timing.levels if v.level == memory.name), None)
    read_start = start.read_startup_cycles if start else 0.0
    write_start = start.write_startup_cycles if start else 0.0
    drain = timing.fill_drain_cycles
    into_first = (0, _BLOCK + 0, _TILE + 0)
    first = [(0, 0), (0, 1), (0, 3)]
    second = [(1, 2), (1, 3)]
    assert into_first
    a_words, b_words, d_words = pair.tile_m * pair.tile_k, pair.tile_k * pair.l, pair.tile_l * pair.n
    processes = [
        Process(
            "load A", Kind.LOAD, ("read channel",), dict.fromkeys(first, np.ceil(a_words / read) + read_start),
            depth=int(timing.constant("fused_first_buffers")), early_cycles=timing.constant("fused_early_cycles"),
        ),
        Process(
            "load B", Kind.LOAD, ("read channel",), dict.fromkeys(first, np.ceil(b_words / read) + read_start),
            depth=int(timing.constant("fused_first_buffers")), early_cycles=timing.constant("fused_early_cycles"),
        ),
        Process(
            "load D", Kind.LOAD, ("read channel",), dict.fromkeys(second, np.ceil(d_words / read) + read_start),
            depth=int(timing.constant("fused_second_buffers")), early_cycles=timing.constant("fused_early_cycles"),
        ),
        Process(
            "pass over C", Kind.COMPUTE, ("array",),
            {(1, 2): pair.tile_m * pair.l / timing.constant("fused_pass_words")},
        ),
        Process(
            "first product", Kind.COMPUTE, ("array",),
            dict.fromkeys(first, pair.tile_m * pair.tile_k * pair.l / macs + drain), needs=("load A", "load B"),
        ),
        Process(
            "second product", Kind.COMPUTE, ("array",),
            dict.fromkeys(second, pair.tile_m * pair.tile_l * pair.n / macs + drain), needs=("load D", "store E"),
        ),
        Process(
            "store E", Kind.STORE, ("write channel",),
            {(1, 0): np.ceil(pair.tile_m * pair.n / write) + write_start, (1, 1): np.ceil(pair.tile_m * pair.n / write) + write_start},
            depth=2,
        ),
    ]  # fmt: skip
    blocks = pair.m // pair.tile_m
    factors = [[blocks, 2, pair.k // pair.tile_k], [blocks, 2, pair.l // pair.tile_l]]
    return make_plan(factors, 1, processes)


def pair_cycles(pair: FusedPair, architecture: Architecture, timing: Timing) -> int:
    """Cycles of the whole run."""
    _, cycles, *_ = run(pair_plan(pair, architecture, timing).plan, True, OPERATION_LIMIT, _NO_EVENTS)
    return round(cycles + timing.run_cycles)


def pair_traffic_bits(pair: FusedPair, architecture: Architecture) -> tuple[int, int, int, int]:
    """Bits from memory to buffer, buffer to memory, buffer to registers, registers to buffer.

    A comes once, B and D once a block of rows. The array takes a stationary word of the first operand and a word of the
    second for each of its `side` columns; sums are read and written once every `side` steps of a reduction, and C is
    passed over once more between the products.
    """
    word = architecture.levels[0].word_bits
    side = architecture.levels[-1].fanout.x
    m, n, k, w = pair.m, pair.n, pair.k, pair.l
    blocks = m // pair.tile_m
    products = (m * w * k + m * n * w) // side
    inward = word * (m * k + blocks * (k * w + w * n))
    streamed = m * k + 2 * m * w + k * w * m // side + w * n * m // side + products
    return inward, word * m * n, word * streamed, word * (products + m * w)
