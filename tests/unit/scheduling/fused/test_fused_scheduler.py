"""`--scheduler fused`: networks as operators, whole results, what is refused."""

from dataclasses import replace

import pytest

from codesign.arch.presets import load_preset
from codesign.arch.sparsity import LevelSparsity
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.scheduling.fused.network_operators import graph_of, grouping
from codesign.scheduling.fused.scheduler import FusedScheduler
from codesign.scheduling.protocol import ScheduleProblem, ScheduleResult
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.network import Network
from codesign.workloads.zoo import build_model
from tests.command_line import run


def attention() -> Network:
    builder = NetworkBuilder("attention")
    q, k, v = (builder.input(n, s) for n, s in (("q", (1, 2, 32, 8)), ("k", (1, 2, 8, 32)), ("v", (1, 2, 32, 8))))
    return builder.build(builder.matmul(builder.softmax(builder.matmul(q, k)), v))


def residual() -> Network:
    builder = NetworkBuilder("residual")
    x = builder.conv(builder.input("x", (1, 8, 8, 8)), 8, 1)
    return builder.build(builder.residual(builder.conv(builder.relu(builder.conv(x, 8, 3)), 8, 3), x))


def schedule(network: Network, capacity: int | None = None, objective: Objective = Objective.EDP) -> ScheduleResult:
    problem = ScheduleProblem(network, load_preset("soma-edge"), capacity)
    return FusedScheduler().schedule(problem, objective, budget=Budget(time_limit_s=20), seed=0)


def test_axes_of_a_tensor_are_found_in_an_operand() -> None:
    assert grouping((4, 1, 6), (24,)) == ((0, 2),)
    assert grouping((4, 6), (6, 4)) is None
    assert grouping((1, 1), (1,)) == ((),)


@pytest.mark.parametrize("objective", [Objective.ENERGY, Objective.LATENCY, Objective.EDP])
def test_scores_never_leave_the_chip_though_they_do_not_fit_whole(objective: Objective) -> None:
    found = schedule(attention(), 2048, objective)  # the scores alone are 2 x 32 x 32 bytes
    assert found.proof is Proof.OPTIMAL and found.infeasible is None
    assert found.peak_buffer_bytes is not None and found.peak_buffer_bytes <= 2048
    if objective is not Objective.LATENCY:
        assert found.dram_bytes == 4 * 2 * 32 * 8  # q, k, v and the result once each
    tree = found.detail["tree"]
    names = [name for part in tree for name in part["operators"]]
    assert names == list(found.order) and any("parts" in part for part in tree)


def test_a_tensor_is_held_across_other_operators() -> None:
    found = schedule(residual())
    weights = 8 * 8 * (1 + 9 + 9)
    assert found.dram_bytes == 2 * 8 * 8 * 8 + weights  # input, output, weights: nothing else moves
    assert found.proof is Proof.OPTIMAL
    first = found.detail["tree"][0]["on_chip"]
    assert all(any(t in part["on_chip"] for t in first) for part in found.detail["tree"][1:2])


def test_less_room_never_helps() -> None:
    values = [schedule(attention(), size).detail["value"] for size in (1 << 20, 4096, 3072, 2048)]
    assert values == sorted(values)


def test_nests_are_scored_as_the_search_scores_them() -> None:
    for network in (attention(), residual()):
        found = schedule(network, 2048)
        schedule_found = found.found.schedule
        cost = schedule_found.cost()
        assert cost.energy == pytest.approx(schedule_found.energy, rel=1e-9)
        assert cost.seconds == pytest.approx(schedule_found.seconds, rel=1e-9)
        assert cost.peak_bits <= 8 * 2048
        assert any(part.get("nest") or part.get("parts") for part in found.detail["tree"])


def test_concatenations_move_nothing() -> None:
    builder = NetworkBuilder("fire")
    x = builder.conv(builder.input("x", (1, 8, 4, 4)), 4, 1)
    network = builder.build(builder.concat(builder.conv(x, 8, 1), builder.conv(x, 8, 3)))
    found = schedule(network)
    assert found.dram_bytes == 8 * 16 + 16 * 16 + 4 * 8 + 4 * 8 + 4 * 8 * 9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keep": frozenset({"input", "weight"})}, "must keep inputs and outputs"),
        ({"energy": None}, "has no energy"),
        ({"sparsity": LevelSparsity(metadata_bits=4)}, "compresses or skips zeros"),
        ({"capacity_bytes": None}, "has no capacity"),
    ],
)
def test_architectures_that_break_a_rule_are_refused(change: dict[str, object], message: str) -> None:
    machine = load_preset("soma-edge")
    with pytest.raises(UserError, match=message):
        graph_of(attention(), machine.with_level("GBUF", **change))


def test_fills_and_updates_cost_alike() -> None:
    machine = load_preset("soma-edge")
    energy = machine.levels[1].energy
    assert energy is not None
    with pytest.raises(UserError, match=r"fill and update at one energy \(rule G1\)"):
        graph_of(attention(), machine.with_level("GBUF", energy=replace(energy, update_pj=9.0)))


def test_operators_without_a_rule_are_named() -> None:
    with pytest.raises(UserError, match=r"got 'resize' \(rule G2\)"):
        graph_of(build_model("deepseek_v2_lite_block"), load_preset("soma-edge"))


def test_a_cache_grows_by_its_new_part_and_stays_in_dram() -> None:
    builder = NetworkBuilder("n")
    cache, new = builder.input("cache", (1, 7, 4)), builder.activation(builder.input("new", (1, 1, 4)), "rotary")
    grown = builder.append(cache, new, axis=1, name="grown")
    graph = graph_of(builder.build(builder.activation(grown, "rotary", name="read")), load_preset("soma-edge"))
    rotary, append, read = graph.operators
    assert graph.between == {rotary.operands[-1].name}
    assert [t.words(append.bounds) for t in append.operands] == [4, 4]
    assert read.operands[0].words(read.bounds) == 32


def test_a_tensor_in_other_axes_is_read_once() -> None:
    """Queries of 2 heads in one row of 8 are turned into (2, 3, 4): every one of the 24 elements is read once."""
    builder = NetworkBuilder("n")
    heads = builder.reshape(builder.input("x", (1, 3, 8)), (1, 2, 3, 4))
    turned = builder.activation(heads, "rotary")
    (operator,) = graph_of(builder.build(turned), load_preset("soma-edge")).operators
    source = operator.operands[0]
    assert source.words(operator.bounds) * source.bits == 24 * 8
    assert source.dims == frozenset(operator.bounds)
    assert not set(source.ranks) & set(operator.operands[-1].ranks)


def test_a_row_that_several_experts_get_is_read_once() -> None:
    """8 tokens of 4 elements, each sent to 2 experts: 64 elements are written, the 32 there are are read."""
    builder = NetworkBuilder("n")
    x, choice = builder.input("x", (1, 8, 4)), builder.input("choice", (1, 8, 4))
    (operator,) = graph_of(
        builder.build(builder.route(x, choice, (4, 4, 4), name="sent")), load_preset("soma-edge")
    ).operators
    moved = {t.tensor: t.words(operator.bounds) * t.bits / 8 for t in operator.operands}
    assert moved == {"choice": 32, "x": 32, "sent": 64}


def test_a_buffer_below_the_smallest_tile_names_level_demand_and_limit() -> None:
    found = schedule(attention(), 1)
    reason = found.infeasible
    assert reason is not None and reason.resource == "GBUF" and reason.unit == "bytes"
    assert reason.demand > reason.limit == 1
    assert "smallest tile of operator" in reason.detail


def test_objectives_are_three() -> None:
    with pytest.raises(UserError, match="minimises energy, latency or edp, got 'ed2p'"):
        schedule(attention(), None, Objective.parse("ed2p", exponents=True))


def test_a_cycle_is_named_operator_by_operator() -> None:
    network = attention()
    first, *rest = network.operators
    looped = replace(first, inputs=(*first.inputs, rest[-1].outputs[0]))
    with pytest.raises(UserError, match="cycle"):
        Network.sorted("n", (looped, *rest), network.tensors, network.inputs, network.outputs)


def test_the_command_prints_the_tree_and_json() -> None:
    command = ["schedule", "--network", "gpt2-small-block", "--seq", "16", "--scheduler", "fused", "--capacity", "1MiB"]
    shown = run(*command)
    assert shown.code == 0 and "proof: optimal" in shown.out and "[GBUF: " in shown.out
    record = run(*command, "--format", "json").json
    assert record["proof"] == "optimal" and record["schedule"]["tree"] and record["operators"] == 13
    refused = run(*command, "--seed", "1")
    assert refused.code == 2 and "--seed is not used by scheduler 'fused'" in refused.err
