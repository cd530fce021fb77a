"""Which devices an item gets: alone, and among the workers of a run."""

from __future__ import annotations

import json

import pytest

from omni_hardware.errors import InputError
from omni_hardware.inventory import Device, Inventory, Visible
from omni_hardware.requirements import Need
from pytest_omni.cards.grant import Grant
from pytest_omni.cards.holdings import fitting
from pytest_omni.cards.leasing import run_folder

ALONE = ("pytest_omni.plugin",)
XDIST = ("xdist.plugin", *ALONE)
CUDA = "CUDA_VISIBLE_DEVICES"

# What the inner tests write down: one line an event, appended by all workers.
SEES = """
import json, os, subprocess, sys, time
from pathlib import Path

HERE = Path(__file__).parent
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "alone")
CHILD = "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'))"

def note(what, grant=(), **more):
    uuids = [device.uuid for device in grant]
    row = {"what": what, "worker": WORKER, "cards": uuids, "here": os.environ.get("CUDA_VISIBLE_DEVICES")}
    with open(HERE / "seen.jsonl", "a") as out:
        out.write(json.dumps({**row, "at": time.monotonic(), **more}) + "\\n")

def child(grant, base=None):
    command = [sys.executable, "-c", CHILD]
    return subprocess.run(command, env=grant.environ(base), capture_output=True, text=True).stdout.strip()

def wait_for(name):
    deadline = time.monotonic() + 50
    while not (HERE / name).exists():
        assert time.monotonic() < deadline, name
        time.sleep(0.01)
"""


def seen(pytester, what=None):
    rows = [json.loads(line) for line in (pytester.path / "seen.jsonl").read_text().splitlines()]
    return [row for row in rows if what in {None, row["what"]}]


def machine(*skus, visible=None, platform="cuda", memory=81559):
    rows = tuple(Device(index, f"GPU-{index:08x}", sku, memory) for index, sku in enumerate(skus))
    return Inventory(platform, devices=rows, visible=Visible(CUDA, visible))


def grant(cards, positions, visible=None, **more):
    inventory = machine(*["H100"] * 8, visible=visible, **more)
    return Grant(Need(platform=inventory.platform, cards=cards), positions, inventory)


# -- the environment of a child


@pytest.mark.parametrize(
    ("visible", "positions", "value"),
    [
        pytest.param("2,3,4,6", (0, 1), "2,3", id="the caller's own numbers"),
        pytest.param("2,3,4,6", (3,), "6", id="its fourth entry"),
        pytest.param("GPU-00000003", (0,), "GPU-00000003", id="a uuid"),
        pytest.param(None, (1, 2), "1,2", id="no list"),
    ],
)
def test_a_child_sees_the_granted_entries(visible, positions, value):
    base = {CUDA: "7", "HIP_VISIBLE_DEVICES": "0", "ZE_AFFINITY_MASK": "0", "PATH": "/bin"}
    environ = grant(len(positions), positions, visible).environ(base)
    assert environ == {CUDA: value, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "PATH": "/bin"}
    assert base[CUDA] == "7", "the environment given is left alone"


def test_what_takes_part_beside_the_list_is_the_callers_too():
    visible = Visible("HIP_VISIBLE_DEVICES", "1,0", (("ROCR_VISIBLE_DEVICES", "2,3"),))
    rows = tuple(Device(index, f"GPU-{index}", "MI300") for index in range(4))
    inventory = Inventory("rocm", devices=rows, visible=visible)
    environ = Grant(Need(platform="rocm"), (1,), inventory).environ({"ROCR_VISIBLE_DEVICES": "0"})
    assert environ == {"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "0"}


def test_a_child_without_need_or_device():
    base = {CUDA: "7", "HOME": "/root"}
    assert Grant().environ(base) == base
    hidden = Grant(Need(platform="cpu", cards=0)).environ(base)
    assert hidden["HOME"] == "/root"
    assert {hidden[name] for name in (CUDA, "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")} == {"-1"}


def test_a_grant_is_a_sequence_of_devices_and_can_be_divided():
    whole = grant(2, (1, 3), "4,5,6,7")
    assert [device.index for device in whole] == [5, 7]
    assert (len(whole), whole[1].index, whole[-1].index) == (2, 7, 7)
    assert whole.only(1).environ({})[CUDA] == "7"
    assert whole.only(1, 0).environ({})[CUDA] == "7,5"
    with pytest.raises(
        InputError, match="device 2 is not one of this item's: it needs cuda×2 and has 0 to 1"
    ):
        whole.only(0, 2)
    with pytest.raises(InputError, match="it needs no device and has none"):
        Grant().only(0)


@pytest.mark.parametrize(
    ("need", "positions"),
    [
        ({}, (0, 1, 2)),
        ({"skus": ("H100",)}, (1, 2)),
        ({"skus": ("L4", "H200")}, (0,)),
        ({"min_memory_mib": 90000}, ()),
        ({"platform": "rocm", "skus": ("MI300",)}, (0, 1, 2)),
    ],
    ids=str,
)
def test_only_devices_that_fit_are_given(need, positions):
    assert fitting(Need(**{"platform": "cuda", **need}), machine("L4", "H100", "H100")) == positions


def test_the_folder_of_a_run_is_below_the_sessions_own(tmp_path):
    assert run_folder(str(tmp_path / "popen-gw3"), "ab12") == tmp_path / "omni-leases-ab12"


# -- alone: no lock, nothing changes in this process


def test_vllm_omni3904_device_0_of_a_test_is_the_callers_first(cards, armed, inner, monkeypatch):
    option = cards(8)
    armed.makepyfile(sees=SEES)
    armed.makepyfile(
        "import os, pytest, sees\n"
        "from pytest_omni.cards.devices import granted\n"
        "@pytest.fixture(scope='module')\n"
        "def server(request):\n"
        "    with granted(request) as grant:\n"
        "        yield sees.child(grant.only(0), {**os.environ, 'CUDA_VISIBLE_DEVICES': '0'})\n"
        "@pytest.mark.cuda\ndef test_server(server): assert server == '3'\n"
        "@pytest.mark.cuda\ndef test_again(server, devices): assert devices[0].index == 3\n"
        "@pytest.mark.cpu\ndef test_cpu(devices):\n"
        "    assert len(devices) == 0\n"
        "    assert sees.child(devices) == '-1'\n"
        "def test_plain(): assert os.environ['CUDA_VISIBLE_DEVICES'] == '3'\n"
    )
    monkeypatch.setenv(CUDA, "3")
    for workers in ("-n0", "-n1"):
        inner(workers, *option, plugins=XDIST).assert_outcomes(passed=4)


def test_pytorch95073_what_a_test_does_to_the_environment_decides_nothing(cards, armed, inner, monkeypatch):
    """pytorch122815, isaac_groot765 and soup1128 too: the count is that of the session's start."""
    option = cards(8)
    armed.makepyfile(sees=SEES)
    armed.makepyfile(
        "import os, pytest, sees\n"
        "os.environ['CUDA_VISIBLE_DEVICES'] = ''\n"
        "@pytest.mark.cuda\ndef test_a(devices):\n"
        "    os.environ['CUDA_VISIBLE_DEVICES'] = '6'\n"
        "    assert [device.index for device in devices] == [2]\n"
        "@pytest.mark.cuda\n@pytest.mark.cards_2\n@pytest.mark.H100\ndef test_b(devices):\n"
        "    assert sees.child(devices) == '2,3'\n"
    )
    monkeypatch.setenv(CUDA, "2,3")
    inner(*option).assert_outcomes(passed=2)
    inner("-n1", *option, plugins=XDIST).assert_outcomes(passed=2)


def test_devices_without_a_requirement_are_nobodys(cards, armed, inner):
    option = cards(2)
    armed.makepyfile("def test_a(devices): pass\n")
    result = inner(*option)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*test_a asks for devices and declares no hardware; add @hardware_test(*"])


# -- among workers


def test_pytest_xdist520_cards_are_never_in_two_hands(cards, armed, inner, monkeypatch):
    """pytest_xdist760 too: four workers, two cards, items of one and two."""
    option = cards(4)
    armed.makepyfile(sees=SEES)
    armed.makepyfile(
        "import os, time, pytest, sees\n"
        "@pytest.mark.parametrize('i', range(8))\n"
        "@pytest.mark.cuda\ndef test_one(i, devices):\n"
        "    sees.note('begin', devices, id=f'one{i}')\n    time.sleep(0.02)\n    sees.note('end', id=f'one{i}')\n"
        "@pytest.mark.parametrize('i', range(4))\n"
        "@pytest.mark.cuda\n@pytest.mark.H100\n@pytest.mark.cards_2\ndef test_two(i, devices):\n"
        "    sees.note('begin', devices, id=f'two{i}')\n    time.sleep(0.02)\n    sees.note('end', id=f'two{i}')\n"
        "@pytest.mark.parametrize('i', range(8))\n"
        "@pytest.mark.cpu\ndef test_cpu(i, devices): sees.note('cpu', devices, child=sees.child(devices))\n"
    )
    monkeypatch.setenv(CUDA, "1,3")
    inner("-n4", "--basetemp=base", *option, plugins=XDIST).assert_outcomes(passed=20)
    busy: dict[str, str] = {}
    for row in sorted(seen(armed), key=lambda row: row["at"]):
        if row["what"] == "begin":
            assert not set(row["cards"]) & set(busy), (row, busy)
            assert row["here"] == ",".join(str(int(uuid[4:], 16)) for uuid in row["cards"])
            busy |= dict.fromkeys(row["cards"], row["id"])
        elif row["what"] == "end":
            busy = {card: owner for card, owner in busy.items() if owner != row["id"]}
    counts = sorted(len(row["cards"]) for row in seen(armed, "begin"))
    assert counts == [1] * 8 + [2] * 4
    assert {row["child"] for row in seen(armed, "cpu")} == {"-1"}
    (folder,) = (armed.path / "base").glob("omni-leases-*")
    assert json.loads((folder / "leases.json").read_text()) == {"leases": [], "waiting": []}


def test_a_module_fixture_keeps_its_cards_until_it_ends_and_others_wait(cards, armed, inner):
    option = cards(1)
    armed.makepyfile(sees=SEES)
    armed.makepyfile(
        test_keeps="import time, pytest, sees\nfrom pytest_omni.cards.devices import granted\n"
        "@pytest.fixture(scope='module')\n"
        "def server(request):\n"
        "    with granted(request) as grant:\n"
        "        sees.note('begin', grant)\n"
        "        yield grant\n"
        "        time.sleep(0.1)\n"
        "        sees.note('end', grant)\n"
        "pytestmark = pytest.mark.cuda\n"
        "def test_a(server): (sees.HERE / 'kept').touch()\n"
        "def test_b(server, devices):\n    time.sleep(0.3)\n    assert list(devices) == list(server)\n",
        test_waits="import pytest, sees\n"
        "@pytest.fixture(scope='module', autouse=True)\n"
        "def _other_first(): pass\n"
        "def test_first(): sees.wait_for('kept')\n"
        "@pytest.mark.cuda\ndef test_c(devices): sees.note('begin', devices)\n",
    )
    inner("-n2", "--dist=loadfile", *option, plugins=XDIST).assert_outcomes(passed=4)
    rows = [row for row in seen(armed) if row["what"] in {"begin", "end"}]
    assert [row["what"] for row in sorted(rows, key=lambda row: row["at"])] == ["begin", "end", "begin"]
    assert rows[0]["worker"] != rows[2]["worker"]
    assert rows[0]["cards"] == rows[2]["cards"]


KEEPS_ONE = """
import pytest, sees
from pytest_omni.cards.devices import granted

@pytest.fixture(scope='module')
def server(request):
    with granted(request) as grant:
        yield grant

@pytest.mark.cuda
def test_one(server): assert len(server) == 1

@pytest.mark.cuda
@pytest.mark.H100
@pytest.mark.cards_2
def test_two(server, devices):
    assert len(devices) == 2
    assert server[0] in list(devices)
    sees.note('two', devices)
"""


def test_an_item_adds_to_what_a_fixture_holds(cards, armed, inner):
    option = cards(2)
    armed.makepyfile(sees=SEES)
    armed.makepyfile(KEEPS_ONE)
    inner("-n1", *option, plugins=XDIST).assert_outcomes(passed=2)
    (row,) = seen(armed, "two")
    assert row["here"] == "0,1"


def test_one_that_holds_cards_does_not_wait_for_more(cards, armed, inner):
    option = cards(2)
    armed.makepyfile(sees=SEES)
    armed.makepyfile(
        test_keeps=KEEPS_ONE.replace("server): assert", "server):\n    sees.wait_for('other')\n    assert")
        + "\n@pytest.mark.cpu\ndef test_over(server): (sees.HERE / 'over').touch()\n",
        test_other="import pytest, sees\n"
        "@pytest.mark.cuda\ndef test_long():\n    (sees.HERE / 'other').touch()\n    sees.wait_for('over')\n",
    )
    result = inner("-n2", "--dist=loadfile", *option, plugins=XDIST)
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(
        [
            (
                "*test_keeps.py::test_two needs cuda H100×2 and got none: gw? (pid *) holds card ? (H100, GPU-*) "
                "for test_other.py::test_long since * s. Fixtures of this worker hold cards since "
                "test_keeps.py::test_one, and who holds cards does not wait for more: give every test*"
            )
        ]
    )


def test_a_wait_ends_with_the_items_own_error(cards, armed, inner, monkeypatch):
    option = cards(1)
    armed.makepyfile(sees=SEES)
    armed.makepyfile(
        test_long="import pytest, sees\n"
        "@pytest.mark.cuda\ndef test_a():\n    (sees.HERE / 'has').touch()\n    sees.wait_for('over')\n",
        test_waits="import pytest, sees\n"
        "def test_first(): sees.wait_for('has')\n"
        "@pytest.mark.cuda\ndef test_b(): pass\n"
        "def test_last(): (sees.HERE / 'over').touch()\n",
    )
    armed.makeconftest("from pytest_omni.cards import leases\nleases._SAY_AFTER_S = 0.1\n")
    monkeypatch.setenv("OMNI_LEASE_TIMEOUT", "0.3")
    result = inner("-n2", "--dist=loadfile", *option, plugins=XDIST)
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(
        [
            (
                "*test_waits.py::test_b needs cuda and got none after 0.3 s (OMNI_LEASE_TIMEOUT sets another limit): "
                "gw? (pid *) holds card 0 (H100, GPU-00000000) for test_long.py::test_a since * s"
            )
        ]
    )
    result.stderr.fnmatch_lines(
        ["omni: test_waits.py::test_b waits for cuda (* s): gw? (pid *) holds card 0 *"]
    )


FAKE_TORCH = """
class cuda:
    running = False

    @classmethod
    def is_initialized(cls):
        return cls.running
"""
TWO = "@pytest.mark.cuda\n@pytest.mark.H100\n@pytest.mark.cards_2\n"


def test_a_process_that_runs_the_accelerator_is_bound_to_what_it_saw(cards, armed, inner):
    option = cards(2)
    armed.makepyfile(sees=SEES, torch=FAKE_TORCH)
    armed.makepyfile(
        "import pytest, sees, torch\n"
        "from pytest_omni import OmniServerParams\n"
        f"{TWO}def test_before(devices): sees.note('before', devices)\n"
        "def test_plain(): sees.note('plain')\n"
        "@pytest.mark.cuda\ndef test_starts(devices): torch.cuda.running = True\n"
        f"{TWO}def test_after(devices): pass\n"
        "@pytest.mark.cuda\ndef test_one(devices): sees.note('one', devices)\n"
        f"{TWO}@pytest.mark.parametrize('omni_server', [OmniServerParams('m')], indirect=True)\n"
        "def test_served(omni_server, devices): sees.note('served', devices)\n"
        f"{TWO}@pytest.mark.fresh_process\ndef test_fresh(devices): sees.note('fresh', devices)\n"
    )
    result = inner("-n1", *option, plugins=XDIST)
    result.assert_outcomes(passed=6, errors=1)
    result.stdout.fnmatch_lines(
        [
            (
                "*::test_after needs cuda H100×2, but the process of gw0 is bound to card 0 (H100, GPU-00000000): "
                "torch.cuda is initialised, by *::test_starts. Mark the test fresh_process: *"
            )
        ]
    )
    here = {row["what"]: row["here"] for row in seen(armed)}
    assert here == {"before": "0,1", "plain": "0", "one": "0", "served": "0,1", "fresh": "0,1"}
    (fresh,) = seen(armed, "fresh")
    assert len(fresh["cards"]) == 2


def test_a_runtime_that_collection_started_binds_a_worker_beyond_the_cards_to_none(cards, armed, inner):
    option = cards(1)
    armed.makepyfile(torch=FAKE_TORCH.replace("False", "True"))
    armed.makeconftest("import torch\n")
    armed.makepyfile(
        "import os, pytest\n@pytest.mark.cuda\ndef test_a(): pass\n@pytest.mark.cuda\ndef test_b(): pass\n"
    )
    result = inner("-n2", "--dist=each", *option, plugins=XDIST)
    result.assert_outcomes(passed=2, errors=2)
    result.stdout.fnmatch_lines(
        [
            "*needs cuda, but the process of gw1 is bound to no card: torch.cuda is initialised, by *conftest.py. Mark*"
        ]
    )


def test_a_worker_that_replaces_a_crashed_one_has_its_card_from_the_first_conftest_on(cards, armed, inner):
    """torch started by a conftest would bind it to no card otherwise, and every test after a crash would fail."""
    option = cards(2)
    armed.makepyfile(sees=SEES)
    with (armed.path / "conftest.py").open("a") as file:
        file.write("\nimport sees\nif sees.WORKER != 'alone': sees.note('conftest')\n")
    armed.makepyfile(
        "import os, pytest, sees\npytestmark = pytest.mark.cuda\n"
        "@pytest.mark.parametrize('i', range(2))\n"
        "def test_dies(i, devices): os._exit(1)\n"
        "def test_next(devices): assert os.environ['CUDA_VISIBLE_DEVICES'] == '0'\n"
        "def test_nested(): assert not [name for name in os.environ if name == 'PYTEST_OMNI_REPLACES']\n"
    )
    result = inner("-n1", *option, plugins=XDIST)
    result.assert_outcomes(passed=2, failed=2)
    workers = [(row["worker"], row["here"]) for row in seen(armed, "conftest")]
    assert workers == [("gw0", "0"), ("gw1", "0"), ("gw2", "0")]


def test_a_skipped_item_leases_nothing(cards, armed, inner):
    option = cards(1)
    armed.makepyfile(
        "import pytest\n@pytest.mark.cuda\n@pytest.mark.skip(reason='no')\ndef test_a(devices): pass\n"
        "@pytest.mark.cuda\n@pytest.mark.H100\n@pytest.mark.cards_2\ndef test_b(devices): pass\n"
        "def test_c(): pass\n"
    )
    inner("-n1", "--basetemp=base", *option, plugins=XDIST).assert_outcomes(passed=1, skipped=2)
    assert list((armed.path / "base").glob("omni-leases-*")) == []


def test_a_failing_fixture_gives_the_cards_back(cards, armed, inner):
    option = cards(1)
    armed.makepyfile(
        "import pytest\nfrom pytest_omni.cards.devices import granted\n"
        "@pytest.fixture(scope='module')\n"
        "def broken(request):\n    with granted(request):\n        raise RuntimeError\n"
        "@pytest.mark.cuda\ndef test_a(broken): pass\n@pytest.mark.cuda\ndef test_b(devices): pass\n"
    )
    inner("-n1", "--basetemp=base", *option, plugins=XDIST).assert_outcomes(passed=1, errors=1)
    (folder,) = (armed.path / "base").glob("omni-leases-*")
    assert json.loads((folder / "leases.json").read_text())["leases"] == []


def test_a_session_that_ends_in_the_middle_gives_the_cards_back(cards, armed, inner):
    option = cards(1)
    armed.makepyfile(
        "import pytest\n@pytest.mark.cuda\ndef test_a(devices): pytest.exit('enough', returncode=3)\n"
    )
    inner("-n1", "--basetemp=base", *option, plugins=XDIST)
    (folder,) = (armed.path / "base").glob("omni-leases-*")
    assert json.loads((folder / "leases.json").read_text())["leases"] == []


def test_a_grant_shows_its_devices_and_nothing_more():
    shown = repr(Grant(Need(platform="cuda", cards=2), (1, 0), machine("L4", "H100")))
    assert shown == "Grant(cuda: 0 H100 GPU-00000001, 1 L4 GPU-00000000)"
    assert repr(Grant()) == "Grant(no device)"
