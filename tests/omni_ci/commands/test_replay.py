"""`--from selection.json`: the verdicts of a stored selection, without git, and what has changed since."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest
import yaml

PIPELINE = ".buildkite/cuda/test-ready.yml"


@pytest.fixture
def stored(scratch: Any) -> Any:
    """A repository whose selection of one change lies in s.json."""
    scratch.commit({"src/engine/core.py": "x = 2\n"})
    scratch.write({"s.json": scratch.run("plan", "--label", "ready", "--format", "json").out})
    return scratch


def edited(scratch: Any, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads((scratch.root / "s.json").read_text(encoding="utf-8"))
    change(document)
    scratch.write({"s.json": json.dumps(document)})


def test_a_replay_is_the_same_selection_without_git(stored: Any) -> None:
    before = (stored.root / "s.json").read_text(encoding="utf-8")
    shutil.rmtree(stored.root / ".git")
    ran = stored.run("plan", "--from", "s.json", "--format", "json")
    assert ran.code == 0, ran.err
    assert ran.out == before
    assert "s.json" not in ran.err
    assert "1 changed file from" in stored.run("plan", "--from", "s.json").out
    document = yaml.safe_load(stored.run("generate", PIPELINE, "--from", "s.json").out)
    assert [step.get("group") for step in document["steps"]] == ["GPU"]


@pytest.mark.parametrize("mode", ["all", "e2e"])
def test_every_mode_replays(stored: Any, mode: str) -> None:
    stored.write({"s.json": (text := stored.run("plan", f"--{mode}", "--format", "json").out)})
    assert stored.run("plan", "--from", "s.json", "--format", "json").out == text


def test_unknown_changes_replay(stored: Any) -> None:
    stored.write({"s.json": (text := stored.run("plan", "--base", "nowhere", "--format", "json").out)})
    assert stored.run("plan", "--from", "s.json", "--format", "json").out == text


def test_what_differs_now_is_named(stored: Any) -> None:
    stored.edit(PIPELINE, "mirror_hardwares: l4_1", "mirror_hardwares: l4_2")
    stored.edit(PIPELINE, "label: Docs", "label: Pages")
    step = (
        "\n  - {label: New, key: new, agents: {queue: q}, commands: [x], source_file_dependencies: [no/]}\n"
    )
    text = (stored.root / PIPELINE).read_text(encoding="utf-8")
    stored.write({PIPELINE: text.rstrip() + step, ".buildkite/policy.yml": "schema: 1\ndocs: []\n"})
    ran = stored.run("plan", "--from", "s.json", "--format", "json")
    assert ran.code == 0, ran.err
    for line in (
        f"{PIPELINE}#engine: preset is 'l4_2', in s.json 'l4_1'",
        f"{PIPELINE}#docs: label is 'Pages', in s.json 'Docs'",
        f"{PIPELINE}#new is not in s.json, so it runs",
        "the policy is not the one of s.json",
    ):
        assert line in ran.err
    assert [(step["key"], step["runs"]) for step in json.loads(ran.out)["steps"]] == [
        ("engine", True), ("docs", False), ("new", True),
    ]  # fmt: skip


def test_a_step_that_is_gone_ends_the_replay(stored: Any) -> None:
    stored.edit(PIPELINE, "key: engine", "key: engines")
    ran = stored.run("plan", "--from", "s.json")
    assert ran.code == 2
    assert (
        f"s.json: there is no step {PIPELINE}#engine any more (did you mean '{PIPELINE}#engines'?)" in ran.err
    )


def test_a_file_it_does_not_know_is_refused(stored: Any) -> None:
    stored.write({".buildkite/cuda/test-merge.yml": "steps: [{label: a, commands: [x]}]\n"})
    ran = stored.run("generate", ".buildkite/cuda/test-merge.yml", "--from", "s.json")
    assert ran.code == 2
    assert "s.json has no step of .buildkite/cuda/test-merge.yml" in ran.err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(step=[]), "s.json: step: unknown key (did you mean 'steps'?)"),
        (
            lambda d: d["steps"][0].update(runns=True),
            "s.json: steps[0].runns: unknown key (did you mean 'runs'?)",
        ),
        (lambda d: d["diff"].update(basis=""), "s.json: diff.basis: unknown key"),
        (lambda d: d["config"].update(form=""), "s.json: config.form: unknown key (did you mean 'from'?)"),
        (lambda d: d["steps"][0].pop("because"), "s.json: steps[0].because is missing"),
        (lambda d: d["steps"][0].update(because=" "), "has no reason"),
        (lambda d: d["steps"][0].update(runs="yes"), "s.json: steps[0].runs is 'yes'"),
        (lambda d: d.update(schema=2), "s.json: schema is 2"),
        (lambda d: d.update(mode="some"), "s.json: mode is 'some'"),
        (
            lambda d: d["steps"].append({**d["steps"][0], "runs": not d["steps"][0]["runs"]}),
            "stands there twice; keep one verdict",
        ),
        (lambda d: d["diff"].update(known=False), '"diff" is either known, or has a reason and no files'),
    ],
)
def test_a_document_of_another_shape_is_refused(stored: Any, change: Any, message: str) -> None:
    edited(stored, change)
    ran = stored.run("plan", "--from", "s.json")
    assert ran.code == 2
    assert message in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "s.json: not JSON"),
        ("[]", "s.json: must be what `omni-ci plan --format json` prints"),
        ('{"schema": 1, "schema": 1}', "the key 'schema' stands there twice"),
        ("[" * 100_000, "s.json: not JSON"),
    ],
)
def test_a_file_that_is_no_selection_is_refused(stored: Any, text: str, message: str) -> None:
    stored.write({"s.json": text})
    ran = stored.run("plan", "--from", "s.json")
    assert ran.code == 2
    assert message in ran.err
    assert "--from no.json: there is no such file" in stored.run("plan", "--from", "no.json").err


def test_hardware_that_is_not_there_now_holds_a_stored_step_back(
    stored: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    presets = (stored.root / ".buildkite/presets.yml").read_text(encoding="utf-8")
    more = presets.split("skus:\n")[1].replace("l4:", "h100:").replace("sku: L4", "sku: H100")
    stored.write({".buildkite/presets.yml": presets + more})
    monkeypatch.setenv("MIRROR_HW", "h100")
    ran = stored.run("plan", "--from", "s.json", "--format", "json")
    assert ran.code == 0, ran.err
    step = json.loads(ran.out)["steps"][0]
    assert (step["runs"], step["rule"]) == (False, "hardware")
    assert f"{PIPELINE}#engine ran in s.json: now MIRROR_HW=h100" in ran.err


def test_a_selection_of_an_older_commit_is_told_with_both_commits(stored: Any) -> None:
    then = stored.git("rev-parse", "HEAD")
    now = stored.commit({"src/engine/core.py": "x = 3\n"})
    ran = stored.run("plan", "--from", "s.json", "--format", "json")
    assert ran.code == 0, ran.err
    assert f"note: s.json was made for {then[:12]}, and this is {now[:12]}\n" in ran.err
    assert ran.out == (stored.root / "s.json").read_text(encoding="utf-8")
    generated = stored.run("generate", PIPELINE, "--from", "s.json").err
    assert f"s.json was made for {then[:12]}, and this is {now[:12]}" in generated


def test_a_selection_of_another_repository_is_told(stored: Any) -> None:
    edited(stored, lambda document: document["diff"].update(head="f" * 40))
    now = stored.git("rev-parse", "HEAD")
    said = f"s.json was made for ffffffffffff, which is no commit of this clone, and this is {now[:12]}"
    assert said in stored.run("plan", "--from", "s.json").err


def test_a_selection_without_a_commit_is_of_no_other(stored: Any) -> None:
    stored.write({"s.json": stored.run("plan", "--changed", "docs/x.md", "--format", "json").out})
    stored.commit()
    assert "was made for" not in stored.run("plan", "--from", "s.json").err


def test_one_of_several_policies_is_no_other_policy(stored: Any) -> None:
    other = ".buildkite/amd/test-ready.yml"
    step = "steps:\n  - {label: Other, key: other, agents: {queue: q}, commands: [x]}\n"
    stored.commit({other: step, ".buildkite/amd/policy.yml": "schema: 1\ndocs: []\n"})
    stored.write({"s.json": stored.run("plan", "--format", "json").out})
    assert (
        json.loads((stored.root / "s.json").read_text(encoding="utf-8"))["config"]["policy"].count("sha256")
        == 2
    )
    for name in (PIPELINE, other):
        ran = stored.run("generate", name, "--from", "s.json")
        assert ran.code == 0, ran.err
        assert "the policy is not the one of" not in ran.err
    stored.write({".buildkite/amd/policy.yml": "schema: 1\ndocs: [x]\n"})
    assert "the policy is not the one of s.json" in stored.run("generate", other, "--from", "s.json").err
