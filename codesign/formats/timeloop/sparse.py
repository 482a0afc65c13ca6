"""Timeloop v0.4's sparse files: densities of a problem, formats and actions of an architecture.

`densities` stands in the problem; `sparse_optimizations` is a list of targets, beside the architecture or at its components.
"""

from collections.abc import Mapping as MappingABC
from dataclasses import replace
from typing import Any

from codesign.arch.architecture import Architecture
from codesign.arch.sparsity import LevelSparsity, Rank, RankFormat, TensorFormat, ZeroAction, ZeroKind
from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import Fields, describe
from codesign.core.json_types import JsonObject
from codesign.workloads.computation import Computation, Tensor
from codesign.workloads.density import Banded, Density, Proportional, Uniform, check_density

FORMATS = {
    "uop": RankFormat.OFFSETS,
    "u": RankFormat.OFFSETS,
    "b": RankFormat.BITMASK,
    "ub": RankFormat.PLAIN_BITMASK,
    "rle": RankFormat.RUN_LENGTH,
    "cp": RankFormat.COORDINATES,
    "c": RankFormat.COORDINATES,
}
"""Timeloop's names of rank formats."""

_KINDS = {
    "gating": ZeroKind.GATE,
    "skipping": ZeroKind.SKIP,
    "spatial_skipping": ZeroKind.SKIP_SPATIAL,
    "position_skipping": ZeroKind.SKIP_POSITIONS,
}


def density_from_timeloop(value: Any, where: str) -> Density:
    """One entry of `densities`: a number, or keys and values with a `distribution`.

    Raises:
        UserError: No density, or a distribution that is not known.
    """
    try:
        if not isinstance(value, dict):
            check_density(value)
            return Proportional(float(value))
        fields = Fields(value, where, loose=True)
        name = fields.text("distribution", "fixed-structured").replace("_", "-")
        if name == "banded":
            width = fields.integer(fields.first_of("band_width", "width"), least=0)
            return Banded(width)
        if name not in ("fixed-structured", "fixed", "hypergeometric"):
            raise unknown_name("distribution", name, ["fixed-structured", "hypergeometric", "banded"], where=where)
        density = fields.raw("density")
        check_density(density)
        return Uniform(float(density)) if name == "hypergeometric" else Proportional(float(density))
    except UserError as error:
        raise error.within(where) from None


def density_to_timeloop(tensor: Tensor) -> JsonObject:
    """One entry of `densities`.

    Raises:
        UserError: Timeloop has no such model.
    """
    density = tensor.density
    if isinstance(density, (Uniform, Proportional)):
        name = "hypergeometric" if isinstance(density, Uniform) else "fixed-structured"
        return {"distribution": name, "density": density.density}
    if isinstance(density, Banded) and (density.row, density.column) == (-2, -1):
        return {"distribution": "banded", "band_width": density.width}
    raise UserError(
        f"the density model {density.to_json()['model']!r} of {tensor.name!r} is not written in Timeloop's form",
        hint="convert --to own",
    )


def with_densities(computation: Computation, densities: MappingABC[str, Density], where: str) -> Computation:
    """The same computation with densities by tensor name.

    Raises:
        UserError: A name is no tensor, or a density does not describe it.
    """
    names = [t.name for t in computation.tensors]
    for name in densities:
        if name not in names:
            raise unknown_name("tensor", name, names, where=f"{where}: densities")
    for tensor in computation.tensors:
        try:
            if tensor.name in densities:
                densities[tensor.name].check(tensor.shape(computation.sizes))
        except UserError as error:
            raise error.within(f"{where}: density of {tensor.name!r}") from None
    tensors = tuple(replace(t, density=densities.get(t.name, t.density)) for t in computation.tensors)
    return replace(computation, tensors=tensors)


def rank_from_timeloop(value: Any, where: str) -> Rank:
    """One rank of a format.

    Raises:
        UserError: An unknown format or a width that is none.
    """
    fields = Fields(value, where, loose=True)
    name = fields.text("format")
    if name.lower() not in FORMATS:
        raise unknown_name("rank format", name, sorted(FORMATS), where=where)
    metadata = fields.integer("metadata_word_bits", least=0) if fields.has("metadata_word_bits") else None
    payload = fields.integer("payload_word_bits", least=0) if fields.has("payload_word_bits") else None
    dims: list[str] = []
    for rule in fields.items("flattened_rankIDs", []):
        dims.extend([str(d) for d in rule] if isinstance(rule, list) else [str(rule)])
    return Rank(FORMATS[name.lower()], metadata, payload, frozenset(dims))


def with_sparse_optimizations(architecture: Architecture, value: Any, where: str) -> Architecture:
    """The architecture with what `sparse_optimizations` says.

    Args:
        architecture: The hardware.
        value: `targets`, or the list itself; each names a level, or the arithmetic.
        where: The file, for messages.

    Raises:
        UserError: Something is malformed, or names a level that is not there.
    """
    targets = value.get("targets") if isinstance(value, dict) else value
    if not isinstance(targets, list):
        raise UserError(f"`sparse_optimizations` must hold a list of targets, got {describe(value)}", where=where)
    for item in targets:
        fields = Fields(item, f"{where}: sparse_optimizations", loose=True)
        name = fields.text("name")
        fields.where = place = f"{where}: sparse_optimizations of {name!r}"
        if name == architecture.mac.name or fields.has("compute_optimization"):
            zeros = _mac_zeros(fields.items("compute_optimization", []), place)
            architecture = replace(architecture, mac=replace(architecture.mac, zeros=zeros))
            if name not in architecture.level_index:
                continue
        level = architecture.level(name)
        sparsity = replace(
            level.sparsity,
            formats=level.sparsity.formats + _formats(fields, place),
            actions=level.sparsity.actions + _actions(fields, place),
        )
        architecture = architecture.with_level(name, sparsity=sparsity)
    return architecture


def _formats(fields: Fields, where: str) -> tuple[TensorFormat, ...]:
    key = "representation_format" if fields.has("representation_format") else "compression"
    if not fields.has(key):
        return ()
    inside = fields.child(key)
    found = []
    for item in inside.items(inside.first_of("data_spaces", "dataspaces")):
        one = Fields(item, where, loose=True)
        name = one.text("name")
        one.where = f"{where}: format of {name!r}"
        ranks = tuple(rank_from_timeloop(rank, one.where) for rank in one.items("ranks"))
        found.append(TensorFormat(name, ranks, one.flag("apply_rank_inner_to_outer", False)))
    return tuple(found)


def _actions(fields: Fields, where: str) -> tuple[ZeroAction, ...]:
    found = []
    for item in fields.items("action_optimization", []):
        group = Fields(item, where, loose=True)
        kind = group.text("type").replace("-", "_")
        if kind not in _KINDS:
            raise unknown_name("type", kind, sorted(_KINDS), where=where)
        options = group.items("options")
        if len(options) != 1:
            raise UserError(
                f"one option per `action_optimization` is read, got {len(options)}",
                where=where,
                hint="write the option that the hardware takes",
            )
        option = Fields(options[0], where, loose=True)
        leaders = tuple(str(x) for x in option.items("condition_on", []))
        try:
            found.append(ZeroAction(_KINDS[kind], option.text("target"), leaders))
        except UserError as error:
            raise error.within(where) from None
    return tuple(found)


def _mac_zeros(items: list[Any], where: str) -> ZeroKind | None:
    zeros = None
    for item in items:
        name = str(item.get("type", "")) if isinstance(item, dict) else str(item)
        found = {"gate_on_zero_operand": ZeroKind.GATE, "skip_on_not_aligned_operands": ZeroKind.SKIP}.get(
            name.replace("-", "_")
        )
        if found is None:
            raise unknown_name(
                "compute optimization", name, ["gate_on_zero_operand", "skip_on_not_aligned_operands"], where=where
            )
        zeros = ZeroKind.SKIP if ZeroKind.SKIP in (zeros, found) else found
    return zeros


def metadata_widths(sparsity: LevelSparsity, width: int | None, word: int | None) -> LevelSparsity:
    """The same with the widths of a component's attributes: of an entry, of a word of the metadata store; 0 is none."""
    return replace(sparsity, metadata_bits=width or word or sparsity.metadata_bits, metadata_word_bits=word or None)
