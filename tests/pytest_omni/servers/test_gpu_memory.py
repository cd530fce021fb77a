"""Device memory before and after a server, with fake tools and a fake clock."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

import pytest

from omni_hardware.inventory import Device, ProcessMemory
from pytest_omni.servers.gpu_memory import (
    Check,
    GpuMemoryError,
    own_pids,
    refusal,
    require_returned,
    require_room,
)

H100 = Device(0, "GPU-0", "H100", 81559)
OTHER = Device(1, "GPU-1", "H100", 81559)
UNKNOWN = Device(2, "GPU-2", None, None, name="Somebody's card")
WHERE = "tests/test_a.py::test_big"
STRANGER, OURS = 4_100_001, 4_100_002  # above every real pid


@dataclass
class Tool:
    """Answers from a list of (second, rows): what counts is the last one that has begun."""

    answers: list[tuple[float, list[ProcessMemory]]]
    now: float = 0.0
    asked: list[float] = field(default_factory=list)

    def __call__(self) -> list[ProcessMemory]:
        self.asked.append(self.now)
        return [rows for at, rows in self.answers if at <= self.now][-1]

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def check(tool=list, *, devices=(H100,), need_mib=None) -> Check:
    return Check(devices=devices, query=tool, where=WHERE, need_mib=need_mib)


@pytest.mark.parametrize(
    ("rows", "devices", "need_mib", "own", "told"),
    [
        ([], (H100,), None, (), None),
        ([ProcessMemory(STRANGER, 0, 8000)], (H100,), None, (), None),  # a tenth is a desktop's
        (
            [ProcessMemory(STRANGER, 0, 65000)],
            (H100,),
            None,
            (),
            (
                f"device 0 (H100): 65000 of 81559 MiB are held by pid {STRANGER} 65000 MiB on device 0; "
                f"{WHERE} leaves room for 8155 MiB"
            ),
        ),
        ([ProcessMemory(STRANGER, 0, 41559)], (H100,), 40000, (), None),
        ([ProcessMemory(STRANGER, 0, 41560)], (H100,), 40000, (), "41560 of 81559 MiB"),
        ([ProcessMemory(STRANGER, 0, 1)], (H100,), 90000, (), "leaves room for 0 MiB"),
        ([ProcessMemory(OURS, 0, 65000)], (H100,), None, (OURS,), None),
        ([ProcessMemory(STRANGER, 1, 65000)], (H100,), None, (), None),  # not on our card
        ([ProcessMemory(STRANGER, 1, 65000)], (H100, OTHER), None, (), "device 1 (H100): 65000"),
        (
            [ProcessMemory(STRANGER, 2, 1025)],
            (UNKNOWN,),
            None,
            (),
            "device 2 (Somebody's card): 1025 MiB are held",
        ),
    ],
)
def test_who_is_in_the_way(rows, devices, need_mib, own, told):
    why = refusal(check(devices=devices, need_mib=need_mib), rows, own=own)
    assert told is None if why is None else told in why


def test_memory_of_a_mig_instance_cannot_be_attributed_so_nobody_is_refused():
    instance = Device(0, "MIG-0", "H100", 9856, mig="1g.10gb", parent="GPU-0")
    assert refusal(check(devices=(instance,)), [ProcessMemory(STRANGER, 0, 9000)], own=()) is None


def test_vllm_omni4165_a_foreign_process_is_named_before_the_start():
    rows = [ProcessMemory(STRANGER, 0, 65000)]
    with pytest.raises(
        GpuMemoryError, match=rf"no server is started beside foreign processes:\ndevice 0 .*pid {STRANGER} "
    ):
        require_room(check(lambda: rows), own=())
    require_room(check(pytest.fail, devices=()), own=())  # without devices nobody is asked


def test_vllm49242_memory_that_comes_back_late_is_waited_for():
    tool = Tool([(0, [ProcessMemory(OURS, 0, 70000)]), (20, [ProcessMemory(OURS, 0, 0)])])
    waited = require_returned(check(tool), ours={OURS}, limit_s=60, clock=tool.clock, sleep=tool.sleep)
    assert waited == 20
    assert len(tool.asked) == 21


def test_granite_switch123_a_leak_is_laid_at_the_door_of_its_test():
    rows = [ProcessMemory(OURS, 0, 70000), ProcessMemory(STRANGER, 0, 500), ProcessMemory(STRANGER, 1, 9)]
    tool = Tool([(0, rows)])
    with pytest.raises(GpuMemoryError) as caught:
        require_returned(check(tool), ours={OURS}, limit_s=60, clock=tool.clock, sleep=tool.sleep)
    assert str(caught.value) == (
        f"the server of {WHERE} has ended, but 60 s later its device memory is not given back: "
        f"pid {OURS} 70000 MiB on device 0; foreign processes there, not waited for: pid {STRANGER} 500 MiB on device 0"
    )


def test_sglang31571_nobody_waits_for_its_own_allocator():
    tool = Tool([(0, [ProcessMemory(os.getpid(), 0, 70000), ProcessMemory(STRANGER, 0, 9000)])])
    assert require_returned(check(tool), ours={OURS}, limit_s=60, clock=tool.clock, sleep=tool.sleep) == 0
    assert tool.asked == [0]
    assert os.getpid() in own_pids(())
    assert refusal(check(), [ProcessMemory(os.getpid(), 0, 70000)], own=own_pids(())) is None


def test_a_worker_takes_its_siblings_for_its_own(monkeypatch):
    assert os.getppid() not in own_pids((OURS,))
    assert OURS in own_pids((OURS,))
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    assert {os.getppid(), os.getpid()} <= own_pids(())


def test_many_processes_are_counted_and_programs_named():
    rows = [ProcessMemory(os.getpid(), 0, 9000), *(ProcessMemory(STRANGER + n, 0, 100) for n in range(9))]
    why = refusal(check(), rows, own=())
    assert why is not None
    assert re.search(rf"pid {os.getpid()} \([^)]+\) 9000 MiB on device 0", why)
    assert " and 2 more" in why
