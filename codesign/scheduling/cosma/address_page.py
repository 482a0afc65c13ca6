"""A page that shows a schedule: address over time, one rectangle a stay in the scratchpad, spills marked.

The page carries its data and its script; it loads nothing.
"""

import html
import json
from importlib.resources import files

from codesign.core.json_types import JsonObject
from codesign.scheduling.cosma.plan import footprint_bytes, spilled_tensors
from codesign.scheduling.cosma.result import Schedule, addresses_to_list, spills_to_list

_PAGE = "address_page.html"
_DATA = "/*DATA*/null"
_TITLE = "<!--TITLE-->"


def memory_map_html(schedule: Schedule) -> str:
    """The page of a schedule, as one self-contained HTML text."""
    template = files("codesign.scheduling.cosma").joinpath(_PAGE).read_text(encoding="utf-8")
    # A closing tag inside a name must not end the script.
    data = json.dumps(_data(schedule)).replace("</", "<\\/")
    title = html.escape(f"{schedule.graph.name}: scratchpad of {schedule.capacity_bytes:,} bytes")
    return template.replace(_TITLE, title).replace(_DATA, data)


def _data(schedule: Schedule) -> JsonObject:
    spilled = {schedule.graph.tensors[t].name for t in spilled_tensors(schedule.plan)}
    stays = addresses_to_list(schedule)
    last = {s["tensor"]: s["last_step"] for s in stays}
    shown = [
        {
            **stay,
            "spilled": stay["tensor"] in spilled,
            "leaves": stay["tensor"] in spilled and stay["last_step"] < last[stay["tensor"]],
        }
        for stay in stays
    ]
    operators = schedule.graph.operators
    return {
        "network": schedule.graph.name,
        "capacity": schedule.capacity_bytes,
        "noncompulsory": schedule.noncompulsory_bytes,
        "written": schedule.written_bytes,
        "read": schedule.read_bytes,
        "dram": schedule.dram_bytes,
        "peak": schedule.peak_buffer_bytes,
        "proof": schedule.proof.value,
        "bound": schedule.bound,
        "unit": schedule.unit,
        "method": f"{schedule.method}; {schedule.placement}",
        "operators": [[operators[o].name, operators[o].kind] for o in schedule.plan.order],
        "footprint": footprint_bytes(schedule.plan, schedule.stays),
        "stays": shown,
        "spills": spills_to_list(schedule),
    }
