"""The CoSA program from any computation and architecture, and the mapper around it."""

import json
import math
from dataclasses import replace

import pytest

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, StorageLevel
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost, evaluate
from codesign.mappers.cosa.decode import decode
from codesign.mappers.cosa.integer_program import PUBLISHED, Form, Settings, Weights, make_program
from codesign.mappers.cosa.mapper import CosaMapper
from codesign.mappers.cosa.matrices import Reading, make_matrices
from codesign.mappers.cosa.polish import polish
from codesign.mappers.cosa.schedules import solve_program
from codesign.mappers.cosa.solvers import Solver, Status, solve
from codesign.mappers.driver import Encoded
from codesign.mappers.padded_bounds import smoothed
from codesign.mappers.registry import create
from codesign.mappers.resident_orders import chain_phase, make_chains
from codesign.mapping.constraints import Constraints, LevelConstraints, MappingProblem
from codesign.mapping.space import copy_state, outermost_state
from codesign.workloads.computation import Computation
from experiments.cosa_fit import fit_weights

CONV = Computation.parse("O[n,k,p,q] += I[n,c,2*p+r,2*q+s] * W[k,c,r,s]", n=1, k=16, c=8, p=6, q=6, r=3, s=3)
DEPTHWISE = Computation.parse("O[c,p] += I[c,p+r] * W[c,r]", c=8, p=12, r=3)
GEMM = Computation.parse("C[m,n] += A[m,k] * B[k,n]", m=16, n=12, k=10)


def machine(buffer: float = 2048, local: float = 64, fanout: Fanout = Fanout(4, 2)) -> Architecture:  # noqa: B008
    energies = [AccessEnergy(100, 100, 110), AccessEnergy(3, 3.5, 3.6), AccessEnergy(0.3, 0.4, 0.4)]
    return Architecture(
        "small",
        (
            StorageLevel("DRAM", energy=energies[0], word_bits=8, read_bandwidth_words_per_cycle=4.0),
            StorageLevel("Buffer", capacity_bytes=buffer, word_bits=8, energy=energies[1], fanout=fanout),
            StorageLevel("Local", capacity_bytes=local, word_bits=8, energy=energies[2]),
        ),
        Arithmetic(energy_pj=0.2),
    )


def column(matrix: tuple[tuple[bool, ...], ...], tensor: int, dims: tuple[str, ...]) -> str:
    return "".join(d for d, row in zip(dims, matrix, strict=True) if row[tensor])


def test_a_says_what_sizes_a_tensor_and_windows_are_kept_apart() -> None:
    matrices = make_matrices(MappingProblem(CONV, machine()), Reading.PAPER)
    assert [column(matrices.relevant, t, CONV.dims) for t in range(3)] == ["npqc", "kcrs", "nkpq"]
    assert column(matrices.window, 0, CONV.dims) == "rs"
    assert matrices.stride[CONV.dims.index("p")] == (2, 1, 1)
    plain = make_matrices(MappingProblem(GEMM, machine()), Reading.PAPER)
    assert [column(plain.relevant, t, GEMM.dims) for t in range(3)] == ["mk", "nk", "mn"]
    assert not any(any(row) for row in plain.window)


def test_capacities_are_shared_and_count_partial_sums_at_their_width() -> None:
    problem = MappingProblem(CONV.with_bits(8, 24), machine(buffer=3072))
    assert make_matrices(problem, Reading.PAPER).elements[1] == (1024, 1024, 1024 / 3)
    pre = make_matrices(problem, Reading.PRE).elements[1]
    assert pre == pytest.approx((3072 / 5, 3072 / 5, 3072 * 3 / 5 / 3))
    assert make_matrices(problem, Reading.PAPER, 0.5).elements[1] == pytest.approx((768, 768, 512))
    assert make_matrices(problem, Reading.PAPER).elements[0] == (math.inf, math.inf, math.inf)


def test_chains_of_a_convolution_are_the_three_of_the_paper() -> None:
    relevant = make_matrices(MappingProblem(CONV, machine()), Reading.PAPER).relevant
    chains = make_chains(relevant)
    assert set(chains) == {
        (frozenset({1}),),
        (frozenset({0, 2}), frozenset({0})),
        (frozenset({0, 2}), frozenset({2})),
    }
    r, k = CONV.dims.index("r"), CONV.dims.index("k")
    assert [chain_phase((frozenset({0, 2}), frozenset({0})), relevant[d]) for d in (r, k)] == [0, 1]


def test_head_forces_windows_outermost_and_nothing_else() -> None:
    problem = MappingProblem(CONV, machine())
    program = make_program(problem, Settings(reading=Reading.HEAD))
    for place in program.places:
        if CONV.dims[place.dim] in "rs":
            assert (place.level, place.axis) == (0, None)
    levels = {CONV.dims[p.dim]: set() for p in program.places}  # type: ignore[var-annotated]
    for place in program.places:
        levels[CONV.dims[place.dim]].add(place.level)
    assert levels["k"] == {0, 1, 2}


@pytest.mark.parametrize("computation", [CONV, DEPTHWISE, GEMM], ids=str)
@pytest.mark.parametrize("reading", list(Reading))
@pytest.mark.thinned(4)
def test_both_solvers_find_the_optimum_by_enumeration_of_cuts(computation: Computation, reading: Reading) -> None:
    """Excluding the best schedule never gives a better one, and both solvers agree on the first two."""
    problem = MappingProblem(computation, machine())
    program = make_program(problem, Settings(reading=reading))
    values = {}
    for solver in (Solver.HIGHS, Solver.CP_SAT):
        first = solve_program(program, solver, None)
        point = tuple(round(x) for x in first.values[: len(program.places)])
        second = solve_program(program, solver, None, forbidden=(point,))
        assert tuple(round(x) for x in second.values[: len(program.places)]) != point
        assert second.objective >= first.objective - 1e-6
        assert program.price(first.values) == pytest.approx(first.objective, abs=1e-5)
        values[solver] = (first.objective, second.objective)
    assert values[Solver.HIGHS] == pytest.approx(values[Solver.CP_SAT], abs=1e-5)


def test_the_program_is_optimal_over_all_points_of_a_space_small_enough_to_walk() -> None:
    computation = Computation.parse("C[m,n] += A[m,k] * B[k,n]", m=4, n=6, k=3)
    problem = MappingProblem(computation, machine(buffer=24, local=9, fanout=Fanout(2, 2)))
    program = make_program(problem, Settings())
    best = solve(program.linear)
    points: list[tuple[int, ...]] = []
    found = best
    while found.values:  # no-good cuts walk the points in order of their price
        points.append(tuple(round(x) for x in found.values[: len(program.places)]))
        found = solve(program.linear.without(points))
        if len(points) > 25:
            break
    walked = _walk(program)
    prices = sorted(walked)[: len(points)]
    assert [program.price(tuple(map(float, p))) for p in points] == pytest.approx(prices, abs=1e-6)


def _walk(program) -> list[float]:  # type: ignore[no-untyped-def]
    """Price of every feasible point, capacities and fan-outs multiplied out in whole numbers."""
    import itertools

    rows = []
    for g in sorted(set(program.group_of)):
        count = program.group_of.count(g)
        places = [i for i, p in enumerate(program.places) if p.group == g]
        rows.append(
            [
                dict(zip(places, split, strict=True))
                for split in itertools.product(range(count + 1), repeat=len(places))
                if sum(split) == count
            ]
        )
    prices = []
    for parts in itertools.product(*rows):
        point = {k: v for part in parts for k, v in part.items()}
        values = tuple(float(point[i]) for i in range(len(program.places)))
        fits = True
        for v in range(1, 3):
            used = math.prod(p.prime ** point[i] for i, p in enumerate(program.places) if (p.level, p.axis) == (v, 0))
            fits &= used <= program.problem.architecture.levels[v].fanout.size
            for t in range(3):
                tile = math.prod(
                    p.prime ** point[i]
                    for i, p in enumerate(program.places)
                    if p.level >= v and program.matrices.relevant[p.dim][t]
                )
                fits &= tile <= program.matrices.elements[v][t] + 1e-9
        if fits:
            prices.append(program.price(values))
    return prices


def test_balance_brings_traffic_and_compute_together() -> None:
    problem = MappingProblem(CONV, machine())
    weights = replace(PUBLISHED, compute=2.0)
    balanced = make_program(problem, Settings(weights=weights, form=Form.BALANCE))
    found = solve_program(balanced, Solver.HIGHS, None)

    def distance(values: tuple[float, ...]) -> float:
        parts = [
            make_program(problem, Settings(weights=replace(weights, **off))).price(values)
            for off in ({"utilization": 0.0, "compute": 0.0}, {"utilization": 0.0, "traffic": 0.0})
        ]
        return abs(parts[0] - parts[1])

    plain = solve_program(make_program(problem, Settings(weights=weights)), Solver.HIGHS, None)
    assert found.objective <= distance(plain.values) + 1e-6
    assert found.objective >= 0


def test_large_primes_are_padded_and_shown() -> None:
    layer = Computation.parse("O[k,p] += I[p+r,c] * W[k,c,r]", k=8, c=8, p=79, r=11)
    assert smoothed(layer, 0) == (layer, ())
    assert smoothed(layer, 16)[1] == (("p", 79, 80),)
    assert smoothed(layer, 7)[1] == (("p", 79, 80), ("r", 11, 12))
    problem = MappingProblem(layer, machine())
    result = CosaMapper(k=1, pad_primes_above=16).map(problem, Objective.EDP, budget=Budget(), seed=0)
    assert result.mapping is not None and result.mapping.iterations("p") == 80
    assert result.to_json()["mip"]["padding"] == {"p": {"bound": 79, "padded": 80}}
    with pytest.raises(UserError, match=r"pad_primes_above.*got 3"):
        smoothed(layer, 3)


def test_best_of_k_is_never_worse_than_one_shot_and_both_are_reported() -> None:
    problem = MappingProblem(CONV, machine())
    one = CosaMapper(k=1).map(problem, Objective.EDP, budget=Budget(), seed=0)
    many = CosaMapper(k=6).map(problem, Objective.EDP, budget=Budget(), seed=0)
    cuts = CosaMapper(k=3, enumeration="cuts").map(problem, Objective.EDP, budget=Budget(), seed=0)
    assert one.mip is not None and many.mip is not None and cuts.mip is not None
    assert one.cost is not None and many.cost is not None and cuts.cost is not None
    assert one.mip.one_shot == one.cost == many.mip.one_shot
    assert many.cost.edp <= one.cost.edp and cuts.cost.edp <= one.cost.edp
    assert 1 < many.mip.schedules <= 6 and one.mip.schedules == 1
    document = json.loads(json.dumps(many.to_json()))
    assert {"objective", "reading", "bound", "seconds"} <= set(document["mip"])
    assert document["mip"]["bound"] == pytest.approx(document["mip"]["objective"], abs=1e-5)


def test_polishing_is_said_and_never_worse() -> None:
    problem = MappingProblem(CONV, machine())
    plain = CosaMapper(k=3, polish=0).map(problem, Objective.EDP, budget=Budget(), seed=0)
    polished = CosaMapper(k=3).map(problem, Objective.EDP, budget=Budget(), seed=0)
    assert plain.cost is not None and polished.cost is not None
    assert plain.mip is not None and polished.mip is not None and "polished" not in plain.mip.note
    assert polished.cost.edp <= plain.cost.edp
    assert (polished.cost.edp < plain.cost.edp) == ("polished" in polished.mip.note)
    few = CosaMapper(k=3).map(problem, Objective.EDP, budget=Budget(evaluations=plain.evaluated + 5), seed=0)
    assert plain.evaluated < few.evaluated <= plain.evaluated + 5


def test_no_single_prime_moved_elsewhere_beats_a_polished_mapping() -> None:
    encoded = Encoded.of(MappingProblem(GEMM, machine()), Reuse.TIMELOOP)
    space = encoded.space
    state = outermost_state(space)
    orders = space.order[None].copy()
    scratch = (outermost_state(space), outermost_state(space))
    value, scored = polish(encoded.scorer(Objective.EDP), state, scratch, orders, 1 << 62)
    cost = encoded.cost_of(state)
    assert isinstance(cost, Cost) and cost.edp == pytest.approx(value, rel=1e-12) and scored > 1
    for p in range(len(space.prime)):
        for a in range(space.n_choices[p]):
            other = outermost_state(space)
            copy_state(state, other)
            other.slot[p] = space.choices[p, a]
            assert encoded.value(other, Objective.EDP) >= value * (1 - 1e-12)


def test_a_schedule_that_ignores_the_halo_is_tightened_until_it_fits() -> None:
    computation = Computation.parse("O[p] += I[p+r] * W[r]", p=64, r=9)
    problem = MappingProblem(computation, machine(buffer=96, local=27, fanout=Fanout(1, 1)))
    result = CosaMapper(k=1).map(problem, Objective.EDP, budget=Budget(), seed=0)
    assert result.mapping is not None and result.mip is not None
    assert isinstance(evaluate(computation, problem.architecture, result.mapping), Cost)
    assert "tightened" in result.mip.note


def test_spatial_factors_are_laid_out_along_both_axes() -> None:
    """15 children of a 4 x 4 mesh satisfy the paper's product but not the axes: the mapper mends it."""
    computation = Computation.parse("C[m,n] += A[m,k] * B[k,n]", m=15, n=4, k=4)
    problem = MappingProblem(computation, machine(fanout=Fanout(4, 4)))
    program = make_program(problem, Settings())
    encoded = Encoded.of(problem, Reuse.TIMELOOP)
    values = [0.0] * len(program.linear.upper)
    for i, place in enumerate(program.places):
        wanted = (1, 0) if computation.dims[place.dim] == "m" else (0, None)
        values[i] = float((place.level, place.axis) == wanted) * program.group_of.count(place.group)
    assert decode(program, tuple(values), encoded.space) is None
    result = CosaMapper(k=1).map(problem, Objective.LATENCY, budget=Budget(), seed=0)
    assert result.mapping is not None


def test_an_infeasible_program_falls_back_or_says_why() -> None:
    rules = Constraints((LevelConstraints("Buffer", spatial=(("m", 8),)),))
    problem = MappingProblem(GEMM, machine(fanout=Fanout(4, 4)), rules)  # 8 = 4 x 2
    result = CosaMapper(k=2).map(problem, Objective.EDP, budget=Budget(), seed=0)
    assert result.mapping is not None
    tiny = MappingProblem(GEMM, machine(local=2))
    none = CosaMapper().map(tiny, Objective.EDP, budget=Budget(), seed=0)
    assert none.mapping is None and none.infeasible is not None and none.mip is not None
    assert "Local" in none.infeasible.resource and none.infeasible.demand > none.infeasible.limit
    assert none.to_json()["status"] == "infeasible" and none.to_json()["mip"]["reading"] == "paper"


def test_a_program_stopped_by_its_limit_still_gives_a_valid_mapping() -> None:
    linear = make_program(MappingProblem(CONV, machine()), Settings()).linear
    stopped = solve(linear, Solver.CP_SAT, effort=1e-9)
    assert stopped.status is Status.STOPPED and stopped.objective == math.inf
    result = CosaMapper().map(MappingProblem(CONV, machine()), Objective.EDP, budget=Budget(time_limit_s=1e-6), seed=0)
    assert result.mapping is not None and result.mip is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reading": "papr"}, r"unknown reading of CoSA 'papr'.*'paper'"),
        ({"solver": "gurbi"}, r"unknown MIP solver 'gurbi'.*'gurobi'"),
        ({"form": "sum"}, "unknown form of the objective 'sum'"),
        ({"k": 0}, "`k` must be an integer >= 1, got 0"),
        ({"polish": -1}, "`polish` must be an integer >= 0, got -1"),
        ({"enumeration": "all"}, "must be sweep or cuts, got 'all'"),
        ({"traffic": -1}, "weight `traffic` must be a number >= 0, got -1"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        create("cosa", **options)


def test_an_unknown_network_level_is_refused() -> None:
    with pytest.raises(UserError, match=r"unknown level 'Bufer'.*'Buffer'"):
        create("cosa", network_level="Bufer").map(
            MappingProblem(GEMM, machine()), Objective.EDP, budget=Budget(), seed=0
        )


def test_gurobi_is_named_when_it_is_missing() -> None:
    try:
        import gurobipy  # noqa: F401
    except ImportError:
        with pytest.raises(UserError, match="needs the package gurobipy"):
            solve(make_program(MappingProblem(GEMM, machine()), Settings()).linear, Solver.GUROBI)


def test_fitted_weights_follow_the_measured_objective() -> None:
    problems = [MappingProblem(c, machine()) for c in (GEMM, CONV)]
    fit = fit_weights(problems, Objective.LATENCY, samples=10, seed=1)
    assert fit == fit_weights(problems, Objective.LATENCY, samples=10, seed=1)
    assert isinstance(fit.weights, Weights) and fit.weights.compute == PUBLISHED.compute
    assert fit.samples >= 6 and 0.3 < fit.r_squared <= 1.0
    with pytest.raises(UserError, match="fewer than 6"):
        fit_weights([MappingProblem(Computation.parse("O[m] += A[m] * B[m]", m=1), machine())], Objective.EDP)
