"""The counts of the house: by hand on a small folder, and that the figure has every room and no import upwards."""

import json
import re
from pathlib import Path

import pytest

from experiments import house
from experiments.house_figure import House, Room, draw_house

RUN = "\n".join(f"value_{i} = {i} + 1" for i in range(9))


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_functions_are_counted_by_hand(tmp_path: Path) -> None:
    many = ", ".join(f"a{i}" for i in range(13))
    body = "\n".join(f"    x{i} = {i}" for i in range(60))
    path = write(tmp_path / "a.py", f"class A:\n    def f(self, {many}): ...\n\ndef g(*a, **k):\n{body}\n")
    found = list(house.functions_of([path]))
    assert sorted(house.parameters(f) for f in found) == [2, 13]
    assert sorted(house.function_lines(f) for f in found) == [1, 61]


@pytest.mark.parametrize(("between", "pairs"), [("", 1), ("# a comment\n\n", 1), ("other = 2\n", 0)])
def test_a_run_of_equal_lines_is_one_pair(tmp_path: Path, between: str, pairs: int) -> None:
    """Nine lines are one pair, not two windows; comments do not break a run and other code does."""
    lines = RUN.splitlines()
    first = write(tmp_path / "a.py", RUN + "\n")
    second = write(tmp_path / "b.py", "\n".join([*lines[:4], between + lines[4], *lines[5:]]) + "\n")
    assert house.repeated_pairs([first, second]) == pairs


def test_measures_of_a_small_project(tmp_path: Path) -> None:
    write(tmp_path / "codesign" / "core" / "a.py", '"""Doc."""\nx: dict[str, Any] = {}\n')
    write(tmp_path / "docs" / "results" / "page.md", "| two words |\n")
    write(tmp_path / "tests" / "test_a.py", "pass\n")
    found = house.measure(tmp_path)
    assert (found.codesign_lines, found.dict_str_any, found.tests_lines) == (2, 1, 1)
    assert (found.docs_words, found.docs_words_without_signs, found.results_words) == (4, 2, 4)


def test_the_command_prints_json_last(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.argv", ["house", "--smoke", "--out", str(tmp_path)])
    house.main()
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last == json.loads((tmp_path / "house.json").read_text())
    assert set(last["lines_by_package"]) == {"core"}


def test_the_figure_has_every_room_and_every_import() -> None:
    text = draw_house(House((Room("upper", 0, 10, 1), Room("lower", 1, 20, 2)), {("upper", "lower"): 3}))
    assert re.findall(r"<text x[^>]*>(\w+)</text>", text) == ["upper", "lower"]
    assert "upper imports lower: 3" in text and 'class="up"' not in text


def test_no_room_imports_upwards() -> None:
    built = house.house(house.ROOT)
    floors = {room.name: room.floor for room in built.rooms}
    assert [pair for pair in built.imports if floors[pair[0]] >= floors[pair[1]]] == []
    names = {p.name for p in (house.ROOT / "codesign").iterdir() if (p / "__init__.py").exists()}
    assert names <= set(floors)
