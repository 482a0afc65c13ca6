"""The clock of a machine for place and route: an SDC file whose period follows from the longest path of its netlist.

The period is a prediction: so many cells, each as slow as a NAND of two inputs that drives two more, between two flip-flops. Wires are not in it.
"""

from codesign.hardware.parameters import Parameters
from codesign.hardware.synthesis import Synthesis

SOURCE = "OSU 0.18 um standard cells, osu018_stdcells.lib in Debian's qflow-tech-osu018 1.3.17+dfsg.1-3, typical corner (1.8 V, 25 C)"

CELL_NS = (0.133733 + 0.074012) / 2
"""NAND2X1 from A to Y, mean of rising and falling, at 0.025 pF (two of its own inputs) and a transition of 0.18 ns."""

FLIP_FLOP_NS = 0.186934 + 0.18125
"""DFFPOSX1: from the clock to Q falling, at 0.025 pF and a clock's transition of 0.06 ns; and its setup at a datum's transition of 0.18 ns."""

ASSUMED_NS = 1.0
"""The 1 GHz at which spaces judge designs (`clock_hz`)."""


def clock_period_ns(path_cells: int) -> float:
    """Of a machine whose longest path between flip-flops has so many cells."""
    return FLIP_FLOP_NS + path_cells * CELL_NS


def sdc_text(p: Parameters, synthesis: Synthesis | None) -> str:
    """The constraints.

    Args:
        p: The machine.
        synthesis: Its netlist; None leaves the period that spaces assume.
    """
    if synthesis is None:
        period = ASSUMED_NS
        why = "the 1 GHz at which spaces judge designs. No netlist was made: codesign build --synthesize predicts a period from its longest path"
    else:
        worst = max(synthesis.modules, key=lambda m: m.levels)
        period = clock_period_ns(worst.levels)
        why = (
            f"{worst.levels} cells on the longest path within one module ({worst.name}) of {CELL_NS:.3f} ns, and {FLIP_FLOP_NS:.3f} ns of a flip-flop.\n"
            f"# A cell counts as a NAND2X1 that drives two more, a flip-flop is DFFPOSX1. Source: {SOURCE}.\n"
            "# Paths through several modules may be longer, and wires are not in it"
        )
    ports = "[remove_from_collection [all_inputs] [get_ports clk]]"
    return (
        f"# Constraints of {p.name}, made by codesign.\n# Period: {why}.\n"
        f"create_clock -name clk -period {period:.3f} [get_ports clk]\n"
        f"# Ports meet registers outside, as in bench.v.\nset_input_delay 0 -clock clk {ports}\nset_output_delay 0 -clock clk [all_outputs]\n"
    )
