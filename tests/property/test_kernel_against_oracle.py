"""The kernel equals the interpreter on random computations, hierarchies and mappings, for every reuse rule."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, Links, Ports, StorageLevel
from codesign.core.factors import prime_factors
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost, evaluate
from codesign.mapping.mapping import Mapping, Node, Spatial, Storage, Temporal
from codesign.mapping.nest import decode_nest, encode_nest
from codesign.workloads.computation import Computation
from experiments.attacks.interpreter import interpret
from tests.examples import examples
from tests.property.executed_nest import execute, interpret_ports, reference_result

NOTATIONS = [
    "O[m,n] += I[m,k] * W[k,n]",
    "O[p] += I[p+r] * W[r]",
    "O[p] += I[2*p+r] * W[r]",
    "O[k,p] += I[p+2*r] * W[k,r]",
    "O[p,q] += I[p+r,q+s] * W[r,s]",
    "O[p,q] += I[2*p+r,q+2*s] * W[r,s]",
    "O[c,p] += I[c,3*p+r] * W[c,r]",
    "O[k,p,q] += I[p,2*q] * W[k]",
    "O[i,j] += A[i,k,l] * B[k,j] * C[l,j]",
    "O[] += A[i] * B[i]",
    "O[i] += A[i+j,i] * B[j]",
    "O[i] += A[i,i+j+k]",
]
SIZES = [1, 2, 3, 4, 6]


@st.composite
def ports(draw: st.DrawFn) -> dict[str, object]:
    """Bandwidths of a level, limited or not, on one port or two, and how wide its words are."""
    rates = st.sampled_from([None, 0.1, 0.25, 0.3, 1.0, 3.0])
    return {
        "read_bandwidth_words_per_cycle": draw(rates),
        "write_bandwidth_words_per_cycle": draw(rates),
        "ports": draw(st.sampled_from(Ports)),
        "word_bits": draw(st.sampled_from([8, 16, 24])),
        "one_element_per_word": draw(st.booleans()),
    }


@st.composite
def problems(draw: st.DrawFn) -> tuple[Computation, Architecture, Mapping]:
    notation = draw(st.sampled_from(NOTATIONS))
    dims = sorted({c for c in notation if c.islower()})
    bounds = {d: draw(st.sampled_from(SIZES)) for d in dims}
    while np.prod(list(bounds.values())) > 200:
        bounds[max(bounds, key=bounds.__getitem__)] = 1
    computation = Computation.parse(notation, bounds, bits=8, partial_bits=draw(st.sampled_from([8, 24])))
    n_levels = draw(st.integers(2, 5))
    links = draw(st.lists(st.sampled_from(list(Links)), min_size=n_levels, max_size=n_levels))
    where: list[list[Node]] = [[] for _ in range(n_levels)]
    spatial: list[list[Spatial]] = [[] for _ in range(n_levels)]
    for dim, bound in bounds.items():
        for prime in prime_factors(bound):
            level = draw(st.integers(0, n_levels - 1))
            kind = draw(st.sampled_from(["t", "t", "x", "y"]))
            if kind == "t":
                where[level].append(Temporal(dim, prime))
            else:
                spatial[level].append(Spatial(dim, prime, "x" if kind == "x" else "y", f"L{level}"))
    nodes: list[Node] = []
    for v in range(n_levels):
        kept = [t.name for t in computation.tensors if v == 0 or draw(st.booleans())]
        nodes += [Storage(name, f"L{v}") for name in kept]
        nodes += draw(st.permutations(where[v]))
        nodes += draw(st.permutations(spatial[v]))
    levels = []
    for v in range(n_levels):
        x = int(np.prod([s.factor for s in spatial[v] if s.axis == "x"], initial=1))
        y = int(np.prod([s.factor for s in spatial[v] if s.axis == "y"], initial=1))
        energy = AccessEnergy(10.0 / (v + 1), 11.0 / (v + 1), 12.0 / (v + 1))
        fanout = Fanout(x + draw(st.integers(0, 1)), y, links[v])
        levels.append(StorageLevel(f"L{v}", capacity_bytes=1e9, energy=energy, fanout=fanout, **draw(ports())))
    return computation, Architecture("random", tuple(levels), Arithmetic(energy_pj=1.0)), Mapping(tuple(nodes))


@examples(400)
@given(problems(), st.sampled_from(list(Reuse)))
def test_counts_equal(problem: tuple[Computation, Architecture, Mapping], reuse: Reuse) -> None:
    computation, architecture, mapping = problem
    assume(reuse is not Reuse.WHOLE or all(v.fanout.links is not Links.PEER for v in architecture.levels))  # refused
    cost = evaluate(computation, architecture, mapping, reuse=reuse)
    assert isinstance(cost, Cost)
    walked = interpret(computation, architecture, mapping, reuse)
    got = {
        (level.level, t.tensor): (t.tile_words, t.reads, t.fills, t.updates)
        for level in cost.levels
        for t in level.tensors
    }
    expected = {key: (c.tile_words, c.reads, c.fills, c.updates) for key, c in walked.items()}
    assert got == expected, str(computation)


@examples(300)
@given(problems(), st.sampled_from(list(Reuse)))
def test_ports_are_busy_for_what_the_interpreter_moves(
    problem: tuple[Computation, Architecture, Mapping], reuse: Reuse
) -> None:
    """Rules L2 and L3: every level's cycles, and with them the latency, follow from the words that were walked."""
    computation, architecture, mapping = problem
    assume(reuse is not Reuse.WHOLE or all(v.fanout.links is not Links.PEER for v in architecture.levels))  # refused
    cost = evaluate(computation, architecture, mapping, reuse=reuse)
    assert isinstance(cost, Cost)
    walked = interpret_ports(computation, architecture, mapping, reuse)
    rounding = Fraction(1, 10**11)
    for level in cost.levels:
        busy = walked[level.level]
        allowed = {math.ceil(busy * (1 - rounding)), math.ceil(busy), math.ceil(busy * (1 + rounding))}
        assert level.busy_cycles in allowed, (str(computation), level.level)
        assert level.cycles == max(cost.compute_cycles, level.busy_cycles)
    meshes = {f"mesh below {v.level}": v.mesh_cycles for v in cost.levels if v.mesh_cycles is not None}
    assert cost.latency_cycles == max(cost.compute_cycles, *(v.busy_cycles for v in cost.levels), *meshes.values())
    busy_throughout = {v.level for v in cost.levels if v.busy_cycles == cost.latency_cycles}
    busy_throughout |= {name for name, cycles in meshes.items() if cycles == cost.latency_cycles}
    assert set(cost.bottlenecks) - {"compute"} == busy_throughout
    assert ("compute" in cost.bottlenecks) == (cost.compute_cycles == cost.latency_cycles)


@examples(60)
@given(problems(), st.integers(0, 2**32 - 1))
def test_mappings_compute_the_einsum(problem: tuple[Computation, Architecture, Mapping], seed: int) -> None:
    computation, architecture, mapping = problem
    rng = np.random.default_rng(seed)
    operands = {t.name: rng.normal(size=t.shape(computation.sizes)) for t in computation.inputs}
    result = execute(computation, architecture, mapping, operands)
    assert result == pytest.approx(reference_result(computation, operands))


@examples(60)
@given(problems())
def test_a_nest_survives_encoding(problem: tuple[Computation, Architecture, Mapping]) -> None:
    computation, architecture, mapping = problem
    nest = encode_nest(computation, architecture, mapping)
    again = decode_nest(computation, architecture, nest, nest.loops.shape[0])
    assert again.loops == mapping.loops
    assert sorted(again.storage, key=str) == sorted(mapping.storage, key=str)
