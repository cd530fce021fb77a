"""Which of an item's cards each of its servers gets: one card serves one server, and a second one is no surprise.

Servers side by side divide the cards of their item. A module's server leaves a part to every other server that a test
of the module asks for, whichever test comes first. An engine in this process leaves none: it sees every card of its item,
and nobody can take one away from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pytest

from omni_hardware.errors import InputError
from omni_hardware.requirements import Need
from pytest_omni.cards.grant import Grant

# What they start does the work, with an environment of its own.
SERVERS = ("omni_server", "omni_server_function")
# They do it in this process.
ENGINES = ("omni_runner", "omni_runner_function")


@dataclass(frozen=True, slots=True)
class Tenant:
    """A server or an engine that lives: *fixture* started it for *what* (a node id), on *cards*, positions in the caller's list."""

    fixture: str
    what: str
    cards: tuple[int, ...]


def servers_in(item: pytest.Item) -> tuple[str, ...]:
    """Return the server fixtures that *item* asks for by name; what it asks for while it runs cannot be known."""
    names = getattr(item, "fixturenames", ())
    return tuple([fixture for fixture in SERVERS if fixture in names])


def engines_in(item: pytest.Item) -> tuple[str, ...]:
    """Return the engine fixtures that *item* asks for by name."""
    names = getattr(item, "fixturenames", ())
    return tuple([fixture for fixture in ENGINES if fixture in names])


def require_one_each(nodeid: str, need: Need, servers: Sequence[str], engines: Sequence[str] = ()) -> None:
    """Raise InputError where *servers* are more than the cards of *need*, or beside *engines*; before anything starts."""
    if need.cards and servers and engines:
        raise InputError(
            f"{nodeid} asks for {' and '.join((*engines, *servers))} at once and needs {need}: an engine in this process "
            "sees every card of the test, so that none is left for a server. Ask for them in two tests of two modules, "
            "or serve both models"
        )
    if need.cards and len(servers) > need.cards:
        raise InputError(
            f"{nodeid} asks for {' and '.join(servers)} at once and needs {need}: one card serves one server. "
            f"Declare num_cards={len(servers)}, and each gets a part of the cards; or ask for one of them"
        )


def share(grant: Grant, fixture: str, tenants: Iterable[Tenant], *, what: str, planned: int) -> Grant:
    """Return the part of *grant* for the server or engine that *fixture* starts, beside *tenants*.

    planned: servers, this one among them, that the cards without tenants are to serve; the last one gets all that is
    left. An engine gets all or nothing, and minds no other engine. Raises InputError where no card is left.
    """
    if not len(grant):
        return grant
    if fixture in ENGINES:
        _require_no_server(grant, fixture, tenants, what)
        return grant
    owners = {card: tenant for tenant in tenants for card in tenant.cards}
    free = [number for number, card in enumerate(grant.positions) if card not in owners]
    if not free:
        first = owners[grant.positions[0]]
        if first.fixture in ENGINES:
            raise InputError(_beside_engine(what, fixture, first, grant))
        cards = ", ".join(f"{device.label} {device.uuid}" for device in grant)
        raise InputError(
            f"{what} asks for {fixture}, and {first.fixture} of {first.what} lives on all of its cards ({cards}): one "
            f"card serves one server. Put the test into another module; or name both servers among its arguments and "
            f"declare num_cards={len(grant) + 1}, and each gets a part of the cards"
        )
    return grant.only(*free[: max(1, len(free) // max(1, planned))])


def planned_beside(request: pytest.FixtureRequest) -> int:
    """Return how many servers a test asks for at once that uses the server behind *request*; the most of all tests."""
    if request.scope == "function":
        return 1
    users = [
        item for item in request.session.items if request.fixturename in getattr(item, "fixturenames", ())
    ]
    here = [item for item in users if request.node in item.listchain()]
    return max((len(servers_in(item)) for item in here), default=1)


def _require_no_server(grant: Grant, fixture: str, tenants: Iterable[Tenant], what: str) -> None:
    for tenant in tenants:
        if tenant.fixture in SERVERS and not set(tenant.cards).isdisjoint(grant.positions):
            raise InputError(_beside_engine(what, fixture, tenant, grant))


def _beside_engine(what: str, fixture: str, tenant: Tenant, grant: Grant) -> str:
    cards = ", ".join(
        f"{device.label} {device.uuid}"
        for card, device in zip(grant.positions, grant, strict=True)
        if card in tenant.cards
    )
    return (
        f"{what} asks for {fixture}, and {tenant.fixture} of {tenant.what} lives on {cards}: an engine in this process "
        "sees every card of its test, so that it shares none with a server. Put the test into another module"
    )
