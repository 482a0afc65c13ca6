"""What commands print of a run simulated with `--timing event` beside the analytical figures."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codesign.arch.architecture import Architecture
    from codesign.cost.cost import Cost
    from codesign.timing.simulate import Run


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
