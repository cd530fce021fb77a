from __future__ import annotations

import dataclasses
import sys
from types import ModuleType, SimpleNamespace

import pytest

from omni_hardware.inventory import Device, Inventory, ProcessMemory
from omni_hardware.probes import nvidia
from omni_hardware.probes.tools import Output, ProbeError
from omni_hardware.vocabulary import PLATFORMS

MIB = 1024 * 1024
NAME = "NVIDIA H200"
SMI_QUERY = "nvidia/query-h100-h200-l4-assembled.csv"


class NVMLError(Exception):
    def __init__(self, value: int, text: str = "") -> None:
        self.value = value
        super().__init__(text or f"code {value}")


def nvml(cards: list[SimpleNamespace] | None = None, *, init: NVMLError | None = None) -> ModuleType:
    """A binding with the functions that we call, over cards that are namespaces."""
    fake = ModuleType("pynvml")
    fake.NVMLError = NVMLError
    fake.NVML_ERROR_NOT_SUPPORTED, fake.NVML_ERROR_NOT_FOUND = 3, 6
    fake.NVML_ERROR_DRIVER_NOT_LOADED, fake.NVML_ERROR_LIBRARY_NOT_FOUND = 9, 12
    fake.nvmlMemory_v2 = 2

    def start() -> None:
        if init is not None:
            raise init

    def ask(value):
        if isinstance(value, NVMLError):
            raise value
        return value

    def slot(card, position):
        found = card.instances.get(position)
        return found or ask(NVMLError(6))

    def memory(card, version=None):
        if version and card.old:
            raise TypeError("unexpected keyword argument 'version'")
        if not card.total:
            raise NVMLError(3)
        reserve = 0 if version else 600  # version 1 counts it as used
        return SimpleNamespace(total=card.total * MIB, used=(card.used + reserve) * MIB)

    fake.nvmlInit, fake.nvmlShutdown = start, lambda: None
    fake.nvmlSystemGetDriverVersion = lambda: b"580.95.05"
    fake.nvmlDeviceGetCount = lambda: len(cards or [])
    fake.nvmlDeviceGetHandleByIndex = lambda position: ask((cards or [])[position])
    fake.nvmlDeviceGetUUID = lambda card: card.uuid
    fake.nvmlDeviceGetName = lambda card: card.name
    fake.nvmlDeviceGetMemoryInfo = memory
    fake.nvmlDeviceGetMigMode = lambda card: ask(NVMLError(3)) if card.mig is None else [card.mig, card.mig]
    fake.nvmlDeviceGetMaxMigDeviceCount = lambda _card: 7
    fake.nvmlDeviceGetMigDeviceHandleByIndex = slot
    fake.nvmlDeviceGetComputeRunningProcesses = lambda card: ask(card.compute)
    fake.nvmlDeviceGetGraphicsRunningProcesses = lambda card: ask(card.graphics)
    return fake


def card(uuid: str, *, name: str = NAME, **fields) -> SimpleNamespace:
    usual = {"total": 143771, "used": 1, "mig": None, "instances": {}, "old": False}
    none = {"compute": [], "graphics": NVMLError(3)}
    return SimpleNamespace(uuid=uuid, name=name, **{**usual, **none, **fields})


def holds(pid: int, mib: int | None) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=None if mib is None else mib * MIB)


@pytest.fixture
def bound(monkeypatch):
    return lambda module: monkeypatch.setitem(sys.modules, "pynvml", module)


@pytest.fixture
def unbound(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)


def test_nvml_cards(bound, said):
    shared = card("GPU-c", name="NVIDIA GB10", total=0)
    bound(nvml([card("GPU-a"), card("GPU-b", name=b"NVIDIA H100 80GB HBM3", old=True, mig=0), shared]))
    found = nvidia.probe(said({}), has_nodes=True)
    assert found == Inventory(
        "cuda",
        "580.95.05",
        devices=(
            Device(0, "GPU-a", None, 143771, 1, name=NAME),
            Device(1, "GPU-b", None, 143771, 601, name="NVIDIA H100 80GB HBM3"),
            Device(2, "GPU-c", name="NVIDIA GB10"),
        ),
    )
    assert [PLATFORMS["cuda"].sku_of(device.name) for device in found.devices] == ["H200", "H100", None]


def test_nvml_mig_instances_stand_for_their_card(bound, said):
    small = card("MIG-1", name=f"{NAME} MIG 1g.18gb", total=16384, used=5, compute=[holds(7, 5)])
    large = card("MIG-2", name=f"{NAME} MIG 2g.35gb", total=33280, used=0)
    bound(nvml([card("GPU-a", mig=1, instances={0: small, 5: large}), card("GPU-b"), card("GPU-c", mig=1)]))
    assert nvidia.probe(said({}), has_nodes=True).devices == (
        Device(0, "MIG-1", None, 16384, 5, "1g.18gb", NAME, parent="GPU-a"),
        Device(0, "MIG-2", None, 33280, 0, "2g.35gb", NAME, parent="GPU-a"),
        Device(1, "GPU-b", None, 143771, 1, name=NAME),
    )
    assert nvidia.processes(said({}), has_nodes=True) == (ProcessMemory(7, 0, 5),)


def test_nvml_processes(bound, said):
    both = [holds(10, 300), holds(11, None)]
    bound(nvml([card("GPU-a"), card("GPU-b", compute=both, graphics=[holds(10, 300), holds(12, 4)])]))
    assert nvidia.processes(said({}), has_nodes=True) == (ProcessMemory(10, 1, 300), ProcessMemory(12, 1, 4))


def test_torchrec4226_nvml_that_fails_is_an_error(bound, said):
    """Never 0 devices: not at the start, not for one card that fell off the bus, not in the middle."""
    mismatch = NVMLError(18, "Driver/library version mismatch")
    for module, says in (
        (nvml(init=mismatch), "NVML: Driver/library version mismatch"),
        (nvml(init=NVMLError(999, "Unknown Error")), "NVML: Unknown Error"),
        (nvml(init=NVMLError(4, "Insufficient Permissions")), "NVML: Insufficient Permissions"),
        (nvml([card("GPU-a"), NVMLError(15, "GPU is lost")]), "NVML: card 1: GPU is lost"),
    ):
        bound(module)
        for has_nodes in (True, False):
            with pytest.raises(ProbeError, match=says):
                nvidia.probe(said({}), has_nodes=has_nodes)


def test_a_driver_that_is_not_loaded_is_no_device_unless_its_nodes_are_there(bound, said):
    bound(nvml(init=NVMLError(9, "Driver Not Loaded")))
    assert nvidia.probe(said({}), has_nodes=False) == Inventory("cuda")
    assert nvidia.processes(said({}), has_nodes=False) == ()
    with pytest.raises(ProbeError, match="NVML: Driver Not Loaded"):
        nvidia.probe(said({}), has_nodes=True)


@pytest.mark.usefixtures("unbound")
def test_nvidia_smi_where_there_is_no_binding(said):
    run = said({"nvidia-smi": SMI_QUERY, "nvidia-smi -L": "nvidia/list-mig-h200.txt"})
    first, last = nvidia.probe(run, has_nodes=True).devices
    # card 1 has MIG on, and the list of this other machine no instance for it
    assert first == Device(
        0, "GPU-1c7d2e90-5b3a-4f68-9a01-c2d4e6f80913", None, 81559, 1, name="NVIDIA H100 80GB HBM3"
    )
    assert last == Device(2, "GPU-f29a5d18-3e76-40bb-8c52-9d10e4b7a635", None, 23034, 469, name="NVIDIA L4")
    names = ["NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA L4"]
    assert [PLATFORMS["cuda"].sku_of(name) for name in names] == ["H100", "H200", "L4"]


def test_nvidia_smi_where_the_library_is_missing(bound, said):
    bound(nvml(init=NVMLError(12, "NVML Shared Library Not Found")))
    line = "0, GPU-a, NVIDIA H200, 143771, 1, Enabled, 580.95.05\n"
    run = said({"nvidia-smi": line, "nvidia-smi -L": "nvidia/list-mig-h200.txt"})
    found = nvidia.probe(run, has_nodes=True)
    assert found.driver == "580.95.05"
    assert [(d.index, d.mig, d.memory_mib, d.name) for d in found.devices] == [
        (0, "2g.35gb", 33378, NAME),
        (0, "1g.18gb", 17166, NAME),
        (0, "1g.18gb", 17166, NAME),
    ]
    assert {d.parent for d in found.devices} == {"GPU-a41f0c72-96d3-b815-e70a-3c58d2f914eb"}


@pytest.mark.parametrize("module", [None, nvml(init=NVMLError(12, "NVML Shared Library Not Found"))])
def test_nvidia_smi_processes(said, monkeypatch, module):
    monkeypatch.setitem(sys.modules, "pynvml", module)
    apps = "GPU-f29a5d18-3e76-40bb-8c52-9d10e4b7a635, 77, 460\nGPU-f29a5d18-3e76-40bb-8c52-9d10e4b7a635, 78, [N/A]\n"
    query = "--query-compute-apps=gpu_uuid,pid,used_memory"
    run = said({"nvidia-smi": SMI_QUERY, f"nvidia-smi {query}": apps})
    assert nvidia.processes(run, has_nodes=True) == (ProcessMemory(77, 2, 460),)


@pytest.mark.usefixtures("unbound")
def test_what_nvidia_smi_says_without_devices(said, sample):
    gone = Output(9, sample("nvidia/no-driver.txt"))
    assert nvidia.probe(said({"nvidia-smi": gone}), has_nodes=False) == Inventory("cuda")
    assert nvidia.probe(said({}), has_nodes=False) == Inventory("cuda")
    mismatch = Output(18, sample("nvidia/nvml-version-mismatch.txt"))
    for answer, nodes, says in (
        (mismatch, False, "exit 18: Failed to initialize NVML: Driver/library version mismatch"),
        (gone, True, "exit 9: NVIDIA-SMI has failed"),
        ("other, columns", True, "exit 0: other, columns"),
    ):
        with pytest.raises(ProbeError, match=says):
            nvidia.probe(said({"nvidia-smi": answer}), has_nodes=nodes)
    with pytest.raises(ProbeError, match="NVIDIA_DRIVER_CAPABILITIES needs utility"):
        nvidia.probe(said({}), has_nodes=True)


@pytest.mark.usefixtures("unbound")
def test_an_empty_answer_is_no_device(said):
    assert dataclasses.asdict(nvidia.probe(said({"nvidia-smi": "\n"}), has_nodes=True))["devices"] == ()
