"""Which core of coverage measures, for every Python; pure but for one test that reads a project's settings."""

from __future__ import annotations

import pytest

from omni_ci.coverage.core import Core, Measurement, choose, wanted_of

OLD, NEW, NEWEST = (3, 11), (3, 12), (3, 14)
NOTHING = Measurement()
SYSMON = Measurement(core="sysmon")


@pytest.mark.parametrize(
    ("python", "wanted", "name", "because"),
    [
        (OLD, NOTHING, "ctrace", "Python 3.11 has no sysmon"),
        (OLD, SYSMON, "ctrace", "sysmon is asked for, and Python 3.11 has no sysmon"),
        (NEW, NOTHING, "sysmon", "Python 3.12 has it"),
        (NEW, SYSMON, "sysmon", "Python 3.12 has it"),
        (NEW, Measurement(branch=True), "ctrace", "on Python 3.12 sysmon measures no branches"),
        ((3, 13), Measurement(branch=True, core="sysmon"), "ctrace", "measures no branches"),
        (NEWEST, Measurement(branch=True), "sysmon", "Python 3.14 has it"),
        (NEWEST, Measurement(contexts=True), "ctrace", "sysmon knows no contexts"),
        (NEWEST, Measurement(greenlets=True, core="sysmon"), "ctrace", "knows no greenlets"),
        (NEWEST, Measurement(plugins=True), "ctrace", "plugins"),
        (NEW, Measurement(core="pytrace"), "pytrace", "pytrace is asked for"),
        (NEW, Measurement(core="ctrace"), "ctrace", "ctrace is asked for"),
    ],
)
def test_coveragepy2076_the_core_is_one_that_this_interpreter_has(python, wanted, name, because):
    chosen = choose(wanted, python=python, has_tracer=True)
    assert chosen.name == name
    assert because in chosen.because


@pytest.mark.parametrize("core", ["", "sysmon", "ctrace"])
def test_without_the_c_tracer_the_slow_core_is_left(core):
    assert choose(Measurement(core=core), python=OLD, has_tracer=False).name == "pytrace"


def test_the_machine_that_runs_this_has_an_answer():
    assert isinstance(choose(SYSMON), Core)


@pytest.mark.parametrize(
    ("text", "forwarded", "environ", "wanted"),
    [
        ("", (), {}, NOTHING),
        ('core = "sysmon"\nbranch = true\n', (), {}, Measurement(branch=True, core="sysmon")),
        ('core = "sysmon"\n', (), {"COVERAGE_CORE": "ctrace"}, Measurement(core="ctrace")),
        ("", ("--cov-branch", "--cov-context=test"), {}, Measurement(branch=True, contexts=True)),
        ('concurrency = ["greenlet"]\n', (), {}, Measurement(greenlets=True)),
        ('dynamic_context = "test_function"\n', (), {}, Measurement(contexts=True)),
    ],
)
def test_what_is_wanted_is_read_as_coverage_reads_it(tmp_path, monkeypatch, text, forwarded, environ, wanted):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COVERAGE_CORE", raising=False)
    monkeypatch.delenv("COVERAGE_RCFILE", raising=False)
    (tmp_path / "pyproject.toml").write_text(f"[tool.coverage.run]\n{text}")
    assert wanted_of(forwarded, environ) == wanted


def test_another_config_file_counts_and_a_broken_one_is_left_to_coverage(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.cfg").write_text("[run]\nbranch = true\n")
    assert wanted_of(("--cov-config=other.cfg",), {}) == Measurement(branch=True)
    (tmp_path / "other.cfg").write_text("[run]\nbranch = perhaps\n")
    assert wanted_of(("--cov-config=other.cfg",), {}) == NOTHING
