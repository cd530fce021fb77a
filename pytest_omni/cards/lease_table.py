"""Who has which cards and who waits for some: a frozen value, and the one decision about it. No file, no clock here.

Cards are positions in the caller's list of devices, the same in every worker of a run. Two rules keep it free of
deadlock: all cards of a lease are given at once or none is, and nobody who waits holds anything (who holds some asks
with a request that never enters the queue). A third keeps it fair: free cards gather for whoever waits longest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Holder:
    """One process of the run. started: its start in seconds since the epoch, since a pid alone may be reused."""

    worker: str
    pid: int
    started: float


@dataclass(frozen=True, slots=True)
class Request:
    """*count* of the cards in *allowed* (best first), all of *must* among them, for *what* (a node id)."""

    id: str
    holder: Holder
    what: str
    count: int
    allowed: tuple[int, ...]
    must: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Lease:
    """Cards that one process has for itself; since: seconds since the epoch."""

    id: str
    holder: Holder
    what: str
    cards: tuple[int, ...]
    since: float


@dataclass(frozen=True, slots=True)
class Table:
    """All leases of a run, and the requests that wait, the oldest first."""

    leases: tuple[Lease, ...] = ()
    waiting: tuple[Request, ...] = ()

    @property
    def taken(self) -> frozenset[int]:
        """The cards that somebody has."""
        return frozenset(card for lease in self.leases for card in lease.cards)

    def granting(self, request: Request, *, now: float, queue: bool) -> tuple[Table, Lease | None]:
        """Return the table after *request*, and its lease if there was one to give.

        queue: wait in line, behind the older ones; else take what is free or leave no trace.
        """
        cards = _cards_for(self, request, queue=queue)
        if cards is not None:
            lease = Lease(request.id, request.holder, request.what, cards, now)
            return replace(self.without(request.id), leases=(*self.leases, lease)), lease
        if queue and request.id not in {other.id for other in self.waiting}:
            return replace(self, waiting=(*self.waiting, request)), None
        return self, None

    def without(self, *ids: str) -> Table:
        """Return the table without the leases and requests of these ids."""
        return self._keeping(lambda entry: entry.id not in ids)

    def alive(self, is_alive: Callable[[Holder], bool]) -> Table:
        """Return the table without what dead processes left in it."""
        holders = {lease.holder for lease in self.leases} | {request.holder for request in self.waiting}
        dead = {holder for holder in holders if not is_alive(holder)}
        return self._keeping(lambda entry: entry.holder not in dead) if dead else self

    def in_the_way(self, request: Request) -> tuple[Lease, ...]:
        """Return the leases on cards that *request* could use."""
        wanted = {*request.allowed, *request.must}
        return tuple(lease for lease in self.leases if wanted & set(lease.cards))

    def _keeping(self, keep: Callable[[Lease | Request], bool]) -> Table:
        return Table(tuple(filter(keep, self.leases)), tuple(filter(keep, self.waiting)))


def _cards_for(table: Table, request: Request, *, queue: bool) -> tuple[int, ...] | None:
    taken = table.taken
    for older in table.waiting if queue else ():
        if older.id == request.id:
            break
        # what the older one can have now it takes at its next look; what is not enough for it yet gathers for it
        taken |= set(_order(older, taken)[: older.count])
    free = _order(request, taken)
    complete = len(free) >= request.count and set(request.must) <= set(free)
    return tuple(sorted(free[: max(request.count, len(request.must))])) if complete else None


def _order(request: Request, taken: Iterable[int]) -> list[int]:
    busy = set(taken)
    return [card for card in dict.fromkeys((*request.must, *request.allowed)) if card not in busy]
