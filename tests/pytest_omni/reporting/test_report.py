from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from omni_hardware.errors import InfrastructureError
from pytest_omni.reporting.ledger import Kind, Ledger, Result, ServerRecord, ShardFacts, State
from pytest_omni.reporting.report import Header, document, refusal, remove_old, write

PLUGIN = ("pytest_omni.plugin",)
XDIST = ("xdist.plugin", *PLUGIN)
WORKERS = pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])
HEADER = Header(
    exit=1,
    asked="cuda",
    detected="cpu",
    source=None,
    run_level="core_model",
    marks="core_model and cuda",
    ended="the session ended before its turn",
    ended_kind=Kind.USER,
)


def read(armed: pytest.Pytester, name: str = "out/report.json") -> dict:
    return json.loads((armed.path / name).read_text())


def test_the_report_is_what_the_format_says():
    ledger = Ledger()
    ledger.collected.update(dict.fromkeys(["a.py::ran", "a.py::t", "a.py::other", "a.py::late"]))
    ledger.results["a.py::ran"] = Result(State.PASSED, setup_s=0.12345, call_s=20.1)
    ledger.results["a.py::t"] = Result(State.SKIPPED, "needs cuda H100×2, sees none", Kind.HARDWARE)
    ledger.withhold("a.py::other", "other_shard", "runs in shard 1 of 2", "shard")
    ledger.shard = ShardFacts(0, 2, "group", "sha256:1234")
    ledger.weights = "tiny"
    ledger.servers.append(
        ServerRecord(
            "z", 12.1, alive_s=30.0, stopped="term", coverage="recorded", weights="tiny", because="the mark"
        )
    )
    rest = {"because": None, "kind": None, "setup_s": 0.0, "call_s": 0.0}
    assert document(ledger, HEADER) == {
        "schema": 1,
        "exit": 1,
        "platform": {"asked": "cuda", "detected": "cpu"},
        "run_level": "core_model",
        "weights": "tiny",
        "marks": "core_model and cuda",
        "shard": {"id": 0, "of": 2, "by": "group", "digest": "sha256:1234"},
        "counts": {
            "collected": 4,
            "passed": 1,
            "failed": 0,
            "skipped": 1,
            "deselected": 0,
            "other_shard": 1,
            "not_run": 1,
        },
        "items": [
            {**rest, "id": "a.py::ran", "state": "passed", "setup_s": 0.123, "call_s": 20.1},
            {
                **rest,
                "id": "a.py::t",
                "state": "skipped",
                "because": "needs cuda H100×2, sees none",
                "kind": "hardware",
            },
            {
                **rest,
                "id": "a.py::other",
                "state": "other_shard",
                "because": "runs in shard 1 of 2",
                "kind": "shard",
            },
            {
                **rest,
                "id": "a.py::late",
                "state": "not_run",
                "because": "the session ended before its turn",
                "kind": "user",
            },
        ],
        "servers": [
            {
                "model": "z",
                "ready_s": 12.1,
                "alive_s": 30.0,
                "stopped": "term",
                "coverage": "recorded",
                "weights": "tiny",
                "because": "the mark",
            }
        ],
    }


def test_a_written_report_is_json_whatever_the_names_are(tmp_path):
    ledger = Ledger()
    names = ["a.py::t[é]", "\udc80.py::t", 'a.py::t["\\]']
    for name in names:
        ledger.results[name] = Result(State.FAILED, "\x1b[31mred\nline")
    write(tmp_path / "new" / "r.json", document(ledger, HEADER))
    found = json.loads((tmp_path / "new" / "r.json").read_text())
    assert [item["id"] for item in found["items"]] == names
    assert {item["because"] for item in found["items"]} == {"[31mred\nline"}
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["r.json"]


def test_a_report_that_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "r.json").mkdir()
    with pytest.raises(InfrastructureError, match=r"r\.json: the report cannot be written"):
        write(tmp_path / "r.json", {"schema": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_a_device_or_a_pipe_is_never_replaced_by_a_report(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InfrastructureError, match="it is a folder or a device"):
        write(tmp_path / "pipe", {"schema": 1})
    assert (tmp_path / "pipe").is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_link_to_a_report_stays_a_link(tmp_path):
    (tmp_path / "latest.json").symlink_to("r1.json")
    write(tmp_path / "latest.json", {"schema": 1})
    assert (tmp_path / "latest.json").is_symlink()
    assert json.loads((tmp_path / "r1.json").read_text()) == {"schema": 1}


def test_a_folder_without_permission_is_refused_before_the_first_test(tmp_path, monkeypatch):
    assert refusal(tmp_path / "new" / "r.json") is None
    monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path)
    assert refusal(tmp_path / "new" / "r.json") == f"no permission to write in {tmp_path}"


SUITE = """
import pytest
from pytest_omni import hardware_test

def test_pass(): pass
def test_fail(): assert 0, "no"
@pytest.fixture
def broken(): raise ValueError("fixture")
def test_error(broken): pass
@pytest.mark.xfail(reason="known")
def test_xfail(): assert 0
@pytest.mark.xfail
def test_xpass(): pass
def test_skip(): pytest.skip("later")
@hardware_test(res={"cuda": "H100"}, num_cards=4)
def test_cards(): pass
@hardware_test(res={"rocm": "MI300"})
def test_rocm(): pass
@pytest.mark.slow
def test_marks(): pass
def test_keyword(): pass
"""
EXPECTED = {
    "test_pass": ("passed", None, None),
    "test_fail": ("failed", "AssertionError: no", None),
    "test_error": ("error", "ValueError: fixture", None),
    "test_xfail": ("xfailed", "known", None),
    "test_xpass": ("xpassed", None, None),
    "test_skip": ("skipped", "later", "user"),
    "test_cards": (
        "skipped",
        "needs cuda H100×4, sees H100×2 (devices from file inventory.json)",
        "hardware",
    ),
    "test_rocm": ("deselected", "made for rocm, not for cuda", "hardware"),
    "test_marks": ("deselected", "not selected by -m 'not slow'", "marks"),
    "test_keyword": ("deselected", "not selected by -k 'not keyword'", "user"),
}


@pytest.mark.parametrize(
    "workers", [(), ("-n2",), ("-n2", "--dist", "loadgroup")], ids=["alone", "n2", "groups"]
)
def test_every_collected_test_appears_once(armed, inner, cards, workers):
    groups = "pytestmark = pytest.mark.xdist_group('g')\n" if "loadgroup" in workers else ""
    armed.makepyfile(test_a=SUITE + groups)
    flags = (*cards(2), "-m", "not slow", "-k", "not keyword", "--omni-report", "out/report.json", *workers)
    result = inner(*flags, plugins=XDIST)
    report = read(armed)
    assert result.ret == report["exit"] == 1
    found = {item["id"]: (item["state"], item["because"], item["kind"]) for item in report["items"]}
    assert found == {f"test_a.py::{name}": row for name, row in EXPECTED.items()}
    assert list(found) == [f"test_a.py::{name}" for name in EXPECTED]
    assert len(report["items"]) == len(EXPECTED)
    counts = Counter(state for state, _, _ in EXPECTED.values())
    assert report["counts"] == {"collected": len(EXPECTED), "other_shard": 0, **counts}
    assert report["platform"] == {
        "asked": "cuda",
        "detected": "cuda",
        "source": f"file {armed.path / 'inventory.json'}",
    }
    assert (report["run_level"], report["marks"], report["shard"]) == ("core_model", "not slow", None)


@pytest.mark.process
@WORKERS
def test_a_session_that_is_cut_short_says_what_had_no_turn(armed, inner, workers):
    armed.makepyfile(
        "import os, signal, time\nimport pytest\n"
        "def test_a(): pass\n"
        "@pytest.mark.rocm\ndef test_elsewhere(): pass\n"
        "def test_interrupted():\n"
        "    os.kill(int(os.environ['OUTER_PID']), signal.SIGINT)\n    time.sleep(30)\n"
        "@pytest.mark.skip\ndef test_skip(): pass\n"
        "def test_b(): time.sleep(30)\n"
    )
    armed.makeconftest(
        "import os, signal\nos.environ.setdefault('OUTER_PID', str(os.getpid()))\n"
        # a job in a shell's background starts with SIGINT ignored
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    )
    result = inner("--omni-report", "out/report.json", *workers, plugins=XDIST)
    report = read(armed)
    assert result.ret == report["exit"] == pytest.ExitCode.INTERRUPTED
    found = {item["id"].partition("::")[2]: item for item in report["items"]}
    assert set(found) == {"test_a", "test_elsewhere", "test_interrupted", "test_skip", "test_b"}
    assert found["test_elsewhere"]["because"] == "made for rocm, not for cpu"
    assert found["test_b"]["state"] == found["test_interrupted"]["state"] == "not_run"
    assert found["test_b"]["because"]
    assert found["test_b"]["kind"] == "user"
    assert found["test_skip"]["state"] in ("not_run", "skipped")


@pytest.mark.process
@WORKERS
def test_a_server_stands_in_the_report(armed, inner, workers):
    armed.makepyfile(
        """
        import pytest
        from pytest_omni import OmniServerParams

        @pytest.mark.parametrize("omni_server", [OmniServerParams(model="z")], indirect=True)
        def test_a(omni_server): pass
        """
    )
    inner("--omni-report", "out/report.json", *workers, plugins=XDIST).assert_outcomes(passed=1)
    report = read(armed)
    (server,) = report["servers"]
    assert 0 < server.pop("ready_s") < server.pop("alive_s")
    assert server == {
        "model": "z",
        "stopped": "term",
        "coverage": "off",
        "weights": "real",
        "because": "core_model: there is no deploy config to patch: real weights",
    }


def test_each_server_of_the_report_says_what_it_was_told_to_load_and_why(armed, inner):
    armed.makepyfile(
        """
        import pytest
        from pytest_omni import OmniServerParams

        STAGED = OmniServerParams("staged", deploy_config="stages.json", env={"MY_TOKEN": "stages.json-token"})
        TINY = OmniServerParams("org/large-token-s3cr3t", env={"MY_TOKEN": "s3cr3t"})

        @pytest.mark.parametrize("omni_server_function", [STAGED], indirect=True)
        def test_a(omni_server_function): pass

        @pytest.mark.diffusion
        @pytest.mark.parametrize("omni_server_function", [TINY], indirect=True)
        def test_b(omni_server_function): pass
        """
    )
    (armed.path / "stages.json").write_text('{"stages": [{"name": "thinker"}, {"name": "talker"}]}')
    with (armed.path / "conftest.py").open("a") as conftest:
        conftest.write(
            "\n_command = pytest_omni_server_command\n"
            "def pytest_omni_server_command(config, params, port): return _command(config, params, port)[:4]\n"
            "def pytest_omni_tiny_model(config, model): return 'tiny-folder'\n"
        )
    inner("--omni-report", "out/report.json").assert_outcomes(passed=2)
    report = read(armed)
    assert [(server["weights"], server["because"]) for server in report["servers"]] == [
        ("dummy", "core_model: load_format is dummy in 2 stages of stages.json"),
        (
            "tiny",
            "core_model and the mark diffusion: org/large-token-[redacted] is replaced by tiny-folder",
        ),
    ]
    assert report["weights"] == "tiny"


def test_the_exit_code_is_the_one_that_the_session_really_ends_with(armed, inner):
    armed.makepyfile("def test_a(): pass")
    armed.makeconftest(
        "def pytest_unconfigure(config): config.pluginmanager.getplugin('session').exitstatus = 143"
    )  # what SIGTERM does once the servers are stopped
    result = inner("--omni-report", "out/report.json")
    assert result.ret == read(armed)["exit"] == 143


def test_a_crashed_worker_loses_no_test(armed, inner):
    armed.makepyfile(
        "import os\nimport pytest\ndef test_a(): pass\n@pytest.mark.rocm\ndef test_elsewhere(): pass\n"
        "def test_crash(): os._exit(3)\n" + "".join(f"def test_{n}(): pass\n" for n in range(6))
    )
    result = inner("--omni-report", "out/report.json", "-n2", plugins=XDIST)
    found = {item["id"].partition("::")[2]: item for item in read(armed)["items"]}
    assert result.ret == 1
    assert found.pop("test_crash")["because"].endswith(
        "crashed while running 'test_a_crashed_worker_loses_no_test.py::test_crash'"
    )
    assert found.pop("test_elsewhere")["state"] == "deselected"
    assert {row["state"] for row in found.values()} == {"passed"}
    assert len(found) == 7


def test_tests_of_other_kinds_have_their_row_too(armed, inner, cards):
    armed.makepyfile(
        test_a="""
        import unittest
        import pytest

        @pytest.mark.cuda
        class TestCase(unittest.TestCase):
            def test_unit(self): pass
            @pytest.mark.cards_2
            def test_two(self): pass
        """
    )
    (armed.path / "test_doc.txt").write_text(">>> 1 + 1\n2\n")
    armed.makeconftest(
        """
        import pytest

        def pytest_collect_file(parent, file_path):
            if file_path.suffix == ".case":
                return Cases.from_parent(parent, path=file_path)

        class Cases(pytest.File):
            def collect(self):
                item = Case.from_parent(self, name="case")
                item.add_marker("cuda")
                item.add_marker("cards_4")
                yield item

        class Case(pytest.Item):
            def runtest(self): pass
        """
    )
    (armed.path / "a.case").touch()
    inner(*cards(1), "--doctest-glob", "*.txt", "--omni-report", "out/report.json")
    assert {item["id"].rpartition("::")[2]: item["state"] for item in read(armed)["items"]} == {
        "test_unit": "passed",
        "test_two": "skipped",
        "test_doc.txt": "passed",
        "case": "skipped",
    }


@WORKERS
def test_a_stop_at_the_first_failure_says_so(armed, inner, workers):
    armed.makepyfile(
        "import time\ndef test_a(): assert 0\n"
        + "".join(f"def test_{n}(): time.sleep(0.5)\n" for n in range(8))
    )
    inner("-x", "--omni-report", "out/report.json", *workers, plugins=XDIST)
    rows = [item for item in read(armed)["items"] if item["state"] == "not_run"]
    assert rows
    assert len(read(armed)["items"]) == 9
    assert {item["kind"] for item in rows if "session ended" not in item["because"]} <= {"budget"}
    assert ("the session stopped after 1 failure", "budget") in {
        (row["because"], row["kind"]) for row in rows
    }


@pytest.mark.parametrize(
    ("flag", "because"),
    [
        ("--collect-only", "--collect-only runs nothing"),
        ("--setup-plan", "--setup-plan runs nothing"),
        ("--setup-only", "--setup-only calls no test"),
        ("--shard-plan", "--shard-plan runs nothing"),
    ],
)
def test_a_listing_runs_nothing_and_reports_it(armed, inner, flag, because):
    armed.makepyfile("def test_a(): pass\ndef test_b(): pass")
    result = inner(flag, "-q", "-k", "not test_b", "--omni-report", "out/report.json")
    found = {item["id"].partition("::")[2]: (item["state"], item["because"]) for item in read(armed)["items"]}
    assert found == {
        "test_a": ("not_run", because),
        "test_b": ("deselected", "not selected by -k 'not test_b'"),
    }
    assert "tests that did not run" not in result.stdout.str()


@pytest.mark.parametrize("when", ["tryfirst", "trylast"])
def test_what_a_plugin_drops_without_a_word_is_reported(armed, inner, when):
    armed.makepyfile("def test_a(): pass\ndef test_b(): pass")
    hook = "def pytest_collection_modifyitems(items): del items[1]"
    armed.makeconftest(f"import pytest\n@pytest.hookimpl({when}=True)\n{hook}")
    result = inner("--omni-report", "out/report.json")
    dropped = read(armed)["items"][1]
    assert (dropped["state"], dropped["because"]) == ("not_run", "removed by a plugin that did not say so")
    result.stdout.fnmatch_lines(["1 not run (user): removed by a plugin that did not say so"])


@pytest.mark.parametrize("path", ["folder", "file/report.json", "pipe"])
def test_a_place_that_cannot_hold_the_report_is_refused_before_the_first_test(armed, inner, path):
    (armed.path / "folder").mkdir()
    os.mkfifo(armed.path / "pipe")
    (armed.path / "file").touch()
    armed.makepyfile("def test_a(): print('ran')")
    result = inner("-s", "--omni-report", path)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"--omni-report {armed.path / path}: not a file that can be written" in result.stderr.str()
    assert "ran" not in result.stdout.str()


OLD = '{\n "schema": 1,\n "exit": 0\n}\n'


@pytest.mark.parametrize(
    ("flags", "stays"),
    [
        (("--omni-platform", "cude"), False),
        (("--omni-inventory", "none.json"), False),
        (("-m", "core_modle"), False),
        (("--version",), True),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, tuple) else None,
)
def test_no_report_of_an_earlier_session_is_left_by_one_that_cannot_start(armed, inner, flags, stays):
    (armed.path / "report.json").write_text(OLD)
    armed.makepyfile("def test_a(): pass")
    inner("--omni-report", "report.json", *flags)
    assert (armed.path / "report.json").exists() == stays


def test_only_a_report_is_removed_as_an_old_one(tmp_path):
    (tmp_path / "test_a.py").write_text("def test_a(): pass")
    (tmp_path / "old.json").write_text(OLD)
    for path in tmp_path.iterdir():
        remove_old(path)
    assert [path.name for path in tmp_path.iterdir()] == ["test_a.py"]


@pytest.mark.process
def test_a_signal_without_any_server_still_leaves_a_report(armed, started):
    armed.makepyfile(
        "import os, signal, time\n"
        "def test_fork():\n"  # what a test forks ends at once, also where it expects the worst
        "    child = os.fork()\n"
        "    if not child:\n"
        "        try: signal.raise_signal(signal.SIGTERM)\n"
        "        except Exception: pass\n"
        "        os._exit(0)\n"
        "    assert os.waitpid(child, 0)[1] == signal.SIGTERM\n"
        "def test_a():\n    open('ready', 'w').close()\n    time.sleep(60)\n"
        "def test_b(): pass\n"
    )
    outer = started("--omni-report", "report.json")
    outer.terminate()
    text = outer.stdout.read().decode() if outer.stdout else ""
    assert outer.wait(60) == read(armed, "report.json")["exit"] == 143
    assert "SIGTERM: ending this session in order" in text
    assert "servers of this session" not in text
    states = {item["id"].partition("::")[2]: item["state"] for item in read(armed, "report.json")["items"]}
    assert states == {"test_fork": "passed", "test_a": "not_run", "test_b": "not_run"}


@WORKERS
def test_a_file_that_cannot_be_collected_stands_in_the_report(armed, inner, workers):
    armed.makepyfile(test_broken="import nothing_of_that_name", test_fine="def test_a(): pass")
    inner("--omni-report", "out/report.json", *workers, plugins=XDIST)
    found = {item["id"]: (item["state"], item["because"]) for item in read(armed)["items"]}
    assert found["test_broken.py"] == ("error", "ModuleNotFoundError: No module named 'nothing_of_that_name'")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc")
def test_a_file_system_that_refuses_is_found_before_the_first_test(armed, inner):
    armed.makepyfile("def test_a(): pass")
    result = inner("--omni-report", "/proc/nowhere/r.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert str(result.stderr).count("/proc/nowhere/r.json: not a file that can be written: ") == 1
    result.stdout.no_fnmatch_line("*passed*")
