"""From the bytes of a request to a checked model: every refusal says which field, and why."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.message import Message
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from omni.config import jsontext
from omni.errors import did_you_mean
from omni.serving.errors import ApiError, cut, unavailable

BODY_LIMIT = 1 << 16
"""Bytes of a JSON body: a prompt is a few KB, and what is read here is read on the event loop."""
BODY_S = 30.0
"""Seconds a body may take to arrive."""
LATE_S = 0.5
"""Seconds it gets once the server stops: enough for what is on its way."""

Body = TypeVar("Body", bound=BaseModel)


class Arrivals:
    """The bodies that are arriving: each has a deadline, and a near one once the server stops."""

    def __init__(self) -> None:
        self._open: set[asyncio.Timeout] = set()
        self._stopping = False

    def stop(self) -> None:
        """Give what is not here yet LATE_S; call it on the event loop."""
        self._stopping = True
        for deadline in self._open:
            if not deadline.expired():
                deadline.reschedule(asyncio.get_running_loop().time() + LATE_S)

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[None]:
        """Hold one body to its deadline; raises ApiError 408 for one that missed it, 503 in a stopping server."""
        try:
            async with asyncio.timeout(LATE_S if self._stopping else BODY_S) as deadline:
                self._open.add(deadline)
                try:
                    yield
                finally:
                    self._open.discard(deadline)
        except TimeoutError:
            if self._stopping:
                raise unavailable("the server is stopping", "server_stopping") from None
            message = f"the body took longer than {BODY_S:g} s to arrive"
            raise ApiError(message, status=408, code="body_timeout", headers=_CLOSE) from None


async def read(request: Request, model: type[Body], arrivals: Arrivals) -> Body:
    """Return the JSON body of *request* as *model*.

    Raises ApiError: 408 too slow; 413 over BODY_LIMIT; 503 half here when the server stops; 400 not JSON, not an
    object, a doubled or unknown key, a bad value.
    """
    async with arrivals.in_time():
        raw = await _bytes_of(request)
    document = _parse(raw, request.headers.get("content-type"))
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
            message = f"the body is larger than {BODY_LIMIT} bytes"
            raise ApiError(message, status=413, code="body_too_large", headers=_CLOSE)
    return bytes(received)


def _parse(raw: bytes, content_type: str | None) -> dict[str, Any]:
    if not _is_json(content_type):
        said = f"Content-Type is {content_type!r}" if content_type else "Content-Type is missing"
        raise ApiError(f"{said}: send the body as application/json", code="invalid_content_type")
    try:
        document = jsontext.loads(raw.decode())
    except jsontext.DoubledKeyError as error:
        message = f"{cut(error.key, _NAME_AT_MOST)!r} is given twice"
        raise ApiError(message, param=error.key, code="duplicate_field") from None
    except ValueError as error:
        raise ApiError(f"the body is not JSON: {error}", code="invalid_json") from None
    if not isinstance(document, dict):
        raise ApiError("the body must be a JSON object: {…}", code="invalid_json")
    return document


def _is_json(content_type: str | None) -> bool:
    # A browser page can send text/plain to a local server without asking anyone; JSON it cannot.
    header = Message()
    header["content-type"] = content_type or "text/plain"
    return header.get_content_type() == "application/json" or header.get_content_type().endswith("+json")


def _refusal(error: ValidationError, model: type[BaseModel]) -> ApiError:
    problems = error.errors(include_url=False, include_context=True)
    messages = [_sentence(problem, model.model_fields) for problem in problems[:_TOLD_AT_MOST]]
    if more := len(problems) - len(messages):
        messages.append(f"and {more} more")
    first = problems[0]
    return ApiError("; ".join(messages), param=_name(first) or None, code=_CODES.get(first["type"]))


_CLOSE = {"Connection": "close"}  # the rest of such a body is not read
_TOLD_AT_MOST = 10
_NAME_AT_MOST = 60
_SHOWN_AT_MOST = 40
_CODES = {"extra_forbidden": "unknown_field", "missing": "missing_field"}


def _name(problem: ErrorDetails) -> str:
    return cut(".".join(str(part) for part in problem["loc"]), _NAME_AT_MOST)


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
            return f"{repr(name) if name else 'the name of a field'} {rule}{_given(problem['input'])}"


def _given(value: object) -> str:
    # Numbers and short words help to see the slip; a long text or a nested value only hides it, or cannot be shown.
    shown = "" if isinstance(value, list | dict) else repr(value)
    return f", got {shown}" if 0 < len(shown) <= _SHOWN_AT_MOST else ""
