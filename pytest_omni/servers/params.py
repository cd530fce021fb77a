"""What a test asks of a server, and what it gets. No process here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from omni_hardware.errors import InputError, strip_controls
from omni_hardware.redaction import redact, redact_words, secret_values

HOST = "127.0.0.1"
_ALWAYS_SHOWN = ("port", "init_timeout", "health_path", "stop_timeout")
_SHOWN_IF_SET = ("stall_timeout", "deploy_config")
_NO_ENV: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, repr=False)
class OmniServerParams:
    """The indirect parameter of ``omni_server``.

    init_timeout: seconds from the start of the process to the first 200 on health_path; the only deadline there is.
    port: None picks a free one. env: laid over the environment of pytest.
    stop_timeout: seconds from SIGTERM to SIGKILL; a killed server leaves no coverage.
    stall_timeout: give up earlier, once nothing was logged for so many seconds; None waits for init_timeout.
    deploy_config: a file that your hook hands to the server; a run level may put a patched copy in its place.
    memory_timeout: seconds that device memory may need to come back after the server has ended.
    """

    model: str
    server_args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=lambda: _NO_ENV)
    port: int | None = None
    init_timeout: float = 600.0
    health_path: str = "/health"
    stop_timeout: float = 30.0
    stall_timeout: float | None = None
    deploy_config: str | Path | None = None
    memory_timeout: float = 60.0

    def __post_init__(self) -> None:
        """Refuse what would only show as a strange server later."""
        __tracebackhide__ = True
        if isinstance(self.server_args, list):
            object.__setattr__(self, "server_args", tuple(self.server_args))
        if problems := [f"{name} {problem}" for name, problem in _problems(self) if problem]:
            raise InputError(redact(f"OmniServerParams: {'; '.join(problems)}"))

    def __repr__(self) -> str:
        """Name everything but the environment, secrets blotted: pytest prints parameters in many places."""
        env = environment(os.environ, self)
        shown = {
            "model": shown_text(self.model, env),
            "server_args": redact_words(self.server_args, secrets=secret_values(env)),
            **{name: getattr(self, name) for name in _ALWAYS_SHOWN},
            **{name: value for name in _SHOWN_IF_SET if (value := getattr(self, name)) is not None},
        }
        return f"OmniServerParams({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


@dataclass(frozen=True, slots=True)
class OmniServer:
    """A running server that answered its health check; *log_path* holds all it printed.

    Of several processes, *pid* and *log_path* are the first one's; *log_paths* has every log, in order.
    """

    model: str
    port: int
    pid: int
    log_path: Path
    params: OmniServerParams
    log_paths: tuple[Path, ...] = ()

    @property
    def url(self) -> str:
        """The base URL, without a slash at its end."""
        return f"http://{HOST}:{self.port}"


def environment(base: Mapping[str, str], params: OmniServerParams) -> dict[str, str]:
    """Return the server's environment: a copy of *base* with the test's own entries on top.

    Names of the running test are left out; a server that outlives a test would carry a stale one. Neither *base* nor
    os.environ is ever changed: servers may be started from several threads.
    """
    inherited = {key: value for key, value in base.items() if key != "PYTEST_CURRENT_TEST"}
    # unbuffered, so that the log has the last words of a server that dies
    return {"PYTHONUNBUFFERED": "1", **inherited, **params.env}


def shown_text(text: str, env: Mapping[str, str]) -> str:
    """Return *text* as messages may show it: without the secrets of *env*."""
    return strip_controls(redact(text, secrets=secret_values(env)))


def shown_command(command: Iterable[object], env: Mapping[str, str]) -> str:
    """Return a command line as messages may show it: without the secrets of *env* and of its own flags."""
    return strip_controls(" ".join(redact_words(map(str, command), secrets=secret_values(env))))


def _problems(params: OmniServerParams) -> list[tuple[str, str]]:
    args, env, port = params.server_args, params.env, params.port
    good_args = isinstance(args, tuple) and all(isinstance(arg, str) for arg in args)
    strings = isinstance(env, Mapping) and all(isinstance(text, str) for pair in env.items() for text in pair)
    good_port = port is None or (type(port) is int and 0 < port < 65536)
    return [
        ("model", "" if isinstance(params.model, str) and params.model else "must be a non-empty name"),
        (
            "server_args",
            _not_words(args) if good_args else f"must be strings in a list or tuple, not {_shown(args)}",
        ),
        ("env", _not_environment(env) if strings else "must map strings to strings"),
        ("port", "" if good_port else f"must be None or 1…65535, not {port!r}"),
        ("init_timeout", _not_seconds(params.init_timeout)),
        ("stop_timeout", _not_seconds(params.stop_timeout)),
        ("stall_timeout", "" if params.stall_timeout is None else _not_seconds(params.stall_timeout)),
        ("memory_timeout", _not_seconds(params.memory_timeout)),
        ("deploy_config", _not_file_name(params.deploy_config)),
        ("health_path", _not_path(params.health_path)),
    ]


def _shown(args: object) -> str:
    return repr(tuple(redact_words(map(str, args)))) if isinstance(args, tuple) else repr(args)


def _not_words(words: Iterable[str]) -> str:
    at = next((number for number, word in enumerate(words) if "\0" in word), None)
    return "" if at is None else f"[{at}] holds a NUL character, which no program can be given"


def _not_environment(env: Mapping[str, str]) -> str:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name:
            return f"has the name {name!r}: a variable's name is not empty and holds no = and no NUL"
        if "\0" in value:
            return f"[{name!r}] holds a NUL character, which no program can be given"
    return ""


def _not_file_name(path: object) -> str:
    good = path is None or (isinstance(path, str | Path) and str(path) not in {"", "."})
    return "" if good else f"must be None or the path of a file, not {path!r}"


def _not_path(path: object) -> str:
    if not isinstance(path, str) or not path.startswith("/"):
        return "must start with /"
    return (
        ""
        if path.isascii() and path.isprintable() and " " not in path
        else f"must be percent-encoded, not {path!r}"
    )


def _not_seconds(value: object) -> str:
    good = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return "" if good else f"must be seconds above 0, not {value!r}"
