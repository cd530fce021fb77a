"""A repository that is not this one works from the guide's pages alone: their commands, on the built wheel."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs/user_guide"
ELSEWHERE = {"runtime"}  # needs torch: tests/e2e/test_docs.py
ALONE = {"servers", "runner", "orchestrator"}  # ports, signals, processes that are looked for
PAGES = sorted(path.stem for path in GUIDE.glob("*.md") if path.stem not in ELSEWHERE)
MINE = "pytest-omni"


@pytest.fixture
def docs_pages(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("docs_pages")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.process] if name in ALONE else []) for name in PAGES]
)
def test_a_page_is_all_that_a_repository_needs(name, docs_pages, environment_with, tmp_path):
    page = (GUIDE / f"{name}.md").read_text(encoding="utf-8")
    named = [Requirement(word) for word in docs_pages.requirements(page)]
    assert MINE in {need.name for need in named}, "the page does not say what to install"
    extras = sorted(extra for need in named if need.name == MINE for extra in need.extras)
    others = tuple(sorted({need.name for need in named} - {MINE}))
    environment = environment_with(*extras, others=others)
    problems = docs_pages.check(page, environment.environ(tmp_path))
    assert not problems, "\n\n".join(problems)


def page(*lines: str) -> str:
    return "\n".join(["```console", *lines, "```", ""])


@pytest.mark.parametrize(
    ("shown", "seen"),
    [
        (["$ printf 'a b\\nc\\nd\\n'", "a b", "d"], True),
        (["$ printf 'a b\\nc\\nd\\n'", "a … b", "…", "d"], False),
        (["$ printf 'a b\\nc\\nd\\n'", "a…b", "…", "d"], True),
        (["$ printf 'a b\\nc\\nd\\n'", "d", "c"], False),
        (["$ export A=1 && cd /", "$ pwd; echo $A", "/", "1"], True),
        (["$ false"], False),
        (["$ false", "$ echo later", "later"], False),
        (['$ false; echo "exit $?"', "exit 1"], True),
        (['$ false; echo "exit $?"', "exit 0"], False),
        (['$ false; echo "exit $?"'], False),
        (["no command here"], False),
    ],
)
def test_what_a_page_shows_is_held_against_what_is_printed(shown, seen, docs_pages):
    assert (docs_pages.check(page(*shown), {"PATH": "/usr/bin:/bin"}) == []) is seen


def test_files_are_there_before_the_commands_below_them(docs_pages):
    shown = '```text title="a/b.txt"\nfirst\n```\n' + page("$ cat a/b.txt", "first")
    again = '```text title="a/b.txt"\nsecond\n```\n' + page("$ cat a/b.txt", "second")
    assert docs_pages.check(shown + again, {"PATH": "/usr/bin:/bin"}) == []


def test_a_page_that_is_not_as_it_says_names_command_output_and_line(docs_pages):
    (problem,) = docs_pages.check(page("$ echo this", "that"), {"PATH": "/usr/bin:/bin"})
    assert problem == "$ echo this\nthis\n--- the page shows here: that"


@pytest.mark.skipif(shutil.which("sleep") is None, reason="needs sleep")
def test_what_a_page_leaves_running_ends_with_it(docs_pages):
    assert docs_pages.check(page("$ sleep 600 &", "$ echo done", "done"), {"PATH": "/usr/bin:/bin"}) == []
