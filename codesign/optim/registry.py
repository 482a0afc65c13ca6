"""Optimisers by name."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

import numpy as np

from codesign.core.errors import UserError, unknown_name
from codesign.core.plugins import Registry
from codesign.core.point import Point, PointValue
from codesign.optim.hypervolume import Frame, reference_values
from codesign.optim.optimizer import Optimizer
from codesign.optim.outcomes import OutcomeConstraint, parse_constraints
from codesign.optim.protocols import Evaluated, LowerBounds, Problem, SearchSpace, Strategy

ELITES = 3
"""How many designs of earlier studies are tried first."""

Option = bool | int | float | str

GROUP = "codesign.optimizers"
"""Entry points of this group are strategies of other packages: ``name = module:class``, its first option set by ``name:value``."""

REGISTRY: Registry[Strategy] = Registry(
    "optimiser",
    GROUP,
    {
        "random": ("codesign.optim.sampling:Random", "uniform draws"),
        "sobol": ("codesign.optim.sampling:Sobol", "a scrambled Sobol sequence"),
        "exhaustive": ("codesign.optim.sampling:Exhaustive", "every design once"),
        "nsga2": ("codesign.optim.evolution:GeneticAlgorithm", "a genetic algorithm, by rank and crowding"),
        "nsga3": ("codesign.optim.evolution:GeneticAlgorithm", "a genetic algorithm, by reference directions"),
        "moead": ("codesign.optim.evolution:Decomposition", "a Chebyshev problem for each weight vector"),
        "mobo": ("codesign.optim.mobo:Mobo", "Bayesian optimisation, with bounds where there are any"),
        "exact": ("codesign.optim.exact:Exact", "a proven front, by bounds"),
        "optuna": ("codesign.optim.optuna_samplers:OptunaSampler", "a sampler of Optuna"),
    },
    {"nsga2": {"reference_directions": False}, "nsga3": {"reference_directions": True}},
)

_MAIN_OPTION = {
    "nsga2": "population",
    "nsga3": "population",
    "moead": "population",
    "mobo": "acquisition",
    "optuna": "sampler",
}
"""Of our strategies: the option that ``name:value`` sets."""


def available() -> tuple[str, ...]:
    """The names `create` accepts (``optuna`` needs a sampler: ``optuna:tpe``)."""
    return REGISTRY.names()


def options_of(name: str) -> dict[str, Option]:
    """The options an optimiser takes, with their defaults."""
    return {f.name: f.default for f in _option_fields(name.partition(":")[0])}


def canonical_name(name: str) -> str:
    """The name with its main option written out, so that ``rl`` and ``rl:ppo`` are seen to be the same; an unknown name as it is.

    >>> canonical_name("nsga2") == canonical_name(f"nsga2:{options_of('nsga2')['population']}")
    True
    """
    head, colon, _ = name.partition(":")
    key = None if colon or head not in REGISTRY.names() else _main_option(head)
    default = MISSING if key is None else options_of(head).get(key, MISSING)
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
    REGISTRY.load(head)  # refuses an unknown name
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
    strategy = _build(head, suffix, problem, dict(options or {}))
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


def _option_fields(name: str) -> list[Any]:
    fixed = REGISTRY.fixed.get(name, {})
    return [f for f in fields(REGISTRY.load(name)) if f.name != "problem" and f.name not in fixed and f.init]


def _main_option(name: str) -> str | None:
    """The option that ``name:value`` sets; None where there is none."""
    return _MAIN_OPTION.get(name) if name in REGISTRY.own else next(iter(options_of(name)), "")


def _build(name: str, suffix: str, problem: Problem, options: dict[str, Option]) -> Strategy:
    known = {f.name: f for f in _option_fields(name)}
    if suffix:
        main = _main_option(name)
        if main is None:
            raise UserError(f"optimiser {name!r} takes nothing after a colon, got {suffix!r}")
        options = {main: suffix, **options}
    settings: dict[str, Option] = {}
    for key, value in options.items():
        if key not in known:
            raise unknown_name(f"option of {name!r}", key, known)
        settings[key] = _coerce(name, key, value, known[key].default)
    missing = [f.name for f in known.values() if f.default is MISSING and f.name not in settings]
    if missing:
        raise UserError(f"optimiser {name!r} needs a {missing[0]}", hint=f"write it as '{name}:{missing[0].upper()}'")
    strategy: Strategy = REGISTRY.load(name)(problem, **settings, **REGISTRY.fixed.get(name, {}))
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
    values = tuple(float(v) for v in reference_values(reference, objectives))
    if len(values) != len(objectives) or not all(math.isfinite(v) for v in values):
        raise UserError(f"reference point: expected a finite number per objective, got {list(reference)}")
    return values


def _seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise UserError(f"seed must be a whole number >= 0, got {seed!r}")
    return int(seed)
