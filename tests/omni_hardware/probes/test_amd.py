from __future__ import annotations

import json

import pytest

from omni_hardware.inventory import Device, Inventory, ProcessMemory
from omni_hardware.probes import amd
from omni_hardware.probes.tools import Output, ProbeError
from omni_hardware.vocabulary import PLATFORMS

ABANDONED = Output(124, err="amd-smi gave no answer in 20 s", abandoned=True)


def skus(devices):
    return [PLATFORMS["rocm"].sku_of(device.name) for device in devices]


@pytest.mark.parametrize(
    ("static", "listing", "devices", "sku"),
    [
        (
            "amd/amd-smi-static-mi300x-assembled.json",
            "amd/amd-smi-list-mi300x-assembled.json",
            [Device(0, "GPU-1a2b3c4d5e6f7081", None, 196592, name="AMD Instinct MI300X")],
            "MI300",
        ),
        (
            "amd/amd-smi-static-mi210.json",
            None,
            [Device(0, "gpu-0", None, 65520, name="AMD Instinct MI210")],
            None,
        ),
        (
            "amd/amd-smi-static-strix-halo.json",
            "amd/amd-smi-list-strix-halo.json",
            [
                Device(
                    0,
                    "00ff1586-0000-1000-8000-000000000000",
                    None,
                    32768,
                    name="Strix Halo [Radeon Graphics / Radeon 8050S Graphics / Radeon 8060S Graphics]",
                )
            ],
            None,
        ),
    ],
)
def test_amd_smi(said, static, listing, devices, sku):
    run = said({"amd-smi static": static} | ({"amd-smi list": listing} if listing else {}))
    found = amd.probe(run, has_nodes=True)
    assert found == Inventory("rocm", devices=tuple(devices))
    assert skus(found.devices) == [sku]


def test_amd_smi_tells_driver_and_memory_in_use(said, sample):
    static = json.loads(sample("amd/amd-smi-static-mi300x-assembled.json"))
    static["gpu_data"][0]["driver"] = {"name": "amdgpu", "version": "6.12.12"}
    metric = {"gpu_data": [{"gpu": 0, "mem_usage": {"used_vram": {"value": 283, "unit": "MB"}}}]}
    run = said({"amd-smi static": json.dumps(static), "amd-smi metric": json.dumps(metric)})
    found = amd.probe(run, has_nodes=True)
    assert (found.driver, found.devices[0].used_mib) == ("6.12.12", 283)


@pytest.mark.parametrize(
    ("name", "devices", "driver", "sku"),
    [
        (
            "amd/rocm-smi-id-product-mi300a.json",
            [
                Device(0, "guid-41207", name="AMD Instinct MI300A"),
                Device(1, "guid-41530", name="AMD Instinct MI300A"),
            ],
            "6.16.13",
            "MI300",
        ),
        (
            "amd/rocm-smi-meminfo-mi100-rocm602.json",
            [
                Device(0, "GPU-51a7c0de93b2406f", None, 32752, 6, name="Arcturus GL-XL [Instinct MI100]"),
                Device(1, "GPU-03b9d02f41e6a58c", None, 32752, 6, name="Arcturus GL-XL [Instinct MI100]"),
            ],
            "6.3.6",
            None,
        ),
        (
            "amd/rocm-smi-all-mi250.json",
            [Device(0, "GPU-5c1e7a20946bd3f8", name="AMD INSTINCT MI250 (MCM) OAM AC MBA")],
            "6.2.4",
            "MI250",
        ),
        (
            "amd/rocm-smi-id-product-vram-mi300x-assembled.json",
            [Device(0, "guid-28851", None, 196592, 283, name="AMD Instinct MI300X")],
            None,
            "MI300",
        ),
    ],
)
@pytest.mark.parametrize("first", [None, ABANDONED, Output(1, err="AMDSMI_STATUS_NOT_INIT")])
def test_rocm_smi_where_amd_smi_is_missing_hangs_or_fails(said, name, devices, driver, sku, first):
    run = said({"rocm-smi": name} | ({"amd-smi": first} if first else {}))
    found = amd.probe(run, has_nodes=True)
    assert found == Inventory("rocm", driver, devices=tuple(devices))
    assert set(skus(found.devices)) == {sku}


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"amd-smi": Output(255, err="ERROR:root:Drivers not loaded (amdgpu drivers not found in modules)")},
        # exit 0, and the sentence on stderr
        {"rocm-smi": Output(0, err="ERROR:root:Driver not initialized (amdgpu not found in modules)")},
        {"amd-smi": ABANDONED, "rocm-smi": "amd/rocm-smi-no-driver.txt"},
        {"amd-smi": "amd/amd-smi-no-driver.txt"},
        {"amd-smi": "[]"},
        {"amd-smi": '{"gpu_data": []}'},
    ],
)
def test_no_tool_or_no_driver_is_no_device(said, answers):
    assert amd.probe(said(answers), has_nodes=True) == Inventory("rocm")


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({"amd-smi": ABANDONED}, "amd-smi gave no answer in 20 s"),
        ({"amd-smi": Output(1, err="boom")}, "amd-smi static .*: exit 1: boom"),
        ({"amd-smi": ABANDONED, "rocm-smi": Output(2, err="bang")}, "rocm-smi .*: exit 2: bang"),
        ({"rocm-smi": "WARNING: nothing"}, "rocm-smi .*: exit 0: WARNING: nothing"),
        ({"amd-smi": "not json"}, "amd-smi static .*: exit 0: not json"),
        ({"amd-smi": '{"gpus": 1}'}, "no list of cards"),
    ],
)
def test_a_tool_that_does_not_answer_is_an_error(said, answers, says):
    with pytest.raises(ProbeError, match=says):
        amd.probe(said(answers), has_nodes=True)


def test_warnings_before_the_document(said, sample):
    text = "WARNING: User is missing the render group\n" + sample("amd/amd-smi-static-mi210.json")
    assert len(amd.probe(said({"amd-smi static": text}), has_nodes=True).devices) == 1


def test_processes(said):
    general = said({"amd-smi process": "amd/amd-smi-process-general.json"})
    assert amd.processes(general, has_nodes=True) == (
        ProcessMemory(420157, 0, 0),
        ProcessMemory(420315, 0, 0),
    )
    nothing = said({"amd-smi process": "amd/amd-smi-process-none-assembled.json"})
    assert amd.processes(nothing, has_nodes=True) == ()
    assert amd.processes(said({}), has_nodes=True) == ()
    info = {"pid": 7, "mem_usage": {"value": 3 * 1024**3, "unit": "B"}}
    row = {"gpu": 2, "process_list": [{"process_info": info}]}
    assert amd.processes_in([row]) == (ProcessMemory(7, 2, 3072),)
    info["mem_usage"] = {"value": 3, "unit": "pages"}
    assert amd.processes_in([row]) == ()
