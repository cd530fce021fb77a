from __future__ import annotations

import json

import pytest

from omni_hardware import probes
from omni_hardware.expression import parse
from omni_hardware.inventory import NONE, Device, Inventory, Visible
from omni_hardware.vocabulary import DEFAULT
from pytest_omni.heading import platform_line
from pytest_omni.machine import Machine, asked_platform, contradiction, inventory_of
from pytest_omni.options import Settings

XDIST = ("xdist.plugin", "pytest_omni.plugin")
CARDS = tuple(Device(index, f"GPU-{index}", "H100", 81559) for index in range(4))
SEES = """
import os
from pytest_omni.machine import SNAPSHOT, machine_of

def test_a(request, tmp_path_factory):
    machine = machine_of(request.config)
    seen = [device.index for device in machine.inventory.seen]
    assert (machine.asked, machine.detected, seen) == ("cuda", "cuda", [1, 0])
    assert machine.inventory.source.endswith("inventory.json")
    assert SNAPSHOT not in os.environ
"""


@pytest.mark.parametrize(
    ("setting", "expression", "detected", "asked", "because"),
    [
        ("auto", "", "cpu", "cpu", "detected"),
        ("auto", "", "rocm", "rocm", "detected"),
        ("auto", "core_model and cuda", "cpu", "cuda", "-m names cuda"),
        ("auto", "core_model and MI300", "cuda", "rocm", "-m names MI300"),
        ("auto", "cuda and H100", "cpu", "cuda", "-m names cuda"),
        ("auto", "L4 or A100", "cpu", "cuda", "-m names L4"),
        ("auto", "core_model and cpu", "cuda", "cpu", "-m names cpu"),
        ("auto", "not cuda", "cuda", "cuda", "detected"),
        ("auto", "not (rocm or not cuda)", "cpu", "cuda", "-m names cuda"),
        ("auto", "gpu", "npu", "npu", "detected"),
        ("auto", "cuda or rocm", "rocm", "rocm", "detected; -m names cuda and rocm"),
        ("xpu", "cuda or rocm", "rocm", "xpu", "OMNI_PLATFORM"),
        ("cpu", "cuda", "cuda", "cpu", "OMNI_PLATFORM"),
    ],
)
def test_asked_is_the_setting_else_the_one_platform_of_m_else_the_detected_one(
    setting, expression, detected, asked, because
):
    settings = Settings(platform=setting, sources={"platform": "OMNI_PLATFORM"})
    positive = parse(expression).positive
    assert asked_platform(settings, positive, detected, DEFAULT) == (asked, because)


@pytest.mark.parametrize(
    ("machine", "line"),
    [
        (Machine("cpu", "detected"), "platform cpu (detected); devices none"),
        (
            Machine("cuda", "-m names cuda"),
            "platform cuda (-m names cuda), detected cpu; devices none",
        ),
        (
            Machine("cuda", "detected", Inventory("cuda", devices=CARDS[:2], source="file /a/two.json")),
            "platform cuda (detected); devices H100×2 (from file two.json)",
        ),
        (
            Machine(
                "cuda",
                "detected",
                Inventory(
                    "cuda", devices=CARDS, visible=Visible("CUDA_VISIBLE_DEVICES", "2,3"), source="probe"
                ),
            ),
            "platform cuda (detected); devices H100×2 (CUDA_VISIBLE_DEVICES=2,3 of 4)",
        ),
        (
            Machine("cpu", "--omni-platform", Inventory("cuda", error="NVML: driver mismatch")),
            "platform cpu (--omni-platform), detected cuda; devices unknown: NVML: driver mismatch",
        ),
    ],
    ids=["cpu", "asked", "file", "visible", "error"],
)
def test_the_header_line_tells_asked_from_detected_and_file_from_real(machine, line):
    assert platform_line(machine) == line


def test_a_probe_that_failed_is_never_no_devices():
    broken = Inventory("cuda", error="NVML: driver mismatch")
    for asked in ("cuda", "rocm"):
        problem = Machine(asked, "detected", broken).problem
        assert problem is not None
        assert problem.startswith(
            "the cuda devices of this machine could not be listed: NVML: driver mismatch\n"
        )
    assert Machine("cpu", "--omni-platform", broken).problem is None
    assert Machine("cuda", "-m names cuda").problem is None


@pytest.mark.parametrize(
    ("asked", "error", "platform"),
    [("rocm", "amd-smi: no answer", "rocm"), ("xpu", None, "cuda"), ("cpu", None, "cuda")],
)
def test_the_asked_platform_is_looked_for_first_and_its_error_is_no_other_platform(
    pytester, monkeypatch, asked, error, platform
):
    found = {"rocm": Inventory("rocm", error="amd-smi: no answer"), None: Inventory("cuda", devices=CARDS)}

    def probe(environ: object, *, vocabulary: object, platform: str | None = None) -> Inventory:
        return found.get(platform, NONE)

    monkeypatch.setattr(probes, "probe", probe)
    seen = inventory_of(pytester.parseconfig("-p", "pytest_omni.plugin", f"--omni-platform={asked}"))
    assert (seen.error, seen.platform) == (error, platform)


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])
def test_a_failed_probe_ends_the_session_unless_cpu_is_asked_for(armed, inner, workers):
    (armed.path / "broken.json").write_text(
        json.dumps({"schema": 1, "platform": "cuda", "error": "NVML: driver mismatch", "devices": []})
    )
    armed.makepyfile("def test_a(): pass")
    result = inner(*workers, "--omni-inventory=broken.json", plugins=XDIST)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.errlines[0] == (
        "ERROR: the cuda devices of this machine could not be listed: NVML: driver mismatch"
    )
    inner(*workers, "--omni-inventory=broken.json", "--omni-platform=cpu", plugins=XDIST).assert_outcomes(
        passed=1
    )


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])
def test_every_process_decides_from_one_snapshot(armed, inner, cards, monkeypatch, workers):
    """Neither the file, once read, nor a conftest that edits the environment changes what is decided."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    armed.makeconftest(
        "import os, pathlib\nos.environ['CUDA_VISIBLE_DEVICES'] = ''\n"
        "def pytest_sessionstart(session): pathlib.Path('inventory.json').unlink(missing_ok=True)\n"
    )
    armed.makepyfile(test_first=SEES, test_second=SEES)
    result = inner(*workers, *cards(4), plugins=XDIST)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "omni: platform cuda (detected); devices H100×2 (CUDA_VISIBLE_DEVICES=1,0 of 4; from file inventory.json)"
        ]
    )


def test_a_replacement_of_a_crashed_worker_gets_the_snapshot_too(armed, inner, cards):
    armed.makeconftest(
        "import pathlib\n"
        "def pytest_sessionstart(session): pathlib.Path('inventory.json').unlink(missing_ok=True)\n"
    )
    armed.makepyfile(
        test_crash="import os\ndef test_crash(): os._exit(3)\n",
        test_then="from pytest_omni.machine import machine_of\n"
        "def test_then(request): assert len(machine_of(request.config).inventory.seen) == 2\n",
    )
    inner("-n1", *cards(2), plugins=XDIST).assert_outcomes(passed=1, failed=1)


def test_a_pytest_inside_a_test_is_no_worker_of_ours(armed, inner, cards):
    armed.makepyfile(
        test_outer="""
        import subprocess, sys

        def test_outer(tmp_path):
            (tmp_path / "pyproject.toml").write_text("[tool.omni]")
            (tmp_path / "test_in.py").write_text(
                "def test_in(pytestconfig):\\n"
                "    from pytest_omni.machine import machine_of\\n"
                "    assert machine_of(pytestconfig).inventory.source.endswith('own.json')"
            )
            (tmp_path / "own.json").write_text('{"schema": 1, "platform": "cpu", "devices": []}')
            command = [sys.executable, "-m", "pytest", "-p", "pytest_omni.plugin", "--omni-inventory", "own.json"]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stdout + done.stderr
        """
    )
    inner("-n1", *cards(2), plugins=XDIST).assert_outcomes(passed=1)


def test_a_broken_inventory_file_is_one_usage_error(armed, inner):
    armed.makepyfile("def test_a(): pass")
    for text, words in (("{", "not JSON"), ('{"schema": 2, "platfrom": "cuda"}', "platfrom")):
        (armed.path / "bad.json").write_text(text)
        result = inner("--omni-inventory=bad.json")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert words in result.stderr.str()
        assert "Traceback" not in result.stderr.str()
    assert inner("--omni-inventory=none.json").ret == pytest.ExitCode.USAGE_ERROR


def test_a_conftest_may_still_set_m(armed, inner, cards):
    armed.makeconftest("def pytest_configure(config): config.option.markexpr = 'rocm'")
    armed.makepyfile("def test_a(): pass")
    result = inner("-m", "cuda", *cards(1))
    result.stdout.fnmatch_lines(["omni: platform rocm (-m names rocm), detected cuda; devices H100 (from *"])


def test_who_named_a_file_that_cannot_be_read_is_said(armed, inner, monkeypatch):
    armed.makepyfile("def test_a(): pass")
    monkeypatch.setenv("OMNI_INVENTORY", "gone.json")
    inner().stderr.fnmatch_lines(
        ["ERROR: environment variable OMNI_INVENTORY: *gone.json: the inventory cannot *"]
    )


@pytest.mark.parametrize(
    ("platform", "expression", "said"),
    [
        ("cuda", "rocm", "-m names rocm, but --omni-platform asks for cuda: tests of one platform run"),
        ("cuda", "cuda or rocm", None),
        ("cuda", "not rocm", None),
        ("cuda", "core_model", None),
        (
            "auto",
            "cuda or MI300",
            "-m names cuda and MI300, and only cpu is here: choose one with --omni-platform",
        ),
        ("auto", "cpu or cuda", None),
        ("auto", "rocm", None),
    ],
)
def test_a_platform_that_m_does_not_name_is_a_contradiction(platform, expression, said):
    settings = Settings(platform=platform, sources={"platform": "--omni-platform"})
    positive = parse(expression).positive
    asked = asked_platform(settings, positive, "cpu", DEFAULT)[0]
    assert contradiction(settings, positive, asked, DEFAULT) == said


def test_a_contradiction_is_told_and_refused_where_it_counts(armed, inner):
    armed.makepyfile("import pytest\n@pytest.mark.rocm\ndef test_a(): pass")
    lax = inner("-q", "--omni-platform", "cuda", "-m", "rocm")
    strict = inner("-q", "--omni-platform", "cuda", "-m", "rocm", "--omni-strict")
    assert (lax.ret, strict.ret) == (pytest.ExitCode.NO_TESTS_COLLECTED, pytest.ExitCode.USAGE_ERROR)
    lax.stdout.fnmatch_lines(["omni: -m names rocm, but --omni-platform asks for cuda*"])
    strict.stderr.fnmatch_lines(["ERROR: -m names rocm, but --omni-platform asks for cuda*"])
