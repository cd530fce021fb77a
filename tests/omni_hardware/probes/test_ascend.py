from __future__ import annotations

import pytest

from omni_hardware.inventory import Device, Inventory, ProcessMemory
from omni_hardware.probes import ascend
from omni_hardware.probes.tools import Output, ProbeError
from omni_hardware.vocabulary import PLATFORMS


def chip(index: int, bus: str, name: str, total: int, used: int) -> Device:
    return Device(index, f"0000:{bus}:00.0", None, total, used, name=name)


@pytest.mark.parametrize(
    ("name", "driver", "devices", "sku", "processes"),
    [
        (
            "ascend/npu-smi-info-910b2c.txt",
            "23.0.3",
            [chip(0, "D9", "910B2C", 65536, 52675), chip(1, "98", "910B2C", 65536, 52665)],
            "A2",
            [ProcessMemory(78617, 0, 49385), ProcessMemory(79095, 1, 49379)],
        ),
        (
            "ascend/npu-smi-info-a3.txt",
            "24.1.rc3.7",
            [
                chip(0, "9D", "Ascend910", 65536, 3412),
                chip(1, "9F", "Ascend910", 65536, 3189),
                chip(2, "99", "Ascend910", 65536, 3413),
                chip(3, "9B", "Ascend910", 65536, 3185),
            ],
            "A3",
            [],
        ),
        ("ascend/npu-smi-info-310p3.txt", "22.0.2", [chip(0, "86", "310P3", 21534, 994)], "310P", []),
    ],
)
def test_npu_smi_info(said, name, driver, devices, sku, processes):
    run = said({"npu-smi info": name})
    assert ascend.probe(run, has_nodes=True) == Inventory("npu", driver, devices=tuple(devices))
    assert ascend.processes(run, has_nodes=True) == tuple(processes)
    assert {PLATFORMS["npu"].sku_of(device.name) for device in devices} == {sku}


def test_the_mapping_where_the_table_cannot_be_read(said):
    run = said(
        {
            "npu-smi info": "a table of another release",
            "npu-smi info -m": "ascend/npu-smi-info-m-910b4.txt",
            "npu-smi info -t usages -i 0": "ascend/npu-smi-info-usages.txt",
            "npu-smi info -t usages -i 1": Output(1),
        }
    )
    first, second = ascend.probe(run, has_nodes=True).devices
    assert first == Device(0, "npu-0-0", None, 65536, 3276, name="Ascend 910B4")
    assert second == Device(1, "npu-1-0", name="Ascend 910B4")
    assert PLATFORMS["npu"].sku_of("Ascend 910B4") == "A2"


@pytest.mark.parametrize(
    ("name", "usages"),
    [
        ("ascend/npu-smi-info-usages.txt", {0: (65536, 3276)}),
        ("ascend/npu-smi-info-usages-doc.txt", {0: (131072, 3932)}),
        ("ascend/npu-smi-info-usages-a3-two-chips.txt", {0: (65536, 10485), 1: (65536, 10485)}),
    ],
)
def test_usages(sample, name, usages):
    assert ascend.usages_in(sample(name)) == usages


def test_the_list_where_there_is_no_mapping(said):
    run = said(
        {
            "npu-smi info": "a table of another release",
            "npu-smi info -m": Output(1, err="unknown option"),
            "npu-smi info -l": "ascend/npu-smi-info-l.txt",
            "npu-smi info -t usages -i 7": "ascend/npu-smi-info-usages.txt",
        }
    )
    devices = ascend.probe(run, has_nodes=True).devices
    assert [device.index for device in devices] == list(range(8))
    assert devices[7] == Device(7, "npu-7-0", None, 65536, 3276)
    two = "NPU ID : 4\n Chip Count : 2\n"
    assert [(chip.npu, chip.chip) for chip in ascend.listed_in(two)] == [(4, 0), (4, 1)]


@pytest.mark.parametrize(
    "name", ["ascend/npu-smi-init-failed.txt", "ascend/npu-smi-no-permission-assembled.txt"]
)
@pytest.mark.parametrize("code", [0, 255])
def test_a_driver_that_refuses_is_an_error_and_without_nodes_no_device(said, sample, name, code):
    run = said({"npu-smi info": Output(code, sample(name))})
    with pytest.raises(
        ProbeError, match=r"npu-smi info: exit \d+: .*dcmi module initialize failed. ret is -8005"
    ):
        ascend.probe(run, has_nodes=True)
    assert ascend.probe(run, has_nodes=False) == Inventory("npu")
    assert ascend.probe(said({}), has_nodes=True) == Inventory("npu")
