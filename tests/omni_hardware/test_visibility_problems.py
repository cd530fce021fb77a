from __future__ import annotations

import pytest

from omni_hardware.inventory import Device, Inventory
from omni_hardware.visibility import problems, select

CUDA, HIP, ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
MASK, HIERARCHY = "ZE_AFFINITY_MASK", "ZE_FLAT_DEVICE_HIERARCHY"
ASCEND = "ASCEND_RT_VISIBLE_DEVICES"


def machine(platform: str, *models: str) -> Inventory:
    rows = (Device(number, f"GPU-{number:016x}", name=model) for number, model in enumerate(models))
    return Inventory(platform, devices=tuple(rows))


TWO = {platform: machine(platform, "same", "same") for platform in ("cuda", "rocm", "xpu", "npu", "musa")}


@pytest.mark.parametrize(
    ("platform", "environ", "says", "mended"),
    [
        ("rocm", {HIP: "0"}, "frameworks expect HIP_VISIBLE_DEVICES and CUDA", {HIP: "0", CUDA: "0"}),
        ("rocm", {CUDA: "1"}, "frameworks expect", {HIP: "1", CUDA: "1"}),
        ("rocm", {HIP: "", CUDA: ""}, "HIP itself reads as unset", {HIP: "-1", CUDA: "-1"}),
        ("rocm", {HIP: "0", CUDA: "1"}, "HIP_VISIBLE_DEVICES=0 and CUDA_VISIBLE_DEVICES=1 differ", None),
        ("rocm", {HIP: "", CUDA: "0"}, "HIP_VISIBLE_DEVICES='' and CUDA_VISIBLE_DEVICES=0 differ", None),
        ("rocm", {ROCR: "1", HIP: "1", CUDA: "1"}, "leaves 1, which HIP numbers 0..0", None),
        ("rocm", {ROCR: "", HIP: "0", CUDA: "0"}, "which HIP numbers nothing", None),
        ("xpu", {MASK: ""}, "Level Zero reads as unset", {MASK: "-1"}),
        ("xpu", {MASK: "0.0,0.1"}, "0.0, 0.1 is ignored", None),
        ("npu", {ASCEND: "1,0"}, "not ascending: the runtime then sees no device", {ASCEND: "0,1"}),
        ("npu", {ASCEND: ""}, "is empty", {ASCEND: "-1"}),
    ],
)
def test_a_contradiction_is_mended_or_refused(platform, environ, says, mended):
    (problem,) = problems(environ, inventory=TWO[platform])
    assert says in problem.message
    assert problem.mended == mended
    assert problem.refused == (mended is None)
    if mended is not None:
        after = {**environ, **mended}
        assert problems(after, inventory=TWO[platform]) == []
        # what we write is read as what was meant
        empty = set(environ.values()) == {""}
        assert len(select(TWO[platform], after)) == (
            0 if empty else len(mended[next(iter(mended))].split(","))
        )


@pytest.mark.parametrize(
    ("platform", "environ"),
    [
        ("cuda", {CUDA: "1,0"}),
        ("cuda", {CUDA: "", HIP: "0"}),
        ("rocm", {}),
        ("rocm", {HIP: "0", CUDA: "0"}),
        ("rocm", {ROCR: "1"}),
        ("rocm", {ROCR: "1", HIP: "0", CUDA: "0"}),
        ("xpu", {MASK: "0"}),
        ("xpu", {MASK: "0.0,0.1", HIERARCHY: "COMPOSITE"}),
        ("npu", {ASCEND: "0,1"}),
        ("musa", {"MUSA_VISIBLE_DEVICES": "1"}),
    ],
)
def test_nothing_to_say(platform, environ):
    assert problems(environ, inventory=TWO[platform]) == []


def test_numbers_on_a_machine_of_several_models():
    """CUDA counts the fastest first, nvidia-smi by bus: numbers name other cards unless the order is set."""
    mixed = machine("cuda", "NVIDIA L4", "NVIDIA H100 80GB HBM3")
    (problem,) = problems({CUDA: "0"}, inventory=mixed)
    assert "mixes models" in problem.message
    assert problem.mended == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    for fine in ({CUDA: "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, {CUDA: "GPU-0000000000000000"}, {}):
        assert problems(fine, inventory=mixed) == []


def test_without_an_inventory_only_what_is_wrong_anywhere():
    assert problems({CUDA: "0"}) == []  # as on every CUDA machine
    assert [problem.platform for problem in problems({HIP: "0", CUDA: "1", ASCEND: "1,0"})] == ["rocm", "npu"]
