"""What the adapters share."""

from __future__ import annotations

from typing import NoReturn


def missing(framework: str, package: str, error: ImportError) -> NoReturn:
    """Says what to install."""
    raise ImportError(f"{framework} is not installed: `pip install {package}` gets it ({error})") from error
