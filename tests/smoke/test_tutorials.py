"""The tutorials run from the first cell to the last in an empty folder, and are stored with their outputs."""

import ast
import contextlib
import re
import warnings
from pathlib import Path
from typing import Any

import nbformat
import plotly.io
import pytest
from IPython.core.formatters import DisplayFormatter
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


PREFACE = """
import plotly.io
import codesign.study.specification as specification

plotly.io.renderers.default = "json"
specification.DEFAULT_CERTIFY_S = 1.0
"""
"""Run first: figures are built in full but not drawn, which would need a browser; proofs end after a second."""


def test_the_index_names_every_tutorial() -> None:
    index = (FOLDER / "index.md").read_text()
    assert NOTEBOOKS and all(f"]({n.name})" in index for n in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_stored_outputs_are_whole(path: Path) -> None:
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    counts = [c.execution_count for c in cells]
    assert counts == list(range(1, len(cells) + 1))
    assert not [o for c in cells for o in c.outputs if o.output_type == "error"]


WHOLE = ("layer-to-proof",)
"""Tutorials that are short enough to run as they are every time."""


@pytest.mark.parametrize(
    "path",
    [pytest.param(n, marks=() if n.stem in WHOLE else pytest.mark.slow("service")) for n in NOTEBOOKS],
    ids=lambda p: p.stem,
)
def test_tutorial_runs_in_a_kernel(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(PREFACE))
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()


def shown(source: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run a cell, and give what a notebook shows of its last expression, by MIME type."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if last is None:
        return {}
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # type: ignore[attr-defined]
    return {} if value is None else dict(DisplayFormatter().format(value)[0])


@pytest.mark.parametrize("path", [n for n in NOTEBOOKS if n.stem not in WHOLE], ids=lambda p: p.stem)
def test_tutorial_runs_with_few_trials(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plotly.io.renderers, "default", "json")
    if path.stem == "own-accelerator":  # of a small space, proven soon
        monkeypatch.setattr("codesign.study.specification.DEFAULT_CERTIFY_S", 0.3)
    names: dict[str, Any] = {"__name__": "notebook"}
    with contextlib.chdir(tmp_path), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code":
                found = shown(re.sub(r"\btrials=\d+", "trials=3", cell.source), names)
                stored = [o.data for o in cell.outputs if o.output_type == "execute_result"]
                assert all("text/html" in found for data in stored if "text/html" in data), cell.source
    assert len(names["study"].trials) == 3
