from __future__ import annotations

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from omni_hardware.errors import InfrastructureError
from pytest_omni.servers import ports
from pytest_omni.servers.ports import lock_folder, reserved_port

pytestmark = pytest.mark.process


def test_ports_reserved_at_the_same_time_differ(tmp_path):
    def take(_: int) -> int:
        return stack.enter_context(reserved_port(tmp_path))

    with ExitStack() as stack, ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(take, range(200)))
    assert len(set(taken)) == 200


def test_a_port_that_another_process_reserved_is_passed_over(tmp_path, monkeypatch):
    code = (
        "import sys; from pathlib import Path; from pytest_omni.servers.ports import reserved_port\n"
        "with reserved_port(Path(sys.argv[1])) as port: print(port, flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        theirs = int(other.stdout.readline())
        with pytest.raises(
            InfrastructureError, match=f"port {theirs} is reserved by another server of these tests"
        ):
            reserved_port(tmp_path, theirs).__enter__()
        offered = iter([theirs, theirs, 0])
        real = ports._bound
        monkeypatch.setattr(ports, "_bound", lambda _wanted: real(next(offered)))
        with reserved_port(tmp_path) as ours:
            assert ours != theirs
    finally:
        other.communicate("", timeout=60)


def test_a_port_is_free_again_afterwards(tmp_path):
    with reserved_port(tmp_path) as first:
        pass
    with reserved_port(tmp_path, first) as again:
        assert again == first


def test_a_taken_port_is_refused_with_a_way_out(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(InfrastructureError) as caught:
            reserved_port(tmp_path, port).__enter__()
    assert str(caught.value) == (
        f"port {port} on 127.0.0.1 cannot be bound: Address already in use; "
        "stop what listens there, or leave port=None to get a free one"
    )


@pytest.mark.parametrize(
    ("basetemp", "is_worker", "expected"),
    [
        ("/tmp/pytest-of-me/pytest-3", False, "/tmp/pytest-of-me/omni-ports"),
        ("/tmp/pytest-of-me/pytest-3/popen-gw0", True, "/tmp/pytest-of-me/omni-ports"),
        ("/here/base", False, "/here/base/omni-ports"),
        ("/here/base/popen-gw1", True, "/here/base/omni-ports"),
    ],
)
def test_workers_and_sessions_of_a_user_share_the_locks(basetemp, is_worker, expected):
    assert lock_folder(Path(basetemp), is_worker=is_worker) == Path(expected)
