"""What `map --network` and `evaluate --network` do: a whole network on one accelerator, as table, JSON, page and files."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import typer

from codesign.cli.compiling import echo_json
from codesign.cli.options import asked, given_flags
from codesign.core.errors import UserError
from codesign.core.files import write_json

if TYPE_CHECKING:
    from rich.table import Table

    from codesign.arch.architecture import Architecture
    from codesign.cost.cost import Infeasible
    from codesign.evaluation.network import LayerResult
    from codesign.evaluation.real_masks import MaskReport
    from codesign.evaluation.timed import TimedNetwork
    from codesign.evaluation.whole_network import NetworkResult
    from codesign.formats.load import Hardware, Inputs
    from codesign.library.map_options import MapOptions
    from codesign.library.mapped_network import MappedNetwork
    from codesign.library.timing import TimingOptions
    from codesign.mappers.protocol import Mapper
    from codesign.workloads.network import Network
    from codesign.workloads.network_zeros import NetworkZeros

_PANEL = "Whole network"


@dataclass(frozen=True)
class Output:
    """How and where results go.

    Args:
        as_json: Whether JSON is printed.
        out: File or folder, where one is written.
    """

    as_json: bool
    out: Path | None


@dataclass(frozen=True)
class NetworkRequest:
    """The network that is mapped or evaluated, and what happens between its layers; None where nothing was given.

    Args:
        network: Zoo name or ONNX file: every distinct layer of the network instead of one layer.
        batch: Inferences that run together.
        seq: Sequence length, for networks that have one.
        past: Tokens in the cache, for language models.
        phase: prefill or decode, for language models.
        dims: Lengths of an ONNX file's free axes: --dims batch=4 seq=128 past=1024.
        bits: Width of an operand, default that of the MACs.
        partial_bits: Width of a partial sum, default that of an operand.
        precision: Widths by kind of tensor: W4A8, W4A16KV8, mxfp4, "W4A8,lm_head*=W8A16". Also of one layer.
        activations: Between layers: dram (written and read back) or kept (on chip where they fit).
        activation_buffer: On-chip memory set aside for kept activations, e.g. 64KiB.
        resident_weights: Weights are on chip for good instead of loaded each run.
        zeros: Where tensors have zeros: a file of `codesign density`, or weight=2:4, weight=0.3,input=0.5 and so on.
        zero_support: What the hardware does about them, beside what its file says: compressed, gating, skipping.
    """

    panel: ClassVar[str] = _PANEL

    network: str | None = None
    batch: int | None = asked(None, minimum=1)
    seq: int | None = asked(None, minimum=1)
    past: int | None = asked(None, minimum=0)
    phase: str | None = None
    dims: str | None = None
    bits: int | None = asked(None, minimum=1)
    partial_bits: int | None = asked(None, minimum=1)
    precision: str | None = None
    activations: str | None = asked(None, shown="dram")
    activation_buffer: str | None = asked(None, shown="0")
    resident_weights: bool | None = None
    zeros: str | None = None
    zero_support: str | None = None

    def refuse_without_network(self) -> None:
        """Refuse options that only a network has.

        Raises:
            UserError: One is given and `--network` is not.
        """
        for flag, present in given_flags(self).items():
            if present and flag != "--precision":
                raise UserError(
                    f"{flag} is an option of --network",
                    hint=f"say it in the layer, e.g. 'gemm M=64 N=64 K=64 {flag[2:].replace('-', '_')}=16'"
                    if flag.endswith("bits")
                    else f"leave out {flag}, or give --network",
                )

    def between(self, search: "MapOptions") -> "MapOptions":
        """How mappings are searched, with what happens between layers.

        Raises:
            UserError: The options do not go together, or the buffer is no size.
        """
        from codesign.core.quantities import parse_size
        from codesign.evaluation.specification import BetweenLayers

        plain, size = BetweenLayers(), self.activation_buffer
        kept_bytes = plain.activation_bytes if size is None else parse_size(size, "--activation-buffer")
        between = BetweenLayers(self.activations or plain.activations, kept_bytes, bool(self.resident_weights))
        return replace(search, between_layers=between)

    def load(self, architecture: "Architecture") -> "Network":
        """The network, its operands as wide as the MACs where no width is given."""
        from codesign.cli.inputs import parse_dims
        from codesign.workloads.load import load_network

        assert self.network is not None
        network = load_network(
            self.network,
            batch=self.batch,
            seq=self.seq,
            past=self.past,
            phase=self.phase,
            dims=parse_dims(self.dims),
            bits=architecture.mac.bits if self.bits is None else self.bits,
            partial_bits=self.partial_bits,
            precision=self.precision,
        )
        known = self.known_zeros()
        if known is None:
            return network
        from codesign.workloads.network_zeros import with_zeros

        if known.has_masks:
            with_zeros(network, known, masks=True)  # refuses a mask before the search, not after it
        return with_zeros(network, known)

    def known_zeros(self) -> "NetworkZeros | None":
        """What `--zeros` says; None without.

        Raises:
            UserError: It says nothing that is known.
        """
        from codesign.workloads.network_zeros import NetworkZeros

        if self.zeros is None and self.zero_support is not None:
            raise UserError("--zero-support needs --zeros", hint="say where zeros are, e.g. --zeros zeros.json")
        return None if self.zeros is None else NetworkZeros.parse(self.zeros)

    def knowing(self, architecture: "Architecture") -> "Architecture":
        """The architecture with formats and a unit for zeros, as far as `--zero-support` asks for it.

        Raises:
            UserError: The support is unknown, or the architecture names no technology to cost it.
        """
        if self.known_zeros() is None or self.zero_support is None:
            return architecture
        from codesign.arch.zero_support import ZeroSupport
        from codesign.core.errors import member_of
        from codesign.evaluation.choices import Choices

        support = member_of(ZeroSupport, self.zero_support, "support for zeros")
        return Choices(zeros=(str(self.zeros),), supports=(support,)).built(architecture, {})

    def narrow(self, inputs: "Inputs") -> "Inputs":
        """One layer's inputs at the precision that is asked for.

        Raises:
            UserError: The precision says nothing that is known, or speaks of a cache or of layers.
        """
        from codesign.library.inputs import narrowed_layer
        from codesign.mapping.fit import check_fit

        if self.precision is None:
            return inputs
        computation = narrowed_layer(inputs.need_computation(), self.precision)
        check_fit(inputs.need_architecture(), [computation])
        return replace(inputs, computation=computation)


def run_map(
    request: NetworkRequest,
    hardware: "Hardware",
    mapper: "Mapper",
    search: "MapOptions",
    output: Output,
    certificate: Path | None = None,
) -> None:
    """Map every distinct layer and show what the network costs; write the certificate to a file where one is named."""
    from codesign.cli.tables import counted_off
    from codesign.library.mapped_network import map_loaded

    assert hardware.architecture is not None
    architecture = request.knowing(hardware.architecture)
    _refuse_events(request, search.timing)
    network, options = request.load(architecture), request.between(search)
    if certificate is not None:
        from codesign.evaluation.network_certificate import refuse_options
        from codesign.verify.network import refuse_uncovered

        judged = options.judged()
        refuse_options(judged, "exact")
        refuse_uncovered(
            network,
            architecture,
            judged.objective,
            hardware.constraints_of,
            imperfect=judged.imperfect,
            uneven=search.uneven,
        )
    with counted_off("mapping layers") as progress:
        mapped = map_loaded(network, architecture, mapper, options, hardware.constraints_of, progress)
    if certificate is not None:
        if mapped.infeasible is not None:
            raise UserError(f"{certificate} is not written: the network cannot run: {mapped.infeasible}")
        write_json(certificate, mapped.certificate())
    show(mapped, output, _masked(request, mapped.result))


def run_evaluate(
    request: NetworkRequest, architecture: "Architecture", mappings: Path, search: "MapOptions", output: Output
) -> None:
    """Evaluate every distinct layer with its mapping of a folder and show what the network costs."""
    from codesign.evaluation.mapping_files import read_mappings
    from codesign.library.mapped_network import evaluate_loaded

    _refuse_events(request, search.timing)
    architecture = request.knowing(architecture)
    network = request.load(architecture)
    given = read_mappings(mappings, architecture, search.imperfect)
    mapped = evaluate_loaded(network, architecture, given, request.between(search))
    show(mapped, output, _masked(request, mapped.result))


def _refuse_events(request: NetworkRequest, timed: "TimingOptions") -> None:
    if timed.event and request.zero_support is not None:
        raise UserError(
            "--timing event plays no part with --zero-support: the event tier knows dense accesses only",
            hint="leave one out",
        )


def _masked(request: NetworkRequest, result: "NetworkResult | Infeasible") -> "MaskReport | None":
    """The layers with recorded masks; None where none were recorded."""
    from codesign.cost.cost import Infeasible

    zeros = request.known_zeros()
    if zeros is None or not zeros.has_masks or isinstance(result, Infeasible):
        return None
    from codesign.evaluation.real_masks import compare_masks

    return compare_masks(result, zeros)


def show(mapped: "MappedNetwork", output: Output, masked: "MaskReport | None") -> None:
    """Print the result, with `--timing event` every layer simulated; write its files where a folder is given."""
    from codesign.cli.cost_text import print_infeasible
    from codesign.cost.cost import Infeasible

    result = mapped.result
    if isinstance(result, Infeasible):
        if output.out is not None:
            typer.echo(f"the network cannot run; {output.out} is not written", err=True)
        if output.as_json:
            echo_json(mapped.to_json(), indent=1)
        else:
            print_infeasible(result)
        return
    written = _write(result, output.out, mapped.events) if output.out is not None else []
    if output.as_json:
        more = {} if masked is None else {"real_masks": masked.to_json()}
        echo_json(mapped.to_json() | more, indent=1)
        return
    print_result(result)
    if mapped.events is not None:
        _print_events(result, mapped.events)
    for line in [*([] if masked is None else masked.describe()), *written]:
        typer.echo(line)


def _print_events(result: "NetworkResult", events: "TimedNetwork") -> None:
    from codesign.cli.tables import make_console, make_table

    heads = ("layer", "times>", "analytical cycles>", "event cycles>", "more>", "bound by", "waits for~")
    table = make_table("Event-timed layers", *heads, padding=(0, 1, 0, 0))
    for layer in events.layers:
        more = f"{layer.run.latency_cycles / layer.analytic_cycles - 1:+.1%}"
        figures = (f"{layer.count:g}", f"{layer.analytic_cycles:,}", f"{layer.run.latency_cycles:,}", more)
        table.add_row(layer.name, *figures, layer.run.bound_by, layer.run.waits_for)
    console = make_console()
    console.print(table)
    latency = events.latency_cycles
    console.print(
        f"event-timed  {latency:,.0f} cycles = {latency / result.architecture.clock_hz:.4g} s, "
        f"{latency / events.analytic_cycles - 1:+.2%} on the analytical; simulated in {events.seconds:.2f} s"
    )
    if not events.complete:
        left = f"; not simulated: {', '.join(events.missing)}" if events.missing else ""
        console.print(f"partial: the limit of operations or an interruption ended the simulation{left}")


def _write(result: "NetworkResult", out: Path, events: "TimedNetwork | None") -> list[str]:
    from codesign.evaluation.mapping_files import ARCH_FILE, MAPPINGS_FOLDER, REPORT_FILE, write_network_files
    from codesign.report.network_page import write_network_page

    write_network_files(result, out)
    page = write_network_page(result, out / REPORT_FILE, events)
    return [
        f"mappings: {out / MAPPINGS_FOLDER}, one file a layer, each read by `codesign evaluate {out / ARCH_FILE} FILE`",
        f"report: {page}",
    ]


def print_result(result: "NetworkResult") -> None:
    """Print a network on an accelerator for people."""
    from codesign.cli.cost_text import print_provenance
    from codesign.cli.tables import make_console
    from codesign.evaluation.metrics import format_si

    console = make_console()
    network, architecture = result.network, result.architecture
    widths = result.layers[0].computation.tensors
    console.print(
        f"{network.name} on {architecture.name}: {len(network.operators):,} operators, {network.macs:,} MACs, "
        f"{network.weight_bytes:,} bytes of weights; operands of {widths[0].bits} bits, partial sums of "
        f"{max(t.partial_bits for t in widths)} bits\n",
        markup=False,
    )
    console.print(_layer_table(result))
    metrics = result.metrics()
    area = metrics["area_mm2"]
    seconds = f"{result.latency_cycles:,.0f} cycles = {format_si(result.latency_s, 's')}"
    console.print(f"latency      {seconds} at {architecture.clock_hz / 1e6:g} MHz")
    console.print(f"energy       {format_si(result.energy_j, 'J')}, {format_si(result.leakage_j, 'J')} of it leakage")
    console.print(f"power        {format_si(metrics['power_w'] or 0.0, 'W')}")
    console.print(f"area         {'not given' if area is None else format_si(area, 'mm²')}")
    console.print(f"utilization  {result.utilization:.2%} of {architecture.mac_units:,} MAC units over the whole run")
    console.print(f"DRAM         {result.dram_bytes:,.0f} bytes moved at {architecture.levels[0].name}")
    print_provenance(console, architecture)
    if result.mapper != "given":
        proven = sum(layer.result.proof.value == "optimal" for layer in result.layers)
        console.print(
            f"{result.mapper}: {result.evaluated:,} mappings scored in {result.seconds:.2f} s; "
            f"{proven} of {len(result.layers)} layers proven optimal for {result.options.objective.value}"
        )


def _layer_table(result: "NetworkResult") -> "Table":
    from codesign.cli.tables import make_table

    title = "Distinct layers: cycles and energy of one, share of the time of all that are equal"
    heads = ["layer", "times>", "MACs>", "cycles>", "share>", "utilization>", "bound by", "energy (pJ)>", "DRAM bytes>"]
    table = make_table(title, *heads, *([] if result.mapper == "given" else ["proof"]), padding=(0, 1, 0, 0))
    for layer in result.layers:
        row = _layer_row(layer, result.latency_cycles)
        table.add_row(*(row[:-1] if result.mapper == "given" else row))
    vector = result.vector
    if vector.operations:
        share = f"{vector.latency_cycles / result.latency_cycles:.1%}"
        figures = (f"{vector.energy_pj:,.0f}", f"{vector.dram_bytes:,.0f}")
        table.add_row("vector operators", "", "", f"{vector.latency_cycles:,.0f}", share, "", "", *figures)
    return table


def _layer_row(layer: "LayerResult", total_cycles: float) -> tuple[str, ...]:
    cost, found = layer.mapped.cost, layer.result
    proof: str = found.proof.value if found.gap is None or found.gap == 0 else f"gap {found.gap:.2%}"
    return (
        layer.name,
        f"{layer.count:g}",
        f"{cost.macs:,}",
        f"{layer.latency_cycles:,.0f}",
        f"{layer.latency_cycles * layer.count / total_cycles:.1%}",
        f"{layer.utilization:.1%}",
        " + ".join(layer.bottlenecks),
        f"{layer.energy_pj:,.0f}",
        f"{layer.dram_bytes:,.0f}",
        proof,
    )
