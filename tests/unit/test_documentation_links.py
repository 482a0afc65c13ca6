"""Every relative link and picture of the README and the documentation leads to a file that is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "", text)
    broken = [target for target in LINK.findall(text) if not (page.parent / target).exists()]
    assert not broken


def test_pages_named_in_code_exist() -> None:
    sources = [
        p for folder in ("codesign", "spaces", "envs", "experiments", "tests") for p in (ROOT / folder).rglob("*.py")
    ]
    named = {name for p in sources for name in re.findall(r"docs/[\w/-]+\.md", p.read_text())}
    assert named and sorted(name for name in named if not (ROOT / name).exists()) == []
