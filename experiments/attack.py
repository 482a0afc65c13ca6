"""Attack what this project calls optimal: draw problems over all modes, enumerate or search with everything else, count what was wrong.

``python -m experiments.attack --seconds 60 --seed 0``; the last line is JSON. A finding is printed with the number of its problem;
``--mode MODE --first NUMBER --problems 1`` draws it again.
"""

import json
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import final

import numpy as np

from codesign.core.files import write_json
from codesign.core.json_types import JsonObject
from experiments.attacks import certificate_damage, certificate_modes, mapping_modes, other_modes
from experiments.attacks.findings import Findings
from experiments.options import head_parser

Attack = Callable[[np.random.Generator], Findings]

MODES: dict[str, Attack] = {
    "even": mapping_modes.attack_even,
    "free": mapping_modes.attack_free,
    "uneven": mapping_modes.attack_uneven,
    "imperfect": mapping_modes.attack_imperfect,
    "accelforge": other_modes.attack_accelforge,
    "fused": other_modes.attack_fused,
    "zigzag": other_modes.attack_zigzag,
    "front": other_modes.attack_front,
    "certificate": other_modes.attack_certificate,
    "network-certificate": certificate_modes.attack_network_certificate,
    "certificates": certificate_damage.attack_certificates,
}

MOST_S = 60.0
"""Seconds that one problem may take; then it is left and counted as unfinished."""


@final
@dataclass(frozen=True)
class AttackConfig:
    """What is attacked, and for how long.

    Args:
        seconds: Of wall time, reading and compiling code not counted.
        seed: Of all problems.
        modes: Which are drawn, in turn.
        first: Number of the first problem of each mode.
        problems: At most so many of each mode.
        out: Where the summary goes too; None for nowhere.
    """

    seconds: float = 60.0
    seed: int = 0
    modes: tuple[str, ...] = tuple(MODES)
    first: int = 0
    problems: int | None = None
    out: Path | None = None


@final
@dataclass
class Tally:
    """What was found so far.

    Args:
        problems: By mode.
        how: By the way a problem was attacked.
        counts: Of beaten claims, mismatches, crashes and unfinished problems.
    """

    problems: Counter[str] = field(default_factory=Counter)
    how: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)

    def to_json(self, config: AttackConfig, seconds: float) -> JsonObject:
        """The summary."""
        return {
            "seed": config.seed,
            "seconds": round(seconds, 1),
            "problems": {mode: self.problems[mode] for mode in config.modes},
            "how": dict(sorted(self.how.items())),
            "beaten": self.counts["beaten"],
            "mismatches": self.counts["mismatches"],
            "crashes": self.counts["crashes"],
            "unfinished": self.counts["unfinished"],
        }


class _Over(BaseException):
    """The time of a problem, or of the run, is over."""


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise `_Over` in what runs here after some seconds of wall time; compiled code is interrupted when it returns."""

    def over(number: int, frame: FrameType | None) -> None:
        raise _Over

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def run(config: AttackConfig) -> JsonObject:
    """Draw problems in turn of all modes until the time is over; prints every finding."""
    started = time.monotonic()
    tally, number = Tally(), config.first
    while config.problems is None or number < config.first + config.problems:
        for mode in config.modes:
            left = config.seconds - (time.monotonic() - started)
            if left <= 0.0:
                return tally.to_json(config, time.monotonic() - started)
            _one(config, mode, number, min(left, MOST_S), tally, left <= MOST_S)
        number += 1
    return tally.to_json(config, time.monotonic() - started)


def _one(config: AttackConfig, mode: str, number: int, seconds: float, tally: Tally, last: bool) -> None:
    rng = np.random.default_rng([config.seed, list(MODES).index(mode), number])
    try:
        with _at_most(seconds):
            found = MODES[mode](rng)
    except _Over:
        tally.counts["unfinished"] += not last  # the end of the run is no fault of the problem
        return
    except Exception:
        tally.problems[mode] += 1
        tally.counts["crashes"] += 1
        print(f"{mode} {number}: crash\n{traceback.format_exc()}", flush=True)
        return
    tally.problems[mode] += 1
    tally.how[found.how] += 1
    for kind, said in (("beaten", found.beaten), ("mismatches", found.mismatches)):
        tally.counts[kind] += len(said)
        for text in said:
            print(f"{mode} {number}: {kind}: {text}", flush=True)


def parse(arguments: list[str]) -> AttackConfig:
    """The configuration of a command line."""
    parser = head_parser(__doc__, out=None, seed=AttackConfig.seed, smoke="one problem of each mode")
    parser.add_argument("--seconds", type=float, default=AttackConfig.seconds)
    parser.add_argument("--mode", nargs="+", choices=tuple(MODES), default=tuple(MODES))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--problems", type=int, default=None)
    given = parser.parse_args(arguments)
    if not 0.0 < given.seconds < float("inf") or given.seed < 0 or given.first < 0:
        parser.error("--seconds must be positive, --seed and --first at least 0")
    problems = 1 if given.smoke else given.problems
    return AttackConfig(given.seconds, given.seed, tuple(given.mode), given.first, problems, given.out)


def main() -> None:
    """Run and print the summary as the last line."""
    config = parse(sys.argv[1:])
    summary = run(config)
    if config.out is not None:
        write_json(config.out / "attack.json", summary)
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
