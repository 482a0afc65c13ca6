"""The options of `codesign schedule`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codesign.cli.compiling import echo_json
from codesign.cli.inputs import parse_dims
from codesign.cli.options import Fields, OutputFormat, asked
from codesign.core.errors import UserError
from codesign.core.files import write_json
from codesign.library.arguments import Sources
from codesign.library.timing import TimingOptions

if TYPE_CHECKING:
    from codesign.arch.architecture import Architecture
    from codesign.core.goals import Objective
    from codesign.evaluation.specification import NetworkLengths

NETWORK = frozenset({"network", "arch", "phase", "seq", "past", "dims", "batch"})
"""Options by which every scheduler of networks is told what runs on what."""


@dataclass(frozen=True)
class ScheduleOptions:
    """What was given on the command line; None where nothing was (no scheduler: one is implied).

    Args:
        network: Zoo name, ONNX file, .pt2 of torch.export, or a graph as JSON.
        scheduler: soma, cocco, unfused (fusion and DRAM timing); fused (fusion with each operator's mapping inside,
            proven); cosma (order, scratchpad, spills); allocate (addresses only). Several names, e.g. soma cosma: side
            by side on one --arch. Default: cosma for a graph in bytes or --parameters, allocate for --buffers, else
            soma.
        arch: Preset name or YAML file, e.g. soma-edge.
        phase: prefill or decode, for language models.
        seq: Sequence length (decode: tokens attended to, the new one included).
        past: Tokens in the cache, for language models.
        dims: Lengths of an ONNX file's free axes: --dims batch=4 seq=128 past=1024.
        batch: Samples processed together.
        capacity: Scratchpad size: bytes, 512KiB, 8MiB, or M_R, M_H, M_P.
        buffers: CSV of buffers (id, lower, upper, size) for `allocate`.
        parameters: Weights take part in the scratchpad too.
        unfused: Keep conv, norm and activation as separate operators.
        route: How to solve: decomposed (default) or monolithic.
        mode: reference (published model) or default (its defects mended).
        tile_cost: What a tile costs inside the core: template (SoMa's own model) or a mapper of this project, on any
            --arch.
        evaluate: Evaluate the encodings in this file instead of searching.
        objective: energy, latency or edp (default); soma and fused take any eNdM, e.g. e1d2; cosma bytes (default),
            energy or latency.
        time_limit: Seconds of search.
        evaluations: Schemes scored at most.
        prove: Seconds of constraint programming: improve the schedule's DRAM attributes or prove its gap.
        halos: Let windows share loops (fused): halos computed again or kept, what is better.
        start: bound (soma also starts from the fusion of its bound, default) or greedy (it does not).
        chains: Independent annealing chains.
        workers: Threads that run them (soma).
        seed: Seed of every random choice.
        timing: event: simulate the schedule that is found; default: its analytical timing.
        timing_table: With --timing event: table by name or file; default: the one named like the architecture.
        dram_device: With --timing event (segments): DRAM of the controllers, e.g. gddr6_x16; default: a steady rate.
        trace: With --timing event: write the timeline for Perfetto to this JSON file.
        html: Write the picture of the schedule to this page.
        out: Write the schedule (and its instruction list) to this JSON file.
    """

    network: str | None = None
    scheduler: str = asked("", shown=False)
    arch: str | None = None
    phase: str | None = None
    seq: int | None = None
    past: int | None = asked(None, minimum=0)
    dims: str | None = None
    batch: int | None = None
    capacity: str | None = None
    buffers: Path | None = None
    parameters: bool | None = None
    unfused: bool | None = asked(None, flag="--unfused-graph")
    route: str | None = None
    mode: str | None = None
    tile_cost: str | None = None
    evaluate: Path | None = None
    objective: str | None = None
    time_limit: float | None = None
    evaluations: int | None = None
    prove: float | None = None
    halos: bool | None = None
    start: str | None = None
    chains: int | None = None
    workers: int | None = None
    seed: int | None = None
    timing: str | None = None
    timing_table: str | None = None
    dram_device: str | None = None
    trace: Path | None = None
    html: Path | None = None
    out: Path | None = None
    output_format: OutputFormat = "text"

    def named(self) -> str:
        """The network.

        Raises:
            UserError: None is named.
        """
        if self.network is None:
            raise UserError("--network is required", hint="a zoo name, an ONNX file, or a network or graph as JSON")
        return self.network

    @property
    def goal(self) -> "Objective":
        """What is minimised, exponents of energy and latency included."""
        from codesign.core.goals import Objective

        return Objective.EDP if self.objective is None else Objective.parse(self.objective, exponents=True)

    def lengths(self) -> "NetworkLengths":
        """How long its axes are."""
        dims = parse_dims(self.dims)
        return {"batch": self.batch, "seq": self.seq, "past": self.past, "phase": self.phase, "dims": dims}

    def emit(self, record: Mapping[str, object]) -> bool:
        """Write a record where a file is named, and print it where JSON is asked for; whether text is to be printed."""
        if self.out is not None:
            write_json(self.out, record)
        if self.output_format == "json":
            echo_json(record)
        return self.output_format != "json"

    def timed(self) -> TimingOptions:
        """Whether the schedule is simulated, and how.

        Raises:
            UserError: The kind of timing is unknown, or a table or a trace is given without it.
        """
        with Fields(TimingOptions).spelt():
            return TimingOptions(self.timing or TimingOptions.timing, self.timing_table, self.trace)


def named_architecture(name: str) -> "Architecture":
    """A preset, or the architecture of a file."""
    return Sources(name).resolve().need_architecture()
