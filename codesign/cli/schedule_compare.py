"""`codesign schedule --scheduler soma cosma`: what several schedulers make of one network on one accelerator, side by side."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from codesign.cli import schedule_cosma, schedule_fused, schedule_soma
from codesign.cli.options import first_given
from codesign.cli.schedule_options import NETWORK, ScheduleOptions, named_architecture
from codesign.core.errors import UserError, unknown_name
from codesign.core.json_types import JsonObject

if TYPE_CHECKING:
    from codesign.scheduling.protocol import ScheduleResult

_SHARED = NETWORK | {"scheduler", "output_format", "capacity", "time_limit", "seed", "out"}
"""Options that mean the same to every scheduler."""


@dataclass(frozen=True)
class Row:
    """One scheduler's answer; None where the scheduler does not model it.

    Args:
        scheduler: Its name.
        operators: Operators of the graph it scheduled.
        macs: Multiply-accumulates it counts.
        weight_bytes: Weights it counts.
        dram_bytes: Everything that crosses the DRAM interface in one run, weights once.
        peak_buffer_bytes: Most that lies in the scratchpad.
        latency_cycles: Of the run, arithmetic included.
        energy_pj: Of the run, arithmetic included.
        traffic_cycles: The DRAM interface is busy.
        proof: Of what the scheduler minimises.
        reason: Why there is no schedule; empty when there is one.
        provenance: Where energies come from.
    """

    scheduler: str
    operators: int
    macs: int
    weight_bytes: int
    dram_bytes: int | None = None
    peak_buffer_bytes: int | None = None
    latency_cycles: int | None = None
    energy_pj: float | None = None
    traffic_cycles: float | None = None
    proof: str = ""
    reason: str = ""
    provenance: JsonObject | None = None


def run(options: ScheduleOptions) -> None:
    """Run every scheduler that is named and print one row each.

    Raises:
        UserError: A scheduler that cannot be compared, an option that only some of them read, no accelerator.
    """
    names = options.scheduler.replace(",", " ").split()
    known = [
        *schedule_soma.SCHEDULERS,
        *schedule_fused.SCHEDULERS,
        *(n for n in schedule_cosma.SCHEDULERS if n != "allocate"),
    ]
    for name in names:
        if name not in known:
            raise unknown_name("scheduler", name, known)
    unread = first_given(options, _SHARED)
    if unread is not None:
        raise UserError(f"{unread} is not read by every scheduler that is compared", hint="leave it out")
    if options.arch is None:
        raise UserError(
            "a comparison of schedulers needs one accelerator for all of them", hint="--arch, e.g. soma-edge"
        )
    rows = [_row(replace(options, scheduler=n)) for n in names]
    document = {"network": options.network, "architecture": options.arch, "schedules": [_to_json(row) for row in rows]}
    if options.emit(document):
        _print(rows, options)


def _row(options: ScheduleOptions) -> Row:
    if options.scheduler in schedule_soma.SCHEDULERS:
        return _soma(options)
    return _fused(options) if options.scheduler in schedule_fused.SCHEDULERS else _cosma(options)


def _fused(options: ScheduleOptions) -> Row:
    from codesign.arch.technology_files import provenance_of

    graph, result = schedule_fused.find(options)
    row = Row(options.scheduler, len(graph.operators), graph.macs, graph.weight_bytes)
    if result.infeasible is not None:
        return replace(row, reason=result.infeasible.detail)
    return replace(
        row,
        dram_bytes=result.dram_bytes,
        peak_buffer_bytes=result.peak_buffer_bytes,
        latency_cycles=None if result.latency_cycles is None else round(result.latency_cycles),
        energy_pj=result.energy_pj,
        proof=_proof(result),
        provenance=provenance_of(schedule_fused.machine(options).technology),
    )


def _proof(result: "ScheduleResult") -> str:
    return result.proof.value if not result.gap else f"gap {100 * result.gap:.2f} %"


def _soma(options: ScheduleOptions) -> Row:
    counts, result = schedule_soma.find(options)
    row = Row(options.scheduler, counts.operators, counts.macs, counts.weight_bytes)
    if result.infeasible is not None:
        return replace(row, reason=result.infeasible.detail)
    schedule = result.found.schedule
    return replace(
        row,
        dram_bytes=result.dram_bytes,
        peak_buffer_bytes=result.peak_buffer_bytes,
        latency_cycles=schedule.latency_cycles,
        energy_pj=result.energy_pj,
        traffic_cycles=float(schedule.parsed.channel_cycles),
        proof=_proof(result),
        provenance=schedule.provenance,
    )


def _cosma(options: ScheduleOptions) -> Row:
    from codesign.scheduling.cosma.result import Schedule, TooSmall

    if "time_limit" not in schedule_cosma.SCHEDULERS[options.scheduler]:
        options = replace(options, time_limit=None, seed=None)
    found = schedule_cosma.find(options)
    graph, result = found.graph, found.result
    row = Row(options.scheduler, len(graph.operators), graph.macs, graph.weight_bytes)
    if isinstance(result, TooSmall):
        reason = f"operator {result.operator!r} alone needs {result.demand_bytes:,} of {result.capacity_bytes:,} bytes"
        return replace(row, reason=f"{reason}; {schedule_cosma.advice(options, result.demand_bytes)}")
    if not isinstance(result, Schedule):
        return replace(row, reason=f"no addresses within {result.capacity_bytes:,} bytes were found")
    assert found.traffic is not None  # this table is of architectures
    weights = _weights_per_cycle(options, graph.parameter_bytes)
    return replace(
        row,
        dram_bytes=result.dram_bytes + graph.parameter_bytes,
        peak_buffer_bytes=result.peak_buffer_bytes,
        traffic_cycles=found.traffic.cycles + weights,
        proof=result.proof.value,
    )


def _weights_per_cycle(options: ScheduleOptions, weight_bytes: int) -> float:
    """Cycles in which the weights, which this scheduler leaves out, cross the DRAM interface once."""
    from codesign.scheduling.cosma.objective import cycles_per_byte

    return weight_bytes * cycles_per_byte(named_architecture(str(options.arch)))[1]


def _to_json(row: Row) -> JsonObject:
    return {"status": "infeasible" if row.reason else "feasible", **vars(row)}


def _print(rows: list[Row], options: ScheduleOptions) -> None:
    from rich.console import Console

    from codesign.arch.provenance import recorded_text
    from codesign.cli.tables import make_table

    table = make_table(f"{options.network} on {options.arch}", "", *(f"{row.scheduler}>" for row in rows))
    lines = (
        ("operators", "operators", ",d"),
        ("MACs", "macs", ",d"),
        ("weights, bytes", "weight_bytes", ",d"),
        ("DRAM bytes, weights once", "dram_bytes", ",d"),
        ("DRAM interface busy, cycles", "traffic_cycles", ",.0f"),
        ("latency, cycles", "latency_cycles", ",d"),
        ("energy, pJ", "energy_pj", ",.4g"),
        ("peak of the buffer, bytes", "peak_buffer_bytes", ",d"),
        ("proof", "proof", "s"),
    )
    for label, field, form in lines:
        values = [getattr(row, field) for row in rows]
        table.add_row(label, *("-" if v in (None, "") else format(v, form) for v in values))
    console = Console(width=100)
    console.print(table)
    for row in rows:
        if row.reason:
            console.print(f"{row.scheduler}: infeasible: {row.reason}", highlight=False)
    for row in rows:
        if row.energy_pj is not None and row.provenance is not None:
            console.print(f"figures of {row.scheduler}: {recorded_text(row.provenance)}", highlight=False, markup=False)
    console.print(
        "soma cuts operators into tiles and models arithmetic, DRAM beside it; fused maps each operator under LoopTree's rules, one "
        "after another; cosma and its baselines hold whole tensors and model off-chip "
        "traffic alone (-: not modelled). Weights cross once in all of them; biases and normalisation constants cross in cosma only.",
        highlight=False,
    )
