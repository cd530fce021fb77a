"""What an xdist worker's process sees, from the first conftest on; the controller and everybody else are left alone."""

from __future__ import annotations

import json
import os
import sys
from types import SimpleNamespace

import pytest

from omni_hardware.inventory import Device, Inventory, Visible
from pytest_omni.cards.runtime_state import RUNTIMES, started
from pytest_omni.cards.worker_visibility import CALLER, RUN, WORKER, Pin, is_worker_process, narrowed
from pytest_omni.machine import SNAPSHOT

ALONE = ("pytest_omni.plugin",)
XDIST = ("xdist.plugin", *ALONE)


def machine(count, platform="cuda", visible=None):
    rows = tuple(Device(index, f"GPU-{index:08x}", "H100", 81559) for index in range(count))
    return Inventory(platform, devices=rows, visible=visible or Visible("CUDA_VISIBLE_DEVICES", None))


def worker_environ(number, **more):
    return {WORKER: number if isinstance(number, str) else f"gw{number}", RUN: "run1", **more}


@pytest.mark.parametrize(
    ("value", "number", "sees"),
    [
        pytest.param("2,3", 0, "2", id="the caller's first"),
        pytest.param("2,3", 1, "3", id="the caller's second"),
        pytest.param("2,3", 2, "-1", id="beyond the cards"),
        pytest.param("GPU-00000003,GPU-00000001", 1, "GPU-00000001", id="uuids stay what they are"),
        pytest.param(None, 1, "1", id="no list, the machine's second"),
        pytest.param("", 0, "-1", id="an empty list is none"),
        pytest.param("2,9,3", 1, "-1", id="an unknown entry ends the list"),
        pytest.param("2,3", "left", "-1", id="a worker without a number"),
    ],
)
def test_a_worker_sees_the_entry_of_its_number(value, number, sees):
    environ = worker_environ(number)
    view = narrowed(machine(4, visible=Visible("CUDA_VISIBLE_DEVICES", value)), environ)
    seen = environ.get("CUDA_VISIBLE_DEVICES")
    assert seen == (None if value == "" else sees)  # an empty list has nothing to narrow
    assert view.own == ((number,) if sees != "-1" else ())


def test_both_lists_of_rocm_get_one_value_and_rocr_counts_first():
    inventory = machine(4, "rocm", Visible("HIP_VISIBLE_DEVICES", "1,0", (("ROCR_VISIBLE_DEVICES", "2,3"),)))
    environ = worker_environ(1, HIP_VISIBLE_DEVICES="1,0", ROCR_VISIBLE_DEVICES="2,3")
    narrowed(inventory, environ)
    assert environ["HIP_VISIBLE_DEVICES"] == environ["CUDA_VISIBLE_DEVICES"] == "0"
    assert environ["ROCR_VISIBLE_DEVICES"] == "2,3"


def test_a_worker_of_a_machine_without_devices_is_left_alone():
    environ = worker_environ(0)
    narrowed(Inventory("cpu"), environ)
    assert {name for name in environ if "VISIBLE" in name} == set()


@pytest.mark.parametrize("given", [None, "0"])
def test_asking_torch_whether_there_is_a_card_does_not_start_the_driver(given):
    environ = worker_environ(0, **({} if given is None else {"PYTORCH_NVML_BASED_CUDA_CHECK": given}))
    narrowed(machine(1), environ)
    assert environ["PYTORCH_NVML_BASED_CUDA_CHECK"] == (given or "1")


def test_the_callers_list_is_kept():
    environ = worker_environ(1, CUDA_VISIBLE_DEVICES="2,3")
    narrowed(machine(4, visible=Visible("CUDA_VISIBLE_DEVICES", "2,3")), environ)
    assert json.loads(environ[CALLER]) == {"CUDA_VISIBLE_DEVICES": "2,3"}


@pytest.mark.parametrize(
    ("environ", "is_one"),
    [
        ({}, False),
        ({SNAPSHOT: "{}"}, False),
        (worker_environ(0), False),
        (worker_environ(0, **{SNAPSHOT: "{}"}), True),
    ],
)
def test_a_worker_is_known_by_what_its_controller_lent_it(environ, is_one):
    assert is_worker_process(environ) is is_one


def test_what_was_shown_when_the_runtime_started_binds():
    environ = worker_environ(0, CUDA_VISIBLE_DEVICES="4,5,6")
    view = narrowed(machine(8, visible=Visible("CUDA_VISIBLE_DEVICES", "4,5,6")), environ)
    view.show((0, 2))
    assert environ["CUDA_VISIBLE_DEVICES"] == "4,6"
    view.bind("torch.cuda is initialised, by test_b")
    view.show((1,))  # for children: this process sees no change
    view.rest()
    assert environ["CUDA_VISIBLE_DEVICES"] == "4,6"
    view.bind("torch.cuda is initialised, by test_c")
    assert view.pin == Pin((0, 2), "torch.cuda is initialised, by test_b")


@pytest.mark.parametrize("platform", sorted(RUNTIMES))
def test_a_runtime_is_asked_only_where_somebody_imported_it(monkeypatch, platform):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert started(platform) == ""
    assert "torch" not in sys.modules
    torch = SimpleNamespace(**{RUNTIMES[platform].module: SimpleNamespace(is_initialized=lambda: True)})
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert started(platform) == f"torch.{RUNTIMES[platform].module} is initialised"
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    assert started(platform) == ""
    assert started("cpu") == ""


@pytest.mark.parametrize(("status", "words"), [(3, ""), (0, "the cuda driver is initialised")])
def test_a_driver_is_asked_only_where_somebody_loaded_it(monkeypatch, status, words):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    asked = []

    def loaded(name, mode):
        asked.append((name, mode))
        return SimpleNamespace(cuDeviceGetCount=lambda _count: status)

    monkeypatch.setattr("ctypes.CDLL", loaded)
    assert started("cuda") == words
    assert asked == [("libcuda.so.1", os.RTLD_NOLOAD)]


SEES = """
import json, os
from pathlib import Path

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "controller")

def note(what, **more):
    names = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    row = {"what": what, "worker": WORKER, **{n: os.environ.get(n) for n in names}, **more}
    with open(Path(__file__).with_name("seen.jsonl"), "a") as out:
        out.write(json.dumps(row) + "\\n")
"""
FAKE_TORCH = """
import os

AT_IMPORT = os.environ.get("CUDA_VISIBLE_DEVICES")
"""


def seen(pytester):
    return [json.loads(line) for line in (pytester.path / "seen.jsonl").read_text().splitlines()]


def test_cupy9584_a_conftest_that_imports_torch_reads_the_workers_own_card(cards, armed, inner, monkeypatch):
    """flashinfer183 too: set in a fixture or a late conftest, visibility has no effect on a runtime that runs."""
    option = cards(4)
    armed.makepyfile(sees=SEES, torch=FAKE_TORCH)
    armed.makeconftest("import torch, sees\nsees.note('conftest', torch=torch.AT_IMPORT)\n")
    armed.makepyfile("def test_a(): pass\ndef test_b(): pass\n")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    result = inner("-n3", *option, plugins=XDIST)
    assert result.ret == 0
    by_worker = {row["worker"]: row["torch"] for row in seen(armed)}
    assert by_worker == {"controller": "3,1", "gw0": "3", "gw1": "1", "gw2": "-1"}


def test_triton11831_eight_workers_stay_on_the_callers_card(cards, armed, inner, monkeypatch):
    """rocm_libraries11898 too: 0..7 would be somebody else's cards."""
    option = cards(8)
    armed.makepyfile(sees=SEES)
    armed.makeconftest("import sees\nsees.note('conftest')\n")
    armed.makepyfile(
        "import pytest, sees\n"
        "@pytest.mark.cuda\n@pytest.mark.parametrize('i', range(16))\n"
        "def test_a(i, devices): sees.note('test', uuid=devices[0].uuid)\n"
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    result = inner("-n8", *option, plugins=XDIST)
    result.assert_outcomes(passed=16)
    rows = seen(armed)
    at_load = {row["worker"]: row["CUDA_VISIBLE_DEVICES"] for row in rows if row["what"] == "conftest"}
    assert at_load == {"controller": "1", "gw0": "1", **{f"gw{number}": "-1" for number in range(1, 8)}}
    tests = [(row["CUDA_VISIBLE_DEVICES"], row["uuid"]) for row in rows if row["what"] == "test"]
    assert tests == [("1", "GPU-00000001")] * 16


@pytest.mark.parametrize(
    ("caller", "passes", "sees"),
    [
        pytest.param({"HIP_VISIBLE_DEVICES": "1"}, True, "1", id="one of two set"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "1"}, True, "1", id="the other set"),
        pytest.param({"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "1"}, True, "1", id="equal"),
        pytest.param(
            {"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "0"}, False, "differ", id="unequal"
        ),
        pytest.param({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, True, "0", id="rocr first"),
        pytest.param({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"}, False, "ROCR", id="both 1"),
    ],
)
def test_ray52701_a_session_makes_the_lists_of_rocm_one_or_says_why_not(
    cards, armed, inner, monkeypatch, caller, passes, sees
):
    """ray51104, ray53737 and vllm12572 too; the last row is swarmui565."""
    option = cards(2, platform="rocm", sku="MI300")
    armed.makepyfile(sees=SEES)
    armed.makepyfile(
        "import pytest, sees\n@pytest.mark.rocm\ndef test_a(devices): sees.note('test', uuid=devices[0].uuid)\n"
    )
    for name, value in caller.items():
        monkeypatch.setenv(name, value)
    result = inner("-n1", "-rs", *option, plugins=XDIST)
    if not passes:
        result.assert_outcomes(skipped=1)
        result.stdout.fnmatch_lines([f"SKIPPED*needs rocm, sees none*{sees}*"])
        return
    result.assert_outcomes(passed=1)
    (row,) = seen(armed)
    assert (row["HIP_VISIBLE_DEVICES"], row["CUDA_VISIBLE_DEVICES"]) == (sees, sees)
    assert (row["ROCR_VISIBLE_DEVICES"], row["uuid"]) == (caller.get("ROCR_VISIBLE_DEVICES"), "GPU-00000001")


NESTED = """
import os, subprocess, sys
import pytest, sees

def run(*words):
    plugins = [word for name in ("xdist.plugin", "pytest_omni.plugin") for word in ("-p", name)]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *plugins, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr

@pytest.mark.parametrize("i", range(2))
def test_outer(i):
    if os.environ.get("INSIDE"):
        sees.note("inside")
        return
    os.environ["INSIDE"] = os.environ["PYTEST_XDIST_WORKER"]
    sees.note("outer")
    run(__file__, "--omni-inventory", "inventory.json")
    os.environ["INSIDE"] += "/n"
    run("-n1", __file__, "--omni-inventory", "inventory.json")
"""


def test_a_pytest_inside_a_worker_keeps_to_the_workers_card(cards, armed, inner, monkeypatch):
    option = cards(4)
    armed.makepyfile(
        sees=SEES.replace('"worker": WORKER,', '"worker": WORKER, "in": os.environ.get("INSIDE"),')
    )
    armed.makepyfile(NESTED)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    inner("-n2", "--dist=load", *option, plugins=XDIST).assert_outcomes(passed=2)
    rows = seen(armed)
    inside = {(row["in"], row["CUDA_VISIBLE_DEVICES"]) for row in rows}
    assert inside == {("gw0", "2"), ("gw0/n", "2"), ("gw1", "3"), ("gw1/n", "3")}
    assert len([row for row in rows if row["what"] == "inside"]) == 8


def test_an_armed_pytest_inside_an_unarmed_worker_is_not_narrowed(cards, armed, inner, monkeypatch):
    option = cards(4)
    armed.makepyfile("import os\ndef test_a(): assert os.environ['CUDA_VISIBLE_DEVICES'] == '2,3'\n")
    for name, value in worker_environ(1, CUDA_VISIBLE_DEVICES="2,3").items():
        monkeypatch.setenv(name, value)
    inner(*option).assert_outcomes(passed=1)


def test_an_unarmed_worker_is_not_narrowed(pytester, inner, monkeypatch):
    pytester.makepyprojecttoml("[project]\nname = 'other'\nversion = '1'\n")
    pytester.makepyfile(
        "import os\ndef test_a():\n"
        "    assert os.environ['CUDA_VISIBLE_DEVICES'] == '2,3'\n"
        "    assert not [name for name in os.environ if name.startswith('PYTEST_OMNI')]\n"
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    inner("-n1", plugins=XDIST).assert_outcomes(passed=1)
