from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_hardware.own_markers import line_of, markers_in, own_markers

PYPROJECT = """\
[tool.pytest.ini_options]
markers = [
  "process: starts one of its own",
  "wide(count): takes an argument",
  "bare",
]
"""
INI = "markers =\n    process: starts one of its own\n    wide(count): takes an argument\n    bare\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", PYPROJECT),
        ("pyproject.toml", PYPROJECT.replace("pytest.ini_options", "pytest")),
        ("pytest.ini", f'[pytest]\naddopts = -m "not %(x)s"\n{INI}'),
        (".pytest.ini", f"[pytest]\n{INI}"),
        ("tox.ini", f"[pytest]\n{INI}"),
        ("setup.cfg", f"[tool:pytest]\n{INI}"),
    ],
)
def test_a_projects_markers_are_read_from_whichever_file_has_them(name, text, tmp_path):
    assert own_markers({name: text}.get) == ("process", "wide", "bare")
    (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "--markers", "-p", "no:cacheprovider"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    if "pytest.ini_options" in text or name != "pyproject.toml":  # `[tool.pytest]` is a newer pytest's
        assert all(f"@pytest.mark.{marker}" in shown for marker in ("process", "wide(count)", "bare"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "markers = nope",
        "[tool.pytest.ini_options]\nmarkers = 3\n",
        "[tool]\npytest = 1\n",
        "[pytest]\n[pytest",
    ],
)
def test_what_cannot_be_read_names_none(text):
    names = ("pyproject.toml", "pytest.ini", "setup.cfg")
    assert [own_markers({name: text}.get) for name in names] == [(), (), ()]


def test_markers_of_a_pyproject_alone():
    assert markers_in(PYPROJECT) == ("process", "wide", "bare")


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("[tool.omni]\nmarks = []\n", "tool.omni.marks", 2),
        ("[tool.omni]\nmarks = []\n", "tool.omni.levels", 1),
        ("x = 1\n[ tool . omni ] # ours\n'marks' = []\n", "tool.omni.marks", 3),
        ("[tool.omni.skus]\ncuda = []\n[tool.omni]\n", "tool.omni.skus.cuda", 2),
        ("[tool]\nomni.skus.cuda = []\n", "tool.omni.skus.cuda", 2),
        ("\n[tool]\nomni = {marks = []}\n", "tool.omni.marks", 3),
        ("[other]\nmarks = 1\n", "tool.omni.marks", 1),
    ],
)
def test_the_line_of_a_key(text, path, line):
    assert line_of(text, path) == line


@given(st.text(st.sampled_from("[]tolmni.=#\"' \n"), max_size=40))
def test_any_text_has_such_a_line(text):
    assert 1 <= line_of(text, "tool.omni.x") <= len(text.splitlines()) + 1
    assert markers_in(text) == ()
