"""Figures of the code's size and shape: `python -m tests.house`; the last line is one JSON object."""

import ast
import json
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_PARAMETERS, MOST_LINES = 12, 60


@dataclass(frozen=True)
class Figures:
    """What is counted.

    Args:
        lines: Of `codesign/`, docstrings and comments included.
        mapper_lines: Of `codesign/mappers/`.
        many_parameters: Functions that take more than 12.
        long_functions: Functions of more than 60 lines.
        untyped_records: Times that ``dict[str, Any]`` stands in `codesign/`.
        test_lines: Of `tests/`.
        doc_words: Of `docs/`.
    """

    lines: int
    mapper_lines: int
    many_parameters: int
    long_functions: int
    untyped_records: int
    test_lines: int
    doc_words: int


def functions(path: Path) -> list[tuple[str, int, int]]:
    """Name, parameters and lines of every function of a file."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            number = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)
            found.append((node.name, number, (node.end_lineno or node.lineno) - node.lineno + 1))
    return found


def lines_of(folder: Path) -> int:
    """Lines of all Python files below a folder."""
    return sum(len(path.read_text().splitlines()) for path in folder.rglob("*.py"))


def measure() -> Figures:
    """Count, and print the functions that are over a limit."""
    code = sorted((ROOT / "codesign").rglob("*.py"))
    many = long = 0
    for path in code:
        for name, parameters, lines in functions(path):
            many += parameters > MOST_PARAMETERS
            long += lines > MOST_LINES
            if parameters > MOST_PARAMETERS or lines > MOST_LINES:
                sys.stdout.write(f"{path.relative_to(ROOT)}: {name} takes {parameters} and has {lines} lines\n")
    return Figures(
        lines=lines_of(ROOT / "codesign"),
        mapper_lines=lines_of(ROOT / "codesign" / "mappers"),
        many_parameters=many,
        long_functions=long,
        untyped_records=sum(len(re.findall(r"dict\[str, Any\]", path.read_text())) for path in code),
        test_lines=lines_of(ROOT / "tests"),
        doc_words=sum(len(path.read_text().split()) for path in (ROOT / "docs").rglob("*.md")),
    )


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(measure())) + "\n")
