from __future__ import annotations

import threading

import pytest

from omni.errors import Cancelled, InputError
from omni.models.turn import Turn


def test_others_wait_until_the_turn_is_over() -> None:
    turn, came = Turn(), threading.Event()

    def other() -> None:
        with turn.taken():
            came.set()

    thread = threading.Thread(target=other)
    with turn.taken():
        thread.start()
        assert not came.wait(0.2)
    assert came.wait(60)
    thread.join(60)


def test_who_waits_may_give_up() -> None:
    turn, gave_up = Turn(), threading.Event()

    def stop() -> None:
        raise Cancelled

    def other() -> None:
        with pytest.raises(Cancelled), turn.taken(stop):
            pytest.fail("got the turn")
        gave_up.set()

    thread = threading.Thread(target=other)
    with turn.taken():
        thread.start()
        assert gave_up.wait(60)
    thread.join(60)


def test_a_turn_inside_itself_is_an_error_and_ends_nothing() -> None:
    turn = Turn()
    with turn.taken():
        for _ in range(2):
            with pytest.raises(InputError, match="return from the callback first"), turn.taken():
                pass
    with turn.taken():
        pass


def test_a_failure_gives_the_turn_back() -> None:
    turn = Turn()
    with pytest.raises(KeyError), turn.taken():
        raise KeyError
    with turn.taken():
        pass
