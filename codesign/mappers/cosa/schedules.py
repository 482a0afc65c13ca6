"""From programs to schedules that fit: solving, repairing what a program ignores, enumerating more than one."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from codesign.cost.columns import TILE
from codesign.cost.packed import VALID
from codesign.mappers.cosa.decode import decode
from codesign.mappers.cosa.integer_program import Form, Program, Settings, make_program
from codesign.mappers.cosa.solvers import EFFORT, Solution, Solver, solve
from codesign.mappers.driver import Encoded
from codesign.mapping.space import MapState

ROUNDS = 8
"""Times a program is tightened and solved again before its schedule is given up."""

SWEEP_ROUNDS = 2
"""The same for each further program: another of them costs less than mending this one."""

SWEEP_EFFORT = 0.5
"""Limit on the solver's work for each further program; the first one has the full `EFFORT`."""


Clock = Callable[[], float | None]
"""Seconds that are left; None without a limit."""


@dataclass(frozen=True)
class Schedule:
    """A solution of a program that is a valid mapping.

    Args:
        program: Whose solution it is.
        values: Its count variables.
        state: The mapping, as a point of the map space.
        repairs: Times the program was tightened before its schedule fitted.
    """

    program: Program
    values: tuple[float, ...]
    state: MapState
    repairs: int

    @property
    def key(self) -> tuple[int, ...]:
        """The tiling: equal for schedules that differ in loop order only."""
        return tuple(int(s) for s in self.state.slot)


def solve_program(
    program: Program,
    solver: Solver,
    time_limit_s: float | None,
    effort: float = EFFORT,
    forbidden: tuple[tuple[int, ...], ...] = (),
) -> Solution:
    """Solve a program; of all schedules in best balance, the one with the least weighted objective is taken."""
    linear = program.linear.without(forbidden)
    found = solve(linear, solver, time_limit_s=time_limit_s, effort=effort)
    if program.settings.form is Form.WEIGHTED or not found.values:
        return found
    tie_break = program.tie_break(found.objective).without(forbidden)
    second = solve(tie_break, solver, time_limit_s=time_limit_s, effort=effort)
    seconds = found.seconds + second.seconds
    if not second.values:
        return replace(found, seconds=seconds)
    objective = linear.value(second.values)
    return Solution(found.status, second.values, objective, min(found.bound, objective), seconds)


def repaired(
    encoded: Encoded, program: Program, solution: Solution, solver: Solver, seconds_left: Clock, rounds: int = ROUNDS
) -> Schedule | None:
    """The program's schedule; where it does not fit, that of the program tightened until it does.

    The published capacity model knows neither halos (but for one reading) nor the two axes of a fan-out. A schedule that
    fails for the axes is replaced by that of the program with the axes apart; one whose tile is too large by that
    of the program whose share for this tile is lowered by as much.
    """
    settings = program.settings
    for repairs in range(rounds + 1):
        if not solution.values:
            return None
        state = decode(program, solution.values, encoded.space)
        if state is not None:
            excess = _excess(encoded, program, solution, state)
            if not excess:
                return (
                    Schedule(program, solution.values[: len(program.places)], state, repairs)
                    if excess is None
                    else None
                )
            settings = replace(settings, tightened=(*settings.tightened, *excess))
        settings = replace(settings, by_axis=True)
        program = make_program(encoded.source, settings)
        solution = solve_program(program, solver, seconds_left(), SWEEP_EFFORT)
    return None


def _excess(
    encoded: Encoded, program: Program, solution: Solution, state: MapState
) -> tuple[tuple[int, int, float], ...] | None:
    """By how many bits which tiles (level, tensor) must shrink in the program's own terms; None if the state is valid, empty if the outermost level is too small."""
    status, _, _ = encoded.score(state)
    if status == VALID:
        return None
    v = status // 4
    capacity = encoded.source.architecture.levels[v].capacity_bits
    if capacity is None or v == 0:
        return ()
    tiles = [int(n) for n in encoded.kernel.counts[v, :, TILE]]
    bits = [int(b) for b in encoded.kernel.element_bits[v]]
    kept = [t for t, stored in enumerate(program.matrices.stored[v]) if stored]
    excess = sum(tiles[t] * bits[t] for t in kept) - capacity
    result = []
    for t in [t for t in kept if program.matrices.slid_by[t]] or kept:
        wanted = max(1.0, tiles[t] - excess / bits[t])
        limit = program.limit_bits(v, t)
        target = min(limit, program.tile_bits(solution.values, v, t)) - math.log2(tiles[t] / wanted)
        result.append((v, t, max(1e-3, limit - target)))
    return tuple(result)


SWEEP: tuple[tuple[bool, float | None, float, float], ...] = (
    (True, None, 1.0, 10.0),
    (False, 0.75, 3.0, 1.0),
    (True, 0.25, 3.0, 1.0),
    (False, 0.9, 1.0, 1.0),
    (False, 0.9, 3.0, 30.0),
    (False, 0.25, 1.0, 1.0),
    (False, 0.75, 1.0, 10.0),
    (False, 0.1, 1.0, 1.0),
    (True, 0.25, 10.0, 1.0),
    (False, None, 3.0, 1.0),
    (True, 0.75, 3.0, 1.0),
    (True, None, 1.0, 1.0),
    (False, 0.75, 1.0, 1.0),
    (False, None, 10.0, 1.0),
    (True, 0.25, 1.0, 1.0),
    (False, 0.1, 3.0, 1.0),
    (False, None, 1.0, 10.0),
    (True, 0.9, 1.0, 10.0),
    (False, None, 0.3, 1.0),
    (True, 0.75, 1.0, 10.0),
    (False, 0.25, 3.0, 30.0),
    (True, 0.1, 1.0, 10.0),
)
"""Programs of the sweep: whether the outermost level is the network level, the inputs' share of a level beside an output
(None: as the reading says), factors on the weights of traffic and of utilisation. Ordered by what each added to those
before it on layers of ResNet-50 (docs/explanation/cosa.md)."""


def sweep(base: Settings, outermost: str) -> Iterator[Settings]:
    """Settings other than the base: weights, shares, and the outermost level as the one whose loop order counts.

    The last because the program charges all tensors for every loop outside the network level: where DRAM bounds the
    latency, reuse across its loops matters more than the network.
    """
    for swap, share, traffic, utilization in SWEEP:
        weights = replace(
            base.weights, traffic=base.weights.traffic * traffic, utilization=base.weights.utilization * utilization
        )
        changed = replace(
            base,
            weights=weights,
            input_share=share,
            by_axis=True,
            network_level=outermost if swap else base.network_level,
        )
        if changed != replace(base, by_axis=True):
            yield changed


def further_schedules(
    encoded: Encoded,
    first: Program,
    best: Schedule | None,
    solver: Solver,
    *,
    cuts_only: bool,
    attempts: int,
    seconds_left: Clock,
) -> Iterator[Schedule]:
    """Other schedules that fit, no tiling twice: those of the sweep, then next best ones of the first program.

    Ends when `attempts` programs have been solved or the first program has no other schedule.

    Args:
        first: The program as the user set it up.
        best: Its schedule, repaired where needed; None if that failed.
        solver: For the others.
        cuts_only: Leave the sweep out.
        attempts: Programs solved at most, repairs apart.
        seconds_left: Wall-clock limit of each solve.
    """
    seen = set() if best is None else {best.key}
    others = [] if cuts_only else list(sweep(first.settings, encoded.source.architecture.levels[0].name))
    for settings in others[:attempts]:
        program = make_program(encoded.source, settings)
        found = solve_program(program, solver, seconds_left(), SWEEP_EFFORT)
        other = repaired(encoded, program, found, solver, seconds_left, SWEEP_ROUNDS)
        if other is not None and other.key not in seen:
            seen.add(other.key)
            yield other
    base = make_program(encoded.source, replace(first.settings, by_axis=True)) if best is None else best.program
    forbidden: list[tuple[int, ...]] = []
    for _ in range(attempts - len(others)):
        found = solve_program(base, solver, seconds_left(), SWEEP_EFFORT, tuple(forbidden))
        if not found.values:
            return
        forbidden.append(tuple(round(x) for x in found.values[: len(base.places)]))
        state = decode(base, found.values, encoded.space)
        if state is None or _excess(encoded, base, found, state) is not None:
            continue
        other = Schedule(base, found.values[: len(base.places)], state, 0)
        if other.key not in seen:
            seen.add(other.key)
            yield other
