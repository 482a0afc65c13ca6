"""What an accelerator does for those whose requests it serves: rules V1 to V10 of docs/reference/serving.md."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from codesign.arch.architecture import Architecture
from codesign.core.point import PointValue
from codesign.cost.cost import Infeasible
from codesign.evaluation.design import DesignSpace, Evaluation, judged
from codesign.evaluation.detail import ServingDetail
from codesign.evaluation.metrics import JudgedMetric, Metrics, area_of
from codesign.evaluation.network import EvaluationOptions
from codesign.evaluation.records import ServingRecord
from codesign.evaluation.serving_phases import Phase, PhaseJudge
from codesign.evaluation.serving_stages import MappedStages, StageSource
from codesign.mappers.protocol import Mapper
from codesign.workloads.serving import ServingSpec, split_model
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
class StageMemory:
    """What a chip of a stage keeps in its memory (rule V10).

    Args:
        layers: Of the stage.
        weight_bytes: All parameters of the chip's share.
        cache_bytes: Caches of a batch of the longest requests.
    """

    layers: int
    weight_bytes: float
    cache_bytes: float

    @property
    def total_bytes(self) -> float:
        """Both together."""
        return self.weight_bytes + self.cache_bytes


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
        memory: Of a chip of every stage.
    """

    spec: ServingSpec
    architecture: Architecture
    prefills: tuple[tuple[Phase, float], ...]
    decode: Phase
    compute_bound_batch: int | None
    evaluated: int
    memory: tuple[StageMemory, ...] = ()

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
            "stages": [
                {"layers": m.layers, "weight_bytes": m.weight_bytes, "cache_bytes": m.cache_bytes} for m in self.memory
            ],
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
    source: StageSource,
) -> ServingResult | Infeasible:
    """Judge an accelerator by what it does for requests.

    Args:
        spec: What is served.
        architecture: Of one chip; energies filled in.
        source: Of times and energies of stages.

    Returns:
        The result, or the first layer without a valid mapping.
    """
    memory = stage_memory(spec, architecture.mac.bits)
    overflow = _overflow(spec, architecture, memory)
    if overflow is not None:
        return overflow
    judge = PhaseJudge(spec, architecture, source)
    prefills: list[tuple[Phase, float]] = []
    for prompt, share in spec.prompts:
        phase = judge.prefill(prompt)
        if isinstance(phase, Infeasible):
            return phase
        prefills.append((phase, share))
    decode = judge.decode()
    if isinstance(decode, Infeasible):
        return decode
    least = compute_bound_batch(spec, architecture)
    least = None if least is None else least * decode.micro_batches
    return ServingResult(spec, architecture, tuple(prefills), decode, least, source.evaluated, memory)


def stage_memory(spec: ServingSpec, bits: int) -> tuple[StageMemory, ...]:
    """Weights and caches of a chip of every stage (rule V10)."""
    part = split_model(spec.model, spec.chips.tensor)
    longest = max(request.prompt + request.output for request in spec.requests)
    cached = spec.batch * part.cache_elements(longest) * spec.widths(bits)[2] / 8
    known: dict[tuple[bool, int, bool], float] = {}
    found = []
    for span in spec.spans:
        key = (span.first == 1, span.layers, span.head)
        if key not in known:
            known[key] = float(spec.decode(bits, None, 1, span).parameter_bytes)
        found.append(StageMemory(span.layers, known[key], cached * span.layers / spec.model.layers))
    return tuple(found)


def _overflow(spec: ServingSpec, architecture: Architecture, memory: tuple[StageMemory, ...]) -> Infeasible | None:
    """The stage whose chips cannot hold its weights and caches; None where all can, or the memory is not known."""
    limit = spec.chips.memory_bytes or architecture.levels[0].capacity_bytes
    fullest = max(memory, key=lambda stage: stage.total_bytes)
    if limit is None or fullest.total_bytes <= limit:
        return None
    detail = (
        f"stage {memory.index(fullest) + 1} of {len(memory)}, {fullest.layers} layers on {spec.chips.tensor} chips: "
        f"weights {fullest.weight_bytes:,.0f} bytes, caches {fullest.cache_bytes:,.0f}"
    )
    return Infeasible("memory of a chip", fullest.total_bytes, limit, "bytes", detail)


def compute_bound_batch(spec: ServingSpec, architecture: Architecture) -> int | None:
    """The least batch at which the arithmetic of a decode step takes longer than its weights and caches from DRAM (rule V5).

    Both at their peak, all chips together; None where the caches alone keep DRAM busy longer, whatever the batch.
    """
    dram = architecture.levels[0]
    words, _ = dram.words_per_cycle
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
        return judged(self.space, dict(point), self._judge)

    def _judge(self, architecture: Architecture) -> tuple[Metrics, ServingDetail] | Infeasible:
        partial_bits = self.partial_bits or self.space.partial_bits
        stages = MappedStages(self.spec, architecture, self.mapper, self.options, partial_bits)
        found = serve(self.spec, architecture, stages)
        if isinstance(found, Infeasible):
            return found
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
        return metrics, ServingDetail(found.to_json())
