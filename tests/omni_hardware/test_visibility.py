from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_hardware.errors import InputError
from omni_hardware.inventory import Device, Inventory
from omni_hardware.visibility import (
    child_environment,
    hide,
    narrow,
    select,
    selection,
    tokens,
    variables,
    visible,
)
from omni_hardware.vocabulary import PLATFORMS

CUDA, HIP, ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
MASK, HIERARCHY, SELECTOR = "ZE_AFFINITY_MASK", "ZE_FLAT_DEVICE_HIERARCHY", "ONEAPI_DEVICE_SELECTOR"
ASCEND = "ASCEND_RT_VISIBLE_DEVICES"
UUIDS = ("GPU-8932f937-1", "GPU-8932f9aa-2", "GPU-5c1e7a20-3", "GPU-1d2e3f40-4")


def machine(platform: str, count: int, **fields) -> Inventory:
    uuids = [f"GPU-{number:016x}" for number in range(count)]
    return Inventory(platform, devices=tuple(Device(i, uuid, **fields) for i, uuid in enumerate(uuids)))


def indexes(inventory: Inventory, environ: dict[str, str]) -> list[int]:
    return [device.index for device in select(inventory, environ)]


CARDS = Inventory("cuda", devices=tuple(Device(i, uuid, "H100") for i, uuid in enumerate(UUIDS)))
MIG = Inventory(
    "cuda",
    devices=(
        Device(0, "MIG-5e09", "H200", mig="2g.35gb", parent="GPU-a41f"),
        Device(0, "MIG-c83b", "H200", mig="1g.18gb", parent="GPU-a41f"),
        Device(1, "GPU-0b9e", "H200"),
    ),
)


@pytest.mark.parametrize(
    ("value", "seen", "says"),
    [
        (None, [0, 1, 2, 3], ""),
        ("2,3", [2, 3], "CUDA_VISIBLE_DEVICES=2,3 of 4"),
        ("3, 1", [3, 1], "CUDA_VISIBLE_DEVICES=3, 1 of 4"),
        ("0,1,2,3", [0, 1, 2, 3], ""),
        ("", [], "CUDA_VISIBLE_DEVICES='' of 4"),
        ("-1", [], "CUDA_VISIBLE_DEVICES=-1 of 4"),
        ("1,-1,0", [1], "CUDA_VISIBLE_DEVICES=1,-1,0 of 4"),
        ("1,9,0", [1], "CUDA_VISIBLE_DEVICES=1,9,0 of 4: '9' is no device here, and ends the list"),
        (
            "NoDevFiles",
            [],
            "CUDA_VISIBLE_DEVICES=NoDevFiles of 4: 'NoDevFiles' is no device here, and ends the list",
        ),
        ("GPU-5c1e7a20-3,0", [2, 0], "CUDA_VISIBLE_DEVICES=GPU-5c1e7a20-3,0 of 4"),
        ("GPU-5c", [2], "CUDA_VISIBLE_DEVICES=GPU-5c of 4"),
        # two cards begin like this
        (
            "GPU-8932f9",
            [],
            "CUDA_VISIBLE_DEVICES=GPU-8932f9 of 4: 'GPU-8932f9' is no device here, and ends the list",
        ),
        ("1,1", [], "CUDA_VISIBLE_DEVICES=1,1 of 4: '1' names a device twice, which counts as an empty list"),
    ],
)
def test_what_cuda_sees(value, seen, says):
    environ = {} if value is None else {CUDA: value}
    assert indexes(CARDS, environ) == seen
    assert selection(CARDS, environ).because == says


@pytest.mark.parametrize(
    ("value", "seen", "listed"),
    [
        (None, ["MIG-5e09"], ["MIG-5e09", "MIG-c83b", "GPU-0b9e"]),
        ("MIG-c83b", ["MIG-c83b"], ["MIG-c83b"]),
        ("MIG-c83b,MIG-5e09", ["MIG-c83b"], ["MIG-c83b", "MIG-5e09"]),
        ("0", ["MIG-5e09"], ["MIG-5e09"]),
        ("GPU-a41f", ["MIG-5e09"], ["MIG-5e09"]),
        ("1", ["GPU-0b9e"], ["GPU-0b9e"]),
    ],
)
def test_a_process_sees_one_mig_instance(value, seen, listed):
    found = selection(MIG, {} if value is None else {CUDA: value})
    assert [device.uuid for device in found.seen] == seen
    assert [device.uuid for device in found.listed] == listed
    assert ("one MIG instance" in found.because) == (len(listed) > 1)


def test_vllm41848_uuids_and_mig_names_stay_opaque():
    """A list of UUIDs or MIG names is counted and handed on as it stands; nothing reads it as numbers."""
    for name in ("GPU-8932f937", "MIG-5e09c3b7-1a64-5f82-9d31-70b4e8c2a6f5", "MIG-GPU-8932f937/0/0"):
        assert tokens("cuda", {CUDA: name}) == (name,)
        assert narrow("cuda", {CUDA: name}, [0])[CUDA] == name
    assert [device.uuid for device in select(CARDS, {CUDA: "GPU-8932f937"})] == [UUIDS[0]]
    # no list: a number names a card, so that an instance can only be named by its UUID
    assert [narrow("cuda", {}, [at], inventory=MIG)[CUDA] for at in range(3)] == ["MIG-5e09", "MIG-c83b", "1"]


def test_vllm_omni2024_an_offset_list_maps_logical_to_physical():
    """With CUDA_VISIBLE_DEVICES=2,3,4,6 a child that needs two gets "2,3", and logical 2 is physical 4."""
    environ = {CUDA: "2,3,4,6"}
    eight = machine("cuda", 8)
    assert narrow("cuda", environ, [0, 1]) == {CUDA: "2,3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert narrow("cuda", environ, [2])[CUDA] == "4"
    assert select(eight, environ)[2].index == 4
    assert narrow("cuda", environ, [3, 0], inventory=eight)[CUDA] == "6,2"


@pytest.mark.parametrize(
    ("environ", "seen", "says"),
    [
        ({}, [0, 1, 2, 3], ""),
        ({HIP: "1,2"}, [1, 2], "HIP_VISIBLE_DEVICES=1,2 of 4"),
        ({CUDA: "1,2"}, [1, 2], "CUDA_VISIBLE_DEVICES=1,2 of 4"),
        ({HIP: "3", CUDA: "3"}, [3], "HIP_VISIBLE_DEVICES=3 of 4"),
        ({HIP: "0,1,2,3", CUDA: "0,1,2,3"}, [0, 1, 2, 3], ""),
        ({HIP: "0", CUDA: "1"}, [], "HIP_VISIBLE_DEVICES=0 and CUDA_VISIBLE_DEVICES=1 differ"),
        ({HIP: "", CUDA: "1"}, [], "differ"),
        ({HIP: "", CUDA: ""}, [], "HIP_VISIBLE_DEVICES='' of 4"),
        ({HIP: "-1", CUDA: "-1"}, [], "HIP_VISIBLE_DEVICES=-1 of 4"),
        ({ROCR: "2,3"}, [2, 3], "ROCR_VISIBLE_DEVICES=2,3 of 4"),
        (
            {ROCR: "2,3", HIP: "1", CUDA: "1"},
            [3],
            "HIP_VISIBLE_DEVICES=1 of 4: ROCR_VISIBLE_DEVICES leaves 2",
        ),
        (
            {ROCR: "0,9", HIP: "0"},
            [0],
            "HIP_VISIBLE_DEVICES=0 of 4: '9' is no device here, and ends the list",
        ),
        ({ROCR: "GPU-0000000000000002"}, [2], "ROCR_VISIBLE_DEVICES=GPU-"),
        ({ROCR: "0,1", HIP: "0", CUDA: "1"}, [], "differ"),
        ({"GPU_DEVICE_ORDINAL": "1"}, [1], "GPU_DEVICE_ORDINAL=1 of 4"),
        ({"GPU_DEVICE_ORDINAL": "1", HIP: "0"}, [], "HIP_VISIBLE_DEVICES=0 and GPU_DEVICE_ORDINAL=1 differ"),
    ],
)
def test_ray52701_rocm_variables_are_read_together_or_refused(environ, seen, says):
    inventory = machine("rocm", 4)
    assert indexes(inventory, environ) == seen
    assert says in selection(inventory, environ).because


def test_a_child_on_rocm_gets_every_name_of_the_list_that_is_in_use():
    assert narrow("rocm", {HIP: "2,3"}, [1]) == {HIP: "3", CUDA: "3"}
    used = {"GPU_DEVICE_ORDINAL": "2,3"}
    assert narrow("rocm", used, [1]) == {HIP: "3", CUDA: "3", "GPU_DEVICE_ORDINAL": "3"}


def test_swarmui565_hip_numbers_count_what_rocr_left():
    """ROCR=1 and HIP=1 is no device; a child of ROCR=1 is therefore given HIP=0."""
    two = machine("rocm", 2)
    both = {ROCR: "1", HIP: "1", CUDA: "1"}
    assert indexes(two, both) == []
    assert "ROCR_VISIBLE_DEVICES leaves 1, which HIP numbers from 0" in selection(two, both).because
    for inventory in (None, two):
        assert narrow("rocm", {ROCR: "1"}, [0], inventory=inventory) == {HIP: "0", CUDA: "0"}
    assert indexes(two, {ROCR: "1", HIP: "0", CUDA: "0"}) == [1]


def test_torch_xpu_ops3502_a_mask_means_cards_or_tiles():
    """Two cards of two tiles: "0.0,0.1" is card 0 under COMPOSITE and nothing under FLAT, where "0,1" are its tiles."""
    cards = machine("xpu", 2, tiles=2, memory_mib=65536)
    composite = {MASK: "0.0,0.1", HIERARCHY: "COMPOSITE"}
    assert [(d.index, d.tiles) for d in select(cards, composite)] == [(0, 2)]
    assert narrow("xpu", composite, [0], inventory=cards)[MASK] == "0"

    for mode in ({}, {HIERARCHY: "FLAT"}, {HIERARCHY: "COMBINED"}):
        assert select(cards, {MASK: "0.0,0.1", **mode}) == ()
        said = selection(cards, {MASK: "0.0,0.1", **mode}).because
        assert (
            f"'0.0', '0.1' ignored: {HIERARCHY} is {mode.get(HIERARCHY, 'FLAT')}, which numbers tiles" in said
        )
        assert selection(cards, {MASK: "-1", **mode}).because == f"{MASK}=-1 of 2"
        seen = select(cards, {MASK: "0,1", **mode})
        assert [(d.index, d.memory_mib, d.tiles) for d in seen] == [(0, 32768, 1), (0, 32768, 1)]
        assert len({device.uuid for device in seen}) == 2

    assert [len(select(cards, mode)) for mode in ({}, {HIERARCHY: "COMPOSITE"})] == [4, 2]


@pytest.mark.parametrize(
    ("mask", "seen", "token", "says"),
    [
        ("1,0", [(0, 65536), (1, 65536)], "0", ""),  # the driver keeps its own order
        ("1.1", [(1, 32768)], "1.1", "ZE_AFFINITY_MASK=1.1 of 2"),
        ("1.1,0", [(0, 65536), (1, 32768)], "0", ""),
        # what it does not know it skips, and reads on
        (
            "0.0,9",
            [(0, 32768)],
            "0.0",
            "ZE_AFFINITY_MASK=0.0,9 of 2: '9' ignored: ZE_FLAT_DEVICE_HIERARCHY is COMPOSITE, which numbers cards",
        ),
        ("-1", [], None, "ZE_AFFINITY_MASK=-1 of 2"),
    ],
)
def test_a_composite_mask(mask, seen, token, says):
    cards = machine("xpu", 2, tiles=2, memory_mib=65536)
    environ = {MASK: mask, HIERARCHY: "COMPOSITE"}
    assert [(device.index, device.memory_mib) for device in select(cards, environ)] == seen
    assert selection(cards, environ).because == says
    unknown = machine("xpu", 2, tiles=2)
    assert {device.memory_mib for device in select(unknown, environ)} <= {None}
    if token:
        assert narrow("xpu", environ, [0], inventory=cards)[MASK] == token


@pytest.mark.parametrize(
    ("selector", "seen"),
    [
        ("level_zero:gpu", [0, 1, 2]),
        ("level_zero:1", [1]),
        ("*:0,2", [0, 2]),
        ("opencl:*", []),
        ("level_zero:*;!level_zero:0", [1, 2]),
        ("!level_zero:0", [1, 2]),
        ("opencl:gpu;level_zero:2", [2]),
        ("level_zero:cpu", []),
        ("level_zero:0.1", []),
        ("gpu", []),
    ],
)
def test_oneapi_device_selector_filters_what_the_mask_left(selector, seen):
    cards = machine("xpu", 3)
    assert indexes(cards, {SELECTOR: selector}) == seen
    both = {SELECTOR: selector, MASK: "0,1,2"}
    assert indexes(cards, both) == seen
    assert selection(cards, both).because.startswith(f"{MASK}=0,1,2 of 3: ")
    assert (SELECTOR in selection(cards, {SELECTOR: selector}).because) == (
        seen != [0, 1, 2] or "gpu" in selector
    )
    # its numbers would count what the narrowed mask leaves
    assert narrow("xpu", {SELECTOR: selector}, [], inventory=cards) == {
        MASK: "-1",
        SELECTOR: "level_zero:gpu",
    }


@pytest.mark.parametrize(
    ("value", "seen", "says"),
    [
        (None, [0, 1, 2], ""),
        ("0,2", [0, 2], "ASCEND_RT_VISIBLE_DEVICES=0,2 of 3"),
        ("2,0", [], "not in ascending order, so the runtime sees none; write 0,2"),
        ("0,0", [], "write 0"),
        ("1,9", [1], "'9' is no device here"),
        ("-1", [], "ASCEND_RT_VISIBLE_DEVICES=-1 of 3"),
        ("", [], "ASCEND_RT_VISIBLE_DEVICES='' of 3"),
    ],
)
def test_trinity_rft618_an_npu_list_must_ascend(value, seen, says):
    inventory = machine("npu", 3)
    environ = {} if value is None else {ASCEND: value}
    assert indexes(inventory, environ) == seen
    assert says in selection(inventory, environ).because
    assert narrow("npu", {ASCEND: "0,1,2"}, [2, 0]) == {ASCEND: "0,2"}


def test_musa_and_cpu():
    assert indexes(machine("musa", 2), {"MUSA_VISIBLE_DEVICES": "1"}) == [1]
    assert select(Inventory("cpu"), {CUDA: "0"}) == ()
    assert visible("cpu", {CUDA: "0"}).variable is None


@pytest.mark.parametrize("positions", [[4], [-1], [0, 7]])
def test_a_position_that_the_list_does_not_have(positions):
    with pytest.raises(InputError, match=r"cuda: there is no entry -?\d in what is visible \(2,3,4,6\)"):
        narrow("cuda", {CUDA: "2,3,4,6"}, positions)


def test_the_snapshot_keeps_every_variable_that_takes_part():
    environ = {ROCR: "2,3", HIP: "1", CUDA: "1", MASK: "0", "PATH": "/bin"}
    kept = visible("rocm", environ)
    assert (kept.variable, kept.value) == (HIP, "1")
    assert kept.environ == {ROCR: "2,3", HIP: "1", CUDA: "1"}
    assert visible("cuda", {}).environ == {}


@pytest.mark.parametrize("platform", [name for name in PLATFORMS if name != "cpu"])
def test_hidden_means_none_on_every_platform(platform):
    before = dict.fromkeys(variables(platform), "0")
    assert select(machine(platform, 2), child_environment(before, "cpu", None)) == ()
    assert select(machine(platform, 2), child_environment({}, platform, [])) == ()


def test_a_child_loses_the_variables_of_other_platforms_and_the_parent_keeps_them():
    parent = {CUDA: "0", HIP: "0", ROCR: "0", MASK: "0", ASCEND: "0", SELECTOR: "*:gpu", "HOME": "/root"}
    before = dict(parent)
    child = child_environment(parent, "cuda", ["0"])
    assert child == {CUDA: "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "HOME": "/root"}
    assert child_environment(parent, "rocm", None) == {CUDA: "0", HIP: "0", ROCR: "0", "HOME": "/root"}
    assert (
        child_environment({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, "cuda", ["1"])["CUDA_DEVICE_ORDER"]
        == "FASTEST_FIRST"
    )
    assert parent == before
    removed = {name for name, value in hide(parent).items() if value is None}
    assert removed == {ROCR, SELECTOR}


def test_pytorch95073_the_snapshot_decides_not_the_environment_of_later(monkeypatch):
    """What is seen was settled when the inventory was taken; editing the variable afterwards changes no decision."""
    monkeypatch.setenv(CUDA, "1")
    taken = Inventory("cuda", devices=CARDS.devices, visible=visible("cuda", os.environ))
    monkeypatch.setenv(CUDA, "0,1,2,3")
    assert [device.index for device in taken.seen] == [1]
    monkeypatch.delenv(CUDA)
    assert [device.index for device in taken.seen] == [1]
    assert taken.limit == "CUDA_VISIBLE_DEVICES=1 of 4"


@given(
    st.sampled_from([name for name in PLATFORMS if name != "cpu"]),
    st.integers(0, 5),
    st.lists(
        st.one_of(st.integers(-2, 9).map(str), st.sampled_from(["GPU-0", "MIG-1", "", " 1", "1.0", "é", "x"]))
    ),
)
def test_any_list_leaves_known_devices_and_each_can_be_handed_on(platform, count, parts):
    inventory = machine(platform, count)
    environ = dict.fromkeys(PLATFORMS[platform].visibility, ",".join(parts))
    found = selection(inventory, environ)
    assert set(found.seen) <= set(inventory.devices)
    assert len(set(found.listed)) == len(found.listed) == len(found.tokens)
    for position, device in enumerate(found.listed):
        again = {**environ, **narrow(platform, environ, [position], inventory=inventory)}
        assert select(inventory, again) == (device,)
