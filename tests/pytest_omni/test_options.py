from __future__ import annotations

from pathlib import Path

import pytest

from omni_hardware.vocabulary import DEFAULT, Vocabulary
from pytest_omni.arguments import misspelt
from pytest_omni.options import (
    OPTIONS,
    SHARD_METHODS,
    Given,
    Kind,
    Option,
    Settings,
    resolve,
    settings_of,
)

PLUGIN = ("-p", "pytest_omni.plugin")
# For each setting three values that are neither its default nor each other.
WORDS = {
    "run_level": ("core_model", "advanced_model", "full_model"),
    "platform": ("cuda", "rocm", "cpu"),
    "shard_by": ("duration", "file", "hash"),
    "shard": ("auto", "auto", "auto"),
}


def values_of(row: Option) -> tuple[str, str, str]:
    if row.kind is Kind.COUNT:
        return ("1", "2", "3")
    if row.kind is Kind.SWITCH:
        return ("true", "false", "true")
    if row.name == "inventory_path":
        return ("none.json", "none.json", "none.json")
    return ("a.json", "b.json", "c.json") if row.kind is Kind.PATH else WORDS[row.name]


def meant(row: Option, text: str, folder: Path) -> object:
    kinds = {Kind.COUNT: int, Kind.SWITCH: lambda text: text == "true", Kind.PATH: lambda text: folder / text}
    return kinds.get(row.kind, str)(text)


def written(row: Option, text: str) -> str:
    return row.flag if row.kind is Kind.SWITCH else f"{row.flag}={text}"


@pytest.mark.parametrize("row", OPTIONS, ids=lambda row: row.name)
def test_a_flag_beats_a_variable_beats_the_ini_file_beats_the_default(pytester, monkeypatch, row):
    (pytester.path / "none.json").write_text('{"schema": 1, "platform": "cpu", "devices": []}')
    flag, env, ini = values_of(row)
    folder = pytester.path

    def found(*args: str) -> tuple[object, str | None]:
        settings = settings_of(pytester.parseconfig(*PLUGIN, *args))
        return getattr(settings, row.name), settings.sources.get(row.name)

    assert found() == (row.default, None)
    if row.ini:
        pytester.makeini(f"[pytest]\n{row.ini} = {ini}\n")
        assert found() == (meant(row, ini, folder), f"{row.ini} in tox.ini")
    if row.env:
        monkeypatch.setenv(row.env, env)
        assert found() == (meant(row, env, folder), f"environment variable {row.env}")
    assert found(written(row, flag)) == (meant(row, flag, folder), row.flag)


def test_every_switch_that_the_surroundings_can_set_can_be_taken_back(pytester, monkeypatch):
    monkeypatch.setenv("OMNI_STRICT", "1")
    settings = settings_of(pytester.parseconfig(*PLUGIN, "--no-omni-strict"))
    assert (settings.strict, settings.sources) == (False, {"strict": "--omni-strict"})


def test_an_empty_variable_is_an_unset_one(pytester, monkeypatch):
    monkeypatch.setenv("OMNI_MAX_SKIPS", "")
    monkeypatch.setenv("OMNI_STRICT", " ")
    assert settings_of(pytester.parseconfig(*PLUGIN)) == Settings()


def test_a_path_of_the_ini_file_is_relative_to_that_file(pytester):
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\nomni_report = 'out/r.json'\n")
    below = pytester.mkdir("below")
    pytester.chdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(below)
        settings = settings_of(pytester.parseconfig(*PLUGIN, "--shard-durations=d.json"))
    assert settings.report == pytester.path / "out" / "r.json"
    assert settings.shard_durations == below / "d.json"


def test_toml_values_may_be_typed(pytester):
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\nomni_strict = true\nomni_max_skips = 3\n")
    settings = settings_of(pytester.parseconfig(*PLUGIN))
    assert (settings.strict, settings.max_skips) == (True, 3)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("run_level", "core_modle", "unknown run level 'core_modle' (did you mean 'core_model'?)"),
        ("platform", "CUDA", "unknown platform 'CUDA' (did you mean 'cuda'?)"),
        ("shard_by", "modules", "unknown method 'modules' (known: group, duration, file, hash)"),
        ("shard", "1/2", "takes only auto, not '1/2'; give --num-shards and --shard-id for one by number"),
        ("strict", "maybe", "'maybe' is not true or false"),
        ("max_skips", "-1", "'-1' is not a whole number of 0 or more"),
        ("max_skips", "½", "'½' is not a whole number of 0 or more"),
        ("report", "  ", "needs a value"),
        ("platform", "cu\x1b[31mda", "unknown platform 'cu\\x1b[31mda' (did you mean 'cuda'?)"),
    ],
)
def test_a_bad_value_is_named_with_its_source(name, text, problem):
    with pytest.raises(pytest.UsageError) as caught:
        resolve({name: Given(text, "SOMEWHERE", Path())}, DEFAULT)
    assert str(caught.value) == f"SOMEWHERE: {problem}"


@pytest.mark.parametrize("text", ["1", "true", "TRUE", "yes", "on"])
def test_words_for_yes(text):
    assert resolve({"strict": Given(text, "x", Path())}, DEFAULT).strict is True


@pytest.mark.parametrize("text", ["0", "false", "No", "off"])
def test_words_for_no(text):
    assert resolve({"strict": Given(text, "x", Path())}, DEFAULT).strict is False


def test_levels_are_the_projects_own():
    own = Vocabulary(levels=("smoke", "deep"))
    assert resolve({"run_level": Given("smoke", "x", Path())}, own).run_level == "smoke"
    with pytest.raises(
        pytest.UsageError, match="unknown run level 'core_model' \\(known: smoke, deep, auto\\)"
    ):
        resolve({"run_level": Given("core_model", "x", Path())}, own)


def test_the_table_and_the_settings_have_the_same_defaults():
    assert {row.name: row.default for row in OPTIONS} == {
        name: getattr(Settings(), name) for name in Settings.__slots__ if name != "sources"
    }
    assert Settings().shard_by == SHARD_METHODS[0]


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])
def test_every_bad_value_is_told_at_once_as_a_usage_error(armed, inner, monkeypatch, workers):
    armed.makepyfile("def test_a(): pass")
    monkeypatch.setenv("OMNI_STRICT", "maybe")
    result = inner(
        *workers,
        "--run-level=cor_model",
        "-o",
        "omni_max_skips=many",
        plugins=("xdist.plugin", "pytest_omni.plugin"),
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == [
        "ERROR: --run-level: unknown run level 'cor_model' (did you mean 'core_model'?)",
        "environment variable OMNI_STRICT: 'maybe' is not true or false",
        "omni_max_skips in pyproject.toml: 'many' is not a whole number of 0 or more",
    ]


def test_help_shows_every_flag_with_its_ini_key_and_variable(armed, inner):
    text = " ".join(inner("--help").stdout.str().split())
    for row in OPTIONS:
        assert f"{row.flag}" in text
        assert row.ini is None or f"ini {row.ini}" in text
        assert row.env is None or f"env {row.env}" in text


def test_a_file_that_leads_pytest_away_from_the_project_is_a_usage_error(armed, inner, monkeypatch):
    """pytest looks for its configuration above every word that could be a test, and so above the file."""
    shared = armed.mkdir("shared")
    inventory = shared / "cpu.json"
    inventory.write_text('{"schema": 1, "platform": "cpu", "devices": []}')
    project = armed.mkdir("project")
    (project / "pyproject.toml").write_text("[tool.omni]\n[tool.pytest.ini_options]\n")
    (project / "test_a.py").write_text("def test_a(): pass")
    (armed.path / "pyproject.toml").unlink()
    monkeypatch.chdir(project)
    result = inner("--omni-inventory", str(inventory))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"ERROR: *: write --omni-inventory={inventory} in one word, *above {shared}"]
    )
    inner(f"--omni-inventory={inventory}").assert_outcomes(passed=1)
    (project / "near.json").write_text(inventory.read_text())
    inner("--omni-inventory", "near.json").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("words", "astray"),
    [
        (["--omni-inventory", "../shared/cpu.json"], True),
        (["--omni-inventory", "../shared/cpu.json", "tests"], False),
        (["--omni-inventory", "own/cpu.json"], True),
        (["--omni-report", "own/cpu.json", "."], False),
        (["--omni-inventory", "plain/cpu.json"], False),
        (["--omni-inventory", "own/cpu.json", "-c", "own/pytest.ini"], False),
        (["--omni-report", "../shared/new.json"], False),
        (["--omni-inventory=../shared/cpu.json"], False),
    ],
    ids=str,
)
def test_where_a_file_leads_pytest_to(pytester, monkeypatch, words, astray):
    """A folder with a configuration of its own leads away even within the project; a file to be written never does."""
    for folder in ("shared", "project/tests", "project/own", "project/plain"):
        (pytester.path / folder).mkdir(parents=True)
        (pytester.path / folder / "cpu.json").write_text('{"schema": 1, "platform": "cpu", "devices": []}')
    (pytester.path / "project" / "pyproject.toml").write_text("[tool.omni]\n[tool.pytest.ini_options]\n")
    (pytester.path / "project" / "own" / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(pytester.path / "project")
    if astray:
        with pytest.raises(pytest.UsageError, match=f"write {words[0]}={words[1]} in one word"):
            pytester.parseconfig(*PLUGIN, *words)
    else:
        found = pytester.parseconfig(*PLUGIN, *words).inipath
        assert found == pytester.path / "project" / ("own/pytest.ini" if "-c" in words else "pyproject.toml")
    (pytester.path / "project" / "pyproject.toml").unlink()
    with pytest.raises(pytest.UsageError, match=r"looks for its configuration above .*own"):
        pytester.parseconfig(*PLUGIN, "--omni-inventory", "own/cpu.json")


def test_a_variable_that_is_nearly_ours_is_named_and_refused_where_it_counts(armed, inner, monkeypatch):
    armed.makepyfile("def test_a(): pass")
    for name in (
        "OMNI_TORCH_INDEX",
        "OMNI_TINY_MODELS",
        "OMNI_PYTHON",
        "OMNI_CI_TALLY",
        "OMNI_LEASE_TIMEOUT",
    ):
        monkeypatch.setenv(name, "5")  # other people's, and one of ours
    assert "omni: environment" not in inner("-q").stdout.str()
    monkeypatch.setenv("OMNI_STRCIT", "1")
    lax, strict, doctor = inner("-q"), inner("--omni-strict"), inner("--omni-doctor")
    told = "environment variable OMNI_STRCIT: nobody reads it (did you mean OMNI_STRICT?)"
    assert (lax.ret, strict.ret) == (0, pytest.ExitCode.USAGE_ERROR)
    assert lax.outlines.count(f"omni: {told}") == 1
    assert strict.errlines[0] == f"ERROR: {told}"
    doctor.stdout.fnmatch_lines(["*✗ environment variable OMNI_STRCIT*"])


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("OMNI_PLATFROM", "OMNI_PLATFORM"),
        ("OMNI_REPORTS", "OMNI_REPORT"),
        ("OMNI_LEASE_TIMOUT", "OMNI_LEASE_TIMEOUT"),
        ("OMNI_strict", "OMNI_STRICT"),
        ("OMNI_COMMANDS", None),
        ("PLATFROM", None),
    ],
)
def test_what_is_nearly_a_variable_of_ours(name, meant):
    said = f"environment variable {name}: nobody reads it (did you mean {meant}?)"
    assert misspelt({name: "", "OMNI_STRICT": "1"}) == ([said] if meant else [])
