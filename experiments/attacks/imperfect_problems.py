"""Small problems with imperfect factors, drawn at random: any links, ports, fan-outs, capacities, constraints."""

import random
from dataclasses import replace

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, Links, Ports, StorageLevel
from codesign.core.errors import UserError
from codesign.mapping.constraints import Constraints, LevelConstraints, MappingProblem
from codesign.workloads.computation import Computation
from experiments.attacks.imperfect_nests import how_many

NOTATIONS = ("O[m,n] += I[m,k] * W[k,n]", "O[k,p] += I[c,2*p+r] * W[k,c,r]", "O[k,p] += I[c,p+r] * W[k,c,r]")


def draw(rng: random.Random) -> MappingProblem:
    """A small problem on two or three levels: any links, ports, fan-outs, capacities, free bypasses at times."""
    notation = rng.choice(NOTATIONS)
    dims = {d: rng.randint(1, 13) for d in "mnkcpr" if d in notation}
    levels = []
    number = rng.choice([2, 3])
    for v in range(number):
        scale = 60.0 / 8.0**v
        levels.append(
            StorageLevel(
                f"L{v}",
                capacity_bytes=None if v == 0 else float(rng.randint(6, 90 if v == 1 else 20)),
                energy=AccessEnergy(*(scale * rng.uniform(0.5, 1.5) for _ in range(3))),
                word_bits=8,
                fanout=Fanout(
                    rng.choice([1, 2, 3, 5]),
                    rng.choice([1, 2, 4]),
                    links=rng.choice([Links.MULTICAST, Links.SYSTOLIC, Links.NONE]),
                    hop_pj_per_bit=rng.choice([0.0, 0.1]),
                ),
                read_bandwidth_words_per_cycle=rng.choice([None, 1.0, 4.0]),
                write_bandwidth_words_per_cycle=rng.choice([None, 1.0, 4.0]),
                ports=rng.choice(list(Ports)),
            )
        )
    machine = Architecture("random", tuple(levels), Arithmetic(energy_pj=0.3))
    free = Constraints(free_bypass=rng.random() < 0.3)
    return MappingProblem(Computation.parse(notation, dims), machine, free, imperfect=True)


SMALL_NOTATIONS = (
    "O[m] += I[m,k] * W[k]",
    "O[m,n] += I[m,k] * W[k,n]",
    "O[m,n] += I[m] * W[n]",
    "O[p] += I[p+r] * W[r]",
    "O[p] += I[2*p+r] * W[r]",
    "O[p] += I[p+2*r] * W[r]",
    "O[k,p] += I[p+r] * W[k,r]",
    "O[p,q] += I[p+r,q] * W[r]",
    "O[p] += I[p+r+s] * W[r,s]",
    "O[p+r] += I[p] * W[r]",
    "O[p] += I[p+r] * W[p+r]",
    "O[p] += I[p+r] * W[2*p+r]",
    "O[p+r] += I[p+r] * W[r]",
    "O[p,q] += I[p+q] * W[q+p]",
    "O[k,p] += I[3*p] * W[k]",
    "O[k,p] += I[2*p,c] * W[k,c]",
    "O[p,q] += I[2*p,3*q] * W[q]",
    "O[p] += I[3*p+r] * W[r]",
)
MOST_CHOICES = 4_000_000
"""Factors and orders of a problem that is drawn, at most; most of them come to the same nest."""


def constraint(rng: random.Random, level: str, computation: Computation) -> LevelConstraints:
    """One fixed factor, order or bypass."""
    dim = rng.choice(computation.dims)
    kind = rng.randrange(4)
    if kind == 3:
        return LevelConstraints(level, bypass=frozenset({rng.choice(computation.tensors).name}))
    if kind == 0:
        return LevelConstraints(level, temporal=((dim, rng.randint(1, 3)),))
    if kind == 1:
        return LevelConstraints(level, spatial=((dim, rng.randint(1, 3)),))
    return LevelConstraints(level, order=tuple(rng.sample(computation.dims, rng.randint(1, len(computation.dims)))))


def draw_small(rng: random.Random) -> MappingProblem:
    """A problem whose nests can all be walked."""
    while True:
        base, notation = draw(rng), rng.choice(SMALL_NOTATIONS)
        levels = base.architecture.levels[: rng.choice([2, 3, 3])]
        largest = rng.choice([4, 8, 13, 25, 40] if len(levels) == 2 else [3, 5, 7])
        dims = sorted(set(notation) & set("cmnkpqrs"))
        computation = Computation.parse(notation, {d: rng.randint(2, largest) for d in dims})
        if len(levels) == 3:  # one fan-out, or too many nests
            wide = rng.choice(levels).name
            levels = tuple(v if v.name == wide else replace(v, fanout=Fanout()) for v in levels)
        constraints = base.constraints
        if rng.random() < 0.7:
            rule = constraint(rng, rng.choice(levels[1:]).name, computation)
            constraints = Constraints((rule,), free_bypass=constraints.free_bypass)
        machine = replace(base.architecture, levels=levels)
        problem = MappingProblem(computation, machine, constraints, imperfect=True)
        try:
            many = how_many(problem)
        except UserError:  # the fixed factors fit no fan-out
            continue
        if 500 <= many <= MOST_CHOICES:
            return problem
