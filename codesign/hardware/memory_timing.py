"""The memory that stands beside a machine: how fast it answers, and what may go wrong with it."""

from dataclasses import dataclass
from enum import IntEnum

from codesign.core.errors import UserError

LATENCY_CYCLES = 14
"""From a request to its first beat: opening a row, H6 of docs/reference/hardware-space.md."""


class Trouble(IntEnum):
    """What a memory does wrong.

    ERROR: It answers a request with an error.
    ORDER: It answers a request before an earlier one, with the later one's tag.
    SILENCE: It never answers.
    """

    NONE = 0
    ERROR = 1
    ORDER = 2
    SILENCE = 3


@dataclass(frozen=True)
class MemoryTiming:
    """A memory with a channel for reading and one for writing; each answers in the order of its requests.

    Args:
        latency_cycles: From a request to its first beat, at least 1.
        beat_cycles: From one beat to the next at the earliest: 1 is a beat a cycle.
        requests: Bursts a channel takes before the first of them is over; 0 stands for any number.
        trouble: What goes wrong.
        at_request: With which request, counted from 0.
        of_writes: Whether it is a request of the channel for writing.
    """

    latency_cycles: int = LATENCY_CYCLES
    beat_cycles: int = 1
    requests: int = 0
    trouble: Trouble = Trouble.NONE
    at_request: int = 0
    of_writes: bool = False

    def __post_init__(self) -> None:
        for name, least in (("latency_cycles", 1), ("beat_cycles", 1), ("requests", 0), ("at_request", 0)):
            if getattr(self, name) < least:
                raise UserError(f"`{name}` must be >= {least}, got {getattr(self, name)}", where="memory timing")
        if self.of_writes and self.trouble is Trouble.ORDER:
            raise UserError("writes carry no tags: they cannot be answered out of order", where="memory timing")

    def under_way(self, outstanding: int) -> int:
        """Bursts under way at most, for an engine that has so many."""
        return min(outstanding, self.requests) if self.requests else outstanding


PLAIN_MEMORY = MemoryTiming()
"""A beat a cycle, any number of requests, no trouble."""
