from __future__ import annotations

import json
import re

import pytest

PLUGIN = ("pytest_omni.plugin",)
XDIST = ("xdist.plugin", *PLUGIN)
WORKERS = pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])

SUITE = """
import pytest
from pytest_omni import hardware_test

pytestmark = pytest.mark.core_model

@hardware_test(res={"cuda": "H100"})
def test_one(): pass

@hardware_test(res={"cuda": "H100", "rocm": "MI300"}, num_cards=2)
def test_two(): pass

@hardware_test(res={"cuda": "H100"}, num_cards=4)
def test_four(): pass

@hardware_test(res={"cuda": "H100"}, min_memory="100GiB")
def test_large(): pass

@hardware_test(res={"cuda": "L4"})
def test_other_sku(): pass

@hardware_test(res={"rocm": "MI300"})
def test_rocm(): pass

@hardware_test(res={"cpu": "any", "cuda": "H100"})
def test_either(): pass

@pytest.mark.cpu
def test_cpu(): pass

def test_anywhere(): pass
"""


def outcomes(result: pytest.RunResult) -> dict[str, str]:
    """Return what -v says about each test that had its turn, with xdist's words in either order."""
    text = result.stdout.str()
    found = re.findall(r"::(\w+)(?:\[\S+\])? (PASSED|SKIPPED|FAILED)", text)
    found += [(name, word) for word, name in re.findall(r"(PASSED|SKIPPED|FAILED) \S+::(\w+)", text)]
    return dict(found)


def section(result: pytest.RunResult) -> list[str]:
    """Return the lines of the section about tests that did not run."""
    lines = result.stdout.str().splitlines()
    start = next(number for number, line in enumerate(lines) if "omni: tests that did not run" in line)
    end = next(number for number, line in enumerate(lines) if number > start and line.startswith("="))
    return [line for line in lines[start + 1 : end] if line.strip()]


@WORKERS
def test_two_cards_run_what_needs_at_most_two_and_the_rest_says_why(armed, inner, cards, workers):
    armed.makepyfile(test_a=SUITE)
    result = inner("-v", *cards(2), *workers, plugins=XDIST)
    assert result.ret == 0
    ran = ("test_one", "test_two", "test_either", "test_cpu", "test_anywhere")
    skipped = ("test_four", "test_large")
    assert outcomes(result) == {**dict.fromkeys(ran, "PASSED"), **dict.fromkeys(skipped, "SKIPPED")}
    source = "(devices from file inventory.json)"
    assert section(result) == [
        f"1 skipped (hardware): needs cuda H100 with ≥ 100 GiB, sees H100×2 with 79.6 GiB {source}",
        "  test_a.py::test_large",
        f"1 skipped (hardware): needs cuda H100×4, sees H100×2 {source}",
        "  test_a.py::test_four",
        "1 deselected (hardware): made for rocm, not for cuda",
        "  test_a.py::test_rocm",
        f"1 deselected (hardware): needs cuda L4, sees H100×2 {source}",
        "  test_a.py::test_other_sku",
    ]
    result.stdout.fnmatch_lines(
        ["omni: platform *devices H100×2 (from file inventory.json)", "*that did not run*"]
    )


def test_cpu_tests_run_on_a_box_with_devices(armed, inner, cards):
    armed.makepyfile(test_a=SUITE)
    result = inner("-v", "-m", "core_model and cpu", "--run-level", "core_model", *cards(2))
    assert result.ret == 0
    assert outcomes(result) == {"test_either": "PASSED", "test_cpu": "PASSED"}


def test_a_box_without_devices_skips_each_test_with_its_reason(armed, inner, cards):
    armed.makepyfile(test_a=SUITE)
    result = inner(
        "-rs", "-v", "-m", "core_model and cuda", "--run-level", "core_model", *cards(0, platform="cpu")
    )
    assert result.ret == 0
    names = ("test_one", "test_two", "test_four", "test_large", "test_other_sku", "test_either")
    assert outcomes(result) == dict.fromkeys(names, "SKIPPED")
    result.stdout.fnmatch_lines(
        [
            "SKIPPED [[]1[]] test_a.py:6: needs cuda H100, sees none (devices from file inventory.json)",
            "SKIPPED [[]1[]] test_a.py:9: needs cuda H100×2, sees none *",
        ]
    )


@WORKERS
def test_vllm53840_a_job_with_fewer_cards_than_its_tests_need_is_red(armed, inner, cards, workers):
    armed.makepyfile(test_a=SUITE)
    result = inner("-v", "-m", "cuda", "--omni-strict", *cards(2), *workers, plugins=XDIST)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert outcomes(result)["test_two"] == "PASSED"
    shown = section(result)
    assert "  test_a.py::test_four" in shown
    assert shown[-1] == "--omni-strict: 2 tests selected here cannot run on this machine, see above"


def test_vllm_omni6935_a_missing_capability_is_no_skip_where_ci_promised_it(armed, inner, cards):
    armed.makepyfile(
        """
        from pytest_omni import hardware_test

        @hardware_test(res={"cuda": "H100"}, min_memory="141GiB")
        def test_large(): pass

        @hardware_test(res={"cuda": "H100"})
        def test_plain(): pass
        """
    )
    lenient, strict = inner("-v", *cards(1)), inner("-v", *cards(1), "--omni-strict")
    assert (lenient.ret, strict.ret) == (0, 1)
    assert outcomes(lenient) == outcomes(strict) == {"test_large": "SKIPPED", "test_plain": "PASSED"}


@pytest.mark.parametrize("source", ["ini", "env", "flag"])
def test_cupy3342_ci_refuses_silent_skips_by_one_switch(armed, inner, cards, monkeypatch, source):
    armed.makepyfile("import pytest\n@pytest.mark.cuda\ndef test_a(): pass\ndef test_b(): pass")
    flags = [*cards(0, platform="cpu"), "--omni-platform", "cuda"]
    assert inner(*flags).ret == 0
    if source == "ini":
        armed.makepyprojecttoml("[tool.omni]\n[tool.pytest.ini_options]\nomni_strict = true\n")
    if source == "env":
        monkeypatch.setenv("OMNI_STRICT", "1")
    result = inner(*flags, *(["--omni-strict"] if source == "flag" else []))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, skipped=1)


@WORKERS
def test_torchrec4226_a_failed_probe_is_an_error_and_no_skip(armed, inner, workers):
    armed.makepyfile(
        "import pytest\n@pytest.mark.cuda\ndef test_a(): pass\n@pytest.mark.cpu\ndef test_b(): pass"
    )
    broken = {
        "schema": 1,
        "platform": "cuda",
        "driver": None,
        "error": "NVML: driver not loaded",
        "devices": [],
    }
    (armed.path / "broken.json").write_text(json.dumps(broken))
    flags = ("--omni-inventory", "broken.json", *workers)
    result = inner(*flags, plugins=XDIST)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "NVML: driver not loaded" in result.stderr.str()
    assert "skipped" not in result.stdout.str()
    inner(*flags, "-m", "cpu", plugins=XDIST).assert_outcomes(passed=1)


DERIVED = """
import json
import pytest

@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    marks = {item.name: [m.name for m in item.iter_markers() if m.name != "skip"] for item in items}
    keywords = [item.name for item in items if "gpu" in item.keywords]
    with open("marks.json", "w") as out:
        json.dump({"marks": marks, "keywords": keywords}, out)
"""


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("cuda", {"test_x": ["hardware", "cuda", "L4", "gpu", "cards_1"]}),
        ("rocm", {"test_x": ["hardware", "rocm", "MI325", "gpu", "cards_2"]}),
        ("npu", {}),
        ("cpu", {"test_x": ["hardware", "cpu"]}),
    ],
)
def test_a_test_carries_the_marks_of_the_asked_platform_only(armed, inner, asked, expected):
    armed.makeconftest(DERIVED)
    res = {"cuda": "L4", "rocm": "MI325"} if asked != "cpu" else {"cpu": "any", "cuda": "L4"}
    counts = {"rocm": 2} if asked != "cpu" else {}
    armed.makepyfile(
        f"from pytest_omni import hardware_test\n@hardware_test(res={res}, num_cards={counts})\ndef test_x(): pass\n"
        "def test_plain(): pass"
    )
    inner("--omni-platform", asked, "--co")
    found = json.loads((armed.path / "marks.json").read_text())
    assert found["marks"] == {**expected, "test_plain": []}
    assert found["keywords"] == [name for name, marks in expected.items() if "gpu" in marks]


@pytest.mark.parametrize(
    ("flags", "selected"),
    [
        (("-m", "H100 and cards_4"), ["test_four"]),
        (("-m", "rocm and cards_2"), ["test_two"]),
        (("-m", "rocm and H100"), []),
        (("--omni-platform", "rocm", "-m", "not cards_2"), ["test_rocm", "test_cpu", "test_anywhere"]),
        (("-m", "hardware and not gpu"), ["test_either"]),
    ],
    ids=" ".join,
)
def test_a_box_without_devices_can_say_what_a_lane_selects(armed, inner, cards, flags, selected):
    armed.makepyfile(test_a=SUITE)
    result = inner("--co", "-q", *flags, *cards(0, platform="cpu"))
    assert [line.partition("::")[2] for line in result.outlines if "::" in line] == selected


def test_the_closest_requirement_counts(armed, inner, cards):
    armed.makepyfile(
        """
        import pytest
        from pytest_omni import hardware_marks, hardware_test

        pytestmark = hardware_marks(res={"cuda": "H100"}, num_cards=8)

        def test_module(): pass

        @hardware_test(res={"cuda": "H100"}, num_cards=4)
        class TestClass:
            def test_class(self): pass

            @hardware_test(res={"cuda": "H100"}, num_cards=2)
            def test_function(self): pass

            @pytest.mark.parametrize("x", [
                pytest.param(1, marks=hardware_marks(res={"cuda": "H100"}, num_cards=1)), 3])
            @hardware_test(res={"cuda": "H100"}, num_cards=3)
            def test_parameter(self, x): pass
        """
    )
    result = inner("--co", "-q", *cards(1), "-m", "cards_1 or cards_3")
    assert [line.rpartition("::")[2] for line in result.outlines if "::" in line] == [
        "test_parameter[1]",
        "test_parameter[3]",
    ]
    inner(*cards(1), "-m", "cards_8").assert_outcomes(skipped=1, deselected=4)
    inner(*cards(1), "-m", "cards_4").assert_outcomes(skipped=1, deselected=4)
    inner(*cards(2), "-m", "cards_2").assert_outcomes(passed=1, deselected=4)


def test_two_declarations_on_one_test_are_a_mistake_however_equal_another_test_looks(armed, inner, cards):
    armed.makepyfile(
        test_a="""
        import pytest
        from pytest_omni import hardware_marks, hardware_test

        @pytest.mark.parametrize("x", [pytest.param(1, marks=hardware_marks(res={"cuda": "H100"}))])
        @hardware_test(res={"cuda": "L4"})
        def test_fine(x): pass

        @hardware_test(res={"cuda": "H100"})
        @pytest.mark.parametrize("x", [1])
        @hardware_test(res={"cuda": "L4"})
        def test_twice(x): pass
        """
    )
    result = inner(*cards(1))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "test_a.py::test_twice[1]" in result.stderr.str()
    assert "test_fine" not in result.stderr.str()


def test_green_on_devices_from_a_file_says_so_at_the_end(armed, inner, cards):
    armed.makepyfile("import pytest\n@pytest.mark.cuda\ndef test_a(): pass")
    loud, quiet, headless = inner(*cards(1)), inner("-q", *cards(1)), inner("--no-header", *cards(1))
    told = "devices H100 (from file inventory.json)"
    assert loud.stdout.str().count(told) == 1  # in the header
    for result in (quiet, headless):
        result.stdout.fnmatch_lines([f"omni: {told}", "*1 passed*"])


def test_a_fixture_can_ask_what_its_test_needs(armed, inner, cards):
    armed.makepyfile(
        """
        import pytest
        from pytest_omni import hardware_test
        from pytest_omni.selection.items import need_of, requirement_of

        @pytest.fixture(autouse=True)
        def seen(request):
            wanted = request.node.callspec.params.get("wanted")
            need, requirement = need_of(request.node), requirement_of(request.node)
            assert (need and str(need)) == wanted
            assert (requirement is None) == (wanted is None)

        @hardware_test(res={"cuda": "H100", "rocm": "MI300"}, num_cards=2)
        @pytest.mark.parametrize("wanted", ["cuda H100×2"])
        def test_cards(wanted): pass

        @pytest.mark.cuda
        @pytest.mark.parametrize("wanted", ["cuda"])
        def test_by_hand(wanted): pass

        @pytest.mark.cpu
        @pytest.mark.parametrize("wanted", ["cpu"])
        def test_cpu(wanted): pass

        @pytest.mark.parametrize("wanted", [None])
        def test_anything(wanted): pass
        """
    )
    inner(*cards(2)).assert_outcomes(passed=4)


LATE = """
import pytest

def pytest_collection_modifyitems(items):
    for item in items:
        if item.name.startswith("test_cuda"):
            item.add_marker("cuda")
        if item.name.startswith("test_rocm"):
            item.add_marker(pytest.mark.rocm)
        if item.name.startswith("test_wide"):
            item.add_marker("slow")
"""


@WORKERS
def test_what_a_conftest_marks_counts_as_if_written_by_hand(armed, inner, cards, workers):
    armed.makeconftest(LATE)
    armed.makepyfile(
        test_a="from pytest_omni import hardware_test\ndef test_cuda(): pass\ndef test_rocm(): pass\n"
        "@hardware_test(res={'cuda': 'H100', 'rocm': 'MI300'}, num_cards=2)\ndef test_wide(): pass\ndef test_plain(): pass"
    )
    result = inner("-v", "-m", "gpu", *cards(1), *workers, plugins=XDIST)
    assert outcomes(result) == {"test_cuda": "PASSED", "test_wide": "SKIPPED"}
    assert "made for rocm, not for cuda" in result.stdout.str()
    armed.makepyfile(test_a="import pytest\n@pytest.mark.cpu\ndef test_cpu(): pass")
    armed.makeconftest(LATE.replace("test_cuda", "test_cpu"))
    contradiction = inner(*workers, plugins=XDIST)
    assert contradiction.ret == pytest.ExitCode.USAGE_ERROR
    contradiction.stderr.fnmatch_lines(["ERROR: hardware marks *", "    test_a.py::test_cpu"])


MARKED_ABOVE = """
import pytest

def pytest_collection_modifyitems(items):
    for node in {node for item in items for node in item.iter_parents() if node.name in ("test_a.py", "TestB")}:
        node.add_marker("cuda")
"""


@WORKERS
def test_what_a_conftest_marks_above_a_test_counts_too(armed, inner, workers):
    armed.makeconftest(MARKED_ABOVE)
    armed.makepyfile(
        test_a="def test_1(): pass", test_b="class TestB:\n  def test_2(self): pass\ndef test_3(): pass"
    )
    result = inner("-v", "-m", "cuda", "--omni-strict", *workers, plugins=XDIST)
    assert outcomes(result) == {"test_1": "SKIPPED", "test_2": "SKIPPED"}
    assert result.ret == 1
    result = inner("-v", *workers, plugins=XDIST)
    assert outcomes(result) == {"test_3": "PASSED"}
    assert "2 deselected (hardware): made for cuda, not for cpu" in section(result)


def test_a_test_without_its_hardware_is_skipped_though_nobody_reads_skip_marks(armed, inner):
    armed.makepyfile("import pytest\n@pytest.mark.cuda\ndef test_a(): assert 0")
    result = inner("-p", "no:skipping", "-m", "cuda")
    assert result.ret == 0
    result.assert_outcomes(skipped=1)


BAD = """
import pytest
from pytest_omni import hardware_test

@hardware_test(res={"cuda": "H1000"})
def test_sku(): pass

@hardware_test(res={"cuda": "H1000"})
@pytest.mark.parametrize("x", [1, 2])
def test_sku_again(x): pass

@hardware_test(res={"cuda": "H100"}, num_cards=True)
def test_count(): pass

@pytest.mark.cpu
@pytest.mark.cuda
def test_both(): pass

def test_fine(): pass
"""


@WORKERS
def test_all_bad_marks_are_reported_at_once_as_one_usage_error(armed, inner, workers):
    armed.makepyfile(test_a=BAD)
    result = inner(*workers, plugins=XDIST)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    errors = result.stderr.str()
    assert errors.count("ERROR:") == 1
    assert "did you mean 'H100'?" in errors
    lines = [line.strip() for line in errors.splitlines()]
    for line, ids in (
        (4, ["test_sku"]),
        (7, ["test_sku_again"]),
        (11, ["test_count"]),
    ):
        (place,) = [number for number, text in enumerate(lines) if text.startswith(f"test_a.py:{line}: ")]
        assert lines[place + 1 : place + 1 + len(ids)] == [f"test_a.py::{name}" for name in ids]
    assert "test_a.py::test_both" in lines
    assert "test_fine" not in errors
    assert "Traceback" not in errors + result.stdout.str()
    assert "INTERNALERROR" not in errors + result.stdout.str()
    assert "tests that did not run" not in result.stdout.str()


@pytest.mark.parametrize(
    ("expression", "strict", "code"),
    [("H100 or L4", True, 1), ("cuda", True, 0), ("H100 or L4", False, 0), ("cuda and not A100", True, 0)],
)
def test_another_sku_is_deselected_and_fails_only_a_lane_that_names_skus(
    armed, inner, cards, expression, strict, code
):
    armed.makepyfile(
        """
        from pytest_omni import hardware_test

        @hardware_test(res={"cuda": "H100"})
        def test_here(): pass

        @hardware_test(res={"cuda": "L4"})
        def test_elsewhere(): pass
        """
    )
    result = inner("-m", expression, *cards(1), *(["--omni-strict"] if strict else []))
    assert result.ret == code
    result.assert_outcomes(passed=1, deselected=1)


def test_a_limited_view_names_the_variable_and_its_value(armed, inner, cards, monkeypatch):
    armed.makepyfile(test_a=SUITE)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    result = inner("-rs", "-k", "test_two", *cards(4))
    result.stdout.fnmatch_lines(["*needs cuda H100×2, sees H100 (CUDA_VISIBLE_DEVICES=0*"])


def test_an_unarmed_session_derives_and_withholds_nothing(pytester, inner):
    pytester.makeini("[pytest]\nmarkers = cuda: ours\n")
    pytester.makepyfile("import pytest\n@pytest.mark.cuda\ndef test_a(): pass")
    result = inner("-m", "not gpu")
    result.assert_outcomes(passed=1)
    assert "omni" not in result.stdout.str()


def test_variants_with_the_same_mistakes_are_told_together(armed, inner):
    armed.makepyfile(
        test_a="""
        import pytest
        from pytest_omni import hardware_test

        @hardware_test(res={"cuda": "H10", "rcom": "MI300"})
        @pytest.mark.parametrize("x", range(5))
        def test_many(x): pass
        """
    )
    errors = inner().errlines
    assert [line for line in errors if "test_many" in line] == ["    test_a.py::test_many"]
    assert sum("test_a.py:" in line and "hardware_test: " in line for line in errors) == 2
