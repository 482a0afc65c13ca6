"""The formulas for imperfect factors equal the walk on random computations, hierarchies and mappings (rules I1 to I9)."""

import math
import random
import re

import pytest

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, Links, Ports, StorageLevel
from codesign.cost.arrays import Reuse, encode_problem
from codesign.cost.cost import Cost, evaluate
from codesign.cost.imperfect import score_imperfect
from codesign.cost.kernel import score
from codesign.cost.packed import make_kernel
from codesign.mapping.mapping import Axis, LevelMapping, Mapping
from codesign.mapping.nest import encode_nest
from codesign.workloads.computation import Computation
from tests.property.imperfect_walk import walk_imperfect, walked_ports

NOTATIONS = (
    "O[m,n] += I[m,k] * W[k,n]",
    "O[k,p] += I[c,p+r] * W[k,c,r]",
    "O[k,p] += I[c,2*p+r] * W[k,c,r]",
    "O[p,q] += I[p+2*r,q+s] * W[r,s]",
    "O[k,p] += I[c,p+3*r] * W[k,c,r]",
)

Case = tuple[Computation, Architecture, Mapping]


def draw_architecture(rng: random.Random, levels: int) -> Architecture:
    """Two or three levels with any links that imperfect factors are counted on."""
    made = []
    for v in range(levels):
        fanout = Fanout(
            rng.choice([1, 2, 3, 4]),
            rng.choice([1, 2, 3]),
            links=rng.choice([Links.MULTICAST, Links.SYSTOLIC, Links.NONE]),
            hop_pj_per_bit=rng.choice([0.0, 0.5]),
        )
        made.append(
            StorageLevel(
                f"L{v}",
                energy=AccessEnergy(*(rng.randint(1, 50) for _ in range(3))),
                word_bits=8,
                fanout=fanout,
                read_bandwidth_words_per_cycle=rng.choice([None, 0.5, 2.0]),
                write_bandwidth_words_per_cycle=rng.choice([None, 0.5, 2.0]),
                ports=rng.choice(list(Ports)),
            )
        )
    return Architecture("random", tuple(made), Arithmetic(energy_pj=1.0))


def draw_mapping(rng: random.Random, computation: Computation, architecture: Architecture) -> Mapping:
    """Any factors from the inside out; the outermost level takes what is left."""
    sizes = dict.fromkeys(computation.dims, 1)
    levels = []
    for v in range(len(architecture.levels) - 1, -1, -1):
        fanout = architecture.levels[v].fanout
        room: dict[Axis, int] = {"x": fanout.x, "y": fanout.y}
        spatial: list[tuple[str, int, Axis]] = []
        temporal: list[tuple[str, int]] = []
        for axis in room:
            for dim in rng.sample(computation.dims, len(computation.dims)):
                need = -(-computation.sizes[dim] // sizes[dim])
                factor = rng.randint(1, max(1, min(need, room[axis])))
                if factor > 1:
                    spatial.insert(0, (dim, factor, axis))
                    sizes[dim] *= factor
                    room[axis] //= factor
        for dim in rng.sample(computation.dims, len(computation.dims)):
            need = -(-computation.sizes[dim] // sizes[dim])
            factor = need if v == 0 else rng.randint(1, need)
            if factor > 1:
                temporal.insert(0, (dim, factor))
                sizes[dim] *= factor
        keep = tuple(t.name for t in computation.tensors if v == 0 or rng.random() < 0.75)
        levels.append(LevelMapping(architecture.levels[v].name, keep, tuple(temporal), tuple(spatial)))
    return Mapping.from_levels(levels[::-1])


def draw_case(seed: int) -> tuple[Case, Reuse]:
    """A small problem, a mapping and a reuse rule."""
    rng = random.Random(seed)
    notation = rng.choice(NOTATIONS)
    dims = sorted(set(re.findall("[a-z]", notation)))
    computation = Computation.parse(notation, {d: rng.randint(1, 7) for d in dims})
    architecture = draw_architecture(rng, rng.choice([2, 3]))
    return (computation, architecture, draw_mapping(rng, computation, architecture)), rng.choice(
        [Reuse.TIMELOOP, Reuse.WHOLE]
    )


def check(seed: int) -> None:
    """Every count, every port, energy and cycles of one case."""
    (computation, architecture, mapping), reuse = draw_case(seed)
    walked = walk_imperfect(computation, architecture, mapping, reuse)
    assert len(walked.macs) == computation.macs and set(walked.macs.values()) == {1}
    problem = encode_problem(computation, architecture, reuse)
    nest = encode_nest(computation, architecture, mapping)
    count = len(nest.loops)
    kernel = make_kernel(problem, count, imperfect=True)
    status, energy, cycles = score_imperfect(kernel, nest, count)
    assert status == 0
    expected = computation.macs * problem.mac_energy
    names = [t.name for t in computation.tensors]
    for v, name in walked.traffic:
        t = names.index(name)
        assert tuple(int(c) for c in kernel.counts[v, t, 1:4]) == walked.totals(v, name), (seed, v, name)
        expected += sum(n * e for n, e in zip(walked.totals(v, name), problem.energy[v, t], strict=True))
    for (v, name), (sent, received) in walked.links.items():
        fixed, copied = problem.hops[v]
        expected += (sent * fixed + received * copied) * problem.hop_energy[v, names.index(name)]
    assert energy == pytest.approx(expected, rel=1e-12)
    busy = [math.ceil(x) for x in walked_ports(walked, computation, architecture)]
    assert cycles == max(walked.steps, *busy), seed
    if all(mapping.iterations(d) == bound for d, bound in computation.sizes.items()):
        _, plain, _ = score(make_kernel(problem, count), nest, count)
        assert energy >= plain * (
            1 - 1e-12
        )  # a window may slide on across an outer loop (rule R2), which I5 leaves out
    else:
        cost = evaluate(computation, architecture, mapping, reuse=reuse, imperfect=True)
        assert isinstance(cost, Cost)
        assert (cost.energy_pj, cost.latency_cycles, cost.compute_cycles) == (energy, cycles, walked.steps)
        assert [level.busy_cycles for level in cost.levels] == busy
        reads = {(level.level, t.tensor): t.reads for level in cost.levels for t in level.tensors}
        assert reads == {(architecture.levels[v].name, n): walked.totals(v, n)[0] for v, n in walked.traffic}


def test_the_formulas_equal_the_walk() -> None:
    for seed in range(60):
        check(seed)


@pytest.mark.slow("oracle")
def test_the_formulas_equal_the_walk_on_many() -> None:
    for seed in range(60, 2000):
        check(seed)
