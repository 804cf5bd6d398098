"""The notebooks run, and show what they promise."""

import os
from pathlib import Path

import nbformat
import pytest
from conftest import ROOT
from nbclient import NotebookClient

NOTEBOOKS = ROOT / "python" / "notebooks"


@pytest.mark.skipif("TIDEGATE_PROGRAM" not in os.environ, reason="SKIPPED: TIDEGATE_PROGRAM does not name the program")
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("one-capture", ["limited this transfer to 1.50 Mbit/s", "<svg", "queue"]),
        ("dataset", ["POLICING RATES, MBIT/S", "report.html", "policed_clients"]),
        ("sweep", ["image/png", "goodput_bps", "longest_delay_ms"]),
    ],
)
def test_a_notebook_runs(name: str, shown: list[str]) -> None:
    book = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells), "notebooks are kept without results"
    NotebookClient(book, timeout=600, resources={"metadata": {"path": str(NOTEBOOKS)}}).execute()
    results = str([cell.outputs for cell in book.cells if cell.cell_type == "code"])
    for text in shown:
        assert text in results, text


def test_all_notebooks_are_tested() -> None:
    assert {file.stem for file in Path(NOTEBOOKS).glob("*.ipynb")} == {"one-capture", "dataset", "sweep"}
