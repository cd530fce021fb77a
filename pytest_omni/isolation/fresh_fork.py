"""A fork of this process that runs one test; only while no accelerator's runtime runs here.

"Cannot re-initialize CUDA in forked subprocess" tells nobody who initialised it, so it is said before (vllm#47446).
What a fork inherits belongs to this process: fixtures that live here are used there, and torn down here only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Literal, NoReturn

import pytest

from omni_hardware.errors import InputError
from pytest_omni.cards import runtime_witness
from pytest_omni.isolation import fresh_run
from pytest_omni.isolation.fresh_process import MARK
from pytest_omni.isolation.fresh_reports import append, read, report_file, serialised
from pytest_omni.isolation.fresh_run import End
from pytest_omni.servers.lifelines import ParentWatch
from pytest_omni.servers.starting import exit_words

_LOOK_EVERY_S = 0.01
_GRACE_S = 1.0
_OURS = "omni-"  # plugins of ours: what they do around a test was done before the fork
_STATE = "_setupstate"  # private; the one thing here that pytest has no public word for
_When = Literal["setup", "call", "teardown"]


class _Parts:
    """Writes down what is reported while a phase runs: subtests."""

    def __init__(self, config: pytest.Config, reports: Path) -> None:
        self._config, self._reports = config, reports

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        append(self._reports, {"report": serialised(self._config, report)})


def run(item: pytest.Item, *, timeout: float) -> End:
    """Return how the fork of *item* ended; InputError where a fork cannot work, with who is to blame."""
    if refused := refusal(item):
        raise InputError(refused)
    reports = report_file(item.config)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of threads; the fork uses none of them
        pid = os.fork()
    if pid == 0:
        _become(item, reports)
    try:
        code = _awaited(pid, timeout)
    finally:
        _end(pid)
    told = read(reports)._asdict()
    if code is None:
        how = f"no end after {timeout:g} s ({MARK}(timeout=...) sets another limit), so it was killed"
        return End(how=how, fine=False, **told)
    return End(how=exit_words(code), fine=code == 0, **told)


def refusal(item: pytest.Item) -> str:
    """Return why *item* must not run in a fork of this process, "" where it may."""
    if not hasattr(os, "fork") or not hasattr(item.session, _STATE):
        return f"{MARK}(method='fork') works with neither this system nor this pytest; leave method out"
    seen = runtime_witness.look(item.config, item.nodeid)
    what = seen.what if seen else runtime_witness.running()
    if not what:
        return ""
    by = f"since {seen.by}" if seen else "already"
    return (
        f"{MARK}(method='fork'): {what} in this process {by}, and it does not work in a fork of it. "
        "Leave method out, which starts a new process, or start the runtime inside of tests only"
    )


def _become(item: pytest.Item, reports: Path) -> NoReturn:
    """Run *item* and leave: nothing of the session that was forked may go on here."""
    code = 3
    try:
        os.setsid()
        ParentWatch(lambda: os.killpg(0, signal.SIGKILL)).install()
        _detach(item)
        item.config.pluginmanager.register(_Parts(item.config, reports))
        _report_phases(item, reports)
        code = 0
    except BaseException as error:  # noqa: BLE001 there is nobody above who should see it
        append(reports, {"said": f"pytest failed inside it: {type(error).__name__}: {error}"})
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _detach(item: pytest.Item) -> None:
    """Give the test its code back, and a state in which only what is set up from now on is torn down."""
    fresh_run.release(item)
    manager = item.config.pluginmanager
    ours = [plugin for name, plugin in manager.list_name_plugin() if name.startswith(_OURS) and plugin]
    # terminal, xdist's worker, reports on disk: out there they hear of everything, in here of subtests too
    listeners = [impl.plugin for impl in manager.hook.pytest_runtest_logreport.get_hookimpls()]
    for plugin in (*ours, *(plugin for plugin in listeners if not isinstance(plugin, ModuleType))):
        if manager.is_registered(plugin):
            manager.unregister(plugin)
    setattr(item.session, _STATE, type(getattr(item.session, _STATE))())


def _report_phases(item: pytest.Item, reports: Path) -> None:
    hook = item.ihook
    if _phase(item, reports, "setup", lambda: hook.pytest_runtest_setup(item=item)):
        _phase(item, reports, "call", lambda: hook.pytest_runtest_call(item=item))
    _phase(item, reports, "teardown", lambda: hook.pytest_runtest_teardown(item=item, nextitem=None))


def _phase(item: pytest.Item, reports: Path, when: _When, run_it: Callable[[], object]) -> bool:
    call = pytest.CallInfo.from_call(run_it, when=when)
    report = item.ihook.pytest_runtest_makereport(item=item, call=call)
    append(reports, {"report": serialised(item.config, report)})
    return bool(report.passed)


def _awaited(pid: int, timeout: float) -> int | None:
    deadline = time.monotonic() + timeout
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            return None
        time.sleep(_LOOK_EVERY_S)


def _end(pid: int) -> None:
    """End what is left of the fork and its group, and reap it."""
    from omni_hardware.processes import stop

    stop(pid, grace_s=_GRACE_S)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
