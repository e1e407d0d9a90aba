"""The Claude Agent SDK."""

from __future__ import annotations

import base64
from typing import Any

from .._agent import Conversation
from ._common import missing


def server(talk: Conversation, name: str) -> Any:
    """Returns an MCP server in this process with the tools of a conversation."""
    try:
        from claude_agent_sdk import create_sdk_mcp_server
        from claude_agent_sdk import tool as sdk_tool
    except ImportError as error:
        missing("The Claude Agent SDK", "claude-agent-sdk", error)

    def of(definition: dict[str, Any]) -> Any:
        async def call(arguments: dict[str, Any]) -> dict[str, Any]:
            report = await talk.call(definition["name"], arguments)
            content: list[dict[str, Any]] = [{"type": "text", "text": str(report)}]
            for one in report.attachments:
                if one.mime.startswith("image/"):
                    data = base64.b64encode(one.data).decode()
                    content.append({"type": "image", "data": data, "mimeType": one.mime})
            return {"content": content, "is_error": report.is_error}

        return sdk_tool(definition["name"], definition["description"], definition["parameters"])(call)

    return create_sdk_mcp_server(name, tools=[of(definition) for definition in talk.definitions()])
