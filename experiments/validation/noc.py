"""Network on chip: recorded packets of BookSim2, latency-load curves, multicast trees."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from codesign.arch.mesh import MeshLinks
from codesign.core.errors import UserError
from codesign.timing.noc.network import routers
from codesign.timing.noc.state import FINISHED
from codesign.timing.noc.trees import simulate_trees
from experiments.models.traffic_patterns import (
    CYCLE_LIMIT,
    Load,
    bernoulli,
    link_flits,
    make_traffic,
    makespan_bound,
    multicast_tree,
    on_trees,
    run,
)
from experiments.validation.common import Comparison, Point, read_json

_TOLERANCE = ((0.15, 0.01), (0.6, 0.05), (0.85, 0.15))
"""Share of the highest stable rate below which a mean latency must lie within a tolerance: what other allocators and seeds change."""

_OVERLOAD_TOLERANCE = 0.10
_PACKETS = 10_000
"""Packets whose mean is taken, at least: few come at low rates."""

_PACKETS_AT_ZERO_LOAD = 30_000
"""The same where 1 % decides: the draw of path lengths alone moves a mean over 10,000 packets by 0.4 %."""


def router(pipeline: str, k: int, channels: int, buffer_flits: int) -> MeshLinks:
    """The recorded routers: `P4` has four stages, `S2` looks ahead and speculates."""
    return MeshLinks(
        k, k, trees=False, virtual_channels=channels, buffer_flits=buffer_flits,
        routing_cycles=1 if pipeline == "P4" else 0, speculative=pipeline == "S2",
    )  # fmt: skip


def compare_noc(folder: Path, smoke: bool) -> Comparison:
    """Every packet of `traces`, every curve of `curves*.jsonl`, every tree of `multicast*.json`."""
    paths = sorted((folder / "traces").glob("*.json"))
    if not paths:
        raise UserError("no recorded traces: expected traces/*.json", where=str(folder))
    points, packets, exact, injected, undercut = [], 0, 0, 0, 0
    hops, seconds, tightness = 0, 0.0, []
    for path in paths[:: 6 if smoke else 1]:
        trace = read_json(path)
        traffic = make_traffic(trace["packets"])
        for name, record in trace["runs"].items():
            mesh = router(record["pipeline"], trace["k"], record["num_vcs"], record["vc_buf_size"])
            trees = on_trees(mesh, traffic)
            simulate_trees(routers(mesh), trees, 1)  # compiled before the clock starts
            began = time.process_time()
            mine = simulate_trees(routers(mesh), trees, CYCLE_LIMIT)
            seconds += time.process_time() - began
            hops += mine.flit_hops
            truth = np.array(record["arrive"])
            packets += len(truth)
            exact += int((mine.arrive == truth).sum())
            injected += int((mine.inject == np.array(record["inject"])).sum())
            bound = makespan_bound(mesh, traffic)
            undercut += bound > record["makespan"]
            tightness.append(bound / record["makespan"])
            points.append(
                Point(f"{trace['name']} {name}", float(mine.arrive.max()), record["makespan"], record["pipeline"])
            )
    more: dict[str, Any] = {
        "packets": packets,
        "packets_in_the_recorded_cycle": exact,
        "injections_in_the_recorded_cycle": injected,
        "flit_hops_per_cpu_second": round(hops / seconds) if seconds else None,
        "bounds_above_the_record": undercut,
        "bound_over_makespan_mean": float(np.mean(tightness)),
    }
    more |= _links(paths) | _trees(folder) | _curves(folder, smoke)
    return Comparison("noc", points, "makespan in cycles", {}, "nothing: router rules alone", more)


def _links(paths: list[Path]) -> dict[str, Any]:
    """Flits of the busiest link and link traversals, counted without simulation."""
    met = 0
    for path in paths:
        trace = read_json(path)
        load = link_flits(trace["k"], trace["k"] ** 2, make_traffic(trace["packets"]))
        met += int(load.max()) == trace["busiest_link_flits"] and int(load[:, :4].sum()) == trace["link_traversals"]
    return {"traces": len(paths), "traces_with_equal_link_loads": met}


def _trees(folder: Path) -> dict[str, Any]:
    met = asked = 0
    for path in sorted(folder.glob("multicast*.json")):
        for case in read_json(path):
            links = multicast_tree(MeshLinks(case["k"], case["k"]), case["src"], case["dst"])
            asked += 1
            met += sorted(map(list, links)) == sorted(case["links"]) and len(links) == case["tree_links"]
    return {"multicast_trees": asked, "multicast_trees_equal": met} if asked else {}


def _curves(folder: Path, smoke: bool) -> dict[str, Any]:
    """Mean latencies of the points that have a tolerance, and what is accepted at overload."""
    lines = [line for path in sorted(folder.glob("curves*.jsonl")) for line in path.read_text().splitlines() if line]
    asked = met = overloads = overloads_met = 0
    worst = 0.0
    for seed, line in enumerate(lines[:: 25 if smoke else 1]):
        curve = json.loads(line)
        mesh = router(curve["pipe"], curve["k"], curve["num_vcs"], curve["vc_buf_size"])
        stable = [p["rate"] for p in curve["points"] if not p["saturated"]]
        for point in curve["points"]:
            share = point["rate"] / max(stable, default=1.0)
            tolerance = next((t for limit, t in _TOLERANCE if share <= limit), None)
            if point["saturated"] or tolerance is None:
                continue
            packets = _PACKETS_AT_ZERO_LOAD if share <= _TOLERANCE[0][0] else _PACKETS
            latency = _mean_latency(mesh, curve, point["rate"], seed, packets)
            truth = curve["zero_load"] if share <= _TOLERANCE[0][0] else point["latency"]  # few packets were recorded
            error = abs(latency / truth - 1)
            asked, met = asked + 1, met + (error <= tolerance)
            worst = max(worst, error)
        if "overload" in curve:
            accepted = _accepted(mesh, curve, curve["overload"]["rate"], seed)
            overloads += 1
            overloads_met += abs(accepted / curve["overload"]["accepted"] - 1) <= _OVERLOAD_TOLERANCE
    if not asked:
        return {}
    return {
        "curve_points": asked,
        "curve_points_within_tolerance": met,
        "curve_worst_error": worst,
        "overloads": overloads,
        "overloads_within_tolerance": overloads_met,
    }


def _mean_latency(mesh: MeshLinks, curve: dict[str, Any], rate: float, seed: int, packets: int) -> float:
    """Mean over the packets created in the window, which are all waited for."""
    per_cycle = rate / curve["packet"] * curve["sources"]
    warm, window = curve["warmup"], max(curve["window"], int(packets / per_cycle))
    rng = np.random.default_rng([seed, round(rate * 1e6)])
    traffic = bernoulli(mesh, Load(curve["traffic"], rate, curve["packet"], warm + window), rng)
    done = run(mesh, traffic, 4 * (warm + window))
    counted = (traffic.created >= warm) & (done.arrive >= 0)
    if done.status != FINISHED or not counted.any():
        return float("inf")
    return float((done.arrive - traffic.created)[counted].mean())


def _accepted(mesh: MeshLinks, curve: dict[str, Any], rate: float, seed: int) -> float:
    """Flits a cycle that leave the mesh while it is offered more than it can carry."""
    warm, window = curve["warmup"], curve["window"]
    rng = np.random.default_rng([seed, 7])
    traffic = bernoulli(mesh, Load(curve["traffic"], rate, curve["packet"], warm + window), rng)
    done = run(mesh, traffic, warm + window)
    inside = (done.arrive >= warm) & (done.arrive < warm + window)
    return float(traffic.flits[inside].sum()) / float(window)
