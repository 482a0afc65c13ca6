"""Rules of a machine's memory port, checked in every cycle of a simulation.

P1 A request, or a beat to be written, that is not taken stays as it is.
P2 A burst has at least one beat, and no more than the machine's longest burst.
P3 A burst of a machine with an AXI4 port stays within 4 KB.
P4 No more requests are under way than the machine has entries for; a write of an AXI4 port is until its response. Requests that are under way have
different tags, those of an AXI4 port without answers by tag the identifier 0.
P5 A beat to be written belongs to a request. The last beat of a burst is marked, and no other.
P6 No beat is taken that failed or that answers another request than the oldest, by tag one that is not under way. Every request is answered before the machine ends. An AXI4 port that has
stopped with a fault takes every answer that is still to come.

`codesign/hardware/data/bench.hpp` checks the same in C++; a test holds the two equal.
"""

from collections.abc import Mapping, Sequence

from codesign.core.errors import CodesignError
from codesign.hardware.parameters import Parameters

PAGE_BYTES = 4096
"""A burst of AXI4 stays within so many bytes (ARM IHI 0022, A3.4.1)."""

Request = tuple[int, int, int]
"""Address, beats, tag."""


class HardwareError(CodesignError):
    """A simulated machine did what no correct machine does."""


class Protocol:
    """The rules over time.

    Args:
        p: The machine.
    """

    def __init__(self, p: Parameters) -> None:
        self.p, self.cycle = p, 0
        self.held: dict[str, Request] = {}
        self.held_beat: tuple[int, int, int] | None = None

    def check(
        self,
        seen: Mapping[str, int],
        given: Mapping[str, int],
        reads: Sequence[Request],
        writes: Sequence[Request],
        unanswered: Sequence[int] = (),
    ) -> None:
        """One cycle.

        Args:
            seen: The machine's outputs. given: Its inputs.
            reads: Requests under way, oldest first, with the beats that they still want. writes: The same.
            unanswered: Tags of requests to write whose data have moved, and whose response has not come.

        Raises:
            HardwareError: A rule is broken; the message says which, and in which cycle.
        """
        asked = (seen["ar_addr"], seen["ar_beats"], seen["ar_tag"])
        tags = [tag for _, _, tag in reads]
        self._request("read", seen["ar_valid"], given["ar_ready"], asked, tags)
        asked = (seen["aw_addr"], seen["aw_beats"], seen.get("aw_tag", 0))
        self._request(
            "write", seen["aw_valid"], given["aw_ready"], asked, [*(tag for _, _, tag in writes), *unanswered]
        )
        self._written(seen, given, writes)
        failed = given["r_resp"] >> 1 if self.p.axi else given["r_error"]
        wrong = given["r_valid"] and (failed or given["r_tag"] not in (tags if self.p.by_tag else tags[:1]))
        if wrong and seen["r_ready"] and not seen["read_fault"]:
            self._stop("P6", "a beat that failed, or that answers another request, was taken")
        self.cycle += 1

    def _request(self, channel: str, valid: int, ready: int, asked: Request, tags: Sequence[int]) -> None:
        kept = self.held.pop(channel, None)
        if kept is not None and not (valid and kept == asked):
            self._stop("P1", f"a request of channel {channel} changed before it was taken")
        if not valid:
            return
        if not ready:
            self.held[channel] = asked
        at, beats, tag = asked
        if not 1 <= beats <= self.p.burst_bytes // self.p.bus_bytes:
            self._stop("P2", f"a burst of channel {channel} at {at:#x} has {beats} beats")
        first = at - at % self.p.bus_bytes
        if self.p.axi and first // PAGE_BYTES != (first + beats * self.p.bus_bytes - 1) // PAGE_BYTES:
            self._stop("P3", f"a burst of channel {channel} at {at:#x} crosses 4 KB")
        if len(tags) >= self.p.outstanding:
            self._stop("P4", f"channel {channel} has more than {self.p.outstanding} requests under way")
        if self.p.axi and not self.p.by_tag:
            if tag:
                self._stop("P4", f"a request has the identifier {tag}")
        elif tag in tags and (self.p.axi or channel == "read"):
            self._stop("P4", f"the tag {tag} is under way twice")

    def _written(self, seen: Mapping[str, int], given: Mapping[str, int], writes: Sequence[Request]) -> None:
        beat = (seen["w_data"], seen["w_strb"], seen["w_last"])
        if self.held_beat is not None and not (seen["w_valid"] and beat == self.held_beat):
            self._stop("P1", "a beat to be written changed before it was taken")
        self.held_beat = beat if seen["w_valid"] and not given["w_ready"] else None
        if not seen["w_valid"]:
            return
        if not writes:
            self._stop("P5", "a beat to be written belongs to no request")
        if bool(seen["w_last"]) != (writes[0][1] == 1):
            self._stop("P5", "the last beat of a burst is not where it is marked")

    def _stop(self, rule: str, what: str) -> None:
        raise HardwareError(f"rule {rule} in cycle {self.cycle}: {what}")

    def end(self, reads: Sequence[Request], writes: Sequence[Request], unanswered: int = 0) -> None:
        """The machine has ended.

        Raises:
            HardwareError: Requests are still under way.
        """
        if reads or writes or unanswered:
            raise HardwareError("rule P6: the machine ended while requests were under way")
