"""Parts of the exact mapper: lattice, spatial options, bounds, budgets, infeasible problems."""

import math
from dataclasses import replace
from itertools import count, product

import numpy as np
import pytest

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, Links, StorageLevel
from codesign.arch.mesh import MeshLinks
from codesign.core.errors import UserError
from codesign.core.goals import OBJECTIVES, Budget, Objective, Proof
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Infeasible
from codesign.cost.packed import make_kernel
from codesign.mappers.annealing import AnnealingMapper
from codesign.mappers.exact import ExactMapper
from codesign.mappers.exact.even.best_first import EvenSearch, search_even
from codesign.mappers.exact.even.branch_and_bound import FixedProfile
from codesign.mappers.exact.even.profile import EvenProfile
from codesign.mappers.exact.even.profile_queue import ProfileQueue, Rows
from codesign.mappers.exact.incumbent import Goal, Incumbent
from codesign.mappers.exact.mapper import to_result
from codesign.mappers.exact.problem.instance import FanoutRules, make_instance
from codesign.mappers.exact.problem.lattice import make_lattice
from codesign.mappers.exact.problem.sliding_windows import chain_table
from codesign.mappers.exact.problem.spatial import count_sums, lay_out
from codesign.mappers.registry import create
from codesign.mapping.constraints import Constraints, Keep, LevelConstraints, MappingProblem
from codesign.workloads.computation import Computation
from experiments.attacks.even_mappings import enumerate_all
from experiments.attacks.problems import random_problem


def architecture(words: float = 64.0, bandwidth: float | None = None) -> Architecture:
    """Three levels, 4 x 2 processing elements."""
    energy = [AccessEnergy(e, e, e) for e in (100.0, 6.0, 1.0)]
    return Architecture(
        "small",
        (
            StorageLevel("DRAM", energy=energy[0], word_bits=8, read_bandwidth_words_per_cycle=bandwidth),
            StorageLevel("Buffer", energy=energy[1], word_bits=8, capacity_bytes=words, fanout=Fanout(4, 2)),
            StorageLevel("Registers", energy=energy[2], word_bits=8, capacity_bytes=4.0),
        ),
        Arithmetic(energy_pj=0.5),
    )


def gemm(m: int = 8, n: int = 8, k: int = 8) -> Computation:
    return Computation.parse("C[m,n] += A[m,k] * B[k,n]", m=m, n=n, k=k)


def test_lattice_grows_tiles() -> None:
    lattice = make_lattice((12, 7))
    assert lattice.n_tiles == 6 * 2
    i = lattice.divisors[0].index(3)
    grown = int(lattice.grid.grow[0, lattice.divisors[0].index(4), i])
    assert lattice.divisors[0][grown] == 12
    assert lattice.grid.grow[0, lattice.divisors[0].index(3), i] == -1
    assert lattice.value[:, lattice.n_tiles - 1].tolist() == [12, 7]


def test_lay_out_uses_both_axes_without_exceeding_either() -> None:
    placed = lay_out({0: 8, 1: 3}, FanoutRules(6, 4))
    along = [np.prod([f for _, f, a in placed if a == axis]) for axis in (0, 1)]
    assert along[0] <= 6
    assert along[1] <= 4
    assert {d: int(np.prod([f for e, f, _ in placed if e == d])) for d in (0, 1)} == {0: 8, 1: 3}


def test_lay_out_obeys_the_axis_of_a_dimension() -> None:
    assert lay_out({0: 2, 1: 3}, FanoutRules(4, 4, along_x=frozenset({1}))) == [(1, 3, 0), (0, 2, 1)]


@pytest.mark.parametrize("seed", range(40))
def test_different_sums_of_two_loops_are_counted_in_closed_form(seed: int) -> None:
    a, b, n, m = (int(x) for x in np.random.default_rng(seed).integers(1, 12, 4))
    assert count_sums((a, n), (b, m)) == len({a * i + b * j for i in range(n) for j in range(m)})


@pytest.mark.parametrize("seed", range(30))
def test_closed_bounds_are_below_every_mapping_of_the_profile(seed: int) -> None:
    """Bound B1, of profiles and of those that are alike, against the least energy and each port's least cycles."""
    problem = random_problem(np.random.default_rng(300 + seed), size=60)
    instance = make_instance(problem, Reuse.TIMELOOP)
    best = Incumbent(make_kernel(instance.problem, instance.most_loops), Goal(Objective.ENERGY))
    queue = ProfileQueue(instance, best)
    even, keep = queue.problem, tuple(tuple(k is Keep.YES for k in row) for row in instance.decisions)
    coarse, rows = queue.coarse_bound, queue.open(10**6)
    least = np.inf
    rows = rows[np.isfinite(even.bounds(rows)[:, 0])]
    for row, bounds in list(zip(rows, even.bounds(rows), strict=True))[:: max(1, len(rows) // 12)]:
        fixed = FixedProfile(EvenProfile(even, row), keep)
        for w, closed in enumerate(bounds):
            weight = np.zeros(len(bounds))
            weight[w] = 1.0
            value = fixed.run(weight, fixed.whole(), best)
            if np.isfinite(value) and not fixed.profile.trace().optimistic:  # a mapping, which the program is sure of
                assert closed <= value * (1.0 + 1e-12)
                least = min(least, value) if w == 0 else least
    assert coarse <= least * (1.0 + 1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_limits_on_words_leave_the_mappings_within_them(seed: int) -> None:
    """Halves of a profile, parted at the words of a boundary: the lesser is the whole (B4)."""
    problem = random_problem(np.random.default_rng(900 + seed), ("conv1d", "gemm", "conv2d"), size=60, busy=True)
    instance = make_instance(problem, Reuse.TIMELOOP)
    best = Incumbent(make_kernel(instance.problem, instance.most_loops), Goal(Objective.EDP))
    queue = ProfileQueue(instance, best)
    keep = tuple(tuple(k is Keep.YES for k in row) for row in instance.decisions)
    rows = queue.open(10**6)
    rows = rows[np.isfinite(queue.problem.bounds(rows)[:, 0])]
    for row in rows[:: max(1, len(rows) // 4)]:
        fixed = FixedProfile(EvenProfile(queue.problem, row), keep)
        boundaries, weight = np.argwhere(fixed.fewest > 0.0), np.zeros(1 + len(fixed.demand))
        weight[0] = 1.0
        whole = fixed.run(weight, fixed.whole(), best)
        if not len(boundaries) or np.isinf(whole):
            continue
        traced = fixed.profile.trace()
        if traced.optimistic:
            continue
        t, v = boundaries[seed % len(boundaries)]
        under, over = fixed.whole(), fixed.whole()
        under.most[t, v] = over.least[t, v] = traced.words[t, v] * (1.0 - 1e-9)
        lesser, greater = fixed.run(weight, under, best), fixed.run(weight, over, best)
        assert greater == pytest.approx(whole, rel=1e-12)
        assert lesser >= whole * (1.0 - 1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_chains_never_move_fewer_words_than_the_bound(seed: int) -> None:
    """Bound B1 of docs/explanation/exact-mapper.md against every tile, first loop and chain of random axes."""
    rng = np.random.default_rng(seed)
    bounds = [int(rng.choice([4, 6, 8, 12, 18])), int(rng.choice([2, 3, 6, 8]))]
    coef = np.array([rng.choice([1, 1, 2, 3]), 1], np.int64)
    spatial = np.array([[rng.choice([1, 2]), 1]], np.int64)
    lattice = make_lattice(tuple(bounds))
    width = lattice.grid.grow.shape[1]
    divisors = np.array([[*v, *[0] * (width - len(v))] for v in lattice.divisors], np.int64)
    table = chain_table(divisors, lattice.grid.n_divisors, np.array([bounds]), coef, bool(seed % 2))
    fewest = 1 + sum(b // s - 1 for b, s in zip(bounds, spatial[0], strict=True))
    for sub in range(lattice.n_tiles):
        outside = lattice.value[:, sub].astype(np.int64)
        if (outside % spatial[0]).any():
            continue
        inside = outside // spatial[0]
        extent = 1 + int(coef @ (inside - 1))
        left = int(np.prod(np.array(bounds) // outside))
        assert left * extent * (1.0 - table[0, :, :, sub].max()) >= fewest - 1e-9
        for d in range(2):
            overlap = max(0, extent - int(coef[d] * outside[d]))
            for j, factor in enumerate(lattice.divisors[d]):
                if j > 0 and bounds[d] // outside[d] % factor == 0:
                    kept = 1.0 - 1.0 / factor + table[1, d, j, sub]
                    assert left * (extent - overlap * kept) >= fewest - 1e-9


def test_results_repeat() -> None:
    problem = MappingProblem(gemm(12, 8, 6), architecture(bandwidth=2.0))
    for objective in OBJECTIVES:
        first, second = (ExactMapper().map(problem, objective, budget=Budget(), seed=s) for s in (1, 2))
        assert first.mapping == second.mapping
        assert first.proof is Proof.OPTIMAL
        assert first.gap == 0.0


def test_time_limit_leaves_a_proven_gap() -> None:
    computation = Computation.parse("O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]", k=32, c=32, p=16, q=16, r=3, s=3)
    problem = MappingProblem(computation, architecture(words=2048.0), Constraints(free_bypass=True))
    short = ExactMapper().map(problem, Objective.ENERGY, budget=Budget(time_limit_s=1e-6), seed=0)
    assert short.cost is not None
    assert short.proof is Proof.GAP
    assert short.gap is not None
    assert short.gap > 0.0
    full = ExactMapper().map(problem, Objective.ENERGY, budget=Budget(time_limit_s=60.0), seed=0)
    assert full.cost is not None
    assert short.cost.energy_pj / (1.0 + short.gap) <= full.cost.energy_pj * (1.0 + 1e-9)


def test_a_part_comes_back_unsearched_once_time_is_up() -> None:
    instance = make_instance(MappingProblem(gemm(), architecture(), Constraints(free_bypass=True)), Reuse.TIMELOOP)
    best = Incumbent(make_kernel(instance.problem, instance.most_loops), Goal(Objective.EDP), deadline=-np.inf)
    search = EvenSearch(instance, best)
    part = search.queue.next_part()
    assert part is not None
    first, second = best.apart(), best.apart()
    search._search([part], first)  # without a mapping time does not matter
    assert first.spent > 0 and first.nest is not None
    best.merge(first)
    second = best.apart()
    assert search._search([part], second) == ([part], second) and second.spent == 0
    rows, tested, cells = search._screened(Rows.of_parts([part]), [0], best.to_beat)
    assert list(rows.parts(part.stage)) == [part] and not tested.any() and cells == 0.0


@pytest.mark.parametrize("seed", [2, 13, 22])
def test_whenever_time_is_up_the_bound_holds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(np.random.default_rng(seed), free_bypass=True, size=500, busy=True, levels=3)
    instance, ticks = make_instance(problem, Reuse.TIMELOOP), count()
    monkeypatch.setattr("codesign.core.clock.wall_seconds", lambda: float(next(ticks)))
    full = Incumbent(make_kernel(instance.problem, instance.most_loops), Goal(Objective.EDP))
    assert math.isinf(search_even(instance, full))
    for threads, looks in product((1, 3), (4, 16, 64)):
        best = Incumbent(full.kernel, full.goal, next(ticks) + looks)
        bound = min(search_even(instance, best, threads), best.value)
        assert bound < best.value and bound <= full.value * (1.0 + 1e-9) <= best.value * (1.0 + 2e-9)


def test_the_time_limit_holds_while_very_many_keep_sets_are_bounded() -> None:
    energies = [AccessEnergy(e, e, e) for e in (60.0, 8.0, 4.0, 2.0, 1.0, 0.5)]
    sizes = (None, 2.0**16, 2.0**13, 2.0**11, 2.0**9, 2.0**6)
    fanouts = (Fanout(), Fanout(4, 4), Fanout(), Fanout(8, 1), Fanout(8, 1), Fanout())
    levels = tuple(
        StorageLevel(f"L{v}", energy=energies[v], word_bits=8, capacity_bytes=sizes[v], fanout=fanouts[v])
        for v in range(6)
    )
    computation = Computation.parse("O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]", k=64, c=64, p=56, q=56, r=3, s=3)
    problem = MappingProblem(
        computation, Architecture("deep", levels, Arithmetic(energy_pj=0.1)), Constraints((), True)
    )
    bounds = []
    for limit in (0.02, 2.0):
        result = ExactMapper().map(problem, Objective.ENERGY, budget=Budget(time_limit_s=limit), seed=0)
        assert result.cost is not None
        assert result.gap is not None
        assert result.seconds < limit + 30.0  # bounding all 32,768 keep sets takes far longer
        bounds.append(result.cost.energy_pj / (1.0 + result.gap))
    assert 0.0 < bounds[0] <= bounds[1] * (1.0 + 1e-9)  # later bounds are sharper


@pytest.mark.parametrize("seed", [5, 7, 9])
def test_what_is_said_of_keep_sets_not_searched_is_true(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), free_bypass=True, size=24)
    for objective in OBJECTIVES:
        full = ExactMapper().map(problem, objective, budget=Budget(), seed=0)
        stopped = ExactMapper(effort=1.0).map(problem, objective, budget=Budget(), seed=0)
        assert full.cost is not None and stopped.cost is not None and stopped.gap is not None
        least = objective.of(full.cost)
        assert objective.of(stopped.cost) / (1.0 + stopped.gap) <= least * (1.0 + 1e-9)
        assert objective.of(stopped.cost) >= least * (1.0 - 1e-9)


def test_infeasible_names_resource_demand_and_limit() -> None:
    result = ExactMapper().map(MappingProblem(gemm(), architecture(words=2.0)), Objective.EDP, budget=Budget(), seed=0)
    assert result.mapping is None
    assert isinstance(result.infeasible, Infeasible)
    assert result.infeasible.resource == "capacity of level 'Buffer'"
    assert result.infeasible.demand > result.infeasible.limit == 2.0


def test_everything_of_size_one() -> None:
    result = ExactMapper().map(MappingProblem(gemm(1, 1, 1), architecture()), Objective.EDP, budget=Budget(), seed=0)
    assert result.cost is not None
    assert result.cost.latency_cycles == 1


def test_keep_constraints_are_obeyed() -> None:
    constraints = Constraints((LevelConstraints("Registers", bypass=frozenset({"A"})),), free_bypass=True)
    result = ExactMapper().map(
        MappingProblem(gemm(), architecture(), constraints), Objective.ENERGY, budget=Budget(), seed=0
    )
    assert result.mapping is not None
    assert "Registers" not in result.mapping.levels_of("A")


def test_a_stopped_search_is_no_worse_than_annealing_and_says_how_far_it_may_be() -> None:
    computation = Computation.parse("O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]", k=64, c=48, p=28, q=28, r=3, s=3)
    problem = MappingProblem(computation, architecture(words=1024.0, bandwidth=0.5))
    proven = ExactMapper().map(problem, Objective.EDP, budget=Budget(), seed=0)
    stopped = ExactMapper(effort=1.0).map(problem, Objective.EDP, budget=Budget(), seed=0)
    annealed = create("anneal").map(problem, Objective.EDP, budget=Budget(), seed=0)
    assert proven.cost is not None and stopped.cost is not None and annealed.cost is not None
    assert proven.proof is Proof.OPTIMAL
    assert proven.cost.edp <= min(stopped.cost.edp, annealed.cost.edp) * (1.0 + 1e-12)
    if stopped.proof is Proof.GAP:
        assert stopped.gap is not None
        assert stopped.cost.edp / (1.0 + stopped.gap) <= proven.cost.edp * (1.0 + 1e-9)
    with pytest.raises(UserError, match="effort must be > 0 cells, got 0"):
        ExactMapper(effort=0)


@pytest.mark.parametrize(("most", "threads"), [(1, 1), (3, 1), (3, 2), (40, 2)])
def test_no_more_mappings_are_scored_than_asked(most: int, threads: int) -> None:
    computation = Computation.parse("O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]", k=64, c=48, p=28, q=28, r=3, s=3)
    for words, objective in product((256.0, 2048.0), (Objective.EDP, Objective.LATENCY)):
        problem = MappingProblem(computation, architecture(words=words, bandwidth=0.5))
        result = ExactMapper(threads=threads).map(problem, objective, budget=Budget(evaluations=most), seed=0)
        assert 1 <= result.evaluated <= most
        assert result.mapping is not None and (result.proof is Proof.OPTIMAL or (result.gap or 0.0) > 0.0)


@pytest.mark.parametrize("most", [1, 2, 5, 40])
def test_no_more_are_scored_by_searches_of_several_steps(most: int) -> None:
    plain = MappingProblem(gemm(60, 56, 90), architecture(words=256.0, bandwidth=0.5))
    links = MeshLinks(2, 2, flit_bits=8)
    fanout = Fanout(2, 2, links=Links.MESH, mesh=links)
    meshed = plain.architecture.with_level("Buffer", fanout=fanout)
    for problem, mapper in (
        (replace(plain, imperfect=True), ExactMapper()),
        (plain, ExactMapper(uneven=True)),
        (replace(plain, constraints=Constraints(min_utilization=0.9)), ExactMapper()),
        (replace(plain, architecture=meshed), ExactMapper()),
    ):
        result = mapper.map(problem, Objective.EDP, budget=Budget(evaluations=most), seed=0)
        assert result.mapping is not None and 1 <= result.evaluated <= most


@pytest.mark.parametrize("seed", [2, 13, 22])
def test_a_search_whose_evaluations_end_before_a_mapping_fits_says_so(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), free_bypass=True, size=500, busy=True, levels=3)
    instance = make_instance(problem, Reuse.TIMELOOP)
    quickest = ExactMapper().map(problem, Objective.LATENCY, budget=Budget(), seed=0).cost
    assert quickest is not None
    goal = Goal(Objective.ENERGY, quickest.latency_cycles)
    full, few = (Incumbent(make_kernel(instance.problem, instance.most_loops), goal, scored=n) for n in (math.inf, 1))
    search_even(instance, full)
    bound = search_even(instance, few)
    assert full.evaluated > 1 >= few.evaluated and bound <= full.value * (1.0 + 1e-9)
    result = to_result(instance, few, bound, 0.0, 0)
    assert result.mapping is None and result.proof is Proof.NONE and result.infeasible is not None
    assert result.infeasible.detail == "the budget ended before a mapping that fits was found"


def test_annealing_helps_a_late_search_for_one_run_only() -> None:
    computation = Computation.parse("O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]", k=360, c=240, p=120, q=120, r=3, s=3)
    problem = MappingProblem(computation, architecture(words=2048.0, bandwidth=0.5))
    result = ExactMapper().map(problem, Objective.EDP, budget=Budget(time_limit_s=1e-6), seed=0)
    assert result.cost is not None and result.proof is Proof.GAP
    assert result.evaluated <= AnnealingMapper().moves + 2


def test_more_threads_than_profiles_are_opened_at_a_time() -> None:
    problem = MappingProblem(gemm(), architecture(), Constraints(free_bypass=True))
    one, many = (ExactMapper(threads=n).map(problem, Objective.EDP, budget=Budget(), seed=0) for n in (1, 2000))
    assert one.cost is not None and many.cost is not None
    assert many.proof is Proof.OPTIMAL and many.cost.edp == one.cost.edp


@pytest.mark.parametrize(("c", "p", "r", "words"), [(2, 3, 4, 12.0), (4, 3, 4, 20.0)])
def test_a_window_does_not_slide_before_the_loops_in_a_fixed_order(c: int, p: int, r: int, words: float) -> None:
    price = AccessEnergy(1.0, 1.0, 1.0)
    levels = (
        StorageLevel("DRAM", word_bits=8, energy=price),
        StorageLevel("Buffer", capacity_bytes=words, word_bits=8, energy=price),
    )
    machine = Architecture("two", levels, Arithmetic(bits=8, energy_pj=1.0))
    computation = Computation.parse("O[c,p] += I[c,p+r] * W[c,r]", c=c, p=p, r=r)
    problem = MappingProblem(computation, machine, Constraints((LevelConstraints("DRAM", order=("p", "c")),)))
    least, _ = enumerate_all(problem, Reuse.TIMELOOP, 300_000)
    for objective, value in zip((Objective.ENERGY, Objective.LATENCY, Objective.EDP), least, strict=True):
        found = ExactMapper().map(problem, objective, budget=Budget(), seed=0)
        assert found.cost is not None and found.proof is Proof.OPTIMAL
        assert objective.of(found.cost) == pytest.approx(value, rel=1e-9)


def test_latency_alone_leaves_out_factors_that_do_not_divide() -> None:
    """No port is limited, so such profiles are as fast as others alike, of which nothing fits; they are not searched."""
    price = AccessEnergy(1.0, 1.0, 1.0)
    levels = (
        StorageLevel("DRAM", word_bits=8, energy=price, keep=frozenset("IOW")),
        StorageLevel("Buffer", capacity_bytes=14, word_bits=8, energy=price, fanout=Fanout(4, 3), keep=frozenset("IO")),
        StorageLevel("Array", capacity_bytes=15, word_bits=16, energy=price, fanout=Fanout(3, 1), one_element_per_word=True),
    )  # fmt: skip
    plain = Computation.parse("O[k,p] += I[c,2*p+r] * W[k,c,r]", k=6, p=2, c=2, r=2)
    computation = replace(plain, tensors=(*plain.inputs, replace(plain.output, partial_bits=24)))
    problem = MappingProblem(computation, Architecture("three", levels, Arithmetic(bits=8, energy_pj=1.0)))
    found = ExactMapper().map(problem, Objective.LATENCY, budget=Budget(), seed=0)
    assert found.cost is not None and found.proof is Proof.OPTIMAL
    assert found.cost.latency_cycles == enumerate_all(problem, Reuse.TIMELOOP)[0][1]
