"""Where a network's tensors have zeros (rules Z1-Z4)."""

from pathlib import Path

import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.workloads.density import DENSE, Banded, Structured, Uniform
from codesign.workloads.load import load_network
from codesign.workloads.network_zeros import NetworkZeros, with_zeros

ALEXNET = load_network("alexnet")


def densities(text: str, network: str = "alexnet") -> dict[str, list[object]]:
    loaded = with_zeros(load_network(network), NetworkZeros.parse(text))
    return {o.name: [t.density for t in o.computation.tensors] for o in loaded.operators if o.computation is not None}


def test_the_first_entry_that_matches_counts() -> None:
    found = densities("conv1.weight=dense,fc*.weight=0.1,weight=2:4,input=0.5")
    assert found["conv1"] == [Uniform(0.5), DENSE, DENSE]
    assert found["conv2"][1] == Structured(2, 4, 2)  # axes: group, output channel, input channel, row, column
    assert found["fc6"][:2] == [Uniform(0.5), Uniform(0.1)]


def test_blocks_lie_along_the_sum() -> None:
    zeros = NetworkZeros.parse("weight=1:4")
    loaded = with_zeros(load_network("bert-base", seq=8), zeros)
    for operator in loaded.operators:
        if operator.computation is None:
            continue
        weights = operator.computation.tensors[1]
        if loaded.tensor_by_name[operator.operands[1]].is_parameter:
            assert isinstance(weights.density, Structured)
            assert weights.axes[weights.density.axis].terms[0][0] in operator.computation.reduced_dims
        else:
            assert weights.density == DENSE  # products of activations have no parameters


def test_nothing_changes_without_zeros() -> None:
    assert with_zeros(ALEXNET, NetworkZeros.parse("dense")) == ALEXNET
    assert with_zeros(ALEXNET, NetworkZeros.parse("weight=1")) == ALEXNET


def test_other_models(tmp_path: Path) -> None:
    assert densities("weight=band:3", "mobilenet_v1")["fc"][1] == Banded(3)
    mask = np.ones((1000, 1024))
    shape = with_zeros(load_network("mobilenet_v1"), NetworkZeros.parse("dense"))
    computation = next(o.computation for o in shape.operators if o.name == "fc")
    assert computation is not None
    axes = computation.tensors[1].shape(computation.sizes)
    mask = np.zeros(axes)
    mask[0] = 1
    np.save(tmp_path / "fc.npy", mask)
    found = densities(f"fc.weight={tmp_path / 'fc.npy'}", "mobilenet_v1")["fc"][1]
    assert found.fraction(axes) == pytest.approx(1 / axes[0])  # type: ignore[attr-defined]


def test_bits_of_a_place() -> None:
    assert NetworkZeros.parse("weight=2:4").position_bits("weight") == 2
    assert NetworkZeros.parse("weight=2:4,fc.weight=1:8").position_bits("weight") == 3
    assert NetworkZeros.parse("weight=2:4,fc.weight=0.5").position_bits("weight") is None
    assert NetworkZeros.parse("weight=2:4").kinds == ("weight",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("weight", "zeros are written like weight=2:4"),
        ("weigth=0.5", "unknown kind of tensor 'weigth'.*'weight'"),
        ("weight=1.5", "a density must be a number from 0 to 1, got 1.5"),
        ("weight=half", "zeros are written dense, as a density"),
        ("weight=5:4", "needs 0 < n <= m, got 5:4"),
        ("weight=2:4", r"blocks of 4 do not divide axis 1 of 3.*zeros of conv1.weight.*conv1.weight=dense before the others"),
        ("conv9.weight=0.5", "no matrix operator called 'conv9' has a tensor of kind 'weight'"),
        ("weight=missing.npy", "the mask 'missing.npy' cannot be read"),
    ],
)  # fmt: skip
def test_bad_zeros(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        with_zeros(ALEXNET, NetworkZeros.parse(text))
