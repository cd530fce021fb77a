from __future__ import annotations

STEPS = """
    - label: LoRA
      source_file_dependencies: [pkg/lora/]
      commands: [pytest tests/test_lora.py]
"""
FILES = {
    "pkg/__init__.py": "",
    "pkg/lora/__init__.py": "",
    "pkg/lora/layers.py": "from pkg import config\n",
    "pkg/outputs.py": "import pkg.deep\n",
    "pkg/config.py": "",
    "pkg/deep.py": "",
}


def test_vllm42221_an_import_that_a_narrowed_list_omits_is_found(asked):
    """Dependencies were narrowed to a folder; the tests import a module beside it, and break without having run."""
    tests = {"tests/test_lora.py": "from pkg.outputs import RequestOutput\n\ndef test_a(): pass\n"}
    (one,) = asked("CI002", STEPS, FILES | tests)
    assert one.message == (
        "step 'LoRA': does not watch pkg/outputs.py, which its tests import: tests/test_lora.py → pkg/outputs.py"
    )
    assert one.key == "pkg/outputs.py"


def test_vllm42223_what_a_watched_module_imports_is_asked_too(found):
    """The test's own imports are covered, and what they need is not."""
    tests = {"tests/test_lora.py": "from pkg.lora.layers import Layer\n\ndef test_a(): pass\n"}
    assert found("CI002", STEPS, FILES | tests) == [
        (
            "step 'LoRA': does not watch pkg/config.py, which its tests import: "
            "tests/test_lora.py → pkg/lora/layers.py → pkg/config.py"
        )
    ]


def test_a_folder_of_which_nothing_is_watched_is_told_once(found):
    tests = {
        "other/a.py": "", "other/b.py": "",
        "tests/test_lora.py": "import other.a\nimport other.b\n\ndef test_a(): pass\n",
    }  # fmt: skip
    assert found("CI002", STEPS, FILES | tests) == [
        "step 'LoRA': does not watch other/, 2 files of which its tests import: tests/test_lora.py → other/a.py"
    ]


def test_the_tests_themselves_their_conftests_and_what_counts_for_all_are_covered(found):
    tests = {
        ".buildkite/dependencies.yml": "schema: 1\nsource_file_dependencies:\n  source_filter_fallback: [helpers/]\n",
        "helpers/__init__.py": "x = 1\n",
        "tests/conftest.py": "import pkg.lora.layers2\n",
        "pkg/lora/layers2.py": "",
        "tests/test_lora.py": "import helpers\nimport json\nfrom pkg.lora import layers2\n\ndef test_a(): pass\n",
    }
    assert found("CI002", STEPS, FILES | tests) == []


def test_what_only_a_type_checker_or_an_uncalled_function_reads_is_no_import(found):
    tests = {
        "tests/test_lora.py": "import pkg.lora.lazy\n\ndef test_a(): pass\n",
        "pkg/lora/lazy.py": (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pkg.outputs\n"
            "def load():\n    import pkg.config\n"
        ),
    }
    assert found("CI002", STEPS, FILES | tests) == []


def test_a_test_that_the_step_does_not_select_imports_nothing_for_it(found):
    steps = STEPS.replace("tests/test_lora.py", "tests -m cuda")
    tests = {
        "tests/test_lora.py": "import pytest\n@pytest.mark.cuda\ndef test_a(): pass\n",
        "tests/test_other.py": "import pytest\nimport pkg.outputs\n@pytest.mark.rocm\ndef test_a(): pass\n",
    }
    assert found("CI002", steps, FILES | tests) == []


def test_a_step_that_always_runs_is_not_asked(found):
    steps = "- {label: All, commands: [pytest tests/test_lora.py]}"
    assert found("CI002", steps, FILES | {"tests/test_lora.py": "import pkg.outputs\n"}) == []


def test_a_step_that_counts_its_imports_itself_is_fine(asked):
    tests = {"tests/test_lora.py": "from pkg.outputs import RequestOutput\n\ndef test_a(): pass\n"}
    said = STEPS.replace("label: LoRA", "label: LoRA\n      imports: {}")
    assert asked("CI002", said.format("union"), FILES | tests) == []
    union = FILES | tests | {".buildkite/policy.yml": "schema: 1\nimports: union\n"}
    assert [one.key for one in asked("CI002", said.format("report"), union)] == ["pkg/outputs.py"]
