"""OpenAI-style error bodies: {"error": {"message", "type", "param", "code"}} for every failure, known or not."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from omni.errors import InputError, OmniError, did_you_mean

_RETRY_AFTER = {"Retry-After": "5"}
_MESSAGE_AT_MOST = 2000
_PARAM_AT_MOST = 60


class ApiError(Exception):
    """A refusal with its HTTP status; the fields are those of OpenAI's error body."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.param = param
        self.code = code
        self.headers = headers

    def response(self) -> JSONResponse:
        """Return what the client sees: a 5xx is the server's fault, everything else the request's."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        message, param = cut(self.message, _MESSAGE_AT_MOST), self.param and cut(self.param, _PARAM_AT_MOST)
        error = {"message": message, "type": kind, "param": param, "code": self.code}
        return JSONResponse({"error": error}, self.status, headers=self.headers)


def cut(text: str, at_most: int) -> str:
    """Return *text* as UTF-8 can say it, its end left out where it is long: what a client sent comes back in part."""
    plain = text.encode(errors="backslashreplace").decode()
    return plain if len(plain) <= at_most else f"{plain[: at_most - 1]}…"


def unavailable(message: str, code: str) -> ApiError:
    """Return a 503 that tells the client to come back in a few seconds."""
    return ApiError(message, status=503, code=code, headers=_RETRY_AFTER)


def model_not_found(asked: str | None, served: str) -> ApiError:
    """Return a 404 that names the one model there is."""
    message = f"model {cut(asked or '', _PARAM_AT_MOST)!r} is not served here; this server serves {served!r}"
    return ApiError(message, status=404, param="model", code="model_not_found")


def install(app: FastAPI) -> None:
    """Make every failure of *app* answer with an OpenAI-style body."""

    async def refused(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, ApiError)
        return error.response()

    async def known(_: Request, error: Exception) -> JSONResponse:
        return _of_runtime(error).response()

    async def routing(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return _of_routing(request, error).response()

    async def left(_: Request, __: Exception) -> JSONResponse:
        # Nobody reads this, and a client that changes its mind is no event for the log.
        return ApiError("the client left before its body was here", code="client_left").response()

    async def unexpected(_: Request, __: Exception) -> JSONResponse:
        # The server logs the traceback; the client learns nothing about our insides.
        return ApiError("internal error; see the server's log", status=500, code="internal_error").response()

    app.add_exception_handler(ApiError, refused)
    app.add_exception_handler(OmniError, known)
    app.add_exception_handler(HTTPException, routing)
    app.add_exception_handler(ClientDisconnect, left)
    app.add_exception_handler(Exception, unexpected)


def _of_runtime(error: Exception) -> ApiError:
    status = 400 if isinstance(error, InputError) else 500
    return ApiError(str(error), status=status, param=getattr(error, "param", None))


def _of_routing(request: Request, error: HTTPException) -> ApiError:
    asked = f"{request.method} {request.url.path}"
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "another method")
        message, code = f"{asked}: this path takes {allowed}", "method_not_allowed"
    elif error.status_code == HTTPStatus.NOT_FOUND:
        paths = [path for route in request.app.routes if "{" not in (path := getattr(route, "path", "{"))]
        message, code = f"{asked}: no such path{did_you_mean(request.url.path, paths)}", "unknown_url"
    else:
        message, code = str(error.detail), None
    return ApiError(message, status=error.status_code, code=code, headers=error.headers)
