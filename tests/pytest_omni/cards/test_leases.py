"""Leases on cards: the table alone, then the file that processes share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

from omni_hardware.errors import InfrastructureError, InputError
from pytest_omni.cards.lease_table import Holder, Request, Table
from pytest_omni.cards.leases import Ask, LeaseBook, LeaseError, limit_of, process_lives

NAMES = ("card 0 (H100, GPU-a)", "card 1 (H100, GPU-b)", "card 2 (H100, GPU-c)")
HANG_GUARD_S = 30.0


def holder(worker: int) -> Holder:
    return Holder(f"gw{worker}", 100 + worker, 1.0)


def request(name, count, allowed, must=(), worker=0):
    return Request(name, holder(worker), f"test_{name}", count, tuple(allowed), tuple(must))


def run(*steps):
    """Do the steps on an empty table; return the table and what each request got."""
    table, got = Table(), []
    for step in steps:
        if isinstance(step, str):
            table = table.without(step)
            continue
        asked, queue = step if isinstance(step, tuple) else (step, True)
        table, lease = table.granting(asked, now=0.0, queue=queue)
        got.append(lease.cards if lease else None)
    return table, got


@pytest.mark.parametrize(
    ("steps", "got"),
    [
        pytest.param([request("a", 1, [1, 0])], [(1,)], id="the best card first"),
        pytest.param([request("a", 1, [0]), request("b", 1, [0, 1])], [(0,), (1,)], id="then the next"),
        pytest.param([request("a", 1, [0]), request("b", 2, [0, 1])], [(0,), None], id="all or none"),
        pytest.param([request("a", 1, [0, 1], [1])], [(1,)], id="must beats preference"),
        pytest.param(
            [request("a", 1, [0]), request("b", 1, [0, 1], [0])], [(0,), None], id="must is waited for"
        ),
        pytest.param([request("a", 1, [], [0, 1])], [(0, 1)], id="all of must, be it more than the count"),
        pytest.param(
            [request("a", 1, [0]), request("b", 2, [0, 1]), request("c", 1, [1, 0])],
            [(0,), None, None],
            id="cards gather for the one that waits longest",
        ),
        pytest.param(
            [request("a", 1, [0]), request("b", 2, [0, 1]), request("c", 1, [2, 1])],
            [(0,), None, (2,)],
            id="nobody waits for a card that the older one does not want",
        ),
        pytest.param(
            [request("a", 1, [0]), request("b", 2, [0, 1]), (request("c", 1, [1]), False)],
            [(0,), None, (1,)],
            id="who holds cards does not stand in line",
        ),
        pytest.param(
            [request("a", 1, [0]), request("b", 2, [0, 1]), "a", request("b", 2, [0, 1])],
            [(0,), None, (0, 1)],
            id="given back, given on",
        ),
    ],
)
def test_who_gets_which_cards(steps, got):
    assert run(*steps)[1] == got


def test_one_that_does_not_stand_in_line_leaves_no_trace():
    table, _ = run(request("a", 1, [0]), (request("b", 1, [0]), False))
    assert table.waiting == ()


def test_what_the_dead_left_is_dropped():
    table, _ = run(request("a", 1, [0]), request("b", 1, [0], worker=1))
    assert table.alive(lambda who: who.worker == "gw1") == Table((), table.waiting)


@dataclass
class Process:
    """One worker as pytest drives it: leases that fixtures keep, at most one item that waits or runs."""

    number: int
    leases: list[str] = field(default_factory=list)
    waits: Request | None = None


class Simulation:
    """Workers against one table, with a check of every promise after every step."""

    def __init__(self, cards: int, workers: int) -> None:
        self.cards = cards
        self.table = Table()
        self.asked: dict[str, Request] = {}
        self.workers = [Process(number) for number in range(workers)]

    def ask(self, worker: Process, name: str, count: int, must: tuple[int, ...]) -> None:
        if worker.waits is not None:
            return
        allowed = sorted(range(self.cards), key=lambda card: card != worker.number)
        asked = Request(name, holder(worker.number), name, min(count, self.cards), tuple(allowed), must)
        self.asked[name] = asked
        worker.waits = asked
        self.look(worker)
        if worker.leases:  # it held something before: one try only
            worker.waits = None

    def look(self, worker: Process) -> None:
        if worker.waits is None:
            return
        queue = not worker.leases
        self.table, lease = self.table.granting(worker.waits, now=0.0, queue=queue)
        if lease is not None:
            worker.leases.append(lease.id)
            worker.waits = None
        self.check()

    def release(self, worker: Process) -> None:
        for name in worker.leases:
            self.table = self.table.without(name)
        worker.leases.clear()

    def die(self, worker: Process) -> None:
        self.table = self.table.alive(lambda who: who != holder(worker.number))
        worker.leases.clear()
        worker.waits = None

    def check(self) -> None:
        given_out = [card for lease in self.table.leases for card in lease.cards]
        assert len(given_out) == len(set(given_out)), "a card has two holders"
        for lease in self.table.leases:
            asked = self.asked[lease.id]
            assert set(asked.must) <= set(lease.cards) <= {*asked.allowed, *asked.must}
            assert len(lease.cards) == max(asked.count, len(asked.must))
        holding = {lease.holder for lease in self.table.leases}
        assert not holding & {other.holder for other in self.table.waiting}, "one that waits holds cards"


@given(
    cards=st.integers(1, 5),
    workers=st.integers(1, 6),
    steps=st.lists(
        st.tuples(
            st.sampled_from(["ask", "ask", "look", "release", "die"]),
            st.integers(0, 5),
            st.integers(1, 5),
            st.booleans(),
        ),
        max_size=60,
    ),
)
def test_no_card_has_two_holders_and_every_wait_ends(cards, workers, steps):
    world = Simulation(cards, workers)
    for number, (action, who, count, bound) in enumerate(steps):
        worker = world.workers[who % workers]
        if action == "ask":
            must = (worker.number,) if bound and worker.number < cards else ()
            world.ask(worker, f"r{number}", count, must)
        else:
            getattr(world, action)(worker)
        world.check()
    # from here on everybody ends what it runs, and nobody asks for more: then nobody waits for ever
    for _ in range(workers + 1):
        for worker in world.workers:
            world.release(worker)
        for worker in world.workers:
            world.look(worker)
    assert [worker.waits for worker in world.workers] == [None] * workers
    assert world.table.waiting == ()


def book(folder, worker="gw0"):
    return LeaseBook(folder, worker, NAMES)


def ask(count=1, allowed=(0, 1, 2), must=(), what="tests/a.py::test_a"):
    return Ask(what, f"cuda H100×{count}", count, tuple(allowed), tuple(must))


def test_a_lease_is_seen_by_everybody_until_it_is_given_back(tmp_path):
    mine, other = book(tmp_path), book(tmp_path, "gw1")
    lease = mine.take(ask(2), limit_s=0)
    assert [one.cards for one in other.leases()] == [(0, 1)]
    mine.give_back(lease)
    mine.give_back(lease)
    assert other.leases() == ()


def test_a_refusal_names_the_holder_the_cards_and_the_test(tmp_path):
    book(tmp_path, "gw3").take(ask(2, what="tests/b.py::test_long"), limit_s=0)
    with pytest.raises(LeaseError) as error:
        book(tmp_path).take(ask(2), limit_s=0)
    assert str(error.value) == (
        "tests/a.py::test_a needs cuda H100×2 and got none: "
        f"gw3 (pid {os.getpid()}) holds card 0 (H100, GPU-a), card 1 (H100, GPU-b) for tests/b.py::test_long since 0 s"
    )


def test_a_wait_ends_with_the_limit_and_leaves_the_line(tmp_path):
    other = book(tmp_path, "gw1")
    held = other.take(ask(3), limit_s=0)
    with pytest.raises(
        LeaseError, match=r"got none after 0\.1 s \(OMNI_LEASE_TIMEOUT sets another limit\): gw1 "
    ):
        book(tmp_path).take(ask(1), limit_s=0.1)
    other.give_back(held)
    assert other.take(ask(3), limit_s=0.2).cards == (0, 1, 2), (
        "somebody who does not look any more is first in line"
    )


def test_a_long_wait_says_who_holds_what(tmp_path, monkeypatch):
    monkeypatch.setattr("pytest_omni.cards.leases._SAY_AFTER_S", 0.0)
    monkeypatch.setattr("pytest_omni.cards.leases._SAY_EVERY_S", 60.0)
    book(tmp_path, "gw1").take(ask(3, what="tests/b.py::test_long"), limit_s=0)
    said = []
    with pytest.raises(LeaseError):
        book(tmp_path).take(ask(1), limit_s=0.5, say=said.append)
    (line,) = said
    assert line.startswith("tests/a.py::test_a waits for cuda H100×1 (0 s): gw1 (pid")
    assert "for tests/b.py::test_long" in line


def test_an_interrupted_wait_leaves_the_line(tmp_path, monkeypatch):
    other = book(tmp_path, "gw1")
    held = other.take(ask(3), limit_s=0)
    monkeypatch.setattr(
        "pytest_omni.cards.leases.time.sleep", lambda _: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        book(tmp_path).take(ask(1), limit_s=60)
    monkeypatch.undo()
    other.give_back(held)
    assert json.loads((tmp_path / "leases.json").read_text()) == {"leases": [], "waiting": []}


def test_a_lock_that_nobody_lets_go_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("pytest_omni.cards.leases._LOCK_S", 0.05)
    with (
        FileLock(tmp_path / "leases.lock"),
        pytest.raises(
            InfrastructureError, match=r"leases\.lock is held since 0 s; a stopped process of this run"
        ),
    ):
        book(tmp_path).leases()


def test_more_than_the_run_has_is_refused_at_once(tmp_path):
    with pytest.raises(LeaseError, match="needs cuda H100×4; this run has 3 cards, 3 of them to choose from"):
        book(tmp_path).take(ask(4), limit_s=60)


TAKES_AND_DIES = """
import os, sys
from pathlib import Path
from pytest_omni.cards.leases import Ask, LeaseBook
LeaseBook(Path(sys.argv[1]), "gw7", ["a", "b", "c"]).take(Ask("test_dead", "cuda", 3, (0, 1, 2)), limit_s=0)
os._exit(0)
"""


def test_a_lease_of_a_dead_process_is_broken_be_it_reaped_or_not(tmp_path):
    command = [sys.executable, "-c", TAKES_AND_DIES, str(tmp_path)]
    subprocess.run(command, check=True, timeout=HANG_GUARD_S)
    assert book(tmp_path).leases() == ()
    with subprocess.Popen(command) as zombie:
        deadline = time.monotonic() + HANG_GUARD_S
        while not (tmp_path / "leases.json").exists() or "gw7" not in (tmp_path / "leases.json").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        lease = book(tmp_path).take(ask(3), limit_s=HANG_GUARD_S)
        assert lease.cards == (0, 1, 2)
        assert zombie.returncode is None, "nobody has reaped it"


def test_a_reused_pid_is_another_process():
    import psutil

    started = psutil.Process().create_time()
    assert process_lives(os.getpid(), started)
    assert not process_lives(os.getpid(), started - 3600)
    assert not process_lives(2**22 + 1, started)


def test_many_at_once_never_share_a_card(tmp_path):
    busy, worst, lock = {0: 0, 1: 0, 2: 0}, [], threading.Lock()

    def work(number):
        mine = book(tmp_path, f"gw{number}")
        for turn in range(4):
            lease = mine.take(ask(1 + (number + turn) % 3), limit_s=HANG_GUARD_S)
            with lock:
                for card in lease.cards:
                    busy[card] += 1
                worst.append(max(busy.values()))
            time.sleep(0.002)
            with lock:
                for card in lease.cards:
                    busy[card] -= 1
            mine.give_back(lease)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_GUARD_S)
    assert len(worst) == 20, "somebody got no cards"
    assert max(worst) == 1
    assert book(tmp_path).leases() == ()


@pytest.mark.parametrize(("text", "seconds"), [(None, 1800.0), ("", 1800.0), ("0", 0.0), ("2.5", 2.5)])
def test_the_limit_is_a_number_of_seconds(text, seconds):
    assert limit_of({} if text is None else {"OMNI_LEASE_TIMEOUT": text}) == seconds


@pytest.mark.parametrize("text", ["soon", "-1", "inf", "nan"])
def test_a_limit_that_is_none_is_refused(text):
    with pytest.raises(
        InputError, match=f"OMNI_LEASE_TIMEOUT='{text}' is no number of seconds, such as 1800"
    ):
        limit_of({"OMNI_LEASE_TIMEOUT": text})
