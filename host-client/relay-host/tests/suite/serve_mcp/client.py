"""An MCP client made of the official SDK. It does what the lines on its standard input say, and tells what happens.

Usage: client.py [--asks] [--legacy] stdio PROGRAM ARGUMENT...
       client.py [--asks] [--legacy] http URL [TOKEN]

With --legacy it speaks the newest revision of MCP that has a handshake, else the newest that the server has.

Each line is a JSON object. Commands: {"do": "list"}, {"do": "call", "id", "name", "arguments", "progress"},
{"do": "cancel", "id"}, {"do": "answer", "action", "content"}. At the end of the input it closes the connection.
"""

import json
import os
import sys

import anyio
import httpx2
import jsonschema
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

answers_tx, answers_rx = anyio.create_memory_object_stream(0)
scopes = {}
schemas = {}


def say(**said):
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


async def ask(_context, params):
    say(asked={"message": params.message, "schema": params.requested_schema})
    try:
        answer = await answers_rx.receive()
    except anyio.get_cancelled_exc_class():
        say(withdrawn=True)
        raise
    return ElicitResult(action=answer["action"], content=answer.get("content"))


async def call(client, command):
    name = command["name"]

    async def progress(progress, total, message):
        say(id=command["id"], progress=progress, total=total, message=message)

    with anyio.CancelScope() as scopes[command["id"]]:
        try:
            tell = progress if command.get("progress") else None
            result = await client.call_tool(name, command["arguments"], progress_callback=tell)
            # The SDK does so only where there was no error.
            if schemas.get(name) and result.structured_content is not None:
                jsonschema.validate(result.structured_content, schemas[name])
            say(id=command["id"], result=result.model_dump(mode="json", by_alias=True, exclude_none=True))
        except MCPError as error:
            say(id=command["id"], error=str(error))
        return
    say(id=command["id"], cancelled=True)


async def serve(client):
    async with anyio.create_task_group() as tasks:
        while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            command = json.loads(line)
            match command["do"]:
                case "list":
                    tools = (await client.list_tools()).tools
                    for tool in tools:
                        for schema in filter(None, [tool.input_schema, tool.output_schema]):
                            jsonschema.Draft202012Validator.check_schema(schema)
                        schemas[tool.name] = tool.output_schema
                    say(tools=[tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools])
                case "call":
                    tasks.start_soon(call, client, command)
                case "cancel":
                    scopes[command["id"]].cancel()
                case "answer":
                    await answers_tx.send(command)
        tasks.cancel_scope.cancel()


async def main(arguments):
    options = {"--asks", "--legacy"}.intersection(arguments[:2])
    how, where, *rest = arguments[len(options):]
    if how == "stdio":
        server = StdioServerParameters(command=where, args=rest, env=dict(os.environ))
    else:
        headers = {"Authorization": f"Bearer {rest[0]}"} if rest else {}
        timeout = httpx2.Timeout(30, read=300)
        server = streamable_http_client(where, http_client=httpx2.AsyncClient(headers=headers, timeout=timeout))
    mode = "legacy" if "--legacy" in options else "auto"
    async with Client(server, elicitation_callback=ask if "--asks" in options else None, mode=mode) as client:
        say(ready=client.protocol_version)
        await serve(client)
    say(closed=True)


anyio.run(main, sys.argv[1:])
