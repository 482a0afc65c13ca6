"""An architecture as the chain of memories of one operator under LoopTree's rules (G1 and G2 of docs/explanation/exact-mapper.md).

Energies are picojoules, times cycles, sizes bits.

* G3, Fan-outs: Each axis is filled as far as the bounds allow, innermost first, with as few dimensions as can be.
"""

import itertools
import math
from collections.abc import Iterator, Mapping

from codesign.arch.architecture import Architecture, Ports, StorageLevel
from codesign.arch.sparsity import NO_SPARSITY
from codesign.core.errors import UserError
from codesign.mapping.looptree import Fanout, Machine, Memory, Operator
from codesign.scheduling.protocol import buffer_bytes
from codesign.workloads.computation import Role

SHARED = 1
"""The level that intermediates may stay in (F2)."""


def check_architecture(architecture: Architecture) -> None:
    """Refuse what LoopTree's rules do not have (G1).

    Raises:
        UserError: The rule that is broken, by its number.
    """
    where = f"architecture {architecture.name!r}"
    buffer_bytes(architecture)
    shared = architecture.levels[SHARED]
    if not {Role.INPUT.value, Role.OUTPUT.value} <= shared.keep:
        raise UserError(
            f"level {shared.name!r} must keep inputs and outputs so that activations can stay there, it keeps {sorted(shared.keep)} (rule G1)",
            where=where,
        )
    if architecture.levels[0].fanout.size > 1:
        raise UserError("a fan-out of DRAM cannot be fused across (rule G1)", where=where)
    for level in architecture.levels:
        if level.energy is None:
            raise UserError(f"level {level.name!r} has no energy (rule G1)", where=where, hint="name a technology")
        if level.energy.fill_pj != level.energy.update_pj:
            raise UserError(f"level {level.name!r} must fill and update at one energy (rule G1)", where=where)
        if level.sparsity != NO_SPARSITY:
            raise UserError(
                f"level {level.name!r} compresses or skips zeros, which is not counted (rule G1)", where=where
            )
    if architecture.mac.energy_pj is None:
        raise UserError("the MAC has no energy (rule G1)", where=where, hint="name a technology")


def matrix_machine(
    architecture: Architecture,
    operator: Operator,
    roles: Mapping[str, Role],
    partial_bits: int,
    may_stay: frozenset[str],
    extra_pj: float,
    capacity_bits: float,
) -> Machine:
    """The memories of a convolution or product.

    Args:
        architecture: Checked.
        operator: The operator.
        roles: The role of every tensor of the operator.
        partial_bits: Of a partial sum, at the levels inside the shared one.
        may_stay: Intermediates that may stay on the chip.
        extra_pj: Of the functions applied to its results.
        capacity_bits: Of the shared level.
    """
    names = frozenset(roles)
    widths = {t.name: (partial_bits if t.output else t.bits) for t in operator.operands}
    memories, fanouts = list[Memory](), [tuple[Fanout, ...]()]
    for i, level in enumerate(architecture.levels):
        inside = {n: b for n, b in widths.items() if i > SHARED}
        bits = {t.name: float(level.element_bits(int(inside.get(t.name, t.bits)))) for t in operator.operands}
        memories.append(_memory(level, bits, capacity_bits if i == SHARED else None))
        fanouts.append(_fanouts(level, operator))
    kept = [
        names if i == 0 else frozenset(n for n, r in roles.items() if r.value in v.keep)
        for i, v in enumerate(architecture.levels)
    ]
    energy = (architecture.mac.energy_pj or 0.0) + extra_pj / operator.macs
    return Machine(tuple(memories), tuple(fanouts), energy, 1.0, 0.0, tuple(_keeps(kept, may_stay)))


def vector_machine(
    architecture: Architecture, operator: Operator, operations: int, may_stay: frozenset[str], capacity_bits: float
) -> Machine:
    """The memories of an operator of the vector unit: DRAM and the shared level, then the lanes (G4)."""
    names = frozenset(t.name for t in operator.operands)
    memories = [
        _memory(level, {t.name: t.bits for t in operator.operands}, capacity_bits if i == SHARED else None)
        for i, level in enumerate(architecture.levels[: SHARED + 1])
    ]
    each = operations / operator.macs
    lanes = max(architecture.mesh)
    energy = (architecture.mac.energy_pj or 0.0) * each
    keeps = tuple(_keeps([names, names], may_stay))
    return Machine(tuple(memories), ((), (), ()), energy, each / lanes, 0.0, keeps)


def _memory(level: StorageLevel, bits: dict[str, float], capacity_bits: float | None) -> Memory:
    assert level.energy is not None  # checked before
    size = level.capacity_bits if capacity_bits is None else capacity_bits
    return Memory(
        level.name,
        math.inf if size is None else float(size),
        level.energy.read_pj / level.word_bits,
        level.energy.fill_pj / level.word_bits,
        _ports(level),
        bits,
    )


def _ports(level: StorageLevel) -> tuple[tuple[float, float], ...]:
    """Cycles for each bit read and written; one port, or one for each direction."""
    read, write = (0.0 if rate is None else 1.0 / (rate * level.word_bits) for rate in level.words_per_cycle)
    both = ((read, write),) if level.ports is Ports.SHARED else ((read, 0.0), (0.0, write))
    return tuple(p for p in both if p != (0.0, 0.0))


def _fanouts(level: StorageLevel, operator: Operator) -> tuple[Fanout, ...]:
    """Both axes, filled as far as the operator's bounds allow (G3)."""
    names = frozenset(t.name for t in operator.operands)
    shared = names if level.fanout.shares else frozenset[str]()
    axes = (("x", level.fanout.x), ("y", level.fanout.y))
    return tuple(Fanout(n, s, frozenset(operator.bounds), shared, 1.0, fewest=True) for n, s in axes if s > 1)


def _keeps(kept: list[frozenset[str]], may_stay: frozenset[str]) -> Iterator[tuple[frozenset[str], ...]]:
    """The levels' tensors with every set of intermediates in the shared level instead of DRAM."""
    order = sorted(may_stay)
    for chosen in itertools.product((False, True), repeat=len(order)):
        chip = frozenset(t for t, c in zip(order, chosen, strict=True) if c)
        yield (kept[0] - chip, kept[SHARED] | chip, *kept[SHARED + 1 :])
