"""How large the house is, measured: `python -m experiments.house`, and its figure: `python -m experiments.house --figure`.

Counts what a maintainer pays for: lines by package, long functions, long parameter lists, untyped records, repeated lines, words of
documentation. The last line printed is JSON. Nothing is imported that is counted; files are read as text and as syntax trees.
"""

import ast
import json
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.house_figure import House, Room, draw_house
from experiments.options import head_parser

ROOT = Path(__file__).parents[1]
MOST_PARAMETERS = 12
MOST_LINES = 60
REPEATED_LINES = 8
"""Lines of code in a row that two places must share to count as a pair, names and all."""


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        root: Folder of the project.
        out: Where the JSON goes as well; None prints only.
        figure: Where the figure goes; None draws none.
        smoke: Only `codesign/core`, to see that everything runs.
    """

    root: Path
    out: Path | None
    figure: Path | None
    smoke: bool


@dataclass(frozen=True)
class Measures:
    """What the table counts; lines include docstrings, comments and blank lines.

    Args:
        lines_by_package: Lines of every package of `codesign`.
        codesign_lines: Lines of `codesign`.
        mappers_lines: Lines of `codesign/mappers`.
        functions: Functions and methods of `codesign`.
        functions_over_12_parameters: Those with more than 12 parameters, `self` and `cls` not counted.
        functions_over_60_lines: Those longer than 60 lines, from `def` to the last line.
        dict_str_any: Places in `codesign` where ``dict[str, Any]`` stands.
        repeated_pairs: Pairs of places in `codesign` that share a run of lines.
        docs_words: Words of the pages of `docs/` as ``wc -w`` counts them, signs of tables included.
        docs_words_without_signs: Those with a letter or a digit.
        results_words: Words of `docs/results`, as ``wc -w``.
        tests_lines: Lines of `tests`.
    """

    lines_by_package: dict[str, int]
    codesign_lines: int
    mappers_lines: int
    functions: int
    functions_over_12_parameters: int
    functions_over_60_lines: int
    dict_str_any: int
    repeated_pairs: int
    docs_words: int
    docs_words_without_signs: int
    results_words: int
    tests_lines: int


Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources(folder: Path) -> list[Path]:
    """The Python files of a folder, sorted."""
    return sorted(p for p in folder.rglob("*.py") if "__pycache__" not in p.parts)


def count_lines(paths: list[Path]) -> int:
    """Lines of the files together."""
    return sum(len(p.read_text().splitlines()) for p in paths)


def package_of(path: Path, folder: Path) -> str:
    """The package directly inside a folder that a file belongs to; a file of the folder itself counts by its stem."""
    return path.relative_to(folder).parts[0].removesuffix(".py")


def functions_of(paths: list[Path]) -> Iterator[Function]:
    """Every function and method of the files."""
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, Function):
                yield node


def parameters(function: Function) -> int:
    """Parameters of a function, without `self` and `cls`."""
    a = function.args
    named = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
    return sum(name not in ("self", "cls") for name in named) + (a.vararg is not None) + (a.kwarg is not None)


def function_lines(function: Function) -> int:
    """Lines from `def` to the end."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def code_lines(path: Path) -> list[tuple[int, str]]:
    """(line number, text without indentation) of code: no blank lines, comments, docstrings, imports, and no line of signs alone."""
    text = path.read_text()
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        bare = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if bare or isinstance(node, ast.Import | ast.ImportFrom):
            assert isinstance(node, ast.stmt)
            skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    numbered = ((n, line.strip()) for n, line in enumerate(text.splitlines(), 1) if n not in skipped)
    return [(n, line) for n, line in numbered if any(c.isalnum() for c in line) and not line.startswith("#")]


def repeated_pairs(paths: list[Path], run: int = REPEATED_LINES) -> int:
    """Pairs of places that share at least `run` lines of code in a row, the longest run of each counted once.

    Two windows match if their lines are equal, names included; a match that goes on by one line at both places belongs to the pair
    before it. Copies with other names are not seen, so this is a floor.
    """
    windows: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for number, path in enumerate(paths):
        lines = [text for _, text in code_lines(path)]
        for start in range(len(lines) - run + 1):
            windows[tuple(lines[start : start + run])].append((number, start))
    matches = {
        (first, second)
        for places in windows.values()
        for i, first in enumerate(places)
        for second in places[i + 1 :]
        if first[0] != second[0] or second[1] - first[1] >= run
    }
    return sum(((f, a - 1), (g, b - 1)) not in matches for (f, a), (g, b) in matches)


def words(paths: list[Path]) -> tuple[int, int]:
    """Words of the files as ``wc -w`` counts them, and those with a letter or a digit."""
    found = [word for p in paths for word in p.read_text().split()]
    return len(found), sum(any(c.isalnum() for c in word) for word in found)


def measure(root: Path, part: str = "codesign") -> Measures:
    """All counts of a project's folder; `part` narrows the code that is counted."""
    folder = root / "codesign"
    paths = sources(root / part)
    functions = list(functions_of(paths))
    lines = Counter[str]()
    for path in paths:
        lines[package_of(path, folder)] += count_lines([path])
    pages = sorted((root / "docs").rglob("*.md"))
    all_words, plain_words = words(pages)
    return Measures(
        lines_by_package=dict(sorted(lines.items())),
        codesign_lines=lines.total(),
        mappers_lines=lines["mappers"],
        functions=len(functions),
        functions_over_12_parameters=sum(parameters(f) > MOST_PARAMETERS for f in functions),
        functions_over_60_lines=sum(function_lines(f) > MOST_LINES for f in functions),
        dict_str_any=sum(p.read_text().count("dict[str, Any]") for p in paths),
        repeated_pairs=repeated_pairs(paths),
        docs_words=all_words,
        docs_words_without_signs=plain_words,
        results_words=words([p for p in pages if p.parent.name == "results"])[0],
        tests_lines=count_lines(sources(root / "tests")),
    )


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements of a file, at the top and inside others; expressions are passed over."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting.extend(getattr(node, field, ()))


def imported_packages(path: Path) -> Iterator[str]:
    """The package of `codesign`, or the folder beside it, that each import of a file names."""
    for node in statements(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            first, *rest = name.split(".")
            if first == "codesign" and rest:
                yield rest[0]
            elif first in ("spaces", "envs"):
                yield first


def house(root: Path) -> House:
    """Rooms on their floors, upper first as the import rules of `pyproject.toml` list them, and imports between rooms."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    listed = next(c for c in contracts if c.get("containers") == ["codesign"])["layers"]
    floors = [["experiments"], ["envs"], ["spaces"], *([n.strip() for n in f.split("|")] for f in listed)]
    rooms: dict[str, Room] = {}
    arrows = Counter[tuple[str, str]]()
    for level, floor in enumerate(floors):
        for name in floor:
            folder = root / name if level < 3 else root / "codesign" / name
            paths = sources(folder)
            rooms[name] = Room(name, level, count_lines(paths), len(paths))
            arrows.update((name, other) for p in paths for other in imported_packages(p))
    kept = {(a, b): n for (a, b), n in arrows.items() if a != b and b in rooms}
    return House(tuple(rooms.values()), kept)


def run(config: Config) -> Measures:
    """Measure, and draw or write what was asked for."""
    found = measure(config.root, "codesign/core" if config.smoke else "codesign")
    if config.figure is not None:
        config.figure.parent.mkdir(parents=True, exist_ok=True)
        config.figure.write_text(draw_house(house(config.root)))
    if config.out is not None:
        config.out.mkdir(parents=True, exist_ok=True)
        (config.out / "house.json").write_text(json.dumps(asdict(found), indent=2) + "\n")
    return found


def main() -> None:
    """Parse the options, print the table and its JSON."""
    parser = head_parser(__doc__, out=None, smoke="count codesign/core only")
    parser.add_argument("--figure", action="store_true", help="draw docs/images/house.svg")
    options = parser.parse_args()
    figure = ROOT / "docs" / "images" / "house.svg" if options.figure else None
    found = asdict(run(Config(ROOT, options.out, figure, options.smoke)))
    for package, lines in sorted(found["lines_by_package"].items(), key=lambda item: -item[1]):
        print(f"  {package:<32}{lines:>9,}")
    for name, value in found.items():
        if name != "lines_by_package":
            print(f"{name:<34}{value:>9,}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
