"""Trees on the mesh: every transfer is there, a case by hand, and steps skipped or not give the same time."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codesign.arch.many_core import Buffer, Dies, Links, ManyCore, Memories, VectorMacCore
from codesign.scheduling.segments.bound import bound_of
from codesign.scheduling.segments.contention import ContentionSimulator
from codesign.scheduling.segments.device_memory import DeviceMemory
from codesign.scheduling.segments.evaluate import MESH_RULES, OWN_RULES, Evaluator
from codesign.scheduling.segments.kernels import core_mapper, fabric
from codesign.scheduling.segments.layers import LayerKind, SegmentLayer, SegmentNetwork
from codesign.scheduling.segments.packet_lists import SteadyMemory
from codesign.scheduling.segments.search import SearchSettings, TreeSearch
from codesign.scheduling.segments.segment_tree import Cut, CutKind, Leaf, walk
from codesign.scheduling.segments.transfers import ON_CHIP, TransferLists
from codesign.timing.dram.device import load_device
from codesign.timing.noc import programs
from experiments.manycore_records import Run, Scheme, read_runs

DATA = Path(__file__).parents[1] / "data" / "manycore"
CASES = [
    pytest.param(run, scheme, id=f"{run.name} {scheme.name}")
    for program in ("set", "gemini")
    for run in read_runs(DATA, program)
    for scheme in run.schemes
    if scheme.name != "init"
]


@pytest.mark.parametrize(("run", "scheme"), CASES)
def test_transfers_are_all_words_of_the_evaluation(run: Run, scheme: Scheme) -> None:
    figures = None if run.core_known else scheme.core_figures
    evaluator = Evaluator(run.system, run.network, OWN_RULES, figures)
    found = evaluator.evaluate(scheme.tree)
    lists = TransferLists(evaluator, found)
    for leaf, row in zip(walk(found.root), found.rows, strict=True):
        if not isinstance(leaf, Leaf) or (leaf.fetch and max(leaf.fetch[4:]) > 1):
            continue
        counter = np.zeros_like(row.counter)
        on_chip = 0
        for transfer in lists.of_leaf(leaf):
            cores = np.array(transfer.cores, np.int64)
            if transfer.dram == ON_CHIP:
                if len(cores) > 1:
                    on_chip += fabric.multicast(evaluator.fabric, counter, transfer.sender, cores, transfer.words)
                else:
                    on_chip += fabric.unicast(evaluator.fabric, counter, transfer.sender, int(cores[0]), transfer.words)
            else:
                fabric.move_dram(evaluator.fabric, counter, cores, transfer.words, transfer.dram, transfer.written)
        assert on_chip == row.counter[fabric.CORE_HOPS]
        shares = sum(len(t.cores) > 0 for t in lists.of_leaf(leaf)) if leaf.batch < found.root.batch else 0
        assert abs(int(counter[fabric.DRAM]) - row.dram_words) <= shares, "weights are floored for each group"
        assert int(counter[fabric.PORTS :].max()) == pytest.approx(
            int(row.counter[fabric.PORTS :].max()), abs=500, rel=0.01
        )


def pair(dies: int = 1) -> ManyCore:
    core = VectorMacCore(
        Buffer(2048, 0.8, 0.4),
        Buffer(2048, 0.3, 0.3),
        Buffer(1024, 0.3, 0.3),
        Buffer(8192, 0.7, 0.9),
        Buffer(65536, 2.0, 2.2),
        elements_a=2,
        elements_o=2,
        vector=4,
        lanes=4,
        output_reserve_bytes=256,
    )
    memories = Memories((((0, 0),),), 4, 60.0)
    return ManyCore("pair", 2, 1, 1, core, Links(4, 3.0), memories, Dies(x=dies, words_per_cycle=2))


def conv(name: str, inputs: tuple[int, ...], external: int) -> SegmentLayer:
    return SegmentLayer(
        name, LayerKind.CONV, 8, 8, 1, 1, 4, 4, in_h=4, in_w=4, weight_words=64, inputs=inputs, external_c=external
    )


CHAIN = SegmentNetwork("chain", (conv("a", (), 8), conv("b", (0,), 0)))


def pipeline(groups: int) -> Cut:
    leaves = tuple(Leaf(i, 1, (1, 1, 1, 1)) for i in (0, 1))
    return Cut(CutKind.TIME, groups, (Cut(CutKind.SPACE, groups, leaves),))


def test_two_layers_by_hand() -> None:
    """a on core 0 beside the DRAM, b on core 1: 128 words of inputs, 64 / 4 of weights, 128 from a to b, 128 out."""
    evaluator = Evaluator(pair(), CHAIN, OWN_RULES)
    found = evaluator.evaluate(pipeline(4))
    compute = int(found.rows[2].core[core_mapper.CYCLES])  # type: ignore[index]
    assert compute == int(found.rows[3].core[core_mapper.CYCLES])  # type: ignore[index]
    assert compute == 4 * 4 * 2 * 2 // 4, "8 x 8 channels and 16 places on 2 x 2 elements of 4 x 4 MACs"
    simulated = ContentionSimulator(evaluator).simulate(found)
    # step 1: a alone. The DRAM sends 16 + 128 words at 4 a cycle; its last packet of 8 flits is whole in cycle 36 and arrives
    # 7 + 5 hops + 7 flits later at core 0, one hop from the port.
    first = (16 + 128) // 4 + (7 + 5 + 7) + 1
    # steps 2 to 4: the DRAM serves a's 36 cycles, then b's 4 of weights and its 32 of outputs: 72 cycles in all. What is served
    # last is written, so that the step ends with the DRAM.
    both = 36 + 4 + 32
    # step 5: b alone. Core 0 sends 32 flits to core 1, one hop: 7 + 5 + 31; 4 flits of weights take turns with them on the link,
    # and the two meet in the routers' allocators once: one cycle more.
    last = (7 + 5 + 31) + 4 + 1 + 1
    assert (first, both, last) == (56, 72, 49)
    assert simulated.time == first + 3 * both + last
    assert simulated.segments[0].steps == 3
    assert simulated.free == found.rows[0].time == 4 * 72, "the DRAM's words of the whole segment"


def test_skipped_steps_are_the_steps_that_run() -> None:
    evaluator = Evaluator(pair(), CHAIN, OWN_RULES)
    times = {g: ContentionSimulator(evaluator).simulate(evaluator.evaluate(pipeline(g))) for g in (1, 2, 3, 8)}
    assert [times[g].segments[0].steps for g in (1, 2, 3, 8)] == [2, 3, 3, 3]
    whole = programs.run_program
    seen: list[int] = []

    def run(*arguments: Any) -> programs.ProgramRun:
        found = whole(*arguments)
        seen.append(found.cycles)
        return found

    for groups in (3, 8):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(programs, "run_program", run)
            seen.clear()
            result = ContentionSimulator(evaluator).simulate(evaluator.evaluate(pipeline(groups)))
        first, both, last = seen
        assert result.time == first + (groups - 1) * both + last


def test_a_slow_link_between_dies_costs_time() -> None:
    one, two = (Evaluator(pair(dies), CHAIN, OWN_RULES) for dies in (1, 2))
    times = [ContentionSimulator(e).simulate(e.evaluate(pipeline(4))).time for e in (one, two)]
    assert times[1] > times[0]


def test_a_device_serves_no_faster_than_its_peak() -> None:
    evaluator = Evaluator(pair(), CHAIN, OWN_RULES)
    found = evaluator.evaluate(pipeline(4))
    memory = DeviceMemory(4, load_device("gddr6_x16"))
    assert (
        ContentionSimulator(evaluator, memory).simulate(found).time
        > ContentionSimulator(evaluator).simulate(found).time
    )
    words = np.full(4096, 64.0)
    transfer, written = np.arange(4096) % 3, np.zeros(4096, np.int64)
    served = memory.serve(words, written, transfer)
    steady = SteadyMemory(4).serve(words, written, transfer)
    assert steady[-1] <= served.max() < 1.4 * steady[-1], "rows opened and refreshed cost less than two fifths"
    assert len(served) == 4096 and served.min() > 0


def test_the_order_within_a_transfer_is_kept() -> None:
    memory = DeviceMemory(4, load_device("ddr4_2400_x16"))
    words = np.array([64.0, 32.0, 64.0, 32.0, 10.0])
    served = memory.serve(words, np.zeros(5, np.int64), np.array([0, 1, 0, 1, 0]))
    assert served[0] < served[2] and served[2] <= served[4]
    assert served[1] == served[3], "two packets of one burst"


def test_words_are_counted_where_cores_send_and_receive_them() -> None:
    evaluator = Evaluator(pair(), CHAIN, MESH_RULES)
    found = evaluator.evaluate(pipeline(4))
    sites, core = evaluator.system.grid.places, [(x + 1) * 1 for x in (0, 1)]
    ends = [row.counter[fabric.LINKS + 4 * sites :] for row in found.rows[2:]]
    # a: 16 words of weights and 128 of inputs from DRAM to core 0; nothing leaves it but what b reads
    assert (ends[0][sites + core[0]], ends[0][: 2 * sites].sum()) == (16 + 128, 16 + 128)
    # b: 16 words of weights from DRAM and 128 from core 0 to core 1, which writes 128
    assert ends[1][sites + core[1]] == 16 + 128
    assert (ends[1][core[0]], ends[1][core[1]]) == (128, 128)


def test_steps_are_bounded_by_the_words_of_all_that_run() -> None:
    own, mesh = (Evaluator(pair(), CHAIN, rules).evaluate(pipeline(4)) for rules in (OWN_RULES, MESH_RULES))
    fill = Evaluator(pair(), CHAIN, MESH_RULES).fabric.fill
    # the ends' 144 words at 4 a cycle take 36 x 1.4 cycles; both together keep the DRAM busy for 72
    alone = 144 // 4 * 140 // 100 + fill
    assert mesh.rows[0].time == 2 * alone + 3 * (72 + fill)
    assert own.rows[0].time < mesh.rows[0].time
    assert mesh.rows[0].energy_pj == own.rows[0].energy_pj


def test_a_search_with_loads_in_view_sees_what_the_evaluation_sees() -> None:
    run = next(run for run in read_runs(DATA, "gemini") if run.name.startswith("bert_4x4"))
    evaluator = Evaluator(run.system, run.network, MESH_RULES)
    search = TreeSearch(evaluator, run.batch, SearchSettings(steps=3000))
    found = search.run()
    assert search.value(search.best) == pytest.approx(np.log(found.evaluation.edp), abs=1e-9)
    assert bound_of(evaluator, run.batch).edp <= found.evaluation.edp


def test_words_hold_up_those_that_pass_where_they_do() -> None:
    mesh = Evaluator(pair(), CHAIN, MESH_RULES).fabric
    mine, other = np.zeros((2, fabric.counter_size(mesh)), np.int64)
    first, second = fabric.LINKS + 4 * mesh.height, fabric.LINKS + 4 * mesh.height + 1
    mine[first], other[second] = 10 * mesh.link_words, 30 * mesh.link_words
    assert fabric.crowding_cycles(mesh, mine, mine + other) == 0, "on another link"
    other[first] = 20 * mesh.link_words
    assert fabric.crowding_cycles(mesh, mine, mine + other) == 20 * (100 + mesh.margin) // 100
    other[fabric.PORTS] = 50 * mesh.dram_words
    assert fabric.crowding_cycles(mesh, mine, mine + other) == 50, "all wait for the DRAM"
