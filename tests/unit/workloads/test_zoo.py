import re

import pytest

from codesign.core.errors import UserError
from codesign.workloads.network import OperatorKind
from codesign.workloads.zoo import ZOO, build_model, is_zoo_name

LARGE = "llama|mistral|qwen|mamba|whisper_[sl]"
LIGHT = [n for n in sorted(ZOO) if not re.match("mixtral|deepseek", n) and ("block" in n or not re.match(LARGE, n))]
"""Models that are quickly built: of the largest, one block (test_models_of_today.py has them whole)."""

PUBLISHED_MACS = {
    # name: (published figure, half a unit of its last digit, source)
    "alexnet": (724e6, 0.5e6, "Sze et al., Proc. IEEE 2017, Table II"),
    "vgg16": (15.5e9, 0.05e9, "Sze et al., Proc. IEEE 2017, Table II"),
    "vgg19": (19.632e9, 0.0005e9, "torchvision model metadata"),
    "resnet18": (1.814e9, 0.0005e9, "torchvision model metadata"),
    "resnet34": (3.664e9, 0.0005e9, "torchvision model metadata"),
    "resnet50": (4.089e9, 0.0005e9, "torchvision model metadata"),
    "resnet101": (7.801e9, 0.0005e9, "torchvision model metadata"),
    "resnext50": (4.23e9, 0.005e9, "torchvision model metadata"),
    "densenet121": (2.834e9, 0.0005e9, "torchvision model metadata"),
    "squeezenet": (0.349e9, 0.0005e9, "torchvision model metadata (1.1)"),
    "mobilenet_v2": (0.301e9, 0.0005e9, "torchvision model metadata"),
    "vit_b16": (17.564e9, 0.0005e9, "torchvision model metadata"),
    "mobilenet_v1": (569e6, 0.5e6, "Howard et al. 2017, Table 8"),
    "resnet50_v1": (3.8e9, 0.1e9, "He et al. 2016, Table 1 (3.8e9 multiply-adds)"),
    "darknet19": (5.58e9 / 2, 0.005e9, "Redmon and Farhadi 2017: 5.58e9 operations"),
    "xception": (8.4e9, 0.05e9, "pytorch-image-models results table"),
    "bert_base": (22.5e9 / 2, 0.1e9, "Jiao et al. 2020 (TinyBERT), Table 1: 22.5e9 operations, 128 tokens"),
}

PUBLISHED_PARAMETERS = {
    # name: (published count, buffers that the source leaves out: two running statistics per normalised channel)
    "alexnet": (60_965_224, 0),  # Caffe's bvlc_alexnet
    "vgg16": (138_357_544, 0),
    "vgg19": (143_667_240, 0),
    "resnet18": (11_689_512, 2 * 4800),
    "resnet34": (21_797_672, 2 * 8512),
    "resnet50": (25_557_032, 2 * 26560),
    "resnet101": (44_549_160, 2 * 52672),
    "resnext50": (25_028_904, 2 * 34112),
    "densenet121": (7_978_856, 2 * 41824),
    "squeezenet": (1_235_496, 0),
    "mobilenet_v1": (4_231_976, 2 * 10944),
    "mobilenet_v2": (3_504_872, 2 * 17056),
    "vit_b16": (86_567_656, 0),
    "xception": (22_910_480, 0),  # Keras counts the statistics
}


@pytest.mark.parametrize("name", sorted(PUBLISHED_MACS))
def test_macs_are_the_published_ones(name: str) -> None:
    published, rounding, _ = PUBLISHED_MACS[name]
    assert abs(build_model(name).macs - published) <= rounding


@pytest.mark.parametrize("name", sorted(PUBLISHED_PARAMETERS))
def test_parameters_are_the_published_ones(name: str) -> None:
    published, buffers = PUBLISHED_PARAMETERS[name]
    assert build_model(name).parameter_elements == published + buffers


def test_transformer_parameters_at_full_length() -> None:
    assert build_model("bert_base", seq=512).parameter_elements == 109_482_240
    assert build_model("gpt2_small", seq=1024).parameter_elements == 124_439_808
    assert build_model("gpt2_xl", seq=1024).parameter_elements == 1_557_611_200


def test_stages_of_googlenet_have_the_operations_of_its_paper() -> None:
    """Szegedy et al. 2015, Table 1, column ops, in millions, cut or rounded.

    Two lines contradict the channels in the same table: conv1 (34 printed, 118 by its sizes) and 5a (54 printed, 51).
    """
    table = {
        "conv1": 118,
        "conv2": 360,
        "inception_3a": 128,
        "inception_3b": 304,
        "inception_4a": 73,
        "inception_4b": 88,
        "inception_4c": 100,
        "inception_4d": 119,
        "inception_4e": 170,
        "inception_5a": 51,
        "inception_5b": 71,
        "fc": 1,
    }
    ours = dict.fromkeys(table, 0)
    for operator in build_model("googlenet").operators:
        if operator.macs:
            ours[operator.name.split(".")[0]] += operator.macs
    for name, millions in table.items():
        assert abs(ours[name] / 1e6 - millions) < 1, name


def test_shufflenet_has_the_complexity_of_its_paper() -> None:
    """Zhang et al. 2018, Table 2: ShuffleNet 1x with 4 groups, 133 MFLOPs (multiply-adds), without its last layer."""
    net = build_model("shufflenet_v1")
    assert round((net.macs - net.operator_by_name["fc"].macs) / 1e6) == 133


def test_layer_sizes_of_alexnet() -> None:
    net = build_model("alexnet")
    convs = [o for o in net.operators if o.kind is OperatorKind.CONV]
    assert [net.tensor_by_name[o.outputs[0]].shape[2] for o in convs] == [55, 27, 13, 13, 13]
    assert [o.macs for o in convs] == [105_415_200, 223_948_800, 149_520_384, 112_140_288, 74_760_192]


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("seq", [1, 7, 1024])
@pytest.mark.parametrize(("name", "layers", "width"), [("gpt2_small", 12, 768), ("gpt2_xl", 48, 1600)])
def test_gpt2_of_any_length_and_batch(name: str, layers: int, width: int, seq: int, batch: int) -> None:
    head = width * 50257
    per_token = 12 * width * width
    prefill = build_model(name, seq=seq, batch=batch)
    assert prefill.macs == batch * (layers * (seq * per_token + 2 * seq * seq * width) + head)
    decode = build_model(name, seq=seq, batch=batch, phase="decode")
    assert decode.macs == batch * (layers * (per_token + 2 * seq * width) + head)


def test_decoding_keeps_a_cache() -> None:
    net = build_model("gpt2_small", seq=513, phase="decode")
    assert len(net.inputs) == 1 + 2 * 12
    assert len(net.outputs) == 1 + 2 * 12
    assert net.tensor_by_name["layer1.key_cache"].elements == 768 * 512
    assert net.tensor_by_name[net.outputs[1]].elements == 768 * 513
    # the prefill leaves what decoding starts from
    prefill = build_model("gpt2_small", seq=512)
    assert prefill.tensor_by_name[prefill.outputs[1]].elements == 768 * 512


def test_output_table_is_the_embedding_table() -> None:
    net = build_model("gpt2_small")
    assert net.operator_by_name["head"].operands[1] == "word_embedding.table"
    assert [o.name for o in net.consumers["word_embedding.table"]] == ["word_embedding", "head"]


def test_deepbench_layers_are_independent() -> None:
    for name in ("deepbench_conv", "deepbench_gemm"):
        net = build_model(name)
        assert len(net.operators) == len(net.inputs) == len(net.outputs) == len(net.distinct_layers())
    face = build_model("deepbench_conv").operator_by_name["face1"].computation
    assert face is not None
    assert face.sizes == {"N": 1, "K": 64, "C": 3, "P": 54, "Q": 54, "R": 3, "S": 3}
    speech = build_model("deepbench_conv").operator_by_name["speech1"].computation
    assert speech is not None
    assert (speech.sizes["P"], speech.sizes["Q"]) == (79, 341)  # feeds the next layer of the table


@pytest.mark.parametrize("name", ["MobileNet-v2", "mobilenetv2", "MOBILENET_V2", "mobile net v2"])
def test_names_are_lenient(name: str) -> None:
    assert is_zoo_name(name)
    assert build_model(name).name == "mobilenet_v2"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet5", {}, r"unknown network 'resnet5'; did you mean 'resnet50'"),
        ("resnet50", {"seq": 4}, "`seq` was given, but this network has no sequence"),
        ("resnet50", {"phase": "decode"}, "`phase` was given, but this network has no phases"),
        ("bert_base", {"phase": "decode"}, "`phase` was given, but this network has no phases"),
        ("bert_base", {"seq": 0}, "`seq` must be an integer >= 1, got 0"),
        ("gpt2_xl", {"phase": "prefil"}, r"unknown phase 'prefil'.*did you mean 'prefill'"),
        ("gpt2_xl", {"batch": 0}, "`batch` must be an integer >= 1, got 0"),
    ],
)
def test_bad_requests(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        build_model(name, **options)  # type: ignore[arg-type]
    assert re.search(message, str(caught.value))


@pytest.mark.parametrize("name", LIGHT)
def test_every_model_is_sound(name: str) -> None:
    net = build_model(name, bits=8, partial_bits=24)
    assert net.batch == 1
    assert not net.fixed_batch
    assert all(net.consumers[t.name] or t.name in net.outputs for t in net.tensors)
    for operator in net.operators:
        if operator.computation is not None:
            assert operator.batch_dim is not None
            assert operator.computation.output.partial_bits == 24
        elif operator.kind not in (
            OperatorKind.RESHAPE,
            OperatorKind.CONCAT,
            OperatorKind.APPEND,
            OperatorKind.SLICE,
            OperatorKind.TRANSPOSE,
            OperatorKind.GATHER,
        ) and operator.function not in ("expand", "nearest"):
            assert operator.operations > 0
