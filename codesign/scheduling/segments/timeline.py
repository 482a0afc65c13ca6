"""Who computes what when: the runs of each layer of a tree on its cores (rules M4, M29, M30)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from codesign.scheduling.segments.evaluate import Evaluation
from codesign.scheduling.segments.kernels import tree as arrays
from codesign.scheduling.segments.layers import SegmentNetwork
from codesign.scheduling.segments.segment_tree import children_of


@final
@dataclass(frozen=True)
class LayerRuns:
    """The runs of a layer, from the start of the first to the end of the last.

    Attributes:
        layer: Its number.
        name: Its name.
        segment: Number of the segment, from 0.
        first_core: In the order of the mesh.
        past_core: One past the last.
        start: Of the first run, cycles, or nanoseconds where the clock is not 1 GHz.
        end: Of the last run.
        runs: How many there are.
        busy: Time in which its cores compute or wait for its own words: runs x time of one.
    """

    layer: int
    name: str
    segment: int
    first_core: int
    past_core: int
    start: float
    end: float
    runs: int
    busy: float

    @property
    def cores(self) -> str:
        """Its cores in words."""
        last = self.past_core - 1
        return f"core {last}" if last == self.first_core else f"cores {self.first_core} to {last}"


def timeline_of(network: SegmentNetwork, found: Evaluation) -> list[LayerRuns]:
    """The runs of every layer, in the order of the tree.

    A segment whose words take longer than its pipeline is stretched evenly: its layers wait for words all along.
    """
    runs: list[LayerRuns] = []
    start, groups = 0.0, int(found.arrays.groups[0])
    for segment, child in enumerate(children_of(found.arrays, 0)):
        one = float(found.rows[child].time)
        runs += _runs_below(network, found, segment, child, start, start + groups * one, one, groups)
        start += groups * one
    return runs


def _runs_below(
    network: SegmentNetwork, found: Evaluation, segment: int, node: int, start: float, end: float, one: float, runs: int
) -> Iterator[LayerRuns]:
    """The runs of the leaves below a node of a segment, which runs so many times, each as long as `one`, from `start` to `end`."""
    tree, rows = found.arrays, found.rows
    if tree.kind[node] == arrays.LEAF:
        layer = int(tree.layer[node])
        first, past = int(tree.core_first[node]), int(tree.core_past[node])
        busy = min(runs * float(rows[node].time), end - start)
        yield LayerRuns(layer, network.layers[layer].name, segment, first, past, start, end, runs, busy)
        return
    groups, stages, children = int(tree.groups[node]), int(tree.stages[node]), children_of(tree, node)
    if tree.kind[node] == arrays.SPACE:
        step = one / (groups + stages)
        for child in children:
            stage = int(tree.stage[child])
            late = end - (stages - stage) * step
            yield from _runs_below(network, found, segment, child, start + stage * step, late, step, runs * groups)
        return
    times = [float(rows[child].time) for child in children]
    scale, before = one / groups / (sum(times) or 1.0), 0.0
    for child, time in zip(children, times, strict=True):
        first_start, last_end = start + before * scale, end - (sum(times) - before - time) * scale
        yield from _runs_below(network, found, segment, child, first_start, last_end, time * scale, runs * groups)
        before += time
