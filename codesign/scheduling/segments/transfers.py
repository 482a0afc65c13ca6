"""The transfers of every layer of a tree: who sends how many words to whom (rule M101 of `codesign.scheduling.segments.contention`)."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from codesign.core.kernel_library import IntArray
from codesign.scheduling.segments.evaluate import Evaluation, Evaluator
from codesign.scheduling.segments.kernels import transfer_list
from codesign.scheduling.segments.kernels.layout import Groups, Layout, volume
from codesign.scheduling.segments.layers import LayerKind
from codesign.scheduling.segments.layouts import layout_of
from codesign.scheduling.segments.segment_tree import Leaf, leaf_nodes

ON_CHIP = -1
"""In the place of a DRAM: between cores."""


@final
@dataclass(frozen=True)
class Transfer:
    """Words that one sender sends to a group, or that a core writes.

    Args:
        cores: Sites that receive, sorted; the one that sends where words are written.
        words: How many, in one run of the layer.
        dram: DRAM that sends or receives, or `ON_CHIP`.
        sender: Site of the core that sends between cores; -1 otherwise.
        written: Whether words go to DRAM.
    """

    cores: tuple[int, ...]
    words: int
    dram: int = ON_CHIP
    sender: int = -1
    written: bool = False


@final
class TransferLists:
    """Lists the transfers of the layers of one tree, under our own rules whichever the evaluation's are.

    Args:
        evaluator: Network and system.
        found: The tree.
    """

    def __init__(self, evaluator: Evaluator, found: Evaluation) -> None:
        self.of, self.found = evaluator, found
        self.layouts: dict[int, Layout] = {}
        self.leaves: dict[int, Leaf] = {}
        for node, leaf in leaf_nodes(found.root):
            row, first = evaluator.table[leaf.layer], int(found.arrays.core_first[node])
            self.layouts[leaf.layer] = layout_of(evaluator.fabric, row, leaf, first, False, evaluator.kinds)
            self.leaves[leaf.layer] = leaf

    def of_leaf(self, leaf: Leaf) -> list[Transfer]:
        """The transfers of one run of a layer: weights, inputs, outputs."""
        of, layer, place = self.of, self.of.network.layers[leaf.layer], self.layouts[leaf.layer]
        edge = int(of.edges.start[leaf.layer])
        lists: list[Transfer] = []
        if layer.weight_inputs:
            shift = 0
            for i, producer in enumerate(layer.weight_inputs):
                lists += self._from(leaf, producer, edge + len(layer.inputs) + i, place.weights, shift)
                shift += of.network.layers[producer].K
        else:
            lists += self._weights(leaf, place.weights)
        shift = layer.external_c
        lists += self._channels(place.inputs, 0, shift, leaf.drams[0])
        wraps = layer.K if layer.kind is LayerKind.ELTWISE else 0
        for i, producer in enumerate(layer.inputs):
            shift = 0 if wraps and shift == wraps else shift
            lists += self._from(leaf, producer, edge + i, place.inputs, shift)
            shift += of.network.layers[producer].K
        if self.found.stored[leaf.layer]:
            lists += self._written(place.tiles, leaf.drams[2])
        return lists

    def _drams(self, dram: int) -> list[int]:
        n = len(self.of.system.memories.ports)
        return [dram] if 0 <= dram < n else list(range(n))

    def _read(self, cores: tuple[int, ...], words: int, dram: int) -> list[Transfer]:
        """A read from one DRAM, or in equal parts from all (rule M25)."""
        drams = self._drams(dram)
        return [Transfer(cores, words // len(drams), d) for d in drams if words >= len(drams)]

    def _weights(self, leaf: Leaf, groups: Groups) -> list[Transfer]:
        """Stored weights, in equal parts over all runs of the whole batch (rule M17)."""
        runs, fetches = self.found.root.batch // leaf.batch, leaf.fetch[5] if leaf.fetch else 1
        lists = []
        for box, sites in _members(groups):
            lists += self._read(sites, int(volume(box)) // runs * max(1, fetches), leaf.drams[1])
        return lists

    def _channels(self, groups: Groups, first: int, past: int, dram: int) -> list[Transfer]:
        """A range of channels of all groups' ranges, from DRAM."""
        lists = []
        for box, sites in _members(groups):
            words = max(0, min(int(box[1]), past) - max(int(box[0]), first))
            words *= int(np.prod(np.maximum(0, box[3::2] - box[2::2])))
            if words:
                lists += self._read(sites, words, dram)
        return lists

    def _from(self, leaf: Leaf, producer: int, edge: int, groups: Groups, shift: int) -> list[Transfer]:
        """Words of one producer, from its cores or from the DRAM it wrote to."""
        of, source = self.of, self.leaves[producer]
        if not self.found.on_chip[edge]:
            return self._channels(groups, shift, shift + of.network.layers[producer].K, source.drams[2])
        tiles, members = self.layouts[producer].tiles, _members(groups)
        rows = np.zeros((int(tiles.number[0]) * len(members), 3), np.int64)
        count = transfer_list.list_between(tiles, groups, shift, source.batch, leaf.batch, rows)
        lists = []
        for t, g, words in rows[:count].tolist():
            sender = int(tiles.sites[t])
            others = tuple(site for site in members[g][1] if site != sender)
            if others:  # what a core has itself does not move
                lists.append(Transfer(others, words, sender=sender))
        return lists

    def _written(self, tiles: Groups, dram: int) -> list[Transfer]:
        """Every output tile to DRAM."""
        parts = (part for box, sites in _members(tiles) for part in self._read(sites, int(volume(box)), dram))
        return [replace(part, written=True) for part in parts]


def _members(groups: Groups) -> list[tuple[IntArray, tuple[int, ...]]]:
    """Range and sites of each group."""
    starts, sites = groups.starts.tolist(), groups.sites.tolist()
    return [(groups.ranges[g], tuple(sites[starts[g] : starts[g + 1]])) for g in range(int(groups.number[0]))]
