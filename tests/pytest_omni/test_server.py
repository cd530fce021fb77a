from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_hardware.errors import InputError
from pytest_omni import OmniServer, OmniServerParams
from pytest_omni.server import PortStolenError, ServerError, Sight, environment, exit_words, failure, with_log

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


def test_vllm_omni7612_the_tests_own_timeout_is_the_only_deadline():
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
    env = {"X_TOKEN": "hidden-in-env"}
    stolen = PortStolenError("why hidden-in-env")
    error = with_log(stolen, command=command, env=env, log_path=Path("a.log"), tail="last words")
    assert isinstance(error, PortStolenError)
    assert (
        str(error) == "why [redacted]\ncommand: serve --api-key [redacted]\nlog: a.log, its end:\nlast words"
    )
    assert str(with_log(ServerError("w"), command=[], env={}, log_path=Path("a"), tail="")).endswith(
        "(empty)"
    )


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
        ({"health_path": None}, "health_path must start with /"),
        ({"health_path": "/ö"}, "health_path must be percent-encoded, not '/ö'"),
        ({"health_path": "/a b"}, "health_path must be percent-encoded, not '/a b'"),
        (
            {"server_args": ("a", "b\0")},
            "server_args [1] holds a NUL character, which no program can be given",
        ),
        (
            {"env": {"A=B": "x"}},
            "env has the name 'A=B': a variable's name is not empty and holds no = and no NUL",
        ),
        ({"env": {"": "x"}}, "env has the name '': a variable's name is not empty and holds no = and no NUL"),
        ({"env": {"A": "\0"}}, "env ['A'] holds a NUL character, which no program can be given"),
        (
            {"server_args": ["--api-key", "sekrit"]},
            "server_args must be a tuple of strings, not ['--api-key', '[redacted]']",
        ),
        (
            {"server_args": "--api-key sekrit"},
            "server_args must be a tuple of strings, not '--api-key [redacted]'",
        ),
    ],
)
def test_params_refuse_nonsense(arguments, message):
    with pytest.raises(InputError) as caught:
        OmniServerParams(**{"model": "m", **arguments})
    assert str(caught.value) == f"OmniServerParams: {message}"


def test_params_show_neither_their_environment_nor_secrets():
    args = ("--token", "-starts-with-a-dash", "--max-tokens", "128", "x=swordfish")
    params = OmniServerParams("m", server_args=args, env={"MY_SECRET": "swordfish", "A": "b"})
    assert repr(params) == (
        "OmniServerParams(model='m', server_args=('--token', '[redacted]', '--max-tokens', '128', 'x=[redacted]'), "
        "port=None, init_timeout=600.0, health_path='/health', stop_timeout=30.0)"
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


def test_url_of_a_server():
    assert OmniServer("m", 8123, 1, Path("log"), PARAMS).url == "http://127.0.0.1:8123"
