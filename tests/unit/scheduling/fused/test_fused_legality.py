"""What a fused schedule must not do: read what is not complete or not there, count a reading or a tensor once too often or too few."""

import itertools
from dataclasses import replace

import pytest

from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.looptree import Loop, Nest, Store
from codesign.cost.looptree_graph import Group, Join, Leaf, graph_cost, leaves
from codesign.mapping.looptree import Machine, Memory, Operand, Operator
from codesign.scheduling.fused.network_operators import graph_of
from codesign.scheduling.fused.scheduler import FusedScheduler
from codesign.scheduling.protocol import ScheduleProblem, ScheduleResult
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.network import Network


def schedule(network: Network, capacity: int, objective: Objective = Objective.ENERGY) -> ScheduleResult:
    problem = ScheduleProblem(network, load_preset("soma-edge"), capacity)
    return FusedScheduler().schedule(problem, objective, budget=Budget(time_limit_s=20), seed=0)


# ------------------------------------------------------------------ shared loops


@pytest.mark.parametrize("later", [False, True])
def test_shared_loops_cut_every_tensor_that_is_written_and_read_inside(later: bool) -> None:
    """``s = p + t`` with ``t = conv(p)`` read outside too: a loop over the channels of p would add half-summed t."""
    builder = NetworkBuilder("n")
    p = builder.conv(builder.input("x", (1, 32, 8, 8)), 64, 1)
    t = builder.conv(p, 64, 1)
    s = builder.residual(p, t)
    network = builder.build(builder.conv(s, 16, 1), builder.conv(t, 16, 1)) if later else builder.build(s, t)
    found = schedule(network, 1536)
    assert found.proof is Proof.OPTIMAL
    assert found.found.schedule.cost().energy == pytest.approx(found.detail["value"], rel=1e-9)
    groups = [g for part in found.found.schedule.parts for g in part.costed() if isinstance(g, Group)]
    for group in groups:
        for writer, reader in itertools.combinations(leaves(group.parts), 2):
            made = next(t for t in writer.operator.operands if t.output)
            read = [t for t in reader.operator.operands if t.name == made.name]
            loops = ([x.dim for x in y.nest if isinstance(x, Loop)][: group.loops] for y in (writer, reader))
            assert all(d in made.dims and e in t.dims for t in read for d, e in zip(*loops, strict=True))


def product(name: str, left: str, right: str, out: str) -> Operator:
    """``out[m,n] = left[m,k] right[k,n]``, 2 x 2 x 2."""
    axes = {"m": (("m", 1),), "k": (("k", 1),), "n": (("n", 1),)}
    operands = (
        Operand(left, (axes["m"], axes["k"]), ranks=("0", "1")),
        Operand(right, (axes["k"], axes["n"]), ranks=(f"{name}:k", f"{name}:n")),
        Operand(out, (axes["m"], axes["n"]), True, ranks=("0", "1")),
    )
    return Operator(name, operands, {"m": 2, "k": 2, "n": 2})


def leaf(operator: Operator, shared: str, on_chip: frozenset[str] = frozenset(), room: float = 1e6) -> Leaf:
    """Every tensor in the shared level, inside one shared loop if one is named."""
    memories = (Memory("DRAM"), Memory("GBUF", room))
    names = frozenset(t.name for t in operator.operands)
    machine = Machine(memories, ((), (), ()), 0.0, 1.0, 0.0, ((names - on_chip, names),))
    nodes = tuple(Store(1, t) for t in sorted(names))
    outer = tuple(Loop(d, 2, 1) for d in shared)
    inner = tuple(Loop(d, 2, 1) for d in operator.bounds if d not in shared)
    held = tuple((t, len(shared)) for t in sorted(on_chip))
    nest: Nest = (*outer, *nodes, *inner)
    return Leaf(operator, machine, nest, len(shared), held)


def test_the_count_refuses_a_loop_that_does_not_cut_a_tensor() -> None:
    first, second = product("first", "A", "B", "T"), product("second", "T", "C", "Z")
    rows = (leaf(first, "m"), leaf(second, "m"))
    assert graph_cost([Group(1, rows)]).outer_bits > 0
    for dims in ("kk", "nn", "km"):
        wrong = (leaf(first, dims[0]), leaf(second, dims[1]))
        with pytest.raises(UserError, match=r"around first, second reads a tensor before it is complete \(rule F2\)"):
            graph_cost([Group(1, wrong)])
    assert graph_cost([Group(1, (leaf(first, "n"), leaf(second, "k")))]).outer_bits > 0


def test_the_count_refuses_shared_loops_that_differ() -> None:
    first, second = product("first", "A", "B", "T"), product("second", "T", "C", "Z")
    other = leaf(second, "m")
    longer = replace(second, bounds={**second.bounds, "m": 4})
    nest = tuple(replace(x, steps=4) if isinstance(x, Loop) and x.dim == "m" else x for x in other.nest)
    with pytest.raises(UserError, match="shared loop 0 is not the same for first, second"):
        graph_cost([Group(1, (leaf(first, "m"), replace(other, operator=longer, nest=nest)))])


# ------------------------------------------------------------------ where tensors are


def test_the_count_refuses_a_tensor_that_is_read_where_it_was_not_written() -> None:
    first, second = product("first", "A", "B", "T"), product("second", "T", "C", "Z")
    chip = frozenset({"T"})
    assert graph_cost([leaf(first, "", chip), leaf(second, "", chip)]).peak_bits == 8 * 4 * 3
    with pytest.raises(UserError, match="'T' is read in the outermost memory, where it was not written"):
        graph_cost([leaf(first, "", chip), leaf(second, "")])
    with pytest.raises(UserError, match="'T' is read on the chip, where it was not written"):
        graph_cost([leaf(first, ""), leaf(second, "", chip)])


def test_a_second_reading_is_of_the_same_tensor() -> None:
    second = product("second", "T", "T again", "Z")
    again = replace(second.operands[1], of="T")
    second = replace(second, operands=(second.operands[0], again, second.operands[2]))
    with pytest.raises(UserError, match="'T' is read in the outermost memory"):
        graph_cost([leaf(product("first", "A", "B", "T"), "", frozenset({"T"})), leaf(second, "", frozenset({"T"}))])


def test_the_count_refuses_a_schedule_that_does_not_fit() -> None:
    first, second = product("first", "A", "B", "T"), product("second", "T", "C", "Z")
    chip = frozenset({"T"})
    with pytest.raises(UserError, match=r"holds 96 bits at the shared level, its capacity is 90 \(rule F4\)"):
        graph_cost([leaf(first, "", chip, 90), leaf(second, "", chip, 90)])


def test_a_tensor_that_a_product_reads_twice_is_in_dram() -> None:
    builder = NetworkBuilder("n")
    both = builder.linear(builder.input("x", (1, 16, 24)), 48)
    q, k = builder.take(both, (1, 16, 16)), builder.take(both, (1, 16, 16))
    network = builder.build(builder.matmul(q, builder.transpose(k, (0, 2, 1))))
    assert not graph_of(network, load_preset("soma-edge")).between
    found = schedule(network, 8192)
    assert found.proof is Proof.OPTIMAL
    assert found.dram_bytes == 16 * 24 + 24 * 48 + 16 * 48 + 2 * 16 * 16 + 16 * 16  # all once, `both` written and read


# ------------------------------------------------------------------ readings and room


def test_slices_of_one_tensor_are_read_each() -> None:
    builder = NetworkBuilder("glu")
    x = builder.input("x", (1, 16, 64))
    network = builder.build(builder.elementwise("mul", builder.take(x, (1, 16, 32)), builder.take(x, (1, 16, 32))))
    assert schedule(network, 8192).dram_bytes == 16 * 64 + 16 * 32


def test_a_tensor_read_whole_and_in_part_is_read_twice() -> None:
    builder = NetworkBuilder("n")
    x = builder.conv(builder.input("x", (1, 4, 4, 4)), 4, 1)
    network = builder.build(builder.elementwise("mul", x, builder.take(x, (1, 4, 1, 1))))
    graph = graph_of(network, load_preset("soma-edge"))
    scaled = graph.operators[-1]
    assert sorted(t.of for t in scaled.operands) == ["", "", x] and not graph.between
    assert schedule(network, 8192).dram_bytes == 4 * 16 * 4 + 4 * 4 + 4


def concatenated() -> Network:
    builder = NetworkBuilder("dense")
    p = builder.conv(builder.input("x", (1, 8, 8, 8)), 8, 1)
    y = builder.conv(builder.concat(p, builder.conv(p, 8, 1)), 8, 1)
    return builder.build(builder.residual(y, p))


def test_a_concatenation_and_its_parts_take_one_room() -> None:
    found = schedule(concatenated(), 1800)
    assert found.proof is Proof.OPTIMAL
    assert found.dram_bytes == 2 * 8 * 64 + 8 * 8 * 2 + 16 * 8  # input, output, weights
    assert found.peak_buffer_bytes == 3 * 8 * 64 + 16 * 8  # both parts, the result, weights
    assert found.found.schedule.cost().peak_bits == 8 * found.peak_buffer_bytes


def test_parts_are_held_from_their_writing_to_the_last_reading_of_the_whole() -> None:
    chip = frozenset({"P"}), frozenset({"C"})
    first, middle, last = product("1", "A", "B", "P"), product("2", "D", "E", "F"), product("3", "C", "G", "Z")
    tree = [leaf(first, "", chip[0]), Join("C", ("P",)), leaf(middle, ""), leaf(last, "", chip[1])]
    assert graph_cost(tree).peak_bits == 8 * 4 * 4  # P beside the three tensors of the operator between


def test_padding_takes_no_room_on_the_chip() -> None:
    """Three padded convolutions at 400 bytes: their readers' windows reach past the tensors that are held."""
    builder = NetworkBuilder("padded")
    x = builder.input("x", (1, 4, 4, 4))
    network = builder.build(builder.conv(builder.conv(builder.conv(x, 4, 3), 6, 3), 4, 3))
    for objective in (Objective.ENERGY, Objective.EDP):
        found = schedule(network, 400, objective)
        assert found.proof is Proof.OPTIMAL and found.peak_buffer_bytes is not None
        assert found.peak_buffer_bytes <= 400
