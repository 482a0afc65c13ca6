"""Every relative link and picture of the README and the documentation leads to a file that is there."""

import inspect
import re
from pathlib import Path

import pytest

import codesign

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
GENERATED = set(re.findall(r'"([\w/-]+\.md)"', (ROOT / "docs" / "generate.py").read_text()))
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "", text)
    targets = [(page.parent / target).resolve() for target in LINK.findall(text)]
    made = {ROOT / "docs" / name for name in GENERATED}
    assert not [str(target) for target in targets if not target.exists() and target not in made]


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: str(p.relative_to(ROOT)))
def test_pages_are_named_by_links(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    plain = re.sub(r"\[[^\]]*\]\([^)]*\)", "", text)
    named = re.findall(r"(?:[\w-]+/)+[\w-]+\.(?:md|ipynb)", plain)
    assert [name for name in named if (ROOT / name).exists() or (ROOT / "docs" / name).exists()] == []


def test_generated_pages_name_no_files_of_pages() -> None:
    for name in codesign.offered():
        source = inspect.getsource(getattr(codesign, name))
        assert "docs/" not in source, f"the page of Python names a file in what it says of {name}"


def test_pages_named_in_code_exist() -> None:
    sources = [
        p for folder in ("codesign", "spaces", "envs", "experiments", "tests") for p in (ROOT / folder).rglob("*.py")
    ]
    named = {name for p in sources for name in re.findall(r"docs/[\w/-]+\.md", p.read_text())}
    assert named and sorted(name for name in named if not (ROOT / name).exists()) == []
