"""Schemas of functions from their hints, by pydantic. Imported with the first tool, since pydantic takes a while."""

from __future__ import annotations

import functools
import inspect
import json
import math
import re
import typing
from collections.abc import Callable
from typing import Any, cast

import pydantic
import pydantic_core
from pydantic import TypeAdapter

_ARGUMENT = re.compile(r"^\s+(\*{0,2}\w+)\s*(?:\([^)]*\))?:\s*(.+)$")
_SECTION = re.compile(r"^\s*(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?):\s*$")


class Signature:
    """The arguments and the result of a function, as schemas with their readers and writers."""

    def __init__(self, function: Callable[..., Any], context_type: type) -> None:
        try:
            hints = typing.get_type_hints(function, include_extras=True)
        except NameError as error:
            raise TypeError(
                f"a hint of {function.__qualname__} cannot be read: {error}; import the name in the function's module"
            ) from error
        signature = inspect.signature(function)
        result = hints.pop("return", Any)
        self.context: str | None = None
        parameters: list[inspect.Parameter] = []
        for name, parameter in signature.parameters.items():
            if hints.get(name) is context_type:
                self.context = name
                hints.pop(name)
                continue
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise TypeError(
                    f"{function.__qualname__}: the parameter {parameter} cannot be an argument of a tool: name it"
                )
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
        description, arguments = described(inspect.getdoc(function) or "")
        self.description = description

        def taken(**arguments: Any) -> dict[str, Any]:
            return arguments

        functools.update_wrapper(taken, function)
        del taken.__wrapped__  # type: ignore[attr-defined]
        taken.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        taken.__annotations__ = hints
        adapter: Any = TypeAdapter
        self._arguments: TypeAdapter[Any] = adapter(taken)
        self.input_schema = self._arguments.json_schema()
        self.input_schema.setdefault("properties", {})
        for name, text in arguments.items():
            found: dict[str, Any] | None = self.input_schema["properties"].get(name)
            if found is not None:
                found.setdefault("description", text)
        self._result: TypeAdapter[Any] | None = None
        self.output_schema: dict[str, Any] | None = None
        if result is not Any:
            self._result = TypeAdapter(result)
            self.output_schema = self._result.json_schema(mode="serialization")

    def read(self, arguments: str) -> dict[str, Any]:
        """Reads arguments from JSON.

        Raises ValueError with a text for the author of the code.
        """
        try:
            taken: dict[str, Any] = self._arguments.validate_json(arguments)
        except pydantic.ValidationError as error:
            faults = (
                f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors(include_url=False)
            )
            raise ValueError("; ".join(faults)) from None
        return taken

    def write(self, result: Any) -> str:
        """Writes a result as JSON. One that does not fit its hint is found by the host.

        Raises ValueError if a number of it would become null.
        """
        adapter = self._result
        if adapter is None:
            text = pydantic_core.to_json(result, inf_nan_mode="null")
        else:
            text = adapter.dump_json(result, by_alias=True, warnings=False)
        if b"null" in text:
            # Plain values keep the numbers that JSON has no words for.
            if adapter is None:
                plain = pydantic_core.to_jsonable_python(result)
            else:
                plain = adapter.dump_python(result, mode="json", by_alias=True, warnings=False)
            lost = _lost(plain, json.loads(text), "")
            if lost is not None:
                raise ValueError(f"the result cannot be written as JSON, {lost}: return a finite number or None")
        return text.decode()


def _lost(plain: Any, written: Any, path: str) -> str | None:
    """Names the first number that is null as JSON."""
    found: str | None = None
    if isinstance(plain, float) and written is None and not math.isfinite(plain):
        found = f"{path or 'it'} is {plain}"
    elif isinstance(plain, dict) and isinstance(written, dict):
        members, texts = cast("dict[str, Any]", plain), cast("dict[str, Any]", written)
        parts = (_lost(one, texts.get(name), f"{path}.{name}" if path else name) for name, one in members.items())
        found = next(filter(None, parts), None)
    elif isinstance(plain, list) and isinstance(written, list):
        pairs = enumerate(zip(cast("list[Any]", plain), cast("list[Any]", written), strict=False))
        found = next(filter(None, (_lost(*pair, f"{path}[{index}]") for index, pair in pairs)), None)
    return found


def described(text: str) -> tuple[str, dict[str, str]]:
    """Splits a docstring into the description and what it says of arguments (`Args:`)."""
    lines = text.splitlines()
    cut = next((index for index, line in enumerate(lines) if _SECTION.match(line)), len(lines))
    arguments: dict[str, str] = {}
    is_inside, last = False, None
    for line in lines[cut:]:
        section = _SECTION.match(line)
        if section:
            is_inside = section[1] in ("Args", "Arguments", "Parameters")
            continue
        argument = _ARGUMENT.match(line) if is_inside else None
        if argument:
            last = argument[1]
            arguments[last] = argument[2].strip()
        elif is_inside and last is not None and line.strip():
            arguments[last] += " " + line.strip()
    return "\n".join(lines[:cut]).strip(), arguments
