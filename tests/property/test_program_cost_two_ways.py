"""The compiled scoring of programs (Q1-Q9) equals the readable one, from candidates and from primitive sequences alike."""

from typing import Any

import numpy as np
import pytest

from codesign.cost.cost import Infeasible
from codesign.tensorization.encoding import SoftwareProblem
from codesign.tensorization.program_cost import program_cost
from codesign.tensorization.revisions import REVISIONS, score_candidate
from codesign.tensorization.scoring import (
    ARRAY,
    CALLS,
    DRAM_TIME,
    ENERGY,
    HOST,
    LATENCY,
    TRIPS,
    USED_BITS,
    result_width,
)
from codesign.workloads.computation import Computation
from spaces.cores import CORE_SPACES, core_of
from spaces.software import SoftwareSpace

CONV: dict[str, Any] = {"n": 1, "k": 24, "x": 14, "y": 13, "c": 20, "r": 3, "s": 3}
WORKLOADS: dict[str, tuple[str, dict[str, int]]] = {
    "conv": ("C[n,k,x,y] += A[n,c,x+r,y+s] * B[k,c,r,s]", CONV),
    "strided": ("C[k,x,y] += A[c,2*x+r,2*y+s] * B[k,c,r,s]", {"k": 20, "x": 9, "y": 7, "c": 12, "r": 3, "s": 3}),
    "gemm": ("L[i,j] += M[i,k] * N[k,j]", {"i": 70, "j": 33, "k": 129}),
    "ttm": ("C[i,j,k] += A[i,j,l] * B[l,k]", {"i": 9, "j": 40, "k": 33, "l": 50}),
    "gemv": ("E[m,n] += C[n,m,l] * D[n,l]", {"m": 40, "n": 5, "l": 70}),
}


def problems() -> list[tuple[str, str, int]]:
    pairs = [("gemmcore", w) for w in ("conv", "strided", "gemm", "ttm")]
    pairs += (
        [("gemvcore", w) for w in ("gemv", "gemm")]
        + [("dotcore", w) for w in ("gemv", "conv")]
        + [("convcore", "conv")]
    )
    return [(core, workload, seed) for seed, (core, workload) in enumerate(pairs)]


def make(core: str, workload: str, seed: int) -> SoftwareSpace:
    space = CORE_SPACES[core]
    point = space.space.to_points(space.space.sample(1, np.random.default_rng(seed)))[0]
    notation, bounds = WORKLOADS[workload]
    computation = Computation.parse(notation, bounds, partial_bits=32)
    return SoftwareSpace(SoftwareProblem.of(computation, core_of(space, point)))


@pytest.mark.parametrize(("core", "workload", "seed"), problems())
def test_compiled_scores_equal_readable_ones(core: str, workload: str, seed: int) -> None:
    space = make(core, workload, seed)
    rng = np.random.default_rng(seed)
    rows = list(space.sample(12, seed))
    for row in list(rows):  # and some that revisions made, which may be too large
        for revision in rng.integers(0, REVISIONS, size=30):
            revised = space.revised(row, int(revision))
            row = row if revised is None else revised
        rows.append(row)
    results = np.empty((len(rows), result_width(len(space.problem.computation.tensors))))
    loops = np.ones((space.problem.max_loops, 3), np.int64)
    for row, result in zip(rows, results, strict=True):
        score_candidate(space.problem.arrays, row, loops, result)
    from_sequences = space.score([space.sequence(row) for row in rows])
    feasible = 0
    for row, result, again in zip(rows, results, from_sequences, strict=True):
        cost = program_cost(space.program(row))
        assert result[LATENCY] == again[LATENCY]
        assert result[ENERGY] == again[ENERGY]
        if isinstance(cost, Infeasible):
            assert result[LATENCY] == np.inf
            continue
        feasible += 1
        assert result[LATENCY] == pytest.approx(cost.latency_cycles, rel=1e-12)
        assert result[ENERGY] == pytest.approx(cost.energy_pj, rel=1e-9)
        parts = (cost.array_cycles, cost.dram_cycles, cost.host_cycles, cost.calls, cost.sub_workloads)
        assert [result[k] for k in (ARRAY, DRAM_TIME, HOST, CALLS, TRIPS)] == pytest.approx(parts, rel=1e-12)
        assert result[USED_BITS] == cost.scratchpad_bytes * 8
    assert feasible >= 12
