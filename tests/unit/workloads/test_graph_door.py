"""Every form a network comes in goes through one door, which says what does not apply to it."""

import json
from pathlib import Path

import pytest

from codesign.core.errors import UserError
from codesign.scheduling.cosma.load import load_graph as load_operators
from codesign.scheduling.soma.model.load import load_graph as load_layers
from codesign.workloads.graph_door import GraphFile, GraphForm, graph_file, open_graph
from codesign.workloads.network import Network

DATA = Path(__file__).parents[2] / "data"
LAYERS = DATA / "soma" / "networks" / "toy_903.json"
BYTES = DATA / "cosma" / "graphs" / "transformer.json"


def test_files_are_told_apart_by_what_they_hold(tmp_path: Path) -> None:
    forms = [found.form for found in (graph_file(LAYERS), graph_file(BYTES), graph_file("x.pt2")) if found is not None]
    assert forms == [GraphForm.LAYERS, GraphForm.BYTES, GraphForm.EXPORTED]
    assert graph_file("resnet18") is None and graph_file(tmp_path / "missing.json") is None
    network = tmp_path / "network.json"
    network.write_text(json.dumps({"format": "codesign-network-1", "tensors": [], "operators": []}))
    assert graph_file(network) is None


def test_networks_and_graph_files_come_out() -> None:
    network, layers = open_graph("alexnet", batch=2), open_graph(LAYERS, batch=2)
    assert isinstance(network, Network) and network.batch == 2
    assert isinstance(layers, GraphFile) and layers.form is GraphForm.LAYERS


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        (LAYERS, {"seq": 8}, "--seq does not apply to a graph with fixed shapes"),
        (LAYERS, {"dims": {"n": 2}}, "--dims does not apply to a graph with fixed shapes"),
        (BYTES, {"batch": 2}, "--batch does not apply to a graph whose sizes are given in bytes"),
        ("x.pt2", {"phase": "decode"}, "--phase does not apply to a program that was exported for one shape"),
    ],
)
def test_options_that_do_not_apply_are_refused(path: Path | str, options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        open_graph(path, **options)  # type: ignore[arg-type]


def test_a_graph_of_the_other_scheduler_is_refused_with_the_one_that_reads_it() -> None:
    with pytest.raises(
        UserError, match=r"does not read a graph whose sizes are given in bytes .*--scheduler cosma does"
    ):
        load_layers(str(BYTES))
    with pytest.raises(UserError, match=r"does not read a graph with fixed shapes .*--scheduler soma does"):
        load_operators(LAYERS)
