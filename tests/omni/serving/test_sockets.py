from __future__ import annotations

import os
import socket

import pytest

from omni.errors import InfrastructureError, InputError
from omni.serving.sockets import listen, url_of

pytestmark = pytest.mark.process


def test_port_0_takes_a_free_one_and_the_url_reaches_it():
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert url_of(listener) == f"http://127.0.0.1:{port}"
        socket.create_connection(("127.0.0.1", port), timeout=5).close()


def test_every_address_is_shown_as_one_that_can_be_opened():
    with listen("0.0.0.0", 0) as listener:
        assert url_of(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_taken_port_names_its_owner_and_the_way_out():
    with listen("127.0.0.1", 0) as owner:
        port = owner.getsockname()[1]
        with pytest.raises(InfrastructureError) as refused:
            listen("127.0.0.1", port)
    for part in (f"port {port}", f"process {os.getpid()}", "--port"):
        assert part in str(refused.value)


def test_a_host_that_is_none_is_the_users_mistake():
    with pytest.raises(InputError, match="not an address"):
        listen("no.such.host.invalid", 0)


def test_somebody_elses_address_is_explained():
    with pytest.raises(InfrastructureError, match=r"192\.0\.2\.1: not an address of this machine"):
        listen("192.0.2.1", 0)
