"""What only a real card can prove: run with `scripts/test.sh --gpu`, or `pytest tests/gpu -m cuda`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

from omni_hardware.inventory import Inventory, ProcessMemory
from omni_hardware.probes import probe, process_memory
from omni_hardware.processes import is_alive
from omni_hardware.visibility import hide, narrow
from omni_hardware.vocabulary import PLATFORMS
from pytest_omni import OmniServer, OmniServerParams, hardware_test

ANY_CUDA = {"cuda": list(PLATFORMS["cuda"].skus)}
pytestmark = [pytest.mark.core_model]

HANG_GUARD_S = 120.0
HOLDS = """
import sys, torch
held = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("held", flush=True)
sys.stdin.read()
"""
STUB = Path(__file__).parents[1] / "pytest_omni" / "stub_server.py"
# What a server leaves behind: a process in a session of its own, its parent gone, deaf to SIGTERM, memory in its hands.
LEAKS = """
import subprocess, sys
holds = '''
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
import torch
held = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("held", flush=True)
time.sleep(600)
'''
left = subprocess.Popen([sys.executable, "-c", holds], start_new_session=True, stdout=subprocess.PIPE, text=True)
assert left.stdout.readline() == "held\\n"
open("leaked", "w").write(str(left.pid))
"""
SEEN = "import json, torch; print(json.dumps([str(torch.cuda.get_device_properties(i).uuid) for i in range(torch.cuda.device_count())]))"


@pytest.fixture(scope="module")
def inventory() -> Inventory:
    found = probe(os.environ)
    assert found.error is None
    return found


def nvidia_smi(fields: str) -> list[list[str]]:
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines()]


def seen_by_torch(environ: dict[str, str]) -> list[str]:
    """UUIDs of the cards that a fresh process with *environ* sees, in its order."""
    done = subprocess.run(
        [sys.executable, "-c", SEEN], env=environ, capture_output=True, text=True, check=True
    )
    return [f"GPU-{uuid.removeprefix('GPU-')}" for uuid in json.loads(done.stdout)]


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and is_alive(psutil.Process(pid))


def memory_of(inventory: Inventory, pid: int) -> list[ProcessMemory]:
    return [row for row in process_memory(inventory) if row.pid == pid]


@hardware_test(res=ANY_CUDA)
def test_the_inventory_is_what_the_vendors_tool_says(inventory: Inventory) -> None:
    told = nvidia_smi("index,uuid,memory.total,name")
    assert [[str(d.index), d.uuid, str(d.memory_mib)] for d in inventory.devices] == [row[:3] for row in told]
    for device, row in zip(inventory.devices, told, strict=True):
        assert device.sku is not None
        assert device.sku in row[3].split()
    assert inventory.driver == nvidia_smi("driver_version")[0][0]


@hardware_test(res=ANY_CUDA)
def test_what_we_write_is_what_the_runtime_sees(inventory: Inventory) -> None:
    every = [device.uuid for device in inventory.seen]
    assert seen_by_torch(dict(os.environ)) == every
    for position, uuid in enumerate(every):
        assert seen_by_torch({**os.environ, **narrow("cuda", os.environ, [position])}) == [uuid]
    hidden = {name: value for name, value in {**os.environ, **hide(os.environ)}.items() if value is not None}
    assert seen_by_torch(hidden) == []
    # a prefix of the UUID names a card as well
    assert seen_by_torch({**os.environ, "CUDA_VISIBLE_DEVICES": every[-1][:12]}) == every[-1:]


@hardware_test(res=ANY_CUDA)
def test_memory_belongs_to_the_process_that_holds_it_and_is_gone_with_it(inventory: Inventory) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        (row,) = memory_of(inventory, child.pid)
        assert 2048 <= row.used_mib < 4096
        child.communicate("")
    deadline = time.monotonic() + HANG_GUARD_S
    while memory_of(inventory, child.pid):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.diffusion
@hardware_test(res=ANY_CUDA)
@pytest.mark.parametrize(
    "omni_server", [OmniServerParams("tiny/z_image", server_args=("--device", "cuda"))], indirect=True
)
def test_a_server_on_the_card_answers_and_holds_memory_there(
    omni_server: OmniServer, inventory: Inventory
) -> None:
    body = json.dumps({"prompt": "a red cube", "num_inference_steps": 2}).encode()
    request = urllib.request.Request(
        f"{omni_server.url}/v1/images/generations", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=HANG_GUARD_S) as response:
        assert response.status == 200
    assert sum(row.used_mib for row in process_memory(inventory)) > 0


def one_card(inventory: Inventory) -> dict[str, str]:
    """The environment of a pytest that stands alone and sees the first card only."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    return {**bare, **narrow("cuda", bare, [0])}


def inner_server(folder: Path, environ: dict[str, str], *, starts: str, body: str) -> str:
    """What pytest says of one test with a server of *starts*; it ends well or not, but ends."""
    (folder / "pyproject.toml").write_text("[tool.omni]\n")
    (folder / "server.py").write_text(
        f"import os, subprocess, sys\n{starts}\nos.execv(sys.executable, [sys.executable, {str(STUB)!r}, *sys.argv[1:]])\n"
    )
    (folder / "conftest.py").write_text(
        "import sys\n"
        "def pytest_omni_server_command(config, params, port):\n"
        "    open('asked', 'w').close()\n"
        "    return [sys.executable, 'server.py', '--port', str(port)]\n"
    )
    (folder / "test_a.py").write_text(
        "import os, pytest\n"
        "from omni_hardware.probes import probe, process_memory\n"
        "from pytest_omni import OmniServerParams, hardware_test\n"
        f"@hardware_test(res={ANY_CUDA!r})\n"
        "@pytest.mark.parametrize('omni_server', [OmniServerParams('stub')], indirect=True)\n"
        f"def test_a(omni_server):\n    {body}\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "cuda"]
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=HANG_GUARD_S, check=False
    )
    return f"{done.stdout}{done.stderr}\nexit {done.returncode}"


@hardware_test(res=ANY_CUDA)
def test_vllm_omni4165_a_foreign_process_on_the_card_is_named_before_a_server_starts(
    inventory: Inventory, tmp_path: Path
) -> None:
    environ, memory_mib = one_card(inventory), inventory.seen[0].memory_mib
    assert memory_mib is not None
    hog = HOLDS.replace(
        "2 << 30", f"{memory_mib // 8} << 20"
    )  # more than the tenth that a test leaves to others
    with subprocess.Popen(
        [sys.executable, "-c", hog], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        said = inner_server(tmp_path, environ, starts="", body="pass")
        child.communicate("")
    assert "no server is started beside foreign processes" in said, said
    assert f"pid {child.pid} (" in said
    assert said.endswith("exit 1")
    assert "1 error" in said
    assert not (tmp_path / "asked").exists()


@hardware_test(res=ANY_CUDA)
def test_granite_switch123_what_a_server_leaves_on_the_card_is_ended_and_its_memory_returns(
    inventory: Inventory, tmp_path: Path
) -> None:
    said = inner_server(
        tmp_path,
        one_card(inventory),
        starts=f"subprocess.run([sys.executable, '-c', {LEAKS!r}], check=True)",
        body="assert int(open('leaked').read()) in {row.pid for row in process_memory(probe(os.environ))}",
    )
    assert said.endswith("exit 0"), said
    left = int((tmp_path / "leaked").read_text())
    assert not is_running(left)
    assert memory_of(inventory, left) == []


@hardware_test(res=ANY_CUDA)
def test_strict_fails_the_session_for_cards_that_are_not_here(inventory: Inventory, tmp_path: Path) -> None:
    too_many = len(inventory.seen) + 1
    (tmp_path / "pyproject.toml").write_text("[tool.omni]\n")
    (tmp_path / "test_a.py").write_text(
        "from pytest_omni import hardware_test\n"
        f"@hardware_test(res={ANY_CUDA!r}, num_cards={too_many})\ndef test_a(): pass\n"
        f"@hardware_test(res={ANY_CUDA!r})\ndef test_b(): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "cuda", "--omni-strict"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_GUARD_S, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "test_a.py::test_a" in done.stdout
    assert "1 passed, 1 skipped" in done.stdout


@hardware_test(res=ANY_CUDA, num_cards=2)
def test_two_workers_have_a_card_each_and_an_item_of_two_has_both(
    inventory: Inventory, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.omni]\n")
    (tmp_path / "test_a.py").write_text(
        "import json, os, pathlib, subprocess, sys, time\n"
        "import pytest\n"
        "from pytest_omni import hardware_test\n"
        f"SEEN = {SEEN!r}\n"
        "def note(name, request):\n"
        "    seen = json.loads(subprocess.run([sys.executable, '-c', SEEN], capture_output=True, text=True).stdout)\n"
        "    row = {'name': name, 'worker': os.environ['PYTEST_XDIST_WORKER'], 'seen': seen}\n"
        f"    pathlib.Path({str(tmp_path)!r}, f'{{name}}.json').write_text(json.dumps(row))\n"
        "    time.sleep(1)\n"
        "@pytest.mark.parametrize('number', range(4))\n"
        f"@hardware_test(res={ANY_CUDA!r})\n"
        "def test_one(number, request): note(f'one_{number}', request)\n"
        f"@hardware_test(res={ANY_CUDA!r}, num_cards=2)\n"
        "def test_two(request): note('two', request)\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "cuda", "-n2", "-v"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_GUARD_S, check=False
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("*.json"))]
    by_worker: dict[str, set[str]] = {}
    for row in rows:
        if row["name"] == "two":
            assert len(set(row["seen"])) == 2
        else:
            assert len(row["seen"]) == 1
            by_worker.setdefault(row["worker"], set()).update(row["seen"])
    assert len(by_worker) == 2
    assert sorted(map(len, by_worker.values())) == [1, 1]
    assert set.union(*by_worker.values()) == {
        uuid.removeprefix("GPU-") for uuid in (d.uuid for d in inventory.seen)
    }
