"""What one worker leases for an item, given what it holds and what its process is bound to."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from omni_hardware.inventory import Device, Inventory, Visible
from omni_hardware.requirements import Need
from pytest_omni.cards import runtime_witness
from pytest_omni.cards.leases import LeaseBook, LeaseError
from pytest_omni.cards.leasing import Ask, Leasing, run_folder
from pytest_omni.cards.runtime_witness import Sighting
from pytest_omni.cards.worker_visibility import WorkerView

CARDS = 3
NAMES = [f"card {number}" for number in range(CARDS)]


class World:
    """A worker with card 0 of three, beside another worker that may hold some."""

    def __init__(self, tmp_path, monkeypatch):
        basetemp = str(tmp_path / "popen-gw0")
        config = SimpleNamespace(
            getoption=lambda *_: basetemp, pluginmanager=SimpleNamespace(getplugin=lambda _: None)
        )
        rows = tuple(Device(index, f"GPU-{index}", "H100") for index in range(CARDS))
        inventory = Inventory("cuda", devices=rows, visible=Visible("CUDA_VISIBLE_DEVICES", "0,1,2"))
        self.environ: dict[str, str] = {}
        self.view = WorkerView("gw0", "run1", inventory, (0,), self.environ, (0,))
        self.leasing = Leasing(config, self.view)
        self.other = LeaseBook(run_folder(basetemp, "run1"), "gw1", NAMES)
        self.started: list[str] = []
        monkeypatch.setattr(runtime_witness, "look", self.look)
        monkeypatch.setenv("OMNI_LEASE_TIMEOUT", "0.05")

    def look(self, _config, by):
        return Sighting("torch.cuda is initialised", by) if self.started else None

    def lease(self, cards=1, choices=(0, 1, 2), *, marks=(), fixtures=()):
        item = SimpleNamespace(
            nodeid="a.py::test_a",
            fixturenames=list(fixtures),
            get_closest_marker=lambda name: name if name in marks else None,
        )
        return self.leasing.lease(item, Need(platform="cuda", cards=cards), tuple(choices))

    def end(self, kept):
        self.leasing.rest(SimpleNamespace(nodeid="a.py::test_a"))
        self.leasing.release(kept)

    def others(self, *cards):
        return self.other.take(Ask("b.py::test_b", "cuda", len(cards), cards), limit_s=0)

    def held(self):
        return sorted(card for lease in self.other.leases() for card in lease.cards)

    def sees(self):
        return self.environ.get("CUDA_VISIBLE_DEVICES", "0")


@pytest.fixture
def world(tmp_path, monkeypatch):
    return World(tmp_path, monkeypatch)


def test_the_own_card_first_then_another_and_back(world):
    cards, kept = world.lease()
    assert (cards, world.sees(), world.held()) == ((0,), "0", [0])
    world.end(kept)
    world.others(0)
    cards, kept = world.lease()
    assert (cards, world.sees(), world.held()) == ((1,), "1", [0, 1])
    world.end(kept)
    assert (world.sees(), world.held()) == ("0", [0])


def test_only_cards_that_fit(world):
    cards, _ = world.lease(choices=(2,))
    assert (cards, world.sees()) == ((2,), "2")


def test_one_that_is_bound_waits_for_its_own_card_though_another_is_free(world):
    world.started.append("yes")
    theirs = world.others(0)
    with pytest.raises(LeaseError, match=r"gw1 .* holds card 0"):
        world.lease()
    world.other.give_back(theirs)
    assert world.lease()[0] == (0,)


def test_what_was_shown_when_the_runtime_started_stays_shown_and_leased(world):
    _, kept = world.lease(2)
    world.started.append("yes")
    world.end(kept)
    assert (world.sees(), world.held()) == ("0,1", [])
    cards, kept = world.lease(1)
    assert (cards, world.held()) == ((0, 1), [0, 1])  # the process computes on both, whatever the item asks
    world.end(kept)
    with pytest.raises(
        LeaseError, match=r"bound to card 0 .*, card 1 .*: torch.cuda is initialised, by a.py::test_a"
    ):
        world.lease(3)
    with pytest.raises(LeaseError, match="Mark the test fresh_process"):
        world.lease(1, choices=(1, 2))


@pytest.mark.parametrize("how", [{"marks": ["fresh_process"]}, {"fixtures": ["omni_server"]}], ids=str)
def test_what_another_process_does_is_not_bound(world, how):
    world.started.append("yes")
    world.others(0)
    cards, kept = world.lease(2, **how)
    assert (cards, world.sees()) == ((1, 2), "1,2")
    world.end(kept)
    assert world.sees() == "0"


def test_a_fixture_keeps_what_later_items_share(world):
    _, kept = world.lease()
    world.leasing.keep(kept)
    world.end(kept)
    assert world.held() == [0]
    again = world.lease()
    assert (again[0], world.held()) == ((0,), [0])
    world.end(again[1])
    more = world.lease(2)
    assert (more[0], world.held(), world.sees()) == ((0, 1), [0, 1], "0,1")
    world.end(more[1])
    assert world.held() == [0]
    world.leasing.release(kept)
    assert world.held() == []


def test_a_fixture_on_another_card_does_not_cover_a_bound_process(world):
    theirs = world.others(0)
    _, kept = world.lease(fixtures=["omni_server"])
    world.leasing.keep(kept)
    world.end(kept)
    world.started.append("yes")
    with pytest.raises(LeaseError, match=r"Fixtures of this worker hold cards since a\.py::test_a"):
        world.lease()
    world.other.give_back(theirs)
    cards, _ = world.lease()
    assert (cards, world.held()) == ((0,), [0, 1])


def test_closing_gives_back_everything(world):
    world.lease(2)
    world.leasing.close()
    assert world.held() == []
