"""`TimingOptions`: whether runs are simulated by the event tier, and what a simulated run says beside the analytical figures."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, final

from codesign.core.checks import check_least
from codesign.core.errors import UserError, unknown_name
from codesign.core.json_types import JsonObject
from codesign.evaluation.specification import ANALYTICAL, EVENT, TIMINGS

if TYPE_CHECKING:
    from codesign.arch.architecture import Architecture
    from codesign.cost.arrays import Reuse
    from codesign.cost.cost import Cost, Infeasible
    from codesign.evaluation.timed import TimedNetwork
    from codesign.evaluation.whole_network import NetworkResult
    from codesign.mappers.protocol import Mapper
    from codesign.mapping.mapping import Mapping
    from codesign.timing.simulate import Run
    from codesign.timing.table import Timing
    from codesign.workloads.computation import Computation

DEFAULT_LIMIT = 20_000_000
DEFAULT_CANDIDATES = 8


@final
@dataclass(frozen=True)
class TimingOptions:
    """Which tier times a run.

    Args:
        timing: ``analytical`` (everything overlaps) or ``event`` (tiles, buffers and ports are simulated).
        timing_table: Constants by name or file; default: those named like the architecture, else no latencies. Layers also
            know ``generated``, the hardware that ``build`` generates.
        trace: File for the timeline (Chrome trace format, for ui.perfetto.dev); not of whole mapped networks.
        operation_limit: Operations simulated before a run is cut short and reported as partial.
        candidates: Mappings of a layer, best by the analytical model, that are simulated and ranked again.
    """

    panel: ClassVar[str] = "Timing"

    timing: str = ANALYTICAL
    timing_table: str | None = None
    trace: str | Path | None = None
    operation_limit: int = DEFAULT_LIMIT
    candidates: int = DEFAULT_CANDIDATES

    def __post_init__(self) -> None:
        if self.timing not in TIMINGS:
            raise unknown_name("`timing`", self.timing, TIMINGS)
        for name, value in (("timing_table", self.timing_table), ("trace", self.trace)):
            if value is not None and not self.event:
                raise UserError(f"`{name}` is an option of `timing` event", hint="give `timing` event, or leave it out")
        check_least(1, operation_limit=self.operation_limit, candidates=self.candidates)

    @property
    def event(self) -> bool:
        """Whether runs are simulated."""
        return self.timing == EVENT

    def constants(self, architecture: "Architecture") -> "Timing":
        """The machine's table.

        Raises:
            UserError: There is no such table.
        """
        from codesign.timing.table import load_timing, timing_for

        return timing_for(architecture) if self.timing_table is None else load_timing(self.timing_table)

    def searcher(self, mapper: "Mapper", architecture: "Architecture") -> "Mapper":
        """The mapper; with the event tier its best candidates are simulated and ranked again."""
        if not self.event:
            return mapper
        from codesign.evaluation.timed import EventMapper

        return EventMapper(mapper, self.constants(architecture), self.candidates)

    def run(
        self, computation: "Computation", architecture: "Architecture", mapping: "Mapping", reuse: "Reuse"
    ) -> "tuple[Run | Infeasible, float]":
        """Simulate a mapping, write its trace; returns the run and the seconds it took.

        Raises:
            UserError: A trace of generated hardware, which has none.
        """
        from codesign.cost.cost import Infeasible
        from codesign.hardware.timed import timed_run
        from codesign.timing.table import Overlap
        from codesign.timing.trace import EVENT_LIMIT, write_trace

        started = time.perf_counter()
        constants = self.constants(architecture)
        if constants.overlap is Overlap.GENERATED and self.trace is not None:
            raise UserError("--trace: a run of generated hardware has no timeline", hint="leave out --trace")
        run = timed_run(
            computation,
            architecture,
            mapping,
            constants,
            reuse=reuse,
            events=EVENT_LIMIT if self.trace is not None else 0,
            operation_limit=self.operation_limit,
        )
        seconds = time.perf_counter() - started
        if self.trace is not None and not isinstance(run, Infeasible):
            title = f"{computation.name or computation} on {architecture.name}"
            write_trace(run, Path(self.trace), architecture.clock_hz, title)
        return run, seconds

    def of_network(self, result: "NetworkResult") -> "TimedNetwork | None":
        """Every distinct layer of a mapped network simulated; None with the analytical tier."""
        if not self.event:
            return None
        from codesign.evaluation.timed import time_network

        return time_network(result, self.constants(result.architecture), operation_limit=self.operation_limit)


def event_document(cost: "Cost", run: "Run", architecture: "Architecture", seconds: float) -> JsonObject:
    """What an event-timed result adds to, or replaces in, the analytical one."""
    cycles = run.latency_cycles
    return {
        "status": "ok" if run.complete else "partial",
        "latency_cycles": cycles,
        "analytic_cycles": cost.latency_cycles,
        "bound_by": run.bound_by,
        "waits_for": run.waits_for,
        "seconds": seconds,
        "latency_s": cycles / architecture.clock_hz,
        "utilization": cost.macs / (cycles * cost.mac_units),
        "edp": cost.energy_pj * cycles,
        "timing": {
            "resources": {r.resource: r.to_json() for r in run.resources},
            "operations": run.operations,
            "simulated_operations": run.simulated,
            "complete": run.complete,
            **({} if run.memory is None else {"dram": run.memory.to_json()}),
            **({"meshes": [mesh.to_json() for mesh in run.meshes]} if run.meshes else {}),
            **({"lines": [use.to_json() for use in run.lines]} if run.lines else {}),
        },
    }
