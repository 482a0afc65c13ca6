"""A compiled annealer over software candidates, for sweeps that score many designs, and the cost of many layers on one core.

It moves by the same revisions as the searches of `codesign.tensorization.search` and is a hundred times as fast; it may score a candidate twice.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codesign.core.checks import check_least
from codesign.core.errors import UserError
from codesign.core.jit import njit
from codesign.core.rng import RandomState, below, make_state, uniform
from codesign.cost.cost import Infeasible
from codesign.mapping.nest import FloatArray, IntArray
from codesign.tensorization.choice import TensorizeChoice
from codesign.tensorization.encoding import ProgramArrays, SoftwareProblem
from codesign.tensorization.intrinsic_core import SCRATCHPAD, Core
from codesign.tensorization.revisions import (
    DOWN,
    FIRST_CALLS,
    FIRST_CHOICE,
    FUSE_MORE,
    FUSED,
    KINDS,
    candidate_width,
    draw,
    fits,
    revise,
    score_candidate,
)
from codesign.tensorization.scoring import ENERGY, FITS, LATENCY, result_width
from codesign.workloads.computation import Computation
from experiments.models.collapse import collapsed

_POOL_SHARE = 0.2
"""Share of the budget spent on random candidates, the best of which is the start."""

_HOT, _COLD = 0.3, 0.01
"""First and last temperature, as relative worsenings."""

_MAX_FAILURES = 200
"""Draws or revisions in a row that bring nothing before the search stops."""


@njit
def _random_revision(problem: ProgramArrays, random: RandomState, sizes_only: bool) -> int:
    """A revise choice that may exist for a candidate of this problem."""
    n_dims = problem.bounds.shape[0]
    if sizes_only:
        return KINDS * below(random, n_dims) + below(random, DOWN + 1)
    pick = below(random, KINDS * n_dims + 2 + problem.tile.shape[0])
    if pick < KINDS * n_dims:
        return pick
    pick -= KINDS * n_dims
    return FUSE_MORE + pick if pick < 2 else FIRST_CHOICE + pick - 2  # type: ignore[no-any-return]


@njit
def _plain_order(candidate: IntArray, n_dims: int) -> None:
    """Loops in the order of the notation, nothing fused."""
    candidate[FUSED] = 1
    for d in range(n_dims):
        candidate[FIRST_CALLS + n_dims + d] = d
        candidate[FIRST_CALLS + 2 * n_dims + d] = d


@njit
def _best_drawn(
    problem: ProgramArrays,
    random: RandomState,
    pool: int,
    sizes_only: bool,
    rows: IntArray,
    loops: IntArray,
    results: FloatArray,
) -> int:
    """Score up to `pool` candidates drawn at random; row 0 receives the best one. Returns how many were scored."""
    best, trial = rows[0], rows[2]
    results[0, LATENCY] = np.inf
    scored, failures = 0, 0
    while scored < pool and failures < _MAX_FAILURES:
        failures += 1
        if draw(problem, trial, random) != FITS:
            continue
        if sizes_only:
            _plain_order(trial, problem.bounds.shape[0])
        scored += 1
        if score_candidate(problem, trial, loops, results[1]) == FITS and results[1, LATENCY] < results[0, LATENCY]:
            failures = 0
            best[:] = trial
            results[0] = results[1]
    return scored


@njit
def anneal(
    problem: ProgramArrays,
    random: RandomState,
    evaluations: int,
    sizes_only: bool,
    rows: IntArray,
    loops: IntArray,
    results: FloatArray,
) -> int:
    """Anneal the logarithm of the latency.

    Args:
        problem: The computation on the core.
        random: Generator.
        evaluations: Candidates to score.
        sizes_only: Only splits are revised; loops keep the order of the notation, unfused.
        rows: ``3 x`` `candidate_width`; row 0 receives the best candidate, the others are scratch.
        loops: ``N x 3`` scratch.
        results: ``2 x`` `result_width`; row 0 receives the best candidate's figures.

    Returns:
        Candidates scored; the latency in `results` is infinite if none fits.
    """
    best, current, trial = rows[0], rows[1], rows[2]
    pool = max(1, int(_POOL_SHARE * evaluations))
    scored = _best_drawn(problem, random, pool, sizes_only, rows, loops, results)
    if results[0, LATENCY] == np.inf:
        return scored
    current[:] = best
    here = results[0, LATENCY]
    failures = 0
    while scored < evaluations and failures < _MAX_FAILURES:
        failures += 1
        trial[:] = current
        if not revise(problem, trial, _random_revision(problem, random, sizes_only)) or not fits(problem, trial):
            continue
        failures = 0
        scored += 1
        if score_candidate(problem, trial, loops, results[1]) != FITS:
            continue
        gain = math.log(here / results[1, LATENCY])
        temperature = _HOT * (_COLD / _HOT) ** (scored / evaluations)
        if gain >= 0 or uniform(random) < math.exp(gain / temperature):
            current[:] = trial
            here = results[1, LATENCY]
            if here < results[0, LATENCY]:
                best[:] = trial
                results[0] = results[1]
    return scored


@dataclass(frozen=True)
class QuickResult:
    """What a quick search found.

    Args:
        candidate: The best one.
        latency_cycles: Its latency.
        energy_pj: Its dynamic energy.
        scored: Candidates scored.
    """

    candidate: IntArray
    latency_cycles: float
    energy_pj: float
    scored: int


def quick_program(
    problem: SoftwareProblem, *, evaluations: int, seed: int, sizes_only: bool = False
) -> QuickResult | None:
    """A good program; None if none fits the core's memories.

    Args:
        problem: The computation on the core.
        evaluations: Candidates to score.
        seed: Of the random choices.
        sizes_only: Only the sizes of sub-workloads are searched; loops keep the order of the notation, unfused.

    Raises:
        UserError: `evaluations` below 1.
    """
    check_least(1, evaluations=evaluations)
    rows: IntArray = np.zeros((3, candidate_width(len(problem.computation.dims))), np.int64)
    loops: IntArray = np.ones((problem.max_loops, 3), np.int64)
    results = np.full((2, result_width(len(problem.computation.tensors))), np.inf)
    scored = anneal(problem.arrays, make_state(seed), evaluations, sizes_only, rows, loops, results)
    if not math.isfinite(results[0, LATENCY]):
        return None
    return QuickResult(rows[0].copy(), float(results[0, LATENCY]), float(results[0, ENERGY]), int(scored))


def best_of_forms(problem: SoftwareProblem, *, evaluations: int, seed: int) -> QuickResult | None:
    """The better program of a computation as it is and in its shorter form (`collapsed`), each with half the budget; None if none fits."""
    short = collapsed(problem.computation)
    if short is problem.computation:
        return quick_program(problem, evaluations=evaluations, seed=seed)
    try:
        other = SoftwareProblem.of(short, problem.core)
    except UserError:  # the intrinsic needs a dimension that the shorter form lacks
        return quick_program(problem, evaluations=evaluations, seed=seed)
    found = [quick_program(form, evaluations=(evaluations + 1) // 2, seed=seed) for form in (problem, other)]
    return min((f for f in found if f is not None), key=lambda f: f.latency_cycles, default=None)


Template = Callable[[tuple[TensorizeChoice, ...]], TensorizeChoice]
"""Picks one of a layer's tensorize choices."""


@dataclass(frozen=True)
class Layer:
    """A computation that a workload performs several times.

    Args:
        computation: What is computed.
        count: How often.
    """

    computation: Computation
    count: int = 1

    def __post_init__(self) -> None:
        check_least(1, count=self.count, where=self.computation.name)


@dataclass(frozen=True)
class CoreCost:
    """What a core needs for a list of layers, each with the best program found.

    Args:
        core: The core.
        latency_cycles: Of each layer, once: ``l``.
        energy_pj: Dynamic, of each layer, once: ``l``.
        counts: How often each layer runs: ``l``.
    """

    core: Core
    latency_cycles: tuple[float, ...]
    energy_pj: tuple[float, ...]
    counts: tuple[int, ...]

    @cached_property
    def total_cycles(self) -> float:
        """Cycles of all layers, one after the other."""
        return sum(n * c for n, c in zip(self.counts, self.latency_cycles, strict=True))

    @property
    def latency_s(self) -> float:
        """Latency in seconds at the core's clock."""
        return self.total_cycles / self.core.architecture.clock_hz

    @cached_property
    def energy_j(self) -> float:
        """Dynamic energy and leakage."""
        dynamic = sum(n * e for n, e in zip(self.counts, self.energy_pj, strict=True)) * 1e-12
        return dynamic + self.core.architecture.leakage_w * self.latency_s

    @property
    def power_w(self) -> float:
        """Average power while running."""
        return self.energy_j / self.latency_s

    @property
    def area_mm2(self) -> float:
        """Of the chip, without DRAM."""
        area = self.core.architecture.area_mm2
        if area is None:
            raise UserError("no technology has filled in the areas", where=f"core {self.core.architecture.name!r}")
        return area


def cost_on_core(
    layers: Sequence[Layer], core: Core, *, evaluations: int, seed: int, template: Template | None = None
) -> CoreCost | Infeasible:
    """Find a program for every layer and add up.

    Args:
        layers: What to run, one layer after the other.
        core: The accelerator.
        evaluations: Candidates scored per layer.
        seed: Of the random choices, the same for every layer.
        template: Names one tensorize choice for each layer; then only the sizes of sub-workloads are searched, as tuners of hand-written
            templates do. None searches everything.

    Raises:
        UserError: A layer that the intrinsic cannot take, not even in part.
    """
    cycles, energies = [], []
    for layer in layers:
        problem = SoftwareProblem.of(layer.computation, core, partial=True)
        if template is None:
            found = best_of_forms(problem, evaluations=evaluations, seed=seed)
        else:
            problem = SoftwareProblem(problem.computation, core, (template(problem.choices),))
            found = quick_program(problem, evaluations=evaluations, seed=seed, sizes_only=True)
        if found is None:
            level = core.architecture.levels[SCRATCHPAD]
            demand = min(_call_bytes(problem, k) for k in range(len(problem.choices)))
            return Infeasible(
                f"capacity of level {level.name!r}",
                demand,
                level.capacity_bytes or 0.0,
                "bytes",
                layer.computation.name,
            )
        cycles.append(found.latency_cycles)
        energies.append(found.energy_pj)
    return CoreCost(core, tuple(cycles), tuple(energies), tuple(layer.count for layer in layers))


def _call_bytes(problem: SoftwareProblem, choice: int) -> float:
    """What a single call of a choice takes in the scratchpad."""
    computation = problem.computation
    sizes = problem.choices[choice].tile
    level = problem.core.architecture.levels[SCRATCHPAD]
    bits = sum(
        math.prod(tensor.shape(sizes)) * level.element_bits(tensor.partial_bits) for tensor in computation.tensors
    )
    return 2 * bits / 8
