"""Code that runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Generator
from typing import TYPE_CHECKING, Any, Protocol, cast

from ._types import CodeWarning, Outcome, Output, Usage

if TYPE_CHECKING:
    from . import _native
    from ._dispatcher import Dispatcher
    from ._events import Event
    from ._host import Host


class _HasEvents(Protocol):
    def events(self, mailbox: _native.Mailbox) -> _native.Operation: ...


def outcome_of(texts: tuple[str, str]) -> Outcome:
    """Makes the outcome of its value and the rest, as JSON."""
    value, fields = texts[0], json.loads(texts[1])
    return Outcome(
        json.loads(value),
        [Output(**one) for one in fields["output"]],
        [CodeWarning(**one) for one in fields["warnings"]],
        Usage(**fields["usage"]),
    )


async def events_of(native: _HasEvents, dispatcher: Dispatcher) -> AsyncIterator[Event]:
    """Yields events up to the last one."""
    while events := json.loads(await dispatcher.wait(native.events)):
        for event in events:
            # The type first, for people who print it.
            yield cast("Event", {"type": event.pop("type"), **event})


class Execution:
    """Code that runs: `await` it for its outcome, and iterate over it for its events.

    Cancelling the task that awaits it cancels the code, and so does dropping the last reference to it.
    """

    def __init__(self, native: _native.Execution, dispatcher: Dispatcher, host: Host) -> None:
        self._native = native
        self._dispatcher = dispatcher
        # A host that nobody has any more ends what runs.
        self._host = host

    async def outcome(self) -> Outcome:
        """Waits for the outcome.

        Raises:
            ScriptError: The code failed, hit a limit, or was stopped.
            RelayConnectionError: No relay could be reached.
        """
        try:
            return outcome_of(await self._dispatcher.wait(self._native.outcome))
        except asyncio.CancelledError:
            self.cancel()
            raise

    def __await__(self) -> Generator[Any, None, Outcome]:
        return self.outcome().__await__()

    def __aiter__(self) -> AsyncIterator[Event]:
        """Iterates over the events from the start, up to the one of type `ended`."""
        return events_of(self._native, self._dispatcher)

    def cancel(self) -> None:
        """Cancels the code: awaiting it raises a `ScriptError` with `CANCELLED`. Its tools are cancelled, too."""
        self._native.cancel()
