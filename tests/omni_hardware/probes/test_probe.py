from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from omni_hardware import probes
from omni_hardware.errors import InfrastructureError
from omni_hardware.inventory import NONE, Device, Inventory, ProcessMemory, load_inventory
from omni_hardware.probes import VENDORS, probe, process_memory, vendor_of
from omni_hardware.vocabulary import DEFAULT, PLATFORMS

SMI = Path(__file__).parents[1] / "smi"
# What the probe process imports in place of NVIDIA's binding.
BINDING = """
import types
class NVMLError(Exception):
    value = 18
NVML_ERROR_LIBRARY_NOT_FOUND, NVML_ERROR_DRIVER_NOT_LOADED, NVML_ERROR_NOT_FOUND = 12, 9, 6
def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlSystemGetDriverVersion(): return "580.95.05"
def nvmlDeviceGetCount(): return 2
def nvmlDeviceGetHandleByIndex(position): return position
def nvmlDeviceGetUUID(card): return f"GPU-{card}"
def nvmlDeviceGetName(card): return ["NVIDIA H100 80GB HBM3", "NVIDIA GB300"][card]
def nvmlDeviceGetMigMode(card): return [0, 0]
def nvmlDeviceGetMemoryInfo(card): return types.SimpleNamespace(total=81559 << 20, used=310 << 20)
def nvmlDeviceGetComputeRunningProcesses(card):
    return [types.SimpleNamespace(pid=77, usedGpuMemory=5 << 20)] if card else []
def nvmlDeviceGetGraphicsRunningProcesses(card): return []
"""


@pytest.fixture
def machine(tmp_path):
    """A machine of files: device nodes below root, tools on a PATH of its own, a binding beside them."""
    root, tools = tmp_path / "root", tmp_path / "tools"
    tools.mkdir()

    class Machine:
        environ = {"PATH": str(tools)}  # noqa: RUF012

        def node(self, name: str) -> Path:
            path = root / "dev" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            return path

        def tool(self, name: str, lines: str) -> None:
            (tools / name).write_text(f"#!/bin/sh\n{lines}\n")
            (tools / name).chmod(0o755)

        def binding(self, code: str) -> None:
            (tools / "pynvml.py").write_text(code)
            self.environ = {**self.environ, "PYTHONPATH": str(tools)}

        def probe(self, **options) -> Inventory:
            return probe(self.environ, root=root, **options)

        def process_memory(self, inventory: Inventory) -> tuple[ProcessMemory, ...]:
            return process_memory(inventory, self.environ, root=root)

    return Machine()


def test_a_bare_machine_starts_no_process(machine, monkeypatch):
    monkeypatch.setattr(probes, "run", None)
    machine.node("null")
    machine.node("kfd")  # every desktop with an AMD chip has it
    assert machine.probe() == dataclasses.replace(NONE, source="probe")


def test_cards_through_the_binding(machine):
    machine.node("nvidia0")
    machine.binding(BINDING)
    machine.environ |= {"CUDA_VISIBLE_DEVICES": "1"}
    found = machine.probe()
    assert found.devices == (
        Device(0, "GPU-0", "H100", 81559, 310, name="NVIDIA H100 80GB HBM3"),
        Device(1, "GPU-1", None, 81559, 310, name="NVIDIA GB300"),
    )
    assert (found.platform, found.driver, found.source) == ("cuda", "580.95.05", "probe")
    assert found.limit == "CUDA_VISIBLE_DEVICES=1 of 2"
    assert machine.process_memory(found) == (ProcessMemory(77, 1, 5),)


def test_a_project_names_its_own_products(machine):
    machine.node("nvidia0")
    machine.binding(BINDING)
    rows = tuple(
        dataclasses.replace(row, skus=(*row.skus, "GB300")) if row.name == "cuda" else row
        for row in DEFAULT.platforms
    )
    found = machine.probe(vocabulary=dataclasses.replace(DEFAULT, platforms=rows))
    assert [device.sku for device in found.devices] == ["H100", "GB300"]


@pytest.mark.parametrize(
    ("binding", "says"),
    [
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", r"^the cuda probe died of signal 11$"),
        ("raise RuntimeError('half installed')", "^the cuda probe ended with status 1: .*half installed$"),
        ("print('{}'); raise SystemExit", "the probe's answer: schema: is missing; write 1"),
        (f"{BINDING}\ndef nvmlInit(): raise NVMLError('version mismatch')", "^NVML: version mismatch$"),
    ],
)
def test_a_probe_that_dies_or_fails_is_an_error_never_no_devices(machine, binding, says):
    machine.node("nvidia0")
    machine.binding(binding)
    found = machine.probe()
    assert found.platform == "cuda"
    assert found.devices == ()
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(found.error)


@pytest.mark.process
def test_a_driver_that_hangs_is_left_alone(machine):
    machine.node("nvidia0")
    machine.binding("import time\ntime.sleep(120)")
    found = machine.probe(limit_s=1.0)
    assert found.error == "the cuda probe gave no answer in time and was left alone"


def test_an_error_counts_only_where_no_platform_has_devices(machine):
    machine.node("nvidia0")
    machine.binding("raise RuntimeError('broken')")
    machine.tool("rocm-smi", f"exec /bin/cat {SMI / 'amd/rocm-smi-id-product-vram-mi300x-assembled.json'}")
    found = machine.probe()
    assert (found.platform, found.error, found.devices[0].sku) == ("rocm", None, "MI300")
    assert "broken" in machine.probe(platform="cuda").error


def test_devices_that_share_an_id_are_told_apart(machine):
    cards = [{"gpu": at, "asic": {"asic_serial": "0x1A"}} for at in range(3)]
    machine.tool("amd-smi", f"echo '{json.dumps(cards)}'")
    uuids = [device.uuid for device in machine.probe().devices]
    assert uuids == ["GPU-000000000000001a", "GPU-000000000000001a/1", "GPU-000000000000001a/2"]


def test_what_hides_devices_does_not_reach_the_tool(machine):
    """xpu-smi goes through Level Zero, which obeys the mask: the inventory is the machine's, the mask comes after."""
    list_of_two = '{"device_list": [{"device_id": 0, "uuid": "a", "device_name": "mask=%s"}, {"device_id": 1, "uuid": "b"}]}'
    machine.tool("xpu-smi", f"printf '{list_of_two}' \"$ZE_AFFINITY_MASK\"")
    machine.environ |= {"ZE_AFFINITY_MASK": "1"}
    found = machine.probe()
    assert [device.name for device in found.devices] == ["mask=", ""]
    assert [device.uuid for device in found.seen] == ["b"]


def test_a_folder_of_tests_cannot_stand_in_for_the_library(machine, tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise RuntimeError('mine')")
    monkeypatch.chdir(tmp_path)
    machine.node("nvidia0")
    machine.binding(BINDING)
    assert len(machine.probe().devices) == 2


def test_memory_by_process_of_a_file_is_read_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path("inventory.json")
    document = {"schema": 1, "platform": "cuda", "devices": [{"index": 0, "uuid": "GPU-0"}]}
    path.write_text(json.dumps(document))
    inventory = load_inventory(path)
    assert process_memory(inventory) == ()
    path.write_text(json.dumps({**document, "processes": [{"pid": 7, "index": 0, "used_mib": 9}]}))
    monkeypatch.chdir("/")  # a test may have gone elsewhere
    assert process_memory(inventory) == (ProcessMemory(7, 0, 9),)
    assert process_memory(NONE) == ()


def test_memory_by_process_that_cannot_be_told_is_an_error(machine):
    machine.node("nvidia0")
    machine.binding(f"{BINDING}\ndef nvmlInit(): raise NVMLError('lost')")
    with pytest.raises(InfrastructureError, match="which process holds cuda memory: NVML: lost"):
        machine.process_memory(Inventory("cuda", devices=(Device(0, "GPU-0"),)))


def test_the_probe_stands_alone(machine):
    """What it prints is an inventory file, with the SKU and the variable that limits what is seen."""
    machine.tool("mthreads-gmi", f"exec /bin/cat {SMI / 'mthreads/mthreads-gmi-s5000-head.txt'}")
    command = [sys.executable, "-m", "omni_hardware.probes"]
    environ = {**os.environ, **machine.environ, "MUSA_VISIBLE_DEVICES": "1"}
    done = subprocess.run([*command, "musa"], capture_output=True, text=True, check=True, env=environ)
    found = Inventory.from_json(json.loads(done.stdout))
    assert found.driver == "5.1.0-server"
    assert [(device.index, device.sku) for device in found.seen] == [(1, "S5000")]
    unknown = subprocess.run([*command, "tpu"], capture_output=True, text=True, check=False)
    assert unknown.returncode == 2


def test_every_platform_with_devices_has_one_probe():
    assert {vendor.platform for vendor in VENDORS} == set(PLATFORMS) - {"cpu"}
    assert len({vendor.platform for vendor in VENDORS}) == len(VENDORS)
    for vendor in VENDORS:
        module = vendor.load()
        assert vendor.platform == module.PLATFORM
    assert vendor_of("cpu") is None


@pytest.mark.parametrize(
    ("platform", "nodes", "worth", "driven"),
    [
        ("cuda", ["nvidia0", "nvidiactl"], True, True),
        ("cuda", ["nvidiactl"], True, False),
        ("cuda", ["dxg"], True, False),  # any WSL has it
        ("cuda", ["nvidia-caps"], False, False),
        ("rocm", ["kfd"], False, True),
        ("npu", ["davinci_manager"], False, True),
        ("xpu", ["dri/renderD128"], False, True),
        ("musa", [], False, False),
    ],
)
def test_what_makes_asking_worth_it(machine, tmp_path, platform, nodes, worth, driven):
    for node in nodes:
        machine.node(node)
    vendor = vendor_of(platform)
    root = tmp_path / "root"
    assert vendor.worth_asking(machine.environ, root) == worth
    assert vendor.has_nodes(root) == driven
    machine.tool(vendor.tools[-1], "exit 1")
    assert vendor.worth_asking(machine.environ, root)


def test_only_what_was_seen_on_a_device_is_called_proven():
    assert [vendor.platform for vendor in VENDORS if vendor.proven] == ["cuda"]


def test_every_sample_is_read_by_a_test():
    texts = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    samples = [path for path in SMI.rglob("*") if path.is_file() and path.suffix != ".md"]
    assert len(samples) > 30
    # the table beside each list is named by replacing the suffix
    missing = [path.name for path in samples if path.stem not in texts]
    assert missing == []
