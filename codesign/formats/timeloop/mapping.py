"""Timeloop's mapping and constraint files: lists of directives, each for one level.

Read and written for v0.3 and v0.4. In both, permutations are innermost first; of a spatial
permutation the first `split` dimensions lie along X, the rest along Y; factors of 0 or absent mean 1 in a mapping,
and in constraints 0 means the whole bound.
"""

import logging
import re
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field, replace
from typing import Any

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import Fields, describe
from codesign.formats.timeloop.added_levels import AXES
from codesign.mapping.constraints import Constraints, FactorRange, Keep, LevelConstraints
from codesign.mapping.mapping import Axis, LevelMapping, Mapping
from codesign.workloads.computation import Computation

_log = logging.getLogger(__name__)

_KINDS = {
    "temporal": "temporal",
    "spatial": "spatial",
    "bypass": "bypass",
    "bypassing": "bypass",
    "datatype": "bypass",
    "dataspace": "bypass",
}


@dataclass(frozen=True)
class _Directive:
    """One entry of a file.

    Args:
        level: The level it is for.
        kind: temporal, spatial or bypass.
        factors: Factor by dimension, as written; 0 where the file says 0.
        permutation: Dimensions named, innermost first.
        split: How many of them lie along X; None when not given.
        keep: Tensors to keep.
        bypass: Tensors not to keep.
        where: For messages.
        ranges: (least, most) by dimension; most is None where only the least is given.
    """

    level: str
    kind: str
    factors: MappingABC[str, int]
    permutation: tuple[str, ...]
    split: int | None
    keep: tuple[str, ...]
    bypass: tuple[str, ...]
    where: str
    ranges: MappingABC[str, tuple[int, int | None]] = field(default_factory=dict)


def mapping_from_timeloop(
    value: Any,
    computation: Computation,
    architecture: Architecture,
    where: str = "mapping",
    *,
    aliases: MappingABC[str, str] | None = None,
) -> Mapping:
    """The nest of what stands under `mapping:`.

    Args:
        value: The directives.
        computation: Names the dimensions and tensors.
        architecture: Names the levels; a tensor about which a level's entry says nothing is kept there if it may be.
        where: The file, for messages.
        aliases: Further names of levels in spatial directives.

    Raises:
        UserError: A directive is malformed, stands twice or names something unknown.
    """
    directives: dict[tuple[str, str], _Directive] = {}
    for item in _directives(value, computation, architecture, where, aliases or {}):
        if item.ranges:
            raise UserError(
                "`factors`: a range cannot be expressed in a mapping; give an exact factor", where=item.where
            )
        directives[item.level, item.kind] = item
    levels = []
    for position, level in enumerate(architecture.levels):
        temporal = directives.get((level.name, "temporal"))
        spatial = directives.get((level.name, "spatial"))
        storage = directives.get((level.name, "bypass"))
        kept = list(storage.keep) if storage else []
        for tensor in computation.tensors:
            allowed = position == 0 or tensor.name in level.keep or tensor.role.value in level.keep
            if tensor.name not in kept and allowed and not (storage and tensor.name in storage.bypass):
                kept.append(tensor.name)
        levels.append(
            LevelMapping(
                level.name,
                tuple(kept),
                tuple(reversed(_ordered(temporal, computation))) if temporal else (),
                tuple(_placed(spatial, computation, level.fanout.x)) if spatial else (),
            )
        )
    return Mapping.from_levels(levels)


def _ordered(item: _Directive, computation: Computation) -> list[tuple[str, int]]:
    """(dimension, factor), innermost first; dimensions that the permutation leaves out come outside the others."""
    dims = [*item.permutation, *(d for d in computation.dims if d not in item.permutation)]
    return [(dim, max(1, item.factors.get(dim, 1))) for dim in dims]


def _placed(item: _Directive, computation: Computation, mesh_x: int) -> list[tuple[str, int, Axis]]:
    """(dimension, factor, axis) as listed, whose order means nothing. Without `split`, loops lie along X while the mesh holds them."""
    loops = _ordered(item, computation)
    split = item.split
    if split is None:
        split, used = 0, 1
        while split < len(loops) and used * loops[split][1] <= mesh_x:
            used *= loops[split][1]
            split += 1
    return [(dim, factor, "x" if i < split else "y") for i, (dim, factor) in enumerate(loops)]


def _directives(
    value: Any, computation: Computation, architecture: Architecture, where: str, aliases: MappingABC[str, str]
) -> list[_Directive]:
    if isinstance(value, dict):
        fields = Fields(value, where)
        fields.raw("version", None)
        value = fields.items(fields.first_of("targets", "nodes"))
        fields.finish()
    if not isinstance(value, list):
        raise UserError(f"expected a list of entries, got {describe(value)}", where=where)
    found: dict[tuple[str, str], _Directive] = {}
    for i, entry in enumerate(value):
        item = _directive(entry, computation, architecture, f"{where}, entry {i + 1}", aliases)
        if found.setdefault((item.level, item.kind), item) is not item:
            raise UserError(f"two {item.kind} entries for level {item.level!r}", where=where)
    return list(found.values())


def _directive(
    item: Any, computation: Computation, architecture: Architecture, where: str, aliases: MappingABC[str, str]
) -> _Directive:
    fields = Fields({k: v for k, v in item.items() if k != "!"} if isinstance(item, dict) else item, where)
    target = re.sub(r"\[[^\]]*\]$", "", fields.text("target")).rsplit(".", 1)[-1]
    kind_name = fields.text("type")
    if kind_name not in _KINDS:
        raise unknown_name("type", kind_name, _KINDS, where=where)
    kind = _KINDS[kind_name]
    if kind == "spatial":
        target = aliases.get(target, target)
    if target not in architecture.level_index:
        raise unknown_name("level", target, architecture.level_index, where=where)
    fields.where = where = f"{where} ({kind_name} of {target!r})"
    factors: dict[str, int] = {}
    ranges: dict[str, tuple[int, int | None]] = {}
    permutation: tuple[str, ...] = ()
    split = None
    keep: tuple[str, ...] = ()
    bypass: tuple[str, ...] = ()
    if kind == "bypass":
        tensors = [t.name for t in computation.tensors]
        keep = _known(fields.names("keep", []), tensors, "tensor", where)
        bypass = _known(fields.names("bypass", []), tensors, "tensor", where)
        both = set(keep) & set(bypass)
        if both:
            raise UserError(f"{sorted(both)[0]!r} is both kept and bypassed", where=where)
    else:
        factors, ranges = _factors(fields.raw("factors", ""), computation, where)
        permutation = _permutation(fields.raw("permutation", ""), computation, where)
        if kind == "spatial":
            split = fields.integer("split", None, least=0)
            if fields.flag("no_link_transfer", False):
                _log.warning("%s: no_link_transfer is how these files are always evaluated here", where)
    fields.finish()
    return _Directive(target, kind, factors, permutation, split, keep, bypass, where, ranges)


def _known(names: Iterable[str], known: Sequence[str], kind: str, where: str) -> tuple[str, ...]:
    result = tuple(names)
    for name in result:
        if name not in known:
            raise unknown_name(kind, name, known, where=where)
    if len(set(result)) != len(result):
        raise UserError(f"a {kind} is named twice in {', '.join(result)}", where=where)
    return result


_Factors = tuple[dict[str, int], dict[str, tuple[int, int | None]]]


def _factors(value: Any, computation: Computation, where: str) -> _Factors:
    """Factors and ranges by dimension of ``R3 S1``, ``R=3,S<=2``, ``[R=3, S>=2]`` or ``{R: 3, S: 1}``."""
    if isinstance(value, dict):
        pieces = [f"{dim}{'' if str(factor).startswith(('<', '>')) else '='}{factor}" for dim, factor in value.items()]
    elif isinstance(value, list):
        pieces = [str(item) for item in value]
    elif isinstance(value, str):
        pieces = re.sub(r"\s*(<=|>=|=)\s*", r"\1", value).replace(",", " ,").split()
    else:
        raise UserError(f"`factors` must be text or a list, got {describe(value)}", where=where)
    factors: dict[str, int] = {}
    ranges: dict[str, tuple[int, int | None]] = {}
    for piece in pieces:
        text = piece.strip().lstrip(",").strip()
        if not text:
            continue
        dim, sign, factor = _factor(text, computation, where)
        least, most = ranges.get(dim, (1, None))
        if dim in factors or (sign == "<=" and most is not None) or (sign == ">=" and least > 1):
            raise UserError(f"`factors` names dimension {dim!r} twice", where=where)
        if sign == "=":
            if dim in ranges:
                raise UserError(f"`factors` names dimension {dim!r} twice", where=where)
            factors[dim] = factor
            continue
        least, most = (least, factor) if sign == "<=" else (factor, most)
        if not 1 <= least <= (least if most is None else most):
            raise UserError(f"`factors`: the range of {dim!r} holds no factor >= 1", where=where)
        ranges[dim] = (least, most)
    return factors, ranges


def _factor(text: str, computation: Computation, where: str) -> tuple[str, str, int]:
    if text.isdigit() or re.search(r"\d,\d", text):
        raise UserError(
            f"`factors`: a remainder ({text!r}) cannot be expressed; factors must divide the bound", where=where
        )
    match = re.fullmatch(r"([A-Za-z_]\w*?)\s*(<=|>=|=)?\s*(-?\d+)", text)
    if match is None:
        raise UserError(f"`factors` must be like R3, R=3, R<=3 or R>=3, got {text!r}", where=where)
    dim, sign, factor = match[1], match[2] or "=", int(match[3])
    if dim not in computation.sizes:
        raise unknown_name("dimension", dim, computation.dims, where=where)
    if factor < 0:
        raise UserError(f"factor of {dim!r} must be >= 0, got {factor}", where=where)
    return dim, sign, factor


def _permutation(value: Any, computation: Computation, where: str) -> tuple[str, ...]:
    """Dimensions of ``QPK``, ``Q P K``, ``Q,P,K`` or ``[Q, P, K]``."""
    dims = computation.dims
    if isinstance(value, list):
        return _known((str(v) for v in value), dims, "dimension", where)
    if not isinstance(value, str):
        raise UserError(f"`permutation` must be text or a list, got {describe(value)}", where=where)
    names: list[str] = []
    for word in value.replace(",", " ").split():
        names.extend([word] if word in dims else _spell(word, dims))
    return _known(names, dims, "dimension", where)


def _spell(word: str, dims: Sequence[str]) -> list[str]:
    """The dimensions a word strings together, the longest name first at every place."""
    names = []
    while word:
        name = max((d for d in dims if word.startswith(d)), key=len, default=word)
        names.append(name)
        word = word[len(name) :]
    return names


def constraints_from_timeloop(
    value: Any,
    computation: Computation,
    architecture: Architecture,
    where: str = "constraints",
    *,
    aliases: MappingABC[str, str] | None = None,
) -> Constraints:
    """The constraints of what stands under `mapspace_constraints:` (or `architecture_constraints:`, `constraints:`).

    A tensor that is neither kept nor bypassed at a level is free there.

    Args:
        value: The directives, or `targets:` with them.
        computation: Names the dimensions and tensors.
        architecture: Names the levels.
        where: The file, for messages.
        aliases: Further names of levels in spatial directives.

    Raises:
        UserError: A directive is malformed, names something unknown or cannot be expressed.
    """
    if isinstance(value, dict) and "constraints" in value:
        value = value["constraints"]
    value, least_use = _without_utilization(value, where)
    levels: dict[str, LevelConstraints] = {}
    for item in _directives(value, computation, architecture, where, aliases or {}):
        entry = levels.get(item.level, LevelConstraints(item.level))
        levels[item.level] = _constrain(entry, item, computation)
    ordered = sorted(levels.values(), key=lambda entry: architecture.level_index[entry.level])
    return Constraints(tuple(ordered), free_bypass=True, min_utilization=least_use)


def _without_utilization(value: Any, where: str) -> tuple[Any, float]:
    """The directives but those on utilisation, and the largest share of the MAC units that these ask for."""
    entries = value.get("targets", value.get("nodes")) if isinstance(value, dict) else value
    if not isinstance(entries, list):
        return value, 0.0
    rest, least = [], 0.0
    for i, item in enumerate(entries):
        if not isinstance(item, dict) or item.get("type") not in ("utilization", "parallelism"):
            rest.append(item)
            continue
        fields = Fields(item, f"{where}, entry {i + 1} ({item['type']})")
        fields.raw("type")
        fields.raw("target", None)
        share = fields.number("min", least=0)
        fields.finish()
        if share > 1:
            raise UserError(f"`min` must be a share in [0, 1], got {share:g}", where=fields.where)
        least = max(least, share)
    return ({**value, "targets" if "targets" in value else "nodes": rest} if isinstance(value, dict) else rest), least


def _constrain(entry: LevelConstraints, item: _Directive, computation: Computation) -> LevelConstraints:
    if item.kind == "bypass":
        return replace(entry, keep=frozenset(item.keep), bypass=frozenset(item.bypass))
    exact = tuple((dim, computation.sizes[dim] if factor == 0 else factor) for dim, factor in item.factors.items())
    spatial = item.kind == "spatial"
    ranges = tuple(FactorRange(dim, least, most, spatial) for dim, (least, most) in item.ranges.items())
    entry = replace(entry, ranges=(*entry.ranges, *ranges))
    if not spatial:
        return replace(entry, temporal=exact, order=item.permutation)
    if item.split is None:
        return replace(entry, spatial=exact)
    dims = [*item.permutation, *(d for d in computation.dims if d not in item.permutation)]
    if len(item.permutation) < min(item.split, len(dims)):
        raise UserError(
            f"`split` {item.split} needs a `permutation` of at least as many dimensions, got {len(item.permutation)}",
            where=item.where,
        )
    return replace(entry, spatial=exact, along_x=frozenset(dims[: item.split]))


def directives_of(levels: Iterable[LevelMapping], computation: Computation) -> list[dict[str, object]]:
    """The directives of what each level does, at each level every dimension in one temporal and one spatial loop at most."""
    entries: list[dict[str, object]] = []
    dims = computation.dims
    for item in levels:
        kept = list(item.keep)
        bypassed = [t.name for t in computation.tensors if t.name not in kept]
        entries.append({"target": item.level, "type": "temporal", **_write_loops(item.temporal[::-1], dims)})
        if item.spatial:
            along = [[(d, f) for d, f, a in item.spatial if a == axis] for axis in AXES]
            loops = _write_loops([*along[0], *along[1]], dims)
            entries.append({"target": item.level, "type": "spatial", **loops, "split": len(along[0])})
        entries.append({"target": item.level, "type": "bypass", "keep": kept, "bypass": bypassed})
    return entries


def _write_loops(loops: Sequence[tuple[str, int]], dims: Sequence[str]) -> dict[str, str]:
    """`factors` and `permutation` of loops given innermost first."""
    factors = dict(loops)
    order = [*factors, *(d for d in dims if d not in factors)]
    single = all(len(d) == 1 for d in dims)
    return {
        "factors": " ".join(f"{d}{factors.get(d, 1)}" if single else f"{d}={factors.get(d, 1)}" for d in dims),
        "permutation": ("" if single else " ").join(order),
    }


def constraints_to_timeloop(
    constraints: Constraints, computation: Computation, architecture: Architecture
) -> list[dict[str, object]]:
    """The directives under `mapspace_constraints:`, with what each level may keep written out.

    Args:
        constraints: What to write.
        computation: Names the dimensions and tensors.
        architecture: Its keep sets decide where the constraints say nothing.
    """
    entries: list[dict[str, object]] = []
    for level in architecture.levels:
        item = constraints.by_level.get(level.name, LevelConstraints(level.name))
        kept: dict[str, list[str]] = {"keep": [], "bypass": []}
        for tensor in computation.tensors:
            decision = constraints.decision(architecture, level.name, tensor)
            if decision is not Keep.FREE:
                kept[decision.value].append(tensor.name)
        if kept["keep"] or kept["bypass"]:
            entries.append({"target": level.name, "type": "bypass", **kept})
        within = [tuple(r for r in item.ranges if r.spatial is spatial) for spatial in (False, True)]
        if item.temporal or item.order or within[0]:
            order = {"permutation": " ".join(item.order)} if item.order else {}
            entries.append({"target": level.name, "type": "temporal", **_exact(item.temporal, within[0]), **order})
        if item.spatial or item.along_x is not None or within[1]:
            entry: dict[str, object] = {"target": level.name, "type": "spatial", **_exact(item.spatial, within[1])}
            if item.along_x is not None:
                first = [d for d in computation.dims if d in item.along_x]
                entry["permutation"] = " ".join([*first, *(d for d in computation.dims if d not in item.along_x)])
                entry["split"] = len(first)
            entries.append(entry)
    if constraints.min_utilization > 0.0:
        entries.append({"type": "utilization", "min": constraints.min_utilization})
    return entries


def _exact(factors: Iterable[tuple[str, int]], ranges: Iterable[FactorRange]) -> dict[str, str]:
    pieces = [f"{dim}={factor}" for dim, factor in factors]
    for entry in ranges:
        pieces += [f"{entry.dim}>={entry.least}"] if entry.least > 1 else []
        pieces += [f"{entry.dim}<={entry.most}"] if entry.most is not None else []
    text = " ".join(pieces)
    return {"factors": text} if text else {}
