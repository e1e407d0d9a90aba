"""Makes the wheel of the package `sandbox-relay-bin`: the programs `sandbox-relay` and `relay-host`, for pip and uvx.

    python sdk/python/programs/wheel.py target/release/sandbox-relay target/release/relay-host --out target/wheels

`--platform` says which machines the programs run on: those of `cargo xtask dist` are static, so that
`manylinux2014_x86_64.musllinux_1_1_x86_64` holds for them. Nothing but Python is needed, and the same programs give
the same wheel.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import zipfile
from pathlib import Path

NAME = "sandbox_relay_bin"
SUMMARY = (
    "The programs sandbox-relay, which runs code of models in a sandbox, and relay-host, which gives it MCP servers"
)
ROOT = Path(__file__).parents[3]


def version() -> str:
    """Returns the version of the workspace."""
    found = re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit("Cargo.toml has no version")
    return found[1]


def wheel(programs: list[Path], platform: str, out: Path) -> Path:
    """Writes the wheel, and returns its path."""
    base, tag = f"{NAME}-{version()}", f"py3-none-{platform}"
    metadata = f"Metadata-Version: 2.4\nName: {NAME.replace('_', '-')}\nVersion: {version()}\nSummary: {SUMMARY}\n"
    metadata += "License-Expression: MIT OR Apache-2.0\nRequires-Python: >=3.10\n"
    tags = "".join(f"Tag: py3-none-{one}\n" for one in platform.split("."))
    info = f"{base}.dist-info"
    files: list[tuple[str, bytes, int]] = [
        (f"{base}.data/scripts/{one.name}", one.read_bytes(), 0o755) for one in programs
    ]
    files += [
        (f"{info}/licenses/{name}", (ROOT / name).read_bytes(), 0o644) for name in ("LICENSE-MIT", "LICENSE-APACHE")
    ]
    files += [
        (f"{info}/METADATA", metadata.encode(), 0o644),
        (f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: wheel.py\nRoot-Is-Purelib: false\n{tags}".encode(), 0o644),
    ]
    records = [f"{name},sha256={hashed(content)},{len(content)}" for name, content, _ in files]
    files.append((f"{info}/RECORD", "\n".join([*records, f"{info}/RECORD,,", ""]).encode(), 0o644))
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{base}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in files:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return path


def hashed(content: bytes) -> str:
    """Returns the hash of a file as records have it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the wheel of the programs.")
    parser.add_argument("programs", nargs="+", type=Path, help="the programs")
    parser.add_argument("--platform", default="linux_x86_64", help="the platform tag of the wheel")
    parser.add_argument("--out", default=Path("target/wheels"), type=Path, help="the folder of the wheel")
    given = parser.parse_args()
    print(wheel(given.programs, given.platform, given.out))


if __name__ == "__main__":
    main()
