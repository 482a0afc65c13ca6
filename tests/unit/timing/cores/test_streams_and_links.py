"""Streams, sums over chips and launches on a system of cores (rules G5 to G9), and its tables."""

import pytest

from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.timing.cores.collectives import all_reduce_s
from codesign.timing.cores.matmul import Product
from codesign.timing.cores.streams import Stream, StreamKind, stream_time
from codesign.timing.cores.system import load_system, system_from_json, system_names, system_of
from experiments.models.gpt_layer import GptLayer, layer_parts_s
from experiments.models.launches import Launch, product_s, stream_s

A100, MI210 = load_system("a100"), load_system("mi210")


def test_a_copy_takes_its_bytes_at_the_rate_that_dram_reaches() -> None:
    found = stream_time(A100, Stream(StreamKind.COPY, 1 << 20, 1024))
    assert found.dram_bytes == 4 << 30
    assert found.seconds == pytest.approx((4 << 30) / (0.859 * 2038.86e9), rel=1e-3)


def test_rows_that_fit_a_core_are_read_once() -> None:
    short, long = (stream_time(A100, Stream(StreamKind.LAYERNORM, 65536, n)) for n in (8192, 32768))
    assert short.dram_bytes == 65536 * 8192 * 4
    assert 65536 * 32768 * 4 < long.dram_bytes < 65536 * 32768 * 8


def test_rows_that_the_cache_holds_are_read_once() -> None:
    assert stream_time(MI210, Stream(StreamKind.SOFTMAX, 100, 20000, 4, 4)).dram_bytes == 100 * 20000 * 8


def test_a_round_of_rows_waits_for_its_sums() -> None:
    rows = 8 * MI210.cores
    one, two = (stream_time(MI210, Stream(StreamKind.LAYERNORM, n, 8)).seconds for n in (rows, rows + 1))
    assert two - one == pytest.approx(MI210.constant("row_latency_s"), rel=1e-3)


def test_large_sums_reach_the_bus_bandwidth() -> None:
    size = 1 << 36
    assert all_reduce_s(A100, size, 4) == pytest.approx(1.5 * size / 235e9, rel=1e-3)
    assert all_reduce_s(A100, size, 1) == 0
    with pytest.raises(UserError, match="links between chips are not known"):
        all_reduce_s(MI210, size, 4)


def test_graphs_leave_the_host_out() -> None:
    product, stream = Product(8, 4096, 4096), Stream(StreamKind.GELU, 4096, 1)
    assert product_s(A100, product, Launch.GRAPH) < product_s(A100, product) - 15e-6
    assert stream_s(A100, stream, Launch.GRAPH) < stream_s(A100, stream) - 30e-6
    assert stream_s(A100, stream) == stream_s(A100, Stream(StreamKind.GELU, 8192, 1))  # the kernel is hidden


def test_four_chips_share_a_layer() -> None:
    one, four = (layer_parts_s(A100, GptLayer(12288, 96, 8, 2048, 2048, chips)) for chips in (1, 4))
    assert one["AllReduce_MHA"] == 0 < four["AllReduce_MHA"]
    assert 3.5 < one["W1_proj"] / four["W1_proj"] < 4.1
    with pytest.raises(UserError, match="5 chips must divide 96 heads"):
        GptLayer(12288, 96, 8, 1, 1, 5)


@pytest.mark.parametrize("name", system_names())
def test_every_constant_has_a_source(name: str) -> None:
    for constant in load_system(name).constants:
        assert constant.source
        assert ("fitted" in constant.source) == bool(constant.fitted_on)


def test_a_system_follows_its_architecture() -> None:
    small = load_preset("a100").with_level("HBM", read_bandwidth_words_per_cycle=10.0)
    found = system_of(small)
    assert found is not None and found.dram_bytes_per_s == pytest.approx(10 * 32 * 1.41e9)
    assert system_of(load_preset("tpu")) is None


def test_a_table_may_be_the_same_as_another_but_for_what_it_gives() -> None:
    h200 = load_system("h200")
    assert (h200.constant("vector_lanes"), h200.constant("matrix_share")) == (16896, A100.constant("matrix_share"))


def test_bad_tables_are_refused() -> None:
    architecture = load_preset("a100")
    with pytest.raises(UserError, match="did you mean 'matrix_share'"):
        system_from_json({"constants": [{"name": "matrix_shar", "value": 1, "source": "x"}]}, architecture, "f")
    with pytest.raises(UserError, match="constant `matrix_share` is missing"):
        system_from_json({"constants": []}, architecture, "f")
    with pytest.raises(UserError, match="`value` must be a number >= 0, got -1"):
        system_from_json({"constants": [{"name": "start_s", "value": -1, "source": "x"}]}, architecture, "f")
    table = {"constants": [{"name": c.name, "value": c.value, "source": "x"} for c in MI210.constants]}
    with pytest.raises(UserError, match="expected the levels DRAM, shared cache, local memory and registers"):
        system_from_json(table, load_preset("tpu"), "f")
    with pytest.raises(UserError, match="did you mean 'a100'"):
        load_system("a10")
    with pytest.raises(UserError, match=r"unknown system of cores 'b100' \(f\)"):
        system_from_json({"same_as": "b100", "constants": []}, architecture, "f")
    with pytest.raises(UserError, match="did you mean 'start_s'"):
        A100.with_constants({"start": 1.0})
