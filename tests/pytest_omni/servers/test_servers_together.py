"""Several servers, several processes of one, strangers on their cards; what the report says about them."""

from __future__ import annotations

import json

import pytest

from pytest_omni.servers.child_coverage import STARTERS

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("talk")]

HEAD = "from talk import *\n"
STRANGER = 4_100_001  # above every real pid


def conftest(armed: pytest.Pytester, command: str) -> None:
    text = (armed.path / "conftest.py").read_text()
    (armed.path / "conftest.py").write_text(text.replace("    return [", f"    {command}\n    return ["))


def test_a_server_of_a_function_lives_beside_the_modules(armed, inner, pids, monkeypatch):
    for name in STARTERS:
        monkeypatch.delenv(name, raising=False)
    armed.makepyfile(
        HEAD
        + f"""
import json, urllib.request
seen = []

@served("--pids", {pids})
@served("--pids", {pids}, fixture="omni_server_function")
class TestBoth:
    def test_a(self, omni_server, omni_server_function):
        assert omni_server.port != omni_server_function.port
        assert get(omni_server) != get(omni_server_function)
        seen.append((omni_server.pid, omni_server_function.pid))

    def test_b(self, omni_server, omni_server_function):
        seen.append((omni_server.pid, omni_server_function.pid))
        assert seen[0][0] == seen[1][0] and seen[0][1] != seen[1][1]
"""
    )
    result = inner("--omni-report", "report.json")
    result.assert_outcomes(passed=2)
    assert pids.are_dead()
    assert len(pids.read()) == 3
    servers = json.loads((armed.path / "report.json").read_text())["servers"]
    assert [(row["model"], row["stopped"], row["coverage"]) for row in servers] == [
        ("stub", "term", "off")
    ] * 3
    assert all(0 < row["ready_s"] < 60 for row in servers)


TWO = (
    "return [[sys.executable, {stub}, '--port', str(port), *params.server_args],"
    " [sys.executable, {stub}, '--port', str(port), '--no-binds', *params.server_args]]"
)


def two(armed: pytest.Pytester, stub: str) -> None:
    conftest(armed, TWO.format(stub=repr(stub)))


@pytest.fixture
def stub(armed):
    return next(
        word
        for word in (armed.path / "conftest.py").read_text().split("'")
        if word.endswith("stub_server.py")
    )


def test_several_processes_are_one_server(armed, inner, pids, stub):
    two(armed, stub)
    armed.makepyfile(
        HEAD
        + f"""
@served("--pids", {pids}, "--chatty")
def test_a(omni_server):
    get(omni_server)
    assert len(omni_server.log_paths) == 2 and omni_server.log_path == omni_server.log_paths[0]
    assert all(path.stat().st_size for path in omni_server.log_paths[:1])
    deadline = time.monotonic() + 50
    while len(open({pids}).read().split()) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(open({pids}).read().split()) == 2
"""
    )
    inner().assert_outcomes(passed=1)
    assert pids.are_dead()


def test_the_process_of_several_that_dies_is_named_with_every_log(armed, inner, pids, stub):
    conftest(armed, TWO.format(stub=repr(stub)).replace("'--no-binds'", "'--dies', '3'"))
    armed.makepyfile(HEAD + f'@served("--pids", {pids}, "--slow-start", "30")\ndef test_a(omni_server): pass')
    result = inner()
    result.assert_outcomes(errors=1)
    result.stdout.re_match_lines(
        [
            r"process 2 of the server exited with code 3 .*: 'stub' on port \d+",
            r"command: .*",
            r"log: /.*server-\d+-1\.log, its end:",
            r"command: .* --dies 3 .*",
            r"log: /.*server-\d+-2\.log, its end:",
            r"loading with HF_TOKEN=\[redacted\]",
        ]
    )
    assert pids.are_dead()


def test_pytest13400_a_chatty_stray_does_not_block_the_tear_down(armed, inner, pids):
    # its pipe to us would stay open, and full; a file does not
    armed.makepyfile(
        HEAD + f'@served("--chatty", "--stray", "--pids", {pids})\ndef test_a(omni_server): get(omni_server)'
    )
    inner().assert_outcomes(passed=1)
    assert pids.are_dead()
    assert len(pids.read()) == 2


@pytest.mark.usefixtures("patient_start")
def test_a_server_that_stalls_is_told_before_its_deadline(armed, inner, pids):
    armed.makepyfile(
        HEAD
        + f'@served("--quiet-after", "3", "--pids", {pids}, stall_timeout=0.5)\ndef test_a(omni_server): pass'
    )
    result = inner()
    result.assert_outcomes(errors=1)
    result.stdout.re_match_lines(
        [r"server for 'stub' on port \d+ wrote nothing to its log for stall_timeout=0\.5 s, .*"]
    )
    result.stdout.fnmatch_lines(["loading shard 2"])
    assert pids.are_dead()


def gpu(armed: pytest.Pytester, *processes: dict[str, int]) -> tuple[str, str]:
    device = {"index": 0, "uuid": "GPU-0", "sku": "H100", "memory_mib": 81559, "used_mib": 0, "mig": None}
    third = {**device, "index": 3, "uuid": "GPU-3"}
    devices = [
        device,
        {**device, "index": 1, "uuid": "GPU-1"},
        {**device, "index": 2, "uuid": "GPU-2"},
        third,
    ]
    document = {"schema": 1, "platform": "cuda", "driver": "1", "error": None, "devices": devices}
    (armed.path / "inventory.json").write_text(json.dumps({**document, "processes": list(processes)}))
    return "--omni-inventory", str(armed.path / "inventory.json")


ON_CUDA = HEAD + "from pytest_omni import hardware_test\n@hardware_test(res={'cuda': 'H100'})\n"


def test_vllm_omni4165_no_server_is_started_on_an_occupied_card(armed, inner, pids):
    busy = gpu(armed, {"pid": STRANGER, "index": 0, "used_mib": 65000})
    armed.makepyfile(ON_CUDA + f'@served("--pids", {pids})\ndef test_a(omni_server): pass')
    result = inner(*busy)
    result.assert_outcomes(errors=1)
    result.stdout.re_match_lines(
        [
            r"no server is started beside foreign processes:",
            rf"device 0 .* held by pid {STRANGER} 65000 MiB .*",
        ]
    )
    assert pids.read() == []


def test_granite_switch123_memory_that_a_server_leaves_is_its_tests_error(armed, inner, pids):
    free = gpu(armed)
    armed.makepyfile(
        test_leak=ON_CUDA
        + f"""@served("--pids", {pids}, memory_timeout=0.5)
def test_a(omni_server):
    import json, pathlib
    path = pathlib.Path("inventory.json")
    rows = [{{"pid": omni_server.pid, "index": 0, "used_mib": 70000}}, {{"pid": {STRANGER}, "index": 0, "used_mib": 5}}]
    path.write_text(json.dumps({{**json.loads(path.read_text()), "processes": rows}}))

def test_b(): pass
"""
    )
    result = inner(*free)
    result.assert_outcomes(passed=2, errors=1)
    told = (
        r"the server of test_leak\.py::test_a\[stub\] has ended, but \d+ s later its device memory is not given "
        rf"back: pid \d+ 70000 MiB on device 0; foreign processes there, not waited for: pid {STRANGER} 5 MiB .*"
    )
    result.stdout.re_match_lines([told])


def test_vllm_omni3904_a_server_sees_the_card_of_the_callers_mask(armed, inner, pids, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    armed.makepyfile(
        ON_CUDA
        + f"""@served("--pids", {pids}, "--print-env", "CUDA_VISIBLE_DEVICES")
def test_a(omni_server):
    get(omni_server)
    assert omni_server.log_path.read_text() == "CUDA_VISIBLE_DEVICES='3'\\n"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"
"""
    )
    inner(*gpu(armed)).assert_outcomes(passed=1)


def test_a_deploy_config_reaches_the_hook_patched_for_the_run_level(armed, inner, pids):
    (armed.path / "deploy.json").write_text('{"stages": [{"name": "a"}]}')
    conftest(armed, "print('config', params.deploy_config.read_text(), params.server_args)")
    armed.makepyfile(
        HEAD
        + f'@served("--pids", {pids}, deploy_config="deploy.json")\ndef test_a(omni_server): get(omni_server)'
    )
    result = inner("-s")
    result.assert_outcomes(passed=1)
    text = result.stdout.str()
    assert '"load_format": "dummy"' in text  # what the hook was given; the header has the word as well
    assert "--deploy-config" not in text
    assert (armed.path / "deploy.json").read_text() == '{"stages": [{"name": "a"}]}'
