"""Power of the Eyeriss chip with the zeros that its paper gives: a band, for the table by layer is printed as a picture only.

JSSC 52(1), 2017, section III-B: almost 40 % of the input values of CONV2 are zero on average, up to around 75 % at CONV5, and the share
tends to grow with depth. So CONV1 has none, CONV2 the least, CONV5 the most, and CONV3 and CONV4 lie between. Section V-C: a zero input
saves the read of the filter scratchpad and the multiply-accumulate. Nothing is fitted: energies are those of the preset `eyeriss`.
"""

from collections.abc import Mapping, Sequence

from codesign.arch.presets import load_preset
from codesign.core.goals import Budget, Objective
from codesign.core.json_types import Json
from codesign.cost.cost import Cost
from codesign.mappers.annealing import AnnealingMapper
from codesign.mapping.constraints import MappingProblem
from codesign.workloads.operators import conv2d
from experiments.validation.common import integer

LEAST_ZEROS, MOST_ZEROS = 0.40, 0.75
"""Shares of zeros of CONV2's and CONV5's inputs, by the paper."""

ZEROS: Mapping[str, tuple[float, float]] = {
    "conv1": (0.0, 0.0),
    "conv2": (LEAST_ZEROS, LEAST_ZEROS),
    "conv3": (LEAST_ZEROS, MOST_ZEROS),
    "conv4": (LEAST_ZEROS, MOST_ZEROS),
    "conv5": (MOST_ZEROS, MOST_ZEROS),
}

SHAPE = ("groups", "batch", "C_per_group", "K_per_group", "output_side", "filter_side", "stride")

_EVALUATIONS = 4_000
_WEIGHT_SPAD = "WeightSpad"


def power_band(name: str, shape: tuple[int, ...], seconds: float) -> dict[str, float]:
    """Power of the chip without DRAM for all the zeros a layer may have, in mW.

    Args:
        name: Of the layer.
        shape: Groups, images, channels and filters of a group, output side, filter side, stride.
        seconds: Measured, all images.
    """
    groups, batch, channels, filters, side, filter_side, stride = shape
    architecture = load_preset("eyeriss")
    layer = conv2d(
        N=batch, K=filters, C=channels, P=side, Q=side, R=filter_side, S=filter_side, stride=stride, bits=16, name=name
    )
    found = AnnealingMapper().map(
        MappingProblem(layer, architecture), Objective.ENERGY, budget=Budget(evaluations=_EVALUATIONS), seed=0
    )
    assert found.cost is not None
    chip, gated = chip_energy(found.cost)
    still = architecture.leakage_w * 1e3
    most, least, dense = (
        still + (chip - z * gated) * groups * 1e-9 / seconds for z in (*ZEROS.get(name, (0.0, MOST_ZEROS)), 0.0)
    )
    return {"least_mw": least, "most_mw": most, "dense_mw": dense}


def chip_energy(cost: Cost) -> tuple[float, float]:
    """Energy of a run without DRAM in pJ, and what a zero input saves of it: filter reads of the scratchpad, and MACs."""
    outermost = cost.levels[0]
    chip = cost.energy_pj - outermost.energy_pj
    spad = next(level for level in cost.levels if level.level == _WEIGHT_SPAD)
    accesses = sum(t.reads + t.fills for t in spad.tensors)
    reads = sum(t.reads for t in spad.tensors)
    saved = spad.energy_pj * (reads / accesses if accesses else 0.0)
    return chip, saved + cost.mac_energy_pj


def power_bands(rows: Sequence[dict[str, str]], where: str) -> dict[str, Json]:
    """The band of every layer whose power is recorded beside it, and the errors of either end."""
    found: dict[str, Json] = {}
    for row in rows:
        if not row.get("power_mW") or not row.get("stride"):
            continue
        name, measured, seconds = row["layer"], float(row["power_mW"]), float(row["latency_ms"]) * 1e-3
        shape = tuple(integer(row, column, f"{where}: {name}") for column in SHAPE)
        band = power_band(name, shape, seconds)
        errors = {f"error_{end}": band[f"{end}_mw"] / measured - 1.0 for end in ("least", "most")}
        found[name] = {"measured_mw": measured, **band, **errors}
    return found
