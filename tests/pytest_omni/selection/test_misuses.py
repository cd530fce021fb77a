"""What would pass without doing what it says."""

from __future__ import annotations

import pytest

MISUSES = """
import pytest
from pytest_omni import OmniServerParams

DIRECT = pytest.mark.parametrize("omni_server", [OmniServerParams("m")])

@DIRECT
def test_server(omni_server): pass

class TestCase:
    @pytest.mark.parametrize(("omni_runner_function", "n"), [(OmniServerParams("m"), 1)], indirect=["n"])
    def test_runner(self, omni_runner_function, n): pass

    @pytest.fixture
    def n(self): return 1

@pytest.mark.fresh_process(5)
def test_process(): pass

@pytest.mark.fresh_process(timeout="1")
def test_time(): pass

@DIRECT
@pytest.mark.slow
def test_deselected(omni_server): pass
"""


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])
def test_what_cannot_be_meant_is_one_usage_error(armed, inner, workers):
    armed.makepyfile(test_a=MISUSES)
    result = inner("-m", "not slow", *workers, plugins=("xdist.plugin", "pytest_omni.plugin"))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: fixtures and marks that cannot do what they say:",
            "  omni_server is parametrized without indirect=True: * nothing would be started; *",
            "    test_a.py::test_server[[]*]",
            "  omni_runner_function is parametrized without indirect=True: *",
            "    test_a.py::TestCase::test_runner[[]*]",
            "  fresh_process takes keywords only: *",
            "    test_a.py::test_process",
            "  fresh_process: timeout must be seconds above 0, not '1'",
            "    test_a.py::test_time",
        ],
        consecutive=True,
    )
    assert "deselected" not in result.stderr.str()


def test_a_fixture_of_the_projects_own_may_be_what_it_likes(armed, inner):
    armed.makepyfile(
        test_a="""
import pytest

@pytest.fixture(params=["one", "two"])
def omni_server(request): return request.param

def test_server(omni_server): pass
"""
    )
    inner().assert_outcomes(passed=2)


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])
def test_a_time_to_wait_that_is_none_is_told_before_the_tests(armed, inner, monkeypatch, workers):
    monkeypatch.setenv("OMNI_LEASE_TIMEOUT", "abc")
    armed.makepyfile(test_a="def test_it(): pass")
    result = inner(*workers, plugins=("xdist.plugin", "pytest_omni.plugin"))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stderr.str().splitlines()[0] == (
        "ERROR: OMNI_LEASE_TIMEOUT='abc' is no number of seconds, such as 1800"
    )
