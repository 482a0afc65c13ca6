"""What a person asked for: which workload, and how designs are judged by it. Frozen, files too (see `codesign.core.specs`)."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict, final

from codesign.core.checks import repeated
from codesign.core.errors import UserError, unknown_name
from codesign.core.goals import Budget
from codesign.core.specs import at_least
from codesign.evaluation.records import WorkloadRecord

if TYPE_CHECKING:
    from codesign.workloads.traffic import TrafficRules

STRONGEST = "strongest"
SEGMENTS = "segments"
SCHEDULERS = ("layers", "soma", "fused", "cosma", SEGMENTS, STRONGEST)
ANALYTICAL, EVENT = "analytical", "event"
TIMINGS = (ANALYTICAL, EVENT)
BEST, PARETO = "best", "pareto"
PER_DESIGN = (BEST, PARETO)
EXECUTORS = ("process", "ray")
DRAM_PORTS = ("shared", "separate")
"""Values of `codesign.arch.architecture.Ports`, so that a command line that is read loads no architectures."""


class NetworkLengths(TypedDict):
    """The options of loading a network that say how long its axes are."""

    batch: int | None
    seq: int | None
    past: int | None
    phase: str | None
    dims: dict[str, int] | None


@final
@dataclass(frozen=True)
class WorkloadSpec:
    """The networks that designs run.

    Args:
        networks: Names of the zoo or files (ONNX, JSON, YAML); several are one workload.
        weights: How often each runs, one number per network, such as 2 1; default: once each.
        batch: Inferences that run together.
        seq: Sequence length, for networks that have one.
        past: Tokens in the cache, for language models.
        phase: prefill or decode, for language models.
        dims: Lengths of ONNX files' free axes, by name (--dims batch=4 seq=128 past=1024); other networks of the workload do not read them.
        serving: File of the requests to a language model, instead of networks: latency is the time per output token, energy that of one.
    """

    networks: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    batch: int | None = at_least(1)
    seq: int | None = at_least(1)
    past: int | None = at_least(0)
    phase: str | None = None
    dims: dict[str, int] | None = None
    serving: str | None = None

    def __post_init__(self) -> None:
        if self.serving is None:
            if not self.networks:
                raise UserError("a workload needs at least one network, got none")
            return
        given = {
            "--network": self.networks,
            "--weights": self.weights,
            "--batch": self.batch,
            "--seq": self.seq,
            "--past": self.past,
            "--phase": self.phase,
            "--dims": self.dims,
        }
        for option, value in given.items():
            if value:
                raise UserError(f"{option} plays no part with --workload", hint="the file says what is served")

    @property
    def all_weights(self) -> tuple[float, ...]:
        """One for each network.

        Raises:
            UserError: There are more or fewer weights than networks.
        """
        weights = self.weights or (1.0,) * len(self.networks)
        if len(weights) != len(self.networks):
            raise UserError(f"expected {len(self.networks)} weights, one per network, got {len(weights)}")
        return weights

    def lengths_of(self, network: str) -> NetworkLengths:
        """How one of the networks is loaded.

        Where kinds of networks are mixed, free axes by name are of those that are ONNX files, tokens in the cache and the phase
        of those that are not. Where no network takes an option, each is given it, so that loading refuses it by name.
        """
        is_onnx = [name.lower().endswith(".onnx") for name in self.networks]
        mixed, onnx = len(set(is_onnx)) > 1, network.lower().endswith(".onnx")
        return {
            "batch": self.batch,
            "seq": self.seq,
            "past": None if mixed and onnx else self.past,
            "phase": None if mixed and onnx else self.phase,
            "dims": None if mixed and not onnx else self.dims,
        }

    def record(self) -> WorkloadRecord:
        """The part of a study's record that says how networks were loaded."""
        return {
            "networks": list(self.networks),
            "batch": self.batch,
            "seq": self.seq,
            "past": self.past,
            "phase": self.phase,
            "dims": self.dims,
            **({} if self.serving is None else {"serving": self.serving}),
        }


@final
@dataclass(frozen=True)
class ChoicesSpec:
    """What the search may choose beside the parameters of the space: several values of one kind make a parameter (rules C1 to C6).

    Args:
        precision: Widths of weights, activations and caches, each like W8A8, W4A16KV8, mxfp4 or W4A8,lm_head*=W8A8; MACs are built for
            them. Several are a parameter of the search.
        zeros: Where tensors have zeros, each like dense, weight=2:4 or weight=0.3,input=0.5. Several are a parameter.
        zero_support: What hardware does about zeros, with its area, each none, compressed, gating or skipping. Several are a parameter.
        accuracy: Table (CSV, YAML) with the accuracy or error of every precision and zeros: the metrics accuracy and error.
    """

    precision: tuple[str, ...] = ()
    zeros: tuple[str, ...] = ()
    zero_support: tuple[str, ...] = ()
    accuracy: str | None = None

    def __post_init__(self) -> None:
        for name in ("precision", "zeros", "zero_support"):
            values = getattr(self, name)
            if (twice := repeated(values)) is not None:
                raise UserError(f"`{name}` names {twice!r} twice")
        if self.accuracy is not None and not (self.precision or self.zeros):
            raise UserError("--accuracy needs --precision or --zeros, which its lines speak of")


@final
@dataclass(frozen=True)
class BetweenLayers:
    """What happens to activations and weights between layers (rules E3 to E5).

    Args:
        activations: dram (written and read back) or kept (on chip where they fit).
        activation_bytes: On-chip memory set aside for kept activations, such as 64KiB.
        resident_weights: Weights are on chip for good instead of loaded each run.
    """

    activations: str = "dram"
    activation_bytes: int = 0
    resident_weights: bool = False

    def rules(self) -> "TrafficRules":
        """The same for the evaluation.

        Raises:
            UserError: The fields do not go together.
        """
        from codesign.workloads.traffic import Activations, TrafficRules, Weights

        try:
            activations = Activations(self.activations)
        except ValueError:
            raise UserError(f"--activations must be dram or kept, got {self.activations!r}") from None
        if activations is Activations.DRAM and self.activation_bytes:
            raise UserError("--activation-buffer is used with --activations kept only")
        if activations is Activations.KEPT and not self.activation_bytes:
            raise UserError("--activations kept needs --activation-buffer, the memory to keep them in")
        return TrafficRules(
            activations=activations, weights=Weights.RESIDENT if self.resident_weights else Weights.PER_RUN
        )


@final
@dataclass(frozen=True)
class JudgeSpec:
    """How designs are judged: layer by layer, or the whole network scheduled.

    Args:
        scheduler: layers (each mapped alone), soma (whole network fused; spaces soma-edge, soma-cloud), fused (the same with proof, under LoopTree's rules), cosma (off-chip traffic of the best operator order and spills), segments (trees of pipelines on systems of many cores; space manycore) or strongest (fused, soma or layers, the first that workload, space and budget allow).
        mapper: Search for each layer's mapping, default exact; an unknown name lists them.
        objective: What each mapping or schedule minimises: energy, latency or edp (default); with cosma bytes (default), energy or latency.
        time_limit_s: Seconds of search per layer (soma, fused, cosma, segments: per network).
        evaluations: Mappings scored per layer (soma: schemes, segments: trees per network) at most.
        dram_ports: shared (reads and writes take turns on the DRAM channel, as in every built-in space) or separate (each has the full
            bandwidth, as Timeloop counts); default: as the space says.
        timing: analytical, or event: the front is simulated after the search; with two fidelities the high one is.
        timing_table: With event: constants by name or file, default those named like the architecture, else none.
        robust: Whether the worst case counts: of all networks, each alone (times its weight), and of what varies.
        vary: With robust: factors of dram, sram, registers, mac, wires, leakage or dram_bandwidth, such as dram=0.5:2, or values of batch,
            seq or past, such as seq=128,1024.
        per_design: best (one mapping a layer) or pareto: after the search, all compromises between latency and energy over the mappings of
            every design, merged into one front.
        between_layers: What happens to activations and weights.
    """

    scheduler: str = "layers"
    mapper: str | None = None
    objective: str | None = None
    time_limit_s: float | None = None
    evaluations: int | None = None
    dram_ports: str | None = None
    timing: str = ANALYTICAL
    timing_table: str | None = None
    robust: bool = False
    vary: tuple[str, ...] = ()
    per_design: str = BEST
    between_layers: BetweenLayers = field(default_factory=BetweenLayers)

    def __post_init__(self) -> None:
        if self.scheduler not in SCHEDULERS:
            raise unknown_name("scheduler", self.scheduler, SCHEDULERS)
        Budget(self.time_limit_s, self.evaluations)
        self._check_timing()
        self._check_robust()
        self._check_per_design()
        if self.dram_ports is not None and self.dram_ports not in DRAM_PORTS:
            raise unknown_name("--dram-ports", self.dram_ports, DRAM_PORTS)
        if self.dram_ports is not None and self.scheduler != "layers":
            raise UserError(
                f"--dram-ports is used with --scheduler layers, not {self.scheduler}",
                hint="schedulers of whole networks read DRAM as one channel",
            )

    def _check_timing(self) -> None:
        if self.timing not in TIMINGS:
            raise unknown_name("--timing", self.timing, TIMINGS)
        if self.timing_table is not None and self.timing != EVENT:
            raise UserError(
                "--timing-table is an option of --timing event", hint="give --timing event, or leave it out"
            )
        if self.timing == EVENT and self.scheduler not in ("layers", SEGMENTS):
            raise UserError(
                f"--timing event is used with --scheduler layers or {SEGMENTS}, not {self.scheduler}",
                hint="`codesign schedule --timing event` simulates a schedule",
            )
        if self.timing_table is not None and self.scheduler == SEGMENTS:
            raise UserError(
                f"--timing-table plays no part with --scheduler {SEGMENTS}: a system names its links and DRAMs",
                hint="leave it out",
            )
        if self.timing == EVENT and self.between_layers != BetweenLayers():
            raise UserError(
                "--timing event moves all activations and weights through DRAM",
                hint="leave out --activations, --activation-buffer and --resident-weights",
            )

    def _check_robust(self) -> None:
        if self.vary and not self.robust:
            raise UserError("--vary is an option of --robust", hint="give --robust, or leave out --vary")
        if self.robust and self.scheduler != "layers":
            raise UserError(f"--robust is used with --scheduler layers, not {self.scheduler}")
        if self.robust and self.timing == EVENT:
            raise UserError("--robust plays no part with --timing event", hint="leave out one of them")

    def _check_per_design(self) -> None:
        if self.per_design not in PER_DESIGN:
            raise unknown_name("--per-design", self.per_design, PER_DESIGN)
        if self.per_design == BEST:
            return
        if self.scheduler != "layers" or self.timing == EVENT or self.between_layers != BetweenLayers():
            raise UserError(
                "--per-design pareto is for designs judged layer by layer, all tensors through DRAM, by analytical figures",
                hint="leave out --scheduler, --timing, --activations and --resident-weights",
            )
        if self.robust:
            raise UserError("--per-design pareto plays no part with --robust", hint="leave out one of them")

    @property
    def budget(self) -> Budget:
        """What each search for mappings may spend."""
        return Budget(self.time_limit_s, self.evaluations)
