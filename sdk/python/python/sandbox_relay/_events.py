"""The events of an execution: dictionaries whose member `type` says which one it is."""

from __future__ import annotations

from typing import Literal, TypedDict


class UsageFields(TypedDict):
    """What an execution used; `Usage` describes the fields."""

    queue_ms: float
    wall_ms: float
    approval_ms: float
    cpu_ms: float
    tool_calls: int
    output_bytes: int
    memory_bytes: int


class CodeReceived(TypedDict):
    """The host accepted the code."""

    type: Literal["code_received"]
    bytes: int


class RouteChosen(TypedDict):
    """The host chose where the code runs: on the host, if it is a single call, or at the relay."""

    type: Literal["route_chosen"]
    route: Literal["host", "relay"]


class Started(TypedDict):
    """The execution started."""

    type: Literal["started"]


class ToolCallRequested(TypedDict):
    """The code calls a tool."""

    type: Literal["tool_call_requested"]
    id: int
    tool: str
    arguments_bytes: int


class ToolCallDenied(TypedDict):
    """The policy, a person or a budget denied a call."""

    type: Literal["tool_call_denied"]
    id: int
    tool: str
    code: str
    reason: str
    rule: str


class ToolCallAwaitingApproval(TypedDict):
    """The approver is asked about a call."""

    type: Literal["tool_call_awaiting_approval"]
    id: int
    tool: str
    rule: str
    within_ms: float


class ToolCallApproved(TypedDict):
    """A call that needed an approval has it."""

    type: Literal["tool_call_approved"]
    id: int
    tool: str
    by: str | None
    scope: Literal["once", "execution", "session"]


class ToolCallStarted(TypedDict):
    """A tool begins to run."""

    type: Literal["tool_call_started"]
    id: int
    tool: str


class ToolCallProgress(TypedDict):
    """A tool says how far a call is."""

    type: Literal["tool_call_progress"]
    id: int
    tool: str
    done: float
    total: float | None
    message: str


class ToolCallFinished(TypedDict):
    """A tool returned a result."""

    type: Literal["tool_call_finished"]
    id: int
    tool: str
    elapsed_ms: float
    result_bytes: int


class ToolCallFailed(TypedDict):
    """A call failed."""

    type: Literal["tool_call_failed"]
    id: int
    tool: str
    code: str
    message: str


class OutputWritten(TypedDict):
    """The code wrote output."""

    type: Literal["output"]
    kind: str
    text: str


class Disconnected(TypedDict):
    """The connection to the relay was lost, and the host tries to resume the session."""

    type: Literal["disconnected"]
    reason: str


class Resumed(TypedDict):
    """The session was resumed: nothing is lost, and nothing is done twice."""

    type: Literal["resumed"]
    after_ms: float


class Result(TypedDict):
    """The code returned a value."""

    type: Literal["result"]
    bytes: int


class Ended(TypedDict):
    """The execution is over. `code` is the error code; `None`: it succeeded."""

    type: Literal["ended"]
    code: str | None
    usage: UsageFields


class Missed(TypedDict):
    """The watcher was too slow, and missed this number of events."""

    type: Literal["missed"]
    count: int


Event = (
    CodeReceived
    | RouteChosen
    | Started
    | ToolCallRequested
    | ToolCallDenied
    | ToolCallAwaitingApproval
    | ToolCallApproved
    | ToolCallStarted
    | ToolCallProgress
    | ToolCallFinished
    | ToolCallFailed
    | OutputWritten
    | Disconnected
    | Resumed
    | Result
    | Ended
    | Missed
)
"""An event. Look at `event["type"]` first."""
