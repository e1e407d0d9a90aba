"""Runs code that a model wrote in a sandbox, with your functions as its tools.

    from sandbox_relay import Host, tool

    @tool("weather.now", effect="read_only")
    async def now(city: str) -> str:
        "Tells the weather in a city."
        return f"Sunny in {city}"

    async with Host([now]) as host:
        outcome = await host.execute("return await mcp.call('weather.now', {city: 'Bern'})")
        print(outcome.value)

A `Host` has the tools, the rules and the relay; `Host.execute` runs code; `Host.execute_code` gives the tools for a
model.
"""

from ._agent import Attachment, Conversation, Report
from ._durable import DurableRun, DurableRuns, Recovered, RunSummary
from ._errors import (
    AuditError,
    AuthenticationError,
    ClosedError,
    ConfigurationError,
    InternalError,
    ModelError,
    RelayConnectionError,
    RelayError,
    RunError,
    ScriptError,
    UnsupportedError,
)
from ._events import Event
from ._execution import Execution
from ._host import Host
from ._native import VERSION
from ._policy import Policy
from ._programmatic import Answer, ModelReply, ModelRequest, Programmatic
from ._tool import Tool, ToolContext, ToolError, tool
from ._types import CodeWarning, Deny, Effect, Limits, Outcome, Output, Question, ServerStatus, ToolInfo, Usage

__version__: str = VERSION

__all__ = [
    "Answer",
    "Attachment",
    "AuditError",
    "AuthenticationError",
    "ClosedError",
    "CodeWarning",
    "ConfigurationError",
    "Conversation",
    "Deny",
    "DurableRun",
    "DurableRuns",
    "Effect",
    "Event",
    "Execution",
    "Host",
    "InternalError",
    "Limits",
    "ModelError",
    "ModelReply",
    "ModelRequest",
    "Outcome",
    "Output",
    "Policy",
    "Programmatic",
    "Question",
    "Recovered",
    "RelayConnectionError",
    "RelayError",
    "Report",
    "RunError",
    "RunSummary",
    "ScriptError",
    "ServerStatus",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolInfo",
    "UnsupportedError",
    "Usage",
    "__version__",
    "tool",
]
