from __future__ import annotations

import os
import re
import sys

import pytest

PLUGIN = ("pytest_omni.plugin",)
XDIST = ("xdist.plugin", *PLUGIN)
USES_FIXTURE = "def test_a(omni_server): pass\ndef test_b(omni_server): pass\n"

PLATFORM_LINE = "omni: platform cuda (-m names cuda); devices H100×2 (from file inventory.json)"
LEVEL_LINE = "omni: run level core_model (-m names core_model), weights dummy or tiny; armed by pyproject.toml [tool.omni]"
OWN_FLAG = "def pytest_addoption(parser): parser.addoption('--run-level', choices=['theirs'])"

SNAPSHOT = """
import json, os, signal

def test_snapshot(pytestconfig):
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    handlers = [str(signal.getsignal(number)) for number in numbers]
    env = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
    marks = pytestconfig.getini("markers")
    with open("snapshot.json", "w") as out:
        json.dump([handlers, env, marks], out, sort_keys=True)

def test_other(): pass
"""


def without_timing(text: str) -> str:
    text = re.sub(r"in \d+\.\d+s", "in TIME", text)
    return re.sub(r"^plugins:.*\n", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize(
    "arguments",
    [("--co", "-q"), ("--markers",), ("--fixtures", "-q"), ("-v",), ("-q", "-m", "whatever")],
    ids=" ".join,
)
def test_an_unarmed_project_sees_no_difference(pytester, inner, arguments):
    pytester.makepyprojecttoml("[project]\nname = 'other'\nversion = '1'\n[tool.omniscient]\nx = 1\n")
    pytester.makepyfile(SNAPSHOT)
    seen = []
    for plugins in ((), PLUGIN):
        (pytester.path / "snapshot.json").unlink(missing_ok=True)
        result = inner(*arguments, plugins=plugins)
        snapshot = pytester.path / "snapshot.json"
        text = snapshot.read_text() if snapshot.exists() else ""
        seen.append((result.ret, without_timing(result.stdout.str()), result.stderr.str(), text))
    assert seen[0] == seen[1]


def test_an_unarmed_project_without_pyproject_sees_no_header(pytester, inner):
    pytester.makepyfile("def test_a(): pass")
    result = inner()
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*omni:*")


def test_an_unarmed_run_loads_no_server_code(pytester, inner):
    pytester.makepyfile(
        "import sys\ndef test_a(): assert not {'psutil', 'filelock', 'pytest_omni.servers.running'} & set(sys.modules)"
    )
    inner().assert_outcomes(passed=1)


def test_an_armed_session_loads_only_what_it_uses(pytester, inner):
    """Each shard pays for the start of a process: without -m, device, worker or client nobody needs their modules."""
    pytester.makepyprojecttoml("[tool.omni]\n")
    unused = {
        "psutil",
        "filelock",
        "http.client",
        "omni_hardware.expression",
        "pytest_omni.cards.leases",
        "pytest_omni.cards.leasing",
        "pytest_omni.diagnosis.doctor_checks",
        "pytest_omni.isolation.fresh_run",
        "pytest_omni.servers.clients",
        "pytest_omni.servers.running",
        "pytest_omni.sharding.dividing",
        "pytest_omni.weights",
    }
    pytester.makepyfile(f"import sys\ndef test_a(): assert not {unused!r} & set(sys.modules)")
    inner().assert_outcomes(passed=1)


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])
def test_an_omni_fixture_in_an_unarmed_session_is_one_usage_error(pytester, inner, workers):
    pytester.makepyprojecttoml("[project]\nname = 'other'\nversion = '1'\n")
    pytester.makepyfile(test_first=USES_FIXTURE, test_second=USES_FIXTURE)
    result = inner(*workers, plugins=XDIST)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (error,) = [line for line in result.errlines if line.startswith("ERROR:")]
    assert error == (
        "ERROR: test_first.py::test_a: fixture 'omni_server' belongs to pytest-omni, which is not armed in this "
        f"project; add the line [tool.omni] to {pytester.path / 'pyproject.toml'}"
    )
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()
    assert "Traceback" not in result.stdout.str() + result.stderr.str()


def test_a_monorepo_is_told_to_create_the_file_that_its_root_lacks(pytester, inner):
    """The rootdir is the folder above two packages, whose own pyproject.toml nobody reads."""
    for package in ("one", "two"):
        folder = pytester.mkdir(package)
        (folder / "pyproject.toml").write_text("[tool.omni]\n")
        (folder / f"test_{package}.py").write_text("def test_a(omni_server): pass\n")
    (pytester.path / "pytest.ini").write_text("[pytest]\n")
    result = inner("one", "two")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (error,) = [line for line in result.errlines if line.startswith("ERROR:")]
    assert error.endswith(
        f"; add the line [tool.omni] to {pytester.path / 'pyproject.toml'} (which does not exist yet: create it)"
    )
    pytester.makepyprojecttoml("[tool.omni]\n")
    result = inner("one", "two")
    assert "omni_server has no command to run" in result.stderr.str(), (
        "the file that was named is the one that counts"
    )


@pytest.mark.parametrize("strict", [(), ("--strict-markers",)], ids=["lax", "strict"])
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])
@pytest.mark.parametrize("word", ["H100", "cuda", "cards_2", "core_model"])
def test_an_omni_mark_in_an_unarmed_session_is_one_usage_error(pytester, inner, workers, strict, word):
    pytester.makepyfile(test_first=f"import pytest\n@pytest.mark.{word}\ndef test_a(): pass\n")
    result = inner(*workers, *strict, plugins=XDIST)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (error,) = [line for line in result.errlines if line.startswith("ERROR:")]
    where = "test_first.py" if strict else "test_first.py::test_a"
    assert error == (
        f"ERROR: {where}: marker {word!r} belongs to pytest-omni, which is not armed in this project; add the line "
        f"[tool.omni] to {pytester.path / 'pyproject.toml'} (which does not exist yet: create it), or register the "
        "marker, if it is your own"
    )
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()


@pytest.mark.parametrize("line", ["H100: ours", "H100(count): ours", "H100"])
def test_a_mark_that_the_project_registers_is_its_own(pytester, inner, line):
    pytester.makeini(f"[pytest]\nmarkers = {line}\n")
    pytester.makepyfile("import pytest\n@pytest.mark.H100\ndef test_a(): pass")
    inner("--strict-markers").assert_outcomes(passed=1)


def test_everyday_marks_and_deselected_marks_do_not_matter(pytester, inner):
    pytester.makepyfile(
        "import pytest\n@pytest.mark.slow\n@pytest.mark.benchmark\ndef test_plain(): pass\n"
        "@pytest.mark.H100\ndef test_b(): pass"
    )
    inner("-k", "plain").assert_outcomes(passed=1, deselected=1, warnings=3)


def test_a_mark_of_nobody_is_pytests_own_business(pytester, inner):
    pytester.makepyfile("import pytest\n@pytest.mark.H1000\ndef test_a(): pass")
    result = inner("--strict-markers")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "omni" not in result.stderr.str()


def test_an_omni_fixture_asked_for_by_name_while_unarmed_names_the_line(pytester, inner):
    pytester.makepyfile(
        "import pytest\n"
        "def test_ours(request): request.getfixturevalue('omni_server')\n"
        "def test_other(request): request.getfixturevalue('other')\n"
        "def test_common(run_level): pass\n"
    )
    for workers in ((), ("-n1",)):
        result = inner(*workers, plugins=XDIST)
        result.assert_outcomes(failed=2, errors=1)
        assert result.stdout.str().count("belongs to pytest-omni") == 2
        result.stdout.fnmatch_lines(
            ["*::test_ours: fixture 'omni_server' belongs to pytest-omni, *add the line [[]tool.omni[]] to *"]
        )


def test_a_deselected_omni_fixture_does_not_matter(pytester, inner):
    pytester.makepyfile(USES_FIXTURE + "def test_plain(): pass")
    inner("-k", "plain").assert_outcomes(passed=1, deselected=2)


def test_a_project_may_have_an_omni_server_of_its_own(pytester, inner):
    pytester.makeconftest("import pytest\n@pytest.fixture\ndef omni_server(): return 'theirs'")
    pytester.makepyfile("def test_a(omni_server): assert omni_server == 'theirs'")
    inner().assert_outcomes(passed=1)


def test_armed_registers_every_marker_and_says_what_it_decided(armed, inner, cards):
    armed.makepyfile(
        """
        import pytest

        @pytest.mark.cuda
        @pytest.mark.H100
        @pytest.mark.gpu
        @pytest.mark.cards_2
        @pytest.mark.core_model
        @pytest.mark.slow
        @pytest.mark.diffusion
        def test_marked(): pass

        @pytest.mark.npu
        @getattr(pytest.mark, "310P")
        @pytest.mark.cards_1
        def test_npu(): pass
        """
    )
    result = inner("-m", "cuda and H100 and cards_2 and core_model and diffusion and not tts", *cards(2))
    result.assert_outcomes(passed=1, deselected=1)
    assert [line for line in result.outlines if line.startswith("omni:")][:2] == [PLATFORM_LINE, LEVEL_LINE]


@pytest.mark.parametrize(
    ("arguments", "variable", "ini", "because"),
    [
        (("--omni-strict",), None, "", "--omni-strict"),
        (("--run-level", "core_model"), None, "", "--run-level"),
        ((), "core_model", "", "environment variable OMNI_RUN_LEVEL"),
        ((), None, "omni_max_skips = 3", "omni_max_skips in pytest.ini"),
        (("-o", "omni_platform=auto"), None, "", "omni_platform in pytest.ini"),
    ],
    ids=["flag", "common-flag", "variable", "ini", "override"],
)
def test_a_setting_arms_a_run_without_the_table(
    pytester, inner, monkeypatch, arguments, variable, ini, because
):
    (pytester.path / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
    pytester.makepyfile(
        "import pytest\n@pytest.mark.core_model\ndef test_a(run_level): assert run_level == 'core_model'"
    )
    if variable:
        monkeypatch.setenv("OMNI_RUN_LEVEL", variable)
    for workers in ((), ("-n1",)):
        result = inner(*arguments, *workers, "--strict-markers", plugins=XDIST)
        result.assert_outcomes(passed=1)
        assert any(line.endswith(f"; armed by {because}") for line in result.outlines)


def test_an_unarmed_project_keeps_a_flag_of_its_own(pytester, inner):
    pytester.makeconftest(OWN_FLAG)
    pytester.makepyfile("def test_a(pytestconfig): assert pytestconfig.getoption('--run-level') == 'theirs'")
    result = inner("--run-level", "theirs")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*omni:*")


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])
def test_a_flag_that_an_armed_project_declares_again_is_one_usage_error(armed, inner, workers):
    armed.makeconftest(OWN_FLAG)
    armed.makepyfile("def test_a(): pass")
    result = inner(*workers, plugins=XDIST)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (error,) = [line for line in result.errlines if line]
    assert error == (
        "ERROR: --run-level: a conftest.py or another plugin has this option too, and in an armed session it is "
        "pytest-omni's; remove or rename it there"
    )


@pytest.mark.parametrize("is_armed", [True, False])
def test_a_flag_with_our_name_is_one_usage_error_everywhere(pytester, inner, is_armed):
    pytester.makepyprojecttoml("[tool.omni]" if is_armed else "")
    pytester.makeconftest("def pytest_addoption(parser): parser.addoption('--omni-strict')")
    result = inner()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == [
        (
            "ERROR: --omni-strict: a conftest.py or another plugin has this option too, and it is pytest-omni's; "
            "remove or rename it there"
        )
    ]


HOOK_MISTAKES = [
    (
        "conftest.py",
        "def pytest_omni_server_comand(config): pass",
        "unknown hook 'pytest_omni_server_comand' (did you mean 'pytest_omni_server_command'?)",
    ),
    (
        "conftest.py",
        "def pytest_omni_client(config, traget): pass",
        "pytest_omni_client has no argument 'traget' (did you mean 'target'?); it may take config, target, run_level",
    ),
    (
        "below/conftest.py",
        "def pytest_omni_engin(): pass",
        "unknown hook 'pytest_omni_engin' (did you mean 'pytest_omni_engine'?)",
    ),
]


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])
@pytest.mark.parametrize(("file", "code", "message"), HOOK_MISTAKES)
def test_a_mistake_in_a_hook_is_one_usage_error(armed, inner, workers, file, code, message):
    below = armed.mkdir("below")
    (below / "test_a.py").write_text("def test_a(): pass")
    (armed.path / file).write_text(code)
    result = inner(*workers, plugins=XDIST)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == [f"ERROR: {armed.path / file}: {message}"]
    assert "INTERNALERROR" not in result.stdout.str()
    (armed.path / file).write_text(f"import pytest\n@pytest.hookimpl(optionalhook=True)\n{code}\n")
    if "unknown" in message:
        inner(*workers, plugins=XDIST).assert_outcomes(passed=1)


def test_the_value_of_a_flag_is_no_path_when_conftests_are_looked_for(pytester, inner):
    """pytest takes words it does not know yet for paths, and then loads no conftest of testpaths in time."""
    pytester.makepyprojecttoml("[tool.omni]\n[tool.pytest.ini_options]\ntestpaths = ['spec']\n")
    spec = pytester.mkdir("spec")
    (spec / "conftest.py").write_text("def pytest_addoption(parser): parser.addoption('--theirs')")
    (spec / "test_a.py").write_text(
        "def test_a(pytestconfig): assert pytestconfig.getoption('--theirs') == 'x'"
    )
    inner("--run-level", "core_model", "--theirs=x").assert_outcomes(passed=1)


def test_a_conftest_may_bring_the_plugin(pytester, inner):
    pytester.makepyprojecttoml("[tool.omni]")
    pytester.makeconftest("pytest_plugins = ['pytest_omni.plugin']")
    pytester.makepyfile("import pytest\n@pytest.mark.core_model\ndef test_a(run_level): assert run_level")
    result = inner("--strict-markers", "--omni-max-skips=0", plugins=())
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["omni: platform *"])


def test_unarmed_pytest_shard_does_what_it_does_without_us(pytester, inner):
    pytester.makepyfile("import pytest\n@pytest.mark.parametrize('n', range(9))\ndef test_a(n): pass")
    seen = []
    for plugins in ((), PLUGIN):
        for shard in ("0", "1"):
            run = inner(
                "-v", "--num-shards=2", f"--shard-id={shard}", plugins=("pytest_shard.pytest_shard", *plugins)
            )
            assert "items in this shard" in run.stdout.str()
            seen.append((run.ret, without_timing(run.stdout.str()), run.stderr.str()))
    assert seen[:2] == seen[2:]


def test_armed_still_refuses_a_typo(armed, inner):
    armed.makepyfile("import pytest\n@pytest.mark.H1000\ndef test_a(): pass")
    result = inner()
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*'H1000' not found in `markers`*"])


def test_a_consumers_words_are_markers(pytester, inner):
    pytester.makepyprojecttoml(
        "[tool.omni]\nlevels = ['smoke', 'deep']\ntopics = ['speech']\nmarks = ['quarantined']\nskus.cuda = ['GB300']\n"
    )
    pytester.makepyfile("def test_a(): pass")
    lines = inner("--markers").stdout.str()
    for name in ("smoke", "deep", "speech", "quarantined", "GB300", "H100", "diffusion"):
        assert f"@pytest.mark.{name}: " in lines
    assert "@pytest.mark.core_model" not in lines


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])
def test_a_broken_table_is_one_usage_error(pytester, inner, workers):
    pytester.makepyprojecttoml("[tool.omni]\ntopic = ['speech']\nskus.cuda = ['MI300']\n")
    pytester.makepyfile("def test_a(): pass")
    result = inner(*workers, plugins=XDIST)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == [
        "ERROR: pyproject.toml:2: [tool.omni] topic: unknown key (did you mean 'topics'?)",
        "pyproject.toml:3: [tool.omni] skus.cuda: 'MI300' is already in skus.rocm",
    ]


@pytest.mark.parametrize(
    ("text", "at"), [("[tool]\nomni = true\n", 2), ("[tool]\nomni = ['x']\n", 2), ("[[tool.omni]]\n", 1)]
)
def test_ours_but_no_table_is_one_usage_error(pytester, inner, text, at):
    pytester.makepyprojecttoml(text)
    pytester.makepyfile("def test_a(): pass")
    result = inner()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line]
    assert line.startswith(f"ERROR: pyproject.toml:{at}: [tool] omni: must be a table, not a ")
    assert line.endswith("; write [tool.omni]")


def test_the_config_file_named_on_the_command_line_decides(pytester, inner):
    other = pytester.mkdir("other")
    (other / "pyproject.toml").write_text("[tool.omni]\n[tool.pytest.ini_options]\n")
    pytester.makepyfile("def test_a(): pass")
    inner("--rootdir", ".", "-c", "other/pyproject.toml").stdout.fnmatch_lines(["omni: *"])


def test_armed_works_with_a_foreign_omni_first_on_the_path(armed, inner, monkeypatch):
    foreign = armed.mkpydir("omni")
    (foreign / "__init__.py").write_text("raise ImportError('the foreign omni was imported')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(armed.path), *sys.path]))
    armed.makepyfile("def test_a(): pass")
    inner().assert_outcomes(passed=1)


def test_nothing_heavy_is_imported(armed, inner, monkeypatch):
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    armed.makepyfile("def test_a(): pass")
    result = inner()
    result.assert_outcomes(passed=1)
    loaded = {
        line.rpartition("|")[2].strip().partition(".")[0]
        for line in result.errlines
        if "import time:" in line
    }
    assert "pytest_omni" in loaded
    assert not loaded & {"torch", "diffusers", "transformers", "fastapi", "numpy", "pydantic", "yaml", "omni"}
