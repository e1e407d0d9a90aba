"""Functions that raise what ends programs, and hosts that are used where they cannot be."""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import MOST_SECONDS, TOOLS, now, run
from sandbox_relay import (
    ClosedError,
    ConfigurationError,
    Host,
    ModelRequest,
    Question,
    ScriptError,
    Tool,
    tool,
)
from sandbox_relay._sync import Background

PAY = 'return await mcp.call("bank.pay", { to: "Ada", amount: 7 })'


class Panic(BaseException):
    """What PyO3 raises for a panic is no `Exception` either."""


@tool("ends.parse", effect="read_only")
async def parse() -> int:
    argparse.ArgumentParser("x", usage="x").parse_args(["--unknown"])
    return 1


@tool("ends.exit", effect="read_only")
def leave() -> int:
    sys.exit("gone")


@tool("ends.panic", effect="read_only")
async def panic() -> int:
    raise Panic("at the disco")


@tool("ends.interrupt", effect="read_only")
async def interrupt() -> int:
    raise KeyboardInterrupt


ENDS: list[Tool[Any, Any]] = [parse, leave, panic]


@pytest.mark.parametrize(("name", "words"), [("parse", "SystemExit"), ("exit", "gone"), ("panic", "at the disco")])
def test_a_tool_that_exits_fails_its_call_alone(name: str, words: str) -> None:
    code = f'return await mcp.call("ends.{name}", {{}}) + 1'

    async def test() -> None:
        async with Host(ENDS) as host:
            with pytest.raises(ScriptError, match=words) as raised:
                await host.execute(code)
            assert raised.value.tool_code == "TOOL_FAILED"
            assert (await host.execute("return 2")).value == 2

    run(test)
    with Host(ENDS) as host:
        with pytest.raises(ScriptError, match=words):
            within(lambda: host.run_sync(code))
        assert within(lambda: host.run_sync("return 2").value) == 2


def test_approvers_models_and_tokens_that_exit_fail() -> None:
    def approve(question: Question) -> bool:
        sys.exit("nobody there")

    async def model(request: ModelRequest) -> str:
        sys.exit("no model")

    def token() -> str:
        sys.exit("no token")

    async def test() -> None:
        async with Host(TOOLS, approve=approve) as host:
            with pytest.raises(ScriptError, match="nobody there") as raised:
                await host.execute(PAY)
            assert raised.value.tool_code == "APPROVAL_DENIED"
            with pytest.raises(Exception, match="no model"):
                await host.programmatic(model).run("x")
        async with Host(url="ws://127.0.0.1:1/ws", token=token, relay={"connect_timeout_ms": 2000}) as host:
            with pytest.raises(Exception, match="no token"):
                await host.execute("return 1")

    run(test)


def test_ctrl_c_ends_the_application_and_not_a_loop_of_another_thread() -> None:
    code = 'return await mcp.call("ends.interrupt", {}) + 1'

    async def test() -> None:
        async with Host([interrupt]) as host:
            await host.execute(code)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(test())
    with Host([interrupt]) as host, pytest.raises(ScriptError, match="KeyboardInterrupt"):
        within(lambda: host.run_sync(code))


def within(call: Callable[[], Any]) -> Any:
    """Calls a function in a thread, for at most a minute, and returns its result."""
    results: list[Any] = []

    def kept() -> None:
        try:
            results.append(call())
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=kept, daemon=True)
    thread.start()
    thread.join(MOST_SECONDS)
    assert results, "the call hangs"
    if isinstance(results[0], BaseException):
        raise results[0]
    return results[0]


def test_a_loop_that_has_ended_is_named() -> None:
    background = Background()

    async def end() -> None:
        asyncio.get_running_loop().stop()
        await asyncio.Event().wait()

    for _ in range(2):
        with pytest.raises(ClosedError, match="has ended"):
            within(lambda: background.run(end()))
    background._thread.join()
    for task in asyncio.all_tasks(background._loop):
        task.cancel()
    background._loop.run_until_complete(asyncio.sleep(0))
    background.close()


def test_run_sync_without_with_works_again_and_from_several_threads() -> None:
    host = Host(TOOLS)
    assert [host.run_sync(f"return {n}").value for n in range(2)] == [0, 1]
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(host.run_sync("return 2").value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(MOST_SECONDS)
    assert results == [2, 2]
    asyncio.run(host.close())
    with pytest.raises(ClosedError):
        host.run_sync("return 1")


def test_run_sync_in_its_own_loop_is_refused() -> None:
    @tool("nested.run", effect="read_only")
    async def nested() -> int:
        return int(host.run_sync("return 1").value)

    with Host([nested]) as host, pytest.raises(ScriptError, match=r"await host\.execute"):
        within(lambda: host.run_sync('return await mcp.call("nested.run", {}) + 1', wall_ms=10_000))


def test_starting_twice_at_once_starts_once_and_closing_ends_a_start(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import sys\nsys.stdin.read()\n")

    async def test() -> None:
        host = Host(TOOLS)
        await asyncio.gather(host.start(), host.start())
        first = host._native
        assert await host.start() is host and host._native is first
        await host.close()

        servers = {"mcpServers": {"slow": {"command": sys.executable, "args": [str(tmp_path / "slow.py")]}}}
        host = Host(mcp=servers)
        starting = asyncio.create_task(host.start())
        await asyncio.sleep(0)
        assert host._starting is not None
        await asyncio.wait_for(host.close(), 10)
        with pytest.raises(ClosedError, match="closed meanwhile"):
            await starting
        with pytest.raises(ClosedError):
            await host.start()

    run(test)


def test_errors_of_options_are_documented_ones(tmp_path: Path) -> None:
    async def model(request: ModelRequest) -> str:
        return "```js\nreturn 1\n```"

    async def test() -> None:
        async with Host(TOOLS, journal=tmp_path / "runs.db") as host:
            talk = host.execute_code()
            with pytest.raises(ConfigurationError, match="anthropic"):
                talk.definitions("nonsense")  # type: ignore[arg-type]
            with pytest.raises(ConfigurationError):
                await talk.call("execute_code", {"code": float("nan")})
            with pytest.raises(ConfigurationError, match="nonsense"):
                await host.programmatic(model).run("x", phase="nonsense")  # type: ignore[arg-type]
            with pytest.raises(ConfigurationError, match="wall"):
                await host.runs.start("return 1", wall=5)  # type: ignore[call-arg]

    run(test)


def test_another_loop_is_refused_before_anything_happens() -> None:
    called: list[str] = []

    @tool("calls.note", effect="read_only")
    async def note() -> int:
        called.append("note")
        return 1

    host = Host([note, now])
    loop = asyncio.new_event_loop()
    loop.run_until_complete(host.start())

    async def elsewhere() -> None:
        with pytest.raises(ClosedError, match="another event loop"):
            host.execute('return await mcp.call("calls.note", {})')
        for refused in (host.call("calls.note"), host.close(), host.start()):
            with pytest.raises(ClosedError, match="another event loop"):
                await refused

    asyncio.run(elsewhere())
    # The host is still open in its own loop, which has heard of nothing.
    assert loop.run_until_complete(host.call("weather.now", {"city": "Bern"}))["city"] == "Bern"
    assert called == []
    loop.run_until_complete(host.close())
    loop.close()
