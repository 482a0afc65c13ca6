"""The Gemmini-like space of DOSA: published energies, and workloads whose operations add up."""

import pytest

from codesign.arch.architecture import Ports
from codesign.core.errors import UserError
from experiments.dosa_networks import dosa_network
from spaces.dosa import DOSA, POWERS, accumulator_pj, scratchpad_pj


def test_energies_follow_the_published_lines() -> None:
    built = DOSA.build({"pe": 16, "scratchpad_kib": 128, "accumulator_kib": 32})
    dram, scratchpad, accumulator, registers = built.levels
    assert dram.energy is not None and dram.energy.read_pj == 100.0 and dram.ports is Ports.SHARED
    assert scratchpad.energy is not None and scratchpad.energy.read_pj == pytest.approx(0.49 + 0.02513 * 128)
    assert accumulator.energy is not None and accumulator.energy.update_pj == pytest.approx(1.94 + 0.1005 * 32 / 16)
    assert registers.energy is not None and registers.energy.fill_pj == 0.48746172
    assert (scratchpad_pj(1), accumulator_pj(2, 2)) == (pytest.approx(0.51513), pytest.approx(2.0405))
    assert built.mac_units == 256 and accumulator.read_bandwidth_words_per_cycle == 32.0
    assert DOSA.space.cardinality_bound == 128 * 1024 * 256 and POWERS.space.cardinality_bound == 792


@pytest.mark.parametrize(
    ("name", "macs"),
    [("resnet50", 4089184256), ("bert", 757071872), ("unet", 167322556672), ("retinanet", 3323622400)],
)
def test_workloads_have_the_published_operations(name: str, macs: int) -> None:
    assert dosa_network(name).macs == macs


def test_an_unknown_workload_is_named() -> None:
    with pytest.raises(UserError, match="resnet51"):
        dosa_network("resnet51")
