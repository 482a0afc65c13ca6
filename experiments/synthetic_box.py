"""Closed-form accelerators for measuring optimisers: cheap enough to enumerate, so the exact front is known.

Roofline latency, energy, area and power of a PE array with a banked shared buffer on the layers of a network, with the
ceilings (a layer that does not divide by the array) and bank effects that make real design spaces uneven. These are not the toolkit's
cost model, and no constant here is meant to be a technology; what is measured is the search.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from codesign.optim import Frame
from codesign.optim.pareto import front
from spaces import Categorical, Constraint, Integer, Ordinal, PowerOfTwo, Space

Floats = NDArray[np.float64]

RESNET50 = np.array(
    # K, C, P = Q, R = S, how often
    [
        (64, 3, 112, 7, 1),
        (64, 64, 56, 1, 1),
        (64, 64, 56, 3, 3),
        (256, 64, 56, 1, 4),
        (64, 256, 56, 1, 2),
        (128, 256, 56, 1, 1),
        (128, 128, 28, 3, 4),
        (512, 128, 28, 1, 4),
        (512, 256, 28, 1, 1),
        (128, 512, 28, 1, 3),
        (256, 512, 28, 1, 1),
        (256, 256, 14, 3, 6),
        (1024, 256, 14, 1, 6),
        (1024, 512, 14, 1, 1),
        (256, 1024, 14, 1, 5),
        (512, 1024, 14, 1, 1),
        (512, 512, 7, 3, 3),
        (2048, 512, 7, 1, 3),
        (2048, 1024, 7, 1, 1),
        (512, 2048, 7, 1, 2),
    ],
    dtype=np.float64,
)
"""The convolutions of ResNet-50 (He et al., CVPR 2016, table 1), equal ones counted."""

MOBILE = np.array(
    [
        (32, 3, 112, 3, 1),
        (96, 16, 56, 1, 1),
        (24, 96, 56, 1, 1),
        (144, 24, 56, 1, 2),
        (32, 144, 28, 1, 1),
        (192, 32, 28, 1, 3),
        (64, 192, 14, 1, 1),
        (384, 64, 14, 1, 4),
        (96, 384, 14, 1, 1),
        (576, 96, 14, 1, 3),
        (160, 576, 7, 1, 1),
        (960, 160, 7, 1, 3),
        (320, 960, 7, 1, 1),
        (1280, 320, 7, 1, 1),
    ],
    dtype=np.float64,
)
"""Point-wise layers of MobileNetV2 (Sandler et al., CVPR 2018, table 2), roughly."""

DATAFLOWS = ("ws", "os", "rs")
MAC_PJ, DRAM_PJ_PER_BYTE, CLOCK_HZ = 0.6, 60.0, 5e8


def _cycles(flow: NDArray[np.int64], rows: Floats, cols: Floats, layer: Floats) -> Floats:
    """Compute cycles of one layer for the three ways to fill the array: ``n``."""
    k, c, p, r, _ = layer
    weight = np.ceil(c * r * r / rows) * np.ceil(k / cols) * p * p
    output = np.ceil(p * p / rows) * np.ceil(k / cols) * c * r * r
    row = np.ceil(c * r / rows) * np.ceil(p / cols) * k * p * r
    result: Floats = np.choose(flow, [weight, output, row])
    return result


def _reuse(flow: NDArray[np.int64], rows: Floats, cols: Floats, local_bytes: Floats) -> Floats:
    """Shared-buffer words per MAC: ``n``: each tensor is shared along the array or kept in local memory."""
    depth = np.maximum(1.0, np.floor(local_bytes / 16.0))
    weight = 1.0 / cols + 2.0 / rows + 1.0 / (8.0 * depth)
    output = 1.0 / cols + 1.0 / rows + 1.0 / (4.0 * depth)
    row = 1.0 / (np.sqrt(rows) * depth**0.5) + 1.0 / cols + 1.0 / (rows * depth**0.5)
    result: Floats = np.choose(flow, [weight, output, row])
    return result


def _dram_bytes(capacity_bytes: Floats, layer: Floats) -> Floats:
    """DRAM bytes of one layer: the cheaper of keeping weights or inputs in half the buffer: ``n``."""
    k, c, p, r, _ = layer
    weights, inputs, outputs = k * c * r * r, c * p * p, k * p * p
    half = capacity_bytes / 2.0
    keep_weights = weights + inputs * np.ceil(weights / half)
    keep_inputs = inputs + weights * np.ceil(inputs / half)
    total: Floats = np.minimum(keep_weights, keep_inputs) + outputs
    return total


def accelerator(columns: dict[str, Any], layers: Floats) -> dict[str, Floats]:
    """Latency, energy, area and power of many designs: each ``n``.

    Args:
        columns: `rows`, `cols`, `buffer_kib`, `banks`, `local_bytes`, `dram_bytes_per_cycle` and `dataflow` (an index
            of `DATAFLOWS`), each ``n``.
        layers: K, C, P, R and count of each layer: ``l x 5``.
    """
    rows, cols, banks = columns["rows"], columns["cols"], columns["banks"]
    capacity, local, flow = columns["buffer_kib"] * 1024.0, columns["local_bytes"], columns["dataflow"]
    conflict = np.where(np.mod(cols, banks) == 0, 1.0, 0.75)
    words_per_cycle = 4.0 * banks * conflict
    sram_pj = 0.4 + 0.05 * np.sqrt(capacity / banks / 1024.0) + 0.06 * banks**0.5
    per_mac = _reuse(flow, rows, cols, local)
    cycles, dynamic_pj = np.zeros(len(rows)), np.zeros(len(rows))
    for layer in layers:
        macs = layer[0] * layer[1] * layer[2] ** 2 * layer[3] ** 2
        dram, words = _dram_bytes(capacity, layer), macs * per_mac
        time = np.maximum(_cycles(flow, rows, cols, layer), words / words_per_cycle)
        cycles += layer[4] * np.maximum(time, dram / columns["dram_bytes_per_cycle"])
        local_pj = 0.08 + 0.012 * np.sqrt(local)
        dynamic_pj += layer[4] * (macs * (MAC_PJ + local_pj) + words * sram_pj * 2.0 + dram * DRAM_PJ_PER_BYTE)
    area = rows * cols * (2.2e-3 + 1.1e-5 * local) + capacity / 1024.0 * 1.4e-3 * (1.0 + 0.03 * banks)
    area += 0.08 + 0.02 * columns["dram_bytes_per_cycle"]
    latency = cycles / CLOCK_HZ
    energy = dynamic_pj * 1e-12 + latency * (0.02 + 0.012 * area)
    return {"latency": latency, "energy": energy, "area": area, "power": energy / latency}


@final
@dataclass(frozen=True)
class Box:
    """A black box with a known front.

    Args:
        space: The designs.
        objectives: The metrics to minimise.
        layers: The workload.
        power_limit_w: A bound on power, if any.
        hidden_rules: Whether designs whose local memories do not fit the shared buffer fail (unknown to the optimiser).
    """

    space: Space
    objectives: tuple[str, ...]
    layers: Floats
    power_limit_w: float | None = None
    hidden_rules: bool = False

    def metrics(self, indices: NDArray[np.int64]) -> tuple[dict[str, Floats], NDArray[np.bool_]]:
        """All metrics of many designs, and which are feasible as far as evaluation tells (power aside): each ``n``."""
        columns: dict[str, Any] = {}
        for column, parameter in enumerate(self.space.parameters):
            if parameter.name == "dataflow":
                flows = np.array([DATAFLOWS.index(str(c)) for c in parameter.choices])
                columns["dataflow"] = flows[indices[:, column]]
            else:
                columns[parameter.name] = np.array(parameter.choices, dtype=np.float64)[indices[:, column]]
        if "cols" not in columns:
            columns["cols"] = columns["rows"]
        for name, default in (("local_bytes", 64.0), ("dram_bytes_per_cycle", 16.0)):
            columns.setdefault(name, np.full(len(indices), default))
        values = accelerator(columns, self.layers)
        works = np.ones(len(indices), dtype=np.bool_)
        if self.hidden_rules:
            works = columns["rows"] * columns["cols"] * columns["local_bytes"] <= columns["buffer_kib"] * 1024.0
            works &= columns["buffer_kib"] / columns["banks"] >= 16.0
        return values, works

    def evaluate(self, point: dict[str, Any]) -> tuple[dict[str, float], bool]:
        """The metrics of one design and whether it works; none for one that does not."""
        values, works = self.metrics(self.space.to_indices([point]))
        if not works[0]:
            return {}, False
        return {name: float(v[0]) for name, v in values.items()}, True

    def exact_front(self) -> Floats:
        """The front of the whole space by enumeration, in objective units: ``k x m``."""
        rows = self.space.enumerate()
        parts = []
        for start in range(0, len(rows), 65_536):
            values, works = self.metrics(rows[start : start + 65_536])
            if self.power_limit_w is not None:
                works &= values["power"] <= self.power_limit_w
            parts.append(front(np.stack([values[name][works] for name in self.objectives], axis=1)))
        return front(np.concatenate(parts))

    def frame(self, exact_front: Floats) -> Frame:
        """Log-scaled objectives, reference point at 1.05 of the exact front's range."""
        return Frame.of_front(exact_front, log=True)


def large_space() -> Space:
    """737,280 designs: array, buffer, banks, local memory, dataflow and DRAM bandwidth."""
    return Space(
        [
            Ordinal("rows", range(4, 65, 4)),
            Ordinal("cols", range(4, 65, 4)),
            PowerOfTwo("buffer_kib", 32, 4096),
            PowerOfTwo("banks", 1, 16),
            PowerOfTwo("local_bytes", 16, 512),
            Categorical("dataflow", DATAFLOWS),
            PowerOfTwo("dram_bytes_per_cycle", 4, 32),
        ]
    )


def small_space() -> Space:
    """A few thousand designs with a known rule."""
    return Space(
        [
            Ordinal("rows", (4, 8, 12, 14, 16, 24, 32)),
            Ordinal("cols", (4, 8, 12, 14, 16, 24, 32)),
            PowerOfTwo("buffer_kib", 32, 1024),
            Integer("banks", 1, 8),
            Categorical("dataflow", DATAFLOWS[:2]),
        ],
        [Constraint("array", "rows * cols <= 512", "the array has at most 512 PEs")],
    )


def boxes() -> dict[str, Box]:
    """The boxes by name."""
    lpa, lea = ("latency", "power", "area"), ("latency", "energy", "area")
    return {
        "lpa": Box(large_space(), lpa, RESNET50),
        "lea": Box(large_space(), lea, RESNET50),
        "leacp": Box(large_space(), lea, RESNET50, power_limit_w=0.5, hidden_rules=True),
        "small": Box(small_space(), lea, MOBILE),
    }
