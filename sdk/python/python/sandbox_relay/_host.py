"""A host: the tools, rules and relay of one application."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import math
import os
import warnings as python_warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast

from typing_extensions import Self, Unpack

from . import _native
from ._agent import Conversation
from ._dispatcher import Dispatcher, Failure, Function, raised
from ._durable import DurableRuns
from ._errors import ClosedError, ConfigurationError, ModelError
from ._execution import Execution
from ._find import relay_program
from ._policy import Policy
from ._programmatic import Model, ModelReply, ModelRequest, Programmatic
from ._tool import Tool
from ._types import Approval, Deny, Effect, Limits, Outcome, Phase, Question, ServerStatus, ToolInfo

if TYPE_CHECKING:
    from ._sync import Background

Path = str | os.PathLike[str]
Approve = Callable[[Question], "Approval | Awaitable[Approval]"]
"""Decides about a call that needs an approval: a function, which runs in a thread, or an async one."""
Token = str | Callable[[], str | Awaitable[str]]
"""A bearer token, or a function that gives a fresh one whenever it is asked."""

CLOSE_WITHIN_MS = 10_000


class Host:
    """The tools, rules and relay of one application.

        async with Host([now], policy="policy.toml", approve=ask) as host:
            outcome = await host.execute("return await mcp.call('weather.now', {city: 'Bern'})")

    Without `url`, a relay is started on this machine when code first needs one, and ends with the host. A host
    belongs to the
    event loop that it is started in. For programs without one, `with Host(…) as host: host.run_sync(code)` keeps a
    loop in a
    thread.

    Args:
        tools: The functions that code can call, made by `tool`.
        mcp: MCP servers: the path of a file with `mcpServers`, that object, or a list of these.
        openapi: OpenAPI documents by the name of the server that they become: a path, a URL, or an object with
            settings.
        workspace: A folder as tools: its path, or `{"folder": …, "writable": ["src/**"], "allow_create": True}`.
        http: The hosts that code may fetch from.
        policy: The rules: the path of a policy file, or a `Policy`. Default: tools that read run, others are asked
            about.
        approve: Decides about calls that need an approval; with `ui`, the page is asked at the same time, and the
            first answer counts. Default: `None`, they are denied where there is no page.
        audit: The audit log: its path, or an object with settings.
        journal: The journal of durable runs: a path, or the address of a Postgres database. Default: `None`, there
            are none.
        url: The address of a relay elsewhere, such as `wss://relay.example/ws`. Default: `None`, one is started.
        token: The bearer token for `url`, or a function that gives fresh ones.
        relay: More settings of the relay, such as `{"ca_file": …}`, `{"image": "sandbox-relay:local"}` or
            `{"program": …}`.
        limits: Limits of all that is run. `execute` can lower them further.
        output: How results are shortened for models, such as `{"cut_characters": 5000, "footer": False}`.
        durable: Settings of durable runs, such as `{"passivate_after_ms": 30000, "approval_within_ms": 604800000}`.
        ui: The page of what the host runs, for browsers of this machine: its port, 0 for a free one, or
            `{"listen": "127.0.0.1:8080", "by": "Ada"}`. `Host.page` has its address. Default: `None`, there is none.
        show_denied: Whether tools that the policy denies are shown to models, with the reason.
        learn_results: Whether the types of results without a schema are learned and shown to models.
        start_timeout_ms: How long the start waits for MCP servers, and a call for one that starts.
    """

    def __init__(
        self,
        tools: Sequence[Tool[Any, Any]] = (),
        *,
        mcp: Path | Mapping[str, Any] | Sequence[Path | Mapping[str, Any]] | None = None,
        openapi: Mapping[str, Path | Mapping[str, Any]] | None = None,
        workspace: Path | Mapping[str, Any] | None = None,
        http: Sequence[str] | Mapping[str, Any] | None = None,
        policy: Path | Policy | None = None,
        approve: Approve | None = None,
        audit: Path | Mapping[str, Any] | None = None,
        journal: Path | None = None,
        url: str | None = None,
        token: Token | None = None,
        relay: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        output: Mapping[str, Any] | None = None,
        durable: Mapping[str, Any] | None = None,
        ui: int | Mapping[str, Any] | None = None,
        show_denied: bool = False,
        learn_results: bool = True,
        start_timeout_ms: int = 30_000,
    ) -> None:
        for one in tools:
            _checked(one)
        self._tools = list(tools)
        self._approve = approve
        self._token = token
        place: dict[str, Any] = dict(relay or {})
        if url is not None:
            place["url"] = url
        if isinstance(token, str):
            place["token"] = token
        options: dict[str, Any] = {
            "mcp": mcp,
            "openapi": openapi,
            "workspace": workspace,
            "http": http if http is None or isinstance(http, Mapping) else {"hosts": list(http)},
            "policy": {"rules": policy.to_dict()} if isinstance(policy, Policy) else policy,
            "audit": audit,
            "journal": journal,
            "relay": place,
            "limits": limits,
            "output": output,
            "durable": durable,
            "ui": ui,
            "show_denied": show_denied,
            "learn_results": learn_results,
            "start_timeout_ms": start_timeout_ms,
        }
        self._options = {name: value for name, value in options.items() if value is not None}
        self._native: _native.Host | None = None
        self._dispatcher: Dispatcher | None = None
        self._background: Background | None = None
        self._is_closed = False
        # Held while the host starts or closes.
        self._changing = asyncio.Lock()
        self._starting: Dispatcher | None = None

    # The life of a host

    async def start(self) -> Self:
        """Starts the host in this event loop: opens files, starts MCP servers and waits for them for a while.

        Raises:
            ConfigurationError: An option cannot be used; the text says which one, and what to do.
            ClosedError: The host is closed, was closed meanwhile, or was started in another event loop.
        """
        if self._starting is not None:
            self._starting.check()
        async with self._changing:
            if self._is_closed:
                raise ClosedError("the host is closed: make another one", code="CLOSED")
            if self._native is None:
                await self._begin()
            elif self._dispatcher is not None:
                self._dispatcher.check()
        return self

    async def _begin(self) -> None:
        self._starting = dispatcher = Dispatcher(asyncio.get_running_loop())
        try:
            place = self._options["relay"]
            if not {"url", "program", "image"} & place.keys():
                found = relay_program()
                if found is not None:
                    place["program"] = found
            described = [(one.describe(), dispatcher.register(one.run)) for one in self._tools]
            approve = None if self._approve is None else dispatcher.register(_approver(self._approve))
            tokens = dispatcher.register(_tokens(self._token)) if callable(self._token) else None
            options = json.dumps(self._options, default=_plain)
            native = await dispatcher.wait(lambda mailbox: _native.start(mailbox, options, described, approve, tokens))
            if self._is_closed:
                raise ClosedError("the host was closed meanwhile", code="CLOSED")
        except BaseException:
            dispatcher.close()
            raise
        finally:
            self._starting = None
        self._native, self._dispatcher = native, dispatcher

    async def close(self) -> None:
        """Closes the host within about ten seconds: what runs is cancelled, durable runs are left for another
        process, MCP
        servers end, and so does the relay that was started. A start that is under way fails.

        Raises:
            ClosedError: The host belongs to another event loop, and is still open there.
        """
        dispatcher = self._starting or self._dispatcher
        if self._is_closed or dispatcher is None or dispatcher.is_forked:
            self._is_closed, self._native = True, None
            return
        if not dispatcher.loop.is_closed():
            dispatcher.check()
        self._is_closed = True
        if self._starting is not None:
            # What the start waits for fails, and it leaves nothing behind.
            self._starting.close()
            async with self._changing:
                return
        native, self._native = self._native, None
        try:
            # Without its loop, nothing can be waited for: the native host ends when nobody has it.
            if native is not None and not dispatcher.loop.is_closed():
                await dispatcher.wait(lambda mailbox: native.close(mailbox, CLOSE_WITHIN_MS))
        finally:
            dispatcher.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __enter__(self) -> Self:
        from ._sync import Background

        self._background = Background()
        try:
            self._background.run(self.start())
        except BaseException:
            self._background.close()
            self._background = None
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        background, self._background = self._background, None
        if background is not None:
            try:
                background.run(self.close())
            finally:
                background.close()

    def __del__(self) -> None:
        if getattr(self, "_native", None) is None or self._dispatcher is None or self._dispatcher.is_forked:
            return
        python_warnings.warn("a Host was not closed: use `async with`, or `await host.close()`", ResourceWarning, 2)
        dispatcher = self._dispatcher
        if not dispatcher.loop.is_closed():
            dispatcher.loop.call_soon_threadsafe(dispatcher.close)

    @property
    def _open(self) -> tuple[_native.Host, Dispatcher]:
        if self._native is None or self._dispatcher is None:
            what = "is closed" if self._is_closed else "is not started"
            raise ClosedError(f"the host {what}: use it within `async with Host(…) as host`", code="CLOSED")
        return self._native, self._dispatcher

    # Running code

    def execute(
        self,
        code: str,
        *,
        tools: Sequence[str] | None = None,
        phase: Phase | None = None,
        bindings: Sequence[str] | None = None,
        input: str | None = None,
        check: Literal["refuse", "warn", "off"] = "refuse",
        always_in_sandbox: bool = False,
        large_integers: Literal["number", "text", "bigint"] = "number",
        seed: int | None = None,
        now_ms: int | None = None,
        local_tools: Mapping[str, str] | None = None,
        traceparent: str | None = None,
        approve: Approve | None = None,
        **limits: Unpack[Limits],
    ) -> Execution:
        """Starts code, such as `host.execute(code, wall_ms=30_000)`. Await the result for its outcome.

        Args:
            code: JavaScript or TypeScript.
            tools: Patterns of the tools that the code may call, such as `github.*`. Default: `None`, all.
            phase: `"discover"` offers tools that only read; `"write"` adds those that the policy names for it.
            bindings: What the code has beside `mcp`. Default: `None`, what models expect, as far as the relay offers
                it.
            input: The text that `read_input()` returns. Default: `None`, the code has neither that nor `emit`.
            check: What is done about code that is certain to fail. Default: `"refuse"`, it does not run.
            always_in_sandbox: Whether code that is no more than one tool call runs in the sandbox, too, and unchecked.
            large_integers: The form of integers of tools over 2^53.
            seed: The seed of `Math.random`. Default: `None`, a fresh one.
            now_ms: The time at which the code's clock begins, in ms since 1970. Default: `None`, the present.
            local_tools: Sources of functions that run beside the code, by the name after `local.`.
            traceparent: The W3C trace and span that the execution belongs to.
            approve: Decides about the calls of this code. Default: `None`, the approver of the host.
            limits: Limits that are to be lower, such as `wall_ms=30_000`.

        Raises:
            ConfigurationError: An option cannot be used.
            ClosedError: The host is closed, not started, or belongs to another event loop.
        """
        native, dispatcher = self._open
        dispatcher.check()
        options = {
            "code": code,
            "tools": None if tools is None else list(tools),
            "phase": phase,
            "limits": limits,
            "bindings": None if bindings is None else list(bindings),
            "input": input,
            "check": check,
            "always_in_sandbox": always_in_sandbox,
            "large_integers": large_integers,
            "seed": seed,
            "now_ms": now_ms,
            "local_tools": dict(local_tools or {}),
            "traceparent": traceparent,
        }
        approver = None if approve is None else dispatcher.register(_approver(approve))
        execution = raised(lambda: native.execute(json.dumps(options), approver))
        started = Execution(execution, dispatcher, self)
        if approver is not None:
            dispatcher.unregister(approver, started)
        return started

    def run_sync(self, code: str, **options: Any) -> Outcome:
        """Runs code as `execute` does, and waits for its outcome: for scripts and notebooks, without an event loop of
        your own.

        Within `with Host(…) as host:`, all calls share one relay. Without, a host like this one is started for each
        call.

        Raises:
            ClosedError: The host is closed, was started in an event loop, or would wait for itself in its own one.
        """
        if self._background is None:
            if self._native is not None or self._starting is not None:
                raise ClosedError(
                    "the host was started in an event loop: `await host.execute(code)` there", code="OTHER_LOOP"
                )
            alike = copy.copy(self)
            alike._changing = asyncio.Lock()
            with alike:
                return alike.run_sync(code, **options)

        async def run() -> Outcome:
            return await self.execute(code, **options)

        return self._background.run(run())

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """Calls one tool without code and without a relay, through the same checks, rules, approvals and audit.

        Raises:
            ScriptError: There is no such tool, the arguments do not fit, the call was denied, or the tool failed.
            ConfigurationError: The arguments have a number that JSON or the relay cannot hold.
        """
        native, dispatcher = self._open
        text = json.dumps(dict(arguments or {}), default=_plain)
        _fits(json.loads(text), "")
        return json.loads(await dispatcher.wait(lambda mailbox: native.call(mailbox, tool, text)))

    # For models

    def execute_code(self) -> Conversation:
        """Begins a conversation of a model, with `execute_code` and the tools beside it, for any agent loop."""
        native, dispatcher = self._open
        return Conversation(raised(native.conversation), dispatcher, self)

    def programmatic(
        self,
        model: Model,
        *,
        repair: Literal["never", "if_nothing_changed", "always"] = "if_nothing_changed",
        model_timeout_ms: int | None = None,
        overview_tokens: int | None = None,
        **limits: Unpack[Limits],
    ) -> Programmatic:
        """Creates one that answers requests with programs which a model writes.

        Args:
            model: An async function that asks the model.
            repair: When a program that failed is repaired.
            model_timeout_ms: The most time for one reply. Default: 120,000.
            overview_tokens: The length of the overview of tools in the prompt, in estimated tokens. Default: 3,000.
            limits: Limits of each program that are to be lower.
        """
        native, dispatcher = self._open
        options = {
            "repair": repair,
            "model_timeout_ms": model_timeout_ms,
            "overview_tokens": overview_tokens,
            "limits": limits,
        }
        number = dispatcher.register(_model(model))
        programmatic = Programmatic(raised(lambda: native.programmatic(number, json.dumps(options))), dispatcher, self)
        dispatcher.unregister(number, programmatic)
        return programmatic

    @property
    def runs(self) -> DurableRuns:
        """The durable runs of a host that was started with a journal."""
        native, dispatcher = self._open
        return DurableRuns(raised(native.runs), dispatcher, self)

    # Tools

    def add(self, tool: Tool[Any, Any]) -> None:
        """Adds a tool. Code that runs already may not see it."""
        native, dispatcher = self._open
        _checked(tool)
        raised(lambda: native.add_tool(tool.describe(), dispatcher.register(tool.run)))

    def tools(self) -> list[ToolInfo]:
        """Returns all tools, those of MCP servers and documents included."""
        native, _ = self._open
        return [ToolInfo(**one) for one in json.loads(raised(lambda: native.tools()))]

    def search(self, words: str, most: int = 10) -> list[ToolInfo]:
        """Searches the tools that code can call; the best match comes first."""
        native, _ = self._open
        return [ToolInfo(**one) for one in json.loads(raised(lambda: native.search(words, most)))]

    def overview(self, most_tokens: int = 3_000) -> str:
        """Returns the tools that code can call as a text for a prompt, of about as many tokens."""
        native, _ = self._open
        return raised(lambda: native.overview(most_tokens))

    def servers(self) -> list[ServerStatus]:
        """Returns the MCP servers with their states."""
        native, _ = self._open
        return [ServerStatus(**one) for one in json.loads(raised(lambda: native.servers()))]

    @property
    def page(self) -> str | None:
        """The address that opens the page of this host in a browser, once: it has a token. `None`: there is no `ui`."""
        return self._open[0].page()

    def warnings(self) -> list[str]:
        """Returns what the author of the configuration should look at, as sentences."""
        native, _ = self._open
        return raised(lambda: native.warnings())

    # Frameworks

    def langchain(self) -> list[Any]:
        """Returns `execute_code` and the tools beside it for LangChain and LangGraph: `create_agent(model,
        host.langchain())`."""
        from .adapters import _langchain

        return _langchain.tools(self.execute_code())

    def openai_agents(self) -> list[Any]:
        """Returns the tools for the OpenAI Agents SDK: `Agent(tools=host.openai_agents())`."""
        from .adapters import _openai_agents

        return _openai_agents.tools(self.execute_code())

    def claude(self, name: str = "code") -> Any:
        """Returns an MCP server for the Claude Agent SDK: `ClaudeAgentOptions(mcp_servers={"code": host.claude()})`."""
        from .adapters import _claude

        return _claude.server(self.execute_code(), name)

    def pydantic_ai(self) -> Any:
        """Returns a toolset for Pydantic AI: `Agent(model, toolsets=[host.pydantic_ai()])`."""
        from .adapters import _pydantic_ai

        return _pydantic_ai.toolset(self.execute_code())

    def fastmcp(self, *, effect: Effect | None = None) -> Any:
        """Returns a sandbox provider for FastMCP's code mode: `CodeMode(sandbox_provider=host.fastmcp())`.

        Args:
            effect: What the functions of the server do, which code calls as the tool `fastmcp.call`. Default: `None`,
                unknown: the default policy asks `approve` about each call. `"read_only"`: it lets all of them run.
        """
        from .adapters import _fastmcp

        return _fastmcp.provider(self, effect)


def _checked(one: object) -> None:
    if not isinstance(one, Tool):
        name = getattr(one, "__name__", repr(one))
        raise ConfigurationError(
            f'{name} is not a tool: put @tool("server.{name}", effect="read_only") before the function',
            code="INVALID_TOOL",
        )


def _fits(value: Any, path: str) -> None:
    """Refuses numbers that the host would read as others."""
    if isinstance(value, dict):
        for name, one in cast("dict[str, Any]", value).items():
            _fits(one, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, one in enumerate(cast("list[Any]", value)):
            _fits(one, f"{path}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigurationError(f"{path} is {value}, which JSON cannot hold", code="INVALID_ARGUMENTS")
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        words = f"{path} is an integer of more than 64 bits: give it as text, if the tool takes that"
        raise ConfigurationError(words, code="INVALID_ARGUMENTS")


def _plain(value: Any) -> Any:
    if hasattr(value, "__fspath__"):
        return value.__fspath__()
    if hasattr(value, "keys"):
        return {key: value[key] for key in value.keys()}  # noqa: SIM118 - any mapping
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{value!r} cannot be written as JSON")


async def _result(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function: an async one here, any other in a thread."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):
        return await function(*args)
    result = await asyncio.to_thread(function, *args)
    return await result if inspect.isawaitable(result) else result


def _approver(approve: Approve) -> Function:
    async def ask(question: str, _: _native.Context | None) -> str:
        answer: Approval = await _result(approve, Question(**json.loads(question)))
        if isinstance(answer, Deny):
            return json.dumps({"scope": "deny", "reason": answer.reason})
        if isinstance(answer, bool):
            answer = "once" if answer else "deny"
        if answer not in ("once", "execution", "session", "deny"):
            kinds = "True, False, 'once', 'execution', 'session', 'deny' or Deny(reason)"
            raise Failure("TOOL_FAILED", f"its answer {answer!r} is not one of {kinds}")
        return json.dumps({"scope": answer})

    return ask


def _tokens(token: Callable[[], str | Awaitable[str]]) -> Function:
    async def give(_: str, __: _native.Context | None) -> str:
        return json.dumps(await _result(token))

    return give


def _model(model: Model) -> Function:
    async def ask(question: str, _: _native.Context | None) -> str:
        try:
            reply = await _result(model, ModelRequest(**json.loads(question)))
        except ModelError as error:
            raise Failure(error.code, str(error)) from error
        if isinstance(reply, str):
            reply = ModelReply(reply)
        usage = {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens}
        return json.dumps({"text": reply.text, "is_cut": reply.is_cut, "usage": usage})

    return ask
