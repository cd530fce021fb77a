from __future__ import annotations


def test_tests_in_the_background_whose_status_nobody_asks_for_are_found(found):
    steps = """
        - label: A
          commands: ["pytest tests/a & pytest tests/b & wait"]
    """
    message = "step 'A': runs tests in the background, and nothing waits for their status"
    assert found("CI403", steps) == [message, message]


def test_a_wait_for_each_and_a_server_in_the_background_are_fine(found):
    steps = """
        - label: A
          commands: ['pytest tests/a & one=$$!; pytest tests/b & wait "$$one" "$$!"']
        - label: B
          commands: ["serve --port 80 &", pytest tests, wait]
    """
    assert found("CI403", steps) == []
