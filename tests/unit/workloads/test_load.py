import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from codesign.core.errors import UserError
from codesign.core.files import write_json
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.load import load_network
from codesign.workloads.network_json import network_to_json
from codesign.workloads.zoo import build_model


def test_zoo_names_are_lenient() -> None:
    assert load_network("ResNet-50") == load_network("resnet_50") == load_network("resnet50")


def test_options_reach_the_zoo() -> None:
    net = load_network("gpt2-small", batch=2, seq=33, phase="decode", bits=4, partial_bits=16, fuse=False)
    assert net == build_model("gpt2_small", batch=2, seq=33, phase="decode", bits=4, partial_bits=16)


def test_networks_are_fused_unless_told_otherwise() -> None:
    assert len(load_network("resnet50").operators) == 72
    assert len(load_network("resnet50", fuse=False).operators) == 175


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("resnet5", "did you mean 'resnet50'"),
        ("Res-Next-5", "did you mean 'resnext50'"),
        ("no-such-thing-at-all", "known: alexnet"),
    ],
)
def test_unknown_name_offers_the_nearest(name: str, near: str) -> None:
    with pytest.raises(UserError, match="unknown network") as caught:
        load_network(name)
    assert near in str(caught.value)


def test_own_files(tmp_path: Path) -> None:
    net = build_model("resnet18")
    write_json(tmp_path / "net.json", network_to_json(net))
    (tmp_path / "net.yaml").write_text(yaml.safe_dump(network_to_json(net), sort_keys=False))
    for file in (tmp_path / "net.json", tmp_path / "net.yaml"):
        assert load_network(file, fuse=False) == net
        assert load_network(str(file), batch=4) == load_network("resnet18", batch=4)


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "workloads.md").read_text()
    (tmp_path / "example.yaml").write_text(page.split("```yaml\n")[1].split("```")[0])
    net = load_network(tmp_path / "example.yaml", batch=4, bits=8, partial_bits=24)
    assert net.macs == 4 * 64 * 32
    assert [(o.name, o.fused) for o in net.operators] == [("fc1", ("gelu",))]


def test_bad_own_files(tmp_path: Path) -> None:
    file = tmp_path / "net.json"
    with pytest.raises(UserError, match=r"no such file: .*net\.json"):
        load_network(file)
    file.write_text('{"operators": [')
    with pytest.raises(UserError, match=r"not valid YAML or JSON.*net\.json, line 2"):
        load_network(file)
    file.write_text('{"operatrs": []}')
    with pytest.raises(UserError, match=r"`operators` is missing .*net\.json.*is 'operatrs' meant"):
        load_network(file)
    write_json(file, network_to_json(build_model("resnet18")))
    for options in ({"seq": 4}, {"phase": "decode"}, {"dims": {"n": 1}}):
        with pytest.raises(UserError, match=f"`{next(iter(options))}` does not apply to a network file"):
            load_network(file, **options)  # type: ignore[arg-type]


def test_shapes_that_contradict_each_other_across_a_view_name_the_file(tmp_path: Path) -> None:
    net = NetworkBuilder("n")
    value = network_to_json(net.build(net.linear(net.flatten(net.input("x", (1, 8, 4, 4))), 10)))
    text = json.dumps(value).replace("[1, 8, 4, 4]", "[1, 8, 4, 5]")
    (tmp_path / "net.json").write_text(text)
    with pytest.raises(UserError, match=r"has 160 elements .* of the computation has 128 \(.*net\.json: network 'n'"):
        load_network(tmp_path / "net.json")


def test_a_file_of_another_kind_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "net.txt").write_text("x")
    with pytest.raises(UserError, match=r"a file must end in \.onnx, \.json or \.yaml"):
        load_network(tmp_path / "net.txt")


def test_dims_are_for_onnx() -> None:
    with pytest.raises(UserError, match="`dims` applies to ONNX files"):
        load_network("resnet50", dims={"n": 1})


def test_the_zoo_needs_no_onnx() -> None:
    code = "import sys; from codesign.workloads.load import load_network; load_network('resnet18'); print('onnx' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
