import pytest

from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.fuse import fuse
from codesign.workloads.network import Network
from codesign.workloads.traffic import (
    Activations,
    Joins,
    TrafficRules,
    Weights,
    kept_tensors,
    operator_traffic,
    storage_groups,
)
from codesign.workloads.zoo import build_model

KEPT = TrafficRules(activations=Activations.KEPT)


def chain() -> Network:
    """image 48 B -> a 64 B -> b 64 B -> c 64 B -> y 10 B."""
    net = NetworkBuilder("chain")
    x = net.conv(net.input("image", (1, 3, 4, 4)), 4, 1, name="a")
    x = net.conv(x, 4, 1, name="b")
    x = net.conv(x, 4, 1, name="c")
    return fuse(net.build(net.linear(net.flatten(x), 10, bias=False, name="y")))


def by_name(network: Network, rules: TrafficRules | None = None, capacity_bytes: int = 0) -> dict[str, tuple[int, ...]]:
    return {
        t.operator: (t.input_bytes, t.parameter_bytes, t.output_bytes)
        for t in operator_traffic(network, rules, capacity_bytes)
    }


def test_everything_crosses_by_default() -> None:
    assert by_name(chain()) == {"a": (48, 12, 64), "b": (64, 16, 64), "c": (64, 16, 64), "y": (64, 640, 10)}
    assert operator_traffic(chain())[0].total_bytes == 48 + 12 + 64


def test_resident_weights_cross_never() -> None:
    figures = by_name(chain(), TrafficRules(weights=Weights.RESIDENT))
    assert figures["y"] == (64, 0, 10)


def test_activations_that_fit_stay() -> None:
    # a and b are live together while b is made: 128 bytes
    assert kept_tensors(chain(), 128) == {"a", "b", "c"}
    assert kept_tensors(chain(), 127) == {"a", "c"}
    assert kept_tensors(chain(), 63) == frozenset()
    assert by_name(chain(), KEPT, 128) == {"a": (48, 12, 0), "b": (0, 16, 0), "c": (0, 16, 0), "y": (0, 640, 10)}
    assert by_name(chain(), KEPT, 127) == {"a": (48, 12, 0), "b": (0, 16, 64), "c": (64, 16, 0), "y": (0, 640, 10)}
    assert by_name(chain(), KEPT, 0) == by_name(chain())


@pytest.mark.parametrize("name", ["resnet50", "densenet121", "gpt2_small"])
def test_kept_memory_never_exceeds_the_capacity(name: str) -> None:
    net = fuse(build_model(name))
    groups = storage_groups(net, KEPT)
    last_total = None
    for capacity in (0, 100_000, 1_000_000, 10**9):
        kept = kept_tensors(net, capacity)
        for step in range(len(net.operators)):
            live = sum(g.size_bytes for g in groups if g.first <= step <= g.last and set(g.tensors) <= kept)
            assert live <= capacity
        total = sum(t.total_bytes for t in operator_traffic(net, KEPT, capacity))
        assert last_total is None or total <= last_total
        last_total = total
    # with room for all of it only inputs, outputs, parameters and what shares memory with them still cross
    outside = {n for g in groups if g.first < 0 or g.last == len(net.operators) for n in g.tensors}
    assert kept == {t.name for t in net.tensors if not t.is_parameter} - outside


def test_concatenation_in_place_or_copied() -> None:
    net = NetworkBuilder("n")
    x = net.input("x", (1, 4, 2, 2))
    a, b = net.conv(x, 4, 1, name="a"), net.conv(x, 8, 1, name="b")
    network = net.build(net.conv(net.concat(a, b), 2, 1, name="c"))
    assert by_name(network)["concat"] == (0, 0, 0)
    assert by_name(network, TrafficRules(joins=Joins.COPY))["concat"] == (48, 0, 48)
    shared = next(g for g in storage_groups(network, TrafficRules()) if "a" in g.tensors)
    assert set(shared.tensors) == {"a", "b", "concat"}
    assert (shared.size_bytes, shared.first, shared.last) == (48, 0, 3)
    apart = storage_groups(network, TrafficRules(joins=Joins.COPY))
    assert all(len(g.tensors) == 1 for g in apart)


def test_views_move_nothing_and_share_memory() -> None:
    net = NetworkBuilder("n")
    x = net.softmax(net.input("x", (1, 4, 2, 2)))
    network = net.build(net.softmax(net.flatten(x), name="y"))
    assert by_name(network)["flatten"] == (0, 0, 0)
    assert {"softmax", "flatten"} in [set(g.tensors) for g in storage_groups(network, TrafficRules())]


def test_a_growing_cache_moves_the_new_part() -> None:
    net = fuse(build_model("gpt2_small", seq=513, phase="decode"))
    assert by_name(net)["layer1.attention.keys"] == (768, 0, 768)
    # the product reads the whole of it
    assert by_name(net)["layer1.attention.qk"] == (768 + 768 * 513, 0, 12 * 513)


def test_a_gather_reads_the_rows_it_writes() -> None:
    net = build_model("gpt2_small", seq=16)
    assert by_name(net)["word_embedding"] == (16, 16 * 768, 16 * 768)


def test_widths_count() -> None:
    net = NetworkBuilder("n", bits=4)
    network = net.build(net.linear(net.input("x", (1, 8)), 3, bias=False))
    assert by_name(network)["linear"] == (4, 12, 2)
