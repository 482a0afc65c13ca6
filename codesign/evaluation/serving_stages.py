"""One part of a phase on a stage of chips, its layers mapped one by one: rules V6, V8 and V9 of docs/reference/serving.md."""

from dataclasses import dataclass
from typing import Protocol, final

from codesign.arch.architecture import Architecture
from codesign.core.json_types import JsonObject
from codesign.cost.cost import Infeasible
from codesign.evaluation.network import EvaluationOptions, LayerResult, WorkloadRun, run_workload
from codesign.mappers.protocol import Mapper, MapResult
from codesign.timing.cores.system import system_of
from codesign.timing.cores.whole_network import network_time
from codesign.workloads.computation import Computation
from codesign.workloads.serving import ServingSpec
from codesign.workloads.workload import Workload
from codesign.workloads.zoo.language_models import Span


@final
@dataclass(frozen=True)
class Part:
    """What passes the stages at once.

    Args:
        tokens: Of each sequence.
        past: In the cache before them, on average over the parts.
        batch: Sequences.
        count: Parts of the phase.
    """

    tokens: int
    past: int
    batch: int
    count: int


def part_of(tokens: int, past: int, batch: int, wanted: int) -> Part:
    """A phase in so many parts: sequences of a batch apart, or tokens of one prompt in turn (rule V9).

    >>> part_of(1000, 0, 1, 4)
    Part(tokens=250, past=375, batch=1, count=4)
    >>> part_of(1, 80, 6, 4)
    Part(tokens=1, past=80, batch=2, count=3)
    """
    if batch > 1 or tokens == 1:
        each = -(-batch // wanted)
        return Part(tokens, past, each, -(-batch // each))
    each = -(-tokens // wanted)
    count = -(-tokens // each)
    return Part(each, past + round((count - 1) * each / 2), batch, count)


@final
@dataclass(frozen=True)
class StageRun:
    """One part of a phase on one chip of a stage.

    Args:
        seconds: By what limits them.
        energy_pj: Of the chip, without leakage.
        dram_bytes: Of the chip.
        macs: Of the chip.
        sums: How many tensors the chips of the stage add up.
        layers: Every distinct layer; none where layers were not mapped one by one.
        bound_s: No schedule of the stage takes less; None where that is not known.
        trees: Schedules of the stage and how often each runs.
    """

    seconds: dict[str, float]
    energy_pj: float = 0.0
    dram_bytes: float = 0.0
    macs: int = 0
    sums: int = 0
    layers: tuple[LayerResult, ...] = ()
    bound_s: float | None = None
    trees: tuple[JsonObject, ...] = ()

    @property
    def total_s(self) -> float:
        """Time of the part on the stage."""
        return sum(self.seconds.values())


class StageSource(Protocol):
    """Where times and energies of stages come from."""

    @property
    def evaluated(self) -> int:
        """Mappings or trees scored so far."""

    def run(self, part: Part, span: Span) -> StageRun | Infeasible:
        """A part on one chip of a stage, sums over chips apart."""


@final
class MappedStages:
    """Stages whose layers are mapped one by one.

    Args:
        spec: What is served.
        architecture: Of one chip.
        mapper: Of every distinct layer.
        options: How layers are judged.
        partial_bits: Width of partial sums; default that of operands.
    """

    def __init__(
        self,
        spec: ServingSpec,
        architecture: Architecture,
        mapper: Mapper,
        options: EvaluationOptions,
        partial_bits: int | None,
    ) -> None:
        self._spec, self._architecture, self._mapper, self._options = spec, architecture, mapper, options
        self._partial_bits = partial_bits if partial_bits is None else max(partial_bits, architecture.mac.bits)
        self._system = system_of(architecture)
        self._known: dict[Computation, MapResult] = {}

    @property
    def evaluated(self) -> int:
        """See `StageSource`."""
        return sum(found.evaluated for found in self._known.values())

    def run(self, part: Part, span: Span) -> StageRun | Infeasible:
        """See `StageSource`."""
        spec, bits = self._spec, self._architecture.mac.bits
        if part.tokens > 1 or not part.past:
            network = spec.prefill(part.tokens, bits, self._partial_bits, part.past, span)
        else:
            network = spec.decode(bits, self._partial_bits, part.batch, span)
        run = run_workload(Workload.of([network]), self._architecture, self._mapper, self._options, known=self._known)
        if isinstance(run, Infeasible):
            return run
        seconds = self._by_bound(run) if self._system is None else network_time(self._system, network)
        moved = sum(x.dram_bytes * x.count for x in run.layers) + run.vector.dram_bytes
        return StageRun(seconds, run.dynamic_pj, moved, network.macs, 2 * span.layers, run.layers)

    def _by_bound(self, run: WorkloadRun) -> dict[str, float]:
        """Time of the analytical model, by what limits it."""
        found: dict[str, float] = {}
        for layer in run.layers:
            name = layer.bottlenecks[0]
            found[name] = found.get(name, 0.0) + layer.latency_cycles * layer.count / self._architecture.clock_hz
        found["vector operators"] = run.vector.latency_cycles / self._architecture.clock_hz
        return found
