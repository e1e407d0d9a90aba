"""The wheel of the programs, installed into an empty environment, where the package finds its relay."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
PROGRAM = """
from sandbox_relay import Host
from sandbox_relay._find import relay_program

found = relay_program()
assert found is not None and found.startswith({prefix!r}), found
with Host() as host:
    print(host.run_sync("return 6 * 7").value)
"""


def run(*command: str | Path, **environment: str) -> str:
    """Runs a program in a clean environment, and returns what it prints."""
    kept = {
        name: os.environ[name] for name in os.environ if name != "SANDBOX_RELAY_BIN" and not name.startswith("PYTHON")
    }
    ended = subprocess.run(
        command, env={**kept, **environment}, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_programs_are_installed_and_the_package_starts_the_relay(tmp_path: Path) -> None:
    relay = shutil.which(os.environ.get("SANDBOX_RELAY_BIN", "sandbox-relay"))
    assert relay is not None, "SANDBOX_RELAY_BIN names the relay"
    stripped = tmp_path / "sandbox-relay"
    # Without what serves finding faults, it is written and read in a second.
    run("strip", "-o", stripped, relay)
    wheel = run(sys.executable, PACKAGE / "programs/wheel.py", stripped, "--out", tmp_path / "wheels").strip()
    place = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", place)
    run(sys.executable, "-m", "pip", "--python", place / "bin/python", "install", "--quiet", "--no-deps", wheel)
    assert run(place / "bin/sandbox-relay", "--version").startswith("sandbox-relay ")
    # The package and what it needs come from the tests' own environment.
    path = os.pathsep.join([str(PACKAGE / "python"), *(entry for entry in sys.path if entry.endswith("site-packages"))])
    printed = run(place / "bin/python", "-c", PROGRAM.format(prefix=str(place)), PYTHONPATH=path)
    assert printed == "42\n"
