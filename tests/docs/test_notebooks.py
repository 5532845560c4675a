"""The example notebooks run in a kernel, and show what they promise."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")

ROOT = Path(__file__).resolve().parent.parent.parent
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


@pytest.fixture
def jupyter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the files of Jupyter and IPython out of the home directory."""
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))


def shown(cell: dict[str, Any]) -> str:
    """What a cell shows, as text and HTML."""
    parts = [output.get("data", {}) for output in cell.get("outputs", ())]
    return "\n".join(str(text) for data in parts for text in data.values())


async def run(notebook: Path, folder: Path) -> list[dict[str, Any]]:
    """Run the cells in a kernel; return the code cells with their outputs."""
    found = nbformat.read(notebook, as_version=4)
    client = nbclient.NotebookClient(
        found, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    await client.async_execute()
    return [cell for cell in found.cells if cell["cell_type"] == "code"]


def test_there_are_notebooks_without_outputs() -> None:
    assert NOTEBOOKS
    for notebook in NOTEBOOKS:
        found = nbformat.read(notebook, as_version=4)
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in found.cells), notebook.name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("jupyter")
async def test_the_simulation_notebook(tmp_path: Path) -> None:
    cells = await run(ROOT / "examples" / "notebooks" / "simulate.ipynb", tmp_path)
    texts = [shown(cell) for cell in cells]
    assert "6 nodes, 10 pods" in texts[0]
    assert '<div class="mooring-simulation">' in texts[0]
    assert "web" in texts[1]
    assert "node-5" in texts[2]
    assert "1 Insufficient cpu" in texts[3]
    costs = ast.literal_eval(texts[4])
    assert costs["cheapest"] < costs["default"]
    assert "not admitted to queue research" in texts[5]
    assert "queue resource quota insufficient: insufficient cpu" in texts[6]
