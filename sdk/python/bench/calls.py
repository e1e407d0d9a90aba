"""Measures tool calls by a function of Python, many at once, and the import.

`python bench/calls.py`, beside `cargo run --release --package relay-sdk --example calls` for the same in Rust. The
relay is the one that `SANDBOX_RELAY_BIN` names.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time

from sandbox_relay import Host, tool

CALLS = 1_000
"""Sequential calls of one program: as many as the limit of a relay allows unless it is raised."""
ROUNDS = 9


@tool("math.add", effect="read_only")
async def add(a: int, b: int) -> int:
    return a + b


async def median(host: Host, code: str) -> float:
    """Runs a program some times, and returns the median of the times, in seconds."""
    times: list[float] = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await host.execute(code)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def imported(module: str) -> float:
    """Returns the time of importing a module beside that of the interpreter, in seconds."""

    def run(code: str) -> float:
        times: list[float] = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(time.perf_counter() - began)
        return statistics.median(times)

    return run(f"import {module}") - run("pass")


async def main() -> None:
    async with Host([add]) as host:
        empty = await median(host, "return 1")
        code = f"let n = 0; for (let i = 0; i < {CALLS}; i++) n += await mcp.call('math.add', {{a: i, b: 1}}); return n"
        calls = (await median(host, code) - empty) / CALLS
        code = (
            "const all = Array.from({length: 1000}, (_, i) => mcp.call('math.add', {a: i, b: 1})); "
            "return (await Promise.all(all)).length"
        )
        parallel = await median(host, code)
    print(f"an execution without calls: {empty * 1e3:.2f} ms")
    print(f"one of {CALLS} calls, one after the other: {calls * 1e6:.1f} µs")
    print(f"1,000 calls at once: {parallel * 1e3:.1f} ms")
    package, loop = imported("sandbox_relay") * 1e3, imported("asyncio") * 1e3
    print(f"import sandbox_relay: {package:.0f} ms, of which asyncio {loop:.0f} ms")


if __name__ == "__main__":
    asyncio.run(main())
