"""Import statements followed through real text, on trees written down here."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from omni_ci.repository.imports import ImportGraph, chain, source_roots


def graph(files: dict[str, str], *roots: str) -> ImportGraph:
    return ImportGraph(frozenset(files), files.get, roots or ("", "src"))


def test_every_spelling_of_an_import_leads_to_its_file():
    files = {
        "pkg/__init__.py": "",
        "pkg/a.py": "",
        "pkg/sub/__init__.py": "X = 1\n",
        "pkg/sub/b.py": "from . import c\nfrom .. import a\nfrom ..sub import X\n",
        "pkg/sub/c.py": "",
        "tests/test_x.py": (
            "import pkg.a as one\nfrom pkg import sub\nfrom pkg.sub.b import anything\nimport json, os.path\n"
            'import importlib\nimportlib.import_module("pkg.sub.c")\n'
        ),
    }
    found = graph(files)
    assert found.imports("tests/test_x.py") == (
        "pkg/a.py",
        "pkg/sub/__init__.py",
        "pkg/sub/b.py",
        "pkg/sub/c.py",
    )
    assert found.imports("pkg/sub/b.py") == ("pkg/sub/c.py", "pkg/a.py", "pkg/sub/__init__.py")


def test_a_package_on_the_way_counts_where_it_does_something():
    files = {
        "pkg/__init__.py": '"""Nothing but words."""\n',
        "pkg/loud/__init__.py": "import pkg.registry\n",
        "pkg/loud/a.py": "",
        "pkg/registry.py": "",
        "t.py": "from pkg.loud import a\n",
    }
    assert graph(files).imports("t.py") == ("pkg/loud/__init__.py", "pkg/loud/a.py")


def test_a_relative_import_of_a_name_is_its_package():
    files = {"pkg/__init__.py": "X = 1\n", "pkg/a.py": "from . import X\n"}
    assert graph(files).imports("pkg/a.py") == ("pkg/__init__.py",)


def test_what_only_a_type_checker_reads_is_no_import_and_a_function_is_asked_for():
    files = {
        "a.py": "import typing\nif typing.TYPE_CHECKING:\n    import b\nelse:\n    import c\ndef f():\n    import d\n",
        "b.py": "", "c.py": "", "d.py": "",
    }  # fmt: skip
    assert graph(files).imports("a.py") == ("c.py", "d.py")
    assert graph(files).imports("a.py", lazy=False) == ("c.py",)


def test_statements_below_try_with_loops_and_match_are_read():
    text = (
        "try:\n    import b\nexcept ImportError:\n    import c\nfinally:\n    import d\n"
        "match 1:\n    case 1:\n        import e\nclass K:\n    import f\n"
    )
    files = {"a.py": text, **dict.fromkeys(("b.py", "c.py", "d.py", "e.py", "f.py"), "")}
    assert graph(files).imports("a.py") == ("b.py", "d.py", "c.py", "e.py", "f.py")


def test_a_helper_beside_a_test_is_found_from_its_own_folder():
    files = {"tests/x/helper.py": "", "tests/x/test_a.py": "import helper\n", "helper.py": ""}
    assert graph(files).imports("tests/x/test_a.py") == ("helper.py",)
    del files["helper.py"]
    assert graph(files).imports("tests/x/test_a.py") == ("tests/x/helper.py",)


def test_a_closure_goes_through_what_is_wanted_and_tells_the_shortest_way():
    files = {
        "t.py": "import a\nimport b\n", "a.py": "import c\n", "b.py": "import d\n", "c.py": "import d\n",
        "d.py": "import t\nimport e\n", "e.py": "",
    }  # fmt: skip
    found = graph(files).closure(["t.py"])
    assert found == {
        "t.py": None,
        "a.py": "t.py",
        "b.py": "t.py",
        "c.py": "a.py",
        "d.py": "b.py",
        "e.py": "d.py",
    }
    assert chain(found, "e.py") == "t.py → b.py → d.py → e.py"
    assert set(graph(files).closure(["t.py"], through=lambda path: path != "b.py")) == {
        "t.py", "a.py", "b.py", "c.py", "d.py", "e.py",
    }  # fmt: skip
    assert set(graph(files).closure(["t.py"], through=lambda path: path == "a.py")) == {
        "t.py",
        "a.py",
        "b.py",
        "c.py",
    }


def test_a_file_is_read_once_however_many_steps_lead_to_it():
    files = {f"t{number}.py": "import shared\n" for number in range(50)}
    files |= {"shared.py": "import deep\n", "deep.py": ""}
    seen: list[str] = []

    def read(path: str) -> str | None:
        seen.append(path)
        return files.get(path)

    found = ImportGraph(frozenset(files), read)
    for number in range(50):
        assert set(found.closure([f"t{number}.py"])) == {f"t{number}.py", "shared.py", "deep.py"}
    assert sorted(seen) == sorted(files)


def test_roots_are_those_that_the_project_names():
    pyproject = {
        "tool": {
            "hatch": {"build": {"targets": {"wheel": {"packages": ["omni", "ci/omni_ci"]}}}},
            "pytest": {"ini_options": {"pythonpath": ["tools", "."]}},
            "setuptools": {"packages": {"find": {"where": ["python"]}}, "package-dir": {"": "lib"}},
        }
    }
    assert source_roots(pyproject) == ("", "src", "ci", "tools", "python", "lib")
    assert source_roots({}) == ("", "src")
    files = {"ci/omni_ci/repository/git.py": "", "t.py": "import omni_ci.repository.git\n"}
    assert graph(files, "", "ci").imports("t.py") == ("ci/omni_ci/repository/git.py",)


def test_text_that_is_no_python_imports_nothing():
    assert graph({"a.py": "import b\nthis is not (\n", "b.py": ""}).imports("a.py") == ()


@given(st.text(max_size=200))
def test_no_text_breaks_the_reading(text):
    assert isinstance(graph({"a.py": text}).imports("a.py"), tuple)
