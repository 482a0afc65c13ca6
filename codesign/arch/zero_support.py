"""What it takes to know zeros: formats, skipping or gating at the innermost level, and what the units cost (law A8)."""

from dataclasses import replace

from codesign.arch.architecture import Architecture
from codesign.arch.logic import ArithmeticTable
from codesign.arch.sparsity import LevelSparsity, Rank, RankFormat, TensorFormat, ZeroAction, ZeroKind
from codesign.core.errors import UserError


def compressed(architecture: Architecture, tensor: str, kind: RankFormat, metadata_bits: int) -> Architecture:
    """The architecture with one flat format of a tensor (name or role) at every level that may keep it."""
    kept = TensorFormat(tensor, (Rank(kind, metadata_bits),), flat=True)
    levels = tuple(
        replace(v, sparsity=replace(v.sparsity, formats=(*v.sparsity.formats, kept))) if tensor in v.keep else v
        for v in architecture.levels
    )
    return replace(architecture, levels=levels)


def skipping(
    architecture: Architecture,
    table: ArithmeticTable,
    *,
    leaders: tuple[str, ...],
    followers: tuple[str, ...],
    metadata_bits: int,
) -> Architecture:
    """The architecture with a skipping unit at every MAC: followers of the innermost level follow the leaders.

    A unit compares two metadata entries and counts a position: two adders of the entry's width for every leader. They work once for every MAC that
    is done (law A8).

    Args:
        architecture: Energies, areas and leakage filled in.
        table: Energies and areas of adders.
        leaders: Tensors whose zeros decide.
        followers: Tensors whose accesses are left out.
        metadata_bits: Width of an entry.

    Raises:
        UserError: The MAC has no energy or area yet.
    """
    mac = architecture.mac
    if mac.energy_pj is None or mac.area_mm2 is None:
        raise UserError(
            "a skipping unit is added to MACs with energy and area", where=f"architecture {architecture.name!r}"
        )
    adder = min(table.add, key=lambda point: (point.bits < metadata_bits, point.bits))
    count, width = 2 * len(leaders), metadata_bits / adder.bits
    area = 1e-6 * count * adder.area_um2 * width
    unit = replace(
        mac,
        energy_pj=mac.energy_pj + count * adder.energy_pj * width,
        area_mm2=mac.area_mm2 + area,
        leakage_mw=(mac.leakage_mw or 0.0) + area * table.leakage_nw_per_um2,
        zeros=ZeroKind.SKIP,
    )
    actions = tuple(ZeroAction(ZeroKind.SKIP, f, tuple(x for x in leaders if x != f)) for f in followers)
    *outer, inner = architecture.levels
    inner = replace(inner, sparsity=_with_actions(inner.sparsity, actions))
    return replace(architecture, levels=(*outer, inner), mac=unit)


def _with_actions(sparsity: LevelSparsity, actions: tuple[ZeroAction, ...]) -> LevelSparsity:
    return replace(sparsity, actions=(*sparsity.actions, *actions))
