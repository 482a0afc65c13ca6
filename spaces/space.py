"""The search space: parameters, known validity rules and presets as one frozen value.

Optimisers see designs as rows of choice indices (``n x d`` integers, one column per parameter); people and
evaluators see them as dicts. A parameter whose condition does not hold has index 0 in the row (the
*canonical* form) and no key in the dict, so equal designs are equal rows.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from codesign.core.errors import UserError, unknown_name
from spaces.constraints import Constraint, column_values
from spaces.parameters import AbstractParameter, Value, check_fields, parameter_from_json

Indices = NDArray[np.int64]
Point = dict[str, Value]

ENUMERATION_LIMIT = 2_000_000
"""The largest number of raw index combinations that `Space.enumerate` walks."""

_SAMPLE_ROUNDS = 200


@final
@dataclass(frozen=True)
class Space:
    """A finite design space.

    >>> from spaces import Categorical, Integer
    >>> space = Space([Integer("banks", 1, 8), Categorical("dataflow", ["ws", "os"])])
    >>> space.cardinality_bound
    16

    Args:
        parameters: The knobs; a conditional one after the parameter its condition names.
        constraints: Known validity rules; designs that break one are never proposed.
        presets: Designs worth trying first (hand-made, published), as dicts.
    """

    parameters: Sequence[AbstractParameter]
    constraints: Sequence[Constraint] = ()
    presets: Sequence[Mapping[str, Value]] = ()

    def __post_init__(self) -> None:
        for field in ("parameters", "constraints", "presets"):
            object.__setattr__(self, field, tuple(getattr(self, field)))
        if not self.parameters:
            raise UserError("a space needs at least one parameter, got none")
        seen: dict[str, AbstractParameter] = {}
        for parameter in self.parameters:
            if not isinstance(parameter, AbstractParameter):
                raise UserError(f"expected a parameter such as Integer or Ordinal, got {parameter!r}")
            if parameter.name in seen:
                raise UserError(f"parameter names must differ, got {parameter.name!r} twice")
            if parameter.when is not None:
                _check_condition(parameter, seen)
            seen[parameter.name] = parameter
        rules = [c.name for c in self.constraints]
        if len(set(rules)) < len(rules):
            raise UserError(f"constraint names must differ, got {rules}")
        for constraint in self.constraints:
            constraint.check_names(set(seen))
        object.__setattr__(self, "presets", tuple(dict(p) for p in self.presets))
        for number, preset in enumerate(self.presets, start=1):
            broken = self.violations(preset, where=f"preset {number}")
            if broken:
                raise UserError(f"preset {number} breaks a constraint: {broken[0]}")

    def __hash__(self) -> int:
        return hash((self.parameters, self.constraints))

    # ---- shape ---------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The parameter names, in column order."""
        return tuple(p.name for p in self.parameters)

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """The number of choices of each parameter."""
        return tuple(p.cardinality for p in self.parameters)

    @property
    def ordered(self) -> tuple[bool, ...]:
        """Which parameters have an order."""
        return tuple(p.ordered for p in self.parameters)

    @property
    def cardinality_bound(self) -> int:
        """Product of the choices that rules over one parameter leave of it: an upper bound on the number of designs."""
        return math.prod(len(kept) for kept in self._kept)

    @cached_property
    def _kept(self) -> list[Indices]:
        """Choices of each parameter that rules over it alone leave; all where it may be absent."""
        found = []
        for parameter, (values, _) in zip(self.parameters, self._choice_arrays, strict=True):
            keep = np.ones(len(values), dtype=np.bool_)
            for rule in self.constraints:
                if parameter.when is None and rule.names == {parameter.name}:
                    keep &= rule.holds({parameter.name: values}, list, len(values))
            found.append(np.flatnonzero(keep).astype(np.int64))
        return found

    @property
    def dimension(self) -> int:
        """The number of parameters."""
        return len(self.parameters)

    # ---- dicts and rows ------------------------------------------------------------------------

    def to_indices(self, points: Sequence[Mapping[str, object]], where: str = "design") -> Indices:
        """Designs as canonical rows of choice indices: ``n x d``.

        Values of parameters that do not exist in a design may be left out or be None.

        Raises:
            UserError: An unknown or missing parameter, or a value outside its domain.
        """
        rows = np.zeros((len(points), self.dimension), dtype=np.int64)
        for row, point in zip(rows, points, strict=True):
            if not isinstance(point, Mapping):
                raise UserError(f"expected a dict of parameter values, got {point!r}", where=where)
            for name in point:
                if name not in self._columns:
                    raise unknown_name("parameter", str(name), self.names, where=where)
            for column, parameter in enumerate(self.parameters):
                if not self._is_active(row, column):
                    continue
                if point.get(parameter.name) is None:
                    raise UserError(f"missing parameter {parameter.name!r}", where=where, hint=parameter.describe())
                row[column] = parameter.index(point[parameter.name])
        return rows

    def to_points(self, indices: Indices) -> list[Point]:
        """Rows of choice indices (``n x d``) as dicts with the parameters that exist in each."""
        rows = self.canonical(indices)
        active = self.active(rows)
        return [
            {p.name: p.choices[i] for p, i, a in zip(self.parameters, row, live, strict=True) if a}
            for row, live in zip(rows.tolist(), active.tolist(), strict=True)
        ]

    def active(self, indices: Indices) -> NDArray[np.bool_]:
        """Which parameters exist in each design: ``n x d``."""
        live = np.ones(indices.shape, dtype=np.bool_)
        for column, (parent, allowed) in self._conditions.items():
            live[:, column] = live[:, parent] & allowed[indices[:, parent]]
        return live

    def canonical(self, indices: Indices) -> Indices:
        """The rows with index 0 where a parameter does not exist: ``n x d``."""
        return np.where(self.active(indices), indices, 0) if self._conditions else indices

    def exists_in(self, low: Indices, high: Indices) -> NDArray[np.bool_]:
        """Which parameters exist in some design of a box of choices, both ends included: ``n x d`` twice to ``n x d``."""
        live = np.ones(low.shape, dtype=np.bool_)
        for column, (parent, allowed) in self._conditions.items():
            before = np.concatenate([[0], np.cumsum(allowed)])
            some = before[high[:, parent] + 1] > before[low[:, parent]]
            live[:, column] = live[:, parent] & some
        return live

    def _is_active(self, row: Indices, column: int) -> bool:
        if column not in self._conditions:
            return True
        parent, allowed = self._conditions[column]
        return self._is_active(row, parent) and bool(allowed[row[parent]])

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.names)}

    @cached_property
    def _conditions(self) -> dict[int, tuple[int, NDArray[np.bool_]]]:
        """Column -> (its parent's column, which of the parent's choices make it exist)."""
        conditions = {}
        for column, parameter in enumerate(self.parameters):
            if parameter.when is not None:
                parent = self._columns[parameter.when.parameter]
                allowed = np.zeros(self.parameters[parent].cardinality, dtype=np.bool_)
                allowed[[self.parameters[parent].index(v) for v in parameter.when.values]] = True
                conditions[column] = (parent, allowed)
        return conditions

    # ---- validity ------------------------------------------------------------------------------

    def is_valid(self, indices: Indices) -> NDArray[np.bool_]:
        """Which designs obey every known rule: ``n``."""
        valid = np.ones(len(indices), dtype=np.bool_)
        if not self.constraints or len(indices) == 0:
            return valid
        columns = self._values(indices)
        for constraint in self.constraints:
            valid &= constraint.holds(columns, lambda: self.to_points(indices), len(indices))
        return valid

    def violations(self, point: Mapping[str, object], where: str = "design") -> list[str]:
        """The reasons why a design is not valid; empty for a valid one."""
        row = self.to_indices([point], where)
        columns = self._values(row)
        return [c.explain() for c in self.constraints if not c.holds(columns, lambda: self.to_points(row), 1)[0]]

    def _values(self, indices: Indices) -> dict[str, NDArray[Any]]:
        live = self.active(indices)
        columns = {}
        for column, parameter in enumerate(self.parameters):
            values, absent = self._choice_arrays[column]
            columns[parameter.name] = np.where(live[:, column], values[indices[:, column]], absent)
        return columns

    @cached_property
    def _choice_arrays(self) -> list[tuple[NDArray[Any], Any]]:
        return [column_values(tuple(p.choices)) for p in self.parameters]

    # ---- features ------------------------------------------------------------------------------

    @cached_property
    def feature_owners(self) -> tuple[int, ...]:
        """The parameter (column of a row) each feature describes: ``f``."""
        owners: list[int] = []
        for column, parameter in enumerate(self.parameters):
            owners += [column] * (1 if parameter.ordered else parameter.cardinality)
        return tuple(owners)

    def features(self, indices: Indices) -> NDArray[np.float64]:
        """Designs as points of the unit cube: ``n x f``.

        An ordered parameter is one coordinate (log2 of its value, scaled to [0, 1]); a categorical one is
        one-hot. A parameter that does not exist is at the middle of its axis, or all zeros.
        """
        live = self.active(indices)
        blocks = []
        for column, table in enumerate(self._feature_tables):
            absent = np.full(table.shape[1], 0.5 if self.parameters[column].ordered else 0.0)
            blocks.append(np.where(live[:, column, None], table[indices[:, column]], absent))
        return np.concatenate(blocks, axis=1)

    @cached_property
    def _feature_tables(self) -> list[NDArray[np.float64]]:
        return [p.coordinates()[:, None] if p.ordered else np.eye(p.cardinality) for p in self.parameters]

    # ---- moving about --------------------------------------------------------------------------

    def neighbours(self, row: Indices) -> Indices:
        """The valid designs one change away from a design: ``m x d``.

        An ordered parameter moves one step up or down (one with more than 32 choices also 8, 64, ... steps), a
        categorical one to any other label. A parameter that comes into existence by the change takes the middle of its range.
        """
        moved = []
        for column, (size, ordered) in enumerate(zip(self.cardinalities, self.ordered, strict=True)):
            here = int(row[column])
            targets = [here + k for k in _steps(size) if 0 <= here + k < size] if ordered else range(size)
            for target in targets:
                if target != here:
                    moved.append(self._with_change(row, column, target))
        if not moved:
            return np.zeros((0, self.dimension), dtype=np.int64)
        rows = np.unique(self.canonical(np.array(moved, dtype=np.int64)), axis=0)
        rows = rows[(rows != self.canonical(row[None, :])).any(axis=1)]
        kept: Indices = rows[self.is_valid(rows)]
        return kept

    def _with_change(self, row: Indices, column: int, target: int) -> Indices:
        new = row.copy()
        before = self.active(row[None, :])[0]
        new[column] = target
        for born in np.flatnonzero(self.active(new[None, :])[0] & ~before):
            new[born] = self.cardinalities[born] // 2
        return new

    def sample(self, count: int, rng: np.random.Generator) -> Indices:
        """`count` valid designs drawn uniformly over the index combinations, repeats possible: ``count x d``.

        Raises:
            UserError: No valid design was found (contradictory constraints).
        """
        kept: list[Indices] = []
        found, size = 0, max(count, 64)
        for _ in range(_SAMPLE_ROUNDS):
            rows = self.canonical(rng.integers(0, self.cardinalities, size=(size, self.dimension)))
            rows = rows[self.is_valid(rows)][: count - found]
            kept.append(rows)
            found += len(rows)
            if found >= count:
                return np.concatenate(kept)
            size = min(2 * size, 65_536)
        rows = np.concatenate(kept)
        if not len(rows) and self.cardinality_bound <= ENUMERATION_LIMIT:
            rows = self.enumerate()
        if not len(rows):
            raise UserError(
                f"no valid design found: the constraints {', '.join(c.name for c in self.constraints)} "
                "leave nothing of the space",
                hint="loosen one of them",
            )
        return rows[rng.integers(0, len(rows), size=count)]

    def enumerate(self, limit: int = ENUMERATION_LIMIT) -> Indices:
        """All valid designs in index order: ``n x d``.

        Raises:
            UserError: There are more index combinations than `limit`.
        """
        bound = self.cardinality_bound
        if bound > limit:
            raise UserError(f"the space has up to {bound} designs, expected at most {limit} to enumerate them all")
        rows = np.stack(np.meshgrid(*self._kept, indexing="ij"), axis=-1).reshape(bound, self.dimension)
        if self._conditions:
            rows = rows[(rows == self.canonical(rows)).all(axis=1)]
        return rows[self.is_valid(rows)]

    def with_rules(self, rules: Sequence[str]) -> "Space":
        """The same space with further known rules, each an expression over the parameters; presets that break one are left out.

        Raises:
            UserError: A rule is no expression over the parameters.
        """
        added = [Constraint(rule, rule) for rule in rules if rule not in [c.name for c in self.constraints]]
        wider = Space(self.parameters, [*self.constraints, *added])
        return Space(self.parameters, wider.constraints, [p for p in self.presets if not wider.violations(p)])

    # ---- files ---------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """The space as plain JSON values.

        Raises:
            UserError: A constraint is a Python callable, which a file cannot hold.
        """
        for constraint in self.constraints:
            if not isinstance(constraint.rule, str):
                raise UserError(
                    f"constraint {constraint.name!r} is a Python callable and cannot be written to a file",
                    hint="write it as an expression such as 'pe_rows * pe_cols <= 1024'",
                )
        return self._describe()

    def _describe(self) -> dict[str, Any]:
        return {
            "parameters": [p.to_json() for p in self.parameters],
            "constraints": [
                {"name": c.name, "rule": c.rule if isinstance(c.rule, str) else None, "reason": c.reason}
                for c in self.constraints
            ],
            "presets": [dict(p) for p in self.presets],
        }

    def fingerprint(self) -> str:
        """A hash of parameters and constraints, equal for equal spaces (callables count by name only)."""
        described = self._describe()
        del described["presets"]
        return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]

    @classmethod
    def from_json(cls, value: object, where: str = "space") -> "Space":
        """The space that `to_json` wrote.

        Raises:
            UserError: A missing or unknown field, or a value that a parameter refuses.
        """
        data = check_fields(value, ("parameters",), ("constraints", "presets"), where)
        parameters = [parameter_from_json(p, f"{where}: parameter {k}") for k, p in enumerate(data["parameters"], 1)]
        constraints = []
        for k, item in enumerate(data.get("constraints", ()), 1):
            rule = check_fields(item, ("name", "rule"), ("reason",), f"{where}: constraint {k}")
            constraints.append(Constraint(str(rule["name"]), rule["rule"], str(rule.get("reason", ""))))
        return cls(parameters, constraints, tuple(data.get("presets", ())))


def _steps(size: int) -> list[int]:
    """How far a choice moves: one step either way, and powers of eight up to a quarter of a long range."""
    lengths = [1]
    while size > 32 and lengths[-1] * 8 <= size // 4:
        lengths.append(lengths[-1] * 8)
    return [sign * length for length in lengths for sign in (-1, 1)]


def _check_condition(parameter: AbstractParameter, seen: Mapping[str, AbstractParameter]) -> None:
    condition = parameter.when
    if condition is None:
        return
    if condition.parameter not in seen:
        raise unknown_name("parameter", condition.parameter, seen, where=f"condition of {parameter.name!r}")
    for value in condition.values:
        try:
            seen[condition.parameter].index(value)
        except UserError as error:
            raise error.within(f"condition of {parameter.name!r}") from None
