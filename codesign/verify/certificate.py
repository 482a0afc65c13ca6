"""The document that says an uneven mapping is optimal, and what in it can be checked."""

import math
from dataclasses import dataclass
from typing import Any

from codesign.core.json_types import JsonObject
from codesign.cost.looptree import Hold, Loop, Nest, Store
from codesign.mapping.looptree import Fanout, Goal, Machine, Memory, Operand, Operator

RULES = "LoopTree U1-U9, perfect factors"


@dataclass(frozen=True)
class Claim:
    """That no mapping with these spatial factors and keep sets is below `bound`.

    Args:
        spatial: Of every level, axis by axis, the factor of each dimension.
        keeps: Tensors of every level.
        bound: Objective.
    """

    spatial: tuple[tuple[tuple[tuple[str, int], ...], ...], ...]
    keeps: tuple[frozenset[str], ...]
    bound: float


@dataclass(frozen=True)
class Certificate:
    """A problem, a nest, and claims that together say that the nest is optimal."""

    operator: Operator
    machine: Machine
    goal: Goal
    nest: Nest
    value: float
    claims: tuple[Claim, ...]


def to_document(given: Certificate, form: str) -> JsonObject:
    """As a document of lists, numbers and text."""
    m = given.machine
    return {
        "format": form,
        "rules": RULES,
        "objective": given.goal.value,
        "value": given.value,
        "operator": {
            "name": given.operator.name,
            "bounds": given.operator.bounds,
            "copy": given.operator.copy,
            "tensors": [
                {"name": t.name, "axes": [[[d, c] for d, c in a] for a in t.axes], "output": t.output, "bits": t.bits} for t in given.operator.operands
            ],
        },
        "machine": {
            "memories": [
                {
                    "name": v.name, "capacity": v.capacity if math.isfinite(v.capacity) else "inf", "read": v.read, "write": v.write,
                    "ports": [list(p) for p in v.ports], "bits": v.bits,
                }
                for v in m.memories
            ],
            "fanouts": [
                [{"name": a.name, "size": a.size, "dims": sorted(a.dims), "shared": sorted(a.shared), "min_usage": a.min_usage} for a in axes]
                for axes in m.fanouts
            ],
            "mac_energy": m.mac_energy, "mac_seconds": m.mac_seconds, "leak_w": m.leak_w,
            "keeps": [[sorted(level) for level in k] for k in m.keeps],
        },
        "nest": [_item(x) for x in given.nest],
        "claims": [
            {"spatial": [[[list(p) for p in vector] for vector in axes] for axes in c.spatial], "keeps": [sorted(k) for k in c.keeps], "bound": c.bound}
            for c in given.claims
        ],
    }  # fmt: skip


def _item(x: Loop | Store | Hold) -> JsonObject:
    if isinstance(x, Loop):
        return {
            "loop": x.dim,
            "steps": x.steps,
            "tile": x.tile,
            **({} if x.level is None else {"level": x.level, "axis": x.axis}),
        }
    if isinstance(x, Store):
        return {"store": x.tensor, "level": x.level, "held": x.held}
    return {"hold": x.tensor, "level": x.level}


def from_document(document: dict[str, Any]) -> Certificate:
    """The certificate of a document; errors of any kind where a part is missing or wrong."""
    o, m = document["operator"], document["machine"]
    operands = tuple(
        Operand(
            t["name"],
            tuple(tuple((str(d), int(c)) for d, c in a) for a in t["axes"]),
            bool(t["output"]),
            float(t["bits"]),
        )
        for t in o["tensors"]
    )
    operator = Operator(o["name"], operands, {str(d): int(b) for d, b in o["bounds"].items()}, bool(o["copy"]))
    memories = tuple(
        Memory(
            v["name"],
            float(v["capacity"]),
            float(v["read"]),
            float(v["write"]),
            tuple((float(a), float(b)) for a, b in v["ports"]),
            {t: float(b) for t, b in v["bits"].items()},
        )
        for v in m["memories"]
    )
    fanouts = tuple(
        tuple(
            Fanout(a["name"], int(a["size"]), frozenset(a["dims"]), frozenset(a["shared"]), float(a["min_usage"]))
            for a in axes
        )
        for axes in m["fanouts"]
    )
    keeps = tuple(tuple(frozenset(level) for level in k) for k in m["keeps"])
    machine = Machine(memories, fanouts, float(m["mac_energy"]), float(m["mac_seconds"]), float(m["leak_w"]), keeps)
    claims = tuple(
        Claim(
            tuple(tuple(tuple((str(d), int(f)) for d, f in vector) for vector in axes) for axes in c["spatial"]),
            tuple(frozenset(k) for k in c["keeps"]),
            float(c["bound"]),
        )
        for c in document["claims"]
    )
    return Certificate(
        operator,
        machine,
        Goal(document["objective"]),
        tuple(_read(x) for x in document["nest"]),
        float(document["value"]),
        claims,
    )


def _read(x: dict[str, Any]) -> Loop | Store | Hold:
    if "loop" in x:
        return Loop(str(x["loop"]), int(x["steps"]), int(x["tile"]), x.get("level"), str(x.get("axis", "")))
    if "store" in x:
        return Store(int(x["level"]), str(x["store"]), bool(x["held"]))
    return Hold(int(x["level"]), str(x["hold"]))
