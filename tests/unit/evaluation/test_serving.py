"""Serving figures against closed formulas (rules V1 to V6)."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codesign.arch.architecture import Architecture
from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.cost.cost import Infeasible
from codesign.evaluation.network import EvaluationOptions
from codesign.evaluation.serving import ServingResult, compute_bound_batch, serve
from codesign.evaluation.serving_phases import Phase, PhaseJudge
from codesign.evaluation.serving_stages import MappedStages, StageRun
from codesign.evaluation.specification import ChoicesSpec, JudgeSpec, WorkloadSpec
from codesign.library.serving import ServeOptions
from codesign.library.serving import serve as serve_model
from codesign.mappers.registry import create
from codesign.report.study_page import report_data
from codesign.study.run import prepare, run_study
from codesign.study.specification import PlaceSpec, SearchSpec, StudySpec
from codesign.timing.cores.collectives import all_reduce_s
from codesign.timing.cores.system import load_system
from codesign.workloads.chips import Chips, Collective, StageLink
from codesign.workloads.serving import (
    Requests,
    ServingSpec,
    fixed_elements,
    read_serving,
    serving_from_json,
    split_model,
)
from codesign.workloads.zoo import build_model
from codesign.workloads.zoo.language_models import LANGUAGE_MODELS, LanguageModel
from tests.attention_products import has_activation_weights

TINY = LanguageModel(2, 64, 8, 2, 8, 128, 512, 4096)
ARCHITECTURE = load_preset("soma-edge")
OPTIONS = EvaluationOptions(Objective.LATENCY, Budget(evaluations=40))


def mapped(
    spec: ServingSpec, architecture: Architecture = ARCHITECTURE, options: EvaluationOptions = OPTIONS
) -> MappedStages:
    return MappedStages(spec, architecture, create("anneal"), options, None)


def served(spec: ServingSpec) -> ServingResult:
    found = serve(spec, ARCHITECTURE, mapped(spec))
    assert isinstance(found, ServingResult)
    return found


def test_the_mean_context_is_that_of_all_steps() -> None:
    requests = (Requests(10, 4, 2.0), Requests(100, 3))
    spec = ServingSpec("tiny", TINY, requests)
    # steps after the first token: caches of 10, 11, 12 (twice) and 100, 101 tokens
    assert spec.mean_context == round((2 * (10 + 11 + 12) + 100 + 101) / 8)
    assert spec.mean_output == pytest.approx(11 / 3)
    assert spec.prompts == ((10, pytest.approx(2 / 3)), (100, pytest.approx(1 / 3)))


def test_many_prompt_lengths_become_classes_of_equal_work() -> None:
    spec = ServingSpec("tiny", TINY, tuple(Requests(n, 2) for n in range(1, 101)))
    assert len(spec.prompts) == 4
    assert sum(share for _, share in spec.prompts) == pytest.approx(1)
    assert sum(n * share for n, share in spec.prompts) == pytest.approx(50.5, rel=0.01)


def test_figures_follow_from_the_phases() -> None:
    spec = ServingSpec("tiny", TINY, (Requests(32, 9), Requests(8, 5)), batch=4)
    found = served(spec)
    prompt = sum(share * phase.latency_s for phase, share in found.prefills)
    steps = 6.0
    assert (found.ttft_s, found.steps) == (pytest.approx(prompt), steps)
    assert found.tpot_s == pytest.approx(found.decode.latency_s + 4 * prompt / steps)
    seconds = steps * found.decode.latency_s + 4 * prompt
    assert found.tokens_per_s == pytest.approx(4 * 7 / seconds)
    # a place of the batch makes one token in `tpot_s`, and the first of each request with its prompt
    joules = steps * found.decode.energy_j + 4 * sum(share * p.energy_j for p, share in found.prefills)
    assert found.joules_per_token == pytest.approx(joules / (4 * 7))
    assert sum(share for _, share in found.decode.bound_by) == pytest.approx(1)
    assert found.decode.macs == 4 * (
        2 * (64 * 64 * 2 + 64 * 16 * 2 + 3 * 64 * 128 + 2 * 64 * (spec.mean_context + 1)) + 512 * 64
    )


def test_one_output_token_is_a_prompt_alone() -> None:
    found = served(ServingSpec("tiny", TINY, (Requests(16, 1),), batch=2))
    assert (found.steps, found.tpot_s) == (0, found.ttft_s)
    assert found.tokens_per_s == pytest.approx(1 / found.ttft_s)


@pytest.mark.parametrize(
    ("collective", "seconds"),
    [(Collective.RING, 2 * 3 * (1e6 / 4 / 1e9 + 1e-6)), (Collective.TREE, 2 * 2 * (1e6 / 1e9 + 1e-6))],
)
def test_adding_up_over_chips(collective: Collective, seconds: float) -> None:
    chips = Chips(4, 1e9, 1e-6, 10.0, collective)
    assert chips.all_reduce_s(1e6) == pytest.approx(seconds)
    assert chips.all_reduce_bytes(1e6) == 6e6
    assert Chips(1).all_reduce_s(1e6) == 0


def test_chips_share_weights_and_work() -> None:
    spec = ServingSpec("tiny", TINY, (Requests(16, 5),), batch=2)
    apart = replace(spec, chips=Chips(2, link_latency_s=0.0))
    one, two = served(spec), served(apart)
    assert two.decode.macs == one.decode.macs
    assert two.decode.link_s == pytest.approx(2 * 2 * 2 * (2 * 64 / 2) / 50e9)
    assert apart.decode(8, None).weight_bytes * 2 == spec.decode(8, None).weight_bytes
    # key heads fewer than chips are repeated on each
    four = split_model(TINY, 4)
    assert (four.heads, four.key_heads, four.hidden, four.vocabulary) == (2, 1, 32, 128)


@pytest.mark.parametrize("name", ["llama3_8b", "qwen2_5_0_5b", "deepseek_v2_lite", "mixtral_8x7b"])
def test_weights_of_a_step_are_those_of_the_network(name: str) -> None:
    model = LANGUAGE_MODELS[name]
    spec = ServingSpec(name, model, (Requests(10, 2),))
    net = build_model(name, phase="decode", past=10)
    assert spec.step_elements(1) == net.weight_bytes
    assert fixed_elements(model) <= net.weight_bytes


def test_the_batch_at_which_decoding_is_bound_by_arithmetic() -> None:
    spec = ServingSpec("tiny", replace(TINY, width=512, head_width=64, hidden=4096), (Requests(2, 2),))
    least = compute_bound_batch(spec, ARCHITECTURE)
    assert least is not None and least > 1
    dram = ARCHITECTURE.levels[0]
    assert dram.read_bandwidth_words_per_cycle is not None
    rate = dram.read_bandwidth_words_per_cycle * dram.word_bits / 8

    def times(batch: int) -> tuple[float, float]:
        net = spec.decode(8, None, batch)
        caches = sum(
            net.tensor_by_name[o.operands[1]].elements for o in net.operators if has_activation_weights(net, o)
        )
        return net.macs / ARCHITECTURE.mac_units, (net.weight_bytes + caches) / rate

    assert times(least)[0] >= times(least)[1]
    assert times(least - 1)[0] < times(least - 1)[1]
    long = replace(spec, requests=(Requests(4000, 2),))
    assert compute_bound_batch(long, ARCHITECTURE) is None  # caches alone keep DRAM busy for longer


def test_a_precision_narrows_weights_caches_and_links() -> None:
    """Rule V7: what a step reads, and what chips exchange, is as wide as the precision says."""
    wide = ServingSpec("tiny", TINY, (Requests(32, 9),), batch=4, chips=Chips(2))
    narrow = replace(wide, precision="W4A8KV4")
    assert wide.widths(8) == (8, 8, 8)
    assert narrow.widths(8) == (4, 8, 4)
    assert replace(wide, precision="Wmxfp4A8").widths(8) == (4.25, 8, 8)
    assert 2 * narrow.decode(8, None).weight_bytes == wide.decode(8, None).weight_bytes
    before, after = served(wide), served(narrow)
    assert after.decode.dram_bytes < before.decode.dram_bytes
    assert after.decode.link_s == before.decode.link_s  # activations are as wide
    pruned = served(replace(wide, zeros="weight=2:4")).decode  # this chip knows no zeros
    assert (pruned.latency_s, pruned.energy_j) == (before.decode.latency_s, before.decode.energy_j)
    short = ServingSpec("tiny", replace(TINY, width=512, head_width=64, hidden=4096), (Requests(2, 2),))
    at_eight, at_four = (
        compute_bound_batch(spec, ARCHITECTURE) for spec in (short, replace(short, precision="W4A8KV4"))
    )
    assert at_eight is not None and at_four is not None
    assert at_four < at_eight  # weights take half as long, the arithmetic as long


def test_searches_are_for_what_users_see(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("model: qwen3-0.6b\nrequests: [{prompt: 8, output: 4}]\nbatch: 2\n")
    workload = WorkloadSpec(serving=str(tmp_path / "s.yaml"))

    def study(*objectives: str, constraints: tuple[str, ...] = ()) -> StudySpec:
        search = SearchSpec("random", 1, objectives=objectives, constraints=constraints)
        judge = JudgeSpec(mapper="anneal", evaluations=10)
        choices = ChoicesSpec(precision=("W4A8KV8",))
        return StudySpec(workload, PlaceSpec(str(tmp_path / "out")), choices=choices, search=search, judge=judge)

    with pytest.raises(UserError, match=r"'tokens_per_s' is better the greater it is.*minimise 's_per_token'"):
        prepare(study("tpot", "tokens_per_s"))
    run = run_study(study("tpot", "ttft", "energy", "s_per_token", constraints=("tokens_per_j>=1e-9",)))
    try:
        [trial] = run.study.trials
        metrics = trial.metrics
        assert metrics["tpot_s"] == metrics["latency_s"]
        assert metrics["s_per_token"] == pytest.approx(1 / metrics["tokens_per_s"])
        assert metrics["tokens_per_j"] == pytest.approx(1 / metrics["energy_j"])
        shown = report_data(run.study)
        design = shown["designs"]["0"]
        assert design["roofline"]["macs_per_cycle"] > 0
        phases = [*design["serving"]["prefill"], design["serving"]["decode"]]
        for phase in phases:
            assert sum(phase["bound_by"].values()) == pytest.approx(1)
            assert sum(x["macs"] * x["count"] for x in phase["layers"]) == phase["macs"]
        assert "of a decode step" in shown["recommended"][0]["bound"]
    finally:
        run.study.close()


def test_a_trace_is_a_histogram(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("prompt,output\n10,3\n20,5\n10,3\n")
    (tmp_path / "s.yaml").write_text(
        "model: Llama3-8B\ntrace: trace.csv\nbatch: 4\nchips: {count: 2, collective: tree}\n"
    )
    spec = read_serving(tmp_path / "s.yaml")
    assert spec.requests == (Requests(10, 3, 2.0), Requests(20, 5, 1.0))
    assert (spec.name, spec.batch, spec.chips) == ("llama3_8b", 4, Chips(2, collective=Collective.TREE))
    assert math.isclose(sum(share for _, share in spec.prompts), 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "llama3_9b"}, r"unknown language model 'llama3_9b'.*llama3_8b"),
        ({"batch": 0}, "`batch` must be an integer >= 1, got 0"),
        ({"batches": 4}, r"unknown key 'batches'.*'batch'"),
        ({"model": None, "modle": "llama3_8b"}, r"unknown key 'modle'.*'model'"),
        ({"requests": None, "request": []}, r"unknown key 'request'.*'requests'"),
        ({"requests": []}, "at least one kind of request"),
        ({"requests": [{"prompt": 4}]}, r"`output` is missing.*requests\[0\]"),
        (
            {"requests": [{"prompt": 4, "output": 0}]},
            r"`output` must be an integer >= 1, got 0.*requests\[0\]",
        ),
        ({"requests": [{"prompt": 4, "output": 2, "weight": -1}]}, "`weight` of a request must be a number > 0"),
        ({"requests": [{"prompt": 8000, "output": 400}]}, "a request of 8,400 tokens passes the 8,192"),
        ({"trace": "x.csv"}, "expected one of `requests`"),
        ({"chips": {"count": 3}}, r"3 chips must divide the 32 heads"),
        ({"chips": {"count": 0}}, "`count` must be an integer >= 1"),
        ({"chips": {"links": 1}}, "unknown key 'links'"),
        ({"chips": {"count": 4, "stages": 3}}, "`stages` must divide the 4 chips, got 3"),
        ({"chips": {"count": 64, "stages": 64}}, "`stages` must be <= 32, the layers of the model, got 64"),
        ({"chips": {"micro_batches": 0}}, "`micro_batches` must be an integer >= 1, got 0.*chips"),
        ({"chips": {"memory_bytes": 0}}, "`memory_bytes` must be > 0, got 0"),
        ({"chips": {"between": {"link_bytes": 1}}}, r"unknown key 'link_bytes'.*chips, `between`"),
        ({"chips": {"collective": "star"}}, "unknown `collective` 'star'"),
        ({"routing": "best"}, "unknown `routing` 'best'"),
        ({"precision": "W4"}, "a precision is written like W4A8"),
        ({"zeros": "weight=2"}, "a density must be a number from 0 to 1"),
    ],
)
def test_bad_specifications(change: dict[str, Any], message: str) -> None:
    raw = {"model": "llama3_8b", "requests": [{"prompt": 4, "output": 2}]} | change
    with pytest.raises(UserError, match=message):
        serving_from_json(raw)


def test_a_system_of_cores_tells_the_time_of_its_architecture() -> None:
    """Rule V8: TensorRT-LLM 0.5 reads 2,048 tokens of Llama 2 7B on one A100 in 133 ms."""
    spec = ServingSpec("llama2_7b", LANGUAGE_MODELS["llama2_7b"], (Requests(2048, 128),))
    options = EvaluationOptions(Objective.LATENCY, Budget(evaluations=5))
    found = serve(spec, load_preset("a100"), mapped(spec, load_preset("a100"), options))
    assert isinstance(found, ServingResult)
    assert 0.12 < found.ttft_s < 0.15
    (prefill, _), *_ = found.prefills
    assert dict(prefill.bound_by).keys() == {"compute", "DRAM", "vector operators"}
    assert sum(share for _, share in prefill.bound_by) == pytest.approx(1)


def test_links_of_a_system_are_used_unless_links_are_given() -> None:
    model = replace(LANGUAGE_MODELS["llama2_7b"], layers=1)
    options = EvaluationOptions(Objective.LATENCY, Budget(evaluations=5))
    links = []
    for chips in (Chips(4), Chips(4, link_bytes_per_s=1e9)):
        spec = ServingSpec("one", model, (Requests(64, 2),), chips=chips)
        found = serve(spec, load_preset("a100"), mapped(spec, load_preset("a100"), options))
        assert isinstance(found, ServingResult)
        links.append(found.decode.link_s)
    assert links[0] == pytest.approx(2 * all_reduce_s(load_system("a100"), 4096 * 2, 4))
    assert links[1] == pytest.approx(2 * Chips(4, link_bytes_per_s=1e9).all_reduce_s(4096 * 2))


FOUR = replace(TINY, layers=4)


def staged(*seconds: float, send: float, spec: ServingSpec) -> PhaseJudge:
    """A judge whose stages take given times, and whose sends do."""
    judge = PhaseJudge(spec, ARCHITECTURE, mapped(spec))
    runs = [StageRun({"compute": taken}) for taken in seconds]
    vars(judge).update(_stages=lambda part, head: runs, _send_s=lambda part: send)
    return judge


@pytest.mark.parametrize(
    ("parts", "send", "reading", "waiting", "step"),
    [
        # both stages and a send, one part behind another at the pace of the slowest
        (1, 1.0, 3 + 5 + 1, 1 - 8 / 18, 3 + 5 + 1),
        (4, 1.0, 3 + 5 + 1 + 3 * 5, 1 - 32 / 48, 4 * 5),
        (4, 7.0, 3 + 5 + 7 + 3 * 7, 1 - 32 / 72, 4 * 7),  # links are the slowest
        (None, 1.0, 3 + 5 + 1, 1 - 8 / 18, 3 + 5 + 1),  # the better of one part and two
    ],
)
def test_parts_pass_the_stages(parts: int | None, send: float, reading: float, waiting: float, step: float) -> None:
    """Rule V9, by hand: stages of 3 and 5 s."""
    chips = Chips(2, link_latency_s=0.0, stages=2, micro_batches=parts)
    judge = staged(3.0, 5.0, send=send, spec=ServingSpec("four", FOUR, (Requests(8, 4),), 4, chips))
    read, step_of = judge.prefill(8), judge.decode()
    assert isinstance(read, Phase) and isinstance(step_of, Phase)
    assert (read.latency_s, step_of.latency_s) == (pytest.approx(reading), pytest.approx(step))
    assert read.waiting == pytest.approx(waiting)
    assert sum(share for _, share in read.bound_by) == pytest.approx(1)


def test_a_send_is_a_share_of_each_chip() -> None:
    """Rule V9: two chips send half each at 2 GB/s in 1 s, 3 s of latency; the receivers share halves at 1 GB/s, 5 s of latency."""
    chips = Chips(4, 1e9, 5.0, 10.0, stages=2, between=StageLink(2e9, 3.0, 20.0))
    assert chips.tensor == 2
    assert chips.send_s(4e9) == pytest.approx((1 + 3) + (2 + 5))
    assert chips.send_pj(4e9) == pytest.approx(4e9 * 20 + 4e9 * 10)
    assert chips.all_reduce_s(4e9) == pytest.approx(2 * (2 + 5))
    assert Chips(2, 1e9, 0.0, stages=2).send_s(1e9) == pytest.approx(1)


def test_the_last_stage_has_fewer_layers() -> None:
    """Of 10 layers the output layer is worth about two: 64 x 1,024 weights, 36,864 in a layer."""
    model = replace(TINY, layers=10, vocabulary=1024)
    spec = ServingSpec("ten", model, (Requests(8, 4),), chips=Chips(2, stages=2))
    assert [span.layers for span in spec.spans] == [6, 4]
    assert [(span.first, span.last, span.head) for span in spec.spans] == [(1, 6, False), (7, 10, True)]
    whole = replace(spec, chips=Chips())
    kept = [spec.decode(8, None, span=span) for span in spec.spans]
    assert sum(net.parameter_bytes for net in kept) == whole.decode(8, None).parameter_bytes
    assert sum(net.macs for net in kept) == whole.decode(8, None).macs


def test_stages_do_the_work_of_one_chip() -> None:
    """Rules V9 and V10: MACs, weights and caches of all stages together are those of one chip."""
    spec = ServingSpec("four", FOUR, (Requests(32, 9),), batch=4)
    apart = replace(spec, chips=Chips(4, stages=2, micro_batches=2))
    one, two = served(spec), served(apart)
    assert two.decode.macs == one.decode.macs
    assert two.decode.micro_batches == 2 and len(two.decode.stage_s) == 2
    assert sum(layer.count * layer.to_json()["macs"] for layer in two.decode.layers) * 2 == two.decode.macs
    assert 2 * sum(m.cache_bytes for m in two.memory) == sum(m.cache_bytes for m in one.memory) == 4 * 41 * 4 * 2 * 16
    caches = FOUR.cache_elements(41) * 4
    full = replace(apart, chips=replace(apart.chips, memory_bytes=50_000.0))
    found = serve(full, ARCHITECTURE, mapped(full))
    assert isinstance(found, Infeasible)
    fullest = max(two.memory, key=lambda m: m.total_bytes)
    assert (found.demand, found.limit) == (fullest.total_bytes, 50_000)
    assert "stage 2 of 2, 2 layers on 2 chips: weights" in found.detail and f"{caches // 4:,}" in found.detail


def test_every_way_to_share_layers_is_tried() -> None:
    """Three stages fit four layers, but three chips do not share eight heads."""
    spec = ServingSpec("four", FOUR, (Requests(16, 5),), batch=3, chips=Chips(3, link_bytes_per_s=1e5, stages=3))
    options = ServeOptions("anneal", evaluations=20, stages="auto")
    found = serve_model(spec, ARCHITECTURE, options)
    assert [(s.stages, s.tensor) for s in found.splits] == [(1, 3), (3, 1)]
    assert found.spec.chips.stages == 3
    assert "3 chips must divide the 8 heads" in found.to_json()["splits"][0]["reason"]
    with pytest.raises(UserError, match="`stages` must be an integer >= 1 or 'auto', got 'two'"):
        ServeOptions(stages="two")
