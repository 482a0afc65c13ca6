"""Random small mapping problems: computations of many forms on random hierarchies."""

import numpy as np

from codesign.arch.architecture import (
    AccessEnergy,
    Architecture,
    Arithmetic,
    Fanout,
    LevelKind,
    Links,
    Ports,
    StorageLevel,
)
from codesign.mapping.constraints import Constraints, LevelConstraints, MappingProblem
from codesign.workloads.computation import Computation

FORMS = {
    "gemm": ("O[m,n] += I[m,k] * W[k,n]", "mnk"),
    "batched": ("O[b,m,n] += I[b,m,k] * W[b,k,n]", "bmnk"),
    "conv1d": ("O[k,p] += I[c,p+r] * W[k,c,r]", "kpcr"),
    "conv1d_strided": ("O[k,p] += I[c,2*p+r] * W[k,c,r]", "kpcr"),
    "conv1d_dilated": ("O[k,p] += I[c,p+2*r] * W[k,c,r]", "kpcr"),
    "conv2d": ("O[k,p,q] += I[p+r,q+s] * W[k,r,s]", "kpqrs"),
    "depthwise": ("O[c,p] += I[c,p+r] * W[c,r]", "cpr"),
    "mttkrp": ("O[i,j] += I[i,k,l] * A[k,j] * B[l,j]", "ijkl"),
    "sum": ("O[m] += I[m,k]", "mk"),
    "dot": ("S[] += X[k] * Y[k]", "k"),
    "outer": ("O[m,n] += X[m] * Y[n]", "mn"),
    "pointwise": ("O[k,p,q] += I[c,p,q] * W[k,c]", "kpqc"),
    "diagonal": ("O[m,n] += I[m,m+n] * W[n]", "mn"),
}
PLAIN = ("gemm", "batched", "mttkrp", "sum", "dot", "outer")
WINDOWS = ("conv1d", "conv1d_strided", "conv1d_dilated", "conv2d", "depthwise")


def random_problem(
    rng: np.random.Generator,
    forms: tuple[str, ...] = PLAIN + WINDOWS,
    *,
    free_bypass: bool = False,
    constrained: bool = False,
    size: int = 40,
    levels: int | None = None,
    busy: bool = False,
) -> MappingProblem:
    """A problem of one of these forms whose bounds multiply to about `size`.

    Args:
        rng: Draws it.
        forms: Keys of `FORMS`.
        free_bypass: Whether keep sets are free.
        constrained: Whether factors and orders are fixed at some levels.
        size: Product of the bounds, about.
        levels: Of the hierarchy; None draws 1 to 4.
        busy: Whether every level may keep every tensor and has limited ports; else a random part.
    """
    notation, dims = FORMS[forms[int(rng.integers(len(forms)))]]
    bounds = dict.fromkeys(dims, 1)
    while np.prod(list(bounds.values())) < size:
        dim = dims[int(rng.integers(len(dims)))]
        bounds[dim] *= int(rng.choice([2, 2, 2, 3, 3, 5]))
    computation = Computation.parse(notation, bounds, bits=8, partial_bits=int(rng.choice([8, 24])))
    architecture = _random_architecture(rng, computation, levels, busy)
    rules: list[LevelConstraints] = []
    if constrained:
        rules = [_random_constraints(rng, computation, v.name) for v in architecture.levels if rng.random() < 0.6]
    return MappingProblem(computation, architecture, Constraints(tuple(rules), free_bypass))


def _random_architecture(
    rng: np.random.Generator, computation: Computation, n_given: int | None, busy: bool
) -> Architecture:
    n_levels = int(rng.integers(1, 5)) if n_given is None else n_given
    names = [t.name for t in computation.tensors]
    largest = sum(computation.tensor_words(t) for t in computation.tensors)
    levels = []
    for v in range(n_levels):
        keep = frozenset(n for n in names if rng.random() < 0.7 or busy) if v else frozenset(names)
        words = max(3.0, largest * float(rng.uniform(0.1, 0.8)) / 2.0 ** max(0, v - 1))
        fanout = Fanout()
        if rng.random() < 0.45:
            links = (Links.NONE, Links.SYSTOLIC, Links.MULTICAST, Links.MULTICAST)[int(rng.integers(4))]
            hop = float(rng.choice([0.0, 0.05]))
            fanout = Fanout(int(rng.integers(1, 5)), int(rng.integers(1, 4)), links, hop)
        limited = rng.random(2) < (1.0 if busy else 0.4)
        aside = rng.spawn(1)[0]  # leaves the problems as they were before levels had one port
        levels.append(
            StorageLevel(
                name=f"L{v}",
                kind=LevelKind.SRAM if v else LevelKind.DRAM,
                capacity_bytes=round(words) if v else None,
                word_bits=int(rng.choice([8, 16])),
                one_element_per_word=bool(rng.random() < 0.3),
                keep=keep,
                read_bandwidth_words_per_cycle=float(rng.choice([0.5, 1.0, 2.5])) if limited[0] else None,
                write_bandwidth_words_per_cycle=float(rng.choice([0.3, 1.0, 2.0])) if limited[1] else None,
                ports=Ports.SHARED if aside.random() < 0.4 else Ports.SEPARATE,
                energy=AccessEnergy(*(float(x) * 3.0 ** (n_levels - v) for x in rng.uniform(0.2, 1.0, 3))),
                fanout=fanout,
            )
        )
    return Architecture("random", tuple(levels), Arithmetic(energy_pj=0.3))


def _random_constraints(rng: np.random.Generator, computation: Computation, level: str) -> LevelConstraints:
    dims = list(computation.dims)
    temporal, spatial = [], []
    kind = rng.random()
    if kind < 0.25:
        dim = dims[int(rng.integers(len(dims)))]
        factors = [f for f in (1, 2, 3) if computation.sizes[dim] % f == 0]
        temporal.append((dim, int(rng.choice(factors))))
    if 0.2 < kind < 0.4:
        dim = dims[int(rng.integers(len(dims)))]
        spatial.append((dim, 1))
    order = tuple(str(d) for d in rng.permutation(dims)[: int(rng.integers(0, 3))]) if 0.35 < kind < 0.8 else ()
    along_x = frozenset(d for d in dims if rng.random() < 0.5) if kind > 0.7 else None
    return LevelConstraints(level, temporal=tuple(temporal), spatial=tuple(spatial), order=order, along_x=along_x)
