"""The blocks of the README are run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().split("\n")[0])
def test_a_block_of_the_readme_runs(block: str, tmp_path: Path) -> None:
    python = str(Path(__file__).parents[1] / "python")
    environment = {**os.environ, "PYTHONPATH": python}
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
