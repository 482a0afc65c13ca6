"""The README and every page of the documentation keep the rules of style (tests/prose.py)."""

from pathlib import Path

import pytest

from tests.prose import faults

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_page_keeps_the_rules_of_style(page: Path) -> None:
    assert faults(page) == []


def test_the_rules_find_faults(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Aim\n\nThe report needs no network. " + "word " * 26 + "end; short.\n\n```\nthe aim of code\n```\n"
    )
    assert [f.split(":")[0][:12] for f in faults(page)] == ["'needs no ne", "27 words, at"]
