"""Durable runs: code that outlives this process and its relay."""

from __future__ import annotations

import builtins
import json
from collections.abc import AsyncIterator, Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import Unpack

from ._errors import RelayError, error_of
from ._execution import events_of, outcome_of
from ._types import Limits, Outcome

if TYPE_CHECKING:
    from . import _native
    from ._dispatcher import Dispatcher
    from ._events import Event
    from ._host import Host


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run of the journal."""

    id: str
    created_ms: int
    """The time at which it began, in ms since 1970."""
    changed_ms: int
    """The time of its last entry, in ms since 1970."""
    status: Literal["running", "waiting", "ended"]


@dataclass(frozen=True, slots=True)
class Recovered:
    """The runs that a process takes over."""

    runs: list[DurableRun]
    """The runs that go on here."""
    held: list[str]
    """The ids of the runs that another process holds."""
    failed: dict[str, RelayError]
    """The runs that cannot go on, with the errors, by their ids."""


class DurableRun:
    """A durable run that this process goes on with. Dropping this, or cancelling who awaits it, ends nothing."""

    def __init__(self, native: _native.Run, dispatcher: Dispatcher, host: Host) -> None:
        self._native = native
        self._dispatcher = dispatcher
        # A host that nobody has any more ends what runs.
        self._host = host

    @property
    def id(self) -> str:
        """The id, which names the run in the journal."""
        return self._native.id()

    @property
    def state(self) -> dict[str, Any]:
        """The state: `{"state": …}` with `running`, `waiting_for_approval` (with `calls`), `waiting_for_timer` or
        `ended`."""
        state: dict[str, Any] = json.loads(self._native.state())
        return state

    async def settled(self) -> dict[str, Any]:
        """Waits until the run has ended, or waits for people or a timer, and returns its state."""
        state: dict[str, Any] = json.loads(await self._dispatcher.wait(self._native.settled))
        return state

    async def outcome(self) -> Outcome:
        """Waits for the outcome.

        Raises:
            ScriptError: The code failed; the run has ended.
            RunError: The run is left in the journal, and can go on later.
        """
        return outcome_of(await self._dispatcher.wait(self._native.outcome))

    def __await__(self) -> Generator[Any, None, Outcome]:
        return self.outcome().__await__()

    def __aiter__(self) -> AsyncIterator[Event]:
        """Iterates over the events since this handle was made."""
        return events_of(self._native, self._dispatcher)

    def cancel(self) -> None:
        """Cancels the run: it ends with `CANCELLED`, in the journal as well."""
        self._native.cancel()


class DurableRuns:
    """The durable runs of a host that was started with a journal; `Host.runs`."""

    def __init__(self, native: _native.Runs, dispatcher: Dispatcher, host: Host) -> None:
        self._native = native
        self._dispatcher = dispatcher
        self._host = host

    async def _wait(self, begin: Callable[[_native.Mailbox], _native.Operation]) -> Any:
        return await self._dispatcher.wait(begin)

    async def start(self, code: str, **limits: Unpack[Limits]) -> DurableRun:
        """Begins a run. It is in the journal when this returns.

        Raises:
            RunError: It cannot be durable, or the journal does not take it.
            ConfigurationError: A limit cannot be used.
        """
        options = json.dumps({"code": code, "limits": limits})
        return DurableRun(
            await self._wait(lambda mailbox: self._native.start(mailbox, options)), self._dispatcher, self._host
        )

    async def recover(self) -> Recovered:
        """Goes on with the runs that no process goes on with, such as those of this program before it was stopped."""
        runs, text = await self._wait(self._native.recover)
        others = json.loads(text)
        failed = {id: error_of(json.dumps(error)) for id, error in others["failed"]}
        return Recovered([DurableRun(run, self._dispatcher, self._host) for run in runs], others["held"], failed)

    async def resume(self, id: str) -> DurableRun:
        """Goes on with one run.

        Raises:
            RunError: Another process holds it, it has ended, or there is none.
        """
        return DurableRun(
            await self._wait(lambda mailbox: self._native.resume(mailbox, id)), self._dispatcher, self._host
        )

    async def list(self, *, unfinished: bool = True, most: int = 100) -> builtins.list[RunSummary]:
        """Lists runs of the journal in the order in which they began."""
        runs = json.loads(await self._wait(lambda mailbox: self._native.list(mailbox, unfinished, most)))
        return [RunSummary(**run) for run in runs]

    async def show(self, id: str) -> dict[str, Any]:
        """Returns a run of the journal: its code, its calls with the questions about them, `waiting`, `result` and
        `error`."""
        run: dict[str, Any] = json.loads(await self._wait(lambda mailbox: self._native.show(mailbox, id)))
        return run

    async def approve(self, id: str, call: int, *, by: str) -> None:
        """Approves a call, with exactly the arguments that `show` has. `by`: the name of who decides, for the audit."""
        await self._wait(lambda mailbox: self._native.decide(mailbox, id, call, True, by))

    async def deny(self, id: str, call: int, *, by: str, reason: str | None = None) -> None:
        """Denies a call. The code reads the reason."""
        await self._wait(lambda mailbox: self._native.decide(mailbox, id, call, False, by, reason))

    async def cancel(self, id: str) -> None:
        """Cancels a run, whoever holds it."""
        await self._wait(lambda mailbox: self._native.cancel(mailbox, id))

    async def forget(self, id: str) -> bool:
        """Removes a run from the journal, unless a process holds it. Returns whether there was one."""
        gone: bool = json.loads(await self._wait(lambda mailbox: self._native.forget(mailbox, id)))
        return gone
