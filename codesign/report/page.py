"""Self-contained HTML pages: one file, no network, everything inline."""

import html
import json
from functools import lru_cache
from importlib import resources
from typing import Any

from codesign.core.files import read_text


@lru_cache(maxsize=1)
def plotly_source() -> str:
    """The text of plotly.js as the plotly package ships it."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def asset(name: str) -> str:
    """A text file that ships with this package."""
    with resources.as_file(resources.files("codesign.report") / "assets" / name) as path:
        return read_text(path)


def build_page(title: str, body: str, data: Any, script: str) -> str:
    """A page with plotly.js, the shared style, its data as JSON and a script that draws it.

    Args:
        title: Of the page.
        body: HTML of the page's frame.
        data: Plain values; the script finds them as `DATA`.
        script: JavaScript that fills the frame.
    """
    embedded = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>\n{asset('page.css')}\n</style>\n<script>{plotly_source()}</script></head>\n<body>\n{body}\n"
        f"<script>const DATA = {embedded};\n{script}\n</script>\n</body></html>\n"
    )
