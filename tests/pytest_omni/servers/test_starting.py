"""Phases, deadlines and words of a start, with a fake clock and a fake server."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_omni import OmniServerParams
from pytest_omni.servers.starting import (
    Phase,
    PortStolenError,
    ServerError,
    Sight,
    Watch,
    exit_words,
    failure,
    with_log,
)

PARAMS = OmniServerParams("tiny/z_image", init_timeout=1800)
NEVER = float("inf")


@dataclass
class Clock:
    """A clock that only sleeping moves."""

    now: float = 1000.0
    seen: list[Sight] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def watch(self, probe: FakeProbe, params: OmniServerParams) -> Watch:
        return Watch(probe, params, 8000, clock=self, sleep=self.sleep)


@dataclass
class FakeProbe:
    """A server that logs, binds and becomes healthy at given seconds."""

    clock: Clock
    logs_until: float = 0.0
    binds_at: float = NEVER
    healthy_at: float = NEVER

    @property
    def age(self) -> float:
        return self.clock.now - 1000.0

    def exit(self):
        return None

    def was_refused(self) -> bool:
        return False

    def answers(self) -> bool:
        return self.age >= self.binds_at

    def listeners(self):
        return {("127.0.0.1", 8000)} if self.answers() else set()

    def health(self, timeout: float):
        assert timeout > 0
        status = 200 if self.age >= self.healthy_at else 503
        return status, f"GET /health: {status}"

    def log_bytes(self) -> int:
        return int(min(self.age, self.logs_until))


@pytest.mark.parametrize(
    ("sight", "expected"),
    [
        (Sight(seconds=1), None),
        (Sight(seconds=1, foreign=True), None),
        (Sight(seconds=1, listening=True, health=503), None),
        (
            Sight(seconds=2, exit_code=3),
            "server exited with code 3 2.0 s after its start (not listening yet): 'tiny/z_image' on port 8000",
        ),
        (
            Sight(seconds=2, exit_code=-9, ended=1, listening=True, detail="GET /health: 503"),
            (
                "process 2 of the server exited with signal SIGKILL 2.0 s after its start "
                "(listening, GET /health: 503): 'tiny/z_image' on port 8000"
            ),
        ),
        (
            Sight(seconds=1800),
            (
                "server for 'tiny/z_image' on port 8000 is not ready after init_timeout=1800 s. "
                "Reached: started, then not listening yet. GET /health must answer 200"
            ),
        ),
        (
            Sight(seconds=1801, listening=True, health=503, detail="GET /health: 503"),
            (
                "server for 'tiny/z_image' on port 8000 is not ready after init_timeout=1800 s. "
                "Reached: started, then listening, GET /health: 503. GET /health must answer 200"
            ),
        ),
    ],
)
def test_failure_says_how_far_it_came(sight, expected):
    error = failure(sight, params=PARAMS, port=8000)
    assert (None if error is None else str(error)) == expected


def test_vllm_omni7612_the_tests_own_timeout_is_the_only_deadline():
    clock = Clock()
    probe = FakeProbe(clock, binds_at=1290, healthy_at=1300)
    sight = clock.watch(probe, PARAMS).until_ready(clock.seen.append)
    assert 1300 <= sight.seconds < 1301
    assert list(dict.fromkeys(seen.phase for seen in clock.seen)) == [
        Phase.SPAWN,
        Phase.LISTENING,
        Phase.HEALTHY,
    ]
    strict = Clock()
    early = strict.watch(FakeProbe(strict, binds_at=1290), replace(PARAMS, init_timeout=1200))
    with pytest.raises(
        ServerError, match=r"not ready after init_timeout=1200 s\. Reached: started, then not"
    ):
        early.until_ready(strict.seen.append)


def test_vllm27576_a_silent_server_is_given_up_long_before_the_deadline():
    clock = Clock()
    params = replace(PARAMS, init_timeout=7200, stall_timeout=60)
    hung = FakeProbe(clock, logs_until=500)
    with pytest.raises(ServerError) as caught:
        clock.watch(hung, params).until_ready(clock.seen.append)
    assert re.fullmatch(
        r"server for 'tiny/z_image' on port 8000 wrote nothing to its log for stall_timeout=60 s, 5[56]\d s after its "
        r"start\. Reached: started, then not listening yet",
        str(caught.value),
    )
    # a slow download that says so is not stalled, and without a stall_timeout silence is no reason
    clock = Clock()
    slow = FakeProbe(clock, logs_until=5000, binds_at=5000, healthy_at=5001)
    assert clock.watch(slow, params).until_ready(clock.seen.append).seconds >= 5001
    clock = Clock()
    silent = FakeProbe(clock, binds_at=1700, healthy_at=1700)
    assert clock.watch(silent, PARAMS).until_ready(clock.seen.append).seconds >= 1700


def test_a_stolen_port_is_told_apart():
    error = failure(Sight(seconds=1, exit_code=1, foreign=True), params=PARAMS, port=1)
    assert isinstance(error, PortStolenError)
    assert "another process has the port" in str(error)
    assert not isinstance(failure(Sight(seconds=1, exit_code=1), params=PARAMS, port=1), PortStolenError)


@settings(max_examples=50)
@given(
    st.builds(
        Sight,
        seconds=st.floats(0, 4000),
        exit_code=st.none() | st.integers(-15, 5),
        listening=st.booleans(),
        foreign=st.booleans(),
        health=st.sampled_from([None, 200, 404, 503]),
    )
)
def test_ready_needs_our_own_process_on_the_port_and_a_200(sight):
    assert sight.ready == (sight.exit_code is None and sight.listening and sight.health == 200)
    if not sight.ready and (sight.exit_code is not None or sight.seconds >= PARAMS.init_timeout):
        assert failure(sight, params=PARAMS, port=1) is not None


def test_with_log_keeps_the_kind_and_hides_secrets_of_the_command():
    env = {"X_TOKEN": "hidden-in-env"}
    stolen = PortStolenError("why hidden-in-env")
    logs = [(["serve", "--api-key", "s3cret"], Path("a.log"), "last words"), (["stage"], Path("b.log"), "")]
    error = with_log(stolen, logs, env=env, weights="tiny (core_model, hidden-in-env)")
    assert isinstance(error, PortStolenError)
    assert str(error) == (
        "why [redacted]\nweights: tiny (core_model, [redacted])\ncommand: serve --api-key [redacted]\nlog: a.log, its end:\nlast words\n"
        "command: stage\nlog: b.log, its end:\n(empty)"
    )


@pytest.mark.parametrize(
    ("code", "words"), [(0, "code 0"), (7, "code 7"), (-11, "signal SIGSEGV"), (-63, "signal 63")]
)
def test_exit_words(code, words):
    assert exit_words(code) == words


def test_a_clean_exit_is_no_stolen_port_but_a_server_in_the_background():
    error = failure(Sight(seconds=1, exit_code=0, foreign=True), params=PARAMS, port=1)
    assert not isinstance(error, PortStolenError)
    assert "must stay in the foreground" in str(error)
