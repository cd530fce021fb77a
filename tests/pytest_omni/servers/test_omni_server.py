from __future__ import annotations

import contextlib
import os
import pty
import random
import re
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("talk")]

PLUGINS = ("xdist.plugin", "pytest_omni.plugin")
HANG_S = 60.0
HEAD = "from talk import *\n"


def test_a_server_lives_as_long_as_its_module(armed, inner, pids):
    armed.makepyfile(
        HEAD
        + f"""
seen = []

@served("--pids", {pids}, "--print-env", "GREETING", env={{"GREETING": "hello"}})
class TestOne:
    def test_a(self, omni_server):
        seen.append(get(omni_server))
        assert omni_server.url == f"http://127.0.0.1:{{omni_server.port}}"
        assert omni_server.model == omni_server.params.model == "stub"
        assert seen == [str(omni_server.pid)]
        assert os.getpgid(omni_server.pid) == os.getsid(omni_server.pid) == omni_server.pid
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL

    def test_b(self, omni_server, tmp_path_factory):
        assert seen == [get(omni_server)]
        assert omni_server.log_path.read_text() == "GREETING='hello'\\n"
        assert omni_server.log_path.is_relative_to(tmp_path_factory.getbasetemp())
        assert "GREETING" not in os.environ
"""
    )
    result = inner("-v")
    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*omni notes*")
    result.stdout.no_fnmatch_line("*omni_server stub*")  # a pipe sees no progress
    assert pids.are_dead()
    assert len(pids.read()) == 1


def test_signal_handlers_are_as_before_once_the_server_is_gone(armed, inner):
    armed.makepyfile(test_1_server=HEAD + "@served()\ndef test_a(omni_server): get(omni_server)")
    armed.makepyfile(
        test_2_after="import signal\ndef test_b(): assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL"
    )
    inner().assert_outcomes(passed=2)


@pytest.mark.parametrize("code", [0, 3])
def test_a_server_that_dies_at_start_is_told_at_once(armed, inner, code):
    armed.makepyfile(HEAD + f'@served("--dies", "{code}")\ndef test_a(omni_server): pass')
    began = time.monotonic()
    result = inner()
    assert time.monotonic() - began < HANG_S  # init_timeout is 600
    result.assert_outcomes(errors=1)
    result.stdout.re_match_lines(
        [
            rf"server exited with code {code} \d\.\d s after its start \(not listening yet\): 'stub' on port \d+.*",
            r"weights: real \(core_model: there is no deploy config to patch: real weights\)",
            r"command: .*stub_server.py --port \d+ --dies \d",
            r"log: /.*server-\d+\.log, its end:",
        ]
    )
    result.stdout.fnmatch_lines_random(["loading with HF_TOKEN=[[]redacted[]]", "*no weights*"])
    text = result.stdout.str()
    assert text.count(f"exited with code {code}") == 1
    assert "hf_abcdefghij" not in text
    assert "\x1b" not in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("flag", "phase"),
    [
        ("--never-binds", "Reached: started, then not listening yet."),
        ("--unhealthy", "Reached: started, then listening, GET /health: 503."),
    ],
)
def test_a_server_that_never_answers_is_told_with_its_phase(armed, inner, pids, flag, phase, request):
    if flag == "--unhealthy":
        request.getfixturevalue("patient_start")
    armed.makepyfile(
        HEAD
        + f'@served({flag!r}, "--pids", {pids}, init_timeout=1.0)\n'
        + "class TestIt:\n    def test_a(self, omni_server): pass\n    def test_b(self, omni_server): pass\n"
    )
    result = inner()
    result.assert_outcomes(errors=2)
    assert f"is not ready after init_timeout=1 s. {phase} GET /health must answer 200" in result.stdout.str()
    assert pids.are_dead()
    assert len(pids.read()) == 1  # the second test does not start it again


@pytest.mark.parametrize(
    ("flags", "phase"),
    [
        (("--mute", "99"), "listening, GET /health: no whole answer in time"),
        # every byte is in time, the answer never is: a limit for each read would wait for ever
        (("--drips",), "listening, GET /health: no whole answer in time"),
        (("--host", "::1"), r"listening on \[::1\]:\d+, not on 127\.0\.0\.1:\d+ as it was told"),
        (
            ("--port", "0"),
            r"listening on 127\.0\.0\.1:\d+, not on 127\.0\.0\.1:\d+ as it was told",
        ),
    ],
    ids=lambda value: "".join(value) if isinstance(value, tuple) else "",
)
@pytest.mark.usefixtures("patient_start")
def test_a_server_that_no_client_could_use_is_told_in_time(armed, inner, pids, flags, phase):
    armed.makepyfile(
        HEAD + f'@served(*{flags!r}, "--pids", {pids}, init_timeout=0.5)\ndef test_a(omni_server): pass'
    )
    result = inner()
    result.assert_outcomes(errors=1)
    result.stdout.re_match_lines(
        [rf".*is not ready after init_timeout=0\.5 s\. Reached: started, then {phase}\."]
    )
    assert pids.are_dead()


def test_a_health_check_without_an_answer_is_asked_again(armed, inner, pids):
    conftest = armed.path / "conftest.py"
    conftest.write_text(
        conftest.read_text() + "\nimport pytest_omni.servers.starting as ours\nours._HEALTH_TIMEOUT_S = 0.3\n"
    )
    armed.makepyfile(
        HEAD
        + f'@served("--mute", "1", "--pids", {pids}, init_timeout={HANG_S / 2})\n'
        + "def test_a(omni_server): assert get(omni_server) == str(omni_server.pid)"
    )
    inner().assert_outcomes(passed=1)
    assert pids.are_dead()


@pytest.mark.parametrize(
    ("flags", "how"),
    [
        (
            ("--daemon",),
            r"exited with code 0 \d\.\d s after its start \(.*\): 'stub' on port \d+\. It must stay in the foreground: .*",
        ),
        (("--crashes", str(int(signal.SIGSEGV))), r"exited with signal SIGSEGV \d\.\d s after its start.*"),
    ],
    ids=["daemon", "SIGSEGV"],
)
def test_an_end_at_start_is_told_in_words(armed, inner, flags, how):
    armed.makepyfile(HEAD + f"@served(*{flags!r})\ndef test_a(omni_server): pass")
    result = inner()
    result.assert_outcomes(errors=1)
    result.stdout.re_match_lines([rf"server {how}"])


def test_a_deaf_server_is_killed_and_that_is_said(armed, inner, pids):
    armed.makepyfile(
        HEAD + f'@served("--deaf", "--pids", {pids}, stop_timeout=0.3)\ndef test_a(omni_server): pass'
    )
    for workers in ((), ("-n1",)):
        result = inner(*workers, plugins=PLUGINS)
        result.assert_outcomes(passed=1)
        result.stdout.re_match_lines(
            [
                r"=+ omni notes =+",
                (
                    r"server for 'stub' \(pid \d+, log /.*\) had to be killed 0\.3 s after SIGTERM: "
                    r"what it had not written is lost, coverage too"
                ),
            ]
        )
    assert pids.are_dead()


def test_a_server_that_ends_by_itself_is_said(armed, inner):
    armed.makepyfile(HEAD + '@served("--exits-after-health")\ndef test_a(omni_server): gone(omni_server.pid)')
    result = inner()
    result.stdout.re_match_lines([r".*ended by itself during the tests, with code 7"])


DYING = """
@served()
class TestIt:
    def test_a(self, omni_server, online_client): online_client.get("/")

    def test_kills(self, omni_server, online_client):
        os.kill(omni_server.pid, signal.SIGKILL)
        online_client.get("/")

    def test_b(self, omni_server, online_client): online_client.get("/")
    def test_c(self, omni_server): pass
"""


def test_a_server_that_died_is_told_once_with_its_log_and_then_in_a_line(armed, inner):
    armed.makepyfile(test_a=HEAD + DYING)
    result = inner("-p", "no:randomly")
    result.assert_outcomes(passed=1, failed=1, errors=2)
    text = result.stdout.str()
    ended = r"server exited with signal SIGKILL during the tests: 'stub' on port \d+"
    assert len(re.findall(rf"^E .*{ended}$", text, re.MULTILINE)) == 1
    assert len(re.findall(rf"^{ended}, log .*/server-\d+\.log$", text, re.MULTILINE)) == 2
    assert text.count("its end:") == 1
    assert "urllib" not in text
    assert len(text.splitlines()) < 80


def test_a_test_is_called_by_its_model(armed, inner):
    armed.makepyfile(
        test_a=HEAD
        + """
MODELS = [OmniServerParams("org/a"), OmniServerParams("b")]
@pytest.mark.parametrize("omni_server", MODELS, indirect=True)
def test_a(omni_server): pass
"""
    )
    result = inner("--co", "-q")
    assert result.outlines[:2] == ["test_a.py::test_a[org/a]", "test_a.py::test_a[b]"]


def test_a_client_without_a_server_says_what_the_test_lacks(armed, inner):
    armed.makepyfile(HEAD + "def test_a(online_client): pass")
    result = inner()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "a client needs omni_server in the same test: * omni_server needs an indirect OmniServerParams, got none: *"
        ]
    )


def test_wrong_params_break_the_import_without_our_frames(armed, inner):
    armed.makepyfile("from pytest_omni import OmniServerParams\nP = OmniServerParams('m', port=0)")
    result = inner()
    result.stdout.fnmatch_lines(["E   *OmniServerParams: port must be None or 1…65535, not 0"])
    assert "params.py" not in result.stdout.str()


def spare_port() -> int:
    """A free port that the kernel gives to nobody who does not ask for it by number."""
    while True:
        with (
            contextlib.suppress(OSError),
            socket.create_server(("127.0.0.1", random.randint(20_000, 32_000))) as free,
        ):
            return int(free.getsockname()[1])


def test_workers_take_turns_on_a_port(armed, inner):
    port = spare_port()
    for name in ("a", "b"):
        armed.makepyfile(
            **{f"test_{name}": HEAD + f"@served(port={port})\ndef test_it(omni_server): time.sleep(0.5)"}
        )
    inner("-n2", "--dist=loadfile", plugins=PLUGINS).assert_outcomes(passed=2)


def test_two_servers_of_one_test_do_not_wait_for_each_other(armed, inner):
    port = spare_port()
    both = f"@served(port={port})\n@served(port={port}, fixture='omni_server_function')\n"
    armed.makepyfile(HEAD + both + "def test_it(omni_server, omni_server_function): pass")
    result = inner()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [f"port {port} is reserved by another server of these tests; leave port=None *"]
    )


def test_a_grandchild_that_owns_the_port_is_ours(armed, inner, pids):
    armed.makepyfile(
        HEAD
        + f'@served("--grandchild", "--pids", {pids})\n'
        + "def test_a(omni_server): assert get(omni_server) != str(omni_server.pid)"
    )
    inner().assert_outcomes(passed=1)
    assert pids.are_dead()
    assert len(pids.read()) == 2


def test_a_chatty_server_does_not_hang(armed, inner):
    armed.makepyfile(HEAD + '@served("--chatty")\ndef test_a(omni_server): get(omni_server)')
    inner().assert_outcomes(passed=1)


STEALING_CONFTEST = """
import socket, sys
stolen = []

def pytest_omni_server_command(config, params, port):
    if not stolen:
        stolen.append(socket.create_server(("127.0.0.1", port)))
    return [sys.executable, {stub!r}, "--port", str(port)]
"""


def test_caikit646_a_stolen_port_is_tried_again(armed, inner):
    stub = Path(__file__).parents[1] / "stub_server.py"
    armed.makeconftest(STEALING_CONFTEST.format(stub=str(stub)))
    armed.makepyfile(
        HEAD + "@served()\ndef test_a(omni_server): assert get(omni_server) == str(omni_server.pid)"
    )
    inner().assert_outcomes(passed=1)


def test_a_port_that_an_outgoing_connection_took_is_tried_again(armed, inner):
    """Nobody listens there then, as the kernel gives the same ports to both: the server alone knows why it ended."""
    stub = Path(__file__).parents[1] / "stub_server.py"
    conftest = STEALING_CONFTEST.format(stub=str(stub))
    armed.makeconftest(
        conftest.replace('socket.create_server(("127.0.0.1", port))', "socket.socket()").replace(
            "    return", '        stolen[0].bind(("127.0.0.1", port))\n    return'
        )
    )
    armed.makepyfile(
        HEAD + "@served()\ndef test_a(omni_server): assert get(omni_server) == str(omni_server.pid)"
    )
    inner().assert_outcomes(passed=1)


def test_a_stranger_on_the_port_is_never_taken_for_the_server(armed, inner):
    armed.makeconftest(
        "import socket, sys\nheld = []\n"
        "def pytest_omni_server_command(config, params, port):\n"
        '    held.append(socket.create_server(("127.0.0.1", port)))\n'
        '    return [sys.executable, "-c", "import time; time.sleep(600)"]\n'
    )
    armed.makepyfile(HEAD + "@served(init_timeout=0.5)\ndef test_a(omni_server): pass")
    result = inner()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*Reached: started, then another process has the port.*"])


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])
def test_without_a_command_hook_there_is_one_usage_error(armed, inner, workers):
    armed.makeconftest("")
    armed.makepyfile(
        HEAD + "@served()\ndef test_a(omni_server): pass\n@served()\ndef test_b(omni_server): pass"
    )
    result = inner(*workers, plugins=PLUGINS)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (error,) = [line for line in result.errlines if line.startswith("ERROR")]
    assert (
        "::test_a[stub]: omni_server has no command to run; implement the hook pytest_omni_server_command("
        in error
    )


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("None", "no pytest_omni_server_command hook returned a command for OmniServerParams(model='stub'*"),
        (
            "'serve it'",
            "pytest_omni_server_command must return a non-empty list of strings for *got str serve it: that is no list",
        ),
        ("[]", "*non-empty list of strings for *got list: it has no words"),
        (
            "['serve', '--port', port]",
            "*got list serve --port *: [[]2] is no string but int; write str(...)*",
        ),
        ("[['serve'], []]", "*got list: it has no words"),
        ("(word for word in ['serve'])", "*got generator *: that is no list"),
        ("('/nowhere/serve', 'x')", "cannot run '/nowhere/serve': *the command was /nowhere/serve x"),
        (
            "['/nowhere/serve', 'x']",
            "cannot run '/nowhere/serve': No such file or directory; the command was /nowhere/serve x",
        ),
        ("['/bin/sh', 'a' + chr(0)]", "cannot run '/bin/sh': embedded null byte; the command was /bin/sh a"),
    ],
)
def test_a_hook_that_gives_no_usable_command(armed, inner, returned, message):
    armed.makeconftest(f"def pytest_omni_server_command(config, params, port): return {returned}")
    armed.makepyfile(HEAD + "@served()\ndef test_a(omni_server): pass")
    result = inner()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_hook_that_fails_is_shown_without_our_own_frames(armed, inner, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "sekrit-value-0")
    armed.makeconftest("def pytest_omni_server_command(config, params, port): return {}[params.model]")
    armed.makepyfile(HEAD + "@served()\ndef test_a(omni_server): pass")
    result = inner("--showlocals", "-vv")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["conftest.py:1: KeyError"])
    result.stdout.no_fnmatch_line("*sekrit*")
    result.stdout.no_fnmatch_line("*running.py*")


SECRETS = ("sekrit-value-1", "val-in-env-123", "two words")


@pytest.mark.parametrize(
    "returned",
    [
        "None",
        "['/no/such/bin', *params.server_args]",
        "['/no/such/bin', 7, *params.server_args]",
        "('serve', *params.server_args)",
        "' '.join(params.server_args)",
        "[sys.executable, '-c', 'import sys; print(sys.argv); sys.exit(1)', *params.server_args]",
        "[sys.executable, '-c', 'import time; time.sleep(600)', *params.server_args]",
    ],
)
def test_no_message_shows_a_secret(armed, inner, returned):
    armed.makeconftest(f"import sys\ndef pytest_omni_server_command(config, params, port): return {returned}")
    # put together, or the traceback's source lines would show them
    armed.makepyfile(
        HEAD
        + '@served("--api-key", "sekrit-" + "value-1", "--hf-token=two" + " words", "--note", "val-in-" + "env-123",\n'
        + '        env={"X_TOKEN": "val-in-" + "env-123"}, init_timeout=0.5)\n'
        + "def test_a(omni_server): pass"
    )
    result = inner("-vv", "--showlocals", "--setup-show")
    result.assert_outcomes(errors=1)
    text = result.stdout.str() + result.stderr.str()
    assert "[redacted]" in text
    assert [secret for secret in SECRETS if secret in text] == []
    assert "--api-key" in text


@pytest.mark.parametrize(
    ("mark", "got"),
    [("", "none"), ('@pytest.mark.parametrize("omni_server", ["stub"], indirect=True)', "str")],
)
def test_a_parameter_that_is_none_of_ours(armed, inner, mark, got):
    armed.makepyfile(HEAD + f"{mark}\ndef test_a(omni_server): pass")
    result = inner()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"omni_server needs an indirect OmniServerParams, got {got}: *"])


def test_a_taken_explicit_port_is_an_error(armed, inner):
    armed.makepyfile(
        HEAD
        + "import socket\nlistener = socket.create_server(('127.0.0.1', 0))\n"
        + "@served(port=listener.getsockname()[1])\ndef test_a(omni_server): pass"
    )
    result = inner()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["port * on 127.0.0.1 cannot be bound: Address already in use; *"])


def test_a_terminal_sees_the_start(armed):
    armed.makepyfile(
        HEAD
        + f'@served("--unhealthy", "enough", init_timeout={HANG_S})\ndef test_a(omni_server): get(omni_server)'
    )
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "pytest_omni.plugin"]
    outer = subprocess.Popen(
        command, cwd=armed.path, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    seen, shown = b"", re.compile(rb"omni_server stub \(real weights\): \d+ s, listening, GET /health: 503")
    deadline = time.monotonic() + HANG_S
    with contextlib.suppress(OSError):  # Linux: EIO when the other side has closed
        while time.monotonic() < deadline and select.select([ours], [], [], HANG_S)[0]:
            if not (chunk := os.read(ours, 4096)):
                break
            seen += chunk
            if shown.search(seen):
                (armed.path / "enough").touch()
    os.close(ours)
    assert outer.wait(timeout=HANG_S) == 0
    assert shown.search(seen)
