"""A machine's memory on the timing of a DRAM device: banks, rows, refresh, a controller with queues.

The model serves streams, not single requests. So at every request it serves the stream so far anew, each burst there from the clock in which it was asked for.
A read's data are there when their bursts are complete, as if no later request came; a later request never delays an earlier one's data.
A write's beats are taken when the controller has room for their bursts. The work grows with the square of the requests: this is for short runs.
"""

import numpy as np

from codesign.timing.dram.controller import serve
from codesign.timing.dram.device import DramDevice
from codesign.timing.dram.memory import CYCLE_LIMIT

MACHINE_CYCLE_NS = 1.0
"""Machines run at the 1 GHz at which spaces judge designs."""


class DeviceMemory:
    """What was asked for so far, and when it is served.

    Args:
        device: The DRAM; one channel of it.
        cycle_ns: Of the machine.
    """

    def __init__(self, device: DramDevice, cycle_ns: float = MACHINE_CYCLE_NS) -> None:
        self.device, self.clocks = device, cycle_ns / device.clock_ns
        self.channel = device.channel()
        self.address: list[int] = []
        self.writes: list[int] = []
        self.ready: list[int] = []

    def ask(self, cycle: int, address: int, beats: int, beat_bytes: int, write: bool) -> tuple[int, ...]:
        """A request of this machine cycle: by beat, the first cycle in which it may move.

        Args:
            cycle: Of the machine.
            address: First byte.
            beats: So many, of `beat_bytes` each.
            beat_bytes: See above.
            write: To memory.
        """
        size, known = self.device.burst_bytes, len(self.address)
        first, last = address // size, (address + beats * beat_bytes - 1) // size
        for number in range(first, last + 1):
            self.address.append(number * size)
            self.writes.append(int(write))
            self.ready.append(int(np.ceil(cycle * self.clocks)))
        stream = [np.array(x, np.int64) for x in (self.address, self.writes, self.ready)]
        bursts, _ = self.device.bursts(stream[0], stream[1], stream[2])
        served = serve(self.channel, bursts, 0, CYCLE_LIMIT)
        clocks = (served.accepted if write else served.done)[known:]
        at = [max(cycle + 1, int(np.ceil(c / self.clocks))) for c in clocks]
        lasts = [(address + (beat + 1) * beat_bytes - 1) // size - first for beat in range(beats)]
        return tuple(max(at[: n + 1]) for n in lasts)
