"""The guide's code in a real notebook kernel, and what a notebook shows of a run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
pytest.importorskip("polars")

SVG = "import altair; altair.renderers.enable('svg')\n"  # as the guide says for notebooks without a network
GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "python.md"


@pytest.mark.slow
def test_a_notebook_measures_and_shows_tables_and_plots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    [guide] = re.findall(
        r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    cells = [
        guide,
        "run",
        SVG + "run.plot()",
        "busbw.compare(run, run)",
        "busbw.run('all_reduce', minbyte=1)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    nbclient.NotebookClient(notebook, timeout=100, allow_errors=True).execute()
    printed, table, plot, answer, refused = (cell.outputs for cell in notebook.cells)
    text = "".join(part.text for part in printed)
    assert text.startswith("<Run ")
    assert "busbw_gb_per_s" in text
    assert "(elements)" in table[0].data["text/html"]
    assert table[0].data["text/plain"].startswith("<Run ")
    assert "Bandwidth of all_reduce" in plot[0].data["image/svg+xml"]
    assert "<pre># " in answer[0].data["text/html"]
    assert refused[0].ename == "UsageError"
    assert "--minbytes" in "".join(refused[0].traceback)
