"""How files depend on each other, beside the layers that import-linter holds: no circle, no name that says two things."""

import ast
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from experiments.house import statements

ROOT = Path(__file__).parents[2]
PACKAGES = ("codesign", "spaces", "envs", "experiments")

SAME_PART = {
    "architecture",
    "mapping",
    "problem",
    "mapper",
    "arrays",
    "cost",
    "kernel",
    "baselines",
    "load",
    "solve",
    "operators",
    "scheduler",
    "spatial",
}
"""File names that several folders of one package may have: they play the same part there for different things."""


def modules() -> dict[str, Path]:
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """Modules of the project that a file imports anywhere: at the top, in functions, for types only."""
    names = set()
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = (f"{node.module}.{alias.name}" for alias in node.names)
            names |= {name if name in known else node.module for name in whole}
    return names & known.keys()


def circles(graph: dict[str, set[str]]) -> list[str] | None:
    """One circle of a graph; None where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return None


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"a"}}) is not None
    assert circles({"a": {"b"}, "b": set()}) is None


def test_no_files_import_each_other() -> None:
    known = modules()
    graph = {name: imported(path, known) - {name} for name, path in known.items()}
    assert sum(map(len, graph.values())) > len(graph), "the imports were not read"
    circle = circles(graph)
    assert circle is None, "files in a circle: " + " -> ".join(circle or [])


def test_files_of_one_package_have_names_of_their_own() -> None:
    places = defaultdict(list)
    for path in modules().values():
        parts = path.relative_to(ROOT).parts
        if parts[0] == "codesign" and path.stem != "__init__" and path.stem not in SAME_PART:
            places[parts[1], path.stem].append("/".join(parts))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
