"""Cycles of one transfer of a generated machine's DMA engine."""

import numpy as np

from codesign.hardware.bursts import ask, bursts_of, engine_state, engine_timing, move, wait_for
from codesign.hardware.layout import Box
from codesign.hardware.memory_timing import MemoryTiming
from codesign.hardware.parameters import Parameters


def transfer_cycles(
    p: Parameters, box: Box, at: int, element_bytes: int, *, wide: bool, store: bool, memory: MemoryTiming
) -> int:
    """Cycles of moving a box on an engine that is at rest, its command included (K1)."""
    engine = engine_timing(p, memory)
    state, ring = engine_state(engine, p.by_tag and not store)
    bursts = bursts_of(p, box, at, element_bytes, wide, memory)
    if p.by_tag and not store:
        ends = np.zeros(1, np.int64)
        ask(bursts, 0, engine, 0, state, ring, ends)
        return wait_for(0, engine, state, ring, ends)
    return move(bursts, store, engine, 0, state, ring)
