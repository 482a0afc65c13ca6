"""Instructions in queues, each in order, that wait for each other: whole schedules in the event tier (rules Q1-Q4).

Plans of `codesign.timing.engine` are loop nests. A schedule of a whole network repeats nothing, so its instructions are
simulated one by one: they are few.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from codesign.core.checks import check_least
from codesign.core.errors import UserError
from codesign.timing.simulate import OPERATION_LIMIT, Event, ResourceUse, Run
from codesign.timing.table import whole_cycles


class Instruction(NamedTuple):
    """One instruction.

    Attributes:
        kind: What it does; waits are summed by kind.
        queue: Index of its queue.
        cycles: For which it holds its engine.
        after: Indices of the instructions that must have finished before it starts.
        latency_cycles: From its end until others may use what it gives.
    """

    kind: str
    queue: int
    cycles: float
    after: tuple[int, ...] = ()
    latency_cycles: float = 0.0


@dataclass
class _State:
    """Of a queue while it runs."""

    order: list[int]
    free: float = 0.0
    position: int = 0
    busy: float = 0.0

    @property
    def head(self) -> int | None:
        """The next instruction; None after the last."""
        return self.order[self.position] if self.position < len(self.order) else None


def run_instructions(
    instructions: Sequence[Instruction],
    queues: Sequence[str],
    *,
    run_cycles: float = 0.0,
    events: int = 0,
    operation_limit: int = OPERATION_LIMIT,
) -> Run:
    """Run instructions to their end, to the limit, or to an interruption from the keyboard.

    Args:
        instructions: All of them; a queue runs its own in the order of this list.
        queues: Names of the resources; each runs one instruction at a time.
        run_cycles: Cycles of a run besides its instructions.
        events: How many operations of the timeline to keep.
        operation_limit: Instructions after which the run is cut short; `complete` is false then.

    Raises:
        UserError: Instructions wait for each other in a cycle; the message names it.
    """
    check_least(1, operation_limit=operation_limit)
    states = [_State([]) for _ in queues]
    for place, item in enumerate(instructions):
        states[item.queue].order.append(place)
    end = [math.nan] * len(instructions)
    waits: list[dict[str, float]] = [{} for _ in queues]
    timeline: list[Event] = []
    done, finish = 0, 0.0
    try:
        while done < min(len(instructions), operation_limit):
            before = done
            for q, state in enumerate(states):
                while done < operation_limit:
                    index = state.head
                    if index is None or not _ready(instructions[index], end):
                        break
                    start, stop = _start(instructions, index, state, end, waits[q])
                    end[index] = stop + instructions[index].latency_cycles
                    finish = max(finish, end[index])
                    done += 1
                    if len(timeline) < events:
                        timeline.append(Event(instructions[index].kind, queues[q], start, stop, index))
            if done == before:
                raise UserError(
                    f"instructions wait for each other: {_cycle(instructions, states, end)}", where="schedule"
                )
    except KeyboardInterrupt:
        if not done:
            raise
    total = whole_cycles(finish + run_cycles)
    given = zip(queues, states, waits, strict=True)
    uses = tuple(ResourceUse.of(queue, state.busy, wait, total) for queue, state, wait in given)
    bound = max(uses, key=lambda use: use.busy_cycles)
    complete = done == len(instructions)
    return Run(total, complete, uses, bound.resource, len(instructions), done, tuple(timeline), finish + run_cycles)


def _ready(instruction: Instruction, end: Sequence[float]) -> bool:
    return not any(math.isnan(end[other]) for other in instruction.after)


def _start(
    instructions: Sequence[Instruction], index: int, state: _State, end: Sequence[float], waits: dict[str, float]
) -> tuple[float, float]:
    """Run the head of a queue; returns start and end."""
    instruction = instructions[index]
    own = state.free
    latest = max(instruction.after, key=end.__getitem__, default=None)
    start = own if latest is None else max(own, end[latest])
    if latest is not None and start > own:
        kind = instructions[latest].kind
        waits[kind] = waits.get(kind, 0.0) + (start - own)
    state.free = start + instruction.cycles
    state.busy += instruction.cycles
    state.position += 1
    return start, state.free


def _cycle(instructions: Sequence[Instruction], states: Sequence[_State], end: Sequence[float]) -> str:
    """The cycle of waits that the heads of the queues are in, as text."""
    seen: list[int] = []
    index = next(head for state in states if (head := state.head) is not None)
    while index not in seen:
        seen.append(index)
        missing = next(other for other in instructions[index].after if math.isnan(end[other]))
        head = states[instructions[missing].queue].head
        assert head is not None  # what is missing has not run
        index = head
    names = [f"{instructions[i].kind} ({i})" for i in [*seen[seen.index(index) :], index]]
    return " waits for ".join(names)
