"""The tutorials run from the first cell to the last in an empty folder, and are stored with their outputs."""

from pathlib import Path

import nbformat
import pytest
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


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_tutorial_runs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(PREFACE))
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
