"""The execution graph of a schedule as one self-contained HTML page (paper, Fig. 8): DRAM, COMPUTE and BUFFER over time."""

import html
import json
from pathlib import Path

from codesign.arch.provenance import recorded_text
from codesign.core.json_types import JsonObject
from codesign.scheduling.soma.evaluator import BYTES, KIND, LAYER, SOURCE, TILE, Schedule

_TEMPLATE = Path(__file__).with_name("execution_page.html")


def page_data(schedule: Schedule) -> JsonObject:
    """What the page draws, as JSON: tiles, transfers, lifetimes, cuts and the headline numbers."""
    parsed = schedule.parsed
    rows = parsed.tensors
    first_of = {entry.layer: entry for entry in parsed.layers}
    order, dram_cuts = parsed.fusion.order, set(parsed.fusion.dram_cuts)
    cuts = [{"position": first_of[order[place]].first, "dram": place in dram_cuts} for place in parsed.fusion.starts]
    return {
        "layers": [layer.name for layer in parsed.problem.graph.layers],
        "matrix": [layer.is_matrix for layer in parsed.problem.graph.layers],
        "tiles": [[start, cycles, layer, tile] for start, layer, tile, cycles in schedule.tile_runs],
        "tensors": [
            [int(r[KIND]), int(r[LAYER]), int(r[TILE]), int(r[SOURCE]), int(r[BYTES]), int(s), int(e), int(b), int(c)]
            for r, s, e, b, c in zip(
                rows, schedule.start, schedule.end, schedule.transfer_start, parsed.transfer_cycles, strict=True
            )
        ],
        "order": schedule.order.tolist(),
        "cuts": cuts,
        "limit": parsed.problem.limit_bytes,
        "summary": {
            "latency": schedule.latency_cycles,
            "bound": parsed.bound_cycles,
            "energy_mj": schedule.energy_pj / 1e9,
            "dram_mib": parsed.dram_bytes["total"] / 2**20,
            "peak_mib": schedule.peak_buffer_bytes / 2**20,
            "utilisation": schedule.utilisation,
            "channel_share": parsed.channel_cycles / schedule.latency_cycles,
            "compute_share": parsed.compute_cycles / schedule.latency_cycles,
            "figures": recorded_text(schedule.provenance),
            "groups": f"{len(dram_cuts)}/{len(parsed.fusion.starts)}/{len(parsed.tile_layer)}",
        },
    }


def page(schedule: Schedule, title: str) -> str:
    """The page: everything inline, nothing fetched."""
    data = json.dumps(page_data(schedule), separators=(",", ":")).replace("</", "<\\/")
    text = _TEMPLATE.read_text(encoding="utf-8")
    return text.replace("@TITLE@", html.escape(title)).replace("@DATA@", data)
