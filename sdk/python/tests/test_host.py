"""Functions as tools, outcomes, events, errors, approvals, rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import TOOLS, now, run
from sandbox_relay import (
    ClosedError,
    ConfigurationError,
    Deny,
    Event,
    Host,
    ModelReply,
    ModelRequest,
    Policy,
    Question,
    RelayConnectionError,
    ScriptError,
    Tool,
    tool,
)


def test_code_calls_functions_with_models_dataclasses_and_dictionaries() -> None:
    async def test() -> None:
        async with Host(TOOLS) as host:
            execution = host.execute(
                """console.log("begun")
                const weather = await mcp.call("weather.now", { city: "Bern", place: { lat: 46.9 } })
                const found = await mcp.call("files.find", { words: ["a", "b"] })
                return { degrees: weather.degrees, names: found.names }""",
                wall_ms=30_000,
            )
            events: list[Event] = [event async for event in execution]
            outcome = await execution
            assert outcome.value == {"degrees": 46.9, "names": ["a.txt", "b.txt"]}
            assert outcome.usage.tool_calls == 2
            assert [output.text for output in outcome.output] == ["begun"]
            assert events[0]["type"] == "code_received"
            assert events[-1]["type"] == "ended" and events[-1]["code"] is None
            progress = [event for event in events if event["type"] == "tool_call_progress"]
            assert [event["message"] for event in progress] == ["half way"]
            assert (await execution).value == outcome.value, "it can be asked again"

    run(test)


def test_schemas_and_descriptions_come_from_hints_and_docstrings() -> None:
    described = json.loads(now.describe())
    assert described["description"] == "Tells the weather in a city."
    schema = described["input_schema"]
    assert schema["required"] == ["city"] and schema["additionalProperties"] is False
    assert schema["properties"]["city"]["description"] == "The name of the city, in any language"
    assert described["output_schema"]["properties"]["degrees"]["type"] == "number"
    assert described["effect"] == "read_only"


def test_a_tool_is_still_its_function() -> None:
    @tool("math.add")
    def add(a: int, b: int) -> int:
        return a + b

    assert isinstance(add, Tool) and add(1, 2) == 3 and add.name == "math.add"


def test_methods_are_tools_of_their_objects() -> None:
    class Notes:
        def __init__(self) -> None:
            self.texts: list[str] = []

        @tool("notes.add", effect="read_only")
        async def add(self, text: str) -> int:
            """Adds a note."""
            self.texts.append(text)
            return len(self.texts)

    async def test() -> None:
        notes, others = Notes(), Notes()
        async with Host([notes.add]) as host:
            assert (await host.execute('return await mcp.call("notes.add", { text: "one" })')).value == 1
        assert notes.texts == ["one"] and others.texts == []
        assert await others.add("two") == 1

    run(test)


def test_failures_have_code_place_and_hint() -> None:
    async def test() -> None:
        async with Host(TOOLS, approve=lambda question: True) as host:
            with pytest.raises(ScriptError) as raised:
                await host.execute('\nreturn await mcp.call("faults.raise", { kind: "x" }).then((it) => it)')
            error = raised.value
            assert (error.code, error.line, error.tool, error.tool_code) == (
                "EVAL_ERROR",
                2,
                "faults.raise",
                "TOOL_FAILED",
            )
            assert "KeyError: 'x'" in str(error)
            with pytest.raises(ScriptError, match="paid less than nothing"):
                await host.execute(
                    'return await mcp.call("bank.pay", { to: "Ada", amount: -1 })', always_in_sandbox=True
                )
            with pytest.raises(ScriptError) as raised:
                await host.execute('return (await mcp.call("faults.raise", { kind: "wrong" })) + 1')
            assert raised.value.tool_code == "INVALID_RESULT"
            with pytest.raises(ScriptError) as raised:
                await host.execute("while (true) {}", cpu_ms=200)
            assert raised.value.code == "CPU_LIMIT" and raised.value.hint
            with pytest.raises(ScriptError) as raised:
                await host.execute("return await mcp.call('weather.now', {town: 'Bern'})")
            assert raised.value.tool_code == "INVALID_ARGUMENTS" and "city" in str(raised.value)

    run(test)


def test_approvers_answer_in_every_form() -> None:
    code = 'return await mcp.call("bank.pay", { to: "Ada", amount: 7 })'

    async def test() -> None:
        asked: list[Question] = []

        def in_a_thread(question: Question) -> bool:
            asked.append(question)
            return bool(question.arguments["amount"] < 100)

        async def refuses(question: Question) -> Deny:
            return Deny("not today")

        async def breaks(question: Question) -> bool:
            raise RuntimeError("the window is closed")

        async with Host(TOOLS, approve=in_a_thread) as host:
            assert (await host.execute(code)).value == "7 to Ada"
            assert asked[0].tool == "bank.pay" and asked[0].effect == "mutating" and "Ada" in asked[0].text
            for approve, words in ((refuses, "not today"), (breaks, "the window is closed")):
                with pytest.raises(ScriptError, match=words) as raised:
                    await host.execute(code, approve=approve)
                assert raised.value.tool_code == "APPROVAL_DENIED"
            with pytest.raises(ScriptError, match="'maybe' is not one of"):
                await host.execute(code, approve=lambda question: "maybe")  # type: ignore[arg-type, return-value]
        async with Host(TOOLS) as host:
            with pytest.raises(ScriptError) as raised:
                await host.execute(code)
            assert raised.value.tool_code == "APPROVAL_DENIED"

    run(test)


def test_rules_are_built_or_read_and_the_audit_has_every_call(tmp_path: Path) -> None:
    async def test() -> None:
        rules = Policy().deny("bank.*", reason="the bank is closed").budget(calls=3).default("unknown", "deny")
        audit = tmp_path / "audit.jsonl"
        async with Host(
            TOOLS, policy=rules, audit={"path": audit, "redact": [{"tools": ["weather.*"], "path": "$.city"}]}
        ) as host:
            with pytest.raises(ScriptError, match="the bank is closed"):
                await host.execute('return await mcp.call("bank.pay", { to: "Ada", amount: 7 })')
            assert await host.call("weather.now", {"city": "Bern"}) == {"city": "Bern", "degrees": 20.5}
        text = audit.read_text()
        assert "bank.pay" in text and "TOOL_DENIED" in text and '"Bern"' not in text
        file = tmp_path / "policy.toml"
        file.write_text('[[rule]]\ntools = ["bank.*"]\ndecision = "allow"\n')
        async with Host(TOOLS, policy=file) as host:
            assert (
                await host.execute('return await mcp.call("bank.pay", { to: "Ada", amount: 7 })')
            ).value == "7 to Ada"

    run(test)


def test_a_conversation_has_definitions_and_reports() -> None:
    async def test() -> None:
        async with Host(TOOLS, limits={"tool_calls": 3}) as host:
            talk = host.execute_code()
            for style in ("plain", "openai_chat", "openai_responses", "anthropic", "mcp"):
                assert len(talk.definitions(style)) == 4
            assert "weather" in talk.definitions()[0]["description"]
            report = await talk.call("execute_code", {"code": "console.log('hi'); return 6 * 7"})
            assert (report.text, report.is_error) == ("42", False) and "hi" in str(report)
            report = await talk.call("execute_code", '{"code": "return missing"}')
            assert report.is_error and "missing" in report.text
            long = await talk.call("execute_code", {"code": "return Array.from({length: 9000}, (_, n) => ({n}))"})
            assert long.handle is not None
            page = await talk.call("read_output", {"handle": long.handle, "path": "[8999].n"})
            assert "8999" in page.text

    run(test)


def test_a_model_writes_a_program_and_repairs_it() -> None:
    async def test() -> None:
        replies = [
            "```js\nreturn missing\n```",
            '```js\nreturn (await mcp.call("weather.now", {city: "Bern"})).degrees\n```',
        ]

        async def model(request: ModelRequest) -> ModelReply:
            assert request.system and request.messages[-1]["role"] == "user"
            return ModelReply(replies.pop(0), input_tokens=5)

        async with Host(TOOLS) as host:
            answer = await host.programmatic(model).run("How warm is it in Bern?")
            assert answer.outcome.value == 20.5 and len(answer.attempts) == 2
            assert answer.attempts[0]["model"]["input_tokens"] == 5

    run(test)


def test_what_is_wrong_is_said_with_what_to_do() -> None:
    async def test() -> None:
        for options, words in (
            ({"policy": "/nowhere/policy.toml"}, "/nowhere/policy.toml"),
            ({"mcp": "/nowhere/mcp.json"}, "/nowhere/mcp.json"),
            ({"policy": Policy().deny("ops")}, "server.tool"),
            ({"limits": {"wall": 5}}, "wall_ms"),
            ({"url": "ws://127.0.0.1:1/ws"}, "relay.token"),
            ({"relay": {"urll": "x"}}, "urll"),
            ({"workspace": "/nowhere"}, "/nowhere"),
        ):
            with pytest.raises(ConfigurationError, match=words):
                await Host(**options).start()
        with pytest.raises(ConfigurationError, match="@tool"):
            Host([print])  # type: ignore[list-item]

        @tool("a.b")
        def positional(*args: int) -> int:
            return 1

        with pytest.raises(ConfigurationError, match="args"):
            await Host([positional]).start()

        @tool("nodot")
        def nodot() -> int:
            return 1

        with pytest.raises(ConfigurationError, match=r"server\.tool"):
            await Host([nodot]).start()
        host = Host(TOOLS)
        with pytest.raises(ClosedError, match="async with"):
            host.execute("return 1")
        async with host:
            with pytest.raises(ConfigurationError, match="wall_ms"):
                host.execute("return 1", wall=5)  # type: ignore[call-arg]
        with pytest.raises(ClosedError, match="closed"):
            host.execute("return 1")

    run(test)


def test_a_relay_that_is_not_there_is_named() -> None:
    async def test() -> None:
        async with Host(TOOLS, url="ws://127.0.0.1:1/ws", token="t", relay={"connect_timeout_ms": 2000}) as host:
            with pytest.raises(RelayConnectionError, match=r"127\.0\.0\.1:1") as raised:
                await host.execute("return 1")
            assert raised.value.retryable
            # A single call needs no relay; code does.
        async with Host(TOOLS, relay={"program": "/nowhere/sandbox-relay"}) as host:
            with pytest.raises(RelayConnectionError, match="/nowhere/sandbox-relay"):
                await host.execute("return 1")

    run(test)


def test_without_an_event_loop() -> None:
    with Host(TOOLS) as host:
        assert host.run_sync("return 1").value == 1
        assert host.run_sync('return (await mcp.call("weather.now", { city: "Bern" })).city').value == "Bern"
        with pytest.raises(ScriptError):
            host.run_sync("return missing")
    assert Host(TOOLS).run_sync("return 6 * 7").value == 42


def test_a_durable_run_waits_for_a_person_and_goes_on_in_another_host(tmp_path: Path) -> None:
    async def test() -> None:
        def host() -> Host:
            return Host(TOOLS, journal=tmp_path / "runs.db", durable={"passivate_after_ms": 50})

        async with host() as first:
            started = await first.runs.start('return await mcp.call("bank.pay", { to: "Ada", amount: 7 }) + "!"')
            assert await started.settled() == {"state": "waiting_for_approval", "calls": [1]}
        async with host() as second:
            assert [one.id for one in await second.runs.list()] == [started.id]
            await second.runs.approve(started.id, 1, by="Ada")
            recovered = await second.runs.recover()
            assert (await recovered.runs[0]).value == "7 to Ada!"
            assert (await second.runs.show(started.id))["result"] == "7 to Ada!"
            assert await second.runs.forget(started.id)

    run(test)
