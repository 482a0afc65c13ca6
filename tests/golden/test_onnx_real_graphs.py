"""The real model graphs that the onnx package ships (without weights): all load, MACs as published or explained."""

from collections import Counter
from functools import cache
from pathlib import Path

import onnx
import pytest

from codesign.workloads.load import load_network
from codesign.workloads.network import Network, OperatorKind
from codesign.workloads.zoo import build_model

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
GRAPHS = sorted(FOLDER.glob("*.onnx"))

MACS = {
    "light_bvlc_alexnet": 654_560_384,
    "light_densenet121": 2_834_161_664,
    "light_inception_v1": 1_431_556_352,
    "light_inception_v2": 2_018_851_840,
    "light_resnet50": 4_089_184_256,
    "light_shufflenet": 124_664_528,
    "light_squeezenet": 349_151_936,
    "light_vgg19": 19_632_062_464,
    "light_zfnet512": 1_481_727_008,
}

SAME_AS_ZOO = {
    "light_densenet121": "densenet121",
    "light_resnet50": "resnet50",
    "light_squeezenet": "squeezenet",
    "light_vgg19": "vgg19",
}


@cache
def load(name: str, batch: int | None = None) -> Network:
    return load_network(FOLDER / f"{name}.onnx", batch=batch)


def layers(network: Network) -> Counter[tuple[int, ...]]:
    """(G, K, C, P, Q, R, S) of the whole layer, for every convolution and product."""
    found: Counter[tuple[int, ...]] = Counter()
    for operator in network.operators:
        if operator.computation is None:
            continue
        s = operator.computation.sizes
        if operator.kind is OperatorKind.MATMUL:
            found[(1, s["N"], s["K"], 1, 1, 1, 1)] += 1
            continue
        g = s.get("G", 1 if "K" in s else s["C"])
        k, c = (s["K"] * g, s["C"] * g) if "K" in s else (s["C"], s["C"])
        found[(g, k, c, s["P"], s["Q"], s["R"], s["S"])] += 1
    return found


def test_there_are_nine_graphs() -> None:
    assert [g.stem for g in GRAPHS] == sorted(MACS)


@pytest.mark.parametrize("name", sorted(MACS))
@pytest.mark.thinned(2)
def test_loads_whole(name: str) -> None:
    net = load(name)
    assert net.macs == MACS[name]
    assert net.warnings == ()
    assert OperatorKind.OPAQUE not in {o.kind for o in net.operators}
    assert len(net.inputs) == 1
    assert net.tensor_by_name[net.inputs[0]].shape == (1, 3, 224, 224)
    assert [net.tensor_by_name[n].elements for n in net.outputs] == [1000]
    assert net.macs == load_network(FOLDER / f"{name}.onnx", fuse=False).macs


@pytest.mark.parametrize("name", sorted(MACS))
@pytest.mark.thinned(3)
def test_batch_of_the_caller(name: str) -> None:
    four = load(name, batch=4)
    assert four.macs == 4 * MACS[name]
    assert four == load(name).with_batch(4)
    assert four.parameter_bytes == load(name).parameter_bytes


@pytest.mark.parametrize("name", sorted(SAME_AS_ZOO))
def test_layers_are_those_of_the_zoo(name: str) -> None:
    assert layers(load(name)) == layers(build_model(SAME_AS_ZOO[name]))


def test_inception_v2_is_the_published_two_billion() -> None:
    """Szegedy et al. 2016 (Rethinking), Table 3: BN-Inception, 2.0 billion operations (multiply-adds)."""
    assert round(load("light_inception_v2").macs / 1e9, 1) == 2.0


def differences(name: str, published: str) -> tuple[Counter[tuple[int, ...]], Counter[tuple[int, ...]]]:
    """Layers of the file alone, and of the published network alone."""
    ours, theirs = layers(load(name)), layers(build_model(published))
    return ours - theirs, theirs - ours


def test_alexnet_differs_by_its_input_of_224_pixels() -> None:
    """Without padding 224 gives 54, 26 and 12 pixels where the published 227 gives 55, 27 and 13."""
    ours, theirs = differences("light_bvlc_alexnet", "alexnet")
    smaller = {55: 54, 27: 26, 13: 12}
    assert ours == Counter({(g, k, c, smaller[p], smaller[q], r, s): n for (g, k, c, p, q, r, s), n in theirs.items()})
    assert sum(theirs.values()) == 5  # all convolutions, no fully connected layer


def test_inception_v1_differs_by_rounding_its_poolings_down() -> None:
    """The converter dropped Caffe's rounding up: 55, 27, 13, 6 pixels instead of 56, 28, 14, 7."""
    ours, theirs = differences("light_inception_v1", "googlenet")
    smaller = {56: 55, 28: 27, 14: 13, 7: 6}
    assert ours == Counter({(g, k, c, smaller[p], smaller[q], r, s): n for (g, k, c, p, q, r, s), n in theirs.items()})
    assert sum(theirs.values()) == 56  # all but the first convolution and the classifier


def test_zfnet512_is_a_wider_variant() -> None:
    """conv3 to conv5 have 512 channels, fc7 1024; the input is padded differently (109, 25 and 12 pixels)."""
    ours, theirs = differences("light_zfnet512", "zfnet")
    assert (
        sorted(ours.elements())
        == [
            (1, 96, 3, 109, 109, 7, 7),
            (1, 256, 96, 25, 25, 5, 5),
            (1, 512, 256, 12, 12, 3, 3),
            (1, 512, 512, 12, 12, 3, 3),
            (1, 512, 512, 12, 12, 3, 3),
            (1, 1000, 1024, 1, 1, 1, 1),
            (1, 1024, 4096, 1, 1, 1, 1),
            (1, 4096, 18432, 1, 1, 1, 1),
        ]
        or sorted(ours.elements()) == []
    )
    assert sum(theirs.values()) == 8


def test_shufflenet_is_a_variant_without_narrow_bottlenecks() -> None:
    """Same units, strides and groups of 4; stages of 136, 272 and 544 channels, and bottlenecks as wide as their stage."""
    file, paper = load("light_shufflenet"), build_model("shufflenet_v1")

    def units(network: Network) -> list[tuple[int, int]]:
        """(pixels, stride of the layer) of every depthwise layer, in order."""
        depthwise = [o for o in network.operators if o.computation and "K" not in o.computation.sizes and o.window]
        return [(o.computation.sizes["P"], o.window.stride[0]) for o in depthwise]  # type: ignore[union-attr]

    assert units(file) == units(paper)
    groups = {g for g, *_ in layers(file)}
    assert {1, 4} <= groups
    widths = {k for g, k, *_ in layers(file) if g == 4}
    assert widths == {112, 136, 272, 544}
