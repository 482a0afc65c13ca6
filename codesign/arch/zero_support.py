"""What it takes to know zeros: formats, skipping or gating at the innermost level, and what the units cost (law A8)."""

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum

from codesign.arch.architecture import Architecture
from codesign.arch.logic import ArithmeticTable
from codesign.arch.sparsity import Rank, RankFormat, TensorFormat, ZeroAction, ZeroKind
from codesign.core.errors import UserError

RUN_LENGTH_BITS = 4
"""Of a run of zeros where places are not bounded by a block: as in Eyeriss v2 (Chen et al., JETCAS 2019)."""


class ZeroSupport(Enum):
    """What an accelerator does about zeros, from nothing to the most (law A8).

    NONE: Zeros are moved and multiplied as numbers are.
    COMPRESSED: Tensors with zeros are written down compressed.
    GATING: The same, and a MAC with a zero operand takes its cycle and no energy.
    SKIPPING: The same, and it takes no cycle either.
    """

    NONE = "none"
    COMPRESSED = "compressed"
    GATING = "gating"
    SKIPPING = "skipping"


def knowing_zeros(
    architecture: Architecture,
    table: ArithmeticTable,
    support: ZeroSupport,
    places: Mapping[str, int | None],
) -> Architecture:
    """The architecture with formats at every level and a unit at every MAC, as far as it is to know zeros (laws A8 and F9).

    Args:
        architecture: Energies, areas and leakage filled in.
        table: Energies and areas of adders.
        support: How far.
        places: By role (weight, input, output) that may have zeros: bits of a non-zero's place in its block; None: zeros are anywhere
            and runs of them are counted.

    Raises:
        UserError: The MAC has no energy or area.
    """
    if support is ZeroSupport.NONE or not places:
        return architecture
    made = architecture
    for role, bits in places.items():
        written = RankFormat.RUN_LENGTH if bits is None else RankFormat.COORDINATES
        made = compressed(made, role, written, bits or RUN_LENGTH_BITS, where_zeros=True)
    leaders = tuple(role for role in ("weight", "input") if role in places)
    if support is ZeroSupport.COMPRESSED or not leaders:
        return made
    followers = tuple(role for role in ("input", "weight") if set(leaders) - {role})
    widest = max(places[role] or RUN_LENGTH_BITS for role in leaders)
    kind = ZeroKind.GATE if support is ZeroSupport.GATING else ZeroKind.SKIP
    return zero_unit(made, table, kind, leaders=leaders, followers=followers, metadata_bits=widest)


def compressed(
    architecture: Architecture, tensor: str, kind: RankFormat, metadata_bits: int, *, where_zeros: bool = False
) -> Architecture:
    """The architecture with one flat format of a tensor (name or role) at every level that may keep it."""
    kept = TensorFormat(tensor, (Rank(kind, metadata_bits),), flat=True, where_zeros=where_zeros)
    levels = tuple(
        replace(v, sparsity=replace(v.sparsity, formats=(*v.sparsity.formats, kept))) if tensor in v.keep else v
        for v in architecture.levels
    )
    return replace(architecture, levels=levels)


def zero_unit(
    architecture: Architecture,
    table: ArithmeticTable,
    kind: ZeroKind,
    *,
    leaders: tuple[str, ...],
    followers: tuple[str, ...],
    metadata_bits: int,
) -> Architecture:
    """The architecture with a unit for zeros at every MAC: followers of the innermost level follow the leaders.

    A skipping unit compares two metadata entries and counts a position: two adders of the entry's width for every leader. A gating
    unit only compares: one. They work once for every MAC that is done (law A8).

    Args:
        architecture: Energies, areas and leakage filled in.
        table: Energies and areas of adders.
        kind: `ZeroKind.SKIP` or `ZeroKind.GATE`.
        leaders: Tensors whose zeros decide.
        followers: Tensors whose accesses are left out.
        metadata_bits: Width of an entry.

    Raises:
        UserError: The MAC has no energy or area yet.
    """
    mac = architecture.mac
    if mac.energy_pj is None or mac.area_mm2 is None:
        raise UserError(
            "a unit for zeros is added to MACs with energy and area", where=f"architecture {architecture.name!r}"
        )
    adder = min(table.add, key=lambda point: (point.bits < metadata_bits, point.bits))
    count, width = (2 if kind is ZeroKind.SKIP else 1) * len(leaders), metadata_bits / adder.bits
    area, spent = 1e-6 * count * adder.area_um2 * width, count * adder.energy_pj * width
    unit = replace(
        mac,
        energy_pj=mac.energy_pj + spent,
        by_width=tuple((wide, narrow, energy + spent) for wide, narrow, energy in mac.by_width),
        area_mm2=mac.area_mm2 + area,
        leakage_mw=(mac.leakage_mw or 0.0) + area * table.leakage_nw_per_um2,
        zeros=kind,
    )
    actions = tuple(ZeroAction(kind, f, tuple(x for x in leaders if x != f)) for f in followers)
    *outer, inner = architecture.levels
    known = replace(inner.sparsity, actions=(*inner.sparsity.actions, *actions))
    inner = replace(inner, sparsity=known)
    return replace(architecture, levels=(*outer, inner), mac=unit)
