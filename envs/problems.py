"""Computations on cores for training and testing learned searches: a random family, and the benchmark list of HASCO's release."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from codesign.core.errors import UserError
from codesign.tensorization.encoding import SoftwareProblem
from codesign.tensorization.stages import split_stages
from codesign.workloads.computation import Computation
from spaces.cores import CORE_SPACES, core_of
from spaces.parameters import Value
from spaces.software import SoftwareSpace

PARTIAL_BITS = 32

CONVOLUTION = "C[k,x,y] += A[c,x+r,y+s] * B[k,c,r,s]"
STRIDED = "C[k,x,y] += A[c,2*x+r,2*y+s] * B[k,c,r,s]"
GEMM = "L[i,j] += M[i,k] * N[k,j]"
GEMV = "E[m,n] += C[n,m,l] * D[n,l]"
TTM = "C[i,j,k] += A[i,j,l] * B[l,k]"
MTTKRP = "D[i,j] += A[i,k,l] * B[l,j] * C[k,j]"

_FAMILIES = {"conv": 0.4, "strided": 0.1, "gemm": 0.25, "ttm": 0.15, "gemv": 0.1}
_CORES_OF = {
    "conv": ("gemmcore", "convcore", "gemvcore", "dotcore"),
    "strided": ("gemmcore", "gemvcore"),
    "gemm": ("gemmcore", "gemvcore", "dotcore"),
    "ttm": ("gemmcore", "gemvcore", "dotcore"),
    "gemv": ("gemvcore", "dotcore"),
}


@dataclass(frozen=True)
class Case:
    """One computation on one core, as plain values.

    Args:
        name: For tables.
        notation: The computation.
        bounds: Of its dimensions.
        core: Name of the core's space.
        point: The design.
    """

    name: str
    notation: str
    bounds: tuple[tuple[str, int], ...]
    core: str
    point: tuple[tuple[str, Value], ...]

    def computation(self) -> Computation:
        """The computation."""
        return Computation.parse(self.notation, dict(self.bounds), name=self.name, partial_bits=PARTIAL_BITS)

    def problem(self) -> SoftwareProblem:
        """The problem that a search solves."""
        return SoftwareProblem.of(self.computation(), core_of(CORE_SPACES[self.core], dict(self.point)))

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two cases the same."""
        return (self.notation, self.bounds, self.core, self.point)


def _size(rng: np.random.Generator, least: int, most: int) -> int:
    """Log-uniform; every other one a multiple of 8 where there is room, as channels are."""
    value = round(float(np.exp(rng.uniform(np.log(least), np.log(most)))))
    return -(-value // 8) * 8 if value >= 8 and rng.random() < 0.6 else value


def _random_bounds(family: str, rng: np.random.Generator) -> tuple[str, dict[str, int]]:
    if family in ("conv", "strided"):
        pixels, taps = _size(rng, 7, 64), int(rng.choice([1, 3, 3, 5] if family == "conv" else [1, 3, 7]))
        channels = {"k": _size(rng, 16, 512), "c": _size(rng, 3, 512)}
        notation = CONVOLUTION if family == "conv" else STRIDED
        return notation, {**channels, "x": pixels, "y": pixels, "r": taps, "s": taps}
    if family == "gemm":
        return GEMM, {"i": _size(rng, 16, 1024), "j": _size(rng, 16, 1024), "k": _size(rng, 16, 1024)}
    if family == "ttm":
        return TTM, {d: _size(rng, 16, 512) for d in ("i", "j", "k", "l")}
    return GEMV, {"m": _size(rng, 16, 512), "n": _size(rng, 1, 256), "l": _size(rng, 16, 1024)}


def random_case(rng: np.random.Generator) -> Case:
    """A random computation on a random design of a core that can take it."""
    families = list(_FAMILIES)
    family = families[int(rng.choice(len(families), p=list(_FAMILIES.values())))]
    notation, bounds = _random_bounds(family, rng)
    cores = _CORES_OF[family]
    core = cores[int(rng.integers(len(cores)))] if rng.random() < 0.5 else cores[0]
    space = CORE_SPACES[core].space
    point = space.to_points(space.sample(1, rng))[0]
    return Case(
        f"{family} {'x'.join(map(str, bounds.values()))}", notation, tuple(bounds.items()), core, tuple(point.items())
    )


@lru_cache(maxsize=8)
def training_cases(count: int, seed: int) -> tuple[Case, ...]:
    """Random cases to train on; none of the benchmark list."""
    return _distinct(count, np.random.default_rng([seed, 0]), {c.key for c in BENCHMARKS})


def unseen_cases(count: int, seed: int, trained_on: tuple[Case, ...] = ()) -> tuple[Case, ...]:
    """Random cases of another stream, none of which is among those trained on."""
    return _distinct(count, np.random.default_rng([seed, 1]), {c.key for c in trained_on})


def _distinct(count: int, rng: np.random.Generator, taken: set[tuple[object, ...]]) -> tuple[Case, ...]:
    found: list[Case] = []
    while len(found) < count:
        case = random_case(rng)
        if case.key not in taken and _usable(case):
            taken = taken | {case.key}
            found.append(case)
    return tuple(found)


def _usable(case: Case) -> bool:
    """Whether some choice exists and its calls fit the memories."""
    try:
        space = SoftwareSpace(case.problem())
        rows = space.sample(4, 0)
    except UserError:
        return False
    return bool(np.isfinite(space.score([space.sequence(r) for r in rows])[:, 0]).any())


def _preset(core: str, **changes: Value) -> tuple[tuple[str, Value], ...]:
    return tuple({**CORE_SPACES[core].space.presets[0], **changes}.items())


def _benchmark(kind: str, sizes: tuple[int, ...], core: str, notation: str, dims: str) -> Case:
    bounds = tuple(zip(dims, sizes, strict=True))
    return Case(f"{kind} {'x'.join(map(str, sizes))}", notation, bounds, core, _preset(core))


def _convolution(sizes: tuple[int, ...], core: str) -> Case:
    """From (N, C, Y, X, K, R, S, stride), Y and X being sizes of the input without padding."""
    n, c, y, x, k, r, s, stride = sizes
    assert n == 1 and stride == 1
    bounds = {"k": k, "x": y - r + 1, "y": x - s + 1, "c": c, "r": r, "s": s}
    return Case(
        f"CONV {'x'.join(map(str, sizes))}", CONVOLUTION, tuple((d, b) for d, b in bounds.items()), core, _preset(core)
    )


def _stages(sizes: tuple[int, ...]) -> list[Case]:
    """MTTKRP as its two stages: a matrix unit takes the first, a matrix-vector unit the second."""
    whole = Computation.parse(MTTKRP, dict(zip("ijkl", sizes, strict=True)))
    cases = []
    for number, (stage, core) in enumerate(zip(split_stages(whole), ("gemmcore", "gemvcore"), strict=True), start=1):
        name = f"MTTKRP {'x'.join(map(str, sizes))} stage {number}"
        cases.append(Case(name, str(stage), tuple(stage.sizes.items()), core, _preset(core)))
    return cases


def _benchmarks() -> tuple[Case, ...]:
    cases = [_benchmark("GEMM", s, "gemmcore", GEMM, "ijk") for s in BENCHMARK_SIZES["GEMM"]]
    cases += [_benchmark("GEMV", s, "gemvcore", GEMV, "mnl") for s in BENCHMARK_SIZES["GEMV"]]
    cases += [_benchmark("TTM", s, "gemmcore", TTM, "ijkl") for s in BENCHMARK_SIZES["TTM"]]
    for sizes in BENCHMARK_SIZES["MTTKRP"]:
        cases += _stages(sizes)
    cases += [_convolution(s, "gemmcore") for s in (*BENCHMARK_SIZES["CONV"], *BENCHMARK_SIZES["LENET"])]
    cases += [_convolution(BENCHMARK_SIZES["CONV"][0], "convcore")]
    return tuple(cases)


BENCHMARK_SIZES: dict[str, tuple[tuple[int, ...], ...]] = {
    "GEMM": ((256, 512, 1024), (64, 64, 64), (256, 64, 1024)),
    "GEMV": ((128, 256, 512),),
    "TTM": ((128, 256, 512, 1024), (64, 64, 64, 64), (64, 256, 64, 1024)),
    "MTTKRP": ((128, 256, 512, 1024), (64, 64, 64, 64)),
    "CONV": ((1, 128, 32, 256, 32, 3, 3, 1), (1, 1, 64, 64, 256, 1, 1, 1), (1, 256, 64, 64, 256, 1, 1, 1)),
    "LENET": ((1, 1, 32, 32, 6, 5, 5, 1), (1, 6, 14, 14, 16, 5, 5, 1), (1, 16, 5, 5, 120, 5, 5, 1)),
}
"""Test cases of HASCO's release (github.com/pku-liang/HASCO, testbench; facts only); dimensions as in its notation."""

BENCHMARKS = _benchmarks()
"""The release's test cases on the cores' presets, in the order of the release."""
