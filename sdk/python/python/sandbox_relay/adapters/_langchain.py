"""LangChain and LangGraph."""

from __future__ import annotations

from typing import Any

from .._agent import Conversation
from ._common import missing


def tools(talk: Conversation) -> list[Any]:
    """Returns the tools of a conversation, as LangChain has them. An error is a result with the status `error`."""
    try:
        from langchain_core.tools import StructuredTool, ToolException
    except ImportError as error:
        missing("LangChain", "langchain", error)

    def of(definition: dict[str, Any]) -> Any:
        name = definition["name"]

        async def call(**arguments: Any) -> tuple[str, Any]:
            report = await talk.call(name, arguments)
            if report.is_error:
                raise ToolException(str(report))
            return str(report), report

        return StructuredTool(
            name=name,
            description=definition["description"],
            args_schema=definition["parameters"],
            coroutine=call,
            response_format="content_and_artifact",
            handle_tool_error=True,
        )

    return [of(definition) for definition in talk.definitions()]
