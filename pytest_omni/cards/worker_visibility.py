"""What the process of an xdist worker sees: its own card from the start, a lease's cards while it has one.

CUDA_VISIBLE_DEVICES and its kin are read when the accelerator's runtime starts, at the latest by the first conftest
that imports torch; so a worker is narrowed at load, before any conftest. The controller is never narrowed: workers
inherit its environment. Worker k sees the k-th entry of the caller's own list, and workers beyond the list see none. A worker that replaces a
crashed one sees that one's entry.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

import pytest

from omni_hardware.inventory import Inventory
from pytest_omni.cards.succession import place_of
from pytest_omni.machine import SNAPSHOT, inventory_of

WORKER, RUN = "PYTEST_XDIST_WORKER", "PYTEST_XDIST_TESTRUNUID"
# The caller's variables as they were, for a child that wants to know what this worker was narrowed from.
CALLER = "PYTEST_OMNI_CALLER"
# What to set beside the list. torch.cuda.is_available(), asked at import by many a conftest, would start the driver
# and so decide once and for all what this process sees; asked of NVML it does not.
_BESIDE: Mapping[str, Mapping[str, str]] = {"cuda": {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}}
_VIEW = pytest.StashKey["WorkerView | None"]()


@dataclass(frozen=True, slots=True)
class Pin:
    """Cards that this process is bound to, since its accelerator's runtime runs. because: what runs, and who did it."""

    cards: tuple[int, ...]
    because: str


@dataclass(slots=True)
class WorkerView:
    """Which cards this worker's process sees, as positions in the caller's list, and whether that can still change."""

    worker: str
    run: str
    inventory: Inventory
    own: tuple[int, ...]
    environ: MutableMapping[str, str] = field(default_factory=lambda: os.environ)
    shown: tuple[int, ...] = ()
    pin: Pin | None = None

    def bind(self, because: str) -> None:
        """Take it that a runtime has started while what is shown now was shown; the first time counts."""
        self.pin = self.pin or Pin(self.shown, because)

    def show(self, cards: Sequence[int]) -> None:
        """Make *cards* what this process and its children see."""
        if tuple(cards) != self.shown:
            self.environ.update(variables(self.inventory, cards))
            self.shown = tuple(cards)

    def rest(self) -> None:
        """Go back to the worker's own card, or to those that it is bound to."""
        self.show(self.pin.cards if self.pin else self.own)


def view_of(config: pytest.Config) -> WorkerView | None:
    """Return what this process may see, or None where nobody narrows: outside xdist, and in the controller."""
    return config.stash.get(_VIEW, None)


def visibility_at_load(config: pytest.Config) -> None:
    """Narrow a worker to its own card, before a conftest can import torch."""
    if is_worker_process(os.environ):
        config.stash[_VIEW] = narrowed(inventory_of(config), os.environ)


def is_worker_process(environ: Mapping[str, str]) -> bool:
    """Return whether this very process is a worker; a pytest that a test starts inherits the worker's variables.

    Only a worker that has just been started still has the snapshot: who reads it takes it out of the environment.
    """
    return bool(environ.get(WORKER)) and SNAPSHOT in environ


def narrowed(inventory: Inventory, environ: MutableMapping[str, str]) -> WorkerView:
    """Show a worker its own card of *inventory* (seen by the controller), or none where there are fewer cards."""
    own = _own(place_of(environ[WORKER], environ), len(inventory.listed))
    environ[CALLER] = json.dumps(inventory.visible.environ)
    view = WorkerView(environ[WORKER], environ[RUN], inventory, own, environ)
    if inventory.listed:
        for name, value in _BESIDE.get(inventory.platform, {}).items():
            environ.setdefault(name, value)
        environ.update(variables(inventory, own))
        view.shown = own
    return view


def variables(inventory: Inventory, cards: Sequence[int]) -> dict[str, str]:
    """Return the variables that show these entries of the caller's list; no entry at all hides every device."""
    from omni_hardware.visibility import selection, write

    caller = inventory.visible.environ
    tokens = selection(inventory, caller).tokens
    return write(inventory.platform, caller, [tokens[card] for card in cards])


def _own(worker: str, cards: int) -> tuple[int, ...]:
    # a name that somebody gave (--tx popen//id=left) has no number: like a worker beyond the cards it can lease one
    digits = worker.removeprefix("gw")
    return (int(digits),) if digits.isdecimal() and int(digits) < cards else ()
