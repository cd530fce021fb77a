"""Real server processes. Each that gets as far as torch costs seconds, so one process answers several questions."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager
from pathlib import Path

import coverage
import httpx
import psutil
import pytest

import omni
from omni.serving.sockets import listen

pytestmark = pytest.mark.process

HANG_S = 120  # guards only; nothing here is a matter of speed
LISTENING = "omni: listening on "
SERVE = ["-m", "omni", "serve"]


@contextmanager
def started(*words, cwd=None):
    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def url_of(process):
    line = process.stdout.readline()
    assert line.startswith(LISTENING), process.communicate()[1]
    return line.removeprefix(LISTENING).strip()


def wait_ready(process, url):
    """Wait for 200 and return the statuses seen before; fail with the log when the process ends instead."""
    seen = set()
    until = time.monotonic() + HANG_S
    while time.monotonic() < until and process.poll() is None:
        status = httpx.get(f"{url}/health", timeout=HANG_S).status_code
        if status == 200:
            return seen
        seen.add(status)
        time.sleep(0.05)
    process.kill()
    pytest.fail(f"never ready:\n{process.communicate()[1]}")


def ended(process):
    out, err = process.communicate(timeout=HANG_S)
    assert "Traceback" not in err, err
    return process.returncode, out, err


def sent_and_being_read(url, body, *, missing=0):
    """Return a socket whose request the app is handling: 100-continue comes when it asks for the body.

    *missing* bytes at its end are not sent.
    """
    host, port = url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=HANG_S)
    content = json.dumps(body).encode()
    head = f"POST /v1/images/generations HTTP/1.1\r\nHost: omni\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\nExpect: 100-continue\r\n\r\n"
    connection.sendall(head.encode())
    assert b"100 Continue" in connection.recv(4096)
    connection.sendall(content[: len(content) - missing])
    return connection


def whole_answer(connection):
    with connection:
        raw = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, content = raw.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(content)


@pytest.fixture
def coverage_config(tmp_path):
    config = tmp_path / "coverage.ini"
    config.write_text(
        "[run]\nsource_pkgs = omni\npatch = _exit\nsigterm = true\nconcurrency = thread\nparallel = true\n"
    )
    return config


def lines_covered(folder, module):
    data = coverage.CoverageData(str(folder / ".coverage"))
    for part in folder.glob(".coverage.*"):
        other = coverage.CoverageData(str(part))
        other.read()
        data.update(other)
    return data.lines(str(Path(omni.__file__).parent / module))


def test_life_of_a_server_from_an_ephemeral_port_to_sigterm_with_a_request_in_flight(
    tiny_z_image, tmp_path, coverage_config
):
    measured = ["-m", "coverage", "run", f"--rcfile={coverage_config}"]
    with started(
        *measured, *SERVE, str(tiny_z_image), "--port", "0", "--device", "cpu", cwd=tmp_path
    ) as process:
        url = url_of(process)
        assert wait_ready(process, url) <= {503}
        addresses = {
            c.laddr.ip for c in psutil.Process(process.pid).net_connections() if c.status == "LISTEN"
        }
        assert addresses == {"127.0.0.1"}
        body = {"prompt": "a", "num_inference_steps": 20, "n": 3}
        connection = sent_and_being_read(url, body)
        process.send_signal(signal.SIGTERM)
        status, answer = whole_answer(connection)
        assert (status, len(answer["data"])) == (200, 3)
        code, out, err = ended(process)
    assert (code, out) == (0, "")
    assert "SIGTERM: finishing what is in flight" in err
    assert lines_covered(tmp_path, "serving/images.py")
    assert lines_covered(tmp_path, "engine/engine.py")


def test_sigterm_while_loading_ends_at_once_and_keeps_its_coverage(tiny_z_image, tmp_path, coverage_config):
    measured = ["-m", "coverage", "run", f"--rcfile={coverage_config}"]
    with started(*measured, *SERVE, str(tiny_z_image), "--port", "0", cwd=tmp_path) as process:
        url = url_of(process)
        health = httpx.get(f"{url}/health", timeout=HANG_S)
        assert (health.status_code, health.json()) == (503, {"status": "loading"})
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=20)
        code, _, err = ended(process)
    assert code == 0
    assert "while loading" in err
    assert lines_covered(tmp_path, "serving/server.py")


def test_a_load_that_fails_ends_the_process_with_its_message_and_code(tiny_z_image):
    with started(*SERVE, str(tiny_z_image), "--port", "0", "--device", "npu") as process:
        code, out, err = ended(process)
    assert code == 4
    assert out.startswith(LISTENING)
    assert "device 'npu' was asked for and is not present" in err


def test_a_taken_port_is_exit_4_before_anything_is_loaded(tiny_z_image):
    with listen("127.0.0.1", 0) as owner:
        port = str(owner.getsockname()[1])
        command = "import sys, omni.cli; code = omni.cli.run(sys.argv[1:]); sys.exit(99 if 'torch' in sys.modules else code)"
        with started("-c", command, "serve", str(tiny_z_image), "--port", port) as process:
            code, out, err = ended(process)
    assert (code, out) == (4, "")
    assert err.startswith(f"omni: port {port} on 127.0.0.1 is taken by process ")
    assert "--port" in err


SLOW = """
    import logging, sys, time
    from omni.errors import Cancelled
    from omni.serving import server
    from omni.serving.slot import EngineSlot
    from omni.serving.sockets import listen

    class Engine:
        # Steps as long as an argument says: no tiny model is slow enough for these questions.
        class sizes:
            resolve = staticmethod(lambda size: (8, 8))

        def generate(self, request, *, cancelled):
            while not cancelled():
                time.sleep(float(sys.argv[1]))
            raise Cancelled("between steps")

    def build():
        time.sleep(float(sys.argv[3]))
        return Engine()

    logging.basicConfig(level=logging.INFO)
    server.GRACE_S, server._ANSWER_S = float(sys.argv[2]) + 1, 1
    server.run(listen("127.0.0.1", 0), EngineSlot("slow"), build)
"""


@contextmanager
def slow_server(*, step_s, grace_s, missing=0):
    with started("-c", textwrap.dedent(SLOW), str(step_s), str(grace_s), "0") as process:
        url = url_of(process)
        wait_ready(process, url)
        yield process, sent_and_being_read(url, {"prompt": "a"}, missing=missing)


def test_sigterm_does_not_wait_for_a_load():
    with started("-c", textwrap.dedent(SLOW), "0", "0", str(10 * HANG_S)) as process:
        url = url_of(process)
        assert httpx.get(f"{url}/health", timeout=HANG_S).status_code == 503
        process.send_signal(signal.SIGTERM)
        # Tens of milliseconds; what waits for anything at all takes the grace.
        assert process.wait(timeout=5) == 0


def test_a_half_sent_body_is_refused_at_the_first_signal_and_keeps_nobody():
    with slow_server(step_s=0.01, grace_s=10 * HANG_S, missing=1) as (process, connection):
        process.send_signal(signal.SIGTERM)
        status, answer = whole_answer(connection)
        assert (status, answer["error"]["code"]) == (503, "server_stopping")
        code, _, err = ended(process)
    assert code == 0
    assert "ERROR" not in err


def test_after_the_grace_a_request_is_cancelled_between_steps_and_told():
    with slow_server(step_s=0.01, grace_s=0.3) as (process, connection):
        process.send_signal(signal.SIGTERM)
        status, answer = whole_answer(connection)
        assert (status, answer["error"]["code"]) == (503, "cancelled")
        assert ended(process)[0] == 0


def test_a_step_longer_than_the_grace_does_not_keep_the_process():
    with slow_server(step_s=10 * HANG_S, grace_s=0.3) as (process, connection), connection:
        process.send_signal(signal.SIGINT)
        code, _, err = ended(process)
    assert code == 0
    assert "leaving without it" in err


def test_a_second_signal_ends_at_once():
    with slow_server(step_s=10 * HANG_S, grace_s=10 * HANG_S) as (process, connection), connection:
        process.send_signal(signal.SIGTERM)
        assert any("finishing" in line for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == 128 + signal.SIGTERM
