"""`execute_code` and the tools beside it, for any agent loop."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ._dispatcher import Dispatcher, raised

if TYPE_CHECKING:
    from . import _native
    from ._host import Host

Style = Literal["plain", "openai_chat", "openai_responses", "anthropic", "mcp"]
"""The shape of definitions: `plain` has `name`, `description` and `parameters`."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """Binary data of a value, such as an image."""

    mime: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a call, for the model."""

    text: str
    """The value of the code, shortened if it is long; or the error, with advice."""
    notes: str | None
    """Output and warnings; `None`: there are none."""
    attachments: list[Attachment]
    """Images and other binary data of the value."""
    handle: str | None
    """The handle for `read_output`; `None`: the text is the whole value."""
    structured: dict[str, Any] | None
    """The report as JSON; `None`: no code was run."""
    is_error: bool
    """`True`: the call failed."""

    def __str__(self) -> str:
        return self.text if self.notes is None else f"{self.text}\n\n{self.notes}"


class Conversation:
    """One conversation of a model: it has a session and approvals of its own, and keeps results that were too long to
    show."""

    def __init__(self, native: _native.Conversation, dispatcher: Dispatcher, host: Host) -> None:
        self._native = native
        self._dispatcher = dispatcher
        # A host that nobody has any more ends what runs.
        self._host = host

    def definitions(self, style: Style = "plain") -> list[dict[str, Any]]:
        """Returns the definitions of `execute_code`, `search_tools`, `describe_tools` and `read_output`.

        They list the tools that there are now: ask again for each turn.

        Raises:
            ConfigurationError: There is no such style.
        """
        definitions: list[dict[str, Any]] = json.loads(raised(lambda: self._native.definitions(style)))
        return definitions

    async def call(self, name: str, arguments: Mapping[str, Any] | str) -> Report:
        """Calls one of the four tools with the arguments of the model, an object or its JSON.

        What goes wrong with the call is in the report, for the model to read.

        Raises:
            ConfigurationError: The arguments cannot be written as JSON.
            ClosedError: The host is closed, or belongs to another event loop.
        """
        text = json.dumps(arguments if isinstance(arguments, str) else dict(arguments))
        fields = json.loads(await self._dispatcher.wait(lambda mailbox: self._native.call(mailbox, name, text)))
        attachments = [Attachment(one["mime"], base64.b64decode(one["base64"])) for one in fields.pop("attachments")]
        return Report(attachments=attachments, **fields)
