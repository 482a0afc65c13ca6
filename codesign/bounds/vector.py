"""Vector operators and fused functions: their cost does not depend on mappings, so it is exact (rule E6 of docs/reference/evaluation.md)."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from codesign.arch.architecture import Architecture
from codesign.bounds.parts import Figures, projected
from codesign.workloads.traffic import operator_traffic
from codesign.workloads.workload import Workload

Floats = NDArray[np.float64]


@final
@dataclass(frozen=True)
class VectorWork:
    """What is done outside matrix operators.

    Args:
        operations: Of all operators, weighted.
        rows: Operations, bytes read, bytes written and weight of every different vector operator: ``v x 4``.
        fixed_cycles: Beside them, whatever the design.
    """

    operations: float
    rows: Floats
    fixed_cycles: float = 0.0

    @classmethod
    def of(cls, workload: Workload) -> "VectorWork":
        """The work of a workload whose activations and weights all pass through DRAM."""
        total, found = 0.0, dict[tuple[float, float, float], float]()
        for network, weight in zip(workload.networks, workload.weights, strict=True):
            for operator, item in zip(network.operators, operator_traffic(network), strict=True):
                total += weight * item.operations
                if operator.is_vector:
                    key = (item.operations, item.input_bytes + item.parameter_bytes, item.output_bytes)
                    found[key] = found.get(key, 0.0) + weight
        rows = np.array([(*key, weight) for key, weight in found.items()], dtype=np.float64)
        return cls(total, rows.reshape(-1, 4))

    def on(self, figures: Figures) -> tuple[Floats, Floats]:
        """Cycles and energy in pJ on some designs: ``n`` each."""
        sides = [np.ones(len(figures.rows), dtype=np.int64), np.ones(len(figures.rows), dtype=np.int64)]
        for depth in range(figures.depth):
            sides[0] *= np.array([f.x for f in figures.fanouts[depth]], dtype=np.int64)[figures.fanout[depth]]
            sides[1] *= np.array([f.y for f in figures.fanouts[depth]], dtype=np.int64)[figures.fanout[depth]]
        first, which = projected([figures.level[0], figures.mac, np.maximum(*sides)])
        found = np.array([self.on_one(figures.architecture(int(k))) for k in first]).reshape(len(first), 2)
        spread = found[which]
        return spread[:, 0], spread[:, 1]

    def on_one(self, architecture: Architecture) -> tuple[float, float]:
        """Cycles and energy in pJ on one architecture."""
        dram, lanes = architecture.levels[0], max(architecture.mesh)
        operations, read, written, weight = self.rows.T
        words_read, words_written = read * 8 / dram.word_bits, written * 8 / dram.word_bits
        ports = np.array([dram.busy_cycles(r, w) for r, w in zip(words_read, words_written, strict=True)])
        busy = np.maximum(operations / lanes, ports)
        energy = self.operations * (architecture.mac.energy_pj or 0.0)
        if dram.energy is not None:
            moved = words_read * dram.energy.read_pj + words_written * dram.energy.update_pj
            energy += float((weight * moved).sum())
        return self.fixed_cycles + float((weight * np.array([math.ceil(b - 1e-6) for b in busy])).sum()), energy
