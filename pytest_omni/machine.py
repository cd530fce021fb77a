"""What this session decides from: the asked platform and a snapshot of the devices, the same in every worker.

The snapshot is taken before any conftest runs. What a conftest or a test then does to the environment changes no
decision, and nobody asks a driver twice (pytorch#95073, torchrec#4226).
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from omni_hardware.errors import InputError
from omni_hardware.inventory import NONE, Inventory, load_inventory
from omni_hardware.vocabulary import Vocabulary
from pytest_omni.arming import arming_of
from pytest_omni.options import AUTO, Settings, settings_of

if TYPE_CHECKING:
    from omni_hardware.expression import Expression

# What the controller of pytest-xdist hands to its workers; in the environment only while they are being started.
SNAPSHOT = "PYTEST_OMNI_SNAPSHOT"
_WORKER = "PYTEST_XDIST_WORKER"
CPU = "cpu"


@dataclass(frozen=True, slots=True)
class Machine:
    """The platform whose tests are asked for and why, the devices that are here, and ``-m`` as it was read."""

    asked: str
    because: str
    inventory: Inventory = NONE
    expression: Expression | None = None

    @property
    def detected(self) -> str:
        """Return the platform of this machine's devices; "cpu" where there are none."""
        return self.inventory.platform

    @property
    def problem(self) -> str | None:
        """Return why nothing can be decided here; a probe that failed is never "no devices"."""
        if self.inventory.error is None or self.asked == CPU:
            return None
        return (
            f"the {self.inventory.platform} devices of this machine could not be listed: {self.inventory.error}\n"
            "repair the driver, or give --omni-inventory FILE, or ask for --omni-platform cpu"
        )


_INVENTORY = pytest.StashKey[Inventory]()
_MACHINE = pytest.StashKey[Machine]()


def machine_of(config: pytest.Config) -> Machine:
    """Return the session's machine; pytest.UsageError for a bad setting, ``-m`` expression or inventory file."""
    if _MACHINE in config.stash:
        return config.stash[_MACHINE]
    inventory = inventory_of(config)
    asked, because = asked_platform(
        settings_of(config), positive_of(config), inventory.platform, arming_of(config).vocabulary
    )
    machine = Machine(asked, because, inventory, expression_of(config))
    if _is_parsed(config):  # before, a conftest may still change -m
        config.stash[_MACHINE] = machine
    return machine


def asked_platform(
    settings: Settings, positive: Collection[str], detected: str, vocabulary: Vocabulary
) -> tuple[str, str]:
    """Return the platform whose tests are asked for, and why: the setting, else what ``-m`` names, else detected."""
    if settings.platform != AUTO:
        return settings.platform, settings.sources.get("platform", "asked for")
    named = _named(positive, vocabulary)
    if len(named) == 1:
        ((platform, word),) = named.items()
        return platform, f"-m names {word}"
    return detected, f"detected; -m names {' and '.join(named)}" if named else "detected"


def contradiction(
    settings: Settings, positive: Collection[str], asked: str, vocabulary: Vocabulary
) -> str | None:
    """Return why the tests that ``-m`` names are not those of the *asked* platform, None where they may be."""
    named, row = _named(positive, vocabulary), vocabulary.platform(asked)
    if not named or not {asked, *(row.runs_items_of if row else ())}.isdisjoint(named):
        return None
    words = " and ".join(named.values())
    if settings.platform != AUTO:
        return f"-m names {words}, but {settings.sources.get('platform')} asks for {asked}: tests of one platform run"
    return f"-m names {words}, and only {asked} is here: choose one with --omni-platform"


def expression_of(config: pytest.Config) -> Expression | None:
    """Return ``-m`` as an expression, None without one; pytest.UsageError with the column where it cannot be read."""
    namespace = config.option if _is_parsed(config) else config.known_args_namespace
    text = str(getattr(namespace, "markexpr", "") or "")
    if not text.strip():
        return None
    from omni_hardware.expression import parse  # many a session has no -m

    try:
        return parse(text)
    except InputError as error:
        raise pytest.UsageError(f"-m {error}") from None


def positive_of(config: pytest.Config) -> frozenset[str]:
    """Return the names that ``-m`` asks for."""
    expression = expression_of(config)
    return expression.positive if expression else frozenset()


def inventory_of(config: pytest.Config) -> Inventory:
    """Return the snapshot of the devices: the controller's, else the file's, else a probe's; taken once."""
    if _INVENTORY not in config.stash:
        settings = settings_of(config)
        try:
            if SNAPSHOT in os.environ and _WORKER in os.environ:
                # out of the environment at once: a pytest that a test starts is no worker of ours
                config.stash[_INVENTORY] = _unpacked(os.environ.pop(SNAPSHOT))
            else:
                config.stash[_INVENTORY] = (
                    _probed(config) if settings.inventory_path is None else _read(config, settings)
                )
        except InputError as error:
            raise pytest.UsageError(str(error)) from None
    return config.stash[_INVENTORY]


def snapshot_at_load(config: pytest.Config) -> None:
    """Take the snapshot before a conftest runs, unless this run only shows pytest's own help."""
    asked = config.known_args_namespace
    if not (asked.help or asked.version):
        inventory_of(config)


def lend(config: pytest.Config) -> None:
    """Put the snapshot where a worker that is started now finds it."""
    inventory = inventory_of(config)
    os.environ[SNAPSHOT] = json.dumps({"source": inventory.source, "inventory": inventory.to_json()})


def take_back() -> None:
    """Remove the snapshot from the environment again."""
    os.environ.pop(SNAPSHOT, None)


@contextmanager
def lent(config: pytest.Config) -> Iterator[None]:
    """Lend the snapshot for as long as workers are being started."""
    lend(config)
    try:
        yield
    finally:
        take_back()


def _named(positive: Collection[str], vocabulary: Vocabulary) -> dict[str, str]:
    """Return each platform that is named, by itself or by a SKU, with the word that names it."""
    rows = vocabulary.platforms
    named = {row.name: [word for word in (row.name, *row.skus) if word in positive] for row in rows}
    return {name: words[0] for name, words in named.items() if words}


def _unpacked(text: str) -> Inventory:
    try:
        sent = json.loads(text)
        return Inventory.from_json(sent["inventory"], where=SNAPSHOT, source=sent["source"])
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{SNAPSHOT}: not what a controller writes there ({error}); unset the variable"
        ) from error


def _read(config: pytest.Config, settings: Settings) -> Inventory:
    assert settings.inventory_path is not None
    try:
        return load_inventory(
            settings.inventory_path, environ=os.environ, vocabulary=arming_of(config).vocabulary
        )
    except InputError as error:  # a variable may be forgotten by whoever reads this
        source = settings.sources["inventory_path"]
        raise InputError("\n".join(f"{source}: {line}" for line in str(error).splitlines())) from None


def _probed(config: pytest.Config) -> Inventory:
    from omni_hardware.probes import probe  # only where there is no file

    vocabulary = arming_of(config).vocabulary
    asked = asked_platform(settings_of(config), positive_of(config), AUTO, vocabulary)[0]
    if asked not in {AUTO, CPU}:
        # a machine may have devices of two platforms: the asked one is looked for first
        found = probe(os.environ, platform=asked, vocabulary=vocabulary)
        if found.devices or found.error:
            return found
    return probe(os.environ, vocabulary=vocabulary)


def _is_parsed(config: pytest.Config) -> bool:
    return hasattr(config.option, "file_or_dir")
