"""The how-to page of serving: its files and its command give the figures that stand there."""

import re
from pathlib import Path

import pytest

from tests.command_line import run

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "llm-serving.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
LINES = re.findall(r"codesign (serve serving\.yaml .*)", PAGE)
WAYS = re.findall(r"\| way \|.*?\n\n", PAGE, re.DOTALL)
TABLES = re.findall(r"\| figure \|.*?\n\n", PAGE, re.DOTALL)


def rows(table: str) -> dict[str, list[str]]:
    """First column -> the others."""
    lines = [[cell.strip() for cell in line.strip("|\n ").split("|")] for line in table.strip().splitlines()[2:]]
    return {line[0]: line[1:] for line in lines}


@pytest.mark.parametrize(("chips", "column"), [("", 0), (BLOCKS[1], 1)], ids=["one chip", "four chips"])
def test_the_page_shows_what_the_command_prints(tmp_path: Path, chips: str, column: int) -> None:
    (tmp_path / "serving.yaml").write_text(BLOCKS[0] + chips)
    arguments = LINES[0].replace("serving.yaml", str(tmp_path / "serving.yaml")).split()
    shown = run(*arguments)
    assert shown.code == 0, shown.err
    found = dict(
        re.findall(
            r"^(time to first token|time per output token|tokens per second|tokens per joule) +(.*)$", shown.out, re.M
        )
    )
    page = rows(TABLES[0])
    for figure, printed in found.items():
        number = page[figure][column]
        unit = number.removeprefix(number.split()[0])
        digits = len(number.split()[0].partition(".")[2])
        assert f"{float(printed.split()[0].replace(',', '')):.{digits}f}{unit}" == number, (figure, printed, number)
    (phase,) = re.findall(r"^decode step of 8.*$", shown.out, re.M)
    numbers = re.findall(r"[\d.]+", page["decode step of 8"][column])
    if column == 0:
        assert f": {numbers[0]} ms" in phase and f"DRAM {numbers[1]}%" in phase, phase
    else:
        assert f"links {numbers[0]}%" in phase, phase


@pytest.mark.slow("speed")
def test_the_page_shows_the_ways_to_share_layers(tmp_path: Path) -> None:
    chips = BLOCKS[1].replace("50e9", "2e9")
    (tmp_path / "serving.yaml").write_text(BLOCKS[0].replace("batch: 8", "batch: 32") + chips)
    shown = run(*LINES[1].replace("serving.yaml", str(tmp_path / "serving.yaml")).split())
    for way, (rate, first, further) in rows(WAYS[0]).items():
        line = f"  {way.removesuffix(' chips')}: {rate} tokens per second, first token after {first}, each further one {further}"
        assert line in shown.out
