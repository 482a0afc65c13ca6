"""Step times of trees of segments: laws of rule V12, and one message for each mistake."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codesign.arch.many_core import Dies, ManyCore
from codesign.arch.many_core_files import load_system
from codesign.arch.many_core_scaling import edge_ports
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.cost.cost import Infeasible
from codesign.evaluation.serving_stages import Part, StageRun
from codesign.evaluation.serving_trees import TreeStages, chained, paged
from codesign.evaluation.system_chips import staged
from codesign.library.serving import ServeOptions, serve
from codesign.scheduling.protocol import ScheduleProblem
from codesign.scheduling.segments.bound import bound_of
from codesign.scheduling.segments.evaluate import OWN_RULES, Evaluator
from codesign.scheduling.segments.network_layers import segment_network
from codesign.scheduling.segments.scheduler import SegmentsScheduler, settings_for
from codesign.scheduling.segments.search import TreeSearch
from codesign.scheduling.segments.segment_tree import Cut, CutKind, Leaf, Node
from codesign.scheduling.soma.model.decoder_block import decoder_block, decoder_head
from codesign.scheduling.soma.model.load import Source
from codesign.workloads.chips import Chips
from codesign.workloads.serving import Requests, ServingSpec
from codesign.workloads.zoo.language_models import LANGUAGE_MODELS, LanguageModel, Span, decode_macs
from tests.command_line import run

TINY = LanguageModel(3, 64, 4, 2, 16, 128, 512, 4096, query_norm=True)
SPEC = ServingSpec("tiny", TINY, (Requests(32, 8),), batch=4)
TREES = ServeOptions(objective="latency", evaluations=40, step_times="segments")
STEP = Part(1, 48, 4, 1)
WHOLE = Span(1, 3, True)


def row_of(cores: int, dram_words: int = 36, link_words: int = 32) -> ManyCore:
    """Some cores in a row on one die, with one controller."""
    system = load_system("gemini-72t")
    memories = replace(system.memories, ports=edge_ports(cores, 1, 1), words_per_cycle_each=dram_words)
    links = replace(system.links, words_per_cycle=link_words)
    return replace(system, name="row", width=cores, height=1, stride=cores, dies=Dies(), memories=memories, links=links)


def stage(system: ManyCore, part: Part = STEP, span: Span = WHOLE) -> StageRun:
    found = TreeStages(SPEC, system, Objective.LATENCY, Budget(evaluations=40), 0).run(part, span)
    assert isinstance(found, StageRun)
    return found


def test_blocks_do_the_work_of_the_model() -> None:
    """MACs by rule W17, DRAM bytes at least all weights and caches once."""
    found = stage(row_of(4))
    assert found.macs == 4 * decode_macs(TINY, 48)
    weights = sum(4 * 64 * 2 * n for n in (32, 16)) // 4 + 3 * 64 * 128
    cache = 4 * TINY.cache_elements(48)
    assert found.dram_bytes >= 3 * weights + 512 * 64 + cache
    assert found.bound_s is not None and found.bound_s <= found.total_s


def test_on_one_core_a_step_is_that_of_the_schedule_and_no_slower_than_layers_one_by_one() -> None:
    """Blocks take what `schedule --scheduler segments` says of them; a core alone gains at most what stays on chip."""
    system = row_of(1)
    latency, one_by_one = 0.0, 0.0
    for graph, times in ((decoder_block("b", TINY, 1, 48, stored=True), 3), (decoder_head("h", TINY), 1)):
        problem = ScheduleProblem(Source(graph, 4), None)
        result = SegmentsScheduler(system).schedule(problem, Objective.LATENCY, budget=Budget(evaluations=40), seed=0)
        assert result.latency_cycles is not None
        latency += times * result.latency_cycles
        network = segment_network(graph)
        leaves = tuple(Leaf(i, 4, (1, 1, 1, 1)) for i in range(len(network.layers)))
        alone = Evaluator(system, network, OWN_RULES).evaluate(Cut(CutKind.TIME, 4, leaves))
        one_by_one += times * alone.rows[0].time
    assert stage(system).total_s == pytest.approx(latency * 1e-9)
    assert stage(system).total_s <= one_by_one * 1e-9


def test_blocks_one_after_another_cost_their_sum() -> None:
    """The trees of two blocks under one cut in time of the chained network: rule V12 adds what the evaluator adds."""
    system, network = row_of(2), segment_network(decoder_block("b", TINY, 1, 16, stored=True))
    found = TreeSearch(
        Evaluator(system, network, OWN_RULES), 4, settings_for(Objective.EDP, Budget(evaluations=60), 0)
    ).run()
    root = found.evaluation.root
    assert root.groups == 1
    n = len(network.layers)

    def moved(node: Node) -> Node:
        if isinstance(node, Leaf):
            return replace(node, layer=node.layer + n)
        return replace(node, children=tuple(moved(child) for child in node.children))

    both = replace(root, children=(*root.children, *(moved(child) for child in root.children)))
    twice = Evaluator(system, chained([network, network]), OWN_RULES).evaluate(both).rows[0]
    once = found.evaluation.rows[0]
    assert (twice.time, twice.dram_words) == (2 * once.time, 2 * once.dram_words)
    assert twice.energy_pj == pytest.approx(2 * once.energy_pj)


@pytest.mark.parametrize("wider", ["dram_words", "link_words"])
def test_more_bandwidth_never_raises_the_bound(wider: str) -> None:
    network = chained([segment_network(decoder_block("b", TINY, 1, 48, stored=True))] * 3)
    systems = [row_of(4, **{wider: words}) for words in (2, 8, 32, 128)]
    bounds = [bound_of(Evaluator(system, network, OWN_RULES), 4).time for system in systems]
    assert bounds == sorted(bounds, reverse=True)
    if wider == "dram_words":
        assert bounds[0] > 2 * bounds[-1]


def test_equal_shapes_are_searched_once() -> None:
    """A block and the output layer of each phase; contexts of one page are one shape."""
    searched: list[str] = []
    stages = TreeStages(SPEC, row_of(2), Objective.LATENCY, Budget(evaluations=5), 0, searched.append)
    for past in (33, 40, 48):
        assert isinstance(stages.run(Part(1, past, 4, 1), WHOLE), StageRun)
    stages.run(Part(1, 33, 4, 1), Span(1, 2, False))
    assert searched == ["block of tiny, batch 4, 1 tokens after 48", "output layer of tiny, batch 4"]
    assert paged(33) == 48


def test_products_that_no_buffers_hold_are_cut_along_channels() -> None:
    whole, cut = decoder_head("h", TINY), decoder_head("h", TINY, 10_000)
    assert [layer.K for layer in cut.layers[1:]] == [128] * 4
    assert sum(layer.weight_bytes for layer in cut.layers) == sum(layer.weight_bytes for layer in whole.layers)
    small = replace(row_of(2), core=replace(row_of(2).core, big=replace(row_of(2).core.big, bytes=16384)))
    assert stage(small).dram_bytes > 0
    tight = replace(row_of(2), core=replace(row_of(2).core, output_reserve_bytes=row_of(2).core.big.bytes))
    found = TreeStages(SPEC, tight, Objective.LATENCY, Budget(evaluations=5), 0).run(STEP, WHOLE)
    assert isinstance(found, Infeasible) and found.resource == "buffer of a core"


def test_stages_are_rectangles_with_their_share_of_the_memory() -> None:
    """Two dies of 3 x 6 cores: one system of both, or a stage each, over six links of 16 bytes a cycle."""
    system = load_system("gemini-72t")
    assert staged(system, 1) == (system, Chips())
    alone, chips = staged(system, 2)
    assert (alone.width, alone.height, alone.dies.count, alone.memories.words_per_cycle_each) == (3, 6, 1, 72)
    assert (chips.count, chips.tensor, chips.onward.link_bytes_per_s) == (2, 1, 6 * 16e9)
    square = replace(system, dies=replace(system.dies, x=2, y=2))
    alone, chips = staged(square, 2)
    assert (alone.width, alone.height, alone.dies.count) == (3, 6, 2)
    assert chips.onward.link_bytes_per_s == 6 * 16e9


@pytest.fixture
def spec_file(tmp_path: Path) -> Path:
    path = tmp_path / "serving.yaml"
    path.write_text("model: qwen3_0_6b\nrequests: [{prompt: 16, output: 4}]\nbatch: 2\n")
    return path


def test_the_command_states_bound_and_gap(spec_file: Path) -> None:
    asked = ("serve", spec_file, "--system", "gemini-72t", "--step-times", "segments", "--evaluations", "2")
    found: dict[str, Any] = json.loads(run(*asked, "--format", "json").out)
    step = found["decode"]
    assert found["timing"] == "segments"
    assert step["gap"] == pytest.approx(step["latency_s"] / step["bound_s"] - 1) and step["gap"] >= 0
    assert [tree["runs"] for tree in step["trees"]] == [28, 1]
    assert sum(tree["runs"] * tree["latency_cycles"] for tree in step["trees"]) * 1e-9 == pytest.approx(
        step["latency_s"]
    )
    assert sum(step["bound_by"].values()) == pytest.approx(1)


def test_two_stages_add_up_by_the_rule_of_stages() -> None:
    """Rule V9 with one part: both stages, the send, and the latency back; the bound likewise."""
    system = load_system("gemini-72t")
    spec = replace(SPEC, chips=Chips(1, micro_batches=1))
    found = serve(spec, system, replace(TREES, stages=2, micro_batches=1)).found.decode
    send = found.send_s
    assert found.latency_s == pytest.approx(sum(found.stage_s) + send)
    assert found.bound_s is not None and send < found.bound_s <= found.latency_s


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--system", "gemini-72t", "--step-times", "trees"), "unknown kind of step times 'trees'"),
        (("--arch", "soma-cloud", "--step-times", "segments"), "need a system of many cores, got architecture"),
        (
            ("--system", "gemini-72t", "--step-times", "segments", "--mapper", "anneal"),
            "--mapper is an option of --step-times layers",
        ),
        (
            ("--system", "gemini-72t", "--step-times", "segments", "--objective", "area"),
            "unknown objective 'area'",
        ),
    ],
)
def test_options_that_do_not_go_together(spec_file: Path, more: tuple[str, ...], message: str) -> None:
    done = run("serve", spec_file, *more)
    assert done.code == 2 and message in done.err.replace("\n", " ")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (replace(SPEC, precision="W4A8"), "words of 8 bits without zeros, got `precision`"),
        (replace(SPEC, zeros="weight=2:4"), "words of 8 bits without zeros, got `zeros`"),
        (replace(SPEC, model=LANGUAGE_MODELS["mixtral_8x7b"]), "blocks with experts are not scheduled"),
        (replace(SPEC, model=LANGUAGE_MODELS["deepseek_v2_lite"]), "blocks with experts are not scheduled"),
    ],
)
def test_models_that_are_not_scheduled(spec: ServingSpec, message: str) -> None:
    with pytest.raises(UserError, match=message):
        serve(spec, load_system("gemini-72t"), TREES)
