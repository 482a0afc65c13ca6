"""Row-stationary passes of an array whose filter spads hold one pass: load filters, then compute, then the next pass."""

from dataclasses import dataclass

import numpy as np

from codesign.core.errors import UserError
from codesign.timing.engine import run
from codesign.timing.table import Timing
from experiments.models.plan import Kind, NamedPlan, Process, make_plan

OPERATION_LIMIT = 20_000_000
_NO_EVENTS = np.zeros((0, 4))


@dataclass(frozen=True)
class ConvLayer:
    """A convolution in equal groups: batch, channels and filters a group, square outputs and filters."""

    groups: int
    batch: int
    channels: int
    filters: int
    output_side: int
    filter_side: int


@dataclass(frozen=True)
class RowStationary:
    """What one pass holds (the letters of JSSC 2017, Table III).

    Args:
        n: Images.
        e: Output rows side by side.
        p: Filters a PE.
        q: Channels a PE.
        r: Sets of PEs with different channels.
        t: Sets of PEs with different filters.
    """

    n: int
    e: int
    p: int
    q: int
    r: int
    t: int

    def active_pes(self, layer: ConvLayer) -> int:
        """Number of PEs that a pass of the layer occupies."""
        return layer.filter_side * self.e * self.r * self.t

    def passes(self, layer: ConvLayer) -> int:
        """Number of passes that process the whole layer."""
        parts = (
            (layer.batch, self.n),
            (layer.channels, self.q * self.r),
            (layer.filters, self.p * self.t),
            (layer.output_side, self.e),
        )
        count = layer.groups
        for whole, part in parts:
            count *= -(-whole // part)
        return count

    def compute_cycles(self, layer: ConvLayer) -> int:
        """Cycles of a PE in a pass: one MAC a cycle."""
        return self.n * self.p * self.q * layer.filter_side * layer.output_side

    def filter_words(self, layer: ConvLayer) -> int:
        """Different filter words of a pass."""
        return self.p * self.t * self.q * self.r * layer.filter_side**2


def pass_plan(layer: ConvLayer, held: RowStationary, timing: Timing) -> NamedPlan:
    """Passes one after another; the spads' single buffer makes filters wait for the pass before.

    Raises:
        UserError: The pass needs more PEs than there are.
    """
    units = int(timing.constant("rows") * timing.constant("columns"))
    if held.active_pes(layer) > units:
        raise UserError(f"a pass needs {held.active_pes(layer)} PEs, the array has {units}", where=timing.name)
    every = [(0, 0), (0, 2)]
    load = np.ceil(held.filter_words(layer) / timing.constant("filter_words_per_cycle"))
    processes = [
        Process("load filters", Kind.LOAD, ("filter bus",), dict.fromkeys(every, float(load)), depth=1),
        Process(
            "compute",
            Kind.COMPUTE,
            ("array",),
            dict.fromkeys(every, held.compute_cycles(layer)),
            needs=("load filters",),
        ),
    ]
    return make_plan([[1, held.passes(layer)]], 0, processes)


def pass_cycles(layer: ConvLayer, held: RowStationary, timing: Timing) -> int:
    """Cycles of a layer, pass after pass."""
    _, cycles, *_ = run(pass_plan(layer, held, timing).plan, True, OPERATION_LIMIT, _NO_EVENTS)
    return round(cycles)
