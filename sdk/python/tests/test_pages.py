"""The notebook of `examples` runs, and the API page has every public name with its description."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import sandbox_relay

NOTEBOOK = Path(__file__).parents[1] / "examples/timeline.ipynb"
PACKAGE = str(Path(__file__).parents[1] / "python")


def test_the_notebook_shows_a_timeline(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("PYTHONPATH", PACKAGE)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))
    # The kernel of this interpreter, whatever kernels are installed for the user.
    monkeypatch.setenv("JUPYTER_PATH", str(Path(sys.prefix) / "share/jupyter"))
    notebook: Any = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    printed = "".join(output["text"] for output in outputs if output["output_type"] == "stream")
    assert "Ada: You owe 114" in printed
    assert "5 calls" in printed
    pictures = [output["data"] for output in outputs if output["output_type"] == "display_data"]
    assert len(pictures) == 1
    assert len(pictures[0]["image/png"]) > 5_000
    saved = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    assert not [cell for cell in saved.cells if cell.get("outputs")], "the notebook is kept without outputs"


def test_the_api_page_describes_every_public_name(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": PACKAGE}
    made = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pdoc", "sandbox_relay", "--output-directory", str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    page = (tmp_path / "sandbox_relay.html").read_text()
    for name in sandbox_relay.__all__:
        if name == "__version__":
            continue
        assert f'id="{name}"' in page, f"{name} is not on the page"
        it = getattr(sandbox_relay, name)
        if inspect.isclass(it) or inspect.isfunction(it):
            assert inspect.getdoc(it), f"{name} has no description"
