"""Leases on cards, shared by the workers of one run through a file in a folder that they share.

The file is read and replaced under one lock that is held for that only; what a killed worker left in it is dropped
by whoever looks next. No wait is without end, and every wait can say who holds what.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omni_hardware.errors import InfrastructureError, InputError
from pytest_omni.cards.lease_table import Holder, Lease, Request, Table

LIMIT_VARIABLE = "OMNI_LEASE_TIMEOUT"
_LIMIT_S = 1800.0  # a server of another module may have to start, serve its tests and stop first
_LOCK_S = 60.0  # the lock is held for one read and one write of a small file
_LOOK_EVERY_S = (0.02, 0.2)  # at first, and after a second
_SAY_AFTER_S = 15.0
_SAY_EVERY_S = 60.0
_SAME_START_S = 2.0  # two readings of one process's start differ when the clock is set

Say = Callable[[str], None]


class LeaseError(InfrastructureError):
    """The cards that an item needs are not to be had; the message names who has them."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What an item wants: *count* of *allowed* (best first) with *must* among them; *need* is how people say it."""

    what: str
    need: str
    count: int
    allowed: tuple[int, ...]
    must: tuple[int, ...] = ()


class LeaseBook:
    """The leases of one run, seen by one process of it.

    folder: shared by the run's processes. names: what people call each card, by its position.
    """

    def __init__(self, folder: Path, worker: str, names: Sequence[str]) -> None:
        self._folder = folder
        self._worker = worker
        self._names = tuple(names)

    def take(self, ask: Ask, *, limit_s: float, say: Say | None = None) -> Lease:
        """Return a lease on *ask*'s cards, all of them at once; wait in line for *limit_s* seconds at most.

        *say* hears who holds what while a wait is long. Raises LeaseError after the limit, at once if it is 0.
        """
        request = Request(os.urandom(8).hex(), self._me, ask.what, ask.count, ask.allowed, ask.must)
        if len({*ask.allowed, *ask.must}) < ask.count:
            cards = "card" if len(self._names) == 1 else "cards"
            raise LeaseError(
                f"{ask.what} needs {ask.need}; this run has {len(self._names)} {cards}, "
                f"{len({*ask.allowed, *ask.must})} of them to choose from"
            )
        try:
            lease = self._wait(request, ask, limit_s, say)
        except BaseException:  # Ctrl-C and SIGTERM too: nobody may stand in line and not look any more
            self._drop(request.id)
            raise
        if lease is None:
            problem = self._refusal(ask, request, limit_s)
            self._drop(request.id)
            raise LeaseError(problem)
        return lease

    def give_back(self, lease: Lease) -> None:
        """Release all cards of *lease*; no error when it is not there any more."""
        self._drop(lease.id)

    def leases(self) -> tuple[Lease, ...]:
        """Return the leases of living processes."""
        with self._table() as edit:
            return edit.table.leases

    @functools.cached_property
    def _me(self) -> Holder:
        import psutil

        return Holder(self._worker, os.getpid(), psutil.Process().create_time())

    def _wait(self, request: Request, ask: Ask, limit_s: float, say: Say | None) -> Lease | None:
        began, said = time.monotonic(), _SAY_AFTER_S
        while (lease := self._try(request, queue=limit_s > 0)) is None:
            waited = time.monotonic() - began
            if waited >= limit_s:
                break
            if say is not None and waited >= said:
                said = waited + _SAY_EVERY_S
                say(f"{ask.what} waits for {ask.need} ({waited:.0f} s): {self._in_the_way(request)}")
            time.sleep(min(_LOOK_EVERY_S[waited > 1], limit_s - waited))
        return lease

    def _try(self, request: Request, *, queue: bool) -> Lease | None:
        with self._table() as edit:
            edit.table, lease = edit.table.granting(request, now=time.time(), queue=queue)
            return lease

    def _drop(self, entry: str) -> None:
        with self._table() as edit:
            edit.table = edit.table.without(entry)

    def _refusal(self, ask: Ask, request: Request, waited: float) -> str:
        after = f" after {waited:g} s ({LIMIT_VARIABLE} sets another limit)" if waited else ""
        return f"{ask.what} needs {ask.need} and got none{after}: {self._in_the_way(request)}"

    def _in_the_way(self, request: Request) -> str:
        with self._table() as edit:
            table = edit.table
        rows = [self._row(lease) for lease in table.in_the_way(request)]
        line = [other.what for other in table.waiting if other.id != request.id]
        if line:
            rows.append(f"also waiting: {', '.join(line)}")
        return "; ".join(rows) or "they became free this moment"

    def _row(self, lease: Lease) -> str:
        cards = ", ".join(self._names[card] if card < len(self._names) else str(card) for card in lease.cards)
        seconds = max(0.0, time.time() - lease.since)
        who = f"{lease.holder.worker} (pid {lease.holder.pid})"
        return f"{who} holds {cards} for {lease.what} since {seconds:.0f} s"

    @contextmanager
    def _table(self) -> Iterator[_Edit]:
        """Yield the table of the living, to read or to replace; nobody else reads or writes meanwhile."""
        import filelock

        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / "leases.json"
        try:
            with filelock.FileLock(self._folder / "leases.lock", timeout=_LOCK_S):
                before = _read(path)
                edit = _Edit(before.alive(self._is_alive))
                yield edit
                if edit.table != before:
                    _write(path, edit.table)
        except filelock.Timeout as error:
            raise InfrastructureError(
                f"{self._folder / 'leases.lock'} is held since {_LOCK_S:.0f} s; a stopped process of this run has it"
            ) from error

    def _is_alive(self, holder: Holder) -> bool:
        return holder == self._me or process_lives(holder.pid, holder.started)


@dataclass(slots=True)
class _Edit:
    table: Table


def limit_of(environ: Mapping[str, str]) -> float:
    """Return how many seconds an item may wait for its cards; InputError for what is no number of seconds."""
    text = environ.get(LIMIT_VARIABLE)
    if not text:
        return _LIMIT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise InputError(f"{LIMIT_VARIABLE}={text!r} is no number of seconds, such as 1800")
    return seconds


def process_lives(pid: int, started: float) -> bool:
    """Return whether the process *pid* that started then still runs; a zombie and a reused pid do not."""
    import psutil

    from omni_hardware.processes import is_alive

    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - started) < _SAME_START_S and is_alive(process)
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False
    except psutil.AccessDenied:
        return True  # somebody is there, and only its death would free the cards


def _read(path: Path) -> Table:
    try:
        document = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return Table()
    return Table(
        tuple(Lease(**_entry(row, "cards")) for row in document["leases"]),
        tuple(Request(**_entry(row, "allowed", "must")) for row in document["waiting"]),
    )


def _entry(row: dict[str, Any], *tuples: str) -> dict[str, Any]:
    return {**row, "holder": Holder(**row["holder"]), **{name: tuple(row[name]) for name in tuples}}


def _write(path: Path, table: Table) -> None:
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(asdict(table)), "utf-8")
    fresh.replace(path)  # whoever is killed half way leaves the old table
