"""The notebook of the tour runs from its first cell to its last, and its results show as tables."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

TOUR = Path(__file__).parent.parent / "notebooks" / "tour.ipynb"


def test_the_tour_runs_and_shows_tables(tmp_path: Path) -> None:
    notebook = nbformat.read(TOUR, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs for cell in code), "the notebook is kept without results"
    # `python` in the notebook is the one that runs the tests.
    code[0].source = code[0].source.replace("!python", f"!{sys.executable}")
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, resources=resources).execute()
    shown = [output.data for cell in code for output in cell.outputs if "data" in output]
    tables = [data for data in shown if "<table" in data.get("text/html", "")]
    assert len(tables) >= 7, [list(data) for data in shown]
    assert "Ada Brennan" not in str(shown), "the demo has erased her"
