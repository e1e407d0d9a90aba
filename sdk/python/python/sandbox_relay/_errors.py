"""The exceptions of this package."""

from __future__ import annotations

import json
from typing import Any

from ._types import CodeWarning, Output, Usage


class RelayError(Exception):
    """Any error of this package. Its text says what happened, and what to do where that is known."""

    code: str
    """The error code, such as `TIMEOUT` or `UNREACHABLE`."""
    message: str
    """The message alone, without code, place and hint."""
    retryable: bool
    """`True`: the same request may be made again, because no tool was called for it."""
    retry_after: float | None
    """The seconds after which the relay wants to be asked again; `None`: it did not say."""

    def __init__(self, text: str, *, code: str = "", message: str | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.message = text if message is None else message
        self.retryable = False
        self.retry_after = None


class ScriptError(RelayError):
    """The code failed, hit a limit, or was stopped."""

    line: int | None
    """The line of the source, from 1; `None`: it is not known."""
    column: int | None
    """The column of the source, from 1; `None`: it is not known."""
    hint: str | None
    """Advice on how to mend it; `None`: there is none."""
    limit: str | None
    """The limit that was hit; `None`: none was."""
    tool: str | None
    """The tool that an uncaught error came from; `None`: it came from none."""
    tool_code: str | None
    """The code of that error."""
    usage: Usage | None
    """What the code used; `None`: no code was run."""
    warnings: list[CodeWarning]
    """The warnings about the code."""
    output: list[Output]
    """What the code printed before it failed."""
    calls: list[dict[str, Any]]
    """The tool calls that the code had made: `tool`, `effect`, `end` and `count` of each group."""


class RelayConnectionError(RelayError):
    """No relay can be reached, or the connection broke before there was a session."""


class AuthenticationError(RelayError):
    """The relay does not accept the token, or none could be had."""


class ConfigurationError(RelayError, ValueError):
    """An option, a file, a tool or a policy cannot be used."""


class AuditError(RelayError):
    """The audit log cannot be written: what it is about was not run."""


class RunError(RelayError):
    """A durable run was not begun, or does not go on."""


class ModelError(RelayError):
    """A model gave no program; or, raised by your model's function: it could not be asked.

    `code` of one that you raise: `unreachable`, `unauthenticated`, `overloaded` or `refused`.
    """


class ClosedError(RelayError):
    """The host is closed, or not started."""


class UnsupportedError(RelayError):
    """This process cannot use the package, such as because it was forked."""


class InternalError(RelayError):
    """A fault of this package."""


_KINDS: dict[str, type[RelayError]] = {
    "script": ScriptError,
    "connection": RelayConnectionError,
    "authentication": AuthenticationError,
    "configuration": ConfigurationError,
    "audit": AuditError,
    "run": RunError,
    "model": ModelError,
    "closed": ClosedError,
    "unsupported": UnsupportedError,
    "internal": InternalError,
}


def error_of(text: str) -> RelayError:
    """Makes the exception of an error of the native part."""
    fields: dict[str, Any] = json.loads(text)
    if fields["code"] == "LOCAL_RELAY":
        fields["text"] += (
            "\nhint: `pip install sandbox-relay-bin` brings the relay; or name one elsewhere: Host(url=…, token=…)"
        )
    error = _KINDS.get(fields["kind"], RelayError)(fields["text"], code=fields["code"], message=fields["message"])
    error.retryable = fields["retryable"]
    after = fields["retry_after_ms"]
    error.retry_after = None if after is None else after / 1000
    if isinstance(error, ScriptError):
        for name in ("line", "column", "hint", "limit", "tool", "tool_code", "calls"):
            setattr(error, name, fields[name])
        usage = fields["usage"]
        error.usage = None if usage is None else Usage(**usage)
        error.warnings = [CodeWarning(**one) for one in fields["warnings"]]
        error.output = [Output(**one) for one in fields["output"]]
    return error
