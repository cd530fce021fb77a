from __future__ import annotations

import pytest

from omni_hardware.inventory import Device, Inventory
from omni_hardware.probes import intel
from omni_hardware.probes.tools import Output, ProbeError
from omni_hardware.vocabulary import PLATFORMS

MAX, B60 = "Intel(R) Data Center GPU Max 1100", "Intel(R) Arc(TM) Pro B60 Graphics"


def test_the_list_and_each_card_once_more(said):
    run = said(
        {
            "discovery -j": "intel/xpu-smi-discovery-max1100.json",
            "discovery -d 0 -j": "intel/xpu-smi-discovery-d0-max1100.json",
        }
    )
    first, second = intel.probe(run, has_nodes=True).devices
    assert first == Device(0, "00000000-0000-0029-0000-00540bda8086", None, 49136, name=MAX)
    assert (second.index, second.memory_mib, second.name) == (1, None, MAX)
    assert intel.probe(run, has_nodes=True).driver == "I915_23.10.72_PSB_231129.76"
    assert PLATFORMS["xpu"].sku_of(MAX) is None


@pytest.mark.parametrize(
    ("name", "uuids", "product", "sku"),
    [
        (
            "intel/xpu-smi-discovery-b60-assembled.json",
            ["00000000-0000-001a-0000-0000e2118086", "00000000-0000-003c-0000-0000e2118086"],
            B60,
            "B60",
        ),
        (
            "intel/xpu-smi-discovery-doc.json",
            ["00000000-0000-0000-0000-020a00008086"],
            "Intel(R) Graphics [0x020a]",
            None,
        ),
    ],
)
def test_the_table_tells_what_the_json_does(said, name, uuids, product, sku):
    listed = intel.probe(said({"discovery -j": name, "-d": Output(1)}), has_nodes=True)
    assert [device.uuid for device in listed.devices] == uuids
    assert {device.name for device in listed.devices} == {product}
    assert PLATFORMS["xpu"].sku_of(product) == sku
    table = said({"discovery -j": Output(106, err="no -j"), "discovery": name.replace(".json", ".txt")})
    assert intel.probe(table, has_nodes=True) == listed


def test_tiles_and_virtual_functions():
    card = Device(0, "a")
    assert intel.detailed(card, {"number_of_tiles": "2"}).tiles == 2
    assert intel.detailed(card, {"number_of_tiles": "unknown"}).tiles == 1
    row = {"device_id": 1, "uuid": "b", "device_function_type": "virtual"}
    assert intel.devices_in({"device_list": [row]}) == ()


@pytest.mark.parametrize(
    ("answers", "has_nodes"),
    [
        ({}, True),
        ({"discovery -j": "intel/xpu-smi-no-device-assembled.txt"}, True),
        ({"discovery -j": "intel/xpu-smi-no-device-v2-assembled.json"}, True),
        ({"discovery -j": "intel/xpu-smi-level-zero-error-assembled.json"}, False),
        ({"discovery -j": Output(39, "Error: Level Zero Initialization Error")}, False),
    ],
)
def test_no_tool_no_driver_or_no_card_is_no_device(said, answers, has_nodes):
    assert intel.probe(said(answers), has_nodes=has_nodes) == Inventory("xpu")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("intel/xpu-smi-level-zero-error-assembled.json", "Level Zero Initialization Error"),
        ("intel/xpu-smi-level-zero-error-assembled.txt", "Level Zero Initialization Error"),
        (Output(1, err="boom"), "xpu-smi discovery -j: exit 1: boom"),
        ("[1]", r"exit 0: \[1\]"),
        ('{"devices": []}', r'exit 0: {"devices": \[\]}'),
        ("hello", "exit 0: hello"),
        (
            Output(124, err="xpu-smi gave no answer in 20 s", abandoned=True),
            "^xpu-smi gave no answer in 20 s$",
        ),
    ],
)
def test_a_driver_that_does_not_start_is_an_error(said, answer, says):
    with pytest.raises(ProbeError, match=says):
        intel.probe(said({"discovery -j": answer}), has_nodes=True)
    assert intel.processes(said({}), has_nodes=True) == ()
