import random

from hypothesis import given
from hypothesis import strategies as st

from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.fuse import fuse
from codesign.workloads.network import Network
from codesign.workloads.network_json import content_hash, network_from_json, network_to_json
from codesign.workloads.traffic import Activations, TrafficRules, kept_tensors, operator_traffic, storage_groups
from tests.examples import examples


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Random graphs of images ``1 x 4 x 4 x 4``: convolutions, normalisations, functions, sums, joins, views."""
    net = NetworkBuilder("random")
    live = [net.input("x", (1, 4, 4, 4))]
    for _ in range(draw(st.integers(1, 12))):
        x = draw(st.sampled_from(live))
        kind = draw(st.sampled_from(("conv", "bn", "relu", "gelu", "add", "concat", "pool", "view", "scale")))
        if kind == "conv":
            live.append(net.conv(x, 4, 3, bias=draw(st.booleans())))
        elif kind == "bn":
            live.append(net.batch_norm(x))
        elif kind in ("relu", "gelu"):
            live.append(net.activation(x, kind))
        elif kind == "add":
            live.append(net.residual(x, draw(st.sampled_from(live))))
        elif kind == "concat":
            joined = net.concat(x, draw(st.sampled_from(live)))
            live.append(net.conv(joined, 4, 1))
        elif kind == "pool":
            live.append(net.pool(x, 3, stride=1, padding=1))
        elif kind == "view":
            live.append(net.reshape(net.flatten(x), (1, 4, 4, 4)))
        else:
            live.append(net.elementwise("mul", x, net.parameter(net.unique("gain"), (4, 1, 1)), name="scale"))
    read = {name for operator in net.operators for name in operator.inputs}
    ends = [name for name in live[1:] if name not in read]
    return net.build(*ends)


@examples(80)
@given(networks())
def test_fusing_keeps_work_and_dependencies(net: Network) -> None:
    fused = fuse(net)
    assert fused.macs == net.macs
    assert fuse(fused) == fused
    assert sum(o.operations for o in fused.operators) <= sum(o.operations for o in net.operators)
    assert fuse(net.with_batch(3)) == fused.with_batch(3)
    # what an output needs of the network inputs and of convolutions is what it needed before
    assert [needs(fused, o) for o in fused.outputs] == [needs(net, o) for o in dict.fromkeys(map_back(net, fused))]


def map_back(net: Network, fused: Network) -> list[str]:
    """Outputs of the network; a view among them is called by its source once fused."""
    names = []
    for name in net.outputs:
        while name not in fused.tensor_by_name:
            name = net.producers[name].inputs[0]
        names.append(name)
    return names


def needs(net: Network, output: str) -> set[str]:
    """Names of the matrix operators and inputs that an output depends on."""
    found, pending, seen = set(), [output], set()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        operator = net.producers.get(name)
        if operator is None:
            if not net.tensor_by_name[name].is_parameter:
                found.add(name)
            continue
        if operator.computation is not None:
            found.add(operator.name)
        pending.extend(operator.inputs)
    return found


@examples(60)
@given(networks(), st.randoms(use_true_random=False))
def test_file_form_and_order(net: Network, rng: random.Random) -> None:
    for network in (net, fuse(net)):
        again = network_from_json(network_to_json(network))
        assert again == network
        assert content_hash(again) == content_hash(network)
        shuffled = list(network.operators)
        rng.shuffle(shuffled)
        resorted = Network.sorted(network.name, shuffled, network.tensors, network.inputs, network.outputs)
        assert set(resorted.operators) == set(network.operators)
        assert resorted.distinct_layers() != () or network.macs == 0


@examples(60)
@given(networks(), st.integers(0, 2000))
def test_kept_activations_fit_and_save(net: Network, capacity: int) -> None:
    kept = kept_tensors(net, capacity)
    for step in range(len(net.operators)):
        live = [g for g in storage_groups(net, TrafficRules()) if g.first <= step <= g.last and set(g.tensors) <= kept]
        assert sum(g.size_bytes for g in live) <= capacity
    everything = operator_traffic(net)
    saving = operator_traffic(net, TrafficRules(activations=Activations.KEPT), capacity)
    for full, less in zip(everything, saving, strict=True):
        assert less.total_bytes <= full.total_bytes
        assert less.operations == full.operations
