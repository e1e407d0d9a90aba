"""Programs that a model writes for a request."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from ._execution import outcome_of
from ._types import Outcome, Phase

if TYPE_CHECKING:
    from . import _native
    from ._dispatcher import Dispatcher
    from ._host import Host


class Message(TypedDict):
    """A message of a conversation: `role` is `user` or `assistant`."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A conversation that a model is to continue."""

    system: str
    messages: list[Message]
    reply_bytes: int
    """The most bytes that the reply may have."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The reply of a model."""

    text: str
    is_cut: bool = False
    """`True`: the reply ended at the limit of tokens."""
    input_tokens: int | None = None
    output_tokens: int | None = None


Model = Callable[[ModelRequest], Awaitable["ModelReply | str"]]
"""An async function that asks a model. It may raise a `ModelError`."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request."""

    outcome: Outcome
    code: str
    """The program."""
    attempts: list[dict[str, Any]]
    """All attempts, the last of which gave the result."""
    messages: list[Message]
    """The messages that this request adds to the conversation."""


class Programmatic:
    """Answers requests with programs that a model writes; made by `Host.programmatic`."""

    def __init__(self, native: _native.Programmatic, dispatcher: Dispatcher, host: Host) -> None:
        self._native = native
        self._dispatcher = dispatcher
        # A host that nobody has any more ends what runs.
        self._host = host

    @property
    def teaching(self) -> str:
        """The part of the system prompt that says what a program is and which tools there are."""
        return self._native.teaching()

    async def run(
        self,
        prompt: str,
        *,
        system: str | None = None,
        history: Sequence[Message] = (),
        phase: Phase | None = None,
    ) -> Answer:
        """Lets the model write a program, runs it, and repairs it once if it fails.

        Raises:
            ScriptError: No program of the model succeeded.
            ModelError: The model gave no program.
            ConfigurationError: An option cannot be used.
        """
        options = {"prompt": prompt, "system": system, "history": list(history), "phase": phase}
        text = json.dumps(options)
        texts = await self._dispatcher.wait(lambda mailbox: self._native.run(mailbox, text))
        fields = json.loads(texts[1])
        return Answer(outcome_of(texts), fields["code"], fields["attempts"], fields["messages"])
