"""Cores that compute an output tile, then drain it: registers of one element cannot take the next tile meanwhile."""

from dataclasses import dataclass

import numpy as np

from codesign.core.checks import check_least
from codesign.timing.engine import run
from experiments.models.plan import Kind, NamedPlan, Process, make_plan

OPERATION_LIMIT = 20_000_000
_NO_EVENTS = np.zeros((0, 4))


@dataclass(frozen=True)
class DrainedLayer:
    """A layer on an output-stationary core.

    Args:
        tiles: Output tiles.
        steps: Reduction steps of a tile.
        input_bits: Bits of inputs a step reads.
        input_bits_per_cycle: What the memory above the array gives.
        output_bits: Bits of results of a tile.
        output_bits_per_cycle: What that memory takes.
        result_slots: Results a unit's register holds.
    """

    tiles: int
    steps: int
    input_bits: int
    input_bits_per_cycle: int
    output_bits: int
    output_bits_per_cycle: int
    result_slots: int

    def __post_init__(self) -> None:
        check_least(1, where="layer of a chip", **vars(self))


def drained_plan(layer: DrainedLayer) -> NamedPlan:
    """Tiles one after another; a tile's first step waits for a free register."""
    every = [(0, 0), (0, 2)]
    step = max(1, -(-layer.input_bits // layer.input_bits_per_cycle))
    drain = -(-layer.output_bits // layer.output_bits_per_cycle)
    processes = [
        Process("compute", Kind.COMPUTE, ("array",), dict.fromkeys(every, layer.steps * step), needs=("drain",)),
        Process("drain", Kind.STORE, ("output port",), dict.fromkeys(every, drain), depth=layer.result_slots),
    ]
    return make_plan([[1, layer.tiles]], 0, processes)


def drained_cycles(layer: DrainedLayer) -> int:
    """Cycles of a layer on an array that drains one tile of outputs before the next."""
    _, cycles, *_ = run(drained_plan(layer).plan, True, OPERATION_LIMIT, _NO_EVENTS)
    return round(cycles)
