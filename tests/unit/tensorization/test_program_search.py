from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.tensorization.encoding import SoftwareProblem
from codesign.tensorization.observation import OBSERVATION
from codesign.tensorization.policy import ENVIRONMENT, TRAINED, Network, Policy, load_policy, read_policy, save_policy
from codesign.tensorization.revisions import HALVE, KINDS, REVISIONS
from codesign.tensorization.search import (
    AnnealedPrograms,
    GuidedPrograms,
    HeuristicPrograms,
    ProgramSearch,
    RandomPrograms,
    candidate_value,
)
from codesign.tensorization.search_registry import create_search
from codesign.workloads.computation import Computation
from spaces.cores import GEMM_CORE, core_of
from spaces.software import SoftwareSpace

PRESET = dict(GEMM_CORE.space.presets[0])


def small_network(seed: int = 0) -> Network:
    rng = np.random.default_rng(seed)
    sizes = (OBSERVATION, 8, 8, 8, REVISIONS)
    weights = tuple((rng.normal(size=(b, a)) / 10).astype(np.float32) for a, b in pairwise(sizes))
    return Network(weights, tuple(np.zeros(n, np.float32) for n in sizes[1:]))


SEARCHES: list[ProgramSearch] = [
    RandomPrograms(),
    HeuristicPrograms(),
    AnnealedPrograms(),
    GuidedPrograms(small_network()),
]


@pytest.fixture(scope="module")
def problem() -> SoftwareProblem:
    computation = Computation.parse(
        "C[k,x,y] += A[c,x+r,y+s] * B[k,c,r,s]", k=32, x=14, y=14, c=24, r=3, s=3, partial_bits=32
    )
    return SoftwareProblem.of(computation, core_of(GEMM_CORE, PRESET))


@pytest.mark.parametrize("search", SEARCHES, ids=lambda s: s.name)
def test_contract(search: ProgramSearch, problem: SoftwareProblem) -> None:
    result = search.search(problem, evaluations=60, seed=3)
    assert result.scored == len(result.history) == 60
    assert list(result.history) == sorted(result.history, reverse=True)
    space = SoftwareSpace(problem)
    assert space.score([space.sequence(result.candidate)])[0, 0] == result.latency_cycles == result.history[-1]
    again = search.search(problem, evaluations=60, seed=3)
    assert again.history == result.history
    assert search.search(problem, evaluations=60, seed=4).history != result.history


@pytest.mark.parametrize("search", SEARCHES, ids=lambda s: s.name)
def test_a_small_space_is_exhausted_rather_than_scored_twice(search: ProgramSearch) -> None:
    computation = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=16, j=16, k=32, partial_bits=32)
    result = search.search(SoftwareProblem.of(computation, core_of(GEMM_CORE, PRESET)), evaluations=10_000, seed=0)
    assert 1 < result.scored < 10_000


@pytest.mark.parametrize("search", SEARCHES, ids=lambda s: s.name)
def test_nothing_fits(search: ProgramSearch) -> None:
    core = core_of(GEMM_CORE, PRESET)
    tiny = replace(core, architecture=core.architecture.with_level("Scratchpad", capacity_bytes=64.0))
    computation = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=64, j=64, k=64, partial_bits=32)
    with pytest.raises(UserError, match="no program fits the scratchpad"):
        search.search(SoftwareProblem.of(computation, tiny), evaluations=10, seed=0)


def test_the_heuristic_beats_random_draws(problem: SoftwareProblem) -> None:
    def median(search: ProgramSearch) -> float:
        return float(np.median([search.search(problem, evaluations=200, seed=s).latency_cycles for s in range(7)]))

    assert median(HeuristicPrograms()) < median(RandomPrograms())


def test_the_value_of_a_candidate_falls_with_its_latency() -> None:
    assert candidate_value(100.0, 100.0) == 1.0
    assert candidate_value(150.0, 100.0) == pytest.approx(np.exp(-0.5))


def test_a_ranker_that_knows_the_gains_guides_better_than_one_that_inverts_them(problem: SoftwareProblem) -> None:
    def prefers(sign: float) -> GuidedPrograms:
        values = np.zeros(REVISIONS, np.float32)
        values[[d * KINDS + HALVE for d in range(8)]] = sign
        return GuidedPrograms(lambda _: values, explore=0.0)  # the values alone, no random revisions

    def median(search: ProgramSearch) -> float:
        return float(np.median([search.search(problem, evaluations=40, seed=s).latency_cycles for s in range(7)]))

    assert median(prefers(-3.0)) < median(prefers(3.0))


def test_a_policy_file_round_trips_and_guides(problem: SoftwareProblem, tmp_path: object) -> None:
    path = f"{tmp_path}/policy.npz"
    save_policy(path, Policy(small_network(), ENVIRONMENT, "dqn", 10, 0))
    read = read_policy(path)
    for a, b in zip(read.network.weights, small_network().weights, strict=True):
        assert np.array_equal(a, b)
    first = create_search(f"policy:{path}").search(problem, evaluations=40, seed=0)
    assert first.history == load_policy(path).search(problem, evaluations=40, seed=0).history


def test_the_policy_that_comes_with_the_program_finds_more_than_random_draws(problem: SoftwareProblem) -> None:
    learned = create_search("learned")
    assert read_policy(TRAINED).timesteps >= 100_000
    for evaluations in (50, 100):
        found = [learned.search(problem, evaluations=evaluations, seed=s).latency_cycles for s in range(5)]
        drawn = [RandomPrograms().search(problem, evaluations=evaluations, seed=s).latency_cycles for s in range(5)]
        assert np.median(found) < np.median(drawn)


def test_a_policy_of_another_environment_version_is_refused(tmp_path: object) -> None:
    path = f"{tmp_path}/policy.npz"
    save_policy(path, Policy(small_network(), "codesign/Schedule-v9", "dqn", 10, 0))
    with pytest.raises(
        UserError, match=r"trained in codesign/Schedule-v9, this version of the program has codesign/Schedule-v0"
    ):
        load_policy(path)


def test_damaged_and_missing_policies_are_refused(tmp_path: object) -> None:
    with pytest.raises(UserError, match="no such checkpoint"):
        load_policy(f"{tmp_path}/none.npz")
    path = f"{tmp_path}/broken.npz"
    with open(path, "w") as stream:
        stream.write("not an archive")
    with pytest.raises(UserError, match="not a checkpoint"):
        load_policy(path)


def test_unknown_searches_and_budgets_are_refused(problem: SoftwareProblem) -> None:
    with pytest.raises(UserError, match="unknown software search 'heuristics'; did you mean 'heuristic'"):
        create_search("heuristics")
    with pytest.raises(UserError, match="unknown software search 'policy:'"):
        create_search("policy:")
    with pytest.raises(UserError, match="`evaluations` must be >= 1"):
        RandomPrograms().search(problem, evaluations=0, seed=0)
    with pytest.raises(UserError, match="pool_share"):
        HeuristicPrograms(pool_share=0)
