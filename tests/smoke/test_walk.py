"""From the request to the result, calls go down: no room calls a higher one (returns apart, and the space that was handed in)."""

import sys
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

from codesign.library.studies import explore
from codesign.study.specification import StudySpec

ROOT = Path(__file__).parents[2]
HANDED_IN = {("optim", "spaces"), ("evaluation", "spaces"), ("study", "spaces")}
"""A space is a value behind the protocols `SearchSpace` and `DesignSpace`, which these rooms define."""

MADE_BY_NAME = "core/plugins.py"
"""The registry makes what a name stands for; nothing else in it calls upwards."""


def floors() -> dict[str, int]:
    """Rooms by height, as import-linter's contract orders them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (inside,) = (c for c in contracts if c["name"] == "Inside codesign")
    found = {room.strip(): -height for height, line in enumerate(inside["layers"]) for room in line.split("|")}
    return {**found, "spaces": 1, "envs": 2}


def place(code: CodeType) -> tuple[str, str] | None:
    """Room and file of code of the project; None for others'."""
    return None if code.co_name == "<module>" else place_of_file(code.co_filename)


@cache
def place_of_file(name: str) -> tuple[str, str] | None:
    """The same of a file; asked at every call, so remembered."""
    path = Path(name)
    if not path.is_relative_to(ROOT):
        return None
    folder, *rest = path.relative_to(ROOT).parts
    if folder == "codesign" and len(rest) > 1:
        return rest[0], "/".join(rest)
    return (folder, "/".join(rest)) if folder in ("spaces", "envs") else None


def climbs_of(run: Callable[[], object]) -> set[tuple[str, str, str]]:
    """(lower room, higher room, called function) of every call that goes up."""
    heights, found = floors(), set()

    def watch(frame: FrameType, event: str, argument: object) -> None:
        called = place(frame.f_code) if event == "call" else None
        if called is None:
            return
        above = frame.f_back
        while above is not None and place(above.f_code) is None:
            above = above.f_back
        caller = None if above is None else place(above.f_code)
        if caller is None or caller[1] == MADE_BY_NAME or (caller[0], called[0]) in HANDED_IN:
            return
        if heights[called[0]] > heights[caller[0]]:
            found.add((caller[0], called[0], frame.f_code.co_qualname))

    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def study(out: Path) -> StudySpec:
    """Two designs of the scratchpad space."""
    return StudySpec.from_json(
        {
            "workload": {"networks": ["alexnet"]},
            "place": {"out": str(out)},
            "judge": {"mapper": "anneal", "evaluations": 30},
            "search": {"optimizer": "sobol", "trials": 2},
        }
    )


def test_a_study_climbs_nowhere(tmp_path: Path) -> None:
    explore(study(tmp_path / "compiled"))  # compilers are slow while they are watched
    asked = study(tmp_path / "watched")
    assert climbs_of(lambda: explore(asked)) == set()


def test_a_climb_is_seen() -> None:
    from codesign.core.errors import closest

    class Names:
        """Asked from below."""

        def __iter__(self):  # type: ignore[no-untyped-def]
            from codesign.study.specification import FIDELITIES, FidelitySpec

            FidelitySpec()
            return iter(FIDELITIES)

    seen = climbs_of(lambda: closest("on", Names()))
    assert ("core", "study", "FidelitySpec.__post_init__") in seen
