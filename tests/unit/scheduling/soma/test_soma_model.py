"""The default model's mends, one by one; the GPT-2 builder; conversion of networks."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codesign.core.goals import Budget, Objective
from codesign.scheduling.soma.evaluator import Invalid, Parsed, Problem, Schedule, evaluate, parse
from codesign.scheduling.soma.kernels import decode as kf
from codesign.scheduling.soma.kernels.tile_cost import halo_extent, tile_cost
from codesign.scheduling.soma.model.cut_layers import cut_wide_layers
from codesign.scheduling.soma.model.decoder_block import decoder_block
from codesign.scheduling.soma.model.from_network import graph_from_network
from codesign.scheduling.soma.model.hardware import EDGE
from codesign.scheduling.soma.model.layer_graph import Layer, LayerGraph, LayerType
from codesign.scheduling.soma.model.load import load_graph
from codesign.scheduling.soma.model.notation import DramScheme, Encoding, FusionScheme, Status
from codesign.scheduling.soma.model.rules import DEFAULT, REFERENCE, ModelOptions
from codesign.scheduling.soma.search.two_stages import Found, SearchOptions, search
from codesign.workloads.load import load_network
from codesign.workloads.zoo.transformers import GPT2

DATA = Path(__file__).parents[3] / "data" / "soma"


def only(**switch: bool) -> ModelOptions:
    return replace(REFERENCE, **switch)


def parsed(graph: LayerGraph, tiles: int, options: ModelOptions, batch: int = 1) -> Parsed:
    n = len(graph.layers)
    found = parse(Problem(graph, batch, EDGE, options), FusionScheme(tuple(range(n)), (0,), (), (tiles,)))
    assert not isinstance(found, Invalid)
    return found


def conv(
    name: str, c: int, k: int, size: int, prevs: tuple[int, ...], kernel: int = 3, stride: int = 1, in_size: int = 0
) -> Layer:
    return Layer(
        name, LayerType.CONV, k, size, size, c, R=kernel, S=kernel, stride_h=stride, stride_w=stride, pad_h=kernel // 2, pad_w=kernel // 2,
        in_h=in_size or size, in_w=in_size or size, ifm_prevs=prevs, ext_prevs=() if prevs else (0,),
    )  # fmt: skip


def cost(layer: Layer, shape: tuple[int, int, int, int], options: ModelOptions) -> np.ndarray:
    graph = LayerGraph(
        "one", (replace(layer, ifm_prevs=(), wgt_prevs=(), ext_prevs=(0,)),), ((layer.C, layer.in_h, layer.in_w),)
    )
    row = graph.table[0].copy()
    if layer.wgt_prevs:
        row = (
            LayerGraph(
                "row", (replace(layer, ifm_prevs=(), wgt_prevs=(), on_chip_weights=True, ext_prevs=(0,)),), ((1, 1, 1),)
            )
            .table[0]
            .copy()
        )
    out = np.zeros(7)
    tile_cost(row, *shape, EDGE.integers(), EDGE.reals(), options.flags, out)
    return out


def test_the_group_that_has_no_tiles_is_named_by_its_layers() -> None:
    graph = LayerGraph(
        "three", tuple(conv(n, 16, 16, 8, (i - 1,) if i else ()) for i, n in enumerate("abc")), ((16, 8, 8),)
    )
    found = parse(Problem(graph, 1, EDGE, REFERENCE), FusionScheme((0, 1, 2), (0,), (1,), (4, 4096)))
    assert isinstance(found, Invalid) and found.status is Status.TILE_NUMBER_TOO_LARGE
    assert found.reason == "4096 tiles are too many for the group of b, c (batch 1)"


def test_interior_halos_count_both_sides_from_three_cuts_on() -> None:
    graph = LayerGraph("halo", (conv("a", 16, 16, 32, ()), conv("b", 16, 16, 32, (0,))), ((16, 32, 32),))
    shapes = {o: parsed(graph, 16, o).layers[0].shape for o in (REFERENCE, only(interior_halos=True))}
    assert shapes[REFERENCE] == (1, 16, 9, 9)  # 8 rows, one neighbour, one side of padding
    assert shapes[only(interior_halos=True)] == (1, 16, 10, 10)
    two = {o: parsed(graph, 4, o).layers[0].shape for o in (REFERENCE, only(interior_halos=True))}
    assert two[REFERENCE] == two[only(interior_halos=True)] == (1, 16, 17, 17)  # both tiles touch an edge


def test_channel_clamp_keeps_a_producers_own_channels() -> None:
    graph = load_graph(str(DATA / "networks" / "toy_902.json")).graph
    assert [e.shape[1] for e in parsed(graph, 4, REFERENCE).layers] == [32, 64, 64, 32]
    assert [e.shape[1] for e in parsed(graph, 4, only(channel_clamp=True)).layers] == [32, 16, 48, 32]


def test_vector_traffic_adds_buffer_energy_and_bandwidth() -> None:
    layer = Layer("add", LayerType.ELTWISE, 64, 8, 8, 64, operands=2, in_h=8, in_w=8, ext_prevs=(0,))
    free, paid = cost(layer, (1, 64, 8, 8), REFERENCE), cost(layer, (1, 64, 8, 8), only(vector_traffic=True))
    written = 64 * 64
    assert (free[0], free[2]) == (2 * written / 512, 0)
    assert paid[0] == 2 * written / EDGE.gbuf_bytes_per_cycle
    assert paid[2] == pytest.approx(2 * written * EDGE.gbuf.read_pj_per_byte + written * EDGE.gbuf.write_pj_per_byte)


def test_attention_products_wait_for_the_buffer() -> None:
    layer = Layer("qk", LayerType.GROUP_CONV, 6144, 1, 1, 768, groups=12, wgt_prevs=(0,), ifm_prevs=(0,))
    free, paid = cost(layer, (1, 6144, 1, 1), REFERENCE), cost(layer, (1, 6144, 1, 1), only(attention_bandwidth=True))
    assert paid[0] >= 12 * (512 * 64) / EDGE.gbuf_bytes_per_cycle > free[0]


def test_strided_layers_read_their_input_extent() -> None:
    layer = conv("s", 16, 16, 16, (), kernel=3, stride=2, in_size=32)
    free, paid = cost(layer, (1, 16, 16, 16), REFERENCE), cost(layer, (1, 16, 16, 16), only(strided_reads=True))
    assert paid[2] > free[2] + 16 * 32 * 32 * 0.5 * EDGE.gbuf.read_pj_per_byte
    dense = conv("d", 16, 16, 16, ())
    assert cost(dense, (1, 16, 16, 16), REFERENCE) == pytest.approx(
        cost(dense, (1, 16, 16, 16), only(strided_reads=True))
    )


def test_loads_before_their_producers_store_are_refused_only_when_mended() -> None:
    graph = load_graph(str(DATA / "networks" / "toy_903.json")).graph
    case = next(
        c
        for c in json.loads((DATA / "eval" / "in_903_stage2.json").read_text())
        if c["name"] == "invalid_IFM_before_OFM_of_producer"
    )
    fusion = FusionScheme((0, 1, 2, 4, 3), (0, 2), (1,), (2, 1, 2))
    encoding = Encoding(fusion, DramScheme(tuple(case["order"])))
    assert isinstance(evaluate(Problem(graph, 1, EDGE, REFERENCE), encoding), Schedule)
    mended = evaluate(Problem(graph, 1, EDGE, only(store_before_load=True)), encoding)
    assert isinstance(mended, Invalid) and mended.status is Status.LOAD_BEFORE_STORE


@pytest.mark.parametrize(
    ("file", "tokens", "past"), [("gpt2_small_prefill_512", 512, 0), ("gpt2_small_decode_513", 1, 512)]
)
def test_the_built_gpt2_block_is_the_reference_graph(file: str, tokens: int, past: int) -> None:
    built = decoder_block(file, GPT2["small"], tokens, past)
    read = load_graph(str(DATA / "networks" / f"{file}.json")).graph
    assert (built.table == read.table).all()
    for mine, theirs in ((built.producers, read.producers), (built.externals, read.externals)):
        assert all((a == b).all() for a, b in zip(mine, theirs, strict=True))
    assert built.external_inputs == read.external_inputs


@pytest.mark.parametrize(
    "name",
    [
        "resnet50",
        "mobilenet_v2",
        "bert_base",
        "squeezenet",
        "stable_diffusion_unet",
        "whisper_tiny",
        "mamba_130m_block",
        "vit_b16",
    ],
)
def test_converted_networks_keep_their_operations_and_weights(name: str) -> None:
    network = load_network(name, batch=1)
    graph = graph_from_network(network)
    macs = sum(layer.ops for layer in graph.layers if layer.is_matrix)
    assert macs == network.macs
    assert {layer.name: layer.ops for layer in graph.layers if layer.is_matrix} == {
        o.name: o.macs for o in network.operators if o.computation is not None
    }
    weights = sum(layer.weight_bytes for layer in graph.layers)
    in_products = sum(
        t.size_bytes
        for o in network.operators
        if o.computation is not None
        for t in network.parameters(o)
        if len(t.shape) > 1
    )
    assert weights == in_products
    edges = {(p, i) for i, layer in enumerate(graph.layers) for p in layer.prevs}
    assert all(p < i for p, i in edges)


def test_whole_edges_need_all_of_the_producer() -> None:
    first = conv("a", 8, 8, 16, ())
    second = Layer("flat", LayerType.CONV, 10, 1, 1, 8 * 16 * 16, whole_prevs=(0,))
    graph = LayerGraph("flatten", (first, second), ((8, 16, 16),))
    found = parsed(graph, 2, DEFAULT, batch=2)
    assert found.layers[0].shape == (1, 8, 16, 16)
    apart = parse(Problem(graph, 2, EDGE, DEFAULT), FusionScheme((0, 1), (0, 1), (), (2, 2)))
    assert isinstance(apart, Parsed)
    loads = apart.tensors[(apart.tensors[:, 0] == kf.LOAD_IFMAP) & (apart.tensors[:, 1] == 1)]
    assert loads[:, 4].tolist() == [8 * 16 * 16] * 2


def test_a_dilated_filter_has_the_work_of_its_taps_and_the_halo_of_its_span() -> None:
    dense = conv("dense", 64, 64, 32, ())
    wide = replace(dense, name="wide", dilation_h=4, dilation_w=4, pad_h=4, pad_w=4)
    assert (wide.weight_bytes, wide.ops, wide.span) == (dense.weight_bytes, dense.ops, (9, 9))
    for shape in ((1, 64, 32, 32), (1, 64, 8, 8), (1, 64, 1, 1)):
        plain, dilated = cost(dense, shape, DEFAULT), cost(wide, shape, DEFAULT)
        assert dilated[5] == plain[5]  # energy of the multiply-accumulates
        assert plain[0] <= dilated[0] <= 1.5 * plain[0]
    graph = LayerGraph("two", (conv("a", 64, 64, 32, ()), replace(wide, ifm_prevs=(0,), ext_prevs=())), ((64, 32, 32),))
    assert parsed(graph, 16, DEFAULT).layers[0].shape == (1, 64, 16, 16)  # 8 rows and 4 on both sides


def test_one_output_reads_no_more_than_its_taps() -> None:
    # 4 outputs in 4 pieces of one: 3 rows each, though every window reaches over 9
    assert halo_extent(4, 3, 9, 1, 4, True) == 12
    assert (
        halo_extent(4, 3, 9, 1, 1, True) == 4
    )  # a piece counts its outputs times the stride, halos apart (published rule)
    assert [halo_extent(8, 3, 3, s, p, True) for s, p in ((1, 1), (1, 4), (2, 2))] == [8, 14, 17]
    assert halo_extent(8, 1, 1, 2, 4, True) == 8


def test_layers_with_more_weights_than_the_buffer_are_cut_along_their_channels() -> None:
    first = Layer("a", LayerType.CONV, 4096, 4, 1, 4096, in_h=4, in_w=1, ext_prevs=(0,))
    second = replace(first, name="b", K=100, ifm_prevs=(0,), ext_prevs=())
    graph = LayerGraph("wide", (first, second), ((4096, 4, 1),))
    cut = cut_wide_layers(graph, EDGE.gbuf.capacity_bytes)
    assert [layer.name for layer in cut.layers] == [*(f"a[{i}]" for i in range(8)), "b"]
    assert cut.layers[-1].ifm_prevs == tuple(range(8))
    assert sum(layer.ops for layer in cut.layers) == sum(layer.ops for layer in graph.layers)
    assert sum(layer.weight_bytes for layer in cut.layers) == sum(layer.weight_bytes for layer in graph.layers)
    found = search(Problem(cut, 1, EDGE, DEFAULT), Objective.EDP, SearchOptions(Budget(evaluations=500)))
    assert isinstance(found, Found)
    weights = sum(layer.weight_bytes for layer in graph.layers)
    assert found.schedule.parsed.dram_bytes["weights"] == weights
    assert cut_wide_layers(graph, 2 * first.weight_bytes) == graph


def test_outside_operands_are_read_whole() -> None:
    layer = Layer(
        "qk", LayerType.GROUP_CONV, 8 * 100, 4, 1, 8 * 64, groups=8, in_h=4, in_w=1, ext_prevs=(0,), whole_ext_prevs=(1,),
        on_chip_weights=True,
    )  # fmt: skip
    graph = LayerGraph("scores", (layer,), ((8 * 64, 4, 1), (8, 100, 64)))
    found = parse(Problem(graph, 3, EDGE, DEFAULT), FusionScheme((0,), (0,), (), (3,)))
    assert isinstance(found, Parsed)
    loads = found.tensors[found.tensors[:, 0] == kf.LOAD_IFMAP]
    assert sorted(loads[:, 4].tolist()) == [8 * 64 * 4] * 3 + [8 * 100 * 64] * 3
