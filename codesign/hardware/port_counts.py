"""What a run moves through the ports of its machine at least: by the cost model, or by the commands of a core's program."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from codesign.arch.architecture import Links
from codesign.cost.cost import Cost
from codesign.hardware.layout import Box
from codesign.hardware.parameters import PARTIAL_BYTES
from codesign.hardware.streams import CoreImage
from codesign.hardware.words import Command
from codesign.workloads.computation import Computation


@dataclass(frozen=True)
class PortCounts:
    """Bytes and steps of a run.

    Args:
        steps: Cycles in which the array multiplies.
        loaded, stored: Bytes that cross the DRAM port.
        reads: Bytes that the scratchpad gives to the array, by tensor.
        filled, updated: Bytes that enter the scratchpad, from DRAM and from the array.
    """

    steps: float
    loaded: float
    stored: float
    reads: Mapping[str, float]
    filled: float
    updated: float


def counts_of_cost(cost: Cost, computation: Computation) -> PortCounts:
    """What the cost model counts of a computation's mapping whose every step has the size that the mapping says."""
    dram, scratchpad = cost.levels[0].tensors, cost.levels[1].tensors
    widths = {t.name: t.bits // 8 for t in computation.tensors}
    chip = {t.name: PARTIAL_BYTES if t.is_output else 1 for t in computation.tensors}
    return PortCounts(
        cost.compute_cycles,
        sum(t.reads * widths[t.tensor] for t in dram),
        sum(t.updates * widths[t.tensor] for t in dram),
        {t.tensor: t.reads * chip[t.tensor] for t in scratchpad},
        sum(t.fills * chip[t.tensor] for t in scratchpad),
        sum(t.updates * chip[t.tensor] for t in scratchpad),
    )


def counts_of_program(made: CoreImage) -> PortCounts:
    """What the commands of a core's program move. Where it pads, they are shorter than the calls that the cost model scores (Q1).

    A command walks through all lines of its operands, also where a call leaves elements out. So a step counts as one of a whole call.
    Old sums that runs add to are left out: they are no more than the results, which have a port of the same width.
    """
    image, p = made.image, made.image.parameters
    reads: dict[str, float] = {}
    for kind, port in ((Command.FILL_A, "A"), (Command.FILL_B, "B")):
        if port in image.layouts:
            steps = made.items(kind if port in p.local else Command.RUN)
            reads[image.layouts[port].tensor] = steps * float(sum(w.words for w in image.windows[port]))
    e = image.emissions
    words = len(e.group) * len(e.window) if p.links is Links.NONE else max(1, len(e.head))
    reads[image.layouts["O"].tensor] = made.items(Command.PRELOAD) * max(1, len(e.head)) * PARTIAL_BYTES
    loads = [t for t in made.transfers if not t[4]]
    return PortCounts(
        made.items(Command.RUN),
        sum(box_bytes(t[0]) for t in loads),
        sum(box_bytes(t[0]) for t in made.transfers if t[4]),
        reads,
        sum(box_bytes(t[0]) // t[2] * (PARTIAL_BYTES if t[3] else 1) for t in loads),
        made.items(Command.DRAIN if "O" in p.local else Command.RUN) * words * PARTIAL_BYTES,
    )


def box_bytes(box: Box) -> int:
    """Bytes of a transfer in DRAM."""
    return box.run_bytes * math.prod(n for n, _, _ in box.loops)
