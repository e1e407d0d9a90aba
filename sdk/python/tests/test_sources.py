"""MCP servers, a folder and an OpenAPI document as tools, and tools that come later."""

from __future__ import annotations

import sys
from pathlib import Path

from conftest import now, run
from sandbox_relay import Host

SERVER = """
from fastmcp import FastMCP

server = FastMCP("notes")

@server.tool(annotations={"readOnlyHint": True})
def count(text: str) -> int:
    "Counts the letters of a text."
    return len(text)

server.run(show_banner=False)
"""

DOCUMENT = """{
  "openapi": "3.1.0", "info": {"title": "shop", "version": "1"}, "servers": [{"url": "https://shop.example/v1"}],
  "paths": {"/orders/{id}": {"get": {
    "operationId": "getOrder",
    "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}]
  }}}
}"""


def test_servers_documents_and_folders_are_tools_beside_functions(tmp_path: Path) -> None:
    async def test() -> None:
        (tmp_path / "notes.txt").write_text("a note")
        (tmp_path / "server.py").write_text(SERVER)
        (tmp_path / "shop.json").write_text(DOCUMENT)
        notes = {"command": sys.executable, "args": [str(tmp_path / "server.py")]}
        async with Host(
            mcp={"mcpServers": {"notes": notes, "broken": {"command": "/nowhere/server"}}},
            openapi={"shop": tmp_path / "shop.json"},
            workspace=tmp_path,
            start_timeout_ms=20_000,
        ) as host:
            servers = {server.name: server for server in host.servers()}
            assert servers["notes"].connected and not servers["broken"].connected
            assert "/nowhere/server" in servers["broken"].state
            names = {one.name for one in host.tools()}
            assert {"notes.count", "shop.getOrder", "workspace.read"} <= names, names
            code = """const file = await mcp.call("workspace.read", { path: "notes.txt" })
            return await mcp.call("notes.count", { text: JSON.stringify(file).match(/a note/)[0] })"""
            outcome = await host.execute(code)
            assert outcome.value in (6, {"result": 6})

            host.add(now)
            assert any(one.name == "weather.now" for one in host.search("weather in a city"))
            assert "weather" in host.overview()
            assert await host.call("weather.now", {"city": "Bern"}) == {"city": "Bern", "degrees": 20.5}

    run(test)
