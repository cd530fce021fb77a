"""What a test asks of a server, what it gets, and how to judge what a starting one shows. No process here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from omni_hardware.errors import InfrastructureError, InputError
from omni_hardware.redaction import redact

HOST = "127.0.0.1"
_NO_ENV: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class OmniServerParams:
    """The indirect parameter of ``omni_server``.

    init_timeout: seconds from the start of the process to the first 200 on health_path; the only deadline there is.
    port: None picks a free one. env: laid over the environment of pytest.
    stop_timeout: seconds from SIGTERM to SIGKILL; a killed server leaves no coverage.
    """

    model: str
    server_args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: _NO_ENV, repr=False)  # may hold tokens
    port: int | None = None
    init_timeout: float = 600.0
    health_path: str = "/health"
    stop_timeout: float = 30.0

    def __post_init__(self) -> None:
        """Refuse what would only show as a strange server later."""
        if problems := [f"{name} {problem}" for name, problem in _problems(self) if problem]:
            raise InputError(f"OmniServerParams: {'; '.join(problems)}")


@dataclass(frozen=True, slots=True)
class OmniServer:
    """A running server that answered its health check; *log_path* holds all it printed."""

    model: str
    port: int
    pid: int
    log_path: Path
    params: OmniServerParams

    @property
    def url(self) -> str:
        """The base URL, without a slash at its end."""
        return f"http://{HOST}:{self.port}"


class ServerError(InfrastructureError):
    """A server did not become ready; the message has the phases it reached and the end of its log."""


class PortStolenError(ServerError):
    """Somebody else listens on the port that we picked: another port may do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What one look at a starting server shows.

    health: the last HTTP status; None before any answer. foreign: somebody else listens on our port.
    """

    seconds: float
    exit_code: int | None = None
    listening: bool = False
    foreign: bool = False
    health: int | None = None
    detail: str = ""

    @property
    def ready(self) -> bool:
        """Whether our own process listens and says that it is healthy; a port alone may be a stranger's."""
        return self.exit_code is None and self.listening and self.health == 200

    @property
    def phase(self) -> str:
        """How far the start has come, in words."""
        if not self.listening:
            return "another process listens on the port" if self.foreign else "not listening yet"
        return f"listening, {self.detail or 'no answer to the health check yet'}"


def failure(sight: Sight, *, params: OmniServerParams, port: int) -> ServerError | None:
    """Return why waiting on is pointless, or None while there is hope."""
    what = f"server for {params.model!r} on port {port}"
    if sight.exit_code is not None:
        how = f"exited with code {sight.exit_code} {sight.seconds:.1f} s after its start ({sight.phase})"
        return (PortStolenError if sight.foreign else ServerError)(f"{what} {how}")
    if sight.seconds >= params.init_timeout:
        return ServerError(
            f"{what} is not ready after init_timeout={params.init_timeout:g} s. "
            f"Reached: started, then {sight.phase}. GET {params.health_path} must answer 200"
        )
    return None


def environment(base: Mapping[str, str], params: OmniServerParams) -> dict[str, str]:
    """Return the server's environment: a copy of *base* with the test's own entries on top.

    Names of the running test are left out; a server that outlives a test would carry a stale one.
    """
    inherited = {key: value for key, value in base.items() if key != "PYTEST_CURRENT_TEST"}
    # unbuffered, so that the log has the last words of a server that dies
    return {"PYTHONUNBUFFERED": "1", **inherited, **params.env}


def with_log(error: ServerError, *, command: list[str], log_path: Path, tail: str) -> ServerError:
    """Return the same kind of error with the command and the end of the log in its message."""
    shown = tail or "(empty)"
    return type(error)(f"{error}\ncommand: {redact(' '.join(command))}\nlog: {log_path}, its end:\n{shown}")


def _problems(params: OmniServerParams) -> list[tuple[str, str]]:
    args, env, port = params.server_args, params.env, params.port
    good_args = isinstance(args, tuple) and all(isinstance(arg, str) for arg in args)
    good_env = isinstance(env, Mapping) and all(
        isinstance(text, str) for pair in env.items() for text in pair
    )
    good_port = port is None or (type(port) is int and 0 < port < 65536)
    return [
        ("model", "" if isinstance(params.model, str) and params.model else "must be a non-empty name"),
        ("server_args", "" if good_args else f"must be a tuple of strings, not {args!r}"),
        ("env", "" if good_env else "must map strings to strings"),
        ("port", "" if good_port else f"must be None or 1…65535, not {port!r}"),
        ("init_timeout", _not_seconds(params.init_timeout)),
        ("stop_timeout", _not_seconds(params.stop_timeout)),
        ("health_path", "" if str(params.health_path).startswith("/") else "must start with /"),
    ]


def _not_seconds(value: object) -> str:
    good = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return "" if good else f"must be seconds above 0, not {value!r}"
