"""Pydantic AI."""

from __future__ import annotations

from typing import Any

from .._agent import Conversation
from ._common import missing


def toolset(talk: Conversation) -> Any:
    """Returns a toolset with the tools of a conversation."""
    try:
        from pydantic_ai import FunctionToolset, Tool
    except ImportError as error:
        missing("Pydantic AI", "pydantic-ai-slim", error)

    def of(definition: dict[str, Any]) -> Any:
        name = definition["name"]

        async def call(**arguments: Any) -> str:
            # An error is a result as well: the model reads it, with its hint, and goes on.
            return str(await talk.call(name, arguments))

        tool: Any = Tool
        return tool.from_schema(call, name, definition["description"], definition["parameters"])

    return FunctionToolset([of(definition) for definition in talk.definitions()])
