"""The clients that tests get where their project has none: thin, of the standard library, with the run level on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered; a status of 400 and more is an answer too."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON; ValueError when it is none."""
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """The body as UTF-8."""
        return self.body.decode("utf-8", errors="replace")


@dataclass(frozen=True, slots=True)
class OnlineClient:
    """Talks to the server at *url*; *run_level* says how deep a test may check what comes back.

    ended: asked where there is no answer; how the server ended, "" while it lives.
    """

    url: str
    run_level: str
    timeout: float = _TIMEOUT_S
    ended: Callable[[], str] = field(default=lambda: "", repr=False, compare=False)

    def get(self, path: str) -> Answer:
        """Return the answer to a GET of *path*."""
        __tracebackhide__ = True
        return self.request("GET", path)

    def post(self, path: str, document: object) -> Answer:
        """Return the answer to a POST of *document* as JSON."""
        __tracebackhide__ = True
        body = json.dumps(document).encode()
        return self.request("POST", path, body=body, headers={"Content-Type": "application/json"})

    def request(
        self, method: str, path: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Return the answer; OSError when there is none, as ServerEndedError where the server has ended."""
        import urllib.error
        import urllib.request
        from http.client import HTTPException

        __tracebackhide__ = True
        # no proxy: the server is on this machine, whatever the environment says
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        request = urllib.request.Request(  # noqa: S310 the scheme is http, written by us
            f"{self.url}{path}", data=body, headers=dict(headers or {}), method=method
        )
        try:
            with opener.open(request, timeout=self.timeout) as response:
                return Answer(response.status, _headers(response.headers.items()), response.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, _headers(error.headers.items()), error.read())
        except (OSError, HTTPException):
            if not (told := self.ended()):
                raise
        from pytest_omni.servers.starting import ServerEndedError

        # outside the handler: pytest would show the way through urllib too
        raise ServerEndedError(told)


@dataclass(frozen=True, slots=True)
class OfflineClient:
    """Hands everything to *engine*, and has the run level beside it."""

    engine: Any = field(repr=False)
    run_level: str = ""

    def __getattr__(self, name: str) -> Any:
        """Return the engine's own attribute, so that ``offline_client.generate(...)`` is the engine's."""
        if name.startswith("__"):  # copy and pickle ask before there is an engine
            raise AttributeError(name)
        return getattr(self.engine, name)


def _headers(pairs: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    return {name.lower(): value for name, value in pairs}
