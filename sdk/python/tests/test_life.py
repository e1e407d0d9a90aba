"""Cancellation, busy interpreters, forks, and interpreters that end with runs open."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time

import pytest
from conftest import TOOLS, run
from sandbox_relay import ClosedError, Execution, Host, ScriptError, UnsupportedError, tool

CALLS = 'return await mcp.call("slow.wait", {}) + 1'


class Slow:
    """A tool that waits until it is cancelled, and counts both."""

    def __init__(self) -> None:
        self.begun = 0
        self.cancelled = 0
        self.waits = asyncio.Event()
        self.ended = asyncio.Event()

        @tool("slow.wait", effect="read_only")
        async def wait() -> int:
            self.begun += 1
            self.waits.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                self.ended.set()
                raise
            return 1

        self.tool = wait


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def memory_kib() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def test_cancelling_the_task_cancels_tool_and_code() -> None:
    async def test() -> None:
        slow = Slow()
        async with Host([slow.tool]) as host:
            awaiting = asyncio.create_task(host.execute(CALLS).outcome())
            await slow.waits.wait()
            awaiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await awaiting
            await slow.ended.wait()
            assert (slow.begun, slow.cancelled) == (1, 1)

            execution = host.execute(CALLS)
            slow.waits.clear()
            await slow.waits.wait()
            execution.cancel()
            with pytest.raises(ScriptError) as raised:
                await execution
            assert raised.value.code == "CANCELLED" and raised.value.calls[0]["tool"] == "slow.wait"

            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(host.execute(CALLS), 0.3)

    run(test)


def test_a_thousand_cancelled_runs_leave_nothing() -> None:
    async def test() -> None:
        slow = Slow()
        async with Host([slow.tool]) as host:

            async def rounds(count: int) -> None:
                """Cancels runs while their tools wait, eight at a time, as many as a session runs."""
                for _ in range(count // 8):
                    awaiting = [asyncio.create_task(host.execute(CALLS).outcome()) for _ in range(8)]
                    most = slow.begun + 8
                    while slow.begun < most:
                        slow.waits.clear()
                        await slow.waits.wait()
                    for task in awaiting:
                        task.cancel()
                    await asyncio.gather(*awaiting, return_exceptions=True)
                    while slow.cancelled < most:
                        slow.ended.clear()
                        await slow.ended.wait()

            await rounds(96)
            gc.collect()
            before, tasks = (descriptors(), memory_kib()), len(asyncio.all_tasks())
            await rounds(1_000)
            gc.collect()
            after = (descriptors(), memory_kib())
            assert slow.begun == slow.cancelled == 1_096
            assert after[0] <= before[0] + 2, (before, after)
            assert after[1] <= before[1] + 8_192, (before, after)
            assert len(asyncio.all_tasks()) == tasks
            assert (await host.execute("return 1 + 1")).value == 2

    # Each round is a run in a process of its own.
    asyncio.run(asyncio.wait_for(test(), 80))


def test_closing_ends_what_runs() -> None:
    async def test() -> None:
        slow = Slow()
        host = await Host([slow.tool]).start()
        awaiting = asyncio.create_task(host.execute(CALLS).outcome())
        await slow.waits.wait()
        began = time.monotonic()
        await host.close()
        assert time.monotonic() - began < 5
        with pytest.raises((ScriptError, ClosedError)):
            await awaiting
        with pytest.raises(ClosedError):
            await host.start()
        await host.close()

    run(test)


def test_a_busy_interpreter_stops_nobody_else() -> None:
    async def test() -> None:
        async with Host(TOOLS) as host:
            assert (await host.execute("return 1 + 1")).value == 2
            busy = host.execute("let n = 0; while (n < 3e6) n++; return n")
            # The interpreter computes and the event loop is blocked: the code goes on at the relay.
            until = time.monotonic() + 1.5
            while time.monotonic() < until:
                sum(range(1_000))
            began = time.monotonic()
            assert (await busy).value == 3_000_000
            assert time.monotonic() - began < 1

            done = threading.Event()

            def other() -> None:
                async def own() -> None:
                    async with Host(TOOLS) as second:
                        assert (
                            await second.execute('return (await mcp.call("weather.now", {city: "x"})).city + 1')
                        ).value == "x1"

                asyncio.run(own())
                done.set()

            thread = threading.Thread(target=other)
            thread.start()
            # This loop is blocked until the other one, in its thread, is through.
            assert done.wait(30)
            thread.join()

    run(test)


def program(text: str, seconds: float = 30) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=seconds, check=False)


BEGIN = """
import asyncio, os, sys
from sandbox_relay import Host, tool, UnsupportedError

@tool("slow.wait", effect="read_only")
async def wait() -> int:
    print("waits", flush=True)
    await asyncio.Event().wait()
    return 1
"""


def test_a_fork_is_refused_with_a_sentence() -> None:
    ended = program(
        BEGIN
        + """
async def main():
    async with Host([wait]) as host:
        await host.execute("return 1 + 1")
        child = os.fork()
        if child == 0:
            try:
                host.execute("return 1 + 1")
            except UnsupportedError as error:
                print(error, flush=True)
                sys.exit(7)
            os._exit(1)
        _, status = os.waitpid(child, 0)
        print("child", os.waitstatus_to_exitcode(status))
        print((await host.execute("return 40 + 2")).value)
asyncio.run(main())
"""
    )
    assert "forked" in ended.stdout and '"spawn"' in ended.stdout, ended
    assert "child 7" in ended.stdout and ended.stdout.endswith("42\n"), ended


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("sys.exit(3)", 3),
        ("raise SystemExit(0)", 0),
        ("os._exit(4)", 4),
        ("return", 0),
        ("raise KeyboardInterrupt", 130),
    ],
)
def test_the_interpreter_ends_with_runs_open(end: str, status: int) -> None:
    ended = program(
        BEGIN
        + f"""
host = Host([wait])
async def main():
    await host.start()
    task = asyncio.create_task(host.execute('return await mcp.call("slow.wait", {{}}) + 1').outcome())
    await asyncio.sleep(0)
    run = host.execute("return 1 + 1")
    assert (await run).value == 2
    {end}
asyncio.run(main())
"""
    )
    assert ended.returncode in (status, -2 if status == 130 else status), ended
    assert "panic" not in ended.stderr and "Fatal" not in ended.stderr, ended.stderr


def test_a_program_with_a_thread_loop_ends_with_runs_open() -> None:
    ended = program(
        BEGIN
        + """
host = Host([wait]).__enter__()
print(host.run_sync("return 6 * 7").value)
import threading
threading.Thread(target=lambda: host.run_sync('return await mcp.call("slow.wait", {}) + 1'), daemon=True).start()
"""
    )
    assert ended.returncode == 0 and "42" in ended.stdout, ended
    assert "Fatal" not in ended.stderr, ended.stderr


def test_an_event_loop_that_cannot_watch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        def refuse(*_: object) -> None:
            raise NotImplementedError

        monkeypatch.setattr(asyncio.get_running_loop(), "add_reader", refuse)
        with pytest.raises(UnsupportedError, match="SelectorEventLoop"):
            await Host(TOOLS).start()

    run(test)


def test_approvers_of_executions_are_forgotten_with_them() -> None:
    async def test() -> None:
        async with Host(TOOLS) as host:
            for _ in range(20):
                await host.execute("return 1 + 1", approve=lambda question: True)
            gc.collect()
            assert host._dispatcher is not None
            assert len(host._dispatcher._functions) == len(TOOLS)

    run(test)


def test_a_host_belongs_to_its_loop() -> None:
    host = Host(TOOLS)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(host.start())

    async def elsewhere() -> None:
        with pytest.raises(ClosedError, match="another event loop"):
            await host.execute("return 1 + 1")

    asyncio.run(elsewhere())
    with pytest.raises(ClosedError, match="was started in an event loop"):
        host.run_sync("return 1")
    loop.run_until_complete(host.close())
    loop.close()


def test_a_host_is_kept_while_something_of_it_runs() -> None:
    async def test() -> None:
        async def begin() -> Execution:
            host = await Host(TOOLS).start()
            return host.execute("return 40 + 2")

        execution = await begin()
        gc.collect()
        assert (await execution).value == 42
        await execution._host.close()

    run(test)


def test_a_host_that_is_forgotten_is_named() -> None:
    async def test() -> None:
        host = await Host(TOOLS).start()
        with pytest.warns(ResourceWarning, match="async with"):
            del host
            gc.collect()
        await asyncio.sleep(0)

    run(test)
