"""AccelForge's workloads: operators, bounds, names of tensors by role."""

import re
from dataclasses import dataclass
from typing import Any

from codesign.core.errors import UserError
from codesign.formats.accelforge.expressions import Tensors, evaluate
from codesign.mapping.looptree import Operand, Operator


@dataclass(frozen=True)
class Workload:
    """Operators in the order they run.

    Args:
        operators: The operators.
        roles: For each of them the sets its tensors go by (`input`, `weight`, ...).
        repeats: How often the whole runs.
    """

    operators: tuple[Operator, ...]
    roles: tuple[dict[str, Tensors], ...]
    repeats: float = 1

    @property
    def intermediates(self) -> frozenset[str]:
        """Tensors that one operator writes and another reads."""
        written = {t.name for o in self.operators for t in o.operands if t.output}
        read = {t.name for o in self.operators for t in o.operands if not t.output}
        return frozenset(written & read)


@dataclass(frozen=True)
class _Access:
    name: str
    axes: tuple[tuple[tuple[str, int], ...], ...]
    ranks: tuple[str, ...]
    output: bool
    bits: float | None


_TENSOR = re.compile(r"(\w+)\s*\[([^\]]*)\]")
_TERM = re.compile(r"^(?:(\d+)\s*\*\s*)?(\w+)$")
_RANGE = re.compile(r"^\s*0\s*<=\s*(\w+)\s*<(=?)\s*(.+?)\s*$")


def read_workload(data: dict[str, Any], where: str = "workload") -> Workload:
    """Operators of a parsed file with the keys `workload` and, if roles have defaults, `renames`.

    Raises:
        UserError: A bound is missing, or something is not supported; it names the operator.
    """
    top = data["workload"]
    accesses = [(_name(e), _accesses(e, where)) for e in _flat(top["einsums"])]
    einsums = [e if isinstance(e, dict) else {"einsum": e} for e in _flat(top["einsums"])]
    written = {a.name for _, found in accesses for a in found if a.output}
    read = {a.name for _, found in accesses for a in found if not a.output}
    widths = _widths(top.get("bits_per_value", {"All": 8}), accesses, written & read, where)
    operators, roles = [], []
    for (name, found), einsum in zip(accesses, einsums, strict=True):
        bounds = _bounds(name, found, einsum, top, where)
        operands = tuple(
            Operand(a.name, a.axes, a.output, a.bits if a.bits is not None else widths[a.name], a.ranks) for a in found
        )
        if sum(o.output for o in operands) != 1:
            raise UserError(f"operator '{name}' must write one tensor", where=where)
        operators.append(Operator(name, operands, bounds, bool(einsum.get("is_copy_operation", False))))
        roles.append(_roles(name, found, einsum, data.get("renames") or {}, written & read, widths, where))
    return Workload(tuple(operators), tuple(roles), float(top.get("n_instances", 1)))


def _flat(items: list[Any]) -> list[Any]:
    return [e for item in items for e in (_flat(item) if isinstance(item, list) else [item])]


def _name(einsum: Any) -> str:
    if isinstance(einsum, dict) and "name" in einsum:
        return str(einsum["name"])
    text = einsum["einsum"] if isinstance(einsum, dict) else einsum
    return str(text.split("=")[0].split("[")[0].strip())


def _accesses(einsum: Any, where: str) -> list[_Access]:
    if isinstance(einsum, dict) and "tensor_accesses" in einsum:
        found = []
        for access in einsum["tensor_accesses"]:
            projection = access["projection"]
            pairs = projection.items() if isinstance(projection, dict) else [(str(v).upper(), v) for v in projection]
            axes = tuple(_axis(str(v), where) for _, v in pairs)
            found.append(
                _Access(
                    str(access["name"]),
                    axes,
                    tuple(str(r) for r, _ in pairs),
                    bool(access.get("output", False)),
                    access.get("bits_per_value"),
                )
            )
        return found
    text = einsum["einsum"] if isinstance(einsum, dict) else einsum
    left, right = text.split("=", 1)
    found = [_parsed(m, True, where) for m in _TENSOR.finditer(left)]
    found += [_parsed(m, False, where) for m in _TENSOR.finditer(right)]
    return list(dict.fromkeys(found))  # a tensor that is read twice alike is one access


def _parsed(match: re.Match[str], output: bool, where: str) -> _Access:
    axes, ranks = [], []
    for part in filter(None, (p.strip() for p in match[2].split(","))):
        rank, _, text = part.rpartition(":")
        axes.append(_axis(text, where))
        ranks.append(rank.strip() or text.strip().upper())
    return _Access(match[1], tuple(axes), tuple(ranks), output, None)


def _axis(text: str, where: str) -> tuple[tuple[str, int], ...]:
    terms = []
    for part in text.split("+"):
        match = _TERM.match(part.strip())
        if match is None:
            raise UserError(f"index '{text}' must be a sum of dimensions with whole factors", where=where)
        terms.append((match[2], int(match[1] or 1)))
    return tuple(terms)


def _bounds(name: str, found: list[_Access], einsum: dict[str, Any], top: dict[str, Any], where: str) -> dict[str, int]:
    ranges: dict[str, int] = {}
    own = einsum.get("iteration_space_shape") or []
    shapes = [*(top.get("iteration_space_shape") or {}).values(), *(own.values() if isinstance(own, dict) else own)]
    for text in shapes:
        match = _RANGE.match(str(text))
        if match is None:
            raise UserError(f"bound '{text}' must read 0 <= dimension < number", where=where)
        ranges[match[1]] = int(evaluate(match[3], {}, where)) + (1 if match[2] else 0)
    sizes = {**(top.get("rank_sizes") or {}), **(einsum.get("rank_sizes") or {})}
    numbers: dict[str, object] = {k: v for k, v in sizes.items() if not isinstance(v, str)}
    ranks = {k: int(evaluate(v, numbers, where)) for k, v in sizes.items()}
    bounds: dict[str, int] = {}
    for access in found:
        for rank, axis in zip(access.ranks, access.axes, strict=True):
            for dim, _ in axis:
                options = [ranges[dim]] if dim in ranges else []
                options += [ranks[dim.upper()]] if dim.upper() in ranks else []
                options += [ranks[rank]] if len(axis) == 1 and axis[0][1] == 1 and rank in ranks else []
                options += [bounds[dim]] if dim in bounds else []
                if options:
                    bounds[dim] = min(options)
    for access in found:
        for axis in access.axes:
            for dim, _ in axis:
                if dim not in bounds:
                    raise UserError(f"dimension '{dim}' of operator '{name}' has no bound", where=where)
    return bounds


def _widths(
    given: dict[str, object], accesses: list[tuple[str, list[_Access]]], between: set[str], where: str
) -> dict[str, float]:
    names = frozenset(a.name for _, found in accesses for a in found)
    sets = _sets(names, frozenset(), frozenset(), frozenset(between), {})
    widths: dict[str, float] = {}
    for key, value in given.items():
        if key in ("Other", "All"):
            continue
        for name in evaluate(key, sets, where).members:
            widths[name] = float(evaluate(value, {}, where))
    rest = given.get("Other", given.get("All", 8))
    return {n: widths.get(n, float(evaluate(rest, {}, where))) for n in names}


def _sets(
    names: frozenset[str],
    inputs: frozenset[str],
    outputs: frozenset[str],
    between: frozenset[str],
    bits: dict[str, float],
) -> dict[str, Tensors]:
    def of(members: frozenset[str]) -> Tensors:
        return Tensors(members & names, names, bits)

    sets = {n: of(frozenset({n})) for n in names}
    return sets | {
        "All": of(names),
        "Tensors": of(names),
        "Nothing": of(frozenset()),
        "Inputs": of(inputs),
        "Outputs": of(outputs),
        "Intermediates": of(between),
    }


def _roles(
    name: str,
    found: list[_Access],
    einsum: dict[str, Any],
    defaults: dict[str, Any],
    between: set[str],
    widths: dict[str, float],
    where: str,
) -> dict[str, Tensors]:
    names = frozenset(a.name for a in found)
    inputs = frozenset(a.name for a in found if not a.output)
    sets = _sets(names, inputs, names - inputs, frozenset(between), {n: widths[n] for n in names})
    given = einsum.get("renames") or {}
    own = {r["name"]: r["source"] for r in given} if isinstance(given, list) else dict(given)
    rules: list[tuple[str, Any]] = list(own.items())
    for entry in defaults.get("einsums", []):
        if entry["name"] in ("default", name):
            rules += [(r["name"], r["source"]) for r in entry["tensor_accesses"] if r["name"] not in own]
    for role, source in rules:
        sets[role] = evaluate(source, sets, f"{where}, renames of {name}")
    return sets
