"""GEMM and fused pairs of GEMMs on a 16 x 16 systolic array: cycles of the RTL (TileFlow, MICRO 2023)."""

from functools import cache
from pathlib import Path

from codesign.arch.architecture import Architecture
from codesign.core.errors import CodesignError
from codesign.mapping.mapping import LevelMapping, Mapping
from codesign.timing.simulate import Run, simulate
from codesign.timing.table import load_timing
from codesign.workloads.computation import Computation
from experiments.models.machines import load_machine
from experiments.validation.common import Comparison, Point, integer, read_rows

_GEMM = ("M", "N", "K", "tile_M", "tile_N", "tile_K")
_WORD_BITS = 16
_ARRAY = 16


@cache
def _machine() -> Architecture:
    return load_machine("systolic16")


def gemm_cycles(m: int, n: int, k: int, tile_m: int, tile_n: int, tile_k: int) -> int:
    """Cycles of one GEMM mapping: K innermost in main memory, then M, then N; 16 (M) x 16 (K) in space."""
    computation = Computation.parse("C[m,n] += A[m,k] * B[k,n]", m=m, n=n, k=k, bits=_WORD_BITS)
    mapping = Mapping.from_levels(
        [
            LevelMapping("DRAM", ("A", "B", "C"), (("n", n // tile_n), ("m", m // tile_m), ("k", k // tile_k))),
            LevelMapping(
                "Buffer",
                ("A", "B", "C"),
                (("n", tile_n), ("m", tile_m // _ARRAY), ("k", tile_k // _ARRAY)),
                (("m", _ARRAY, "x"), ("k", _ARRAY, "y")),
            ),
        ]
    )
    run = simulate(computation, _machine(), mapping, load_timing("systolic16"))
    if not isinstance(run, Run):
        raise CodesignError(str(run))
    return run.latency_cycles


def compare_gemm(folder: Path, smoke: bool) -> Comparison:
    """Every row of `gemm_systolic16.csv`."""
    path = folder / "gemm_systolic16.csv"
    rows = read_rows(path, (*_GEMM, "rtl_cycles"))
    points = []
    for i, row in enumerate(rows[:: 20 if smoke else 1]):
        where = f"{path}: row {row.get('row', i)}"
        shape = [integer(row, column, where) for column in _GEMM]
        points.append(Point(row.get("row", str(i)), gemm_cycles(*shape), integer(row, "rtl_cycles", where), "GEMM"))
    timing = load_timing("systolic16")
    constants = {"fill_drain_cycles": timing.fill_drain_cycles, "startup_cycles": 6, "run_cycles": timing.run_cycles}
    return Comparison("tileflow", points, "RTL cycles", constants, timing.fitted_on)


_FUSED = ("M", "N", "K", "L", "tile_M", "tile_K", "tile_L")
_TRAFFIC = ("mem_to_buf_bits", "buf_to_mem_bits", "buf_to_reg_bits", "reg_to_buf_bits")


def compare_fused(folder: Path, smoke: bool) -> Comparison:
    """Every row of `fused_two_gemm.csv`: cycles, and four counts of traffic."""
    from experiments.models.fused_pair import FusedPair, pair_cycles, pair_traffic_bits

    path = folder / "fused_two_gemm.csv"
    rows = read_rows(path, (*_FUSED, "rtl_cycles"))
    timing = load_timing("systolic16")
    points, equal, counted = [], 0, 0
    for i, row in enumerate(rows[:: 8 if smoke else 1]):
        where = f"{path}: row {row.get('row', i)}"
        pair = FusedPair(*(integer(row, column, where) for column in _FUSED))
        points.append(
            Point(
                row.get("row", str(i)),
                pair_cycles(pair, _machine(), timing),
                integer(row, "rtl_cycles", where),
                "fused",
            )
        )
        if all(column in row for column in _TRAFFIC):
            counted += 1
            equal += pair_traffic_bits(pair, _machine()) == tuple(integer(row, c, where) for c in _TRAFFIC)
    names = [name for name, _ in timing.constants] + ["fill_drain_cycles", "run_cycles"]
    constants = {name: timing.constant(name) for name in names if name.startswith("fused_")}
    more = {"rows_with_traffic": counted, "rows_with_equal_traffic": equal}
    return Comparison("tileflow-fused", points, "RTL cycles", constants, timing.fitted_on, more)
