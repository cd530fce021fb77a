from __future__ import annotations

from pathlib import Path

import pytest

from omni_hardware.errors import InputError
from pytest_omni import OmniServer, OmniServerParams
from pytest_omni.servers.params import environment

PARAMS = OmniServerParams("tiny/z_image", init_timeout=1800)


def test_environment_is_built_and_the_base_left_alone():
    base = {"A": "1", "B": "2", "PYTEST_CURRENT_TEST": "test_x (setup)"}
    params = OmniServerParams("m", env={"B": "3", "C": "4"})
    assert environment(base, params) == {"PYTHONUNBUFFERED": "1", "A": "1", "B": "3", "C": "4"}
    assert base == {"A": "1", "B": "2", "PYTEST_CURRENT_TEST": "test_x (setup)"}
    assert environment({"PYTHONUNBUFFERED": ""}, params)["PYTHONUNBUFFERED"] == ""


def test_a_list_of_arguments_is_one_too():
    params = OmniServerParams("m", ["--a", "b"])
    assert params == OmniServerParams("m", ("--a", "b"))
    assert params.server_args == ("--a", "b")


def test_params_show_what_was_set():
    shown = repr(OmniServerParams("m", stall_timeout=3.0, deploy_config="a.yaml"))
    assert shown.endswith("stop_timeout=30.0, stall_timeout=3.0, deploy_config='a.yaml')")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": ""}, "model must be a non-empty name"),
        ({"server_args": ["--a", 1]}, "server_args must be strings in a list or tuple, not ('--a', '1')"),
        ({"server_args": "--a"}, "server_args must be strings in a list or tuple, not '--a'"),
        ({"env": {"A": 1}}, "env must map strings to strings"),
        ({"port": 0}, "port must be None or 1…65535, not 0"),
        ({"port": True}, "port must be None or 1…65535, not True"),
        ({"init_timeout": 0}, "init_timeout must be seconds above 0, not 0"),
        ({"stall_timeout": -1}, "stall_timeout must be seconds above 0, not -1"),
        ({"memory_timeout": None}, "memory_timeout must be seconds above 0, not None"),
        ({"deploy_config": ""}, "deploy_config must be None or the path of a file, not ''"),
        ({"deploy_config": 3}, "deploy_config must be None or the path of a file, not 3"),
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
            {"server_args": ["--api-key", "sekrit", None]},
            "server_args must be strings in a list or tuple, not ('--api-key', '[redacted]', 'None')",
        ),
        (
            {"server_args": "--api-key sekrit"},
            "server_args must be strings in a list or tuple, not '--api-key [redacted]'",
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


def test_url_of_a_server():
    assert OmniServer("m", 8123, 1, Path("log"), PARAMS).url == "http://127.0.0.1:8123"
