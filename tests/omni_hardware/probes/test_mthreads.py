from __future__ import annotations

import pytest

from omni_hardware.inventory import Device, Inventory
from omni_hardware.probes import mthreads
from omni_hardware.probes.tools import Output, ProbeError
from omni_hardware.vocabulary import PLATFORMS


@pytest.mark.parametrize(
    ("name", "driver", "devices", "sku"),
    [
        (
            "mthreads/mthreads-gmi-s80.txt",
            "2.7.0",
            [Device(0, "00000000:04:00.0", None, 16384, 2, name="MTT S80")],
            None,
        ),
        (
            "mthreads/mthreads-gmi-s5000-head.txt",
            "5.1.0-server",
            [
                Device(0, "00000000:18:00.0", None, 81920, 0, name="MTT S5000"),
                Device(1, "00000000:3a:00.0", None, 81920, 0, name="MTT S5000"),
            ],
            "S5000",
        ),
    ],
)
def test_mthreads_gmi(said, name, driver, devices, sku):
    run = said({"mthreads-gmi": name})
    assert mthreads.probe(run, has_nodes=True) == Inventory("musa", driver, devices=tuple(devices))
    assert {PLATFORMS["musa"].sku_of(device.name) for device in devices} == {sku}
    assert mthreads.processes(run, has_nodes=True) == ()


def test_no_tool_is_no_device_and_a_tool_without_a_card_an_error(said, sample):
    missing = Output(127, err=sample("mthreads/mthreads-gmi-not-installed.txt"))
    assert mthreads.probe(said({"mthreads-gmi": missing}), has_nodes=False) == Inventory("musa")
    with pytest.raises(ProbeError, match="mthreads-gmi: exit 1: driver gone"):
        mthreads.probe(said({"mthreads-gmi": Output(1, err="driver gone")}), has_nodes=True)
