"""No mapping accesses a memory or a network less than rule LB7 says: each price alone, against exhaustive search, on drawn hierarchies."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, LevelKind, Links, StorageLevel
from codesign.bounds.chain import ChainTables
from codesign.bounds.dram import DramTables, least_objective
from codesign.bounds.layer import LayerFacts
from codesign.bounds.structure import with_prices
from codesign.workloads.computation import Computation

ROLES = ("input", "weight", "output")

LAYERS = (
    Computation.parse("O[k,p] += I[c,p+r] * W[k,c,r]", k=4, p=6, c=3, r=3),
    Computation.parse("O[k,p,q] += I[c,2*p+r,q+s] * W[k,c,r,s]", k=2, p=2, q=3, c=4, r=2, s=2),
    Computation.parse("O[c,p] += I[c,p+r] * W[c,r]", p=6, c=4, r=3),
    Computation.parse("O[m,n] += I[m,k] * W[k,n]", m=4, n=6, k=8),
    Computation.parse("O[k,p] += I[c,3*p+r] * W[k,c,r]", k=3, p=4, c=2, r=2),
)


def drawn_machine(rng: np.random.Generator) -> Architecture:
    """DRAM, a buffer, perhaps a second one, and one or several private memories, with one or two fan-outs of any links."""
    energy = AccessEnergy(1.0, 1.0, 1.0)

    def level(name: str, keep: set[str], fanout: Fanout, words: int) -> StorageLevel:
        bits = int(rng.choice([8, 16, 32]))
        return StorageLevel(
            name, capacity_bytes=float(words), word_bits=bits, keep=frozenset(keep), energy=energy, fanout=fanout
        )

    def fan() -> Fanout:
        links = (Links.NONE, Links.SYSTOLIC, Links.MULTICAST)[int(rng.integers(3))]
        return Fanout(int(rng.integers(1, 5)), int(rng.integers(1, 4)), links, 0.1)

    def some() -> set[str]:
        return {role for role in ROLES if rng.random() < 0.7}

    levels = [StorageLevel("DRAM", LevelKind.DRAM, word_bits=int(rng.choice([8, 64])), energy=energy)]
    levels.append(level("Buffer", some() or set(ROLES), fan(), 64))
    if rng.random() < 0.4:
        levels.append(level("Second", some() or set(ROLES), fan(), 48))
    if rng.random() < 0.5:  # a memory for each tensor, as in `eyeriss`
        levels += [level(role, {role}, Fanout(), int(rng.choice([4, 16]))) for role in ROLES if rng.random() < 0.8]
    else:
        levels.append(level("Local", some() or {"output"}, Fanout(), 24))
    return Architecture("drawn", tuple(levels), Arithmetic(8, 1.0), 1e9)


def check(seed: int) -> None:
    rng = np.random.default_rng([seed, 11])
    machine = drawn_machine(rng)
    layer = LAYERS[seed % len(LAYERS)]
    facts = LayerFacts(layer)
    counts = ChainTables([facts], np.ones(1), DramTables([facts])).counts_of(facts, machine)
    for k in np.flatnonzero(counts > 0.0):
        prices = np.zeros(len(counts))
        prices[k] = 1.0
        assert least_objective(layer, with_prices(machine, prices))[0] >= counts[k] * (1.0 - 1e-9), (seed, machine, k)
    prices = rng.uniform(0.0, 1.0, len(counts)) ** 3
    assert least_objective(layer, with_prices(machine, prices))[0] >= float(counts @ prices) * (1.0 - 1e-9)


def test_partial_sums_do_not_cross_the_links_of_dram() -> None:
    """The outermost level holds finished elements (C3), so its links carry those."""
    layer = Computation.parse("O[m,n] += I[m,k] * W[k,n]", m=4, n=2, k=3, bits=8, partial_bits=32)
    keep, energy = frozenset(ROLES), AccessEnergy(1.0, 1.0, 1.0)
    dram = StorageLevel("DRAM", LevelKind.DRAM, word_bits=8, energy=energy, fanout=Fanout(2, 2, Links.MULTICAST, 0.1))
    core = StorageLevel("Core", capacity_bytes=1000.0, word_bits=8, keep=keep, energy=energy)
    machine = Architecture("cores", (dram, core), Arithmetic(8, 1.0), 1e9)
    facts = LayerFacts(layer)
    counts = ChainTables([facts], np.ones(1), DramTables([facts])).counts_of(facts, machine)
    prices = np.eye(len(counts))[3]
    assert counts[3] == pytest.approx(4 * 8 * (12 + 6 + 8))  # hops of a bus x bits x words
    assert least_objective(layer, with_prices(machine, prices))[0] >= counts[3] * (1.0 - 1e-9)


def test_private_memories_need_not_hold_what_strides_leave_out() -> None:
    """Four children of one word each take every third word; one pool with a tile of all of them would take those between too."""
    layer = Computation.parse("O[k,p] += I[3*p] * W[k]", k=24, p=4, bits=8, partial_bits=8)
    energy = AccessEnergy(1.0, 1.0, 1.0)
    dram = StorageLevel("DRAM", LevelKind.DRAM, word_bits=8, energy=energy, fanout=Fanout(4, 1, Links.MULTICAST))
    core = StorageLevel("Core", capacity_bytes=3.0, word_bits=8, keep=frozenset(ROLES), energy=energy)
    machine = Architecture("cores", (dram, core), Arithmetic(8, 1.0), 1e9)
    facts = LayerFacts(layer)
    moved, read = DramTables([facts]).least(machine)[0]
    for price, bound in ((AccessEnergy(1.0, 1.0, 1.0), moved), (AccessEnergy(1.0, 0.0, 0.0), read)):
        free = Architecture(
            "dram",
            (machine.levels[0], replace(machine.levels[1], energy=AccessEnergy(0.0, 0.0, 0.0))),
            Arithmetic(8, 0.0),
        )
        assert least_objective(layer, free.with_level("DRAM", energy=price))[0] >= bound * (1.0 - 1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_no_mapping_accesses_less(seed: int) -> None:
    check(seed)


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("seed", range(10, 250))
def test_more_hierarchies(seed: int) -> None:
    check(seed)
