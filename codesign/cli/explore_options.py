"""The options of `codesign explore`, each group as the part of a study file that it stands for; None where nothing was given."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.cli.options import option
from codesign.core.errors import UserError

if TYPE_CHECKING:
    from codesign.core.json_types import JsonObject

_CHOICES = "Precision and zeros"
_WORKLOAD, _JUDGE, _LOW, _WORKERS = "Workload", "Judging a design", "Low-fidelity evaluations first", "Workers"


@dataclass(frozen=True)
class WorkloadFlags:
    """`workload` of a study file."""

    network: Annotated[
        list[str] | None,
        typer.Option(help="ONNX file or zoo name; repeat it for several networks as one workload."),
    ] = None
    workload: Annotated[
        Path | None,
        typer.Option(
            help="Requests to a language model (YAML) instead of networks: latency is the time per output token, energy that of one."
        ),
    ] = None
    weights: Annotated[
        str | None, option(_WORKLOAD, help="One number per --network: how often each runs, e.g. '2 1'.")
    ] = None
    batch: Annotated[int | None, option(_WORKLOAD, help="Inferences that run together.", min=1)] = None
    seq: Annotated[int | None, option(_WORKLOAD, help="Sequence length, for networks that have one.", min=1)] = None
    past: Annotated[int | None, option(_WORKLOAD, help="Tokens in the cache, for language models.", min=0)] = None
    dims: Annotated[
        str | None, option(_WORKLOAD, help="Lengths of ONNX files' free axes: --dims batch=4 seq=128 past=1024.")
    ] = None
    phase: Annotated[str | None, option(_WORKLOAD, help="prefill or decode, for language models.")] = None

    def to_json(self) -> "JsonObject":
        """As in the file.

        Raises:
            UserError: A list is malformed.
        """
        from codesign.cli.inputs import parse_dims

        return {
            "networks": list(self.network or ()) or None,
            "serving": None if self.workload is None else str(self.workload),
            "weights": _numbers("--weights", self.weights),
            "batch": self.batch,
            "seq": self.seq,
            "past": self.past,
            "dims": parse_dims(self.dims),
            "phase": self.phase,
        }


@dataclass(frozen=True)
class SearchFlags:
    """`space` and `search` of a study file."""

    space: Annotated[
        str | None,
        typer.Option(
            help="Hardware space by name, or your own: a file (mine.yaml) or module:attribute; an unknown name lists them.",
            show_default="scratchpad",
        ),
    ] = None
    technology: Annotated[
        str | None,
        typer.Option(
            help="Technology that gives energies and areas, e.g. cmos-7nm; short for --space NAME@TECHNOLOGY.",
            show_default="the space's",
        ),
    ] = None
    optimizer: Annotated[
        str | None,
        typer.Option(
            help="mobo, exact (a proven front), nsga2:POPULATION, random, sobol, optuna:tpe, rl:ppo ...; an unknown name lists them.",
            show_default="mobo",
        ),
    ] = None
    trials: Annotated[
        int | None,
        typer.Option(
            help="Designs evaluated in all, those already in the study included; default 40, with exact until proven.",
            min=1,
        ),
    ] = None
    epsilon: Annotated[
        float | None,
        typer.Option(help="With exact: leave designs out that are at most this share better, e.g. 0.02; default 0."),
    ] = None
    objectives: Annotated[
        str | None,
        typer.Option(
            help="Two to four of latency, energy, power, area, edp, metrics of the space, or module:function of your own; "
            "default: those of the space, else latency energy area."
        ),
    ] = None
    constraint: Annotated[
        list[str] | None,
        typer.Option(
            help='Bound on a metric or a parameter, e.g. "power_w<=2", "latency<=5ms", "pe_rows>=8"; may be repeated.'
        ),
    ] = None
    seed: Annotated[int | None, typer.Option(help="Seed of every random choice.", min=0, show_default="0")] = None
    certify: Annotated[
        float | None,
        typer.Option(
            help="CPU seconds after the search to show how much better than the front any design of the space may be; 0 for none.",
            show_default="20",
        ),
    ] = None

    def to_json(self) -> "JsonObject":
        """As in the file, the name of the space and its technology apart."""
        return {
            "optimizer": self.optimizer,
            "trials": self.trials,
            "epsilon": self.epsilon,
            "objectives": list((self.objectives or "").replace(",", " ").split()) or None,
            "constraints": list(self.constraint or ()) or None,
            "seed": self.seed,
            "certify": self.certify,
        }


@dataclass(frozen=True)
class ChoiceFlags:
    """`choices` of a study file."""

    precision: Annotated[
        list[str] | None,
        option(
            _CHOICES,
            help='Widths of weights, activations, caches: W8A8, W4A16KV8, mxfp4, "W4A8,lm_head*=W8A8". MACs are built for them. '
            "Several (the option repeated, or with spaces) are a parameter of the search.",
        ),
    ] = None
    zeros: Annotated[
        list[str] | None,
        option(
            _CHOICES,
            help="Where tensors have zeros: dense, weight=2:4, weight=0.3,input=0.5, conv1.weight=dense,weight=2:4. Several are a parameter.",
        ),
    ] = None
    zero_support: Annotated[
        list[str] | None,
        option(
            _CHOICES,
            help="What hardware does about zeros, with its area: none, compressed, gating, skipping. Several are a parameter.",
        ),
    ] = None
    accuracy: Annotated[
        Path | None,
        option(
            _CHOICES,
            help="Table (CSV, YAML) with the accuracy or error of every precision and zeros: the metrics accuracy and error.",
        ),
    ] = None

    def to_json(self) -> "JsonObject":
        """The options as a study file holds them."""
        return {
            "precision": _words(self.precision),
            "zeros": _words(self.zeros),
            "zero_support": _words(self.zero_support),
            "accuracy": None if self.accuracy is None else str(self.accuracy),
        }


def _words(values: list[str] | None) -> list[str] | None:
    return [word for value in values or () for word in value.split()] or None


@dataclass(frozen=True)
class JudgeFlags:
    """`judge` of a study file."""

    scheduler: Annotated[
        str | None,
        option(
            _JUDGE,
            help="layers (each mapped alone), soma (whole network fused; --space soma-edge, soma-cloud), fused (the same proven, any space), or cosma "
            "(off-chip traffic of the best operator order and spills), or segments (trees of pipelines on systems of many cores; --space manycore); strongest: fused, soma or layers, the first that workload, space and budget allow.",
            show_default="layers",
        ),
    ] = None
    mapper: Annotated[
        str | None,
        option(_JUDGE, help="Search for each layer's mapping, default exact; an unknown name lists them."),
    ] = None
    map_objective: Annotated[
        str | None,
        option(
            _JUDGE,
            help="What each mapping or schedule minimises: energy, latency or edp (default); with --scheduler cosma "
            "bytes (default), energy or latency.",
        ),
    ] = None
    dram_ports: Annotated[
        str | None,
        option(
            _JUDGE,
            help="shared (reads and writes take turns on the DRAM channel, as in every built-in space) or separate "
            "(each has the full bandwidth, as Timeloop counts); default: as the space says.",
        ),
    ] = None
    timing: Annotated[
        str | None,
        option(
            _JUDGE,
            help="analytical, or event: the front is simulated after the search; with --fidelity two the high fidelity is simulated.",
            show_default="analytical",
        ),
    ] = None
    timing_table: Annotated[
        str | None,
        option(
            _JUDGE,
            help="With --timing event: timing table by name or file; default: the one named like the architecture, else none.",
        ),
    ] = None
    robust: Annotated[
        bool | None,
        option(
            _JUDGE,
            "--robust",
            help="The worst case counts: of all networks, each alone (times its weight), and of what --vary names.",
        ),
    ] = None
    vary: Annotated[
        list[str] | None,
        option(
            _JUDGE,
            help="With --robust: factors of dram, sram, registers, mac, wires, leakage or dram_bandwidth, e.g. dram=0.5:2, or values of "
            "batch, seq or past, e.g. seq=128,1024; may be repeated.",
        ),
    ] = None
    per_design: Annotated[
        str | None,
        option(
            _JUDGE,
            help="best (one mapping a layer), or pareto: after the search, all compromises between latency and energy over the mappings of "
            "every design, merged into one front.",
            show_default="best",
        ),
    ] = None
    time_limit: Annotated[float | None, option(_JUDGE, help="Seconds of search per layer (soma: per network).")] = None
    evaluations: Annotated[
        int | None, option(_JUDGE, help="Mappings scored per layer (soma: schemes per network) at most.")
    ] = None
    activations: Annotated[
        str | None,
        option(
            _JUDGE,
            help="Between layers: dram (written and read back) or kept (on chip where they fit).",
            show_default="dram",
        ),
    ] = None
    activation_buffer: Annotated[
        str | None,
        option(_JUDGE, help="On-chip memory set aside for kept activations, e.g. 64KiB.", show_default="0"),
    ] = None
    resident_weights: Annotated[
        bool | None,
        option(_JUDGE, "--resident-weights", help="Weights are on chip for good instead of loaded each run."),
    ] = None

    def to_json(self) -> "JsonObject":
        """As in the file.

        Raises:
            UserError: The buffer is no size.
        """
        from codesign.core.quantities import parse_size

        size = self.activation_buffer
        return {
            "scheduler": self.scheduler,
            "mapper": self.mapper,
            "objective": self.map_objective,
            "time_limit_s": self.time_limit,
            "evaluations": self.evaluations,
            "dram_ports": self.dram_ports,
            "timing": self.timing,
            "timing_table": self.timing_table,
            "robust": self.robust,
            "vary": list(self.vary or ()) or None,
            "per_design": self.per_design,
            "between_layers": {
                "activations": self.activations,
                "activation_bytes": None if size is None else parse_size(size, "--activation-buffer"),
                "resident_weights": self.resident_weights,
            },
        }


@dataclass(frozen=True)
class FidelityFlags:
    """`fidelity` of a study file."""

    fidelity: Annotated[
        str | None,
        option(
            _LOW,
            help="one, or two: low-fidelity evaluations first where they tell more for their price (mobo).",
            show_default="one",
        ),
    ] = None
    low_fidelity_mapper: Annotated[
        str | None, option(_LOW, help="Mapper of low-fidelity evaluations, default anneal.")
    ] = None
    low_fidelity_evaluations: Annotated[
        int | None,
        option(
            _LOW, help="Mappings (soma: schemes) scored per layer in a low-fidelity evaluation, default 200.", min=1
        ),
    ] = None
    low_fidelity_cost: Annotated[
        float | None,
        option(_LOW, help="Price of a low-fidelity evaluation as a share of a high-fidelity one, default 0.1."),
    ] = None

    def to_json(self) -> "JsonObject":
        """The options as a study file holds them."""
        return {
            "fidelities": self.fidelity,
            "low_mapper": self.low_fidelity_mapper,
            "low_evaluations": self.low_fidelity_evaluations,
            "low_cost": self.low_fidelity_cost,
        }


@dataclass(frozen=True)
class WorkerFlags:
    """`workers` of a study file."""

    workers: Annotated[
        int | None,
        option(_WORKERS, help="Designs evaluated at once; default 1, with Ray as many as cores.", min=1),
    ] = None
    executor: Annotated[
        str | None,
        option(_WORKERS, help="process (on this machine) or ray (on a cluster).", show_default="process"),
    ] = None
    ray_address: Annotated[
        str | None,
        option(_WORKERS, help="Of a running Ray cluster: auto or HOST:PORT; without it one is started here."),
    ] = None

    def to_json(self) -> "JsonObject":
        """The options as a study file holds them."""
        return {"count": self.workers, "executor": self.executor, "ray_address": self.ray_address}


def _numbers(flag: str, text: str | None) -> "list[float] | None":
    if text is None:
        return None
    try:
        return [float(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise UserError(f"{flag} must be numbers separated by spaces, got {text!r}") from None
