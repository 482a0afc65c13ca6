"""What the bound of trees knows of paths, of words that runs wait for, of serial lanes and of links between dies (rules M66, M69, M70)."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.arch.core_network import CoreNetwork, Grid, link_table
from codesign.arch.many_core import Buffer, Dies, Links, ManyCore, Memories, VectorMacCore
from codesign.arch.many_core_scaling import edge_ports
from codesign.scheduling.segments.bound import bound_of, path_shares
from codesign.scheduling.segments.evaluate import SEMANTICS, Evaluator
from codesign.scheduling.segments.layers import LayerKind, SegmentLayer, SegmentNetwork
from codesign.scheduling.segments.needed_words import prices_of
from codesign.scheduling.segments.search_arrays import problem_arrays

SMALL = Buffer(65536, 0.1, 0.1)
CORE = VectorMacCore(
    SMALL, SMALL, SMALL, SMALL, Buffer(2**20, 1.0, 1.0), elements_a=1, elements_o=1, vector=1, lanes=1, output_reserve_bytes=0
)  # fmt: skip
SYSTEM = ManyCore("four", 4, 1, 4, CORE, Links(64, 1.0), Memories(edge_ports(4, 1, 2), 64, 10.0))
RULES = SEMANTICS["own"]


def whole(name: str, c: int, inputs: tuple[int, ...]) -> SegmentLayer:
    """A layer with one output, which no cores can share: it takes as many cycles as it has input channels."""
    return SegmentLayer(
        name, LayerKind.CONV, c, 1, 1, 1, 1, 1, weight_words=c, external_c=0 if inputs else c, inputs=inputs
    )


def network(*layers: tuple[int, tuple[int, ...]]) -> SegmentNetwork:
    return SegmentNetwork("small", tuple(whole(str(i), c, inputs) for i, (c, inputs) in enumerate(layers)))


CHAIN = network((100, ()), (1, (0,)), (1, (1,)))
FORK = network((100, ()), (1, (0,)), (1, (0,)), (1, (0,)), (3, (1, 2, 3)))


@pytest.mark.parametrize("batch", [1, 3])
def test_cores_that_a_layer_leaves_idle_count(batch: int) -> None:
    """Samples may share out the cores, one layer cannot."""
    bound = bound_of(Evaluator(SYSTEM, CHAIN, RULES), batch)
    assert bound.time == pytest.approx(102), "not the work over all cores"


def test_layers_side_by_side_count_by_the_longest_or_by_their_work() -> None:
    assert bound_of(Evaluator(SYSTEM, FORK, RULES), 1).time == pytest.approx(100 + 1 + 3)
    wide = network((100, ()), *[(1, (0,))] * 12, (12, tuple(range(1, 13))))
    assert bound_of(Evaluator(SYSTEM, wide, RULES), 1).time == pytest.approx(100 + 12 / 4 + 12)


def test_stretches_lie_between_layers_that_all_paths_share() -> None:
    stretches, shares = path_shares(FORK, [100.0, 2.0, 1.0, 1.0, 3.0])
    assert stretches == [1, 2, 2, 2, 3]
    assert [first for first, _ in shares] == [1.0, 1.0, 0.0, 0.0, 1.0]
    assert sum(second for _, second in shares[1:4]) == pytest.approx(1.0) and shares[1][1] > shares[2][1] > 0.0


def test_a_run_waits_for_its_words() -> None:
    slow = replace(SYSTEM, memories=replace(SYSTEM.memories, words_per_cycle_each=1))
    heavy = SegmentNetwork("heavy", (replace(whole("0", 3200, ()), K=64, weight_words=3200 * 64),))
    assert bound_of(Evaluator(slow, heavy, RULES), 1).time == pytest.approx((3200 * 64 + 3200) / 2, rel=0.01)
    narrow = replace(SYSTEM, links=Links(1, 1.0))
    found = bound_of(Evaluator(narrow, heavy, RULES), 1).time
    assert found == pytest.approx((3200 * 64 + 3200) / 2, rel=0.01)


def test_serial_lanes_draw_power_in_cuts_and_layers_alone_read_and_write_dram() -> None:
    dear = replace(SYSTEM, memories=Memories(edge_ports(4, 1, 1), 64, 1e6))
    found = []
    for lanes in (0, 10):
        dies = Dies(2, 1, 64, 0.0, "XSR", lanes=lanes, mw_per_lane=5.0)
        found.append(bound_of(Evaluator(replace(dear, dies=dies), CHAIN, RULES), 1))
    assert found[1].energy_pj - found[0].energy_pj == pytest.approx(102 * 10 * 5.0, rel=0.01)


def test_words_for_several_dies_cross_their_borders() -> None:
    for x, dear in ((1, 0), (2, 1), (4, 3)):
        system = replace(SYSTEM, dies=Dies(x, 1, 64, 100.0))
        evaluator = Evaluator(system, CHAIN, RULES)
        prices = prices_of(evaluator, problem_arrays(evaluator, 1, 0.0))
        assert prices.reach[4] == dear * 100.0 + (3 - dear) * 1.0
        assert prices.read == (100.0 if x > 1 else 1.0)  # memories are on dies of their own


@pytest.mark.parametrize("topology", ["torus", "ring", "crossbar"])
def test_pitches_add_up_along_every_way(topology: str) -> None:
    table = link_table(CoreNetwork(topology), Grid(3, 4, 1, 1, ((-1, 0), (3, 2))))  # type: ignore[arg-type]
    found = table.pitches_between()
    pairs = np.argwhere(table.before[0] >= 0)
    assert [int(found[a, b]) for a, b in pairs] == [
        int(table.pitches[table.way(int(a), int(b))].sum()) for a, b in pairs
    ]
    assert found.sum() == found[tuple(pairs.T)].sum()
