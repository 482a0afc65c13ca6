"""What an accelerator does for those whose requests it serves: rules V1 to V6 of docs/reference/serving.md."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from codesign.arch.architecture import Architecture
from codesign.core import clock
from codesign.core.point import PointValue
from codesign.cost.cost import Infeasible
from codesign.evaluation.design import DesignSpace, Evaluation, area_of, describe_architecture
from codesign.evaluation.detail import NoDetail, ServingDetail
from codesign.evaluation.metrics import JudgedMetric, Metrics
from codesign.evaluation.network import EvaluationOptions, LayerResult, WorkloadRun, run_workload
from codesign.evaluation.records import PhaseLayerRecord, PhaseRecord, ServingRecord
from codesign.mappers.protocol import Mapper
from codesign.timing.cores.collectives import all_reduce_s
from codesign.timing.cores.system import CoreSystem, system_of
from codesign.timing.cores.whole_network import network_time
from codesign.workloads.network import Network
from codesign.workloads.serving import Chips, ServingSpec
from codesign.workloads.workload import Workload
from codesign.workloads.zoo.language_models import decode_macs

SERVING_METRICS: dict[str, JudgedMetric] = {
    "ttft": JudgedMetric("ttft_s"),
    "ttft_s": JudgedMetric("ttft_s"),
    "tpot": JudgedMetric("tpot_s"),
    "tpot_s": JudgedMetric("tpot_s"),
    "s_per_token": JudgedMetric("s_per_token"),
    "tokens_per_s": JudgedMetric("tokens_per_s", instead="s_per_token"),
    "tokens_per_j": JudgedMetric("tokens_per_j", instead="energy"),
}
"""What a search may minimise or bound besides the metrics of every design, by name."""

MOST_BATCH = 1 << 16
"""Where the search for the batch that decoding is bound by arithmetic from gives up."""


@final
@dataclass(frozen=True)
class Phase:
    """One run of the model on every chip: reading a prompt, or one step of a batch.

    Args:
        tokens: Of each sequence.
        past: In the cache before them.
        batch: Sequences.
        latency_s: Links included.
        link_s: Of it, adding up over the chips.
        energy_j: Of all chips and links, leakage included.
        dram_bytes: Of all chips.
        macs: Of all chips.
        bound_by: Share of the time by what limits it.
        layers: Every distinct layer of one chip.
    """

    tokens: int
    past: int
    batch: int
    latency_s: float
    link_s: float
    energy_j: float
    dram_bytes: float
    macs: int
    bound_by: tuple[tuple[str, float], ...]
    layers: tuple[LayerResult, ...] = ()

    def to_json(self) -> PhaseRecord:
        """The fields as plain values that JSON can hold."""
        return {
            "tokens": self.tokens,
            "past": self.past,
            "batch": self.batch,
            "latency_s": self.latency_s,
            "link_s": self.link_s,
            "energy_j": self.energy_j,
            "dram_bytes": self.dram_bytes,
            "macs": self.macs,
            "bound_by": dict(self.bound_by),
            "layers": [_phase_layer(layer) for layer in self.layers],
        }


def _phase_layer(layer: LayerResult) -> PhaseLayerRecord:
    whole = layer.to_json()
    return {
        "name": whole["name"],
        "notation": whole["notation"],
        "bounds": whole["bounds"],
        "count": whole["count"],
        "macs": whole["macs"],
        "latency_cycles": whole["latency_cycles"],
        "energy_pj": whole["energy_pj"],
        "utilization": whole["utilization"],
        "bottlenecks": list(layer.bottlenecks),
        "busy_cycles": layer.busy_cycles,
        "dram_bytes": whole["dram_bytes"],
        "proof": whole["proof"],
        "gap": whole["gap"],
    }


@final
@dataclass(frozen=True)
class ServingResult:
    """A model served by an accelerator.

    Args:
        spec: What is served.
        architecture: Of one chip.
        prefills: Reading a prompt of each length class, and the share of the requests in it.
        decode: One step of the batch at the mean context.
        compute_bound_batch: The least batch at which decoding is bound by arithmetic; None: it never is.
        evaluated: Mappings scored.
    """

    spec: ServingSpec
    architecture: Architecture
    prefills: tuple[tuple[Phase, float], ...]
    decode: Phase
    compute_bound_batch: int | None
    evaluated: int

    @property
    def ttft_s(self) -> float:
        """Time to first token, on average over the requests: reading the prompt, alone (rule V2)."""
        return sum(share * phase.latency_s for phase, share in self.prefills)

    @property
    def prefill_j(self) -> float:
        """Energy of reading a prompt, on average over the requests."""
        return sum(share * phase.energy_j for phase, share in self.prefills)

    @property
    def steps(self) -> float:
        """Decode steps of a request: its first token comes from the prompt."""
        return self.spec.mean_output - 1

    @property
    def tpot_s(self) -> float:
        """Time per output token of a sequence after its first, the prefills of others between included (rule V4)."""
        if not self.steps:
            return self.ttft_s
        return self.decode.latency_s + self.spec.batch * self.ttft_s / self.steps

    @property
    def _round_s(self) -> float:
        """Time in which every place of the batch serves one request."""
        return self.steps * self.decode.latency_s + self.spec.batch * self.ttft_s

    @property
    def tokens_per_s(self) -> float:
        """Output tokens of the whole batch a second, in the long run (rule V4)."""
        return self.spec.batch * self.spec.mean_output / self._round_s

    @property
    def joules_per_token(self) -> float:
        """Energy of one output token, its share of the prompt included."""
        spent = self.steps * self.decode.energy_j + self.spec.batch * self.prefill_j
        return spent / (self.spec.batch * self.spec.mean_output)

    def to_json(self) -> ServingRecord:
        """The fields as plain values that JSON can hold."""
        return {
            "model": self.spec.name,
            "batch": self.spec.batch,
            "chips": self.spec.chips.count,
            "mean_context": self.spec.mean_context,
            "mean_output": self.spec.mean_output,
            "ttft_s": self.ttft_s,
            "tpot_s": self.tpot_s,
            "tokens_per_s": self.tokens_per_s,
            "tokens_per_j": 1 / self.joules_per_token,
            "compute_bound_batch": self.compute_bound_batch,
            "prefill": [{"share": share, **phase.to_json()} for phase, share in self.prefills],
            "decode": self.decode.to_json(),
            "evaluated": self.evaluated,
        }


def serve(
    spec: ServingSpec,
    architecture: Architecture,
    mapper: Mapper,
    options: EvaluationOptions,
    partial_bits: int | None = None,
) -> ServingResult | Infeasible:
    """Judge an accelerator by what it does for requests.

    Args:
        spec: What is served.
        architecture: Of one chip; energies filled in.
        mapper: Of every distinct layer.
        options: How layers are judged.
        partial_bits: Width of partial sums; default that of operands.

    Returns:
        The result, or the first layer without a valid mapping.
    """
    bits = architecture.mac.bits
    partial_bits = partial_bits if partial_bits is None else max(partial_bits, bits)
    evaluated = 0
    phases: list[Phase] = []
    plans = [(spec.prefill(n, bits, partial_bits), n, 0, 1) for n, _ in spec.prompts]
    plans.append((spec.decode(bits, partial_bits), 1, spec.mean_context, spec.batch))
    for network, tokens, past, batch in plans:
        run = run_workload(Workload.of([network]), architecture, mapper, options)
        if isinstance(run, Infeasible):
            return run
        evaluated += run.evaluated
        phases.append(_phase(spec, architecture, network, run, (tokens, past, batch)))
    shares = [share for _, share in spec.prompts]
    return ServingResult(
        spec,
        architecture,
        tuple(zip(phases[:-1], shares, strict=True)),
        phases[-1],
        compute_bound_batch(spec, architecture),
        evaluated,
    )


def _phase(
    spec: ServingSpec, architecture: Architecture, network: Network, run: WorkloadRun, shape: tuple[int, int, int]
) -> Phase:
    tokens, past, batch = shape
    chips = spec.chips
    size = spec.exchanged_bytes(batch * tokens, spec.widths(architecture.mac.bits)[1])
    sums = 2 * spec.model.layers
    system = system_of(architecture)
    link_s = sums * _link_s(system, chips, size)
    seconds = _seconds_by_bound(architecture, run) if system is None else network_time(system, network).by_bound
    latency_s = sum(seconds.values()) + link_s
    dynamic_pj = sum(x.energy_pj * x.count for x in run.layers) + run.vector.energy_pj
    link_j = sums * chips.all_reduce_bytes(size) * chips.link_pj_per_byte * 1e-12
    energy_j = chips.count * (dynamic_pj * 1e-12 + architecture.leakage_w * latency_s) + link_j
    moved = sum(x.dram_bytes * x.count for x in run.layers) + run.vector.dram_bytes
    bound = {name: taken / latency_s for name, taken in seconds.items()}
    if link_s:
        bound["links"] = link_s / latency_s
    shares = tuple(sorted(bound.items(), key=lambda item: -item[1]))
    macs = chips.count * network.macs
    return Phase(tokens, past, batch, latency_s, link_s, energy_j, chips.count * moved, macs, shares, run.layers)


def _seconds_by_bound(architecture: Architecture, run: WorkloadRun) -> dict[str, float]:
    """Time of the analytical model, by what limits it."""
    found: dict[str, float] = {}
    for layer in run.layers:
        name = layer.bottlenecks[0]
        found[name] = found.get(name, 0.0) + layer.latency_cycles * layer.count / architecture.clock_hz
    found["vector operators"] = run.vector.latency_cycles / architecture.clock_hz
    return found


def _link_s(system: CoreSystem | None, chips: Chips, size: float) -> float:
    """One sum over the chips: by the system's own links where it has some and the specification gives none (rule V8)."""
    if system is not None and system.has("link_start_s") and chips == Chips(chips.count):
        return all_reduce_s(system, size, chips.count)
    return chips.all_reduce_s(size)


def compute_bound_batch(spec: ServingSpec, architecture: Architecture) -> int | None:
    """The least batch at which the arithmetic of a decode step takes longer than its weights and caches from DRAM (rule V5).

    Both at their peak, all chips together; None where the caches alone keep DRAM busy longer, whatever the batch.
    """
    dram = architecture.levels[0]
    words = dram.read_bandwidth_words_per_cycle
    if words is None:
        return 1
    weight_bits, _, cache_bits = spec.widths(architecture.mac.bits)
    bytes_per_cycle = words * dram.word_bits / 8 * spec.chips.count
    macs_per_cycle = architecture.mac_units * spec.chips.count
    each = decode_macs(spec.model, spec.mean_context) / macs_per_cycle
    cache = spec.model.cache_elements(spec.mean_context + 1) * cache_bits / 8 / bytes_per_cycle

    def is_bound(batch: int) -> bool:
        weights = spec.step_elements(batch) * weight_bits / 8 / bytes_per_cycle
        return batch * each >= weights + batch * cache

    if not is_bound(MOST_BATCH):
        return None
    low, high = 0, MOST_BATCH
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_bound(middle) else (middle, high)
    return high


@final
@dataclass(frozen=True)
class ServingEvaluator:
    """Judges designs by the requests they serve. Plain data, so it can be sent to other processes.

    Latency is the time per output token, energy that of one output token; areas are of all chips.

    Args:
        space: Where designs come from.
        spec: What is served.
        mapper: Of every distinct layer.
        options: How layers are judged.
        partial_bits: Width of partial sums; None: as the space says.
    """

    space: DesignSpace
    spec: ServingSpec
    mapper: Mapper
    options: EvaluationOptions = field(default_factory=EvaluationOptions)
    partial_bits: int | None = None

    def __call__(self, point: Mapping[str, PointValue]) -> Evaluation:
        """Evaluate one design."""
        started = clock.wall_seconds()
        architecture = self.space.build(dict(point))
        described = describe_architecture(architecture)
        found = serve(self.spec, architecture, self.mapper, self.options, self.partial_bits or self.space.partial_bits)
        seconds = clock.wall_seconds() - started
        if isinstance(found, Infeasible):
            return Evaluation(None, found, seconds, NoDetail(), described)
        area = area_of(architecture)
        count = self.spec.chips.count
        own = (
            ("ttft_s", found.ttft_s),
            ("tpot_s", found.tpot_s),
            ("s_per_token", 1 / found.tokens_per_s),
            ("tokens_per_s", found.tokens_per_s),
            ("tokens_per_j", 1 / found.joules_per_token),
        )
        metrics = Metrics(found.tpot_s, found.joules_per_token, count * area, count * architecture.leakage_w, own)
        return Evaluation(metrics, None, seconds, ServingDetail(found.to_json()), described)
