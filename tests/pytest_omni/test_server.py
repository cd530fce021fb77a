from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_hardware.errors import InputError
from pytest_omni import OmniServer, OmniServerParams
from pytest_omni.server import PortStolenError, ServerError, Sight, environment, failure, with_log

PARAMS = OmniServerParams("tiny/z_image", init_timeout=1800)


@pytest.mark.parametrize(
    ("sight", "expected"),
    [
        (Sight(seconds=1), None),
        (Sight(seconds=1, foreign=True), None),
        (Sight(seconds=1, listening=True, health=503), None),
        (
            Sight(seconds=2, exit_code=3),
            "server for 'tiny/z_image' on port 8000 exited with code 3 2.0 s after its start (not listening yet)",
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


def test_vllm_omni_7612_the_tests_own_timeout_is_the_only_deadline():
    assert failure(Sight(seconds=1300), params=PARAMS, port=1) is None
    assert failure(Sight(seconds=1801), params=PARAMS, port=1) is not None


def test_a_stolen_port_is_told_apart():
    error = failure(Sight(seconds=1, exit_code=1, foreign=True), params=PARAMS, port=1)
    assert isinstance(error, PortStolenError)
    assert "another process listens on the port" in str(error)
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


def test_environment_is_built_and_the_base_left_alone():
    base = {"A": "1", "B": "2", "PYTEST_CURRENT_TEST": "test_x (setup)"}
    params = OmniServerParams("m", env={"B": "3", "C": "4"})
    assert environment(base, params) == {"PYTHONUNBUFFERED": "1", "A": "1", "B": "3", "C": "4"}
    assert base == {"A": "1", "B": "2", "PYTEST_CURRENT_TEST": "test_x (setup)"}
    assert environment({"PYTHONUNBUFFERED": ""}, params)["PYTHONUNBUFFERED"] == ""


def test_with_log_keeps_the_kind_and_hides_secrets_of_the_command():
    command = ["serve", "--api-key", "s3cret"]
    error = with_log(PortStolenError("why"), command=command, log_path=Path("a.log"), tail="last words")
    assert isinstance(error, PortStolenError)
    assert str(error) == "why\ncommand: serve --api-key [redacted]\nlog: a.log, its end:\nlast words"
    assert str(with_log(ServerError("w"), command=[], log_path=Path("a"), tail="")).endswith("(empty)")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": ""}, "model must be a non-empty name"),
        ({"server_args": ["--a"]}, "server_args must be a tuple of strings, not ['--a']"),
        ({"server_args": "--a"}, "server_args must be a tuple of strings, not '--a'"),
        ({"env": {"A": 1}}, "env must map strings to strings"),
        ({"port": 0}, "port must be None or 1…65535, not 0"),
        ({"port": True}, "port must be None or 1…65535, not True"),
        ({"init_timeout": 0}, "init_timeout must be seconds above 0, not 0"),
        ({"stop_timeout": "1"}, "stop_timeout must be seconds above 0, not '1'"),
        ({"health_path": "health"}, "health_path must start with /"),
    ],
)
def test_params_refuse_nonsense(arguments, message):
    with pytest.raises(InputError) as caught:
        OmniServerParams(**{"model": "m", **arguments})
    assert str(caught.value) == f"OmniServerParams: {message}"


def test_params_do_not_show_their_environment():
    assert "hf_" not in repr(OmniServerParams("m", env={"HF_TOKEN": "hf_abcdefgh"}))


def test_url_of_a_server():
    assert OmniServer("m", 8123, 1, Path("log"), PARAMS).url == "http://127.0.0.1:8123"
