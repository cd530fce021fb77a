from __future__ import annotations

from pathlib import Path

import pytest

from omni_hardware.expression import parse
from pytest_omni.arguments import has_workers, marker_mistakes, missing_paths

XDIST = ("xdist.plugin", "pytest_omni.plugin")
HOW = "declare markers of your own in pytest's markers setting, or as topics in [tool.omni]"
TESTS = """
import pytest

@pytest.mark.core_model
@pytest.mark.cpu
def test_a(): pass

@pytest.mark.ours
@pytest.mark.core_model
def test_b(): pass
"""


@pytest.fixture
def project(armed: pytest.Pytester) -> pytest.Pytester:
    armed.makepyprojecttoml(
        "[tool.omni]\ntopics = ['speech']\n[tool.pytest.ini_options]\nmarkers = ['ours(why): of this project']\n"
    )
    armed.makepyfile(test_first=TESTS)
    return armed


@pytest.mark.parametrize("how", [(), ("-n2",), ("-n2", "--strict-markers")], ids=["alone", "xdist", "strict"])
@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("core_modle and cuda", "column 1: no marker is called 'core_modle' (did you mean 'core_model'?)"),
        ("core_model or cudda", "column 15: no marker is called 'cudda' (did you mean 'cuda'?)"),
    ],
)
def test_pytest2781_an_unknown_name_in_m_is_an_error(project, inner, expression, problem, how):
    """pytest before 9.2 ignores such names: the first selects nothing, the second half of what was meant."""
    result = inner(*how, "-m", expression, plugins=XDIST)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == [f"ERROR: -m {expression!r}: {problem}", HOW]
    assert "INTERNALERROR" not in result.stdout.str()


def test_every_marker_that_is_declared_may_be_named(project, inner):
    project.makeconftest(
        "def pytest_configure(config): config.addinivalue_line('markers', 'late: by a conftest')"
    )
    inner("-m", "core_model and not (ours or late or speech or gpu or skipif or H100)").assert_outcomes(
        passed=1, deselected=1
    )


def test_arguments_of_a_marker_are_no_names(project, inner):
    inner("-m", "core_model and not ours(why='nothing')").assert_outcomes(passed=2)


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])
def test_an_expression_that_cannot_be_read_is_a_usage_error_with_its_column(project, inner, workers):
    result = inner(*workers, "-m", "core_model and (", plugins=XDIST)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (error,) = [line for line in result.errlines if line]
    assert error.startswith("ERROR: -m 'core_model and (': column 17: ")


def test_several_unknown_names_are_told_at_once():
    assert marker_mistakes(parse("cudda or not slwo"), ["cuda", "slow"]) == [
        "-m 'cudda or not slwo': column 1: no marker is called 'cudda' (did you mean 'cuda'?)",
        "-m 'cudda or not slwo': column 14: no marker is called 'slwo' (did you mean 'slow'?)",
        HOW,
    ]
    assert marker_mistakes(parse("cuda and not slow"), ["cuda", "slow"]) == []


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])
def test_opensre3899_a_missing_path_is_an_error(project, inner, workers):
    """pytest-xdist alone: no tests ran, exit 5, and not a word about the path."""
    result = inner(*workers, "test_first.py", "test_frist.py::test_a", "nowhere", plugins=XDIST)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    missing = [line for line in result.errlines if "file or directory not found" in line]
    assert "ERROR: file or directory not found: test_frist.py::test_a" in missing
    assert missing[1:] == ["file or directory not found: nowhere"] * bool(workers)


def test_opensre3899_the_id_of_a_test_that_there_is_not_is_an_error(project, inner):
    """pytest-xdist alone: no tests ran, exit 5, and not a word about the id; the other tests are lost too."""
    result = inner("-n2", "test_first.py::test_a", "test_first.py::nope", plugins=XDIST)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stderr.str().count(f"ERROR: not found: {project.path}/test_first.py::nope") == 1
    assert "tests that did not run" not in result.stdout.str()


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])
def test_what_a_conftest_refuses_is_a_usage_error(project, inner, workers):
    """pytest-xdist alone ends with an INTERNALERROR that does not name the reason."""
    hook = "def pytest_collection_modifyitems(): raise pytest.UsageError('no such thing')"
    project.makeconftest(f"import pytest\n{hook}")
    result = inner(*workers, plugins=XDIST)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "INTERNALERROR" not in result.stdout.str()
    assert result.stderr.str().count("ERROR: no such thing") == 1


def test_paths_that_exist_run_with_workers(project, inner):
    project.mkpydir("package").joinpath("test_[odd].py").write_text("def test_c(): pass")
    sys_path = f"pythonpath={project.path}"
    inner("-n1", "test_first.py::test_a", "package", plugins=XDIST).assert_outcomes(passed=2)
    inner("-n1", "-o", sys_path, "--pyargs", "test_first::test_a", plugins=XDIST).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("argument", "pyargs", "missing"),
    [
        ("a.py", False, False),
        ("a.py::TestA::test_a[x::y]", False, False),
        ("b.py", False, True),
        ("b.py::test_a", False, True),
        ("", False, False),
        ("json", False, True),
        ("json", True, False),
        ("json.nothing", True, True),
        ("nothing.json", True, True),
        ("..nothing", True, True),
    ],
)
def test_what_a_missing_argument_is(tmp_path, argument, pyargs, missing):
    (tmp_path / "a.py").touch()
    expected = [f"file or directory not found: {argument}"] if missing else []
    assert missing_paths([argument], Path(tmp_path), pyargs=pyargs) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), False),
        (("--dist=each", "--tx=popen"), True),
        (("-n1", "--dist=worksteal"), True),
    ],
)
def test_a_controller_of_workers_is_one_however_they_are_asked_for(pytester, words, expected):
    assert has_workers(pytester.parseconfig("-p", "xdist.plugin", *words)) is expected


def test_unarmed_names_in_m_are_not_judged(pytester, inner):
    pytester.makepyfile(test_first="def test_a(): pass")
    inner("-m", "not cudda").assert_outcomes(passed=1)
