"""What stands around a machine in a simulation: a memory that answers in time or not, and counters of what the machine does.

`codesign/hardware/data/bench.hpp` is the same in C++; a test holds the two equal.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from codesign.hardware.device_memory import DeviceMemory
from codesign.hardware.image import Image
from codesign.hardware.memory_timing import MemoryTiming, Trouble
from codesign.hardware.protocol import HardwareError, Protocol, Request

__all__ = ["Channel", "Counts", "Dram", "HardwareError", "Run", "count", "fault_text"]


@dataclass
class Counts:
    """Events of a run.

    Args:
        feeds: (port code, whether into local memories, window or emission) -> lines read.
        multiplied: Multiplications of elements in use; `begun` those of them that began a sum.
        written: Words of results written to the scratchpad. summed: Those of them that read an old sum.
        loaded, stored: By tensor, bytes that crossed the DRAM port.
    """

    feeds: Counter[tuple[int, bool, int]] = field(default_factory=Counter)
    multiplied: int = 0
    begun: int = 0
    written: int = 0
    summed: int = 0
    loaded: Counter[str] = field(default_factory=Counter)
    stored: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Run:
    """What a simulation gave.

    Args:
        cycles: Cycles in which the machine was busy.
        memory: DRAM at the end.
        counts: What happened.
        seconds: Of the simulation alone.
        simulator: Which one.
        written_cycle: By byte of DRAM, the cycle in which it was last written, 0 for never.
    """

    cycles: int
    memory: bytes
    counts: Counts
    seconds: float
    simulator: str
    written_cycle: npt.NDArray[np.uint32]


class Channel:
    """One direction of a memory: bursts are served one after another, in the order of their requests.

    Args:
        timing: Of the memory.
        aligned_bytes: Beats begin at a multiple of so many bytes, the first one of a burst aside; 1 where they begin at any byte.
        responds: Whether a burst is over only with a response.
    """

    def __init__(self, timing: MemoryTiming, aligned_bytes: int = 1, responds: bool = False) -> None:
        self.timing, self.aligned_bytes, self.responds = timing, aligned_bytes, responds
        self.due: deque[int] = deque()  # by burst whose data have moved, the cycle of its response
        self.answered = 0
        self.waiting: deque[tuple[int, int, int, tuple[int, ...]]] = deque()  # address, beats, tag, when beats may move
        self.at = self.beats = self.next_cycle = self.served = 0
        self.asked: list[int] = []

    @property
    def base(self) -> int:
        """Address of the first byte lane of the beat at hand."""
        return self.at - self.at % self.aligned_bytes

    @property
    def under_way(self) -> list[Request]:
        """Requests, oldest first, with the beats that they still want."""
        found = [(address, beats, tag) for address, beats, tag, _ in self.waiting]
        return [(self.at, self.beats, found[0][2]), *found[1:]] if found else []

    def ask(self, cycle: int, address: int, beats: int, tag: int, times: tuple[int, ...] = ()) -> None:
        """A request of this cycle; `times` says by beat when it may move, where that is not the latency for all."""
        self.waiting.append((address, beats, tag, times or (cycle + self.timing.latency_cycles,) * beats))
        self.asked.append(address)
        if len(self.waiting) == 1:
            self._turn()

    def _turn(self) -> None:
        if self.waiting:
            self.at, self.beats = self.waiting[0][:2]

    @property
    def takes(self) -> bool:
        """Whether one more request is taken."""
        return not self.timing.requests or len(self.waiting) + len(self.due) < self.timing.requests

    def serves(self, cycle: int) -> bool:
        """Whether a beat is served in that cycle."""
        return bool(self.waiting) and cycle >= max(self.waiting[0][3][-self.beats], self.next_cycle)

    def beat(self, cycle: int, beat_bytes: int) -> None:
        """A beat has moved in that cycle."""
        self.at, self.beats = self.base + beat_bytes, self.beats - 1
        self.next_cycle = cycle + self.timing.beat_cycles
        if self.beats == 0:
            self.waiting.popleft()
            self.served += 1
            if self.responds:
                self.due.append(cycle + self.timing.response_cycles)
            self._turn()


class Dram:
    """A memory with a channel for reading and one for writing, each with several requests under way."""

    def __init__(
        self, image: Image, memory: bytes, timing: MemoryTiming, counts: Counts, device: DeviceMemory | None = None
    ) -> None:
        self.device = device
        self.memory, self.timing, self.counts = bytearray(memory), timing, counts
        self.beat_bytes = image.parameters.bus_bytes
        self.regions = [(x.base, x.base + x.size_bytes, x.tensor) for x in image.layouts.values()]
        aligned = self.beat_bytes if image.parameters.axi else 1
        self.axi = image.parameters.axi
        self.read, self.write = Channel(timing, aligned), Channel(timing, aligned, self.axi)
        self.kept = dict.fromkeys(("r_valid", "b_valid"), False)  # an answer that is not taken stays
        self.protocol = Protocol(image.parameters)
        self.cycles = 0
        self.written_cycle = np.zeros(len(memory), np.uint32)

    def owner(self, address: int) -> str:
        """The tensor that lies there."""
        for first, end, tensor in self.regions:
            if first <= address < end:
                return tensor
        raise HardwareError(f"a burst at DRAM address {address:#x}, where no tensor lies")

    def inputs(self) -> dict[str, int]:
        """What the machine sees in this cycle."""
        r, w, t = self.read, self.write, self.timing
        still = t.stalled(self.cycles)
        troubled = t.trouble if not t.of_writes and r.served == t.at_request else Trouble.NONE
        spoilt = t.trouble if t.of_writes and (w.answered if self.axi else w.served) == t.at_request else Trouble.NONE
        silent = spoilt is Trouble.SILENCE and not self.axi
        valid = r.serves(self.cycles) and troubled is not Trouble.SILENCE and (self.kept["r_valid"] or not still[1])
        ready = w.serves(self.cycles) and not silent and not still[3]
        data = int.from_bytes(self.memory[r.base : r.base + self.beat_bytes], "little") if valid else 0
        tag = r.waiting[0][2] if valid else 0
        if valid and troubled is Trouble.ORDER:
            tag = tag ^ 1
        found = {
            "r_valid": int(valid), "r_data": data, "r_tag": tag, "w_ready": int(ready), "ar_ready": int(r.takes and not still[0]),
            "aw_ready": int(w.takes and not still[2]),
        }  # fmt: skip
        if not self.axi:
            return found | {"r_error": int(valid and _code(troubled) > 0), "w_error": int(ready and _code(spoilt) > 0)}
        due = bool(w.due) and self.cycles >= w.due[0] and spoilt is not Trouble.SILENCE
        answers = due and (self.kept["b_valid"] or not still[4])
        found |= {"b_valid": int(answers), "b_resp": _code(spoilt) if answers else 0}
        return found | {"r_resp": _code(troubled) if valid else 0}

    def cycle(self, seen: Mapping[str, int], given: Mapping[str, int]) -> None:
        """What the machine did in this cycle."""
        r, w, now = self.read, self.write, self.cycles
        self.protocol.check(seen, given, r.under_way, w.under_way, len(w.due))
        self.kept["r_valid"] = bool(given["r_valid"] and not seen["r_ready"])
        if self.axi:
            self.kept["b_valid"] = bool(given["b_valid"] and not seen["b_ready"])
            if given["b_valid"] and seen["b_ready"]:
                w.due.popleft()
                w.answered += 1
        if given["r_valid"]:
            self.counts.loaded[self.owner(r.at)] += seen["ev_loaded"]
            if seen["r_ready"]:
                r.beat(now, self.beat_bytes)
        if given["w_ready"] and seen["w_valid"]:
            data = seen["w_data"].to_bytes(self.beat_bytes, "little")
            lanes = [i for i in range(self.beat_bytes) if seen["w_strb"] >> i & 1]
            self.counts.stored[self.owner(w.at)] += len(lanes)
            for i in lanes:
                self.memory[w.base + i] = data[i]
                self.written_cycle[w.base + i] = now + 1
            w.beat(now, self.beat_bytes)
        if seen["ar_valid"] and given["ar_ready"]:
            self.owner(seen["ar_addr"])
            r.ask(now, seen["ar_addr"], seen["ar_beats"], seen["ar_tag"], self._times(seen, "ar"))
        if seen["aw_valid"] and given["aw_ready"]:
            self.owner(seen["aw_addr"])
            w.ask(now, seen["aw_addr"], seen["aw_beats"], 0, self._times(seen, "aw"))
        self.cycles += 1

    def _times(self, seen: Mapping[str, int], channel: str) -> tuple[int, ...]:
        """When the device lets the beats of a request move; nothing without a device."""
        if self.device is None:
            return ()
        at, beats = seen[f"{channel}_addr"], seen[f"{channel}_beats"]
        return self.device.ask(self.cycles, at, beats, self.beat_bytes, channel == "aw")

    def drains(self, seen: Mapping[str, int]) -> bool:
        """Whether a machine that has stopped with a fault has answers to take yet, from a memory that gives them."""
        if not self.axi or self.timing.trouble is Trouble.SILENCE or not (seen["read_fault"] or seen["write_fault"]):
            return False
        return bool(self.read.waiting or self.write.waiting or self.write.due)

    def check(self, seen: Mapping[str, int]) -> None:
        """Whether the machine has stopped with a fault, or with requests under way.

        Raises:
            HardwareError: It has; the message names the request.
        """
        for direction, channel in (("read", self.read), ("write", self.write)):
            if seen[f"{direction}_fault"]:
                number = seen[f"{direction}s_done"]
                at = channel.asked[number : number + 1]
                raise HardwareError(fault_text(direction, seen[f"{direction}_fault"], number, at))
        self.protocol.end(self.read.under_way, self.write.under_way, len(self.write.due))


def _code(trouble: Trouble) -> int:
    """What a response says of it, as RRESP and BRESP of AXI4: 0 okay, 2 an error, 3 nothing lies there."""
    return {Trouble.ERROR: 2, Trouble.NOWHERE: 3}.get(trouble, 0)


FAULTS = {
    1: "was answered with an error",
    2: "was answered out of turn",
    3: "was not answered in time",
    4: "has an address where nothing lies",
}


def fault_text(direction: str, fault: int, number: int, address: Sequence[int]) -> str:
    """What a machine's status says."""
    at = f" (DRAM address {address[0]:#x})" if address else ""
    return f"the machine stopped: {direction} request {number}{at} {FAULTS[fault]}"


def count(counts: Counts, seen: Mapping[str, int]) -> None:
    """Add the events of one cycle to the counts."""
    for port in range(3):
        if seen["ev_feed"] >> port & 1:
            counts.feeds[port, bool(seen["ev_fill"]), seen["ev_window"]] += 1
    if seen["ev_go"] and not seen["ev_drain"]:
        active = seen["ev_rows"] * seen["ev_cols"] + seen["ev_last"] - seen["ev_resting"]
        counts.multiplied += active
        counts.begun += active if seen["ev_first"] else 0
    if seen["ev_write"]:
        words = seen["ev_write"].bit_count()
        counts.written += words
        counts.summed += words if seen["ev_read"] else 0
