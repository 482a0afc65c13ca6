"""The rules of style that a program can check, for the README and the documentation.

* A sentence has at most 25 words. A semicolon or a colon ends one; what stands in parentheses, code, numbers and formulas do not count.
* Some phrases are not used: they are private idioms, or our nouns with a second meaning.
"""

import re
from collections.abc import Iterator
from pathlib import Path

MOST_WORDS = 25

PHRASES = {
    r"needs? no network": "a network is a workload here; say that the page loads nothing from elsewhere",
    r"not heard of": "say which process failed, and how that is seen",
    r"\bdear(er|est|ly)?\b": "high fidelity, costly",
    r"\bcheap evaluation": "low-fidelity evaluation",
    r"\baims?\b": "results are results: figure, conditions, command",
    r"\bas follows\b": "say it",
    r"\bsimply\b|\bobviously\b|\bof course\b": "leave it out",
}
"""Pattern and what to write instead."""


def sentences(text: str) -> Iterator[str]:
    """The sentences of a Markdown page, without code, tables, headings, images and comments."""
    text = re.sub(r"^(```|~~~).*?^\1[ \t]*$", "\n\n", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^\s*(\||#|!\[|    ).*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"^\s*([*-]|\d+\.)\s", "\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "CODE", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    for paragraph in re.split(r"\n\s*\n", text):
        yield from (s for s in re.split(r"(?<=[.!?:;])[)*\"']*\s+", " ".join(paragraph.split())) if s)


def words(sentence: str) -> int:
    """Words of a sentence, without code, numbers, signs, one-letter names and what stands in parentheses."""
    plain = re.sub(r"\([^()]*\)", "", sentence)
    return sum(bool(re.search(r"[^\W\d_]{2}", w)) or w in ("a", "A", "I") for w in plain.split() if "CODE" not in w)


def faults(path: Path) -> list[str]:
    """What a page says that the rules do not allow, one line each."""
    found = []
    for sentence in sentences(path.read_text()):
        count = words(sentence)
        if count > MOST_WORDS:
            found.append(f"{count} words, at most {MOST_WORDS}: {sentence}")
        for pattern, instead in PHRASES.items():
            match = re.search(pattern, sentence, re.IGNORECASE)
            if match:
                found.append(f"{match[0]!r} ({instead}): {sentence}")
    return found
