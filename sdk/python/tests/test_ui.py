"""The page of a host: what runs, and decisions, in a browser of the same machine."""

from __future__ import annotations

import asyncio
import http.client
import re
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import pytest
from conftest import pay, run
from sandbox_relay import ConfigurationError, Host, Question


class View(NamedTuple):
    status: int
    text: str
    cookie: str | None


class Browser:
    """Opens a page by its address, as a browser does: names of `localhost` are this machine, cookies are kept."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        assert parts.hostname is not None and parts.hostname.endswith(".localhost") and parts.port is not None
        self.origin, self.port = f"http://{parts.netloc}", parts.port
        self.host = parts.netloc
        self.cookie = ""
        opened = self.post("/", token=parts.fragment)
        assert opened.status == 303 and opened.cookie is not None
        self.cookie = opened.cookie.split(";")[0]

    def get(self, path: str) -> View:
        return self._send("GET", path)

    def post(self, path: str, **fields: str) -> View:
        return self._send("POST", path, fields)

    def _send(self, method: str, path: str, fields: dict[str, str] | None = None) -> View:
        headers = {"host": self.host, "cookie": self.cookie}
        if fields is not None:
            headers |= {"origin": self.origin, "content-type": "application/x-www-form-urlencoded"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, None if fields is None else urlencode(fields), headers)
            answer = connection.getresponse()
            return View(answer.status, answer.read().decode(), answer.getheader("set-cookie"))
        finally:
            connection.close()

    async def sees(self, path: str, text: str) -> str:
        while True:
            view = await asyncio.to_thread(self.get, path)
            if text in view.text:
                return view.text
            await asyncio.sleep(0.05)


def hidden(text: str, name: str) -> str:
    found = re.search(f'name="{name}" value="([^"]*)"', text)
    assert found is not None
    return found.group(1)


@pytest.mark.parametrize("own_approver", [False, True])
def test_a_call_is_seen_and_approved_on_the_page(own_approver: bool) -> None:
    asked: list[str] = []

    async def never(question: Question) -> bool:
        asked.append(question.tool)
        await asyncio.Event().wait()
        return False

    async def test() -> None:
        approve = never if own_approver else None
        # The approver of the host, or one for this code: the page is asked beside both.
        async with Host([pay], ui={"by": "Ada"}, approve=approve) as host:
            assert host.page is not None
            browser = await asyncio.to_thread(Browser, host.page)
            execution = host.execute(
                "return await mcp.call('bank.pay', {to: 'Bo', amount: 3})", always_in_sandbox=True, approve=approve
            )
            await browser.sees("/live", "waiting")
            view = await browser.sees("/approvals", "Approve call")
            assert "bank.pay" in view and "Bo" in view
            action = re.search('action="(/questions/[^"]*)"', view)
            assert action is not None
            fields = {"form": hidden(view, "form"), "question": hidden(view, "question"), "decision": "approve"}
            sent = await asyncio.to_thread(lambda: browser.post(action.group(1), **fields))
            assert sent.status == 303, sent.text
            outcome = await execution
            assert "Bo" in outcome.value
            await browser.sees("/live", "done")
            assert asked == (["bank.pay"] if own_approver else [])
        with pytest.raises(OSError):
            await asyncio.to_thread(browser.get, "/live")

    run(test)


def test_without_the_option_there_is_no_page() -> None:
    async def test() -> None:
        async with Host([pay]) as host:
            assert host.page is None

    run(test)


@pytest.mark.parametrize(
    ("ui", "words"),
    [
        (70_000, "65535"),
        (-1, "65535"),
        ({"listen": "0.0.0.0:0"}, "127.0.0.1"),
        ({"listen": "nowhere"}, "socket address"),
        ({"port": 1}, "`listen`"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(ui: object, words: str) -> None:
    async def test() -> None:
        with pytest.raises(ConfigurationError, match=re.escape(words)):
            await Host([pay], ui=ui).start()  # type: ignore[arg-type]

    run(test)
