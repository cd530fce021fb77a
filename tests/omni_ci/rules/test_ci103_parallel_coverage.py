from __future__ import annotations

STEPS = """
    - label: Bagel
      {many}
      commands: [scripts/run_cov_split.sh --model-id bagel --offline tests/a.py]
"""
BLIND = 'buildkite-agent artifact upload "coverage-*-$BUILDKITE_STEP_ID.xml.gz"\n'


def test_a_script_that_names_reports_by_the_step_alone_is_found(found):
    files = {"scripts/run_cov_split.sh": BLIND}
    assert found("CI103", STEPS.format(many="parallelism: 3"), files) == [
        "step 'Bagel': runs scripts/run_cov_split.sh in 3 jobs of one step id, and the script does not tell them apart"
    ]
    assert len(found("CI103", STEPS.format(many="matrix: [a, b]"), files)) == 1


def test_one_job_or_a_script_that_knows_the_job_is_fine(found):
    assert found("CI103", STEPS.format(many="priority: 1"), {"scripts/run_cov_split.sh": BLIND}) == []
    for script in ('exec omni-ci cov split "$@"\n', "echo $BUILDKITE_PARALLEL_JOB\n"):
        files = {"scripts/run_cov_split.sh": script}
        assert found("CI103", STEPS.format(many="parallelism: 3"), files) == []
