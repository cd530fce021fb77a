"""A bootstrap file with its conditions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from omni_ci.policy import default_policy
from omni_ci.starting.bootstrap import (
    SWEEP_VARIABLE,
    Bootstrapped,
    Fate,
    annotation,
    bootstrapped,
    document,
    is_worth_a_note,
)
from omni_ci.starting.builds import Situation, Start
from omni_ci.starting.skipping import Decision, Kind
from omni_ci.yaml.loading import load_pipeline
from omni_ci.yaml.model import Group, PlainStep, Step
from omni_hardware.errors import InputError

FILE = """\
steps:
  - {label: Image, key: image-build, commands: make image}
  - wait
  - label: Ready
    key: upload-ready-pipeline
    if: build.creator.name != "a bot"
    env: {A: "1"}
    commands: omni-ci upload $$OMNI_CI_SWEEP ready.yml
  - {label: Nightly, key: upload-nightly-pipeline, commands: omni-ci upload nightly.yml}
  - {trigger: other-pipeline, key: upload-weekly-pipeline}
  - group: Merges
    key: upload-merge-pipeline
    steps: [{label: Merge, key: inner, commands: omni-ci upload merge.yml}]
  - {label: Lint, key: lint, commands: make lint}
"""
NORMAL = Decision(kind=Kind.NORMAL, because="product changed")
SKIP_ALL = Decision(kind=Kind.SKIP_ALL, because="only <b>docs</b>")


def made(
    decision: Decision = NORMAL,
    platform: str = "cuda",
    text: str = FILE,
    environ: dict[str, str] | None = None,
) -> Bootstrapped:
    situation = Situation(policy=default_policy(), platform=platform, decision=decision)
    return bootstrapped(load_pipeline(text, name="boot.yml"), situation, environ=environ or {})


def part(found: Bootstrapped, key: str) -> Any:
    parts = [*found.pipeline.steps, *(leaf for _, leaf in found.pipeline.leaves())]
    return next(one for one in parts if getattr(one, "key", None) == key)


def test_every_kind_of_step_gets_its_condition() -> None:
    found = made()
    assert part(found, "image-build").if_ is None
    ready, weekly, merge = (part(found, f"upload-{name}-pipeline") for name in ("ready", "weekly", "merge"))
    assert isinstance(ready, Step)
    assert ready.if_.endswith(' && (build.creator.name != "a bot")')
    assert isinstance(weekly, PlainStep)
    assert 'includes "weekly-test"' in weekly.body["if"]
    assert isinstance(merge, Group)
    assert 'includes "merge-test"' in merge.if_
    assert part(found, "inner").if_ is None
    assert part(found, "lint").if_ is None
    assert found.runs == {leaf.ident for _, leaf in found.pipeline.leaves()}


def test_what_does_not_start_is_not_uploaded_with_its_reason() -> None:
    found = made(SKIP_ALL, "npu")
    assert found.runs == {"image-build", "wait", "upload-nightly-pipeline", "lint"}
    said = [str(fate) for fate in found.fates]
    assert "upload-ready-pipeline: left out, only <b>docs</b>" in said
    assert any(
        line.startswith("upload-merge-pipeline: left out, merge does not start on npu") for line in said
    )
    assert any(line.startswith("image-build: if (build.branch") for line in said)
    assert "lint: as written" in said


def test_a_gate_goes_where_nothing_stands_behind_it() -> None:
    text = "steps:\n  - {label: L, key: lint, commands: x}\n  - wait\n  - {label: M, key: upload-merge-pipeline, commands: x}\n"
    assert made(SKIP_ALL, "npu", text).runs == {"lint"}
    assert made(NORMAL, "cuda", text).runs == {"lint", "wait", "upload-merge-pipeline"}


def test_a_sweep_is_told_to_the_steps_of_tiers_that_have_one() -> None:
    weekly = made(environ={"BUILDKITE_BRANCH": "main", "WEEKLY": "1"})
    assert part(weekly, "upload-ready-pipeline").env == {"A": "1", SWEEP_VARIABLE: "--e2e"}
    assert part(made(), "upload-ready-pipeline").env == {"A": "1", SWEEP_VARIABLE: ""}
    assert part(weekly, "upload-nightly-pipeline").env is None
    on_npu = made(platform="npu", environ={"BUILDKITE_BRANCH": "main", "WEEKLY": "1"})
    assert part(on_npu, "upload-ready-pipeline").env == {"A": "1"}


def test_a_wrong_key_is_named_with_its_line() -> None:
    text = FILE.replace("upload-nightly-pipeline", "upload-nigthly-pipeline")
    with pytest.raises(
        InputError, match=r"^boot.yml:9: key 'upload-nigthly-pipeline'.*did you mean 'nightly'"
    ):
        made(text=text)


def test_the_annotation_escapes() -> None:
    found = made(SKIP_ALL, "npu")
    shown = annotation(found, SKIP_ALL, title="a|b`c")
    assert "only &lt;b&gt;docs&lt;/b&gt;" in shown
    assert "a&#124;b&#96;c" in shown
    assert "<b>docs" not in shown
    assert b"<b>a? b</b>" in annotation(found, SKIP_ALL, title="a\udc80\u2028b").encode()


def test_a_long_condition_is_shown_whole() -> None:
    labels = " || ".join(f'build.env("VARIABLE_{at}") == "1"' for at in range(60))
    fate = Fate(title="nightly", start=Start(condition=labels))
    shown = annotation(replace(made(), fates=(fate,)), NORMAL, title="x")
    assert "VARIABLE_59" in shown


def test_the_record_is_complete() -> None:
    found = made(SKIP_ALL, "npu")
    kept = document(found, Situation(policy=default_policy(), platform="npu", decision=SKIP_ALL))
    assert kept["decision"] == {"kind": "skip_all", "because": "only <b>docs</b>", "run": []}
    assert [step["step"] for step in kept["steps"] if not step["uploaded"]] == [
        "upload-ready-pipeline",
        "upload-weekly-pipeline",
        "upload-merge-pipeline",
    ]


def test_only_what_leaves_something_out_is_worth_a_note() -> None:
    assert [is_worth_a_note(one) for one in (NORMAL, SKIP_ALL)] == [False, True]
