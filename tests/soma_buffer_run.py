"""Event-driven simulator of instructions with a finite buffer and finite bandwidth.

It knows nothing of living durations or of the evaluator's timing rule: queues, engines, dependencies and an event heap. Its
purpose is to check the evaluator, so it shares no timing code with it.
"""

import heapq
from dataclasses import dataclass

from codesign.scheduling.soma.instructions import Instruction, Program


@dataclass(frozen=True)
class SimulationResult:
    """Outcome of a run.

    Args:
        latency_cycles: When the last instruction finished.
        peak_buffer_bytes: Most bytes reserved at once.
        finish: Finish cycle of each instruction by number.
    """

    latency_cycles: int
    peak_buffer_bytes: int
    finish: dict[int, int]


class SimulationError(RuntimeError):
    """The program deadlocks or overflows the buffer."""


class _Buffer:
    """Reserved bytes, changed when computations start."""

    def __init__(self, program: Program) -> None:
        self._capacity = program.capacity_bytes
        self._changes: dict[int, int] = {}
        self.held = 0
        for r in program.reservations:
            if r.first is None:
                self.held += r.size_bytes
            else:
                self._changes[r.first] = self._changes.get(r.first, 0) + r.size_bytes
            if r.last is not None:
                self._changes[r.last] = self._changes.get(r.last, 0) - r.size_bytes
        self.peak = self.held
        self._check("before the first computation")

    def begin(self, compute: int) -> None:
        """Computation `compute` starts."""
        self.held += self._changes.get(compute, 0)
        self.peak = max(self.peak, self.held)
        self._check(f"at computation {compute}")

    def _check(self, where: str) -> None:
        if self.held > self._capacity:
            raise SimulationError(f"{self.held} bytes reserved {where}, the buffer has {self._capacity}")


def simulate_program(program: Program) -> SimulationResult:
    """Run a program to its end.

    Raises:
        SimulationError: A deadlock, or more buffer reserved than there is.
    """
    buffer = _Buffer(program)
    finish: dict[int, int] = {}
    events: list[tuple[int, int, int, int]] = []  # time, sequence, instruction, engine (-1: compute)
    channel_idle = core_idle = True
    dram_next, compute_next, sequence, now = 0, 0, 0, 0
    rate = program.bandwidth_bytes_per_cycle

    def ready(instruction: Instruction) -> bool:
        return all(d in finish and finish[d] <= now for d in instruction.after)

    while True:
        progress = True
        while progress:
            progress = False
            if core_idle and compute_next < len(program.compute) and ready(program.compute[compute_next]):
                instruction = program.compute[compute_next]
                buffer.begin(instruction.index)
                sequence += 1
                heapq.heappush(events, (now + instruction.cycles, sequence, instruction.index, -1))
                core_idle = False
                compute_next += 1
                progress = True
            if channel_idle and dram_next < len(program.dram) and ready(program.dram[dram_next]):
                instruction = program.dram[dram_next]
                channel_idle = False
                cycles = -(-instruction.size_bytes // rate)
                sequence += 1
                heapq.heappush(events, (now + cycles, sequence, instruction.index, 0))
                dram_next += 1
                progress = True
        if not events:
            break
        now = events[0][0]
        while events and events[0][0] == now:
            _, _, index, engine = heapq.heappop(events)
            finish[index] = now
            if engine < 0:
                core_idle = True
            else:
                channel_idle = True
    if len(finish) < len(program.dram) + len(program.compute):
        head = program.dram[dram_next] if dram_next < len(program.dram) else program.compute[compute_next]
        raise SimulationError(f"deadlock: instruction {head.index} ({head.operation}) never becomes ready")
    return SimulationResult(now, buffer.peak, finish)
