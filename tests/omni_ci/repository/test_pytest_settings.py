"""The file that pytest reads its settings from."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.repository.pytest_settings import SETTINGS_FILES, PytestSettings, Settings, settings_files
from omni_hardware.errors import InputError

INI = "[pytest]\ntestpaths = unit\n"
TABLE = "[tool.pytest.ini_options]\ntestpaths = ['unit']\n"


def of(files: dict[str, str], folder: str = "") -> Settings:
    return PytestSettings(files.get).of(folder)


@pytest.mark.parametrize(
    ("files", "file"),
    [
        ({"pytest.toml": "[pytest]\ntestpaths = ['unit']\n", "pytest.ini": "[pytest]\n"}, "pytest.toml"),
        ({"pytest.ini": INI, "pyproject.toml": TABLE}, "pytest.ini"),
        ({".pytest.ini": INI, "pyproject.toml": TABLE}, ".pytest.ini"),
        ({"pyproject.toml": TABLE, "tox.ini": INI}, "pyproject.toml"),
        ({"pyproject.toml": "[tool.pytest]\ntestpaths = ['unit']\n"}, "pyproject.toml"),
        ({"pyproject.toml": "[project]\n", "tox.ini": INI}, "tox.ini"),
        ({"tox.ini": "[tox]\n", "setup.cfg": "[tool:pytest]\ntestpaths = unit\n"}, "setup.cfg"),
    ],
)
def test_the_first_file_that_says_something_counts(files: dict[str, str], file: str) -> None:
    found = of(files)
    assert (found.file, found.testpaths, found.folder) == (file, ("unit",), "")


def test_a_file_of_its_own_counts_where_it_is_empty() -> None:
    assert of({"pytest.ini": "", "pyproject.toml": TABLE}) == Settings(file="pytest.ini")
    assert of({"pytest.toml": "", "pyproject.toml": TABLE}) == Settings(file="pytest.toml")


def test_the_nearest_folder_counts() -> None:
    files = {"pyproject.toml": TABLE, "pkg/tox.ini": INI}
    assert of(files, "pkg/a/b").file == "pkg/tox.ini"
    assert of(files, "other").file == "pyproject.toml"
    assert of({}, "other") == Settings()


def test_what_is_told() -> None:
    text = (
        "[pytest]\ntestpaths =\n    ./unit/\n    .\naddopts = -m 'a b' --strict\npython_files = check_*.py\n"
    )
    found = of({"pytest.ini": text})
    assert found.testpaths == ("unit", "")
    assert found.addopts == ("-m", "a b", "--strict")
    assert found.test_files == ("check_*.py",)
    assert Settings().test_files == ("test_*.py", "*_test.py")


def test_what_differs() -> None:
    now = Settings(values={"addopts": "-x", "markers": ["a", "b"], "xfail_strict": True})
    assert now.differs(Settings(values={"addopts": "-q", "markers": ["a"]})) == ("addopts", "xfail_strict")
    assert now.differs(Settings(values={**now.values, "markers": "a\nc"})) == ("markers",)
    assert now.differs(now) == ()


def test_where_pytest_looks() -> None:
    assert list(settings_files("a"))[:7] == [f"a/{name}" for name in list(settings_files(""))]
    assert set(settings_files("")) == SETTINGS_FILES


def test_what_is_no_file_is_none() -> None:
    def read(path: str) -> str | None:
        raise InputError(f"{path}: is a folder")

    assert PytestSettings(read).of("") == Settings()


@settings(max_examples=100)
@given(st.sampled_from(sorted(SETTINGS_FILES)), st.text(alphabet="[]pytest:ol.=\n '\"#\ud800\x00"))
def test_any_text_is_read_without_an_error(name: str, text: str) -> None:
    found = of({name: text})
    assert found.file in {name, None}
    assert found.differs(found) == ()
    _ = found.testpaths, found.addopts, found.test_files


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "[tool]\npytest = 1\n", "tool = 1\n", "["])
def test_a_broken_pyproject_has_no_settings(text: str) -> None:
    assert of({"pyproject.toml": text}) == Settings()
