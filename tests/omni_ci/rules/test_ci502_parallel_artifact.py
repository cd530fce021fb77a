from __future__ import annotations

STEP = """
    - label: A
      {many}
      artifact_paths: ["*.xml"]
      commands: ["pytest tests --junitxml={name}"]
"""


def test_docs1607_jobs_of_a_step_that_upload_one_path_are_found(found):
    """`--step` on a parallel step returned the last job's artifact only; the other shards' were lost."""
    for many in ("parallelism: 3", "matrix: [a, b]"):
        assert found("CI502", STEP.format(many=many, name="r.xml")) == [
            "step 'A': uploads r.xml from each of its jobs; put $$BUILDKITE_PARALLEL_JOB into the name"
        ]


def test_a_name_of_the_job_and_a_single_job_are_fine(found):
    assert found("CI502", STEP.format(many="parallelism: 3", name="r-$$BUILDKITE_PARALLEL_JOB.xml")) == []
    assert found("CI502", STEP.format(many="parallelism: 1", name="r.xml")) == []
