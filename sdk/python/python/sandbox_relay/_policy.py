"""Rules about tool calls, built in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from typing_extensions import Self

from ._types import Effect, Phase, Verdict


class Policy:
    """Rules about tool calls, the first of which that fits decides.

    A call that no rule fits is decided by the effect of its tool: reading runs, and everything else is asked about.

        Policy().deny("git.push", reason="nothing leaves this machine").allow("git.*").budget(calls=500)
    """

    def __init__(self) -> None:
        self._rules: list[dict[str, Any]] = []
        self._members: dict[str, Any] = {}

    def _rule(self, decision: Verdict, tools: Sequence[str], **more: Any) -> Self:
        rule = {"tools": list(tools), "decision": decision, **more}
        self._rules.append({name: value for name, value in rule.items() if value is not None})
        return self

    def allow(self, *tools: str, effects: Sequence[Effect] | None = None, phase: Phase | None = None) -> Self:
        """Lets calls run of the tools that one of these patterns fits, such as `github.*`."""
        return self._rule("allow", tools, effects=effects and list(effects), phase=phase)

    def ask(self, *tools: str, effects: Sequence[Effect] | None = None, phase: Phase | None = None) -> Self:
        """Has the approver decide about calls of these tools."""
        return self._rule("ask", tools, effects=effects and list(effects), phase=phase)

    def deny(
        self,
        *tools: str,
        reason: str | None = None,
        effects: Sequence[Effect] | None = None,
        phase: Phase | None = None,
    ) -> Self:
        """Denies calls of these tools. The code reads the reason."""
        return self._rule("deny", tools, reason=reason, effects=effects and list(effects), phase=phase)

    def default(self, effect: Effect | Literal["unknown"], verdict: Verdict) -> Self:
        """Sets the decision about tools with this effect that no rule fits."""
        self._members.setdefault("default", {})[effect] = verdict
        return self

    def in_write_phase(self, *tools: str) -> Self:
        """Names the tools that change things and are offered in the phase `write`."""
        self._members["phase"] = {"write": {"tools": list(tools)}}
        return self

    def budget(
        self,
        *,
        calls: int | None = None,
        bytes_read: int | None = None,
        bytes_returned: int | None = None,
        tools: dict[str, dict[str, int]] | None = None,
    ) -> Self:
        """Sets the budget of each execution. `tools`: `calls` and `bytes_read` by a pattern, such as `{"web.*":
        {"calls": 20}}`."""
        budget = {"calls": calls, "bytes_read": bytes_read, "bytes_returned": bytes_returned, "tools": tools or {}}
        self._members["budget"] = budget
        return self

    def manifest(self, pattern: str, **change: Any) -> Self:
        """Says what is known of tools that others wrote: `manifest("time.*", effect="read_only", timeout_ms=5000)`."""
        self._members.setdefault("manifest", {})[pattern] = change
        return self

    def to_dict(self) -> dict[str, Any]:
        """Returns the members of a policy file."""
        return {**self._members, "rule": self._rules}
