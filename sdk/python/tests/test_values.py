"""Results with aliases, and numbers that JSON or the relay cannot hold."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import run
from pydantic import BaseModel, ConfigDict, Field
from sandbox_relay import ConfigurationError, Host, ScriptError, tool


class Aliased(BaseModel):
    """A result with names for others."""

    model_config = ConfigDict(extra="forbid")
    first_name: str = Field(alias="firstName")
    score: float = 1.0
    scores: list[float | None] = []


def test_results_have_their_aliases_and_no_number_becomes_null() -> None:
    @tool("people.get", effect="read_only")
    async def get(score: str) -> Aliased:
        return Aliased(firstName="Ada", scores=[None, float(score)])

    @tool("people.any", effect="read_only")
    async def anything(score: str) -> Any:
        return {"deep": [1.0, {"x": float(score)}], "none": None}

    async def test() -> None:
        async with Host([get, anything]) as host:
            expected = {"firstName": "Ada", "score": 1.0, "scores": [None, 2.0]}
            assert await host.call("people.get", {"score": "2"}) == expected
            assert await host.call("people.any", {"score": "2"}) == {"deep": [1.0, {"x": 2.0}], "none": None}
            for score in ("nan", "-inf"):
                with pytest.raises(ScriptError, match=rf"scores\[1\] is {score}"):
                    await host.call("people.get", {"score": score})
                with pytest.raises(ScriptError, match=rf"deep\[1\]\.x is {score}"):
                    await host.call("people.any", {"score": score})

    run(test)


def test_numbers_of_arguments_that_would_change_are_refused() -> None:
    @tool("numbers.same", effect="read_only")
    async def same(value: Any) -> Any:
        return value

    async def test() -> None:
        async with Host([same]) as host:
            for value in (2**64 - 1, -(2**63), 0.5, True):
                assert await host.call("numbers.same", {"value": value}) == value
            for value, words in ((2**64, "64 bits"), (-(2**63) - 1, "64 bits"), (float("nan"), "nan")):
                with pytest.raises(ConfigurationError, match=rf"value\[0\]\.n is .*{words}"):
                    await host.call("numbers.same", {"value": [{"n": value}]})

    run(test)
