"""A study's designs are built again with the DRAM ports they were judged with."""

from typing import Any

import pytest

from codesign.arch.architecture import Ports
from codesign.core.errors import UserError
from codesign.evaluation.replay import recorded_space
from codesign.evaluation.specification import JudgeSpec
from spaces.scratchpad import SCRATCHPAD


@pytest.mark.parametrize(
    ("evaluation", "ports"),
    [
        ({"dram_ports": "as built"}, Ports.SHARED),
        ({"dram_ports": "separate"}, Ports.SEPARATE),
        ({}, Ports.SEPARATE),  # recorded before levels could have one port
        ({"scheduler": "cosma"}, Ports.SHARED),
    ],
)
def test_ports_are_those_of_the_record(evaluation: dict[str, Any], ports: Ports) -> None:
    space = recorded_space({"space": SCRATCHPAD.to_json(), "evaluation": evaluation})
    assert space.build(SCRATCHPAD.space.presets[0]).levels[0].ports is ports


def test_a_wrong_reading_of_ports_is_refused() -> None:
    with pytest.raises(UserError, match=r"unknown --dram-ports 'half'.*known: separate, shared"):
        JudgeSpec(dram_ports="half")
    with pytest.raises(UserError, match="--dram-ports is used with --scheduler layers, not soma"):
        JudgeSpec(scheduler="soma", dram_ports="separate")
