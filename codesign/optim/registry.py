"""Optimisers by name."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, final

import numpy as np

from codesign.core.errors import UserError, unknown_name
from codesign.core.plugins import entry_points, load_attribute
from codesign.core.point import Point, PointValue
from codesign.optim.hypervolume import Frame
from codesign.optim.optimizer import Optimizer
from codesign.optim.outcomes import OutcomeConstraint, parse_constraints
from codesign.optim.protocols import Evaluated, LowerBounds, Problem, SearchSpace, Strategy

ELITES = 3
"""How many designs of earlier studies are tried first."""

Option = bool | int | float | str

FIRST_OPTION = "first option"
"""Stands for the name of the option that a colon sets, where only the strategy's class knows it."""


@final
@dataclass(frozen=True)
class _Entry:
    """Where a strategy is defined, options that the name fixes, and the option that ``name:value`` sets."""

    module: str
    strategy: str
    fixed: Mapping[str, Option] = field(default_factory=dict)
    suffix: str | None = None

    def load(self) -> Any:
        module = self.module if "." in self.module else f"codesign.optim.{self.module}"
        return load_attribute(f"{module}:{self.strategy}", "this optimiser")


_ENTRIES: dict[str, _Entry] = {
    "random": _Entry("sampling", "Random"),
    "sobol": _Entry("sampling", "Sobol"),
    "exhaustive": _Entry("sampling", "Exhaustive"),
    "nsga2": _Entry("evolution", "GeneticAlgorithm", {"reference_directions": False}, "population"),
    "nsga3": _Entry("evolution", "GeneticAlgorithm", {"reference_directions": True}, "population"),
    "moead": _Entry("evolution", "Decomposition", suffix="population"),
    "mobo": _Entry("mobo", "Mobo", suffix="acquisition"),
    "exact": _Entry("exact", "Exact"),
    "optuna": _Entry("optuna_samplers", "OptunaSampler", suffix="sampler"),
}


GROUP = "codesign.optimizers"
"""Entry points of this group are strategies of other packages: ``name = module:class``, its first option set by ``name:value``."""


def _entries() -> dict[str, _Entry]:
    """The strategies of this package, then those of others."""
    found = dict(_ENTRIES)
    for point in entry_points(GROUP):
        found.setdefault(point.name, _Entry(point.module, point.attr, suffix=FIRST_OPTION))
    return found


def available() -> tuple[str, ...]:
    """The names `create` accepts (``optuna`` needs a sampler: ``optuna:tpe``)."""
    return tuple(_entries())


def options_of(name: str) -> dict[str, Option]:
    """The options an optimiser takes, with their defaults."""
    entry = _entry(name.partition(":")[0])
    return {f.name: f.default for f in _option_fields(entry)}


def canonical_name(name: str) -> str:
    """The name with its main option written out, so that ``rl`` and ``rl:ppo`` are seen to be the same; an unknown name as it is.

    >>> canonical_name("nsga2") == canonical_name(f"nsga2:{options_of('nsga2')['population']}")
    True
    """
    head, colon, _ = name.partition(":")
    entry = _entries().get(head)
    if colon or entry is None or entry.suffix is None:
        return name
    known = {f.name: f.default for f in _option_fields(entry)}
    key = next(iter(known), "") if entry.suffix == FIRST_OPTION else entry.suffix
    default = known.get(key, MISSING)
    return name if default is MISSING else f"{head}:{default}"


def create(
    name: str,
    space: SearchSpace,
    objectives: Sequence[str],
    *,
    seed: int = 0,
    constraints: Sequence[str | OutcomeConstraint] = (),
    reference_point: Sequence[float] | Mapping[str, float] | None = None,
    initial: Sequence[Mapping[str, object]] = (),
    warm_start: Sequence[Evaluated | tuple[Mapping[str, PointValue], Mapping[str, float]]] = (),
    noisy: bool = False,
    bounds: LowerBounds | None = None,
    options: Mapping[str, Option] | None = None,
) -> Optimizer:
    """An optimiser with the ask/tell interface.

    Args:
        name: One of `available()`, with its main option after a colon where it has one: ``mobo``, ``nsga2:5``
            (population), ``optuna:tpe`` (sampler).
        space: The designs, for instance a `spaces.Space`.
        objectives: Names of the metrics to minimise.
        seed: Base of every random choice; the same seed and the same answers give the same run.
        constraints: Bounds on other metrics, such as ``"power_w<=2"``.
        reference_point: The worst values of interest, one per objective, in objective units. Inferred where absent.
        initial: Designs to evaluate first.
        warm_start: Designs of earlier studies of the same space with their metrics, perhaps for another workload. `mobo` learns
            from them and tries their best first; the other optimisers try their best first.
        noisy: True where evaluating a design again may give other numbers.
        bounds: What no design can be below, for `exact` and `mobo`; a space that has the method `lower_bounds` gives its own.
        options: Further options by name; see `options_of`.

    Raises:
        UserError: An unknown name or option, no objective, a repeated one, or a constraint that cannot be met.
    """
    head, _, suffix = name.partition(":")
    entry = _entry(head)
    problem = Problem(
        space=space,
        objectives=_objectives(objectives),
        constraints=parse_constraints(constraints),
        reference_point=_reference(reference_point, objectives),
        seed=_seed(seed),
        warm_start=tuple(Evaluated(dict(p), dict(v)) for p, v in warm_start),
        noisy=noisy,
        bounds=bounds,
    )
    strategy = _build(head, entry, suffix, problem, dict(options or {}))
    return Optimizer(problem, strategy, [*initial, *elites(problem)])


def elites(problem: Problem) -> list[Point]:
    """The best designs of the earlier studies: greedily, those that add most hypervolume (log-scaled where possible)."""
    complete = [t for t in problem.warm_start if all(o in t.values for o in problem.objectives)]
    values = np.array([[t.values[o] for o in problem.objectives] for t in complete], dtype=np.float64)
    values = values.reshape(len(complete), len(problem.objectives))
    rows = problem.space.to_indices([t.point for t in complete], "warm start")
    usable = np.isfinite(values).all(axis=1) & problem.space.is_valid(rows)
    if not usable.any():
        return []
    rows, values = rows[usable], values[usable]
    frame = Frame.of_front(values, log=bool((values > 0).all()), margin=0.5)
    picked: list[int] = []
    for _ in range(min(ELITES, len(rows))):
        gains = [-1.0 if k in picked else frame.hypervolume(values[[*picked, k]]) for k in range(len(rows))]
        picked.append(int(np.argmax(gains)))
    return problem.space.to_points(rows[picked])


def _entry(name: str) -> _Entry:
    known = _entries()
    if name not in known:
        raise unknown_name("optimiser", name, known)
    return known[name]


def _option_fields(entry: _Entry) -> list[Any]:
    return [f for f in fields(entry.load()) if f.name != "problem" and f.name not in entry.fixed and f.init]


def _build(name: str, entry: _Entry, suffix: str, problem: Problem, options: dict[str, Option]) -> Strategy:
    known = {f.name: f for f in _option_fields(entry)}
    if suffix:
        if entry.suffix is None:
            raise UserError(f"optimiser {name!r} takes nothing after a colon, got {suffix!r}")
        key = next(iter(known), "") if entry.suffix == FIRST_OPTION else entry.suffix
        options = {key: suffix, **options}
    settings: dict[str, Option] = {}
    for key, value in options.items():
        if key not in known:
            raise unknown_name(f"option of {name!r}", key, known)
        settings[key] = _coerce(name, key, value, known[key].default)
    missing = [f.name for f in known.values() if f.default is MISSING and f.name not in settings]
    if missing:
        raise UserError(f"optimiser {name!r} needs a {missing[0]}", hint=f"write it as '{name}:{missing[0].upper()}'")
    strategy: Strategy = entry.load()(problem, **settings, **entry.fixed)
    return strategy


def _coerce(name: str, key: str, value: Option, default: object) -> Option:
    """The value in the type of the option's default, so that texts from a command line work."""
    where = f"optimiser {name!r}"
    try:
        if isinstance(default, bool):
            if isinstance(value, bool):
                return value
            return {"true": True, "false": False}[str(value).lower()]
        if isinstance(default, int) and not isinstance(value, bool):
            if float(value) != int(value):
                raise ValueError
            return int(value)
        if isinstance(default, float) and not isinstance(value, bool):
            return float(value)
        if default is MISSING or isinstance(default, str):
            return str(value)
    except (ValueError, KeyError, TypeError):
        pass
    kind = "truth value" if isinstance(default, bool) else type(default).__name__
    raise UserError(f"option {key!r} must be of type {kind}, got {value!r}", where=where)


def _objectives(objectives: Sequence[str]) -> tuple[str, ...]:
    if isinstance(objectives, str) or not all(isinstance(o, str) and o for o in objectives):
        raise UserError(f"objectives: expected a list of names, got {objectives!r}")
    names = tuple(objectives)
    if not names:
        raise UserError("objectives: expected at least one name, got none")
    if len(set(names)) < len(names):
        raise UserError(f"objectives must differ, got {list(names)}")
    return names


def _reference(
    reference: Sequence[float] | Mapping[str, float] | None, objectives: Sequence[str]
) -> tuple[float, ...] | None:
    if reference is None:
        return None
    if isinstance(reference, Mapping):
        for key in reference:
            if key not in objectives:
                raise unknown_name("objective", key, objectives, where="reference point")
        reference = [reference.get(name, math.nan) for name in objectives]
    values = tuple(float(v) for v in reference)
    if len(values) != len(objectives) or not all(math.isfinite(v) for v in values):
        raise UserError(f"reference point: expected a finite number per objective, got {list(reference)}")
    return values


def _seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise UserError(f"seed must be a whole number >= 0, got {seed!r}")
    return int(seed)
