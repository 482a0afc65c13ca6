"""Models of today against published parameter counts and against closed formulas of MACs and caches (rules W16 to W19)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.core.errors import UserError
from codesign.scheduling.soma.model.from_network import graph_from_network
from codesign.workloads.fuse import fuse
from codesign.workloads.load import load_network
from codesign.workloads.network import OperatorKind
from codesign.workloads.network_json import content_hash
from codesign.workloads.zoo import build_model
from codesign.workloads.zoo.language_models import LANGUAGE_MODELS, decode_macs
from codesign.workloads.zoo.routing import Routing, expected_distinct, expert_load
from codesign.workloads.zoo.speech import SPEECH_MODELS
from codesign.workloads.zoo.state_space import STATE_SPACE_MODELS
from tests.attention_products import has_activation_weights
from tests.examples import examples
from tests.zoo_closed_forms import cross_macs, decoder_macs, encoder_macs, prefill_macs, published_parameters

PUBLISHED = {
    "llama2_7b": 6_738_415_616,
    "llama2_13b": 13_015_864_320,
    "llama2_70b": 68_976_648_192,
    "llama3_8b": 8_030_261_248,
    "llama3_70b": 70_553_706_496,
    "mistral_7b": 7_241_732_096,
    "qwen2_5_0_5b": 494_032_768,
    "qwen2_5_7b": 7_615_616_512,
    "qwen3_0_6b": 596_049_920,
    "qwen3_8b": 8_190_735_360,
    "mixtral_8x7b": 46_702_792_704,
    "deepseek_v2_lite": 15_706_484_224,
    "deepseek_v3": 671_026_419_200 - 58 * 256,  # without the offsets that balance the load of 256 experts in 58 layers
    "mamba_130m": 129_135_360,
    "mamba_2_8b": 2_768_345_600,
}
"""Elements of the files that the authors publish."""


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_parameters_are_the_published_ones(name: str) -> None:
    net = build_model(name, phase="decode", past=5)
    assert net.parameter_elements == PUBLISHED[name]
    assert fuse(net).parameter_elements == PUBLISHED[name]
    if name in LANGUAGE_MODELS:
        assert published_parameters(LANGUAGE_MODELS[name]) == PUBLISHED[name]


def test_gpt3_has_its_parameters_but_for_biases_and_positions() -> None:
    model = LANGUAGE_MODELS["gpt3_175b"]
    left_out = 2048 * 12288 + 96 * (9 * 12288 + 49152 + 12288)
    assert published_parameters(model) + left_out == pytest.approx(174.6e9, rel=5e-4)
    assert build_model("gpt3_175b", phase="decode", past=5).parameter_elements == published_parameters(model)


@pytest.mark.parametrize(
    ("name", "parameters", "macs"),
    [("stable_diffusion_unet", 859_520_964, 401_636_720_640), ("vit_l16", 304_326_632, 61_554_712_576)],
)
def test_models_of_images(name: str, parameters: int, macs: int) -> None:
    net = build_model(name)
    assert (net.parameter_elements, net.macs) == (parameters, macs)


def test_designs_recorded_with_the_u_net_can_be_replayed() -> None:
    """Names of operators are part of the hash that a replay compares."""
    assert content_hash(build_model("stable_diffusion_unet")).startswith("a5765566339f5260")


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("whisper_tiny", 37_760_640),
        ("whisper_base", 72_593_920),
        ("whisper_small", 241_734_912),
        ("whisper_large", 1_543_304_960),
    ],
)
def test_models_of_speech(name: str, parameters: int) -> None:
    model = SPEECH_MODELS[name]
    prefill, decode = build_model(name, seq=4), build_model(name, phase="decode", past=10, batch=2)
    assert model.parameters == parameters
    # a table of positions has the rows that are read
    assert prefill.parameter_elements == parameters - (model.positions - 4) * model.width
    assert prefill.macs == encoder_macs(model) + cross_macs(model) + decoder_macs(model, 4, 0)
    assert decode.macs == 2 * decoder_macs(model, 1, 10)


@examples(36)
@given(st.sampled_from(sorted(LANGUAGE_MODELS)), st.integers(1, 70), st.integers(1, 4))
def test_macs_and_caches_of_language_models(name: str, tokens: int, batch: int) -> None:
    model = LANGUAGE_MODELS[name]
    decode = build_model(name, phase="decode", past=tokens, batch=batch)
    assert decode.macs == batch * decode_macs(model, tokens)
    caches = [n for n in decode.inputs if n.endswith("cache")]
    assert sum(decode.tensor_by_name[n].elements for n in caches) == batch * model.cache_elements(tokens)
    prefill = build_model(name, seq=tokens, batch=batch)
    assert prefill.macs == batch * prefill_macs(model, tokens)
    assert sum(prefill.tensor_by_name[n].elements for n in prefill.outputs[1:]) == batch * model.cache_elements(tokens)


def test_a_cache_is_read_once_and_appended() -> None:
    net = load_network("llama3_8b_block", phase="decode", past=1000, batch=2)
    appends = [o for o in net.operators if o.kind is OperatorKind.APPEND]
    assert len(appends) == 2
    products = [o for o in net.operators if has_activation_weights(net, o)]
    read = sum(net.tensor_by_name[o.operands[1]].elements for o in products)
    assert read == 2 * 2 * 8 * 128 * 1001  # keys and values of 8 heads, though 32 heads ask
    graph = graph_from_network(net)
    outside = sum(
        c * h * w for layer in graph.layers for c, h, w in (graph.external_inputs[e] for e in layer.whole_ext_prevs)
    )
    assert outside == 2 * 8 * 128 * 1000


def test_a_window_bounds_the_cache() -> None:
    net = build_model("mistral_7b_block", phase="decode", past=10_000)
    assert net.tensor_by_name[net.outputs[1]].shape == (1, 8, 4096, 128)
    assert LANGUAGE_MODELS["mistral_7b"].cache_elements(10_000) == 32 * 4096 * 2 * 8 * 128


@pytest.mark.parametrize("name", sorted(STATE_SPACE_MODELS))
def test_a_scan_keeps_a_state_of_one_size(name: str) -> None:
    model = STATE_SPACE_MODELS[name]
    for past in (1, 5000):
        net = build_model(name, phase="decode", past=past, batch=3)
        states = [n for n in net.inputs if n.endswith("state")]
        kept = model.layers * model.inner * (model.states + model.taps - 1)
        assert sum(net.tensor_by_name[n].elements for n in states) == 3 * kept
        assert net.macs == 3 * model.macs(1)
    assert build_model(name, seq=33).macs == model.macs(33)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(1, 64), st.integers(1, 8), st.integers(1, 400), st.sampled_from(Routing))
def test_experts_share_out_every_choice(experts: int, chosen: int, tokens: int, routing: Routing) -> None:
    chosen = min(chosen, experts)
    load = expert_load(experts, chosen, tokens, routing)
    assert sum(count * rows for count, rows in load.groups) == tokens * chosen
    assert chosen <= load.distinct <= min(experts, tokens * chosen)
    if routing is Routing.WORST:
        assert load.distinct == min(experts, tokens * chosen)
    else:
        assert abs(load.distinct - expected_distinct(experts, chosen, tokens)) <= 0.5 or load.distinct == chosen


def test_experts_read_what_a_batch_reaches() -> None:
    each = 3 * 4096 * 14336
    for name, batch, reached in (
        ("mixtral_8x7b_block", 1, 2),
        ("mixtral_8x7b_block", 8, 7),
        ("mixtral_8x7b_block_worst", 3, 6),
    ):
        net = load_network(name, phase="decode", past=100, batch=batch)
        experts = [t for t in net.tensors if t.is_parameter and ".experts." in t.name and "router" not in t.name]
        read = sum(t.elements for t in experts if not t.name.endswith("unread"))
        assert read == reached * each
        assert sum(t.elements for t in experts) == 8 * each
        assert net.fixed_batch
    with pytest.raises(UserError, match="shapes hold for batch 8 only"):
        load_network("mixtral_8x7b_block", batch=8).with_batch(4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seq": 8193}, r"attends to at most 8,192 tokens, got 8,193"),
        ({"phase": "decode", "past": 8192}, r"at most 8,192 tokens, got 8,193"),
        ({"phase": "decode", "past": -1}, "`past` must be an integer >= 0"),
        ({"phase": "decode", "past": 9, "seq": 9}, r"`seq` is 9, but decoding after `past` 9 attends to 10"),
        ({"batch": 0}, "`batch` must be an integer >= 1"),
    ],
)
def test_bad_requests(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        build_model("llama3_8b", **options)  # type: ignore[arg-type]
