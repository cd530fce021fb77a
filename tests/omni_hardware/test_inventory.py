from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_hardware.errors import InfrastructureError, InputError
from omni_hardware.inventory import (
    NONE,
    Device,
    Inventory,
    ProcessMemory,
    Reason,
    Visible,
    describe,
    gibibytes,
    judge,
    load_inventory,
)
from omni_hardware.project import extend
from omni_hardware.vocabulary import DEFAULT

H100 = "NVIDIA H100 80GB HBM3"
EXAMPLE = {
    "schema": 1,
    "platform": "cuda",
    "driver": "580.95",
    "error": None,
    "devices": [
        {"index": 0, "uuid": "GPU-8932f937", "sku": "H100", "memory_mib": 81559, "used_mib": 310, "mig": None}
    ],
    "visible": {"variable": "CUDA_VISIBLE_DEVICES", "value": "2,3"},
}


class Need(SimpleNamespace):
    """What a requirement asks for: only the fields that are judged."""

    def __init__(self, platform: str, *skus: str, cards: int = 1, gib: int | None = None) -> None:
        floor = None if gib is None else gib * 1024
        super().__init__(platform=platform, skus=skus, cards=cards, min_memory_mib=floor)

    def __str__(self) -> str:
        return "THAT"


def machine(*skus: str | None, platform: str = "cuda", mib: int | None = 81559, **fields) -> Inventory:
    devices = tuple(
        Device(i, f"GPU-{i}", sku, mib, name="" if sku else "Odd 9000") for i, sku in enumerate(skus)
    )
    return Inventory(platform, devices=devices, **fields)


def only(value: str) -> Visible:
    return Visible("CUDA_VISIBLE_DEVICES", value)


@pytest.mark.parametrize(
    ("need", "inventory", "reason", "sight"),
    [
        (Need("cuda", "H100"), machine("H100"), Reason.OK, "H100"),
        (Need("cuda"), machine("H100"), Reason.OK, "H100"),
        (Need("cuda"), machine(None), Reason.OK, "Odd 9000"),
        (Need("cuda", "L4", "H100", cards=3), machine("H100", "L4", "H100"), Reason.OK, "H100×2, L4"),
        (Need("cuda", "H100", cards=2), NONE, Reason.NO_DEVICE, "none"),
        (
            Need("cuda", "H100"),
            machine("H100", "H100", visible=only("")),
            Reason.NO_DEVICE,
            "none (CUDA_VISIBLE_DEVICES='' of 2)",
        ),
        (Need("cuda", "H100"), machine("MI300", platform="rocm"), Reason.PLATFORM, "rocm MI300"),
        (Need("cuda", "H100"), machine("L4", "L4"), Reason.SKU, "L4×2"),
        (Need("cuda", "H100"), machine(None), Reason.SKU, "Odd 9000"),
        (Need("cuda", "H100", cards=2), machine("H100", "L4"), Reason.CARDS, "H100, L4"),
        (
            Need("cuda", "H100", cards=4),
            machine(*["H100"] * 8, visible=only("0,1")),
            Reason.CARDS,
            "H100×2 (CUDA_VISIBLE_DEVICES=0,1 of 8)",
        ),
        (Need("cuda", gib=79), machine("H100"), Reason.OK, "H100"),
        (Need("cuda", gib=80), machine("H100"), Reason.MEMORY, "H100 with 79.6 GiB"),
        (Need("cuda", gib=1), machine("H100", mib=None), Reason.MEMORY, "H100 with unknown memory"),
        (Need("cpu", cards=0), machine("H100"), Reason.OK, None),
        (Need("cpu", cards=0), NONE, Reason.OK, None),
    ],
)
def test_a_need_is_judged_with_the_sight(need, inventory, reason, sight):
    verdict = judge(need, inventory)
    assert verdict.reason is reason
    assert verdict.ok == (reason is Reason.OK)
    assert verdict.because == ("needs THAT" if sight is None else f"needs THAT, sees {sight}")


def test_enough_memory_is_asked_of_every_card():
    devices = (Device(0, "a", "A100", 40960), Device(1, "b", "A100", 81920))
    mixed = Inventory("cuda", devices=devices)
    assert judge(Need("cuda", "A100", gib=80), mixed).ok
    verdict = judge(Need("cuda", "A100", cards=2, gib=80), mixed)
    assert verdict.because == "needs THAT, sees A100×2 with 40 GiB, 80 GiB"


def test_torchrec4226_a_failed_probe_is_no_shortage():
    """NVML that fails must not read as "0 devices", which would skip tests that should have run."""
    broken = Inventory("cuda", error="NVML: Driver/library version mismatch")
    with pytest.raises(
        InfrastructureError, match=r"which cuda devices are here: NVML: Driver/library version mismatch"
    ):
        judge(Need("cuda", "H100"), broken)
    assert judge(Need("cpu", cards=0), broken).ok


def test_a_platform_that_runs_items_of_another_ignores_its_skus():
    rows = tuple(
        dataclasses.replace(row, runs_items_of=("cuda",)) if row.name == "rocm" else row
        for row in DEFAULT.platforms
    )
    lane = dataclasses.replace(DEFAULT, platforms=rows)
    two = machine("MI300", "MI300", platform="rocm")
    assert judge(Need("cuda", "H100", cards=2), two, vocabulary=lane).ok
    assert judge(Need("cuda", "H100", cards=3), two, vocabulary=lane).reason is Reason.CARDS


def test_one_mig_instance_is_what_a_process_sees():
    devices = tuple(Device(0, f"MIG-{i}", "H200", 16384, mig="1g.18gb", parent="GPU-0") for i in range(3))
    split = Inventory("cuda", devices=devices)
    assert [len(split.seen), len(split.listed)] == [1, 3]
    assert judge(Need("cuda", "H200"), split).ok
    verdict = judge(Need("cuda", "H200", cards=2), split)
    assert verdict.because == (
        "needs THAT, sees H200 MIG 1g.18gb (a process sees one MIG instance, and no whole card beside it)"
    )


def test_instances_in_a_file_share_the_number_of_their_card(tmp_path):
    path = tmp_path / "inventory.json"
    rows = [{"index": 0, "uuid": f"MIG-{i}", "mig": "1g.18gb", "memory_mib": 0} for i in range(2)]
    path.write_text(json.dumps({"schema": 1, "platform": "cuda", "devices": rows}))
    assert [device.mig for device in load_inventory(path).devices] == ["1g.18gb", "1g.18gb"]
    path.write_text(json.dumps({"schema": 1, "platform": "cuda", "devices": [rows[0], rows[0]]}))
    with pytest.raises(InputError, match=r"devices\[1\].uuid: 'MIG-0' is already that of devices\[0\]"):
        load_inventory(path)


def test_describe_is_one_line_without_control_characters():
    assert describe([]) == "none"
    assert describe([Device(0, "a", name="evil\x1b[31m\x07")]) == "evil[31m"
    assert describe([Device(0, "a")]) == "unknown model"
    assert [gibibytes(81920), gibibytes(81559), gibibytes(0)] == ["80 GiB", "79.6 GiB", "0 GiB"]


def test_the_documented_example_is_read_and_written_back(tmp_path):
    path = tmp_path / "inventory.json"
    path.write_text(json.dumps(EXAMPLE))
    inventory = load_inventory(path)
    assert inventory.source == f"file {path}"
    assert inventory.devices == (Device(0, "GPU-8932f937", "H100", 81559, 310),)
    assert inventory.visible == only("2,3")
    assert inventory.to_json() == EXAMPLE


def test_a_file_without_visible_is_limited_by_the_environment(tmp_path):
    path = tmp_path / "inventory.json"
    rows = [{"index": i, "uuid": f"GPU-{i}", "sku": "H100"} for i in range(2)]
    document = {"schema": 1, "platform": "cuda", "devices": rows}
    path.write_text(json.dumps(document))
    environ = {"CUDA_VISIBLE_DEVICES": "1"}
    assert [device.index for device in load_inventory(path, environ=environ).seen] == [1]
    assert len(load_inventory(path).seen) == 2
    for explicit in (None, {"variable": "CUDA_VISIBLE_DEVICES", "value": None}):
        path.write_text(json.dumps({**document, "visible": explicit}))
        assert len(load_inventory(path, environ=environ).seen) == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema": 2}, "schema: must be 1, not 2"),
        ({"schema": True}, "schema: must be 1, not True"),
        ({"platform": "cudaa"}, "platform: 'cudaa' is no platform (did you mean 'cuda'?)"),
        ({"platform": 1}, "platform: must be a string, not 1"),
        ({"drivers": "1"}, "drivers: unknown key (did you mean 'driver'?)"),
        ({"devices": {}}, "devices: must be a list, not {}"),
        ({"devices": ["H100"]}, "devices[0]: must be an object"),
        ({"devices": [{"uuid": "a"}]}, "devices[0].index: is missing"),
        (
            {"devices": [{"index": -1, "uuid": "a"}]},
            "devices[0].index: must be a whole number from 0, not -1",
        ),
        (
            {"devices": [{"index": 0, "uuid": ""}]},
            "devices[0].uuid: must be a string that is not empty, not ''",
        ),
        (
            {"devices": [{"index": True, "uuid": "a"}]},
            "devices[0].index: must be a whole number from 0, not True",
        ),
        (
            {"devices": [{"index": 0, "uuid": "a", "memory": 1}]},
            "devices[0].memory: unknown key (did you mean 'memory_mib'?)",
        ),
        (
            {"devices": [{"index": 0, "uuid": "a"}, {"index": 1, "uuid": "a"}]},
            "devices[1].uuid: 'a' is already that of devices[0]",
        ),
        (
            {"devices": [{"index": 0, "uuid": "a"}, {"index": 0, "uuid": "b"}]},
            "devices[1].index: 0 is already that of devices[0]",
        ),
        ({"platform": "cpu"}, "devices: the platform cpu has none; name the devices' platform"),
        ({"visible": {"values": "1"}}, "visible.values: unknown key (did you mean 'value'?)"),
        ({"visible": {"also": {"A": 1}}}, "visible.also: must be an object of strings, not {'A': 1}"),
        ({"processes": [{"pid": 1}]}, "processes[0].index: is missing"),
        ({"facts": []}, "facts: must be an object or null, not []"),
    ],
)
def test_what_a_file_may_not_say(tmp_path, change, says):
    path = tmp_path / "inventory.json"
    path.write_text(json.dumps({**EXAMPLE, **change}))
    with pytest.raises(InputError) as caught:
        load_inventory(path)
    assert f"{path}: {says}" in str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("platform", "device", "says"),
    [
        ("cuda", {"sku": "h100"}, "sku: 'h100' is no SKU of cuda (did you mean 'H100'?)"),
        ("cuda", {"sku": "H10"}, "sku: 'H10' is no SKU of cuda (did you mean 'H100'?)"),
        ("rocm", {"sku": "H100"}, "sku: 'H100' is no SKU of rocm, but of cuda"),
        ("cuda", {"memory_mib": 80}, "memory_mib: 80 MiB is less than any device has"),
        ("cuda", {"sku": "GB300"}, None),
        ("cuda", {"sku": None, "memory_mib": None}, None),
    ],
)
def test_a_device_that_no_test_could_ask_for_is_a_mistake(tmp_path, platform, device, says):
    path = tmp_path / "inventory.json"
    row = {"index": 0, "uuid": "a", **device}
    path.write_text(json.dumps({"schema": 1, "platform": platform, "devices": [row]}))
    words = extend({"skus": {"cuda": ["GB300"]}}, source="")
    if says is None:
        assert load_inventory(path, vocabulary=words).devices
    else:
        with pytest.raises(InputError) as caught:
            load_inventory(path, vocabulary=words)
        assert str(caught.value).startswith(f"{path}: devices[0].{says}")
    assert load_inventory(path).devices  # without a project nobody knows its words


def test_a_file_says_nothing_twice_and_which_schema_it_is(tmp_path):
    path = tmp_path / "inventory.json"
    path.write_text('{"schema": 1, "platform": "cuda", "platform": "rocm"}')
    with pytest.raises(InputError, match=r"inventory\.json: the key 'platform' stands twice"):
        load_inventory(path)
    path.write_text('{"platform": "cuda"}')
    with pytest.raises(InputError, match=r"schema: is missing; write 1$"):
        load_inventory(path)


def test_every_problem_of_a_file_is_told_at_once(tmp_path):
    path = tmp_path / "inventory.json"
    path.write_text(json.dumps({"plattform": "cuda", "devices": [{"uuid": 3}, 7]}))
    with pytest.raises(InputError) as caught:
        load_inventory(path)
    assert len(str(caught.value).splitlines()) == 6


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{'a': 1}", ":1:2: not JSON"),
        (b"\xff", ": the inventory is not UTF-8"),
        (b"[]", ": an inventory is a JSON object"),
        (b"[" * 200_000, ": the inventory is nested too deeply"),
    ],
)
def test_what_is_no_inventory(tmp_path, content, says):
    path = tmp_path / "inventory.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"inventory.json{says}"):
        load_inventory(path)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        load_inventory(tmp_path / "none.json")


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_COUNTS = st.one_of(st.none(), st.integers(0, 10**6))
_DEVICES = st.builds(
    Device,
    index=st.integers(0, 15),
    uuid=_TEXTS.filter(bool),
    sku=st.one_of(st.none(), _TEXTS),
    memory_mib=_COUNTS,
    used_mib=_COUNTS,
    mig=st.one_of(st.none(), st.just("1g.18gb")),
    name=_TEXTS,
    parent=st.one_of(st.none(), _TEXTS),
    tiles=st.integers(1, 2),
)
_INVENTORIES = st.builds(
    Inventory,
    platform=st.sampled_from(["cuda", "rocm", "xpu", "npu", "musa"]),
    driver=st.one_of(st.none(), _TEXTS),
    error=st.one_of(st.none(), _TEXTS),
    devices=st.lists(
        _DEVICES, max_size=3, unique_by=(lambda device: device.uuid, lambda device: device.index)
    ).map(tuple),
    visible=st.builds(
        Visible,
        st.sampled_from([None, "CUDA_VISIBLE_DEVICES"]),
        st.one_of(st.none(), _TEXTS),
        st.sampled_from([(), (("A", "1"), ("B", ""))]),
    ),
    processes=st.lists(st.builds(ProcessMemory, *[st.integers(0, 10**6)] * 3), max_size=2).map(tuple),
    facts=st.one_of(st.none(), st.dictionaries(_TEXTS, _TEXTS, max_size=2)),
    source=st.just("probe"),
)


@given(_INVENTORIES)
def test_a_worker_reads_what_the_controller_wrote(inventory):
    assert Inventory.from_json(json.loads(json.dumps(inventory.to_json()))) == inventory


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(
                st.sampled_from(
                    [
                        "schema",
                        "platform",
                        "devices",
                        "visible",
                        "processes",
                        "index",
                        "uuid",
                        "also",
                        "facts",
                        "x",
                    ]
                ),
                inner,
                max_size=4,
            ),
        ),
    )
)
def test_any_document_is_an_inventory_or_an_input_error(document):
    said = ""
    try:
        assert Inventory.from_json(document).seen is not None
    except InputError as error:
        said = str(error)
    assert all(line.startswith("inventory: ") for line in said.splitlines())
