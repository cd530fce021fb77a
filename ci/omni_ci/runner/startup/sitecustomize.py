# ruff: noqa: INP001 - a folder for PYTHONPATH, and no package
"""Read by every Python of a ROCm job as it starts: gives it a MIOpen database that no process beside it writes.

Slots, each held by a lock as long as its process lives: processes one after another share the first slot, and what
it has learnt; processes side by side have one each. Nothing here may fail: it would be any Python's failure.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import sys

_SLOTS = "OMNI_MIOPEN_SLOTS"
_AT_MOST = 256
_held: list[int] = []


def _take_slot(folder: str) -> None:
    for number in range(_AT_MOST):
        slot = os.path.join(folder, str(number))  # noqa: PTH118 - pathlib would cost every start 5 ms
        os.makedirs(slot, exist_ok=True)  # noqa: PTH103
        lock = os.open(f"{slot}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            continue
        _held.append(lock)  # open until the process ends; what it starts does not inherit it
        os.environ["MIOPEN_USER_DB_PATH"] = slot
        return


def _next_one() -> None:
    """Import the module of this name that we stand before, if there is one."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    others = [entry for entry in sys.path if os.path.abspath(entry) != here]  # noqa: PTH100
    ours, before = sys.modules.pop(__name__, None), sys.path[:]
    sys.path[:] = others
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.path[:] = before
        if ours is not None:
            sys.modules.setdefault(__name__, ours)


if _SLOTS in os.environ:
    with contextlib.suppress(OSError):
        _take_slot(os.environ[_SLOTS])
_next_one()
