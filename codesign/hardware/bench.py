"""What stands around a machine in a simulation: a memory that answers in time or not, and counters of what the machine does.

`codesign/hardware/data/bench.hpp` is the same in C++; a test holds the two equal.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from codesign.hardware.device_memory import DeviceMemory
from codesign.hardware.image import Image
from codesign.hardware.memory_timing import MemoryTiming, Trouble
from codesign.hardware.protocol import HardwareError, Protocol, Request
from codesign.hardware.words import Fault

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


@dataclass
class _Burst:
    """A request under way: its number, the byte and the beats that come next, its tag, and by beat when it may move."""

    number: int
    at: int
    beats: int
    tag: int
    times: tuple[int, ...]
    moved: int = -1  # the cycle of the last beat


class Channel:
    """One direction of a memory: bursts are served one after another, in the order of their requests or, by tag, of their first beats.

    Args:
        timing: Of the memory.
        kind: 0 for reading, 1 for writing.
        aligned_bytes: Beats begin at a multiple of so many bytes, the first one of a burst aside; 1 where they begin at any byte.
        responds: Whether a burst is over only with a response.
        by_tag: Whether answers may come in any order. tags: So many there are.
    """

    def __init__(
        self,
        timing: MemoryTiming,
        kind: int,
        aligned_bytes: int = 1,
        responds: bool = False,
        by_tag: bool = False,
        tags: int = 1,
    ) -> None:
        self.timing, self.kind, self.aligned_bytes, self.responds = timing, kind, aligned_bytes, responds
        self.by_tag, self.tags = by_tag, range(tags)
        self.trouble = timing.trouble if timing.of_writes == bool(kind) else Trouble.NONE
        self.waiting: list[_Burst] = []
        self.hand: _Burst | None = None  # whose beats move now
        self.next_cycle = 0
        self.due: list[
            tuple[int, int, int]
        ] = []  # of bursts whose data have moved: the cycle of its response, number, tag
        self.answer: tuple[int, int, int] | None = None  # the response at hand
        self.asked: list[int] = []

    @property
    def base(self) -> int:
        """Address of the first byte lane of the beat at hand."""
        assert self.hand is not None
        return self.hand.at - self.hand.at % self.aligned_bytes

    @property
    def under_way(self) -> list[Request]:
        """Requests, oldest first, with the beats that they still want."""
        return [(b.at, b.beats, b.tag) for b in self.waiting]

    def ask(self, cycle: int, address: int, beats: int, tag: int, times: tuple[int, ...] = ()) -> None:
        """A request of this cycle; `times` says by beat when it may move, where that is not the latency for all."""
        number = len(self.asked)
        first = cycle + self.timing.latency_cycles + self.timing.longer(self.kind, number)
        self.waiting.append(_Burst(number, address, beats, tag, times or (first,) * beats))
        self.asked.append(address)

    @property
    def takes(self) -> bool:
        """Whether one more request is taken."""
        return not self.timing.requests or len(self.waiting) + len(self.due) < self.timing.requests

    def troubled(self, number: int | None) -> Trouble:
        """What is wrong with the answer to a request."""
        return self.trouble if number == self.timing.at_request else Trouble.NONE

    @property
    def strange_tag(self) -> int | None:
        """A tag that no request under way has."""
        used = {b.tag for b in self.waiting} | {tag for _, _, tag in self.due}
        return next((tag for tag in self.tags if tag not in used), None)

    def _spoilt(self, number: int) -> bool:
        """Whether a request cannot be answered now, while others can."""
        found = self.troubled(number)
        return found is Trouble.SILENCE or (found is Trouble.STRANGE and self.strange_tag is None)

    def serves(self, cycle: int) -> bool:
        """Whether a beat is served in that cycle; it is of the burst at hand."""
        reorders = self.by_tag and self.kind == 0
        if self.hand is None and self.waiting and cycle >= self.next_cycle:
            ready = [b for b in self.waiting if b.times[-b.beats] <= cycle and not self._spoilt(b.number)]
            turn = [(b.moved if self.timing.interleaves else 0, b.times[0], b.number) for b in ready]
            if reorders:
                self.hand = ready[turn.index(min(turn))] if ready else None
            else:
                self.hand = self.waiting[0]
        hand = self.hand
        return hand is not None and cycle >= max(hand.times[-hand.beats], self.next_cycle)

    def beat(self, cycle: int, beat_bytes: int) -> None:
        """A beat has moved in that cycle."""
        hand = self.hand
        assert hand is not None
        hand.at, hand.beats, hand.moved = self.base + beat_bytes, hand.beats - 1, cycle
        self.next_cycle = cycle + self.timing.beat_cycles
        if hand.beats == 0:
            extra = hand not in self.waiting
            if not extra:
                self.waiting.remove(hand)
            if self.responds:
                due = cycle + self.timing.response_cycles + self.timing.longer(2, hand.number)
                self.due.append((due, hand.number, hand.tag))
            again = self.troubled(hand.number) is Trouble.AGAIN and not extra and not self.responds
            self.hand = _Burst(hand.number, hand.at - beat_bytes, 1, hand.tag, hand.times) if again else None
        elif self.by_tag and self.kind == 0 and self.timing.interleaves:
            self.hand = None

    def response(self, cycle: int) -> tuple[int, int, int] | None:
        """The response that may be given in that cycle."""
        if self.answer is None:
            ready = [d for d in (self.due if self.by_tag else self.due[:1]) if d[0] <= cycle and not self._spoilt(d[1])]
            self.answer = min(ready, default=None)
        return self.answer

    def responded(self) -> None:
        """The response at hand has been taken."""
        assert self.answer is not None
        again, self.answer = self.answer, None
        if again in self.due:
            self.due.remove(again)
            if self.troubled(again[1]) is Trouble.AGAIN:
                self.answer = again


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
        p = image.parameters
        self.axi, tags = p.axi, 1 << max(1, (p.outstanding - 1).bit_length())
        self.read = Channel(timing, 0, aligned, by_tag=p.by_tag, tags=tags)
        self.write = Channel(timing, 1, aligned, p.axi, by_tag=p.by_tag, tags=tags)
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
        serves, ready = r.serves(self.cycles), w.serves(self.cycles)
        troubled = r.troubled(r.hand.number if r.hand else None)
        spoilt = w.troubled(w.hand.number if w.hand else None)
        valid = serves and troubled is not Trouble.SILENCE and (self.kept["r_valid"] or not still[1])
        ready = ready and (self.axi or spoilt is not Trouble.SILENCE) and not still[3]
        data = int.from_bytes(self.memory[r.base : r.base + self.beat_bytes], "little") if valid else 0
        tag = r.hand.tag if valid and r.hand else 0
        if valid and troubled is Trouble.ORDER:
            tag = tag ^ 1
        if valid and troubled is Trouble.STRANGE:
            tag = r.strange_tag or 0
        found = {
            "r_valid": int(valid), "r_data": data, "r_tag": tag, "w_ready": int(ready), "ar_ready": int(r.takes and not still[0]),
            "aw_ready": int(w.takes and not still[2]),
        }  # fmt: skip
        if not self.axi:
            return found | {"r_error": int(valid and _code(troubled) > 0), "w_error": int(ready and _code(spoilt) > 0)}
        answer = w.response(self.cycles)
        if answer is None or not (self.kept["b_valid"] or not still[4]):
            answer = None
        spoilt = w.troubled(answer[1]) if answer else Trouble.NONE
        found |= {"b_valid": int(answer is not None), "b_resp": _code(spoilt)}
        if w.by_tag:
            found["b_tag"] = (w.strange_tag or 0) if spoilt is Trouble.STRANGE else answer[2] if answer else 0
        return found | {"r_resp": _code(troubled) if valid else 0}

    def cycle(self, seen: Mapping[str, int], given: Mapping[str, int]) -> None:
        """What the machine did in this cycle."""
        r, w, now = self.read, self.write, self.cycles
        self.protocol.check(seen, given, r.under_way, w.under_way, [tag for _, _, tag in w.due])
        self.kept["r_valid"] = bool(given["r_valid"] and not seen["r_ready"])
        if self.axi:
            self.kept["b_valid"] = bool(given["b_valid"] and not seen["b_ready"])
            if given["b_valid"] and seen["b_ready"]:
                w.responded()
        if given["r_valid"]:
            assert r.hand is not None
            self.counts.loaded[self.owner(r.hand.at)] += seen["ev_loaded"]
            if seen["r_ready"]:
                r.beat(now, self.beat_bytes)
        if given["w_ready"] and seen["w_valid"]:
            data = seen["w_data"].to_bytes(self.beat_bytes, "little")
            lanes = [i for i in range(self.beat_bytes) if seen["w_strb"] >> i & 1]
            assert w.hand is not None
            self.counts.stored[self.owner(w.hand.at)] += len(lanes)
            for i in lanes:
                self.memory[w.base + i] = data[i]
                self.written_cycle[w.base + i] = now + 1
            w.beat(now, self.beat_bytes)
        if seen["ar_valid"] and given["ar_ready"]:
            self.owner(seen["ar_addr"])
            r.ask(now, seen["ar_addr"], seen["ar_beats"], seen["ar_tag"], self._times(seen, "ar"))
        if seen["aw_valid"] and given["aw_ready"]:
            self.owner(seen["aw_addr"])
            w.ask(now, seen["aw_addr"], seen["aw_beats"], seen.get("aw_tag", 0), self._times(seen, "aw"))
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
                raise HardwareError(fault_text(direction, seen[f"{direction}_fault"], number, at, channel.by_tag))
        self.protocol.end(self.read.under_way, self.write.under_way, len(self.write.due))


def _code(trouble: Trouble) -> int:
    """What a response says of it, as RRESP and BRESP of AXI4: 0 okay, 2 an error, 3 nothing lies there."""
    return {Trouble.ERROR: 2, Trouble.NOWHERE: 3}.get(trouble, 0)


FAULTS = {
    Fault.ERROR: "was answered with an error",
    Fault.ORDER: "was answered out of turn",
    Fault.SILENCE: "was not answered in time",
    Fault.NOWHERE: "has an address where nothing lies",
}


def fault_text(direction: str, fault: int, number: int, address: Sequence[int], by_tag: bool = False) -> str:
    """What a machine's status says."""
    if number >> 31:
        return f"the machine stopped: a {direction} answer has a tag that no request has had"
    why = "was answered again, or before its data" if by_tag and fault == Fault.ORDER else FAULTS[Fault(fault)]
    at = f" (DRAM address {address[0]:#x})" if address else ""
    return f"the machine stopped: {direction} request {number}{at} {why}"


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
