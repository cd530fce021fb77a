from __future__ import annotations


def test_a_report_that_nobody_uploads_is_found(found):
    steps = """
        - {label: A, commands: [pytest tests --cov=omni --cov-report=xml]}
        - {label: B, artifact_paths: "logs/*", commands: ["pytest --cov --cov-report xml:coverage-$$BUILDKITE_PARALLEL_JOB.xml"]}
    """
    assert found("CI504", steps) == [
        "step 'A': writes the coverage report coverage.xml, which is no artifact of it",
        "step 'B': writes the coverage report coverage-$BUILDKITE_PARALLEL_JOB.xml, which is no artifact of it",
    ]


def test_declared_uploaded_split_and_not_measured_reports_are_fine(found):
    steps = """
        - {label: A, artifact_paths: "coverage*.xml", commands: ["pytest --cov --cov-report=xml:coverage-a.xml"]}
        - {label: B, commands: ["pytest --cov --cov-report=xml", 'buildkite-agent artifact upload "*.xml"']}
        - {label: C, commands: ["scripts/run_cov_split.sh --model-id m --offline a -- --cov-report=xml"]}
        - {label: D, commands: [pytest --cov=omni --cov-report=term]}
    """
    assert found("CI504", steps) == []
