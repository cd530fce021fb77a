"""omni_runner and the clients: what the project's hooks give, and what the plugin gives without them."""

from __future__ import annotations

import http.server
import threading

import pytest

from pytest_omni.servers.clients import OfflineClient, OnlineClient

ENGINE = """
from contextlib import contextmanager

class Engine:
    def __init__(self, params): self.params = params
    def generate(self, prompt): return f"{self.params.model}: {prompt}"
    def close(self): print("closed", self.params.model)

@contextmanager
def managed(params):
    print("entered")
    yield Engine(params)
    print("left")

def pytest_omni_engine(config, params):
    return {"a": Engine(params), "b": managed(params), "c": {"plain": 1}}.get(params.model)
"""
TEST = """
import pytest
from pytest_omni import OmniServerParams

def run(model, fixture="omni_runner"):
    return pytest.mark.parametrize(fixture, [OmniServerParams(model)], indirect=True, ids=[model])

@run("a")
class TestShared:
    def test_one(self, omni_runner, offline_client):
        assert offline_client.engine is omni_runner
        assert offline_client.generate("x") == "a: x"
        assert offline_client.run_level == "advanced_model"
    def test_two(self, omni_runner): pass

@run("b", "omni_runner_function")
def test_managed(omni_runner_function, offline_client): assert offline_client.generate("x") == "b: x"

@run("c")
def test_plain(omni_runner): assert omni_runner == {"plain": 1}

@run("z")
def test_unknown(omni_runner): pass
"""


def test_engines_come_from_the_hook_and_are_closed(armed, inner):
    armed.makeconftest(ENGINE)
    armed.makepyfile(TEST)
    result = inner("-s", "--run-level", "advanced_model")
    result.assert_outcomes(passed=4, errors=1)
    text = result.stdout.str()
    assert [text.count(word) for word in ("closed a", "entered", "left", "closed b")] == [1, 1, 1, 0]
    result.stdout.fnmatch_lines(
        ["no pytest_omni_engine hook returned an engine for OmniServerParams(model='z'*"]
    )


def test_without_an_engine_hook_there_is_one_usage_error(armed, inner):
    armed.makepyfile(TEST)
    result = inner()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (error,) = [line for line in result.errlines if line.startswith("ERROR")]
    assert "::test_one[a]: omni_runner has no engine to give; implement the hook pytest_omni_engine(" in error


@pytest.mark.process
def test_clients_know_server_and_run_level_and_a_project_may_bring_its_own(armed, inner):
    test = (
        "import pytest\nfrom pytest_omni import OmniServerParams\n"
        "PARAMS = [OmniServerParams('stub')]\n"
        "@pytest.mark.parametrize('omni_server', PARAMS, indirect=True)\n"
        "def test_a(omni_server, online_client):\n"
        "    assert online_client.url == omni_server.url\n"
        "    assert online_client.get('/health').text == str(omni_server.pid)\n"
        "    assert online_client.run_level == 'full_model'\n"
    )
    armed.makepyfile(test)
    inner("--run-level", "full_model").assert_outcomes(passed=1)
    conftest = armed.path / "conftest.py"
    conftest.write_text(
        conftest.read_text()
        + "\ndef pytest_omni_client(config, target, run_level): return (target.model, run_level)\n"
    )
    armed.makepyfile(test.partition("    assert")[0] + "    assert online_client == ('stub', 'core_model')\n")
    inner().assert_outcomes(passed=1)


class Echo(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(404)
        self.end_headers()
        self.wfile.write(b"no such thing")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", self.headers["Content-Type"])
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.process
def test_the_plain_client_gets_posts_and_takes_errors_for_answers(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # nobody there: a proxy would be asked in vain
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = OnlineClient(f"http://127.0.0.1:{server.server_port}", "core_model", timeout=30)
        answer = client.post("/v1/x", {"a": 1})
        assert (answer.status, answer.json(), answer.headers["content-type"]) == (
            200,
            {"a": 1},
            "application/json",
        )
        missing = client.get("/nothing")
        assert (missing.status, missing.text) == (404, "no such thing")
        server.shutdown()


def test_an_offline_client_is_its_engine_and_copies_like_any_value():
    client = OfflineClient(engine="abc", run_level="core_model")
    assert client.upper() == "ABC"
    with pytest.raises(AttributeError):
        _ = client.nothing
    assert not hasattr(client, "__deepcopy__")
