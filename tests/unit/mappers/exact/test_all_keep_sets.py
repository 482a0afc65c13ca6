"""The program over all keep sets: its bounds, its mirror, and what it makes of real layers."""

import time
from dataclasses import replace

import numpy as np
import pytest

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, LevelKind, StorageLevel
from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.arrays import Reuse
from codesign.formats.load import load_inputs
from codesign.mappers.exact import ExactMapper
from codesign.mappers.exact.even.fill_states import END, KIND, SOURCE, TARGET, Moves, make_program
from codesign.mappers.exact.even.mirrored_profiles import Mirror
from codesign.mappers.exact.even.profile import EvenProfile
from codesign.mappers.exact.even.screen import Screen
from codesign.mappers.exact.even.shared_problem import EvenProblem
from codesign.mappers.exact.problem.instance import LevelRules, make_instance
from codesign.mappers.exact.problem.spatial import vectors_of
from codesign.mappers.registry import create
from codesign.mapping.constraints import Constraints, Keep, MappingProblem
from codesign.workloads.computation import Computation
from codesign.workloads.layer_string import parse_layer
from experiments.attacks.problems import WINDOWS, random_problem
from experiments.exact import freed
from tests.reference_data import KEPT_HERE
from tests.seeds import seeds

CONVOLUTION = "Outputs[K,P,Q] += Inputs[C,P+R,Q+S] * Weights[K,C,R,S]"


def even_problem(problem: MappingProblem) -> EvenProblem:
    instance = make_instance(problem, Reuse.TIMELOOP)
    return EvenProblem(instance, instance.decisions)


def rows_of(problem: EvenProblem, most: int = 40) -> np.ndarray:
    """Some profiles whose factors divide the bounds."""
    sizes = [len(v.factors) for v in problem.vectors]
    rows = np.stack(np.unravel_index(np.arange(int(np.prod(sizes))), sizes), axis=1)
    rows = rows[np.isfinite(problem.bounds(rows)[:, 0])]
    return rows[:: max(1, len(rows) // most)]


@pytest.mark.parametrize("seed", seeds(12))
def test_bounds_get_sharper(seed: int) -> None:
    problem = even_problem(random_problem(np.random.default_rng(seed), free_bypass=True, size=24, levels=3))
    if not Screen(problem).covers:
        return
    rows = rows_of(problem)
    assert len(rows)
    bounds, screen = problem.bounds(rows), Screen(problem)
    for w in range(bounds.shape[1]):
        weight = np.zeros(bounds.shape[1])
        weight[w] = 1.0
        quick, _ = screen.bound(rows, np.tile(weight, (len(rows), 1)), np.full(len(rows), np.inf))
        for row, closed, bound in zip(rows, bounds[:, w], quick, strict=True):
            profile = EvenProfile(problem, row)
            exact = profile.run(weight)
            assert bound <= exact * (1 + 1e-12) or np.isinf(exact)
            assert closed <= exact * (1 + 1e-9) + 1e-9 or np.isinf(exact)
            if not np.isfinite(exact):
                continue
            # a cap changes nothing below it, and leaves nothing from it on; the states it leaves hold the least value
            assert screen.bound(row[None], weight[None], np.array([bound * 1.001 + 1e-6]))[0][0] == pytest.approx(
                bound, rel=1e-12
            )
            assert np.isinf(screen.bound(row[None], weight[None], np.array([bound * (1 - 1e-9)]))[0][0])
            live = screen.live(row, weight, exact * (1 + 1e-9) + 1e-9, profile.program)
            assert profile.run(weight, None, live) == pytest.approx(exact, rel=1e-12)


def test_the_program_reads_only_what_is_complete() -> None:
    free = (Keep.FREE,) * 3
    decisions = ((Keep.YES,) * 3, free, (Keep.FREE, Keep.NO, Keep.YES), free)
    stacks = tuple(tuple(tuple(v < w for w in range(4)) for v in range(4)) for _ in range(3))
    moves = Moves((0b101, 0b101, 0b011), (frozenset({1}), frozenset(), frozenset()), (True, False, False), True)
    program = make_program(decisions, stacks, moves, (LevelRules((), frozenset({0, 1, 2})),) * 4)
    last = {int(o[TARGET]): i for i, o in enumerate(program.operations)}
    for i, operation in enumerate(program.operations):
        source = int(operation[SOURCE])
        assert source < 0 or last[source] < i
    assert (program.operations[:, KIND] == END).any()
    assert len(program.starts) == 4 * 3 * 2  # who may feed the MACs with each tensor


def test_mirrored_profiles_cost_the_same() -> None:
    computation = Computation.parse(CONVOLUTION, K=4, C=2, P=4, Q=4, R=3, S=3)
    machine = load_preset("simba")
    free = replace(machine, levels=tuple(replace(v, keep=machine.levels[0].keep) for v in machine.levels))
    problem = even_problem(MappingProblem(computation, free, Constraints(free_bypass=True)))
    rows, mirror = rows_of(problem, 400), Mirror(problem)
    turned = mirror.turned(rows)
    assert 0.4 * len(rows) <= len(mirror.canonical(rows)) < 0.8 * len(rows)
    different = np.flatnonzero((rows != turned).any(axis=1))
    weight = np.zeros(1 + problem.n_ports)
    weight[0] = 1.0
    for i in different[:: max(1, len(different) // 8)]:
        assert len(mirror.canonical(np.array([rows[i], turned[i]]))) == 1
        assert EvenProfile(problem, turned[i]).run(weight) == pytest.approx(
            EvenProfile(problem, rows[i]).run(weight), rel=1e-9
        )


def test_vectors_fit_their_fan_outs() -> None:
    computation = Computation.parse(CONVOLUTION, K=8, C=4, P=6, Q=6, R=3, S=3)
    instance = make_instance(MappingProblem(computation, load_preset("gemmini")), Reuse.TIMELOOP)
    for m, level in enumerate(instance.source.architecture.levels):
        vectors = vectors_of(instance, m)
        assert (vectors.factors.prod(axis=1) <= level.fanout.x * level.fanout.y).all()
        assert (vectors.distinct <= vectors.share).all()


@pytest.mark.parametrize("objective", [pytest.param(Objective.ENERGY, marks=pytest.mark.slow("speed")), Objective.EDP])
def test_free_keep_sets_of_a_real_layer_are_proven(objective: Objective) -> None:
    computation = Computation.parse("O[K,P,Q] += I[C,P,Q] * W[K,C]", K=256, C=64, P=56, Q=56)
    machine = load_preset("simba")
    free = replace(
        machine, levels=tuple(replace(v, keep=frozenset(t.name for t in computation.tensors)) for v in machine.levels)
    )
    problem = MappingProblem(computation, free, Constraints(free_bypass=True))
    result = ExactMapper().map(problem, objective, budget=Budget(), seed=0)
    assert result.proof is Proof.OPTIMAL
    kept = ExactMapper().map(MappingProblem(computation, machine), objective, budget=Budget(), seed=0)
    assert result.cost is not None
    assert kept.cost is not None
    assert objective.of(result.cost) <= objective.of(kept.cost) * (1 + 1e-12)


@pytest.mark.parametrize("seed", seeds(6))
def test_threads_find_the_same_optimum(seed: int) -> None:
    problem = random_problem(np.random.default_rng(500 + seed), free_bypass=True, size=24, levels=4)
    alone, together = (create("exact", threads=n).map(problem, Objective.EDP, budget=Budget(), seed=0) for n in (1, 3))
    assert together.proof is alone.proof
    assert (alone.cost is None) == (together.cost is None)
    if alone.cost is not None and together.cost is not None:
        assert together.cost.edp == pytest.approx(alone.cost.edp, rel=1e-12)


@pytest.mark.slow("speed")
def test_two_threads_share_the_work_without_adding_any() -> None:
    """Nearly all CPU seconds are spent on the two threads, and they are hardly more than with one."""
    layer = parse_layer("conv K=512 C=256 P=28 Q=28 R=1 S=1 stride=2")
    problem = MappingProblem(layer, freed(load_preset("simba")), Constraints(free_bypass=True))
    spent = []
    for threads in (1, 1, 2):
        every, own = time.process_time(), time.thread_time()
        found = create("exact", threads=threads).map(problem, Objective.EDP, budget=Budget(), seed=0)
        assert found.proof is Proof.OPTIMAL
        spent.append((time.process_time() - every, time.thread_time() - own))
    (alone, _), (together, serial) = spent[1:]
    assert together <= 1.3 * alone and serial <= 0.1 * together


def test_no_threads_are_refused() -> None:
    with pytest.raises(UserError, match="threads must be >= 1, got 0"):
        create("exact", threads=0)


@pytest.mark.parametrize(
    ("seed", "least"),
    [
        (7, 3021373.5968346572),
        (12, 19139765.985285494),
        (30, 2131934.4714347757),
        (45, 3323142.6953555025),
        (60, 2112861.5371776046),
        (64, 16103811.255533956),
    ],
)
@pytest.mark.thinned(2)
def test_windows_behind_limited_ports(seed: int, least: float) -> None:
    """Energy-delay product with free keep sets: the optima that another program proved, one keep set at a time."""
    problem = random_problem(
        np.random.default_rng(77_000 + seed),
        ("conv1d", "conv2d", "conv1d_strided", "conv1d_dilated"),
        free_bypass=True,
        size=130,
        levels=4,
        busy=True,
    )
    together = ExactMapper().map(problem, Objective.EDP, budget=Budget(), seed=0)
    assert together.proof is Proof.OPTIMAL
    assert together.cost is not None
    assert together.cost.edp == pytest.approx(least, rel=1e-9)


def test_a_window_closed_without_a_loop_is_traced() -> None:
    """A part that must keep a window where it does not pay: its tables hold the closing that suffix minima find."""
    folder = KEPT_HERE / "exact" / "window_behind_port"
    given = load_inputs([str(folder / "arch.yaml"), str(folder / "problem.yaml")])
    assert given.computation is not None
    assert given.architecture is not None
    problem = MappingProblem(given.computation, given.architecture, Constraints(free_bypass=True))
    result = ExactMapper().map(problem, Objective.EDP, budget=Budget(), seed=0)
    assert result.proof is Proof.OPTIMAL
    assert result.cost is not None
    assert result.cost.edp == pytest.approx(512618693.65995795, rel=1e-9)  # the least of 256 keep sets one by one


def sliding_on(seed: int) -> MappingProblem:
    """A 1-D convolution on four small levels without fan-outs, whose windows often go on sliding after other loops."""
    rng = np.random.default_rng(seed)
    tile = int(rng.choice([2, 3, 4]))
    bounds = {"k": int(rng.choice([2, 4])), "p": tile * int(rng.choice([2, 4, 8])), "r": tile * int(rng.choice([2, 3]))}
    computation = Computation.parse("O[k,p] += I[p+r] * W[k,r]", bounds, bits=8, partial_bits=8)
    names = frozenset(t.name for t in computation.tensors)
    levels = [
        StorageLevel(
            name=f"L{v}",
            kind=LevelKind.SRAM if v else LevelKind.DRAM,
            capacity_bytes=capacity,
            word_bits=8,
            keep=names,
            energy=AccessEnergy(*(energy * float(x) for x in rng.uniform(0.3, 1.5, 3))),
        )
        for v, (capacity, energy) in enumerate(zip((None, 60, 24, 2 * tile - 1), (150.0, 30.0, 6.0, 1.0), strict=True))
    ]
    return MappingProblem(
        computation, Architecture("a", tuple(levels), Arithmetic(energy_pj=0.3)), Constraints((), True)
    )


@pytest.mark.parametrize("seed", seeds(60))
def test_levels_that_hold_the_same_tile_are_left_out_without_loss(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source = sliding_on(seed)
    if seed % 2:
        source = random_problem(np.random.default_rng(2600 + seed), WINDOWS, free_bypass=True, size=24, levels=4)
    problem = even_problem(source)
    weight = np.zeros(1 + problem.n_ports)
    weight[0] = 1.0
    rows = rows_of(problem, 6)
    least = [EvenProfile(problem, row).run(weight) for row in rows]
    n, n_tensors = problem.instance.n_levels, problem.instance.n_tensors
    everything = tuple(tuple(tuple(v < w for w in range(n)) for v in range(n)) for _ in range(n_tensors))
    monkeypatch.setattr(EvenProblem, "_stacks", lambda *_: everything)
    # with more states the value can only fall; it must not
    assert [EvenProfile(problem, row).run(weight) for row in rows] == pytest.approx(least, rel=1e-9)
