"""Who computes what when: the runs of each layer of a tree on its cores (rules M4, M29, M30)."""

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
        node: Of the tree, in preorder.
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
    node: int
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
    return _Timeline(network, found).runs


@final
class _Timeline:
    """Walks a tree and notes when leaves begin and end."""

    def __init__(self, network: SegmentNetwork, found: Evaluation) -> None:
        self._network, self._rows, self._tree = network, found.rows, found.arrays
        self.runs: list[LayerRuns] = []
        start, groups = 0.0, int(self._tree.groups[0])
        for number, child in enumerate(children_of(self._tree, 0)):
            self._segment = number
            one = float(self._rows[child].time)
            self._place(child, start, start + groups * one, one, groups)
            start += groups * one

    def _place(self, node: int, start: float, end: float, one: float, runs: int) -> None:
        """Note the leaves below a node.

        Args:
            node: In preorder.
            start: Of its first run.
            end: Of its last run.
            one: Time of one run.
            runs: How many there are in the whole tree.
        """
        tree = self._tree
        if tree.kind[node] == arrays.LEAF:
            layer = int(tree.layer[node])
            first, past = int(tree.core_first[node]), int(tree.core_past[node])
            busy = min(runs * float(self._rows[node].time), end - start)
            name = self._network.layers[layer].name
            self.runs.append(LayerRuns(layer, name, node, self._segment, first, past, start, end, runs, busy))
            return
        groups, stages = int(tree.groups[node]), int(tree.stages[node])
        if tree.kind[node] == arrays.SPACE:
            step = one / (groups + stages)
            for child in children_of(tree, node):
                stage = int(tree.stage[child])
                self._place(child, start + stage * step, end - (stages - stage) * step, step, runs * groups)
            return
        times = [float(self._rows[child].time) for child in children_of(tree, node)]
        scale = one / groups / (sum(times) or 1.0)
        before = 0.0
        for child, time in zip(children_of(tree, node), times, strict=True):
            after = sum(times) - before - time
            self._place(child, start + before * scale, end - after * scale, time * scale, runs * groups)
            before += time
