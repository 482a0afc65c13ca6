"""Tables of the results are those of their data, and the marks that ask for them mean what they say."""

from pathlib import Path

import pytest

from experiments.render_results import ROOT, Config, parse_mark, render, render_page, run

PAGE = "before\n\n<!-- table data/a.csv columns=1,3 where=1:x -->\nold\n<!-- end -->\n\nafter\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text('name,cycles,"energy, pJ"\nx,1,2|3\ny,3,4\n')
    (tmp_path / "data" / "b.json").write_text('[{"name": "x", "cycles": 1}, {"name": "y", "cycles": 2.5}]')
    return tmp_path


def test_columns_and_rows_are_picked(folder: Path) -> None:
    expected = "| name | energy, pJ |\n| --- | --- |\n| x | 2\\|3 |"
    assert expected in render_page(PAGE, folder)
    assert render_page(render_page(PAGE, folder), folder) == render_page(PAGE, folder)


def test_a_star_stands_for_any_text(folder: Path) -> None:
    (folder / "data" / "c.csv").write_text("name,cycles\nnet one,1\nnet two,2\n")
    assert render(parse_mark('data/c.csv where="1:*two"'), folder).endswith("| --- | --- |\n| net two | 2 |")


def test_json_is_read(folder: Path) -> None:
    assert render(parse_mark("data/b.json"), folder).endswith("| x | 1 |\n| y | 2.5 |")


def test_values_may_have_spaces() -> None:
    assert parse_mark('data/a.csv where="1:20 W,2 W"').where == (1, ("20 W", "2 W"))
    assert parse_mark('data/a.csv where="1:a, b|c"').where == (1, ("a, b", "c"))


@pytest.mark.parametrize(
    ("mark", "message"),
    [("data/a.csv rows=1", "`columns` and `where`"), ("data/a.csv where=1:z", "has no row"), ("data/c.csv", "3 cells")],
)
def test_mistakes_are_named(folder: Path, mark: str, message: str) -> None:
    (folder / "data" / "c.csv").write_text("a,b,c\n1,2\n")
    with pytest.raises(ValueError, match=message):
        render(parse_mark(mark), folder)


def test_the_pages_are_up_to_date() -> None:
    assert run(Config(ROOT / "docs" / "results", check=True)) == []


def test_every_data_file_is_named_by_a_page() -> None:
    pages = "".join(p.read_text() for p in (ROOT / "docs" / "results").glob("*.md"))
    assert [p.name for p in (ROOT / "docs" / "results" / "data").iterdir() if f"data/{p.name}" not in pages] == []
