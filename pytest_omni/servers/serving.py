"""From a test's parameters to a running server: run level, devices, command, memory around it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from omni_hardware.errors import InputError, OmniError
from pytest_omni.servers.params import OmniServer, OmniServerParams, environment, shown_command
from pytest_omni.session import is_worker, servers_of, started_servers
from pytest_omni.usage import HOOK

if TYPE_CHECKING:
    from pytest_omni.weights import Patched

_THROUGH = "a client needs {0} in the same test: write both as arguments of the test, or {0} in usefixtures. "
SERVER_FIXTURES = ("omni_server_function", "omni_server")


def serve(request: pytest.FixtureRequest, factory: pytest.TempPathFactory) -> Iterator[OmniServer]:
    """Yield a running server for the fixture behind *request*; what goes wrong is that test's error, in words."""
    __tracebackhide__ = True
    problem = ""
    try:
        with _served(request, factory) as server:
            yield server
    except OmniError as error:
        problem = str(error)
    if problem:  # outside the handler, or pytest prints it twice as cause and effect
        pytest.fail(problem, pytrace=False)


def require_alive(item: pytest.Item) -> None:
    """Fail *item* where a server that it was given has ended: each of its requests could only fail by itself."""
    servers = started_servers(item.config)
    if servers is None:
        return
    given: dict[str, Any] = getattr(item, "funcargs", {})
    for name in SERVER_FIXTURES:
        if name in given and (told := servers.end_of(given[name])):
            pytest.fail(told, pytrace=False)


def asked_params(request: pytest.FixtureRequest) -> OmniServerParams:
    """Return the fixture's indirect parameter; InputError when there is none, or another thing."""
    params, name = getattr(request, "param", None), request.fixturename
    if not isinstance(params, OmniServerParams):
        got = "none" if params is None else f"{type(params).__name__}"
        by = "" if name in getattr(current_item(request), "fixturenames", (name,)) else _THROUGH.format(name)
        raise InputError(
            f"{by}{name} needs an indirect OmniServerParams, got {got}: "
            f'@pytest.mark.parametrize("{name}", [OmniServerParams(model=...)], indirect=True)'
        )
    return params


def current_item(request: pytest.FixtureRequest) -> pytest.Item:
    """Return the test that makes pytest set this fixture up; of a module's fixture, the first of its tests."""
    # Private, but a fixture of a module has no public way to the test; without it, the node of the scope must do.
    item: pytest.Item = getattr(request, "_pyfuncitem", request.node)
    return item


def prepared(request: pytest.FixtureRequest, params: OmniServerParams, folder: Path) -> Patched:
    """Return *params* with the weights of this run level, and why these; files that takes are written to *folder*."""
    from pytest_omni import weights
    from pytest_omni.arming import arming_of
    from pytest_omni.reporting.ledger import ledger_of
    from pytest_omni.run_level import level_of

    config, item = request.config, current_item(request)
    marks = {mark.name for mark in item.iter_markers()}

    def tiny(model: str) -> str | None:
        found: str | None = item.ihook.pytest_omni_tiny_model(config=config, model=model)
        return found

    levels = arming_of(config).vocabulary.levels
    patched = weights.patched(params, level_of(config).name, marks, tiny, levels=levels)
    ledger = ledger_of(config)
    ledger.weights = weights.deepest({patched.weights.value, *filter(None, [ledger.weights])})
    return replace(patched, params=patched.written(folder))


@contextmanager
def _served(request: pytest.FixtureRequest, factory: pytest.TempPathFactory) -> Iterator[OmniServer]:
    from pytest_omni.cards.devices import granted
    from pytest_omni.servers.ports import lock_folder
    from pytest_omni.servers.progress import ServerProgress
    from pytest_omni.servers.running import Plan

    __tracebackhide__ = True  # what a hook raises is shown; our locals hold the whole environment
    config, folder = request.config, factory.mktemp("omni-server")
    patched = prepared(request, asked_params(request), folder)
    params = patched.params
    servers = servers_of(config)
    with granted(request) as grant, _memory_around(request, grant.devices, params) as pids:
        base = grant.environ(os.environ)
        plan = Plan(
            params=params,
            command=partial(_commands, request, params, base),
            base=base,
            folder=folder,
            ports=lock_folder(factory.getbasetemp(), is_worker=is_worker(config)),
            weights=patched.weights.value,
            because=patched.because,
        )
        with servers.served(plan, ServerProgress(config, params.model, plan.weights)) as (server, running):
            pids.append(running)
            yield server


@contextmanager
def _memory_around(
    request: pytest.FixtureRequest, devices: Sequence[Any], params: OmniServerParams
) -> Iterator[list[Any]]:
    """Look at the memory of *devices* before and after; yields the list that takes the running server."""
    running: list[Any] = []
    if not devices:
        yield running
        return
    from omni_hardware.probes import process_memory
    from pytest_omni.machine import machine_of
    from pytest_omni.selection.items import need_of
    from pytest_omni.servers import gpu_memory

    item, inventory = current_item(request), machine_of(request.config).inventory
    need = need_of(item)
    check = gpu_memory.Check(
        devices=devices,
        query=lambda: process_memory(inventory),
        where=item.nodeid,
        need_mib=need.min_memory_mib if need else None,
    )
    gpu_memory.require_room(check, own=gpu_memory.own_pids(servers_of(request.config).pids()))
    yield running
    ours = {pid for server in running for pid in server.seen()}
    gpu_memory.require_returned(check, ours=ours, limit_s=params.memory_timeout)


def _commands(
    request: pytest.FixtureRequest, params: OmniServerParams, base: Mapping[str, str], port: int
) -> list[list[str]]:
    __tracebackhide__ = True
    # ihook: a conftest beside the test file is asked before one above it
    found: Any = current_item(request).ihook.pytest_omni_server_command(
        config=request.config, params=params, port=port
    )
    if found is None:
        raise InputError(f"no {HOOK} hook returned a command for {params}; return a list of strings for it")
    rows = list(found) if _is_row(found) and found and all(map(_is_row, found)) else [found]
    for row in rows:
        if problem := _not_command(row):
            words = row if _is_row(row) else str(row).split()
            got = f"{type(row).__name__} {shown_command(words, environment(base, params))}".rstrip()
            raise InputError(
                f"{HOOK} must return a non-empty list of strings for {params} (or a list of such lists), "
                f"got {got}: {problem}"
            )
    return [list(row) for row in rows]


def _is_row(found: object) -> bool:
    return isinstance(found, list | tuple)


def _not_command(row: Any) -> str:
    """Return what is wrong with one command line, "" if it is one."""
    if not _is_row(row):
        return "that is no list"
    if not row:
        return "it has no words"
    odd = next(((at, word) for at, word in enumerate(row) if not isinstance(word, str)), None)
    return (
        ""
        if odd is None
        else f"[{odd[0]}] is no string but {type(odd[1]).__name__}; write str(...) around it"
    )
