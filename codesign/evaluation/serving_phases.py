"""A prompt read, or a step of a batch, on chips in stages: rules V6 and V9 of docs/reference/serving.md.

Parts are equal, the last one padded. Between stages each of n chips sends 1/n of the tensor, and the receivers share their
parts around the ring. With n parts, times t of stages and sends s, and m the longest of both:

* A prompt takes sum t + sum s + (n - 1) m; the output layer runs for the last part alone.
* A step takes sum t + sum s + one latency back, or n m where that is longer.
* The bubble is 1 - busy time of all stages / (stages x time).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast, final

from codesign.arch.architecture import Architecture
from codesign.core.json_types import Json, JsonObject
from codesign.cost.cost import Infeasible
from codesign.evaluation.network import LayerResult
from codesign.evaluation.serving_stages import Part, StageRun, StageSource, part_of
from codesign.timing.cores.collectives import all_reduce_s, send_s
from codesign.timing.cores.system import CoreSystem, system_of
from codesign.workloads.computation import Computation
from codesign.workloads.serving import ServingSpec
from codesign.workloads.zoo.language_models import Span

LINKS, SENDS = "links", "sends between stages"


@final
@dataclass(frozen=True)
class Phase:
    """One run of the model on every chip: reading a prompt, or one step of a batch.

    Args:
        tokens: Of each sequence.
        past: In the cache before them.
        batch: Sequences.
        latency_s: Links and waiting included.
        link_s: Of it, adding up over the chips of a stage.
        energy_j: Of all chips and links, leakage included.
        dram_bytes: Of all chips.
        macs: Of all chips.
        bound_by: Share of the time by what limits it.
        layers: Every distinct layer of one chip of each stage.
        micro_batches: Parts that pass the stages one behind another.
        send_s: Of the time, giving tensors from stage to stage.
        waiting: Share of the time that chips wait for other stages, on average (the bubble).
        stage_s: Time of one part on each stage.
        bound_s: No schedules take less with the layers shared in this way; None where that is not known.
        trees: Schedules of the stages.
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
    micro_batches: int = 1
    send_s: float = 0.0
    waiting: float = 0.0
    stage_s: tuple[float, ...] = ()
    bound_s: float | None = None
    trees: tuple[JsonObject, ...] = ()

    @property
    def gap(self) -> float | None:
        """(time - bound) / bound."""
        return None if self.bound_s is None else self.latency_s / self.bound_s - 1.0

    def to_json(self) -> JsonObject:
        """The fields as plain values that JSON can hold; what trees alone say is left out without them."""
        record: JsonObject = {
            **vars(self),
            "stage_s": list(self.stage_s),
            "bound_by": dict(self.bound_by),
            "layers": [_phase_layer(layer) for layer in self.layers],
            "trees": list(self.trees),
            "gap": self.gap,
        }
        return record if self.bound_s is not None else {k: v for k, v in record.items() if k not in _OF_TREES}


_OF_TREES = ("bound_s", "gap", "trees")
_NOT_OF_PHASES = ("bottleneck", "energy_by_level_pj", "loopnest", "mapping", "widths")


def _phase_layer(layer: LayerResult) -> JsonObject:
    """A distinct layer of a phase on one chip, without its mapping."""
    return {key: cast(Json, value) for key, value in layer.to_json().items() if key not in _NOT_OF_PHASES}


@final
class PhaseJudge:
    """Judges the phases of a served model on an architecture.

    Args:
        spec: What is served.
        architecture: Of one chip.
        source: Of times and energies of stages.
    """

    def __init__(self, spec: ServingSpec, architecture: Architecture, source: StageSource) -> None:
        self.spec, self.architecture, self.source = spec, architecture, source
        self.system = system_of(architecture)

    def prefill(self, prompt: int) -> Phase | Infeasible:
        """Reading one prompt."""
        return self._best(prompt, 0, 1)

    def decode(self) -> Phase | Infeasible:
        """A step of the batch at the mean context."""
        return self._best(1, self.spec.mean_context, self.spec.batch)

    def _best(self, tokens: int, past: int, batch: int) -> Phase | Infeasible:
        """The phase in as many parts as asked for, or the quicker of one and as many as stages."""
        chips = self.spec.chips
        wanted = {1, chips.stages} if chips.micro_batches is None else {chips.micro_batches}
        parts = {part_of(tokens, past, batch, n if chips.stages > 1 else 1) for n in wanted}
        found: list[Phase] = []
        for part in sorted(parts, key=lambda part: part.count):
            phase = self._phase((tokens, past, batch), part)
            if isinstance(phase, Infeasible):
                return phase
            found.append(phase)
        return min(found, key=lambda phase: phase.latency_s)

    def _phase(self, shape: tuple[int, int, int], part: Part) -> Phase | Infeasible:
        """A phase in parts: the last passes every stage, the others go before it as fast as the slowest stage (rule V9)."""
        reads = shape[1] == 0
        last = self._stages(part, True)
        if isinstance(last, Infeasible):
            return last
        others = self._stages(part, False) if reads and part.count > 1 else last
        if isinstance(others, Infeasible):
            return others
        send = self._send_s(part) if len(last) > 1 else 0.0
        back = 0.0 if reads else self.spec.chips.onward.link_latency_s
        path = _path(part.count, (last, others), send, None if reads else back)
        bounds = [_at_best(stages) for stages in (last, others)]
        least = None
        if bounds[0] is not None and bounds[1] is not None:
            least = sum(_path(part.count, (bounds[0], bounds[1]), send, None if reads else back).values())
        return replace(self._counted(shape, part, path, (last, others)), bound_s=least)

    def _stages(self, part: Part, head: bool) -> list[StageRun] | Infeasible:
        """One part on every stage; equal stages are run once."""
        found: list[StageRun] = []
        known: dict[tuple[bool, int, bool, bool], StageRun] = {}
        for span in self.spec.spans:
            made = replace(span, head=span.head and head)
            key = (made.first == 1, made.layers, made.head, self._has_dense(made))
            if key not in known:
                run = self._stage(part, made)
                if isinstance(run, Infeasible):
                    return run
                known[key] = run
            found.append(known[key])
        return found

    def _has_dense(self, span: Span) -> bool:
        experts = self.spec.model.experts
        return experts is not None and span.first <= experts.dense_layers

    def _stage(self, part: Part, span: Span) -> StageRun | Infeasible:
        """One stage, sums over its chips included."""
        run = self.source.run(part, span)
        if isinstance(run, Infeasible):
            return run
        link_s = run.sums * self._sum_s(self._size(part))
        return replace(run, seconds={**run.seconds, LINKS: link_s}) if link_s else run

    def _size(self, part: Part) -> float:
        """Bytes of the tensor that chips add up, and that goes from stage to stage."""
        return self.spec.exchanged_bytes(part.batch * part.tokens, self.spec.widths(self.architecture.mac.bits)[1])

    def _sum_s(self, size: float) -> float:
        """One sum over the chips of a stage: by the system's own links where the specification gives none (rule V8)."""
        chips, known = self.spec.chips, self._known_links
        return chips.all_reduce_s(size) if known is None else all_reduce_s(known, size, chips.tensor)

    def _send_s(self, part: Part) -> float:
        """A tensor to the next stage; links as of `_sum_s`."""
        chips, known, size = self.spec.chips, self._known_links, self._size(part)
        return chips.send_s(size) if known is None else send_s(known, size, chips.tensor)

    @property
    def _known_links(self) -> CoreSystem | None:
        """The system, if its links are known and the specification gives none."""
        known = self.system is not None and self.system.has("link_start_s") and self.spec.chips.has_default_links
        return self.system if known else None

    def _counted(
        self,
        shape: tuple[int, int, int],
        part: Part,
        path: dict[str, float],
        runs: tuple[list[StageRun], list[StageRun]],
    ) -> Phase:
        """Sums over all parts and stages; `runs` are those of the last part and of each of the others."""
        chips, (last, others), n = self.spec.chips, runs, part.count
        latency_s = sum(path.values())
        times = [(stage, 1) for stage in last] + [(stage, n - 1) for stage in others if n > 1]
        size = self._size(part)
        dynamic = sum(count * stage.energy_pj for stage, count in times) * chips.tensor
        summed = sum(count * stage.sums for stage, count in times)
        links = summed * chips.all_reduce_bytes(size) * chips.link_pj_per_byte
        links += n * (chips.stages - 1) * chips.send_pj(size)
        busy = sum(count * stage.total_s for stage, count in times)
        shares = sorted(((name, taken / latency_s) for name, taken in path.items()), key=lambda item: -item[1])
        return Phase(
            *shape,
            latency_s,
            path.get(LINKS, 0.0),
            (dynamic + links) * 1e-12 + chips.count * self.architecture.leakage_w * latency_s,
            chips.tensor * sum(count * stage.dram_bytes for stage, count in times),
            chips.tensor * sum(count * stage.macs for stage, count in times),
            tuple(shares),
            _merged(times),
            n,
            path.get(SENDS, 0.0),
            max(0.0, 1 - busy / (chips.stages * latency_s)) if chips.stages > 1 else 0.0,
            tuple(stage.total_s for stage in last),
            trees=_trees([*last, *others]),
        )


def _path(n: int, stages: tuple[list[StageRun], list[StageRun]], send: float, back: float | None) -> dict[str, float]:
    """Time of n parts by what limits it (rule V9).

    Args:
        n: Parts.
        stages: Those of the last part, and of each of the others.
        send: Time to give a part to the next stage.
        back: Latency from the last stage to the first, before the next step; None for a prompt.
    """
    last, others = stages
    path: dict[str, float] = {}
    for stage in last:
        _add(path, stage.seconds, 1.0)
    if len(last) > 1:
        _add(path, {SENDS: (len(last) - 1) * send + (back or 0.0)}, 1.0)
    slowest = max(others, key=lambda stage: stage.total_s)
    slow = slowest.seconds if slowest.total_s >= send else {SENDS: send}
    if back is None:
        _add(path, slow, n - 1.0)
    elif n * sum(slow.values()) > sum(path.values()):
        path = {name: n * taken for name, taken in slow.items()}
    return path


def _at_best(stages: list[StageRun]) -> list[StageRun] | None:
    """The same stages, each in the least time that it can take; None where that is not known."""
    found = []
    for stage in stages:
        if stage.bound_s is None:
            return None
        found.append(StageRun({"bound": stage.bound_s + stage.seconds.get(LINKS, 0.0)}))
    return found


def _trees(stages: list[StageRun]) -> tuple[JsonObject, ...]:
    """Schedules of all stages, equal ones once."""
    found: list[JsonObject] = []
    for stage in stages:
        found.extend(tree for tree in stage.trees if tree not in found)
    return tuple(found)


def _add(into: dict[str, float], seconds: dict[str, float], times: float) -> None:
    for name, taken in seconds.items():
        into[name] = into.get(name, 0.0) + times * taken


def _merged(times: Iterable[tuple[StageRun, int]]) -> tuple[LayerResult, ...]:
    """Layers of all stages, equal ones counted together."""
    found: dict[tuple[Computation, float, float], LayerResult] = {}
    for stage, count in times:
        for layer in stage.layers:
            key = layer.computation, layer.latency_cycles, layer.dram_bytes
            before = found[key].count if key in found else 0
            found[key] = replace(found.get(key, layer), count=before + count * layer.count)
    return tuple(found.values())
