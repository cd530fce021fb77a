"""A new Python process with a new pytest that runs one test of this session, as this session would have run it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from omni_hardware.redaction import secret_values
from pytest_omni.isolation.fresh_process import MARK
from pytest_omni.isolation.fresh_reports import folder, read
from pytest_omni.isolation.fresh_run import End
from pytest_omni.machine import machine_of
from pytest_omni.options import settings_of
from pytest_omni.servers.child import Child, Order, launch, new_tag
from pytest_omni.servers.child_coverage import STARTERS, measuring
from pytest_omni.servers.starting import exit_words
from pytest_omni.session import notes_of

SCRIPT = Path(__file__).with_name("fresh_child.py")
_INVENTORY = "OMNI_INVENTORY"
_LOG_LINES = 60
_LOOK_EVERY_S = 0.01
_TRACEBACK_S = 2.0
_FRAME = re.compile(
    rf'  File "(?:<frozen runpy>|.*/(?:_pytest|pytest|pluggy)/[\w/]+\.py|{re.escape(str(SCRIPT))})", line'
)
_IN_ORDER = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
# What the process must decide as this session did; None of it is on the command line when it is a default.
_SAME = ("randomly_seed",)
_LOST = (
    f"the coverage of {MARK} tests is not recorded: it needs `patch = subprocess` in [tool.coverage.run], "
    "and an environment that nobody cleaned"
)


@dataclass(frozen=True, slots=True)
class Files:
    """Where a fresh process finds what to do, and leaves what it did."""

    request: Path
    reports: Path
    log: Path
    inventory: Path
    temporary: Path


def run(item: pytest.Item, *, timeout: float) -> End:
    """Return how the process of *item* ended; it is ended after *timeout* seconds. ServerError where none starts."""
    config, files = item.config, _files(item.config)
    files.request.write_text(json.dumps(request(item, files)), encoding="utf-8")
    env = _environment(config, files)
    _tell_lost_coverage(config, env)
    child = launch(Order(command(files.request), env, files.log), new_tag())
    try:
        code = _awaited(child, timeout, live=_Copy(files.log, on=config.option.capture == "no"))
    finally:
        child.let_go()  # and whatever the test has left behind
    told = read(files.reports)
    if code is None:
        how, fine = (
            f"no end after {timeout:g} s ({MARK}(timeout=...) sets another limit), so it was killed",
            False,
        )
    else:
        how, fine = exit_words(code), code in _IN_ORDER
    return End(how=how, fine=fine, **told._asdict(), log=_tail(files.log, env))


def command(request_file: Path) -> list[str]:
    """Return the command line of the process: this interpreter, as strict and as optimised as it is here."""
    warnings = [f"-W{option}" for option in sys.warnoptions]
    optimised = ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []
    # -P: the script's folder is no place to import from
    return [sys.executable, "-P", *optimised, *warnings, str(SCRIPT), str(request_file)]


def request(item: pytest.Item, files: Files) -> dict[str, Any]:
    """Return all that the process has to know, as it stands in its request file."""
    config = item.config
    args = [str(word) for word in config.invocation_params.args]
    if hasattr(config.option, "no_cov"):
        args.append(
            "--no-cov"
        )  # it would erase the data of this session; coverage itself measures the process
    _, separator, inside = item.nodeid.partition("::")
    return {
        "args": [*args, f"--basetemp={files.temporary}"],
        "nodeid": item.nodeid,
        "target": f"{item.path}{separator}{inside}",
        "path": list(sys.path),
        "argv": list(sys.argv),
        "folder": str(config.invocation_params.dir),
        "reports": str(files.reports),
        "options": {
            name: value for name in _SAME if (value := getattr(config.option, name, None)) is not None
        },
    }


def _files(config: pytest.Config) -> Files:
    place = folder(config)
    names = ("request.json", "reports.jsonl", "log.txt", "inventory.json", "tmp")
    return Files(*(place / name for name in names))


def _environment(config: pytest.Config, files: Files) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    if settings_of(config).inventory_path is None:
        # The devices are known: nobody asks a driver again. What the process sees of them is the environment's business.
        document = {
            key: value for key, value in machine_of(config).inventory.to_json().items() if key != "visible"
        }
        files.inventory.write_text(json.dumps(document), encoding="utf-8")
        env[_INVENTORY] = str(files.inventory)
    return env


def _tell_lost_coverage(config: pytest.Config, env: Mapping[str, str]) -> None:
    notes = notes_of(config)
    if _LOST not in notes and measuring() is not None and not any(env.get(name) for name in STARTERS):
        notes.append(_LOST)


def _awaited(child: Child, timeout: float, *, live: _Copy) -> int | None:
    """Return the exit code, None when the time was over; the log then says where each thread was."""
    deadline = time.monotonic() + timeout
    while (code := child.exit_code()) is None:
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGABRT)  # pytest's faulthandler answers with the tracebacks
            _until_gone(child)
            live.go_on()
            return None
        live.go_on()
        time.sleep(_LOOK_EVERY_S)
    live.go_on()
    return code


def _until_gone(child: Child) -> None:
    deadline = time.monotonic() + _TRACEBACK_S
    while child.exit_code() is None and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)


class _Copy:
    """Shows what the process prints while it prints it, where nothing is captured here (``-s``)."""

    def __init__(self, path: Path, *, on: bool) -> None:
        self._path, self._on, self._at = path, on, 0

    def go_on(self) -> None:
        if not self._on or not self._path.exists():
            return
        with self._path.open("rb") as log:
            log.seek(self._at)
            text = log.read()
        self._at += len(text)
        sys.stdout.write(text.decode(errors="replace"))
        sys.stdout.flush()


def _tail(path: Path, env: Mapping[str, str]) -> str:
    from omni_hardware.processes import log_tail

    return readable(log_tail(path, _LOG_LINES, secrets=secret_values(env)))


def readable(log: str) -> str:
    """Return *log* without the lines of pytest's own calls in a traceback of faulthandler."""
    return "\n".join(line for line in log.splitlines() if not _FRAME.match(line))
