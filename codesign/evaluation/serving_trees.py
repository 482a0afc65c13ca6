"""Stages of a served model as trees of segments on the cores of a system: rule V12 of docs/reference/serving.md."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

from codesign.arch.many_core import ManyCore
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.core.json_types import JsonObject
from codesign.cost.cost import Infeasible
from codesign.evaluation.serving_stages import Part, StageRun
from codesign.scheduling.segments.bound import bound_of
from codesign.scheduling.segments.evaluate import OWN_RULES, Evaluation, Evaluator
from codesign.scheduling.segments.kernels import fabric
from codesign.scheduling.segments.layers import SegmentLayer, SegmentNetwork
from codesign.scheduling.segments.network_layers import segment_network
from codesign.scheduling.segments.scheduler import nothing_fits, settings_for
from codesign.scheduling.segments.search import NothingFitsError, TreeSearch
from codesign.scheduling.segments.segment_tree import children_of
from codesign.scheduling.segments.tree_files import tree_to_json
from codesign.scheduling.soma.model.decoder_block import READS_STATES, decoder_block, decoder_head
from codesign.workloads.serving import ServingSpec
from codesign.workloads.zoo.language_models import Span

CONTEXT_BUCKET = 16
"""Tokens of a cache are counted in pages of so many, the last one full (Kwon et al., 2023: the default page of vLLM)."""


@final
@dataclass(frozen=True)
class FoundTree:
    """A block, or the output layer, scheduled.

    Args:
        network: Its layers.
        evaluation: The best tree.
        steps: Trees that were scored.
    """

    network: SegmentNetwork
    evaluation: Evaluation
    steps: int


Shape = tuple[int, int, int]
"""Sequences, tokens of each, tokens in the cache before them; no tokens for the output layer."""


def paged(past: int) -> int:
    """Tokens of a cache with its last page full.

    >>> paged(0), paged(1), paged(16), paged(100)
    (0, 16, 16, 112)
    """
    return -(-past // CONTEXT_BUCKET) * CONTEXT_BUCKET


def chained(networks: list[SegmentNetwork]) -> SegmentNetwork:
    """Blocks one behind another: the states that each reads are made by the last layer of the one before; caches stay outside."""
    layers: list[SegmentLayer] = []
    for network in networks:
        shift = len(layers)
        for layer in network.layers:
            inputs = tuple(shift + i for i in layer.inputs)
            weights = tuple(shift + i for i in layer.weight_inputs)
            made = replace(layer, name=f"{shift}.{layer.name}", inputs=inputs, weight_inputs=weights)
            if shift and layer.name in READS_STATES:
                made = replace(made, external_c=0, inputs=(shift - 1, *inputs))
            layers.append(made)
    return SegmentNetwork(networks[0].name, tuple(layers))


@final
class TreeStages:
    """Stages whose blocks are scheduled as trees of segments; the rest of a stage is these one after another.

    Args:
        spec: What is served; its chips are stages without tensor-parallel shares.
        system: The dies of one stage.
        objective: What trees are searched for.
        budget: Of each search.
        seed: Of every search.
        began: Told what is searched, before each search.
    """

    def __init__(
        self,
        spec: ServingSpec,
        system: ManyCore,
        objective: Objective,
        budget: Budget,
        seed: int,
        began: Callable[[str], None] | None = None,
    ) -> None:
        if spec.precision is not None or spec.zeros is not None:
            given = "precision" if spec.precision is not None else "zeros"
            raise UserError(
                f"trees of segments count words of 8 bits without zeros, got `{given}`",
                where=spec.name,
                hint="leave it out, or --step-times layers",
            )
        self._spec, self._system, self._began = spec, system, began
        self._settings = settings_for(objective, budget, seed)
        self._known: dict[Shape, FoundTree | Infeasible] = {}
        self._runs: dict[tuple[Shape, int, bool], StageRun] = {}

    @property
    def evaluated(self) -> int:
        """See `StageSource`."""
        return sum(found.steps for found in self._known.values() if isinstance(found, FoundTree))

    def run(self, part: Part, span: Span) -> StageRun | Infeasible:
        """See `StageSource`: blocks and output layer one after another, through DRAM."""
        shape = part.batch, part.tokens, paged(part.past)
        key = shape, span.layers, span.head
        if key not in self._runs:
            trees: list[tuple[FoundTree, int]] = []
            for wanted, times in ((shape, span.layers), ((part.batch, 0, 0), int(span.head))):
                if times:
                    found = self._tree(wanted)
                    if isinstance(found, Infeasible):
                        return found
                    trees.append((found, times))
            self._runs[key] = self._stage(shape, trees)
        return self._runs[key]

    def _tree(self, shape: Shape) -> FoundTree | Infeasible:
        """The best tree found of a block, or of the output layer."""
        if shape not in self._known:
            core = self._system.core
            room = self._system.cores * max(core.big.bytes - core.output_reserve_bytes, 2)
            network = _network(self._spec, shape, room // 2)
            if self._began is not None:
                self._began(network.name)
            try:
                searched = TreeSearch(self._evaluator(network), shape[0], self._settings).run()
                self._known[shape] = FoundTree(network, searched.evaluation, searched.steps)
            except NothingFitsError as error:
                self._known[shape] = nothing_fits(self._system, network, error.message)
        return self._known[shape]

    def _evaluator(self, network: SegmentNetwork) -> Evaluator:
        return Evaluator(self._system, network, OWN_RULES)

    def _stage(self, shape: Shape, trees: list[tuple[FoundTree, int]]) -> StageRun:
        """Sums over the trees, and the bound over all trees of the whole stage."""
        seconds: dict[str, float] = {}
        for found, times in trees:
            for name, taken in self._by_limit(found).items():
                seconds[name] = seconds.get(name, 0.0) + times * taken
        rows = [(found.evaluation.rows[0], times) for found, times in trees]
        chain = chained([found.network for found, times in trees for _ in range(times)])
        bound = bound_of(self._evaluator(chain), shape[0])
        return StageRun(
            seconds,
            sum(times * row.energy_pj for row, times in rows),
            sum(times * float(row.dram_words) for row, times in rows),
            shape[0] * sum(layer.macs for layer in chain.layers if layer.computes),
            bound_s=bound.time * 1e-9,
            trees=tuple(_record(found, times) for found, times in trees),
        )

    def _by_limit(self, found: FoundTree) -> dict[str, float]:
        """Time of a tree by what its segments wait for: DRAM, the busiest link, or cores."""
        evaluation, evaluator = found.evaluation, self._evaluator(found.network)
        spent: dict[str, float] = {}
        for node in children_of(evaluation.arrays, 0):
            row = evaluation.rows[node]
            limit = "cores"
            if row.moved_cycles >= row.time:
                dram = fabric.dram_cycles(evaluator.fabric, row.counter)
                limit = "DRAM" if dram >= row.moved_cycles else f"links of the {self._system.network.topology}"
            spent[limit] = spent.get(limit, 0.0) + row.time * evaluation.root.groups
        scale = evaluation.rows[0].time / max(sum(spent.values()), 1.0) * 1e-9
        return {name: time * scale for name, time in spent.items()}


def _network(spec: ServingSpec, shape: Shape, most_weights: int) -> SegmentNetwork:
    """A block or the output layer; no layer has more weights than half the buffers of all cores hold."""
    batch, tokens, past = shape
    if tokens == 0:
        return segment_network(decoder_head(f"output layer of {spec.name}, batch {batch}", spec.model, most_weights))
    name = f"block of {spec.name}, batch {batch}, {tokens} tokens after {past}"
    return segment_network(decoder_block(name, spec.model, tokens, past, stored=True, most_weights=most_weights))


def _record(found: FoundTree, times: int) -> JsonObject:
    whole = found.evaluation.rows[0]
    return {
        "network": found.network.name,
        "runs": times,
        "latency_cycles": int(whole.time),
        "energy_pj": float(whole.energy_pj),
        "tree": tree_to_json(found.evaluation.root, found.network),
    }
