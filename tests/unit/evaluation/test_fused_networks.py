"""`explore --scheduler fused`: designs judged by proven fused schedules."""

from pathlib import Path

from codesign.arch.presets import load_preset
from codesign.core.goals import Budget, Objective
from codesign.evaluation.detail import FusedDetail
from codesign.evaluation.fused_networks import FusedEvaluator
from codesign.workloads.load import load_network
from tests.command_line import run


class OneDesign:
    """SoMa's edge template, whatever the point says, with a buffer of its own."""

    def __init__(self, capacity_bytes: float) -> None:
        self.capacity_bytes = capacity_bytes

    def build(self, point: object) -> object:
        return load_preset("soma-edge").with_level("GBUF", capacity_bytes=self.capacity_bytes)


def evaluator(capacity_bytes: float) -> FusedEvaluator:
    network = load_network("gpt2-small-block", seq=16, phase="prefill", fuse=False)
    return FusedEvaluator(OneDesign(capacity_bytes), ((network, 2.0),), Objective.EDP, Budget(20.0))  # type: ignore[arg-type]


def test_a_design_is_judged_by_the_schedule_and_its_parts_add_up() -> None:
    found = evaluator(1 << 20)({})
    assert found.metrics is not None and isinstance(found.detail, FusedDetail)
    record = found.detail.networks[0]
    assert found.detail.energy_by_level_pj is not None
    assert abs(sum(found.detail.energy_by_level_pj.values()) - 2 * record["energy_pj"]) < 1e-6 * record["energy_pj"]
    assert record["gap"] == 0.0 and record["latency_cycles"] >= record["bound_cycles"]
    assert abs(found.metrics.latency_s - 2e-9 * record["latency_cycles"]) < 1e-8


def test_a_buffer_that_holds_no_tile_is_infeasible() -> None:
    found = evaluator(1.0)({})
    assert found.metrics is None and found.infeasible is not None and found.infeasible.limit == 1.0


def test_the_command_explores_and_refuses_what_it_does_not_read(tmp_path: Path) -> None:
    ask = ["explore", "--network", "gpt2-small-block", "--seq", 16, "--space", "soma-edge", "--scheduler", "fused"]
    refused = run(*ask, "--evaluations", 5, "--out", tmp_path / "a")
    assert refused.code == 2 and "--evaluations does not apply to --scheduler fused" in refused.err
    made = run(*ask, "--optimizer", "random", "--trials", 1, "--out", tmp_path / "b")
    assert made.code == 0, made.err
    assert (tmp_path / "b" / "report.html").exists()
