"""From the bytes of a request to a checked model: every refusal says which field, and why."""

from __future__ import annotations

import json
from collections.abc import Mapping
from email.message import Message
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from omni.errors import did_you_mean
from omni.serving.errors import ApiError

BODY_LIMIT = 1 << 20
"""Bytes of a JSON body; a prompt is a few KB, so more is a mistake or an attack."""

Body = TypeVar("Body", bound=BaseModel)


async def read(request: Request, model: type[Body]) -> Body:
    """Return the JSON body of *request* as *model*.

    Raises ApiError: 413 over BODY_LIMIT; 400 not JSON, not an object, a doubled or unknown key, a bad value.
    """
    document = _parse(await _bytes_of(request), request.headers.get("content-type"))
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise _refusal(error, model) from None


async def _bytes_of(request: Request) -> bytes:
    # Counted while reading: a chunked body has no length to check beforehand.
    received = bytearray()
    async for chunk in request.stream():
        received += chunk
        if len(received) > BODY_LIMIT:
            raise ApiError(f"the body is larger than {BODY_LIMIT} bytes", status=413, code="body_too_large")
    return bytes(received)


def _parse(raw: bytes, content_type: str | None) -> dict[str, Any]:
    if not _is_json(content_type):
        said = f"Content-Type is {content_type!r}" if content_type else "Content-Type is missing"
        raise ApiError(f"{said}: send the body as application/json", code="invalid_content_type")
    try:
        document = json.loads(raw.decode(), object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        raise ApiError(f"the body is not JSON: {error}", code="invalid_json") from None
    if not isinstance(document, dict):
        raise ApiError("the body must be a JSON object: {…}", code="invalid_json")
    return document


def _is_json(content_type: str | None) -> bool:
    # A browser page can send text/plain to a local server without asking anyone; JSON it cannot.
    header = Message()
    header["content-type"] = content_type or "text/plain"
    return header.get_content_type() == "application/json" or header.get_content_type().endswith("+json")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        doubled = next(name for name in names if names.count(name) > 1)
        raise ApiError(f"{doubled!r} is given twice", param=doubled, code="duplicate_field")
    return document


def _refusal(error: ValidationError, model: type[BaseModel]) -> ApiError:
    problems = error.errors(include_url=False, include_context=True)
    messages = [_sentence(problem, model.model_fields) for problem in problems]
    first = problems[0]
    return ApiError("; ".join(messages), param=_name(first) or None, code=_CODES.get(first["type"]))


_SHOWN_AT_MOST = 40
_CODES = {"extra_forbidden": "unknown_field", "missing": "missing_field"}


def _name(problem: ErrorDetails) -> str:
    return ".".join(str(part) for part in problem["loc"])


def _sentence(problem: ErrorDetails, fields: Mapping[str, Any]) -> str:
    name = _name(problem)
    match problem["type"]:
        case "extra_forbidden":
            return f"unknown field {name!r}{did_you_mean(name, fields)}"
        case "missing":
            return f"{name!r} is required"
        case "value_error":
            return str(problem.get("ctx", {}).get("error", problem["msg"]))
        case _:
            rule = problem["msg"].removeprefix("Input ").removeprefix("String ")
            return f"{name!r} {rule}{_given(problem['input'])}"


def _given(value: object) -> str:
    # Numbers and short words help to see the slip; a long text or a nested value only hides it.
    shown = repr(value)
    return f", got {shown}" if len(shown) <= _SHOWN_AT_MOST else ""
