"""Finds the program of the relay."""

from __future__ import annotations

import os
import sysconfig


def relay_program() -> str | None:
    """Returns the relay of the package `sandbox-relay-bin`; `None`: it is not installed, or another one is named in
    `SANDBOX_RELAY_BIN`. The native part then looks at that variable and the `PATH`."""
    if os.environ.get("SANDBOX_RELAY_BIN"):
        return None
    for scheme in (None, "user"):
        if scheme is None:
            folder = sysconfig.get_path("scripts")
        else:
            folder = sysconfig.get_path("scripts", sysconfig.get_preferred_scheme(scheme))
        program = os.path.join(folder, "sandbox-relay")
        if os.path.isfile(program):
            return program
    return None
