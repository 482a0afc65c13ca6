"""The memory that stands beside a machine: how fast it answers, and what may go wrong with it."""

from dataclasses import dataclass, fields
from enum import IntEnum

from codesign.core.checks import check_least
from codesign.core.errors import UserError

LATENCY_CYCLES = 14
"""From a request to its first beat: opening a row, H6 of docs/reference/hardware-space.md."""

SPREAD_PERIOD = 1024
"""Requests after which drawn latencies come again."""


class Trouble(IntEnum):
    """What a memory does wrong.

    ERROR: It answers a request with an error.
    ORDER: It answers a request before an earlier one, with the later one's tag.
    SILENCE: It never answers.
    NOWHERE: It answers that nothing lies at the address: DECERR of an AXI4 port, elsewhere an error.
    STRANGE: It answers with a tag that no request under way has, as soon as there is one.
    AGAIN: It answers a request a second time, with a beat or a response more.
    """

    NONE = 0
    ERROR = 1
    ORDER = 2
    SILENCE = 3
    NOWHERE = 4
    STRANGE = 5
    AGAIN = 6


@dataclass(frozen=True)
class MemoryTiming:
    """A memory with a channel for reading and one for writing.

    Each answers in the order of its requests; a machine that takes answers by tag gets those first that are ready first. Data to be written keep their order.
    Predicted cycles (K1) know latencies, cycles a beat and requests taken. Stalls, responses and beats that alternate are simulated alone.

    Args:
        latency_cycles: From a request to its first beat, at least 1.
        beat_cycles: From one beat to the next at the earliest: 1 is a beat a cycle.
        requests: Bursts a channel takes before the first of them is over; 0 stands for any number.
        trouble: What goes wrong.
        at_request: With which request, counted from 0.
        of_writes: Whether it is a request of the channel for writing.
        response_cycles: From the last beat of a burst written to its response, where the port has responses.
        stall_percent: Cycles of a hundred, drawn for each channel and cycle, in which it does not begin to answer.
        stall_seed: Of these draws.
        spread_cycles: By how many cycles at most the latency of a request, and of a response, is longer: drawn by the number of the request.
        spread_seed: Of these draws.
        interleaves: By tag: whether beats of several requests read alternate, instead of bursts that come whole.
    """

    latency_cycles: int = LATENCY_CYCLES
    beat_cycles: int = 1
    requests: int = 0
    trouble: Trouble = Trouble.NONE
    at_request: int = 0
    of_writes: bool = False
    response_cycles: int = 1
    stall_percent: int = 0
    stall_seed: int = 0
    spread_cycles: int = 0
    spread_seed: int = 0
    interleaves: bool = False

    def __post_init__(self) -> None:
        check_least(1, where="memory timing", latency_cycles=self.latency_cycles, beat_cycles=self.beat_cycles)
        check_least(1, where="memory timing", response_cycles=self.response_cycles)
        check_least(0, where="memory timing", requests=self.requests, at_request=self.at_request)
        check_least(0, where="memory timing", spread_cycles=self.spread_cycles, spread_seed=self.spread_seed)
        if not 0 <= self.stall_percent < 100:
            raise UserError(f"`stall_percent` must be in 0..99, got {self.stall_percent}", where="memory timing")
        if self.of_writes and self.trouble is Trouble.ORDER:
            raise UserError("writes carry no tags: they cannot be answered out of order", where="memory timing")

    @property
    def numbers(self) -> tuple[int, ...]:
        """The fields in their order, as the C++ bench reads them."""
        return tuple(int(getattr(self, f.name)) for f in fields(self))

    def stalled(self, cycle: int) -> tuple[bool, ...]:
        """Channels that do not begin to answer in that cycle: AR, R, AW, W, B."""
        if not self.stall_percent:
            return (False,) * 5
        mixed = _mixed(self.stall_seed << 40 ^ cycle)
        return tuple(((mixed >> 12 * k) & 0xFFF) * 100 < self.stall_percent << 12 for k in range(5))

    def longer(self, kind: int, number: int) -> int:
        """Cycles by which an answer comes later than the latency says: of a request read (kind 0), written (1), of a response (2)."""
        if not self.spread_cycles:
            return 0
        return _mixed(self.spread_seed << 40 ^ kind << 32 ^ number % SPREAD_PERIOD) % (self.spread_cycles + 1)

    def under_way(self, outstanding: int) -> int:
        """Bursts under way at most, for an engine that has so many."""
        return min(outstanding, self.requests) if self.requests else outstanding


def _mixed(value: int) -> int:
    """A number of 64 bits that a small one stands for: splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    most = (1 << 64) - 1
    value = value * 0x9E3779B97F4A7C15 & most
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & most
    value = (value ^ value >> 27) * 0x94D049BB133111EB & most
    return value ^ value >> 31


PLAIN_MEMORY = MemoryTiming()
"""A beat a cycle, any number of requests, no trouble."""
