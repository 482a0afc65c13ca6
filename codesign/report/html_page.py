"""Self-contained HTML pages: one file, no network, everything inline, drawn by the scripts in ``assets``."""

import html
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

from codesign.core.files import read_text

SHARED_SCRIPTS = ("format.js", "charts.js")
"""What every page needs: numbers with units, and charts."""


def asset(name: str) -> str:
    """A text file that ships with this package."""
    with resources.as_file(resources.files("codesign.report") / "assets" / name) as path:
        return read_text(path)


def build_page(title: str, body: str, data: Any, scripts: Sequence[str]) -> str:
    """A page with the shared style, its data as JSON and the scripts that draw it.

    Args:
        title: Of the page.
        body: HTML of the page's frame.
        data: Plain values without NaN; the scripts find them as `DATA`.
        scripts: Names of assets, run in this order after the shared ones.
    """
    embedded = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
    code = "\n".join(asset(name) for name in (*SHARED_SCRIPTS, *scripts))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>\n{asset('page.css')}\n</style></head>\n<body>\n{body}\n"
        f'<script>\n"use strict";\nconst DATA = {embedded};\n{code}\n</script>\n</body></html>\n'
    )
