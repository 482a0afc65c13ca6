"""Whole networks fused, beside every operator alone: `python -m experiments.fused_networks`.

What `codesign schedule --scheduler fused` finds for the energy-delay product (rules G1 to G7); `--only TEXT` picks rows, `--table FILE` puts them
into a CSV table, where they replace those of the same name.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codesign.arch.presets import load_preset
from codesign.core import clock
from codesign.core.errors import UserError
from codesign.mapping.looptree import Goal
from codesign.scheduling.fused.loop_tree import Fusion
from codesign.scheduling.fused.network_operators import FusedGraph, graph_of
from codesign.scheduling.fused.schedule import Schedule
from codesign.workloads.load import load_network
from experiments.mappers_common import markdown, put_rows, save
from experiments.options import head_parser


@dataclass(frozen=True)
class Case:
    """A network on a machine.

    Args:
        name: Of the row.
        network, arch: What is scheduled on what.
        phase, seq, past: Of language models.
        capacity_bytes: Of the shared level; by default the machine's.
    """

    name: str
    network: str
    arch: str = "soma-edge"
    phase: str | None = None
    seq: int | None = None
    past: int | None = None
    capacity_bytes: int | None = None

    def graph(self) -> FusedGraph:
        """Its operators."""
        machine = load_preset(self.arch)
        network = load_network(
            self.network, seq=self.seq, past=self.past, phase=self.phase, bits=machine.mac.bits, fuse=False
        )
        return graph_of(network, machine, self.capacity_bytes)


CASES = (
    Case("ResNet-50, `soma-edge`", "resnet50"),
    Case("BERT base, sequence 128, `soma-edge`", "bert_base", seq=128),
    Case("GPT-2 small block, prefill 512, `soma-edge`", "gpt2_small_block", phase="prefill", seq=512),
    Case("the same with `--capacity 512KiB`", "gpt2_small_block", phase="prefill", seq=512, capacity_bytes=512 << 10),
    Case("ResNet-50, `tpu`", "resnet50", "tpu"),
    Case("MobileNet-v2, `soma-edge`", "mobilenet_v2"),
    Case("ResNet-18, `simba` (128 KiB)", "resnet18", "simba"),
    Case("Llama-3-8B, decode after 2048, `soma-edge`", "llama3_8b", phase="decode", past=2048),
    Case("Llama-3-8B, prefill 512, `soma-edge`", "llama3_8b", phase="prefill", seq=512),
    Case("GPT-2 small, prefill 512, `soma-edge`", "gpt2_small", phase="prefill", seq=512),
    Case("GPT-2 small, decode after 512, `soma-edge`", "gpt2_small", phase="decode", past=512),
    Case("ViT-B/16, `soma-edge`", "vit_b16"),
    Case("ViT-L/16, `soma-edge`", "vit_l16"),
    Case("Llama-3-8B, prefill 2048, `soma-edge`", "llama3_8b", phase="prefill", seq=2048),
)

HEAD = (
    "network, architecture",
    "operators",
    "fused: cycles, mJ, DRAM MB",
    "one by one: cycles, mJ, DRAM MB",
    "EDP ratio",
    "proof",
    "CPU s",
)


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        time_limit: CPU seconds of each search.
        only: Rows whose name contains this.
        table: CSV table that the rows go into; none if empty.
        out: Folder of results.
    """

    time_limit: float = 60.0
    only: str = ""
    table: Path | None = None
    out: Path = Path("results/fused_networks")


def row_of(case: Case, time_limit: float) -> dict[str, Any]:
    """Search one case."""
    graph, began = case.graph(), clock.cpu_seconds()
    fusion = Fusion(graph.operators, graph.machines, graph.between, Goal.EDP)
    found = fusion.solve(time_limit, anytime=True)
    seconds, alone = clock.cpu_seconds() - began, fusion.separate()
    return {
        "name": case.name,
        "operators": len(graph.operators),
        "fused": _figures(found),
        "one by one": _figures(alone),
        "ratio": found.value / alone.value,
        "gap": 0.0 if found.proven else found.value / found.bound - 1,
        "cpu_seconds": seconds,
    }


def _figures(found: Schedule) -> dict[str, float]:
    cost = found.cost()
    return {"cycles": cost.seconds, "mj": cost.energy / 1e9, "dram_mb": cost.outer_bits / 8e6}


def line(row: dict[str, Any]) -> tuple[str, ...]:
    """A row as the cells of the table."""
    fused, alone = (f"{f['cycles']:,.0f}, {f['mj']:.3f}, {f['dram_mb']:.1f}" for f in (row["fused"], row["one by one"]))
    seconds = row["cpu_seconds"]
    proof = "optimal" if not row["gap"] else f"gap {100 * row['gap']:.1f} % after {seconds:.0f} CPU s"
    return row["name"], str(row["operators"]), fused, alone, f"{row['ratio']:.2f}", proof, f"{seconds:.1f}"


def main(config: Config) -> list[dict[str, Any]]:
    """Search every case, write results and table.

    Raises:
        UserError: No row has such a name.
    """
    cases = [c for c in CASES if config.only in c.name]
    if not cases:
        raise UserError(f"no row's name contains {config.only!r}", hint="; ".join(c.name for c in CASES))
    rows = []
    for case in cases:
        rows.append(row_of(case, config.time_limit))
        print(*line(rows[-1]), sep=" | ", flush=True)
        if config.table is not None:
            put_rows(config.table, HEAD, [line(rows[-1])])
    save(config.out, config, {"rows": rows}, markdown(HEAD, map(line, rows)))
    return rows


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, smoke="one row")
    parser.add_argument("--time-limit", type=float, default=default.time_limit, help="CPU seconds of each search")
    parser.add_argument("--only", default=default.only, help="rows whose name contains this")
    parser.add_argument("--table", type=Path, default=None, help="CSV table that the rows go into")
    given = parser.parse_args(arguments)
    only = "GPT-2 small, decode" if given.smoke else given.only
    return Config(given.time_limit, only, given.table, given.out)


if __name__ == "__main__":
    try:
        main(parse_args())
    except UserError as error:
        sys.exit(str(error))
