from __future__ import annotations

import pytest

from omni_ci.errors import GuardError
from omni_ci.local.machine import Machine
from omni_hardware.inventory import NONE, Device, Inventory
from omni_hardware.requirements import Need
from omni_hardware.visibility import visible

L4 = [Device(index, f"GPU-{index}", "L4", 24_000) for index in range(3)]


def machine(*devices: Device, error: str | None = None, **environ: str) -> Machine:
    inventory = Inventory("cuda", devices=devices, error=error, visible=visible("cuda", environ))
    return Machine(inventory=inventory, environ=environ)


def test_devices_are_handed_out_once_and_taken_back():
    here = machine(*L4)
    one, two = Need(platform="cuda", skus=("L4",)), Need(platform="cuda", skus=("L4",), cards=2)
    assert here.take(one) == (0,)
    assert here.take(two) == (1, 2)
    assert here.take(one) is None
    here.give_back((1, 2))
    assert here.take(one) == (1,)
    assert here.take(None) == here.take(Need(platform="cpu", cards=0)) == ()


def test_a_job_gets_entries_of_the_callers_own_list():
    here = machine(*L4, CUDA_VISIBLE_DEVICES="2,0")
    devices = here.take(Need(platform="cuda", skus=("L4",)))
    environ = here.environment(devices)
    assert environ["CUDA_VISIBLE_DEVICES"] == "2"
    assert environ["VLLM_CI_EXPECTED_GPU_COUNT"] == "1"


def test_a_job_without_a_device_sees_none():
    assert machine(*L4).environment(())["CUDA_VISIBLE_DEVICES"] == "-1"


def test_only_devices_of_the_model_are_handed_out():
    here = machine(L4[0], Device(1, "GPU-9", "H100", 80_000))
    assert here.take(Need(platform="cuda", skus=("H100",))) == (1,)


@pytest.mark.parametrize(
    ("need", "why"),
    [
        (Need(platform="cuda", skus=("L4",), cards=3), ""),
        (None, ""),
        (Need(platform="cuda", skus=("L4",), cards=4), "needs cuda L4×4, sees L4×3"),
        (Need(platform="cuda", skus=("H100",)), "needs cuda H100, sees L4×3"),
        (Need(platform="rocm", skus=("MI300",)), "needs rocm MI300, sees cuda L4×3"),
    ],
)
def test_what_cannot_run_here_has_its_reason(need, why):
    assert machine(*L4).why_not(need) == why


def test_a_machine_without_devices_runs_what_needs_none():
    here = Machine(inventory=NONE, environ={})
    assert here.why_not(None) == ""
    assert here.why_not(Need(platform="cuda", skus=("L4",))) == "needs cuda L4, sees none"


def test_a_probe_that_failed_is_no_machine_without_devices():
    with pytest.raises(GuardError, match="cannot tell which cuda devices are here: it hung; name them"):
        machine(error="it hung").why_not(Need(platform="cuda"))
