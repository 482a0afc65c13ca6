"""Tables of the documentation from their data: `make results`, or `python -m experiments.render_results`.

A page of `docs/results` says where a table stands, and the table between the two marks is written by this command::

    <!-- table data/mappers-gaps.csv columns=1,2,9 where=1:simba,eyeriss -->
    ...
    <!-- end -->

The data are CSV, or JSON (a list of objects with the same keys); the first row holds the heads. `columns` picks columns, counted from
1; `where` keeps the rows whose column has one of the values, in quotes where one has spaces, set apart
by bars where one has commas (``where="2:20 W|2 W"``). A star stands for any text (``where="1:* SET"``).
A new measurement is written into the data, never into a page.
"""

import argparse
import csv
import json
import re
import shlex
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).parents[1]
MARK = re.compile(r"<!-- table (?P<options>\S[^>]*?) -->\n.*?<!-- end -->", re.DOTALL)


@dataclass(frozen=True)
class TableMark:
    """What a page asks for.

    Args:
        file: Of the data, from the page's folder.
        columns: Numbers of the columns, from 1; empty for all.
        where: Column and the values that its rows may have, with stars for any text; None keeps all rows.
    """

    file: str
    columns: tuple[int, ...] = ()
    where: tuple[int, tuple[str, ...]] | None = None


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        pages: Folder of the pages.
        check: Only say which pages are not up to date.
    """

    pages: Path
    check: bool


def parse_mark(options: str) -> TableMark:
    """The mark that the text between ``table`` and ``-->`` says.

    Raises:
        ValueError: For an option that is not known.
    """
    file, *rest = shlex.split(options)
    columns: tuple[int, ...] = ()
    where = None
    for option in rest:
        name, _, value = option.partition("=")
        if name == "columns":
            columns = tuple(int(n) for n in value.split(","))
        elif name == "where":
            column, _, values = value.partition(":")
            where = (int(column), tuple(values.split("|" if "|" in values else ",")))
        else:
            raise ValueError(f"a table mark has `columns` and `where`, got {option!r} for {file}")
    return TableMark(file, columns, where)


def read_rows(path: Path) -> list[list[str]]:
    """Heads and rows of a data file, every cell as text."""
    if path.suffix == ".json":
        records = json.loads(path.read_text())
        return [list(records[0]), *([str(v) for v in record.values()] for record in records)]
    with path.open(newline="") as stream:
        return list(csv.reader(stream))


def render(mark: TableMark, folder: Path) -> str:
    """The Markdown table of a mark.

    Raises:
        ValueError: If no row is left, or a row has another number of cells than there are heads.
    """
    heads, *rows = read_rows(folder / mark.file)
    if any(len(row) != len(heads) for row in rows):
        raise ValueError(f"every row of {mark.file} must have {len(heads)} cells")
    if mark.where is not None:
        column, values = mark.where
        rows = [row for row in rows if any(fnmatchcase(row[column - 1], v) for v in values)]
    if not rows:
        raise ValueError(f"{mark.file} has no row for {mark.where}")
    picked = [n - 1 for n in mark.columns] or list(range(len(heads)))
    lines = [[row[i] for i in picked] for row in (heads, ["---"] * len(heads), *rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def render_page(text: str, folder: Path) -> str:
    """A page with all its tables written anew."""

    def table(match: re.Match[str]) -> str:
        options = match["options"]
        return f"<!-- table {options} -->\n\n{render(parse_mark(options), folder)}\n\n<!-- end -->"

    return MARK.sub(table, text)


def run(config: Config) -> list[str]:
    """Names of the pages that were, or with `check` would be, written anew."""
    changed = []
    for page in sorted(config.pages.rglob("*.md")):
        before = page.read_text()
        after = render_page(before, page.parent)
        if after != before:
            changed.append(page.name)
            if not config.check:
                page.write_text(after)
    return changed


def main() -> None:
    """Parse the options, write or check the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=Path, default=ROOT / "docs" / "results")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a page is not up to date; write nothing")
    options = parser.parse_args()
    changed = run(Config(options.pages, options.check))
    print(json.dumps({"changed": changed}))
    if options.check and changed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
