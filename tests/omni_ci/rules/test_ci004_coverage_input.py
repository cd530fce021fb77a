from __future__ import annotations

FILES = {
    ".buildkite/common/run_cov_split.sh": "",
    "pyproject.toml": "[tool.coverage.run]\n",
    "omni/models/bagel/x.py": "",
    "tests/test_a.py": "",
}
STEPS = """
    - label: Bagel
      source_file_dependencies: [omni/models/bagel/{more}]
      commands: [.buildkite/common/run_cov_split.sh --model-id bagel --offline tests/test_a.py]
"""


def test_a_coverage_script_that_nothing_watches_is_found(found):
    assert found("CI004", STEPS.format(more=""), FILES) == [
        (
            "step 'Bagel': measures coverage and does not watch .buildkite/common/run_cov_split.sh, "
            "which changes what it measures"
        )
    ]


def test_watched_by_the_step_or_for_all_by_policy_is_fine(found):
    more = ", .buildkite/common/run_cov_split.sh"
    assert found("CI004", STEPS.format(more=more), FILES) == []
    policy = "schema: 1\ncoverage: {inputs: [pyproject.toml, .buildkite/common/run_cov_split.sh]}\n"
    assert found("CI004", STEPS.format(more=""), FILES | {".buildkite/policy.yml": policy}) == []


def test_a_policy_that_leaves_the_settings_out_leaves_them_to_the_step(found):
    policy = "schema: 1\ncoverage: {inputs: [.buildkite/common/run_cov_split.sh]}\n"
    (one,) = found("CI004", STEPS.format(more=""), FILES | {".buildkite/policy.yml": policy})
    assert "does not watch pyproject.toml" in one
