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
    return 0.0 if chips < 2 else _moved_s(system, 2 * (chips - 1) / chips * size_bytes)


def send_s(system: CoreSystem, size_bytes: float, chips: int) -> float:
    """Giving a tensor that every chip of a stage holds to the next stage: each sends its share, and the receivers share theirs (rule G8).

    Raises:
        UserError: The system's links are not known.
    """
    shared = 0.0 if chips < 2 else _moved_s(system, (chips - 1) / chips * size_bytes)
    return _moved_s(system, size_bytes / chips) + shared


def _moved_s(system: CoreSystem, moved_bytes: float) -> float:
    """So many bytes over each link by the quickest protocol."""
    if not system.has("link_start_s"):
        raise UserError("the links between chips are not known", where=f"system {system.name!r}")
    fastest = min(system.constant(latency) + moved_bytes / system.constant(rate) for latency, rate in PROTOCOLS)
    return system.constant("link_start_s") + fastest
