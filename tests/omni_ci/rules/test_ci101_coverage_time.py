from __future__ import annotations

RUN = "scripts/run_cov_split.sh --model-id bagel --offline tests/test_a.py -- -m 'cuda'"
FILES = {"tests/test_a.py": "def test_a(): pass\n"}


def test_a_timeout_around_the_two_runs_is_found(found):
    steps = f"""
        - label: Bagel
          timeout_in_minutes: 60
          commands: ["timeout 40m {RUN}"]
        - label: Nested
          timeout_in_minutes: 60
          commands:
            - |
              timeout 40m bash -c "{RUN}"
    """
    wraps = "wraps its coverage runs in `timeout`; write the minutes as timeout_in_minutes"
    assert found("CI101", steps, FILES) == [f"step 'Bagel': {wraps}", f"step 'Nested': {wraps}"]


def test_a_pilot_without_a_timeout_is_found(found):
    assert found("CI101", f'- {{label: Bagel, commands: ["{RUN}"]}}', FILES) == [
        "step 'Bagel': measures coverage without timeout_in_minutes"
    ]


def test_twice_the_minutes_of_the_plain_step_are_needed(found):
    steps = """
        - {{label: Plain, mirror_hardwares: l4_1, timeout_in_minutes: 40, commands: [pytest tests/test_a.py]}}
        - {{label: Bagel, mirror_hardwares: l4_1, timeout_in_minutes: {minutes}, commands: ["{run}"]}}
    """
    assert found("CI101", steps.format(minutes=79, run=RUN), FILES) == [
        "step 'Bagel': runs its tests twice in 79 minutes, and step 'Plain' has 40 for running them once; give it 80"
    ]
    assert found("CI101", steps.format(minutes=80, run=RUN), FILES) == []
