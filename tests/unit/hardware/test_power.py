"""Power of whole machines: what is replayed of a run, and its netlist beside the simulation."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.hardware import power
from codesign.hardware.execute import random_values
from codesign.hardware.parts import PARTS
from codesign.hardware.power import MEMORY_FACTOR, MeasuredMachine, memory_figures, stretches_of
from codesign.hardware.synthesis import SynthesisError
from codesign.hardware.verilator import find_verilator
from codesign.hardware.waves import Waves, read_waves, traced_only
from codesign.library.build_jobs import make_job
from codesign.library.build_options import BuildOptions, Request

WAVES = """\
$scope module TOP $end
 $var wire 1 ! one $end
 $scope module inside $end
  $var wire 3 # three [2:0] $end
 $upscope $end
$upscope $end
$enddefinitions $end
#10
1!
b101 #
#11
#20
0!
b11 #
"""


def test_values_stay_until_they_change(tmp_path: Path) -> None:
    path = tmp_path / "waves.vcd"
    path.write_text(WAVES)
    found = read_waves(path)
    assert found.bits(("TOP",), "one") == [0b011]
    assert found.bits(("TOP", "inside"), "three") == [0b111, 0b100, 0b011]


def test_only_named_signals_are_written_down() -> None:
    text = "module m(a);\n  input a;\n  wire a;\n  reg [3:0] kept;\n  wire \\$1 ;\n  if (enable) kept = 0;\nendmodule\n"
    found = traced_only(text, {"m": frozenset({"a", "kept"})})
    assert found.count("tracing_off") == 1 and "/*verilator tracing_off*/  wire \\$1 ;/*verilator" in found
    assert "if (1'b1)" in found


def test_stretches_stand_apart_within_the_run() -> None:
    assert stretches_of(power.WHOLE_CYCLES, np.random.default_rng(0)) == ((0, power.WHOLE_CYCLES),)
    found = stretches_of(5000, np.random.default_rng(3))
    assert len(found) == power.STRETCHES and {b - a for a, b in found} == {power.STRETCH_CYCLES}
    assert found[0][0] >= 0 and found[-1][1] <= 5000
    assert all(end <= first for (_, end), (first, _) in pairwise(found))


def test_small_memories_are_flip_flops_and_larger_ones_macros() -> None:
    small, large = memory_figures(16, 16), memory_figures(512, 64)
    assert small.flip_flops == 256 and small.clock_pj > 0
    assert large.flip_flops == 0 and large.clock_pj == 0 and large.read_pj > small.read_pj
    assert pytest.approx(3.115, rel=1e-3) == MEMORY_FACTOR


@pytest.mark.parametrize(("kind", "reads"), [("", 2), ("_c", 1)])
def test_memories_work_where_they_are_enabled_or_their_address_changes(kind: str, reads: int) -> None:
    ports = {"raddr0": ("a", 4), "ren0": ("e", 1), "raddr1": ("a", 4), "ren1": ("n", 1), "wen0": ("n", 1)}
    waves = Waves({("ram",): ports}, {"a": [3, 3, 5, 5], "e": [1, 1, 0, 0], "n": [0, 0, 0, 0]})
    recorded = power._Recorded(waves, 4, 0b0111)
    found = list(power._accesses_of(recorded, ("ram",), kind == power.ANSWERS_AT_ONCE))
    assert all(read for read, _ in found) and len(found) == (2 if kind else 1)
    assert found[0][1].sum() == reads


def test_power_is_of_one_layer_that_verilator_runs() -> None:
    with pytest.raises(UserError, match="--power is of one layer"):
        BuildOptions(power=True, network="n.onnx")
    with pytest.raises(UserError, match="--power is of one layer"):
        BuildOptions(power=True, simulate=True, simulator="amaranth")


@pytest.mark.slow("oracle")
@pytest.mark.skipif(find_verilator() is None, reason="no Verilator or no C++ compiler")
def test_the_cells_of_a_whole_machine_do_what_the_simulation_does(monkeypatch: pytest.MonkeyPatch) -> None:
    design = "pe_rows=4,pe_cols=4,links=systolic,scratchpad_kib=32,local_bytes=64,banks=1,burst_beats=4,bus_bits=64"
    options = BuildOptions(space="scratchpad", design=design, layer="gemm M=16 N=16 K=16", evaluations=50)
    job, netlist = make_job(Request((), options))
    measured = MeasuredMachine(job.image.parameters, netlist)
    values = random_values(job.computation, np.random.default_rng(1))
    verdict, whole = measured.run(job, values, 1)
    assert verdict.wrong is None and whole.replayed_cycles == verdict.run.cycles - 1 and whole.interval_pj == 0
    logic = [p for p in whole.parts if p.part in PARTS]
    assert sum(p.cells for p in logic) == measured.synthesis.cells
    assert sum(p.flip_flops for p in logic) == measured.synthesis.flip_flops
    monkeypatch.setattr(power, "WHOLE_CYCLES", 0)
    _, drawn = measured.run(job, values, 1)
    assert drawn.replayed_cycles < whole.replayed_cycles
    assert abs(drawn.cycle_pj - whole.cycle_pj) < 2 * drawn.interval_pj
    name = f"{netlist.top}_pe"
    broken = measured.machine.modules[name]
    swapped = [replace(g, kind="NOR2X1") if g.kind == "NAND2X1" else g for g in broken.gates]
    measured.machine = replace(measured.machine, modules={**measured.machine.modules, name: replace(broken, gates=tuple(swapped))})  # fmt: skip
    with pytest.raises(SynthesisError, match="differs from the design"):
        measured.run(job, values, 1)
