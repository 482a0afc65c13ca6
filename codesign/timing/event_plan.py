"""What the event engine runs: a loop nest of steps and a list of processes."""

from typing import NamedTuple

from codesign.mapping.nest import FloatArray, IntArray

LOAD, COMPUTE, STORE = 0, 1, 2
"""Kinds: runs ahead of the step as far as buffers allow; runs on entering a step; runs on leaving a step."""

NOTHING = -1


class Plan(NamedTuple):
    """What the engine runs.

    Shapes: S loops of the step nest, outermost first; P phases (the values of loop `phase_loop`; inner loops may differ
    from phase to phase); K processes; R resources; A = S + 1 ways to enter or leave a step: 0 is the start (the end)
    of the run, ``1 + l`` an advance of loop l.

    Attributes:
        factors: ``P x S`` iterations of each loop in each phase.
        phase_loop: Index of the loop over phases.
        kind: ``K`` `LOAD`, `COMPUTE` or `STORE`.
        resource: ``K x M`` resources held, the own one first; `NOTHING` for none.
        depth: ``K`` tiles a LOAD may hold (its buffer slots); for a STORE the tiles of output that may be unfinished.
        by_step: ``K`` STORE: 1 where slots alternate at every step, not at every tile.
        source: ``K`` LOAD: the LOAD whose tile it reads; STORE: the STORE before it (inner level); `NOTHING` for none.
        early: ``K`` cycles before the end of its last use at which the slot of a tile is free again.
        latency: ``K`` cycles after the end of the operation until its data can be used.
        stream: ``K`` LOAD: 1 where its users may start with it, and end no earlier than it does.
        revisit: ``K`` LOAD: bit set of loops; it runs only where one of them is past its first iteration (0: always).
        active: ``K x P x A`` 1 where it runs on entering (STORE: on leaving) a step this way.
        duration: ``K x P x A`` cycles from start to end.
        share: ``K x P x A x M`` cycles for which each resource is held; a negative first entry is the whole operation.
        ahead: ``K x P`` STORE: cycles before the end of the array's work at which it may start.
        needs: ``K x K`` 1 where COMPUTE k waits for the tile of LOAD j that is in force.
        explicit: ``K`` first entry in `durations` of a process whose cycles are listed step by step; `NOTHING` for none.
        durations: Those lists; a negative entry of a COMPUTE or STORE is a step at which it does not run.
        aheads: Beside `durations`, in place of `ahead`; of a LOAD, cycles before its end at which its own resource is free.
        stretch: ``K x K`` share by which COMPUTE k is slowed while operations of STORE j run beside it.
        in_flight: Steps that may be unfinished at a time (loads started, results not stored); 0 is no limit.
        barrier: ``K`` LOAD: 1 where its first tile of a phase waits for everything stored in the phase before.
        resources: number of resources.
    """

    factors: IntArray
    phase_loop: int
    kind: IntArray
    resource: IntArray
    depth: IntArray
    by_step: IntArray
    source: IntArray
    early: FloatArray
    latency: FloatArray
    stream: IntArray
    revisit: IntArray
    active: IntArray
    duration: FloatArray
    share: FloatArray
    ahead: FloatArray
    needs: IntArray
    explicit: IntArray
    durations: FloatArray
    aheads: FloatArray
    stretch: FloatArray
    in_flight: int
    barrier: IntArray
    resources: int
