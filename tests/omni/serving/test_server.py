from __future__ import annotations

import asyncio
import signal
from types import SimpleNamespace

from omni.serving import server
from omni.serving.bodies import Arrivals
from omni.serving.slot import EngineSlot, State


def test_the_first_signal_ends_the_process_within_the_ten_seconds_promised(monkeypatch):
    left = []
    monkeypatch.setattr(server, "_leave", left.append)

    async def asked():
        slot = EngineSlot("tiny")
        await slot.load(object)
        later = []
        monkeypatch.setattr(
            asyncio.get_running_loop(), "call_later", lambda delay, call: later.append((delay, call))
        )
        uvicorn = SimpleNamespace(should_exit=False)
        server._Ending(uvicorn, slot, Arrivals()).asked(signal.SIGTERM)
        assert uvicorn.should_exit
        assert slot.state is State.READY
        (stop_s, stop), (leave_s, leave) = later
        stop()
        assert (slot.state, left) == (State.STOPPING, [])
        leave()
        return stop_s, leave_s

    stop_s, leave_s = asyncio.run(asked())
    assert left == [0]
    assert 5 <= stop_s < leave_s <= 10
