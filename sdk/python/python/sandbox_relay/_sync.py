"""An event loop in a thread, for programs without one."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from ._errors import ClosedError

T = TypeVar("T")


class Background:
    """An event loop in a thread of its own, until it is closed. The thread does not keep the interpreter from
    ending."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._keep, name="sandbox-relay loop", daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._ended.set_result(None)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end. Ctrl-C cancels it.

        Raises:
            ClosedError: This is the thread of the loop, which would wait for itself; or that thread has ended.
        """
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise ClosedError(
                "run_sync would wait for its own event loop: use `await host.execute(code)` in async functions",
                code="OWN_LOOP",
            )
        if self._ended.done():
            coroutine.close()
            raise self._gone()
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            either: list[concurrent.futures.Future[Any]] = [future, self._ended]
            concurrent.futures.wait(either, return_when=concurrent.futures.FIRST_COMPLETED)
            if not future.done():
                raise self._gone()
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Ends the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _gone(self) -> ClosedError:
        return ClosedError("the event loop of the host has ended: make another host", code="CLOSED")
