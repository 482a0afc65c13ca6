"""Bounds for any memory hierarchy: every word at least once past every memory that keeps it, the MACs at their rate (rule LB7).

The innermost memory serves the MACs, equal words shared by the best split. A word on a bus drives all of it; in a systolic
array it takes a hop for every copy. Old sums are read for all additions but the first of each child. Links of DRAM carry
finished elements.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from codesign.arch.architecture import Architecture, Links
from codesign.bounds.buffered import dram_cycles, dram_pj
from codesign.bounds.dram import DramTables, keeps
from codesign.bounds.layer import LayerFacts
from codesign.bounds.structure import prices_of
from codesign.core.goals import Objective
from codesign.core.kept import kept

Floats = NDArray[np.float64]


@final
class ChainTables:
    """Bounds of one architecture at a time.

    Args:
        layers: The computations.
        counts: How often each occurs: ``layers``.
        dram: Least words across the DRAM interface.
    """

    def __init__(self, layers: Sequence[LayerFacts], counts: Floats, dram: DramTables) -> None:
        self._layers, self._counts, self._dram = layers, counts, dram
        self._least_counts: dict[tuple[object, ...], Floats] = {}

    def bound(self, architecture: Architecture) -> tuple[Floats, Floats]:
        """Dynamic energy in pJ and cycles of each layer: ``layers`` twice."""
        energy, cycles = self._beside_the_macs(architecture)
        return energy, np.maximum(cycles, self._compute_cycles(*architecture.mesh))

    def _beside_the_macs(self, architecture: Architecture) -> tuple[Floats, Floats]:
        """Energy in pJ, and cycles of all but the MACs: ``layers`` twice."""
        least = self._dram.least(architecture)
        dram = architecture.levels[0]
        written = self._dram.written(dram)
        off_chip = dram_pj(dram, least[:, 0], least[:, 1], written)
        prices = prices_of(architecture)
        on_chip = np.array([float(self._counts_of(f, architecture) @ prices) for f in self._layers])
        cycles = np.maximum(dram_cycles(dram, least[:, 0], least[:, 1], written), self._port_cycles(architecture))
        return off_chip + on_chip, cycles

    def likely(self, architecture: Architecture, objective: Objective) -> tuple[Floats, Floats]:
        """The same of the spatial split that is best for an objective, which is no bound: ``layers`` twice.

        Least energy may need few children. A split over many moves more: words of the tensors that it does not cut enter
        the memories of several children, and each child begins sums of its own.
        """
        energy, cycles = self._beside_the_macs(architecture)
        if sum(level.fanout.size > 1 for level in architecture.levels) != 1:
            return energy, np.maximum(cycles, self._compute_cycles(*architecture.mesh))
        for k, facts in enumerate(self._layers):
            spent = energy[k] + self._copies_pj(facts, architecture)
            slow = np.maximum(facts.macs / facts.splits(*architecture.mesh)[:, 0], cycles[k])
            best = int(np.argmin(spent**objective.energy_exponent * slow**objective.latency_exponent))
            energy[k], cycles[k] = spent[best], slow[best]
        return energy, cycles

    @staticmethod
    def _copies_pj(facts: LayerFacts, architecture: Architecture) -> Floats:
        """What each split of the array adds to the least energy for words that several children hold: ``splits``."""
        splits, prices = facts.splits(*architecture.mesh), prices_of(architecture)
        spread = next(k for k, level in enumerate(architecture.levels) if level.fanout.size > 1)
        found, tensors = np.zeros(len(splits)), len(facts.tensors)
        for t, tensor in enumerate(facts.tensors):
            depth = max((k for k, level in enumerate(architecture.levels) if k and keeps(level, tensor)), default=0)
            if depth <= spread:
                continue
            level = architecture.levels[depth]
            words = facts.words[t] * level.element_bits(facts.bits[t]) / level.word_bits
            if tensor.is_output:  # the bound takes the split that adds most sums in space
                added = splits[:, 0] / splits[:, 1 + t]
                found += words * (added.max() - added) * prices[4 * depth]
            else:
                found += words * (splits[:, 0] / splits[:, 1 + tensors + t] - 1.0) * prices[4 * depth + 1]
        return found

    @kept
    def _compute_cycles(self, x: int, y: int) -> Floats:
        return np.array([f.macs / f.most_parallel(x, y) for f in self._layers])

    def _port_cycles(self, architecture: Architecture) -> Floats:
        """Cycles of the level inside DRAM for the words that enter and leave it at the least: ``layers``."""
        cycles = np.zeros(len(self._layers))
        if len(architecture.levels) < 2 or architecture.instances[1] > 1:
            return cycles
        level = architecture.levels[1]
        _, words = level.words_per_cycle
        if words is None:
            return cycles
        for k, facts in enumerate(self._layers):
            entering = sum(
                facts.words[t] * level.element_bits(tensor.partial_bits if tensor.is_output else tensor.bits)
                for t, tensor in enumerate(facts.tensors)
                if keeps(level, tensor)
            )
            cycles[k] = entering / level.word_bits / words
        return cycles

    def counts_of(self, facts: LayerFacts, architecture: Architecture) -> Floats:
        """Least accesses of a layer, every word once past DRAM, in the order of `prices_of`: ``4 L + 1``."""
        key = (id(facts), *((v.word_bits, v.one_element_per_word, v.keep, replace(v.fanout, hop_pj_per_bit=0.0)) for v in architecture.levels))  # fmt: skip
        if key not in self._least_counts:
            counts = self._counts_of(facts, architecture)
            read, written = DramTables.compulsory(facts, architecture.levels[0])
            counts[0], counts[2] = read, written
            self._least_counts[key] = counts
        return self._least_counts[key]

    def least_cycles(self, architecture: Architecture) -> Floats:
        """Cycles of each layer if every word crosses the DRAM interface once: ``layers``."""
        dram = architecture.levels[0]
        words = np.array([DramTables.compulsory(f, dram) for f in self._layers])
        cycles = dram_cycles(dram, words.sum(axis=1), words[:, 0], words[:, 1])
        return np.maximum(np.maximum(cycles, self._port_cycles(architecture)), self._compute_cycles(*architecture.mesh))

    def _counts_of(self, facts: LayerFacts, architecture: Architecture) -> Floats:
        """Every kept word enters once; the innermost memory that keeps a tensor serves the MACs, shared words once."""
        total = np.zeros(4 * len(architecture.levels) + 1)
        total[-1] = facts.macs
        for t, tensor in enumerate(facts.tensors):
            chain = [k for k, level in enumerate(architecture.levels) if k and keeps(level, tensor)]
            for k in chain:
                level = architecture.levels[k]
                bits = level.element_bits(tensor.partial_bits if tensor.is_output else tensor.bits)
                words = facts.words[t] * bits / level.word_bits
                read, fill, update = 4 * k, 4 * k + 1, 4 * k + 2
                if k == chain[-1]:
                    served = self._served(facts, architecture, k, t) * bits / level.word_bits
                    if tensor.is_output:
                        total[update] += served
                        total[read] += max(served - words * self._reducing(facts, architecture, k, t), 0.0)
                    else:
                        total[read] += served
                        total[fill] += words
                elif tensor.is_output:
                    total[update] += words
                else:
                    total[fill] += words
                    total[read] += words
            for k in range(len(architecture.levels)):
                width = facts.bits[t] if k else float(tensor.bits)  # finished elements cross the interface of DRAM (C3)
                total[4 * k + 3] += width * self._hops(facts, architecture, k, t, k >= max(chain, default=0))
        return total

    def _hops(self, facts: LayerFacts, architecture: Architecture, k: int, tensor: int, streams: bool) -> float:
        """Hops of words of a tensor over the network below depth k at the least, where each word crosses it once or all `streams` to the MACs."""
        fanout = architecture.levels[k].fanout
        if fanout.size == 1 or fanout.links in (Links.MESH, Links.PEER):
            return 0.0
        if fanout.links is Links.SYSTOLIC:  # one for each child that takes a copy
            return self._served(facts, architecture, k + 1, tensor) if streams else float(facts.words[tensor])
        sent = self._served(facts, architecture, k, tensor) if streams else float(facts.words[tensor])
        return sent * (fanout.x + fanout.y) / (2.0 if fanout.links is Links.NONE else 1.0)

    def _served(self, facts: LayerFacts, architecture: Architecture, k: int, tensor: int) -> float:
        """Words of a tensor that all instances at depth k give to or take from the MACs at the least, if nothing further in keeps it."""
        fanouts = [level.fanout for level in architecture.levels[k:] if level.fanout.size > 1]
        if not fanouts or all(not f.shares for f in fanouts):
            return facts.macs
        x, y = math.prod(f.x for f in fanouts), math.prod(f.y for f in fanouts)
        splits = facts.splits(x, y)
        return float((facts.macs / splits[:, 0] * splits[:, 1 + tensor]).min())

    def _reducing(self, facts: LayerFacts, architecture: Architecture, k: int, tensor: int) -> float:
        """Instances at depth k that add to the same output word at most: each begins it without an old sum."""
        fanouts = [level.fanout for level in architecture.levels[:k] if level.fanout.size > 1]
        if not fanouts:
            return 1.0
        splits = facts.splits(math.prod(f.x for f in fanouts), math.prod(f.y for f in fanouts))
        return float((splits[:, 0] / splits[:, 1 + tensor]).max())
