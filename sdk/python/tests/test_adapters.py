"""One program with three tools and an approval through each framework, with a scripted model."""

from __future__ import annotations

import importlib.abc
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from conftest import TOOLS, run
from sandbox_relay import Host, Question

CODE = """const weather = await mcp.call("weather.now", { city: "Bern" })
const found = await mcp.call("files.find", { words: ["a", "b"] })
const paid = await mcp.call("bank.pay", { to: weather.city, amount: found.names.length })
return paid + "!" """
ARGUMENTS = {"code": CODE}
EXPECTED = "2 to Bern!"


def host() -> tuple[Host, list[Question]]:
    """A host whose approver notes what it is asked."""
    asked: list[Question] = []

    async def approve(question: Question) -> bool:
        asked.append(question)
        return True

    return Host(TOOLS, approve=approve), asked


def test_langchain() -> None:
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, HumanMessage

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            assert tools[0].name == "execute_code"
            return self

    async def test() -> None:
        one, asked = host()
        async with one:
            calls = [
                AIMessage("", tool_calls=[{"name": "execute_code", "args": ARGUMENTS, "id": "1"}]),
                AIMessage("", tool_calls=[{"name": "execute_code", "args": {"code": "return missing"}, "id": "2"}]),
                AIMessage("done"),
            ]
            agent = create_agent(Model(messages=iter(calls)), one.langchain())
            state = await agent.ainvoke({"messages": [HumanMessage("go")]})
            results = [message for message in state["messages"] if message.type == "tool"]
            assert results[0].content == EXPECTED and results[0].artifact.text == EXPECTED
            assert results[1].status == "error" and "missing" in results[1].content
            assert [question.tool for question in asked] == ["bank.pay"]

    run(test)


def test_openai_agents() -> None:
    from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    set_tracing_disabled(True)

    class Scripted(Model):
        """Calls `execute_code`, and answers with its result."""

        async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
            results = [item["output"] for item in input if isinstance(item, dict) and "output" in item]
            output: Any
            if results:
                text = ResponseOutputText(text=str(results[0]), type="output_text", annotations=[])
                output = ResponseOutputMessage(
                    id="m", content=[text], role="assistant", status="completed", type="message"
                )
            else:
                output = ResponseFunctionToolCall(
                    call_id="1", name="execute_code", arguments=json.dumps(ARGUMENTS), type="function_call"
                )
            return ModelResponse(output=[output], usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

    async def test() -> None:
        one, asked = host()
        async with one:
            agent = Agent(name="test", model=Scripted(), tools=one.openai_agents())
            result = await Runner.run(agent, "go")
            assert result.final_output == EXPECTED
            assert [question.tool for question in asked] == ["bank.pay"]

    run(test)


def test_pydantic_ai() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert info.function_tools[0].name == "execute_code"
        returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        if returned:
            return ModelResponse(parts=[TextPart(str(returned[0].content))])
        return ModelResponse(parts=[ToolCallPart("execute_code", ARGUMENTS)])

    async def test() -> None:
        one, asked = host()
        async with one:
            agent = Agent(FunctionModel(model), toolsets=[one.pydantic_ai()])
            assert (await agent.run("go")).output == EXPECTED
            assert [question.tool for question in asked] == ["bank.pay"]

    run(test)


def test_claude() -> None:
    """The SDK's model is a program that needs a key: the server is called as that program calls it, over MCP."""
    import mcp.types as types

    async def test() -> None:
        one, asked = host()
        async with one:
            config = one.claude("code")
            assert (config["type"], config["name"]) == ("sdk", "code")
            async with connected(config["instance"]) as session:
                tools = (await session.list_tools()).tools
                assert tools[0].name == "execute_code"
                result = await session.call_tool("execute_code", ARGUMENTS)
                assert isinstance(result.content[0], types.TextContent) and result.content[0].text == EXPECTED
                wrong = await session.call_tool("execute_code", {"code": "return missing"})
                assert "missing" in wrong.content[0].text
            assert [question.tool for question in asked] == ["bank.pay"]

    run(test)


def connected(server: Any) -> Any:
    """Returns a client session with a server in this process."""
    import mcp

    return mcp.Client(server)


@pytest.mark.parametrize(("options", "asks"), [({}, 4), ({"effect": "read_only"}, 0)])
def test_fastmcp(options: dict[str, Any], asks: int) -> None:
    from fastmcp import Client, FastMCP
    from fastmcp.experimental.transforms.code_mode import CodeMode

    code = """const weather = await call_tool("now", { city: "Bern" })
const found = await call_tool("find", { words: ["a", "b"] })
const paid = await call_tool("pay", { to: weather.city, amount: found.names.length })
return paid.result + "!" """

    async def test() -> None:
        asked: list[str] = []
        server = FastMCP("test")

        @server.tool
        def now(city: str) -> dict[str, Any]:
            return {"city": city}

        @server.tool
        def find(words: list[str]) -> dict[str, list[str]]:
            return {"names": words}

        @server.tool
        async def pay(to: str, amount: int) -> str:
            asked.append(to)
            return f"{amount} to {to}"

        questions: list[Question] = []

        def approve(question: Question) -> bool:
            questions.append(question)
            return True

        async with Host(approve=approve) as one:
            provider = one.fastmcp(**options)
            server.add_transform(CodeMode(sandbox_provider=provider, execute_description=provider.description))
            async with Client(server) as client:
                result = await client.call_tool("execute", {"code": code})
                assert EXPECTED in str(result.data) + str(result.content), result
                wrong = await client.call_tool(
                    "execute", {"code": "return await call_tool('nothing', {})"}, raise_on_error=False
                )
                assert wrong.is_error
            assert asked == ["Bern"]
            assert [question.arguments["function"] for question in questions] == ["call_tool"] * asks

    run(test)


@pytest.mark.parametrize(
    ("module", "call", "package"),
    [
        ("langchain_core", lambda one: one.langchain(), "pip install langchain"),
        ("agents", lambda one: one.openai_agents(), "pip install openai-agents"),
        ("claude_agent_sdk", lambda one: one.claude(), "pip install claude-agent-sdk"),
        ("pydantic_ai", lambda one: one.pydantic_ai(), "pip install pydantic-ai-slim"),
    ],
)
def test_a_framework_that_is_absent_is_named(
    module: str, call: Callable[[Host], Any], package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Absent(importlib.abc.MetaPathFinder):
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
            if name.split(".")[0] == module:
                raise ModuleNotFoundError(f"No module named {name!r}")

    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Absent(), *sys.meta_path])

    async def test() -> None:
        async with Host(TOOLS) as one:
            with pytest.raises(ImportError, match=package):
                call(one)

    run(test)
