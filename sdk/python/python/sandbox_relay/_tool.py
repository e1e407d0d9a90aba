"""Functions as tools that code can call."""

from __future__ import annotations

import asyncio
import inspect
import json
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar, overload

from ._dispatcher import Failure
from ._errors import ConfigurationError
from ._types import Effect

if TYPE_CHECKING:
    from . import _native
    from ._schema import Signature

P = ParamSpec("P")
R = TypeVar("R")


class ToolError(Exception):
    """The failure of a tool, in words that the author of the code can use.

    Any exception of a tool fails its call with `TOOL_FAILED`; this one chooses another code: `TOOL_DENIED`,
    `INVALID_ARGUMENTS`, `TOOL_RESULT_LIMIT`, `TOOL_TIMEOUT`, or `OUTCOME_UNKNOWN` where the effect may have happened.
    """

    def __init__(
        self,
        message: str,
        *,
        code: Literal[
            "TOOL_FAILED", "TOOL_DENIED", "INVALID_ARGUMENTS", "TOOL_RESULT_LIMIT", "TOOL_TIMEOUT", "OUTCOME_UNKNOWN"
        ] = "TOOL_FAILED",
    ) -> None:
        super().__init__(message)
        self.code = code


class ToolContext:
    """The context of a running call. A function that has a parameter of this type gets it; code does not see the
    parameter."""

    def __init__(self, native: _native.Context) -> None:
        info = json.loads(native.info())
        self._native = native
        self.execution: str = info["execution"]
        """The id of the execution whose code calls."""
        self.call: int = info["call"]
        """The call's id in its session."""
        self.tool: str = info["tool"]
        """The tool's full name."""
        self.remaining_ms: float = info["remaining_ms"]
        """The time that the call had left when it began."""
        self.idempotency_key: str = info["idempotency_key"]
        """The key that tells this call from all others, for services that do a request with the same key once."""
        self.traceparent: str = info["traceparent"]
        """The W3C trace and span of the call."""

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Reports progress: `done` of `total`, in a unit of your choice. `None`: the total is not known."""
        self._native.progress(done, total, message)

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for the call any more. An async tool is cancelled by itself; look here in a thread."""
        return self._native.is_cancelled()


class Tool(Generic[P, R]):
    """A function that code can call; made by `tool`. It can still be called as the function that it is."""

    def __init__(self, function: Callable[P, R], description: dict[str, Any]) -> None:
        self._function = function
        self._given = description
        self._signature: Signature | None = None
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", "tool")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.name!r}>"

    @property
    def name(self) -> str:
        """The full name, `server.tool`."""
        name: str = self._given["name"]
        return name

    def __get__(self, owner: object | None, kind: type | None = None) -> Tool[..., R]:
        """Makes the tool of a method for its object: `Host([notes.add, notes.search])`."""
        if owner is None:
            return self
        bound: Callable[..., R] = types.MethodType(self._function, owner)
        return Tool(bound, self._given)

    @property
    def signature(self) -> Signature:
        """The schemas of the arguments and the result."""
        if self._signature is None:
            from ._schema import Signature

            try:
                self._signature = Signature(self._function, ToolContext)
            except ConfigurationError:
                raise
            except Exception as error:
                raise ConfigurationError(
                    f"the tool {self.name!r} cannot be used: {error}", code="INVALID_TOOL"
                ) from error
        return self._signature

    def describe(self) -> str:
        """Returns the description for the host, as JSON."""
        signature = self.signature
        schemas = {"input_schema": signature.input_schema, "output_schema": signature.output_schema}
        own = {"description": signature.description}
        return json.dumps({**own, **schemas, **{name: it for name, it in self._given.items() if it is not None}})

    async def run(self, arguments: str, context: _native.Context | None) -> str:
        """Runs the function with arguments as JSON, and returns JSON."""
        signature = self.signature
        try:
            taken = signature.read(arguments)
        except ValueError as error:
            raise Failure("INVALID_ARGUMENTS", str(error)) from None
        if signature.context is not None and context is not None:
            taken[signature.context] = ToolContext(context)
        function: Callable[..., Any] = self._function
        try:
            if inspect.iscoroutinefunction(function):
                result = await function(**taken)
            else:
                result = await asyncio.to_thread(function, **taken)
                if inspect.isawaitable(result):
                    result = await result
        except ToolError as error:
            raise Failure(error.code, str(error)) from error
        return signature.write(result)


@overload
def tool(name: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    name: str,
    /,
    *,
    effect: Effect | None = None,
    description: str | None = None,
    timeout_ms: int | None = None,
    result_bytes: int | None = None,
    overflow: Literal["fail", "cut"] | None = None,
    concurrency: int | None = None,
    idempotent: bool = False,
    callable_from_code: bool = True,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(  # noqa: D417 - the overload above has the other arguments
    name: Any, /, *, effect: Effect | None = None, description: str | None = None, **more: Any
) -> Any:
    """Makes a tool of a function: `@tool("weather.now", effect="read_only")`.

    The schemas come from the hints; pydantic models, dataclasses and `TypedDict` may be among them. The description
    comes from
    the docstring, and those of arguments from its `Args:`. An async function runs in the event loop, any other in a
    thread.

    Args:
        name: The full name, `server.tool`. `@tool` alone names a function `tools.NAME`.
        effect: What a call does. `None`: unknown, so that the default policy asks a person.
        description: The description for the model. `None`: that of the docstring.
        timeout_ms: The time limit of a call. Default: 30,000.
        result_bytes: The most bytes of JSON that a call may return. Default: 10 MiB.
        overflow: What happens to a larger result. Default: `"fail"`.
        concurrency: The most calls at once; `None`: any number.
        idempotent: Whether a durable run may call it again when the outcome of the first time is not known.
        callable_from_code: Whether code may call it.
    """
    if callable(name):
        return Tool(name, {"name": f"tools.{getattr(name, '__name__', 'tool')}"})
    given = {"name": name, "effect": effect, "description": description, **more}

    def made(function: Callable[..., Any]) -> Tool[..., Any]:
        return Tool(function, given)

    return made
