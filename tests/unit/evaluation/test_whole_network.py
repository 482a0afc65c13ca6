"""A whole network on a given architecture: mapped, written, read back, evaluated again."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from codesign.arch.files import architecture_from_json
from codesign.core.errors import UserError
from codesign.core.goals import Budget
from codesign.cost.cost import Cost, Infeasible, evaluate
from codesign.evaluation.mapping_files import read_mappings, write_network_files
from codesign.evaluation.network import EvaluationOptions
from codesign.evaluation.whole_network import NetworkResult, evaluate_network, layer_key, map_network
from codesign.formats.documents import parse_yaml
from codesign.formats.load import load_inputs
from codesign.mappers.registry import create
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.network import Network
from tests.unit.cli.test_evaluate_map_convert import ARCH

EDGE = architecture_from_json(parse_yaml(ARCH, "arch")[0]["architecture"], "arch")
OPTIONS = EvaluationOptions(budget=Budget(evaluations=100))


def make_network() -> Network:
    """A convolution, then two equal linear layers with a ReLU between them."""
    builder = NetworkBuilder("small")
    x = builder.conv(builder.input("x", (1, 4, 10, 10)), 4, 3, name="conv")
    x = builder.flatten(x)
    x = builder.linear(builder.linear(builder.linear(x, 32, name="in"), 32, name="a"), 32, name="b")
    return builder.build(builder.softmax(x))


NETWORK = make_network()


@pytest.fixture(scope="module")
def result() -> NetworkResult:
    found = map_network(NETWORK, EDGE, create("anneal"), OPTIONS)
    assert isinstance(found, NetworkResult)
    return found


def test_equal_layers_are_mapped_once_and_counted(result: NetworkResult) -> None:
    assert [(x.name, x.count) for x in result.layers] == [("conv", 1), ("in", 1), ("a", 2)]
    assert sum(x.count * x.result.cost.macs for x in result.layers if x.result.cost) == NETWORK.macs
    total = sum(x.count * x.latency_cycles for x in result.layers) + result.vector.latency_cycles
    assert result.latency_cycles == total and result.latency_s == total / EDGE.clock_hz


def test_an_architecture_without_areas_has_no_area(result: NetworkResult) -> None:
    assert EDGE.area_mm2 is None and result.metrics()["area_mm2"] is None
    assert result.to_json()["metrics"]["latency_s"] == result.latency_s


def test_every_written_mapping_is_read_alone_and_costs_what_the_layer_costs(
    result: NetworkResult, tmp_path: Path
) -> None:
    write_network_files(result, tmp_path)
    paths = sorted((tmp_path / "mappings").iterdir())
    assert [p.name for p in paths] == ["01-conv.yaml", "02-in.yaml", "03-a.yaml"]
    for path, layer in zip(paths, result.layers, strict=True):
        inputs = load_inputs([tmp_path / "arch.yaml", path])
        cost = evaluate(inputs.need_computation(), inputs.need_architecture(), inputs.need_mapping())
        assert isinstance(cost, Cost) and cost == layer.result.cost


def test_a_folder_of_mappings_gives_the_same_network(result: NetworkResult, tmp_path: Path) -> None:
    write_network_files(result, tmp_path)
    again = evaluate_network(NETWORK, EDGE, read_mappings(tmp_path / "mappings", EDGE), OPTIONS)
    assert isinstance(again, NetworkResult) and again.mapper == "given"
    assert again.metrics() == result.metrics()
    assert [x.result.cost for x in again.layers] == [x.result.cost for x in result.layers]


def test_a_mapping_made_worse_by_hand_is_what_is_evaluated(result: NetworkResult, tmp_path: Path) -> None:
    write_network_files(result, tmp_path)
    file = tmp_path / "mappings" / "03-a.yaml"
    loops = "[{store: DRAM, tensors: [Inputs, Weights, Outputs]}, {for: N, factor: 32}, {for: K, factor: 32}]"
    file.write_text(file.read_text().split("mapping:")[0] + f"mapping: {loops}\n")
    again = evaluate_network(NETWORK, EDGE, read_mappings(tmp_path / "mappings", EDGE), OPTIONS)
    assert isinstance(again, NetworkResult) and again.energy_j > result.energy_j
    assert again.layers[0].result.cost == result.layers[0].result.cost


def test_problem_and_mapping_may_be_two_files_of_one_folder(result: NetworkResult, tmp_path: Path) -> None:
    write_network_files(result, tmp_path)
    for path in list((tmp_path / "mappings").iterdir()):
        problem, mapping = path.read_text().split("mapping:")
        path.with_suffix("").mkdir()
        (path.with_suffix("") / "problem.yaml").write_text(problem)
        (path.with_suffix("") / "mapping.yaml").write_text(f"mapping:{mapping}")
        path.unlink()
    assert len(read_mappings(tmp_path / "mappings", EDGE)) == 3


def test_missing_surplus_and_doubled_mappings_are_refused(result: NetworkResult, tmp_path: Path) -> None:
    write_network_files(result, tmp_path)
    folder = tmp_path / "mappings"
    mappings = read_mappings(folder, EDGE)
    small = dict(list(mappings.items())[:2])
    mapping = next(iter(mappings.values()))
    with pytest.raises(UserError, match=r"layer 'a' of 3 distinct ones: no mapping is given.*map --network"):
        evaluate_network(NETWORK, EDGE, small)
    builder = NetworkBuilder("other")
    other = builder.build(builder.linear(builder.linear(builder.input("x", (1, 4 * 64)), 32), 32))
    assert len({o.computation for o in other.operators}) == 2
    with pytest.raises(UserError, match=r"mappings are of no layer of the network.*C=4"):
        evaluate_network(
            other, EDGE, {**mappings, **{layer_key(o.computation): mapping for o in other.operators if o.computation}}
        )
    shutil.copy(folder / "01-conv.yaml", folder / "copy.yaml")
    with pytest.raises(UserError, match=r"two mappings of .*01-conv\.yaml and .*copy\.yaml"):
        read_mappings(folder, EDGE)
    with pytest.raises(UserError, match="expected a folder of mapping files"):
        read_mappings(folder / "01-conv.yaml", EDGE)
    with pytest.raises(UserError, match=r"holds mappings of something else: copy\.yaml"):
        write_network_files(result, tmp_path)


def test_a_layer_that_fits_nowhere_is_named() -> None:
    tiny = EDGE.with_level("Buffer", capacity_bytes=1.0)
    found = map_network(NETWORK, tiny, create("anneal"), OPTIONS)
    assert isinstance(found, Infeasible) and "layer 'conv'" in found.detail


def test_energies_that_are_not_given_are_asked_for_with_the_layer() -> None:
    bare = EDGE.with_level("Buffer", energy=None)
    with pytest.raises(UserError, match=r"'Buffer' has no energy.*layer 'conv'"):
        map_network(NETWORK, bare, create("anneal"), OPTIONS)


def test_a_network_without_multiplications_is_refused() -> None:
    builder = NetworkBuilder("soft")
    with pytest.raises(UserError, match="at least one operator with multiply-accumulates"):
        map_network(builder.build(builder.softmax(builder.input("x", (1, 8)))), EDGE)


def test_the_widths_are_those_of_the_network_not_of_the_files(result: NetworkResult, tmp_path: Path) -> None:
    write_network_files(result, tmp_path)
    mappings = read_mappings(tmp_path / "mappings", EDGE)
    wide = evaluate_network(NETWORK.with_bits(16), replace(EDGE, mac=replace(EDGE.mac, bits=16)), mappings)
    assert isinstance(wide, Infeasible) and (wide.demand, wide.limit) == (48, 32)  # 24 weights of 2 bytes
