"""Designs judged by generated machines: what is refused, and what is recorded."""

import pytest

from codesign.core.errors import UserError
from codesign.evaluation.design import load_design_space
from codesign.evaluation.generated import WithMachinePorts
from codesign.evaluation.judges import by_machines, check_timing, make_judge
from codesign.evaluation.specification import JudgeSpec, WorkloadSpec
from codesign.evaluation.timed import EventEvaluator
from spaces.scratchpad import SCRATCHPAD_BUILT

WORK = WorkloadSpec(networks=("alexnet",))
JUDGE = JudgeSpec(mapper="random", evaluations=20, timing="event", timing_table="generated")


def test_the_space_has_the_ports_of_its_machines() -> None:
    assert by_machines(JUDGE, SCRATCHPAD_BUILT)
    evaluator = make_judge(WORK, JUDGE, SCRATCHPAD_BUILT).evaluate
    assert isinstance(evaluator, EventEvaluator) and evaluator.ramp_cycles == 28
    assert isinstance(evaluator.inner.space, WithMachinePorts)
    point = SCRATCHPAD_BUILT.space.presets[0]
    plain, ported = SCRATCHPAD_BUILT.build(point).levels, evaluator.inner.space.build(point).levels
    assert plain[0].read_bandwidth_words_per_cycle == pytest.approx(16 * 16 / 30)
    assert ported[0].read_bandwidth_words_per_cycle == 16.0
    assert ported[1].read_bandwidth_words_per_cycle == 2 * (plain[1].read_bandwidth_words_per_cycle or 0)


def test_a_family_that_is_not_generated_is_refused() -> None:
    with pytest.raises(UserError, match="rule G1"):
        check_timing(JUDGE, WORK, load_design_space("eyeriss"))


def test_ports_of_dram_cannot_be_chosen() -> None:
    judge = JudgeSpec(timing="event", timing_table="generated", dram_ports="shared")
    with pytest.raises(UserError, match="a channel each way"):
        check_timing(judge, WORK, SCRATCHPAD_BUILT)
