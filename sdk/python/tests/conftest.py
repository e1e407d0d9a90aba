"""Tools and hosts for all tests. A test that takes longer than a minute is stopped."""

from __future__ import annotations

import asyncio
import faulthandler
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from sandbox_relay import Tool, ToolContext, ToolError, tool
from typing_extensions import TypedDict

MOST_SECONDS = 60


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """Ends the test program with a trace if a test hangs in spite of `run`."""
    faulthandler.dump_traceback_later(MOST_SECONDS + 30, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs an async test, for at most a minute."""

    async def limited() -> None:
        await asyncio.wait_for(test(), MOST_SECONDS)

    asyncio.run(limited())


class Weather(BaseModel):
    """The weather of a city."""

    city: str
    degrees: float


@dataclass
class Place:
    """A place on earth."""

    lat: float
    lon: float = 0.0


class Found(TypedDict):
    """What was found."""

    names: list[str]


@tool("weather.now", effect="read_only")
async def now(city: str, place: Place | None = None) -> Weather:
    """Tells the weather in a city.

    Args:
        city: The name of the city,
            in any language
        place: Where it is
    """
    return Weather(city=city, degrees=20.5 if place is None else place.lat)


@tool("files.find", effect="read_only")
def find(words: list[str], context: ToolContext) -> Found:
    """Finds files. Runs in a thread."""
    context.progress(1, 2, "half way")
    return {"names": [f"{word}.txt" for word in words]}


@tool("bank.pay", effect="mutating")
async def pay(to: str, amount: int) -> str:
    """Pays an amount."""
    if amount < 0:
        raise ToolError("nobody is paid less than nothing", code="INVALID_ARGUMENTS")
    return f"{amount} to {to}"


@tool("faults.raise", effect="read_only")
async def fail(kind: str) -> int:
    """Fails."""
    if kind == "wrong":
        return "no number"  # type: ignore[return-value]
    raise KeyError(kind)


TOOLS: list[Tool[Any, Any]] = [now, find, pay, fail]
