"""Whatever a tool prints, a probe has devices, none, or one error: releases change, outputs are cut."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omni_hardware.inventory import Inventory
from omni_hardware.probes import VENDORS
from omni_hardware.probes.tools import Output, ProbeError

SMI = Path(__file__).parents[1] / "smi"
TEXTS = {
    path: path.read_text("utf-8")
    for path in sorted(SMI.rglob("*"))
    if path.suffix in {".txt", ".json", ".csv"}
}


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A sample with a piece cut out, and another word in its place."""
    content = draw(st.sampled_from(list(TEXTS.values())))
    start = draw(st.integers(0, len(content)))
    end = draw(st.integers(start, min(len(content), start + 80)))
    return (
        content[:start]
        + draw(st.sampled_from(["", "null", "[]", "{}", "-1", "N/A", "\x00", "|", "\n"]))
        + content[end:]
    )


@pytest.fixture(scope="module", autouse=True)
def _no_binding():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pynvml", None)
        yield


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.platform)
@given(
    outputs=st.lists(damaged(), min_size=1, max_size=4),
    code=st.sampled_from([0, 0, 0, 1]),
    nodes=st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_devices_none_or_one_error(vendor, outputs, code, nodes):
    module, left = vendor.load(), list(outputs)

    def run(_command):
        return Output(code, left.pop(0) if len(left) > 1 else left[0])

    said, found, held = "", Inventory(vendor.platform), ()
    try:
        held = module.processes(run, has_nodes=nodes)
        found = module.probe(run, has_nodes=nodes)
    except ProbeError as error:
        said = str(error)
    assert "\n" not in said
    assert found.platform == vendor.platform
    assert all(device.uuid for device in found.devices)
    assert all(isinstance(row.pid, int) for row in held)
