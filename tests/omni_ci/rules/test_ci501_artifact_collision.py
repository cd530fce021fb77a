from __future__ import annotations


def test_agent803_two_steps_that_upload_one_path_are_found(asked):
    """A download by an exact name failed: several artifacts of that name were found."""
    steps = """
        - {label: A, artifact_paths: [out/report.xml], commands: [pytest a --junitxml=out/report.xml]}
        - {label: B, commands: [pytest b, buildkite-agent artifact upload ./out/report.xml]}
    """
    (one,) = asked("CI501", steps)
    assert one.message == "step 'B': uploads out/report.xml, and so does step 'A' at line 2"
    assert (one.subject, one.key) == (".buildkite/cuda/test-ready.yml#b", "out/report.xml")


def test_agent2774_files_that_one_pattern_uploads_from_both_are_found(found):
    """A download by pattern wrote two steps' files of one name into each other."""
    steps = """
        - {label: A, artifact_paths: "*.xml", commands: [pytest a --cov --cov-report=xml:cov.xml]}
        - {label: B, artifact_paths: "cov*", commands: [pytest b --cov --cov-report=xml:cov.xml]}
    """
    assert found("CI501", steps) == ["step 'B': uploads cov.xml, and so does step 'A' at line 2"]


def test_names_that_differ_and_patterns_of_unknown_files_are_fine(found):
    steps = """
        - {label: A, artifact_paths: [a.xml, "logs/*", "x-$$BUILDKITE_STEP_ID.xml"], commands: [pytest a]}
        - {label: B, artifact_paths: [b.xml, "logs/*", "x-$$BUILDKITE_STEP_ID.xml"], commands: [pytest b]}
    """
    assert found("CI501", steps) == []
