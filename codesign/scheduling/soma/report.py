"""A schedule as the JSON the command line prints, and as a table."""

from codesign.core.json_types import JsonObject
from codesign.scheduling.soma.evaluator import BYTES, KIND, LAYER, SOURCE, TILE, Invalid, Problem, Schedule, TensorKind
from codesign.scheduling.soma.model.notation import Encoding, Status
from codesign.scheduling.soma.search.fusion_bound import FusionBound
from codesign.scheduling.soma.search.two_stages import Found


def schedule_json(schedule: Schedule, name: str = "scheme") -> JsonObject:
    """Numbers of one schedule."""
    parsed = schedule.parsed
    return {
        "latency_cycles": schedule.latency_cycles,
        "energy_pj": schedule.energy_pj,
        "edp": schedule.edp,
        "dram_bytes": parsed.dram_bytes["total"],
        "dram_bytes_by_kind": {k: v for k, v in parsed.dram_bytes.items() if k != "total"},
        "peak_buffer_bytes": schedule.peak_buffer_bytes,
        "bound_cycles": parsed.bound_cycles,
        "compute_cycles": parsed.compute_cycles,
        "channel_cycles": parsed.channel_cycles,
        "utilisation": schedule.utilisation,
        "lgs": len(parsed.fusion.dram_cuts),
        "flgs": len(parsed.fusion.starts),
        "tiles": len(parsed.tile_layer),
        "dram_tensors": len(parsed.dram_ids),
        "encoding": schedule.encoding(name).to_json(),
    }


def detail_json(schedule: Schedule) -> JsonObject:
    """Tensors, order and both timelines, under the reference data's names."""
    parsed = schedule.parsed
    tensors = [
        {
            "tensor": t,
            "type": TensorKind(int(row[KIND])).name,
            "layer": int(row[LAYER]),
            "tile": int(row[TILE]),
            "source": int(row[SOURCE]),
            "bytes": int(row[BYTES]),
            "start": int(schedule.start[t]),
            "end": int(schedule.end[t]),
        }
        for t, row in enumerate(parsed.tensors)
    ]
    layers = [
        {
            "layer": e.layer, "lg": e.group, "flg": e.fine_group, "tiles": e.tiles, "tile_BCHW": list(e.shape), "first_pos": e.first,
            "last_pos": e.last, "tile_time": e.cycles, "tile_energy": e.energy_pj, "e_gbuf": e.gbuf_pj, "e_l1": e.local_pj,
            "e_bus": e.bus_pj, "e_mac": e.op_pj,
        }
        for e in parsed.layers
    ]  # fmt: skip
    return {
        "per_layer": layers,
        "tensors": tensors,
        "dram_order": schedule.order.tolist(),
        "comp_timeline_start_layer_tile_dur": [list(run) for run in schedule.tile_runs],
        "dram_timeline_start_tensor": [[int(schedule.transfer_start[t]), int(t)] for t in schedule.order],
    }


def evaluation_json(encoding: Encoding, outcome: Schedule | Invalid) -> JsonObject:
    """The result of evaluating a given encoding: status, numbers, tensors and timelines; or the reason it cannot run."""
    if isinstance(outcome, Invalid):
        return {"name": encoding.name, "status": outcome.status.value, "reason": outcome.reason}
    return {
        "name": encoding.name,
        "status": Status.SUCCESS.value,
        **schedule_json(outcome, encoding.name),
        **detail_json(outcome),
    }


def _stage1_json(found: Found) -> JsonObject:
    plain, stage1 = found.double_buffer, found.stage1
    return {
        "latency_cycles": None if plain is None else plain.latency_cycles,
        "energy_pj": None if plain is None else plain.energy_pj,
        "peak_buffer_bytes": None if plain is None else plain.peak_buffer_bytes,
        "search_latency_cycles": stage1.latency_cycles,
        "evaluations": stage1.evaluations,
        "scored": stage1.legal,
        "moves": {
            name: dict(zip(("tried", "legal", "accepted", "improved"), row, strict=True))
            for name, row in stage1.moves.items()
        },
    }


def found_json(found: Found, scheduler: str, seed: int) -> JsonObject:
    """The result of a search."""
    return {
        "status": "feasible",
        "scheduler": scheduler,
        **schedule_json(found.schedule, scheduler),
        "stage1": _stage1_json(found),
        "stage2": {
            "evaluations": found.dram_evaluations,
            "bound_cycles": found.dram_bound_cycles,
            "solver": found.solver_status,
        },
        "passes": [{"limit_bytes": limit, "objective": value} for limit, value in found.passes],
        "proof": found.proof,
        "gap": found.gap,
        "seconds": found.seconds,
        "cpu_seconds": found.cpu_seconds,
        "seed": seed,
    }


def bound_json(bound: FusionBound) -> JsonObject:
    """What no encoding of the network can beat, each for itself."""
    return {
        "fusion_bound": {
            "dram_bytes": bound.dram_bytes,
            "compute_cycles": bound.compute_cycles,
            "latency_cycles": bound.latency_cycles,
            "energy_pj": bound.energy_pj,
        }
    }


def infeasible_json(problem: Problem, invalid: Invalid, scheduler: str) -> JsonObject:
    """An infeasible search: the reason, with the buffer limit."""
    return {
        "status": "infeasible",
        "scheduler": scheduler,
        "reason": invalid.reason,
        "code": invalid.status.value,
        "resource": "gbuf",
        "demand": invalid.demand_bytes,
        "limit": problem.limit_bytes,
        "unit": "bytes",
    }


def table(rows: list[tuple[str, Schedule]]) -> str:
    """Schedules side by side, each with a name."""
    heads = ("schedule", "cycles", "energy mJ", "DRAM MiB", "LG/FLG/tiles", "utilisation %", "bound", "peak MiB")
    body = [
        (
            name,
            f"{s.latency_cycles:,}",
            f"{s.energy_pj / 1e9:.3f}",
            f"{s.parsed.dram_bytes['total'] / 2**20:.2f}",
            f"{len(s.parsed.fusion.dram_cuts)}/{len(s.parsed.fusion.starts)}/{len(s.parsed.tile_layer)}",
            f"{100 * s.utilisation:.2f}",
            f"{s.parsed.bound_cycles:,}",
            f"{s.peak_buffer_bytes / 2**20:.2f}",
        )
        for name, s in rows
    ]
    widths = [max(len(row[i]) for row in (heads, *body)) for i in range(len(heads))]
    lines = [
        "  ".join(cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True)))
        for row in (heads, *body)
    ]
    return "\n".join(lines)
