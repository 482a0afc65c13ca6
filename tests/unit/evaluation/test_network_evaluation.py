"""Whole-network rules E1-E7: sums, kept activations, resident weights, vector operators."""

from dataclasses import replace

import pytest

from codesign.arch.architecture import Ports
from codesign.core.errors import UserError
from codesign.core.goals import Budget
from codesign.cost.cost import Infeasible
from codesign.evaluation.design import WithDramPorts
from codesign.evaluation.metrics import format_si, metric_field
from codesign.evaluation.network import EvaluationOptions, WorkloadResult, evaluate_workload
from codesign.mappers.registry import create
from codesign.testing.recomputed_cycles import busy_cycles, is_rounded_up
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.computation import Role
from codesign.workloads.load import load_network
from codesign.workloads.traffic import Activations, TrafficRules, Weights, operator_traffic
from codesign.workloads.workload import Workload
from spaces.cores import CORE_SPACES
from spaces.design import DesignSpace
from spaces.eyeriss import EYERISS
from spaces.scratchpad import SCRATCHPAD

ARCHITECTURE = SCRATCHPAD.build(SCRATCHPAD.space.presets[0])
OPTIONS = EvaluationOptions(budget=Budget(evaluations=200))


def run(workload: Workload, options: EvaluationOptions = OPTIONS) -> WorkloadResult:
    result = evaluate_workload(workload, ARCHITECTURE, create("anneal"), options)
    assert isinstance(result, WorkloadResult)
    return result


ALEXNET = load_network("alexnet", partial_bits=24)


def test_sums_over_layers_and_leakage() -> None:
    result = run(Workload.of([ALEXNET]))
    cycles = sum(layer.latency_cycles * layer.count for layer in result.layers) + result.vector.latency_cycles
    assert result.metrics.latency_s == pytest.approx(cycles / ARCHITECTURE.clock_hz)
    dynamic = sum(layer.energy_pj * layer.count for layer in result.layers) + result.vector.energy_pj
    leakage = ARCHITECTURE.leakage_w * result.metrics.latency_s
    assert result.metrics.energy_j == pytest.approx(dynamic * 1e-12 + leakage)
    assert result.metrics.power_w == pytest.approx(result.metrics.energy_j / result.metrics.latency_s)
    assert result.metrics.area_mm2 == ARCHITECTURE.area_mm2
    assert sum(x.count * x.result.cost.macs for x in result.layers if x.result.cost) == ALEXNET.macs


@pytest.mark.parametrize("space", [SCRATCHPAD, EYERISS, *CORE_SPACES.values()], ids=lambda s: s.name)
def test_dram_of_a_built_in_space_has_one_port(space: DesignSpace) -> None:
    design = space.space.presets[0]
    assert space.build(design).levels[0].ports is Ports.SHARED
    assert WithDramPorts(space, Ports.SEPARATE).build(design).levels[0].ports is Ports.SEPARATE


def test_vector_operators_take_turns_on_one_port() -> None:
    """Rules E6 and L4: bytes read and bytes written add up; with two ports the larger side counts."""
    net = NetworkBuilder("one", bits=8)
    source = net.input("x", (1, 64, 56, 56))
    network = net.build(net.pool(source, 2, stride=2))
    (operator,) = network.operators
    (traffic,) = operator_traffic(network, TrafficRules(), 0)
    read, written = traffic.input_bytes + traffic.parameter_bytes, traffic.output_bytes
    assert read > written > 0, operator
    slow = ARCHITECTURE.with_level("DRAM", read_bandwidth_words_per_cycle=0.5, write_bandwidth_words_per_cycle=0.5)
    found = {}
    for ports in Ports:
        result = evaluate_workload(network, slow.with_dram_ports(ports), create("anneal"), OPTIONS)
        assert isinstance(result, WorkloadResult)
        found[ports] = result.vector.latency_cycles
    assert found == {Ports.SEPARATE: 2 * read, Ports.SHARED: 2 * (read + written)}


def test_equal_layers_are_mapped_once() -> None:
    network = load_network("resnet18", partial_bits=24)
    result = run(Workload.of([network]))
    assert (
        len(result.layers) == len(network.distinct_layers()) < sum(o.computation is not None for o in network.operators)
    )
    assert result.evaluated <= 200 * len(result.layers)


def test_weights_of_networks_multiply() -> None:
    one = run(Workload.of([ALEXNET]))
    three = run(Workload.of([ALEXNET], [3.0]))
    assert three.metrics.latency_s == pytest.approx(3 * one.metrics.latency_s)
    assert three.metrics.energy_j == pytest.approx(3 * one.metrics.energy_j)


def test_kept_activations_and_resident_weights_save_dram_energy() -> None:
    large = SCRATCHPAD.build({**SCRATCHPAD.space.presets[0], "scratchpad_kib": 2048})
    options = replace(OPTIONS, budget=Budget(evaluations=6000))
    keep = replace(options, rules=TrafficRules(activations=Activations.KEPT), activation_bytes=1 << 20)
    stay = replace(options, rules=TrafficRules(weights=Weights.RESIDENT))
    plain, kept, resident = (evaluate_workload(ALEXNET, large, create("anneal"), o) for o in (options, keep, stay))
    assert (
        isinstance(plain, WorkloadResult) and isinstance(kept, WorkloadResult) and isinstance(resident, WorkloadResult)
    )
    assert kept.metrics.energy_j < plain.metrics.energy_j
    assert kept.vector.dram_bytes < plain.vector.dram_bytes
    assert resident.metrics.energy_j < plain.metrics.energy_j
    assert resident.metrics.latency_s < plain.metrics.latency_s


@pytest.mark.parametrize("ports", Ports)
@pytest.mark.parametrize("on_chip", [False, True])
def test_the_cycles_of_every_layer_follow_from_its_accesses(ports: Ports, on_chip: bool) -> None:
    """Rules L2 to L5 and E5: busy cycles, what bounds the layer, and the bytes that cross the DRAM port."""
    machine = SCRATCHPAD.build({**SCRATCHPAD.space.presets[0], "scratchpad_kib": 2048}).with_dram_ports(ports)
    rules = TrafficRules(weights=Weights.RESIDENT) if on_chip else TrafficRules()
    result = evaluate_workload(ALEXNET, machine, create("anneal"), replace(OPTIONS, rules=rules))
    assert isinstance(result, WorkloadResult)
    for layer in result.layers:
        cost = layer.result.cost
        assert cost is not None
        resident = frozenset(t.name for t in layer.computation.tensors if on_chip and t.role is Role.WEIGHT)
        assert len(resident) == on_chip
        for name, cycles in busy_cycles(layer.computation, machine, cost, resident).items():
            assert is_rounded_up(layer.busy_cycles[name], cycles), (layer.name, name)
        assert layer.busy_cycles["compute"] == cost.compute_cycles
        assert layer.latency_cycles == max(layer.busy_cycles.values())
        assert set(layer.bottlenecks) == {n for n, c in layer.busy_cycles.items() if c == layer.latency_cycles}
        crossing = [t for t in cost.levels[0].tensors if t.tensor not in resident]
        assert layer.dram_bytes == sum(t.reads + t.updates for t in crossing)  # one byte an element


def test_no_memory_left_is_infeasible() -> None:
    options = replace(OPTIONS, rules=TrafficRules(activations=Activations.KEPT), activation_bytes=256 * 1024)
    result = evaluate_workload(ALEXNET, ARCHITECTURE, create("anneal"), options)
    assert isinstance(result, Infeasible)
    assert (result.demand, result.limit) == (256 * 1024, 256 * 1024)


def test_an_architecture_without_areas_is_refused() -> None:
    bare = replace(ARCHITECTURE, mac=replace(ARCHITECTURE.mac, area_mm2=None))
    with pytest.raises(UserError, match="the design has no area"):
        evaluate_workload(ALEXNET, bare, create("anneal"), OPTIONS)


def test_metric_names_and_units() -> None:
    assert metric_field("latency") == "latency_s" and metric_field("power_w") == "power_w"
    with pytest.raises(UserError, match=r"unknown objective 'latncy'.*'latency'"):
        metric_field("latncy")
    assert format_si(0.00162, "s") == "1.62 ms"
    assert format_si(0.0, "J") == "0 J"
    assert format_si(0.25, "mm²") == "0.25 mm²"
