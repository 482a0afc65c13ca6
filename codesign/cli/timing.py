"""`--timing event`: the options, and what commands print of a simulated run beside the analytical figures."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from codesign.cli.options import asked
from codesign.core.errors import UserError, unknown_name

if TYPE_CHECKING:
    from codesign.arch.architecture import Architecture
    from codesign.cost.cost import Cost
    from codesign.library.timing import TimingOptions
    from codesign.timing.simulate import Run

_PANEL = "Timing"
ANALYTICAL, EVENT = "analytical", "event"

DEFAULT_LIMIT = 20_000_000


@dataclass(frozen=True)
class TimingRequest:
    """What was asked for.

    Args:
        timing: analytical: everything overlaps; event: tiles, buffers and ports are simulated.
        timing_table: Name or YAML file of the machine's timing constants; by default those named like the architecture,
            else no latencies. `generated`: the hardware that `codesign build` generates.
        trace: Write the timeline here (Chrome trace format, for ui.perfetto.dev).
        operation_limit: Operations simulated before a run is cut short and reported as partial.
    """

    panel: ClassVar[str] = _PANEL

    timing: str = ANALYTICAL
    timing_table: str | None = None
    trace: Path | None = None
    operation_limit: int = asked(DEFAULT_LIMIT, minimum=1)

    def __post_init__(self) -> None:
        if self.timing not in (ANALYTICAL, EVENT):
            raise unknown_name("--timing", self.timing, (ANALYTICAL, EVENT))
        for flag, value in (("--timing-table", self.timing_table), ("--trace", self.trace)):
            if value is not None and not self.event:
                raise UserError(
                    f"{flag} is an option of --timing event", hint=f"give --timing event, or leave out {flag}"
                )

    @property
    def event(self) -> bool:
        """Whether runs are simulated."""
        return self.timing == EVENT

    def options(self, candidates: int | None = None) -> "TimingOptions":
        """The same for the library.

        Args:
            candidates: Mappings that are ranked again, where the command searches for them.
        """
        from codesign.library.timing import DEFAULT_CANDIDATES, TimingOptions

        known = DEFAULT_CANDIDATES if candidates is None else candidates
        return TimingOptions(self.timing, self.timing_table, self.trace, self.operation_limit, known)


def print_run(cost: "Cost", run: "Run", architecture: "Architecture") -> None:
    """Event cycles beside analytical ones, and how each resource spent them."""
    from codesign.cli.tables import make_console, make_table

    console = make_console()
    more = run.latency_cycles / cost.latency_cycles - 1
    partial = "" if run.complete else " (partial: the limit of operations was reached)"
    seconds = run.latency_cycles / architecture.clock_hz
    console.print(
        f"event-timed  {run.latency_cycles:,} cycles = {seconds:.4g} s, {more:+.2%} on the analytical{partial}"
    )
    console.print(f"             bound by {run.bound_by}, which waits most for {run.waits_for}", highlight=False)
    if run.memory is not None:
        served, used = run.memory.served, run.memory.efficiency
        console.print(
            f"             DRAM {run.memory.device}: {served.reads:,} reads, {served.writes:,} writes, {served.activates:,} activates, "
            f"{served.refreshes:,} refreshes, {served.total_energy_pj / 1e6:,.4g} uJ by published currents; {used:.1%} of its bursts were asked for"
        )
    for mesh in run.meshes:
        console.print(
            f"             mesh below {mesh.level}: {mesh.bound_cycles:,} cycles of its busiest link; {mesh.shapes} shapes of transfers "
            f"simulated, {mesh.simulated_hops:,} of their {mesh.flit_hops:,} flit-hops"
        )
    for use in run.lines:
        share = use.conflicts / max(1, use.lines)
        console.print(
            f"             {use.layout}: {use.lines:,} lines of the scratchpad, {use.conflicts:,} ({share:.0%}) by bank conflicts",
            highlight=False,
            markup=False,
        )
    table = make_table("Cycles of each resource", "resource", "busy>", "share>", "stalled>", "idle>", "stalled on~")
    for resource in run.resources:
        waits = sorted(resource.stalled, key=lambda w: -w[1])
        reasons = ", ".join(f"{name} {cycles:,.0f}" for name, cycles in waits[:2])
        table.add_row(
            resource.resource,
            f"{resource.busy_cycles:,.0f}",
            f"{resource.busy_cycles / max(1, run.latency_cycles):.1%}",
            f"{sum(c for _, c in resource.stalled):,.0f}",
            f"{resource.idle_cycles:,.0f}",
            reasons,
        )
    console.print(table)
