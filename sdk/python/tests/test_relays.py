"""Relays elsewhere: with tokens from a function, and such as lie, hang up, or are none."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import websockets
from conftest import TOOLS, run
from sandbox_relay import AuthenticationError, ConfigurationError, Host, RelayConnectionError, RelayError

RELAY = os.environ.get("SANDBOX_RELAY_BIN", "sandbox-relay")
SECRET = {**os.environ, "RELAY_JWT_SECRET": "a secret for tests, of at least 32 bytes"}


@contextmanager
def relay() -> Iterator[str]:
    """Starts a relay as one elsewhere, and yields its address."""
    command = [RELAY, "serve", "--listen", "127.0.0.1:0", "--exit-with-stdin"]
    with subprocess.Popen(command, env=SECRET, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip().removeprefix("listening on ")
            yield f"ws://{address}/ws"
        finally:
            process.kill()


def token() -> str:
    """Makes a token, as a login service would."""
    made = subprocess.run([RELAY, "token", "--subject", "me"], env=SECRET, capture_output=True, text=True, check=True)
    return made.stdout.strip()


def test_tokens_come_from_functions_of_both_kinds() -> None:
    async def test() -> None:
        async def later() -> str:
            return await asyncio.to_thread(token)

        with relay() as url:
            for source in (token, later, token()):
                async with Host(TOOLS, url=url, token=source) as host:
                    assert (await host.execute("return 6 * 7 + 0")).value == 42

            def refuses() -> str:
                raise RuntimeError("nobody is logged in")

            async with Host(TOOLS, url=url, token=refuses) as host:
                with pytest.raises(AuthenticationError, match="nobody is logged in"):
                    await host.execute("return 1 + 1")
            async with Host(TOOLS, url=url, token="wrong") as host:
                with pytest.raises(AuthenticationError) as raised:
                    await host.execute("return 1 + 1")
                assert raised.value.code == "UNAUTHENTICATED"
        with pytest.raises(ConfigurationError, match=r"relay\.url"):
            await Host(TOOLS, token="t").start()

    run(test)


def test_what_is_no_relay_or_lies_is_an_error_within_a_bound() -> None:
    async def test() -> None:
        async def hangs_up(socket: websockets.ServerConnection) -> None:
            await socket.recv()

        async def lies(socket: websockets.ServerConnection) -> None:
            await socket.recv()
            await socket.send(b"\xff\xfe\xfd nonsense")
            await socket.wait_closed()

        async def is_silent(socket: websockets.ServerConnection) -> None:
            await socket.wait_closed()

        for behaviour in (hangs_up, lies, is_silent):
            async with websockets.serve(behaviour, "127.0.0.1", 0) as server:
                port = server.sockets[0].getsockname()[1]
                settings = {"connect_timeout_ms": 2_000, "resume_window_ms": 0}
                async with Host(TOOLS, url=f"ws://127.0.0.1:{port}/ws", token="t", relay=settings) as host:
                    with pytest.raises(RelayError) as raised:
                        await asyncio.wait_for(host.execute("return 1 + 1").outcome(), 20)
                    assert isinstance(raised.value, RelayConnectionError), raised.value
        async with Host(TOOLS, url="ws://relay.example/ws", token="t") as host:
            with pytest.raises(ConfigurationError, match="wss://"):
                await host.execute("return 1 + 1")

    run(test)
