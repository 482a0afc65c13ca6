import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from codesign.core.errors import UserError
from codesign.tensorization.encoding import SoftwareProblem
from codesign.tensorization.observation import FIRST_MASK
from codesign.tensorization.revisions import REVISIONS
from codesign.workloads.computation import Computation
from envs import ENVIRONMENT_ID, ScheduleEnv
from envs.problems import BENCHMARK_SIZES, BENCHMARKS, training_cases, unseen_cases
from envs.schedule import REFUSED_REWARD, Setting, initial_state, transition
from spaces.cores import GEMM_CORE, core_of

REFERENCE = Path(__file__).parents[2] / "data" / "hasco" / "benchmarks.json"


@pytest.fixture(scope="module")
def env() -> ScheduleEnv:
    made = gymnasium.make(ENVIRONMENT_ID, count=6)
    assert isinstance(made.unwrapped, ScheduleEnv)
    return made.unwrapped


def test_the_registered_environment_is_clean(env: ScheduleEnv) -> None:
    assert ENVIRONMENT_ID == "codesign/Schedule-v0"
    check_env(env)


def test_equal_seeds_give_equal_episodes(env: ScheduleEnv) -> None:
    def episode() -> list[float]:
        _, info = env.reset(seed=5)
        rewards = []
        for _ in range(20):
            action = np.int64(np.flatnonzero(info["action_mask"])[0])
            _, reward, ended, cut, info = env.step(action)
            rewards.append(reward)
            if ended or cut:
                break
        return rewards

    assert episode() == episode()


def test_masked_actions_change_nothing_and_legal_ones_always_fit(env: ScheduleEnv) -> None:
    rng = np.random.default_rng(0)
    for case in range(6):
        _, info = env.reset(seed=case, options={"case": case})
        for _ in range(15):
            before = info["latency_cycles"]
            closed = np.flatnonzero(info["action_mask"] == 0)
            _, reward, _, _, after = env.step(np.int64(rng.choice(closed)))
            assert reward == REFUSED_REWARD
            assert after["latency_cycles"] == before
            _, reward, _, _, info = env.step(np.int64(rng.choice(np.flatnonzero(after["action_mask"]))))
            assert np.exp(reward) == pytest.approx(before / info["latency_cycles"])


def test_rewards_add_up_to_the_gain_of_the_episode(env: ScheduleEnv) -> None:
    _, info = env.reset(seed=1)
    first, total = info["latency_cycles"], 0.0
    for _ in range(10):
        _, reward, _, _, info = env.step(np.int64(np.flatnonzero(info["action_mask"])[-1]))
        total += reward
    assert total == pytest.approx(np.log(first / info["latency_cycles"]))


def test_transitions_leave_their_state_alone() -> None:
    setting = Setting.of(training_cases(3, 0)[0].problem())
    state = initial_state(setting, setting.space.sample(1, 0)[0])
    assert state is not None
    kept = (state.candidate.copy(), state.result.copy(), state.mask.copy(), state.observation.copy())
    for action in np.flatnonzero(state.mask):
        once, reward = transition(setting, state, int(action))
        again, same = transition(setting, state, int(action))
        assert reward == same
        assert np.array_equal(once.observation, again.observation)
        assert not np.array_equal(once.candidate, state.candidate)
    for now, then in zip((state.candidate, state.result, state.mask, state.observation), kept, strict=True):
        assert np.array_equal(now, then)


def test_observations_end_with_the_mask_and_stay_in_their_box(env: ScheduleEnv) -> None:
    observation, info = env.reset(seed=2)
    assert observation.dtype == np.float32
    assert np.array_equal(observation[FIRST_MASK:], info["action_mask"].astype(np.float32))
    for case in range(6):
        observation, _ = env.reset(options={"case": case})
        assert env.observation_space.contains(observation)


def test_every_hardware_and_workload_parameter_is_seen() -> None:
    """Problems that differ in one parameter give different observations of the same candidate."""
    base = dict(GEMM_CORE.space.presets[0])
    changes = {
        "pe": 8,
        "links": "none",
        "scratchpad_kib": 128,
        "local_bytes": 128,
        "banks": 8,
        "bus_bits": 64,
        "burst_bytes": 64,
        "dataflow": "output-stationary",
    }
    assert set(changes) == set(GEMM_CORE.space.names)

    def seen(point: dict[str, object], k: int = 64) -> np.ndarray:
        computation = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=64, j=64, k=k, partial_bits=32)
        setting = Setting.of(SoftwareProblem.of(computation, core_of(GEMM_CORE, point)))
        state = initial_state(setting, np.array([0, 1, 1, 1, 1, 0, 1, 2, 0, 1, 2], np.int64))
        assert state is not None
        return state.observation

    reference = seen(base)
    assert not np.array_equal(reference, seen(base, k=128))
    for name, value in changes.items():
        assert not np.array_equal(reference, seen({**base, name: value})), name


def test_unseen_cases_are_not_trained_on() -> None:
    trained = training_cases(40, 0)
    unseen = unseen_cases(10, 0, trained)
    keys = {c.key for c in trained}
    assert len(keys) == 40
    assert not keys & {c.key for c in (*unseen, *BENCHMARKS)}


def test_the_benchmark_list_is_that_of_the_reference_data() -> None:
    listed = json.loads(REFERENCE.read_text())["testbench"]
    for kind, cases in BENCHMARK_SIZES.items():
        reference = listed["LENET"]["conv"] if kind == "LENET" else listed[kind]
        assert [list(c) for c in cases] == reference


def test_bad_options_are_refused() -> None:
    with pytest.raises(UserError, match="`horizon` must be >= 1, got 0"):
        ScheduleEnv(horizon=0)
    with pytest.raises(UserError, match=r"call reset\(\) before step"):
        ScheduleEnv(count=1).step(np.int64(0))


def test_computations_with_too_many_dimensions_are_refused() -> None:
    notation = "O[a,b,c,d,e,f,g] += X[a,b,c,d,e,f,h,i] * Y[g,h,i]"
    computation = Computation.parse(notation, dict.fromkeys("abcdefghi", 4), partial_bits=32)
    problem = SoftwareProblem.of(computation, core_of(GEMM_CORE, dict(GEMM_CORE.space.presets[0])))
    with pytest.raises(UserError, match="at most 8 dimensions, got 9"):
        Setting.of(problem)


def test_actions_are_as_many_as_revisions(env: ScheduleEnv) -> None:
    assert env.action_space.n == REVISIONS
