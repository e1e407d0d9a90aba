"""The OpenAI Agents SDK."""

from __future__ import annotations

from typing import Any

from .._agent import Conversation
from ._common import missing


def tools(talk: Conversation) -> list[Any]:
    """Returns the tools of a conversation, as the SDK has them."""
    try:
        from agents import FunctionTool
    except ImportError as error:
        missing("The OpenAI Agents SDK", "openai-agents", error)

    def of(definition: dict[str, Any]) -> Any:
        name = definition["name"]

        async def call(_: Any, arguments: str) -> str:
            return str(await talk.call(name, arguments or "{}"))

        return FunctionTool(
            name=name,
            description=definition["description"],
            params_json_schema=definition["parameters"],
            on_invoke_tool=call,
            # Optional arguments can be left out.
            strict_json_schema=False,
        )

    return [of(definition) for definition in talk.definitions()]
