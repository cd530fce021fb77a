from __future__ import annotations

CORE = "import pytest\n@pytest.mark.core_model\n@pytest.mark.cuda\ndef test_a(): pass\n"


def test_a_run_whose_marks_fit_no_test_is_found(found):
    steps = "- {label: A, commands: [\"pytest tests/test_a.py -m 'advanced_model and cuda'\"]}"
    assert found("CI303", steps, {"tests/test_a.py": CORE}) == [
        "step 'A': -m 'advanced_model and cuda' does not select the one test in tests/test_a.py"
    ]


def test_each_half_of_a_coverage_split_is_asked(found):
    steps = """
        - label: A
          commands:
            - scripts/run_cov_split.sh --model-id m --offline tests/test_a.py --online tests/test_b.py -- -m core_model
    """
    online = "import pytest\n@pytest.mark.slow\ndef test_b(): pass\n"
    assert found("CI303", steps, {"tests/test_a.py": CORE, "tests/test_b.py": online}) == [
        "step 'A': --online: -m 'core_model' does not select the one test in tests/test_b.py"
    ]


def test_marks_of_the_asked_platform_count(found):
    test = "from pytest_omni import hardware_test\n@hardware_test(res={'rocm': 'MI300'}, num_cards=2)\ndef test_a(): pass\n"
    steps = "- {{label: A, agents: {{queue: x}}, commands: [\"pytest tests -m '{marks}'\"]}}"
    files = {"tests/test_a.py": test}
    assert found("CI303", steps.format(marks="rocm and MI300 and cards_2"), files) == []
    assert len(found("CI303", steps.format(marks="cuda and cards_2"), files)) == 1


def test_what_cannot_be_read_for_certain_is_not_judged(found):
    steps = """
        - label: A
          commands:
            - pytest tests/test_a.py -m advanced_model -k some
            - pytest tests/test_a.py -m "$$MARKS"
            - pytest tests/test_c.py -m advanced_model
            - pytest tests/dir -m advanced_model
            - pytest tests/test_a.py -m core_model
    """
    files = {
        "tests/test_a.py": CORE,
        "tests/test_c.py": "from marks import four\n@four\ndef test_c(): pass\n",
        "tests/dir/conftest.py": "def pytest_collection_modifyitems(items):\n    items[0].add_marker('advanced_model')\n",
        "tests/dir/test_d.py": CORE,
    }
    assert found("CI303", steps, files) == []
