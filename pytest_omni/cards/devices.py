"""The ``devices`` fixture, ``granted()`` for fixtures that start something, and the hooks that lease per item."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from omni_hardware.errors import OmniError
from pytest_omni.cards import holdings, shares, succession
from pytest_omni.cards.grant import Grant

__all__ = ["Grant", "devices", "granted"]


@contextmanager
def granted(request: pytest.FixtureRequest) -> Iterator[Grant]:
    """Yield the running item's devices, kept until the asking fixture's own end, whatever its scope.

    Enter it before what uses the devices starts, leave it when that has ended. Under xdist the item has leased its
    cards already; this keeps the lease as long as the fixture lives, and later items that need no more share it. A
    server of ours gets the part of the cards on which no other one lives (`shares`).
    """
    name = request.fixturename
    server = name if name in (*shares.SERVERS, *shares.ENGINES) else None
    planned = shares.planned_beside(request) if server in shares.SERVERS else 1
    with holdings.holdings_of(request.config).keeping(server, planned=planned) as grant:
        yield grant


@pytest.fixture
def devices(request: pytest.FixtureRequest) -> Iterator[Grant]:
    """The devices that this test has for itself: none for a CPU test, ``num_cards`` of them for any other.

    ``devices[0].uuid``, ``len(devices)``, and ``devices.environ()`` for a child process that shall see just these.
    """
    with granted(request) as grant:
        if grant.need is None:
            pytest.fail(
                f"{request.node.nodeid} asks for devices and declares no hardware; add @hardware_test(res={{...}}) "
                "or a platform's mark, so that it is given some",
                pytrace=False,
            )
        yield grant


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Lease the item's cards before its fixtures start, and after it may have been skipped."""
    problem = ""
    try:
        holdings.holdings_of(item.config).enter(item)
    except OmniError as error:
        problem = str(error)
    if problem:  # outside the handler, or pytest prints it twice as cause and effect
        pytest.fail(problem, pytrace=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Give the item's cards back when its last fixture is gone."""
    try:
        return (yield)
    finally:
        holdings.holdings_of(item.config).leave(item)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Let the worker that replaces a crashed one have its card."""
    if error:
        succession.fell(node.config, node.gateway.id)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hear which worker that is."""
    succession.started(node.config, node.gateway.id)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Give back what a broken tear-down left."""
    holdings.close(config)
    succession.forget()
