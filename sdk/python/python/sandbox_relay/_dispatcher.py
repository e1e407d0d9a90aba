"""The link between one event loop and the native part.

The native part never calls Python. It puts messages into a mailbox and makes a socket readable; the loop then takes
them out,
on its own thread.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from . import _native
from ._errors import ClosedError, UnsupportedError, error_of

log = logging.getLogger("sandbox_relay")
T = TypeVar("T")

Function = Callable[[str, "_native.Context | None"], Awaitable[str]]
"""A function that the host calls: it gets JSON, and the context if it is a tool, and gives JSON."""


class Failure(Exception):  # noqa: N818 - an outcome, not a fault of this package
    """The failure of a function, as the host gets it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def raised(call: Callable[[], T]) -> T:
    """Makes an exception of this package of an error of the native part."""
    try:
        return call()
    except _native.NativeError as error:
        raise error_of(str(error)) from None


class Dispatcher:
    """The link of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.mailbox = _native.Mailbox()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._functions: dict[int, Function] = {}
        self._registered = 0
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._is_open = True
        self._process = os.getpid()
        try:
            loop.add_reader(self.mailbox.fileno(), self._read)
        except NotImplementedError:
            raise UnsupportedError(
                "this event loop cannot watch a socket: use asyncio.SelectorEventLoop or uvloop", code="EVENT_LOOP"
            ) from None

    def register(self, function: Function) -> int:
        """Gives a function a number, by which the host calls it."""
        self._registered += 1
        self._functions[self._registered] = function
        return self._registered

    def unregister(self, number: int, owner: object) -> None:
        """Forgets a function when its owner is gone: nobody can call it any more."""
        weakref.finalize(owner, self._functions.pop, number, None).atexit = False

    def check(self) -> None:
        """Refuses the use of a host that is closed, or that belongs to another loop than the one that runs."""
        if self.is_forked:
            return  # The native part says so.
        if not self._is_open:
            raise ClosedError("the host is closed: start another one", code="CLOSED")
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return  # Nothing can be awaited here; whoever awaits it is asked again.
        if running is not self.loop:
            raise ClosedError(
                "the host belongs to another event loop: use it where it was started, or start one in this loop",
                code="OTHER_LOOP",
            )

    async def wait(self, begin: Callable[[_native.Mailbox], _native.Operation]) -> Any:
        """Begins an operation and waits for it. When this is cancelled, so is the operation."""
        self.check()
        operation = raised(lambda: begin(self.mailbox))
        future = self.loop.create_future()
        self._waiting[operation.id] = future
        try:
            return await future
        finally:
            self._waiting.pop(operation.id, None)
            operation.cancel()

    @property
    def is_forked(self) -> bool:
        """Whether this process is a fork of the one that the link belongs to, whose loop and sockets it shares."""
        return os.getpid() != self._process

    def close(self) -> None:
        """Ends the link: whatever waits fails, and functions that run are cancelled."""
        if not self._is_open or self.is_forked:
            return
        self._is_open = False
        if not self.loop.is_closed():
            self.loop.remove_reader(self.mailbox.fileno())
        self.mailbox.close()
        for task in list(self._calls.values()):
            task.cancel()
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(ClosedError("the host was closed meanwhile", code="CLOSED"))

    def _read(self) -> None:
        for message in self.mailbox.drain():
            kind, number = message[0], message[1]
            if kind == "call":
                self._calls[number] = task = self.loop.create_task(self._call(*message[1:]))
                task.add_done_callback(functools.partial(self._done, number))
            elif kind == "stop":
                running = self._calls.get(number)
                if running is not None:
                    running.cancel()
            else:
                future = self._waiting.get(number)
                if future is None or future.done():
                    continue
                if kind == "done":
                    future.set_result(message[2])
                else:
                    future.set_exception(error_of(message[2]))

    def _done(self, number: int, task: asyncio.Task[None]) -> None:
        self._calls.pop(number, None)
        if not task.cancelled():
            task.exception()  # Ctrl-C has ended the loop already; asyncio need not report it once more.

    async def _call(self, number: int, function: int, payload: str, context: _native.Context | None) -> None:
        try:
            answer = await self._functions[function](payload, context)
        except Failure as failure:
            self.mailbox.fail(number, failure.code, failure.message)
        except asyncio.CancelledError:
            self.mailbox.fail(number, "TOOL_FAILED", "the function was cancelled")
            raise
        except BaseException as error:
            # An exit, such as that of argparse, ends the call alone: code must not end the application.
            log.debug("a function failed", exc_info=True)
            text = str(error)
            name = type(error).__name__
            self.mailbox.fail(number, "TOOL_FAILED", f"{name}: {text}" if text else name)
            # In the main thread, it is Ctrl-C: a person ends the application.
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
        else:
            self.mailbox.answer(number, answer)
