"""`omni-ci lint` in a repository of its own."""

from __future__ import annotations

import json


def dead(scratch) -> None:
    """Let a step watch a folder that is gone."""
    scratch.git("rm", "-q", "-r", "src")
    scratch.commit()


def test_a_clean_repository_is_0_with_a_sentence(scratch):
    ran = scratch.run("lint")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("nothing found by ")


def test_a_finding_is_3_and_one_line_with_its_place(scratch):
    dead(scratch)
    ran = scratch.run("lint")
    assert ran.code == 3
    assert ran.out.startswith(".buildkite/cuda/test-ready.yml:8: CI001 step 'Engine': watches src/engine/")
    assert ran.out.count("\n") == 1
    assert "1 finding by" in ran.err


def test_json_and_the_annotation_are_for_programs(scratch):
    dead(scratch)
    document = json.loads(scratch.run("lint", "--format", "json").out)
    assert [(one["code"], one["subject"], one["key"]) for one in document["findings"]] == [
        ("CI001", ".buildkite/cuda/test-ready.yml#engine", "src/engine/")
    ]
    assert "<td>CI001</td>" in scratch.run("lint", "--format", "annotation").out


def test_the_rules_are_listed(scratch):
    ran = scratch.run("lint", "--list")
    assert ran.code == 0
    assert "CI001  A watched path exists.\n" in ran.out
    assert len(scratch.run("lint", "--list", "--select", "ci001,CI002").out.splitlines()) == 3


def test_rules_are_chosen_and_left_out_by_code(scratch):
    dead(scratch)
    assert scratch.run("lint", "--select", "CI002", "--select", "CI003").code == 0
    assert scratch.run("lint", "--ignore", "CI001").code == 0
    assert scratch.run("lint", "--select", "ci001").code == 3


def test_an_unknown_code_is_told_with_the_nearest(scratch):
    for flag in ("--select", "--ignore"):
        ran = scratch.run("lint", flag, "CI0001")
        assert ran.code == 2
        assert "no rule 'CI0001' (did you mean 'CI001'?); `omni-ci lint --list` shows them" in ran.err
        assert "names nothing" in scratch.run("lint", flag, "").err


def test_a_baseline_covers_what_is_known_and_reports_what_is_gone(scratch):
    dead(scratch)
    ran = scratch.run("lint", "--write-baseline", "known.json")
    assert (ran.code, ran.err) == (0, "1 finding written to known.json\n")
    ran = scratch.run("lint", "--baseline", "known.json")
    assert ran.code == 0
    assert "nothing found, 1 known from the baseline" in ran.err
    scratch.edit(".buildkite/cuda/test-ready.yml", "timeout_in_minutes: 5\n", "# none\n")
    ran = scratch.run("lint", "--baseline", "known.json")
    assert (ran.code, ran.out.count("\n")) == (3, 1)
    assert "CI201 step 'Docs'" in ran.out
    scratch.write({"src/engine/core.py": ""})
    ran = scratch.run("lint", "--baseline", "known.json")
    assert (
        "the baseline's CI001 .buildkite/cuda/test-ready.yml#engine (src/engine/) is not found any more"
        in ran.err
    )


def test_a_baseline_that_is_missing_or_wrong_is_one_message(scratch):
    assert (
        "--baseline gone.json: cannot be read: No such file"
        in scratch.run("lint", "--baseline", "gone.json").err
    )
    scratch.write({"wrong.json": "{"})
    ran = scratch.run("lint", "--baseline", "wrong.json")
    assert (ran.code, ran.err) == (
        2,
        "omni-ci: wrong.json:1:2: no JSON: Expecting property name enclosed in double quotes\n",
    )
    ran = scratch.run("lint", "--write-baseline", "no/such/folder.json")
    assert ran.code == 2
    assert "--write-baseline no/such/folder.json: cannot be written" in ran.err


def test_named_files_are_judged_alone_and_what_cannot_be_answered_is_said(scratch):
    broken = "steps:\n  - {label: X, commands: [pytest gone.py]}\n"
    scratch.write({".buildkite/amd/test-ready.yml": broken})
    ran = scratch.run("lint", ".buildkite/cuda/test-ready.yml")
    assert (ran.code, ran.out) == (0, "")
    assert "note: CI003 asks about all pipelines at once; name no files to have it answered" in ran.err
    assert scratch.run("lint", ".buildkite/amd/test-ready.yml").code == 3


def test_a_neighbour_that_cannot_be_loaded_is_said_and_a_named_file_is_an_error(scratch):
    scratch.write({".buildkite/amd/test-ready.yml": "steps:\n  - {label: X, comands: [x]}\n"})
    ran = scratch.run("lint", ".buildkite/cuda/test-ready.yml")
    assert ran.code == 0
    assert "note: .buildkite/amd/test-ready.yml is not looked at: " in ran.err
    ran = scratch.run("lint")
    assert ran.code == 2
    assert "did you mean" in ran.err


def test_a_file_or_repository_without_pipelines_is_one_message(scratch):
    ran = scratch.run("lint", "gone.yml")
    assert ran.code == 2
    known = "there is no such pipeline file (known: .buildkite/cuda/test-ready.yml)\n"
    assert ran.err == f"omni-ci: gone.yml: {known}"
    scratch.git("rm", "-q", "-r", ".buildkite")
    assert "no pipeline matches .buildkite/*/test-*.yml" in scratch.run("lint").err


def test_a_step_that_lives_only_in_buildkite_is_named(scratch):
    scratch.edit(".buildkite/cuda/test-ready.yml", "key: docs", "key: docs\n    depends_on: outside")
    ran = scratch.run("lint")
    assert "CI205 S3 step 'Docs': depends_on 'outside', a key no pipeline file has" in ran.out
    assert scratch.run("lint", "--known-key", "outside").code == 0


def test_no_rule_at_all_is_no_success(scratch):
    ran = scratch.run("lint", "--select", "CI001", "--ignore", "CI001")
    assert (ran.code, ran.out) == (2, "")
    assert "no rule is left" in ran.err


def test_a_baseline_overwrites_a_baseline_and_nothing_else(scratch):
    scratch.write({"mine.json": "{}"})
    kept = scratch.run("lint", "--write-baseline", "mine.json")
    assert kept.code == 2
    assert (scratch.root / "mine.json").read_text() == "{}"
    assert scratch.run("lint", "--write-baseline", "new.json").code == 0
    assert scratch.run("lint", "--write-baseline", "new.json").code == 0
