"""FastMCP's code mode: the sandbox in which a server runs code over its own tools."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._tool import ToolError, tool
from .._types import Effect

if TYPE_CHECKING:
    from .._host import Host

DESCRIPTION = """Runs JavaScript or TypeScript in a sandbox and returns its value: chain tool calls, loop, filter, join.
Use `return` to give the result. `await call_tool(name, params)` calls a tool of this server and gives its result."""
"""What FastMCP tells the model of `execute`: its own text speaks of Python."""


class Provider:
    """Runs code of FastMCP's `CodeMode` in the sandbox of a host."""

    description = DESCRIPTION

    def __init__(self, host: Host, effect: Effect | None) -> None:
        self._host = host
        self._functions: dict[str, dict[str, Callable[..., Any]]] = {}

        @tool("fastmcp.call", effect=effect, timeout_ms=600_000)
        async def call(run: str, function: str, args: list[Any]) -> Any:
            """Calls a function of the server that runs the code."""
            functions = self._functions.get(run, {})
            if function not in functions:
                raise ToolError(f"there is no function {function!r}; there are: {', '.join(functions)}")
            return await functions[function](*args)

        host.add(call)

    async def run(
        self,
        code: str,
        *,
        inputs: dict[str, Any] | None = None,
        external_functions: dict[str, Callable[..., Any]] | None = None,
    ) -> Any:
        """Runs code with functions of the server, and returns its value."""
        # Nobody else can name this run, and so call its functions.
        run = secrets.token_hex(16)
        self._functions[run] = dict(external_functions or {})
        lines = [
            f"const {name} = (...args) => mcp.call('fastmcp.call', {{ run: '{run}', function: '{name}', args }});"
            for name in self._functions[run]
        ]
        lines += [f"const {name} = {json.dumps(value)};" for name, value in (inputs or {}).items()]
        try:
            # On one line, so that lines in errors are those of the code; checks would not know what the functions are.
            outcome = await self._host.execute(
                "".join(lines) + " " + code, tools=["fastmcp.call"], always_in_sandbox=True
            )
            return outcome.value
        finally:
            del self._functions[run]


def provider(host: Host, effect: Effect | None) -> Provider:
    """Returns a provider for `CodeMode(sandbox_provider=…, execute_description=provider.description)`."""
    return Provider(host, effect)
