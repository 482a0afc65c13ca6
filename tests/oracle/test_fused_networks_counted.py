"""Small random networks, fused: the independent count of the tree accepts it, has the value of the search, and moves what must be moved."""

import numpy as np
import pytest

from codesign.arch.presets import load_preset
from codesign.core.goals import Budget, Objective
from codesign.scheduling.fused.scheduler import FusedScheduler
from codesign.scheduling.protocol import ScheduleProblem
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.network import Network, OperatorKind


def network_of(rng: np.random.Generator) -> Network:
    """Two to four convolutions, additions, slices, concatenations and softmax, with one or two results."""
    builder = NetworkBuilder("n")
    made = [builder.input("x", (1, int(rng.choice([2, 4])), 4, 4))]
    for _ in range(int(rng.integers(2, 5))):
        last, other = made[-1], made[int(rng.integers(len(made)))]
        channels = builder.shape(last)[1]
        kind = int(rng.integers(6))
        if kind == 0:
            made.append(builder.softmax(last))
        elif kind == 1 and other != last and builder.shape(other) == builder.shape(last):
            made.append(builder.residual(last, other))
        elif kind == 2 and other != last:
            made.append(builder.concat(last, other))
        elif kind == 3 and channels % 2 == 0:
            half = (1, channels // 2, 4, 4)
            made.append(builder.elementwise("mul", builder.take(last, half), builder.take(last, half)))
        else:
            made.append(builder.conv(last, int(rng.choice([2, 4])), int(rng.choice([1, 3]))))
    results = [made[-1]] if rng.integers(2) else [made[-1], made[-2]]
    return builder.build(*(r for r in results if r != made[0]))


def compulsory_bytes(network: Network) -> float:
    """Inputs, parameters and results once each, at least; a concatenation moves nothing itself."""
    computed = [o for o in network.operators if o.kind is not OperatorKind.CONCAT]
    read = {n for o in computed for n in o.inputs if n in network.inputs or network.tensor_by_name[n].is_parameter}
    written = {n for o in computed for n in o.outputs if n in network.outputs}
    return sum(t.bits * t.elements / 8 for t in (network.tensor_by_name[n] for n in read | written))


def check(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = network_of(rng)
    capacity = int(rng.choice([200, 300, 500, 1000, 1 << 16]))
    objective = (Objective.ENERGY, Objective.EDP)[int(rng.integers(2))]
    problem = ScheduleProblem(network, load_preset("soma-edge"), capacity)
    found = FusedScheduler().schedule(problem, objective, budget=Budget(time_limit_s=5), seed=0)
    if found.infeasible is not None:
        return
    cost = found.found.schedule.cost()  # refuses what breaks a rule
    assert cost.peak_bits <= 8 * capacity
    value = cost.energy * (cost.seconds if objective is Objective.EDP else 1.0)
    assert value == pytest.approx(found.detail["value"], rel=1e-9)
    assert found.dram_bytes is not None and found.dram_bytes >= compulsory_bytes(network)


@pytest.mark.parametrize("seed", range(4))
def test_the_count_accepts_the_tree(seed: int) -> None:
    check(seed)


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("seed", range(100, 220))
def test_the_count_accepts_many_trees(seed: int) -> None:
    check(seed)
