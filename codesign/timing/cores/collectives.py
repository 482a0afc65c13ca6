"""Sums over several systems: NCCL's three protocols on a ring (rule G8)."""

from codesign.core.errors import UserError
from codesign.timing.cores.system import CoreSystem

PROTOCOLS = (
    ("low_latency_s", "low_latency_bytes_per_s"),
    ("middle_latency_s", "middle_bytes_per_s"),
    ("simple_latency_s", "link_bus_bytes_per_s"),
)
"""Latency and bus bandwidth of LL, LL128 and Simple."""


def all_reduce_s(system: CoreSystem, size_bytes: float, chips: int) -> float:
    """Adding up a tensor that every chip holds: the quickest protocol, the start on the host included (rule G8).

    A ring of c chips moves 2 (c - 1) / c of the tensor over each link.

    Raises:
        UserError: The system's links are not known.
    """
    if chips < 2:
        return 0.0
    if not system.has("link_start_s"):
        raise UserError("the links between chips are not known", where=f"system {system.name!r}")
    moved = 2 * (chips - 1) / chips * size_bytes
    fastest = min(system.constant(latency) + moved / system.constant(rate) for latency, rate in PROTOCOLS)
    return system.constant("link_start_s") + fastest
