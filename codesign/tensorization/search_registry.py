"""Searches over software candidates by name."""

from collections.abc import Callable

from codesign.core.errors import unknown_name
from codesign.tensorization.policy import TRAINED, load_policy
from codesign.tensorization.search import AnnealedPrograms, HeuristicPrograms, ProgramSearch, RandomPrograms

SEARCHES: dict[str, Callable[[], ProgramSearch]] = {
    "random": RandomPrograms,
    "heuristic": HeuristicPrograms,
    "annealing": AnnealedPrograms,
}
"""Searches that need no training, by name; `codesign.tensorization.policy.load_policy` adds trained ones."""


def create_search(name: str) -> ProgramSearch:
    """The search of that name, or a trained one: ``learned`` for the policy that comes with the program, ``policy:PATH`` for another.

    Raises:
        UserError: Unknown name, or a checkpoint that cannot be used.
    """
    kind, _, path = name.partition(":")
    if (kind == "policy" and path) or name == "learned":
        return load_policy(path or TRAINED)
    if name not in SEARCHES:
        raise unknown_name("software search", name, [*SEARCHES, "learned", "policy:PATH"])
    return SEARCHES[name]()
