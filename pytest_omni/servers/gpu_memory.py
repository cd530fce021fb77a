"""Device memory around a server: nobody else's in the way before, none of its own left behind after.

Only memory that a vendor's tool attributes to a process counts. What this pytest holds itself is never waited for:
only its own end would free it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omni_hardware.errors import InfrastructureError

if TYPE_CHECKING:
    from omni_hardware.inventory import Device, ProcessMemory

Query = Callable[[], Sequence["ProcessMemory"]]

_TOLERATED = 0.10  # of a card, where the test states no need: what a desktop or a monitor takes
_TOLERATED_MIB = 1024  # where the card's size is not known
_LOOK_EVERY_S = 1.0
_SHOWN_AT_MOST = 8


class GpuMemoryError(InfrastructureError):
    """Device memory is taken by others, or was not given back; the message names pids and sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What to look at: the server's *devices*, and how to ask. where: the test that wants it. need_mib: a device."""

    devices: Sequence[Device]
    query: Query
    where: str
    need_mib: int | None = None


def refusal(check: Check, rows: Iterable[ProcessMemory], *, own: Collection[int]) -> str | None:
    """Return why a server of ours would not fit beside what foreign processes hold, or None."""
    found = list(rows)
    told: list[str] = []
    for device in check.devices:
        if device.mig is not None:  # tools count by card: which of its instances is in use, they do not say
            continue
        theirs = [row for row in found if row.index == device.index and row.pid not in own]
        used, allowed = sum(row.used_mib for row in theirs), _allowed(device, check.need_mib)
        if used > allowed:
            size = "" if device.memory_mib is None else f" of {device.memory_mib}"
            told.append(
                f"device {device.index} ({device.label}): {used}{size} MiB are held by {_rows(theirs)}; "
                f"{check.where} leaves room for {allowed} MiB"
            )
    return "\n".join(told) or None


def require_room(check: Check, *, own: Collection[int]) -> None:
    """Raise GpuMemoryError when foreign processes hold more of the devices than the test leaves them."""
    if check.devices and (why := refusal(check, check.query(), own=own)):
        raise GpuMemoryError(f"no server is started beside foreign processes:\n{why}")


def require_returned(
    check: Check,
    *,
    ours: Collection[int],
    limit_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> float:
    """Return after how many seconds the memory of *ours* was given back; GpuMemoryError after *limit_s*.

    A driver may free it lazily, seconds after the process has ended (vllm#49242).
    """
    if not check.devices or not ours:
        return 0.0
    began = clock()
    while left := held_by(ours, rows := check.query(), check.devices):
        waited = clock() - began
        if waited >= limit_s:
            foreign = [row for row in rows if row not in left and _is_on(row, check.devices)]
            others = f"; foreign processes there, not waited for: {_rows(foreign)}" if foreign else ""
            raise GpuMemoryError(
                f"the server of {check.where} has ended, but {waited:.0f} s later its device memory is not given "
                f"back: {_rows(left)}{others}"
            )
        sleep(min(_LOOK_EVERY_S, max(0.0, limit_s - waited)))
    return clock() - began


def held_by(
    pids: Collection[int], rows: Iterable[ProcessMemory], devices: Iterable[Device]
) -> list[ProcessMemory]:
    """Return what *pids* hold on *devices*."""
    known = list(devices)
    return [row for row in rows if row.pid in pids and row.used_mib > 0 and _is_on(row, known)]


def own_pids(servers: Collection[int]) -> frozenset[int]:
    """Return the pids that are no strangers: this process, its children, the workers beside it, and *servers*."""
    import os

    from omni_hardware.processes import descendants

    # a worker of pytest-xdist is a child of the controller, whose other workers have servers of their own
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    roots = (os.getpid(), *((os.getppid(),) if is_worker else ()))
    below = {row.pid for root in roots for row in descendants(root)}
    return frozenset({*roots, *below, *servers})


def _allowed(device: Device, need_mib: int | None) -> int:
    if device.memory_mib is None:
        return _TOLERATED_MIB
    return int(device.memory_mib * _TOLERATED) if need_mib is None else max(0, device.memory_mib - need_mib)


def _is_on(row: ProcessMemory, devices: Iterable[Device]) -> bool:
    return any(row.index == device.index for device in devices)


def _rows(rows: Sequence[ProcessMemory]) -> str:
    shown = ", ".join(
        f"pid {row.pid}{_program(row.pid)} {row.used_mib} MiB on device {row.index}"
        for row in rows[:_SHOWN_AT_MOST]
    )
    return shown + (f" and {len(rows) - _SHOWN_AT_MOST} more" if len(rows) > _SHOWN_AT_MOST else "")


def _program(pid: int) -> str:
    import psutil

    try:
        return f" ({psutil.Process(pid).name()})"
    except psutil.Error:
        return ""
