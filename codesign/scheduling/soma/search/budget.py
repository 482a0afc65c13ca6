"""Spending a budget of seconds or proposals on an annealing chain."""

from collections.abc import Callable

from codesign.core import clock

# Share of the time between two looks at the clock.
_LOOK = 0.02
# Proposals before the first look.
_FIRST = 16


def run_budget(
    advance: Callable[[float, float, int], None], seconds: float | None, rounds: int | None, chunk: int = 256
) -> int:
    """Call ``advance(begin, stop, rounds)`` until the time or the proposals are spent.

    Progress (0..1) is the larger of the two shares, so that cooling ends with whichever budget ends first. Without `seconds` the
    calls depend on `rounds` alone and a run is reproducible.

    Returns:
        Proposals made.
    """
    if seconds is not None:
        chunk = min(chunk, _FIRST)
    started = clock.wall_seconds()
    done, progress = 0, 0.0
    while progress < 1.0 and (rounds is None or done < rounds):
        step = chunk if rounds is None else min(chunk, rounds - done)
        share = 0.0 if rounds is None else (done + step) / rounds
        if seconds is not None:
            elapsed = clock.wall_seconds() - started
            share = max(share, (elapsed + (elapsed / done if done else 0.0) * step) / seconds)
        target = min(max(share, progress), 1.0)
        advance(progress, target, step)
        done += step
        progress = target
        if seconds is not None:
            elapsed = clock.wall_seconds() - started
            if elapsed >= seconds:
                break
            chunk = int(min(max(_LOOK * seconds * done / elapsed, 16), 1 << 16))
    return done
