"""Workers, leases and the accelerator's runtime in one process: what no fake can prove."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from omni_hardware.probes import probe
from omni_hardware.vocabulary import PLATFORMS
from pytest_omni import hardware_test

ANY_CUDA = {"cuda": list(PLATFORMS["cuda"].skus)}
pytestmark = [pytest.mark.core_model]

HANG_GUARD_S = 240.0
STARTS = """
import ctypes, json, os, sys
from pytest_omni.cards.runtime_state import started

said = [started("cuda")]
driver = ctypes.CDLL("libcuda.so.1")
said.append(started("cuda"))
if sys.argv[1] == "driver":
    assert driver.cuInit(0) == 0
else:
    import torch
    assert torch.cuda.is_available() and torch.cuda.device_count() >= 1
    said.append(started("cuda"))
    torch.zeros(1, device="cuda")
said.append(started("cuda"))
print(json.dumps(said))
"""


@hardware_test(res=ANY_CUDA)
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("driver", ["", "", "the cuda driver is initialised"]),
        ("torch", ["", "", "", "torch.cuda is initialised"]),
    ],
)
def test_a_runtime_is_seen_when_it_starts_and_not_by_being_asked(how: str, said: list[str]) -> None:
    environ = {**os.environ, "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
    command = [sys.executable, "-c", STARTS, how]
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=HANG_GUARD_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == said


@hardware_test(res=ANY_CUDA)
def test_workers_beyond_the_cards_use_one_in_turn(tmp_path: Path) -> None:
    cards = [device.uuid for device in probe(os.environ).seen]
    workers = len(cards) + 2
    (tmp_path / "pyproject.toml").write_text("[tool.omni]\n")
    # what many a conftest asks at import, in workers that see no card then
    (tmp_path / "conftest.py").write_text("import torch\nHERE = torch.cuda.is_available()\n")
    (tmp_path / "test_a.py").write_text(
        "import json, os, time\n"
        "from pathlib import Path\n"
        "import pytest, torch\n"
        "from pytest_omni import hardware_test\n"
        f"@pytest.mark.parametrize('number', range({3 * workers}))\n"
        f"@hardware_test(res={ANY_CUDA!r})\n"
        "def test_one(number, devices):\n"
        "    began = time.monotonic()\n"
        "    assert torch.cuda.device_count() == 1\n"
        "    assert torch.ones(8, device='cuda').sum().item() == 8\n"
        "    uuid = str(torch.cuda.get_device_properties(0).uuid)\n"
        "    assert devices[0].uuid.removeprefix('GPU-') == uuid.removeprefix('GPU-')\n"
        "    time.sleep(0.1)\n"
        "    row = [os.environ['PYTEST_XDIST_WORKER'], devices[0].uuid, began, time.monotonic()]\n"
        f"    Path({str(tmp_path)!r}, f'{{number}}.json').write_text(json.dumps(row))\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "cuda", f"-n{workers}", "-v"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_GUARD_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    assert len(rows) == 3 * workers
    assert len({worker for worker, *_ in rows}) > len(cards)
    for card in cards:
        times = sorted((began, ended) for _, uuid, began, ended in rows if uuid == card)
        assert all(ended <= began for (_, ended), (began, _) in itertools.pairwise(times))
