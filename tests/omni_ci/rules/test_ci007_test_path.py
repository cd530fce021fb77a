from __future__ import annotations

FILES = {"tests/e2e/test_bagel.py": "def test_a(): pass\n", "tests/assets/x.json": "{}"}


def test_opensre3899_a_test_path_that_is_gone_is_found(asked):
    """A stale path ends pytest with 4, and took a whole shard's tests with it."""
    steps = "- {label: Bagel, commands: ['pytest tests/test_bagel.py tests/e2e/test_bagel.py']}"
    (one,) = asked("CI007", steps, FILES)
    assert one.message == (
        "step 'Bagel': runs tests/test_bagel.py, which does not exist (did you mean 'tests/e2e/test_bagel.py'?)"
    )
    assert one.key == "tests/test_bagel.py"


def test_what_exists_or_is_known_at_run_time_only_is_fine(found):
    steps = """
        - label: Bagel
          commands:
            - pytest tests/e2e/test_bagel.py::test_a tests/e2e tests/*/test_b*.py "$$TESTS" --config tests/gone.json
            - pytest tests/assets
        - label: Fetched
          commands: ["git clone https://example.org/x", "pytest x/tests"]
    """
    assert found("CI007", steps, FILES) == []
