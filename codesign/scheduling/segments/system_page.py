"""A tree on its system as one self-contained page: meshes by layer, link loads, timeline by core, energy and cost by part."""

from html import escape

from codesign.arch.chiplet_cost import money, system_provenance
from codesign.arch.core_kinds import kind_counts
from codesign.arch.provenance import recorded_text
from codesign.scheduling.segments.bound import SegmentBound
from codesign.scheduling.segments.contention import Simulated
from codesign.scheduling.segments.drawings import (
    bars_svg,
    heat_colour,
    kind_colour,
    layer_colour,
    link_shares,
    mesh_svg,
    timeline_svg,
)
from codesign.scheduling.segments.energy_parts import energy_parts_pj
from codesign.scheduling.segments.evaluate import OWN_RULES, Evaluation, Evaluator
from codesign.scheduling.segments.segment_tree import children_of
from codesign.scheduling.segments.timeline import LayerRuns, timeline_of

MOST_SEGMENTS = 12
"""Segments that are drawn: those that take longest."""

_STYLE = """
body{font:14px system-ui,sans-serif;margin:24px;color:#222;max-width:1240px}
svg text{font-size:11px;text-anchor:middle;fill:#222}svg text.axis{fill:#666}
.bars text{font-size:12px;text-anchor:inherit}.bar{fill:#5b8db8}
.core{fill:#fff;stroke:#888}.die{fill:#f3f5f7;stroke:#56606b;stroke-dasharray:5 3}
circle.port{fill:#e4dcf2;stroke:#7a63ad}.segments{display:flex;flex-wrap:wrap;gap:18px}
.segments figure{margin:0}figcaption{max-width:560px;color:#444}.chip{display:inline-block;padding:0 6px;border-radius:4px;margin:1px}
table{border-collapse:collapse}td,th{padding:3px 12px;border-bottom:1px solid #ddd;text-align:left}
"""


def page(
    evaluator: Evaluator, found: Evaluation, bound: SegmentBound | None, simulated: Simulated | None = None
) -> str:
    """The page: everything inline, nothing fetched.

    With a simulation, links show the share of the simulated time (rule M92); a link carries the words of our own rules then,
    for these are the packets' ways.

    Args:
        evaluator: Network, system and rules.
        found: The tree with its figures.
        bound: Of all trees; None where it is not shown for these rules.
        simulated: The tree on routers and DRAM queues; None where it was not simulated.
    """
    system, network, whole = evaluator.system, evaluator.network, found.rows[0]
    runs = timeline_of(network, found)
    carried = found if simulated is None else Evaluator(system, network, OWN_RULES).evaluate(found.root)
    time = whole.time if simulated is None else simulated.time
    loads = link_shares(system, carried.rows[0].counter, float(time))
    busiest = max((share for _, share in loads.values()), default=0.0)
    title = f"{network.name} on {system.name}"
    energies = [(name, pj / 1e6) for name, pj in energy_parts_pj(evaluator, found).items() if pj]
    cost = money(system)
    costs = [("dies", cost.chip_usd), ("package", cost.package_usd), ("DRAM", cost.dram_usd)]
    scale = "".join(
        f'<span class="chip" style="background:{heat_colour(k / 4)}">{busiest * k / 4:.0%}</span>' for k in range(5)
    )
    body = [
        f"<h1>{escape(title)}</h1>",
        _summary(evaluator, found, bound, simulated),
        f"<h2>The system and its links over the whole {'run' if simulated is None else 'simulated run'}</h2>",
        f"<p>Link colour: share of the time a link is busy with its words {scale}. Dashed: dies. Numbers beside the mesh: DRAM.{_kind_chips(evaluator)}</p>",
        mesh_svg(system, [], loads, busiest),
        "<h2>Who computes what when</h2>",
        timeline_svg(runs, system.cores, float(whole.time)),
        "<h2>Segments</h2>",
        _segments(evaluator, found, carried, runs, simulated),
        "<h2>Energy by part</h2>",
        bars_svg(sorted(energies, key=lambda e: -e[1]), "µJ"),
        "<h2>Cost by part</h2>",
        bars_svg(costs, "USD"),
    ]  # fmt: skip
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f"{head}<body>{''.join(body)}</body></html>\n"


def _summary(evaluator: Evaluator, found: Evaluation, bound: SegmentBound | None, simulated: Simulated | None) -> str:
    system, whole, cost = evaluator.system, found.rows[0], money(evaluator.system)
    lines = [
        ("time", f"{whole.time:,} {'cycles' if system.clock_ghz == 1 else 'ns'}"),
        ("energy", f"{whole.energy_pj / 1e6:,.4g} µJ"),
        ("energy x time", f"{found.edp:.5g} pJ x cycles"),
        ("DRAM", f"{whole.dram_words:,} bytes"),
        ("words x pitches of links", f"{whole.hops:,} on dies, {whole.die_hops:,} between dies"),
        ("system", f"{system.width} x {system.height} cores on {system.dies.count} dies: {_kinds(evaluator)}"),
        ("network", f"{system.network.topology}, routed by {system.network.way}"),
        ("area and cost", f"{cost.total_mm2:,.1f} mm², {cost.overall_usd:,.2f} USD"),
        ("figures", recorded_text(system_provenance(system))),
    ]
    if simulated is not None:
        lost = simulated.time / max(simulated.free, 1) - 1
        unit = "cycles" if system.clock_ghz == 1 else "ns"
        partial = "" if simulated.complete else ", partial: a step went on too long"
        lines.append(
            (
                f"on the {system.network.topology}, simulated",
                f"{simulated.time:,} {unit}, {lost:+.1%} on the same steps without contention;"
                f" {simulated.edp:.5g} pJ x cycles{partial}",
            )
        )
    if bound is not None:
        gap = f": gap {bound.gap(found.edp):.1%}" if bound.edp else ""
        lines.append(("no tree is below", f"{bound.edp:.5g} pJ x cycles{gap}"))
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in lines)
    return f"<table>{rows}</table>"


def _kinds(evaluator: Evaluator) -> str:
    """How many cores of each kind there are, and their MACs."""
    system = evaluator.system
    counts = zip(evaluator.core_kinds, evaluator.records, kind_counts(system), strict=True)
    if not system.kinds:
        return f"{system.core.macs:,} MACs each"
    return ", ".join(f"{count} {kind.name} of {core.macs:,} MACs" for kind, core, count in counts)


def _kind_chips(evaluator: Evaluator) -> str:
    """The colours of the kinds of cores."""
    if not evaluator.system.kinds:
        return ""
    chips = "".join(
        f'<span class="chip" style="background:{kind_colour(i)};color:#fff">{escape(kind.name)}</span>'
        for i, kind in enumerate(evaluator.core_kinds)
    )
    return f" Border of a core: its kind {chips}."


def _segments(
    evaluator: Evaluator,
    found: Evaluation,
    carried: Evaluation,
    runs: list[LayerRuns],
    simulated: Simulated | None,
) -> str:
    """The longest segments in their order: cores by layer, links by their load within the segment."""
    system, shape = evaluator.system, found.arrays
    nodes = children_of(shape, 0)
    longest = sorted(sorted(range(len(nodes)), key=lambda k: -found.rows[nodes[k]].time)[:MOST_SEGMENTS])
    figures = []
    for number in longest:
        row = found.rows[nodes[number]]
        inside = [run for run in runs if run.segment == number]
        time, lost = row.time, ""
        if simulated is not None:
            run = simulated.segments[number]
            time, lost = run.time, f", simulated {run.time:,} ({run.time / max(run.free, 1) - 1:+.1%} by contention)"
        loads = link_shares(system, carried.rows[nodes[number]].counter, float(time))
        busiest = max((share for _, share in loads.values()), default=0.0)
        names = " ".join(
            f'<span class="chip" style="background:{layer_colour(run.layer)}">{escape(run.name)}</span>'
            for run in inside
        )
        share = row.time * int(shape.groups[0]) / max(found.rows[0].time, 1)
        caption = f"<b>Segment {number}</b>, {share:.1%} of the time{lost}, busiest link {busiest:.0%}: {names}"
        drawn = mesh_svg(system, inside, loads, busiest)
        figures.append(f"<figure>{drawn}<figcaption>{caption}</figcaption></figure>")
    more = len(nodes) - len(longest)
    note = f"<p>The {more} shorter segments are left out.</p>" if more else ""
    return f'<div class="segments">{"".join(figures)}</div>{note}'
