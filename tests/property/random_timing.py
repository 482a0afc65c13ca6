"""Machines drawn at random for the event tier."""

from hypothesis import strategies as st

from codesign.arch.architecture import Architecture
from codesign.cost.arrays import Reuse
from codesign.mapping.mapping import Mapping
from codesign.timing.event_plan import Plan
from codesign.timing.mapped_plan import MappedPlan
from codesign.timing.table import LevelTiming, Swap, Timing, Transfers, encode_timing
from codesign.workloads.computation import Computation

SMALL = st.integers(0, 5)


def level_timings(architecture: Architecture, data: st.DataObject) -> tuple[LevelTiming, ...]:
    """Levels that move whole tiles outside some level and streams of words inside it."""
    stream_from = data.draw(st.integers(1, len(architecture.levels)))
    return tuple(
        LevelTiming(
            level.name,
            Transfers.STREAM if i >= stream_from else Transfers.TILE,
            buffers=data.draw(st.sampled_from([None, 1, 2, 3])),
            swap=data.draw(st.sampled_from(list(Swap))),
            read_startup_cycles=data.draw(SMALL),
            write_startup_cycles=data.draw(SMALL),
            latency_cycles=data.draw(SMALL),
        )
        for i, level in enumerate(architecture.levels)
    )


def plan_of(computation: Computation, architecture: Architecture, mapping: Mapping, timing: Timing) -> Plan:
    """What the engine runs."""
    machine = encode_timing(timing, architecture)
    return MappedPlan.of(computation, architecture, mapping, machine, Reuse.TIMELOOP).plan
