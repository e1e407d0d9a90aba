"""The values that this package gives and takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

Effect = Literal["read_only", "mutating", "privileged"]
"""What a call of a tool does: it reads, it changes something, or it can do anything that a person has to answer for."""

Verdict = Literal["allow", "deny", "ask"]
"""The decision of a rule."""

Phase = Literal["discover", "write"]
"""`discover` offers tools that only read; `write` adds those that the policy names for it."""


class Limits(TypedDict, total=False):
    """Limits that are to be lower, in the units of their names. What is left out stays as the relay has it."""

    wall_ms: int
    cpu_ms: int
    heap_bytes: int
    memory_bytes: int
    source_bytes: int
    tool_calls: int
    tool_calls_in_flight: int
    tool_call_ms: int
    approval_ms: int
    arguments_bytes: int
    tool_result_bytes: int
    result_bytes: int
    output_bytes: int
    output_count: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What an execution used."""

    queue_ms: float
    """The time that it waited for a worker."""
    wall_ms: float
    """The time from the hand-over to the worker until the end, without waiting for approvals."""
    approval_ms: float
    """The time that it waited for approvals."""
    cpu_ms: float
    """The CPU time of the worker."""
    tool_calls: int
    """The number of tool calls."""
    output_bytes: int
    """The length of the output."""
    memory_bytes: int
    """The peak memory of the worker."""


@dataclass(frozen=True, slots=True)
class CodeWarning:
    """A warning about code. It does not make the code fail."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Output:
    """A text that code wrote with `console` or `emit`."""

    kind: Literal["log", "info", "warn", "error", "debug", "emit"]
    text: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of code that succeeded."""

    value: Any
    """The value that the code returned, from JSON."""
    output: list[Output]
    """What the code printed."""
    warnings: list[CodeWarning]
    """The warnings about the code."""
    usage: Usage
    """What the code used."""


@dataclass(frozen=True, slots=True)
class Question:
    """A tool call that needs an approval."""

    execution: str
    """The id of the execution whose code calls."""
    call: int
    """The call's id in its session."""
    tool: str
    """The tool's full name."""
    description: str
    """The tool's description."""
    arguments: Any
    """The arguments. If the call is approved, the tool gets exactly these."""
    effect: Effect | None
    """The tool's effect; `None`: it is unknown."""
    rule: str
    """The rule of the policy that requires the approval."""
    code: str
    """The code of the execution."""
    line: int | None
    """The line of the code that makes the call, from 1; `None`: it is not known."""
    within_ms: float
    """The time for an answer; without one, the call is denied."""
    text: str
    """The question as a text for a person, in 80 columns."""


@dataclass(frozen=True, slots=True)
class Deny:
    """The answer that denies a call, with a reason that the code reads."""

    reason: str


Approval = bool | Literal["once", "execution", "session", "deny"] | Deny
"""The answer to a question. `True` and `"once"` allow this call; `"execution"` and `"session"` all calls of this
tool, with
any arguments, until the execution or the session ends; `False`, `"deny"` and `Deny(reason)` deny it."""


@dataclass(frozen=True, slots=True)
class ToolInfo:
    """A tool that code can call."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None
    effect: Effect | None
    timeout_ms: float
    idempotent: bool
    declaration: str
    """Its declaration in TypeScript, as models see it."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The state of an MCP server."""

    name: str
    origin: str
    connected: bool
    state: str
    """Its state, for people."""
