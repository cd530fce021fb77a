from __future__ import annotations

POLICY = """\
schema: 1
labels:
  text: [txt]
  speech:
    - speech
    - "*tts*"
  all: ["*"]
"""
STEPS = """
    - group: Audio
      steps:
        - {label: Speech in, key: speech, commands: [x]}
    - wait: ~
    - {label: Text out, commands: [y]}
"""


def test_a_pattern_that_matches_no_step_is_found_at_its_own_line(asked):
    first, second = asked("CI008", STEPS, {".buildkite/policy.yml": POLICY})
    assert (first.file, first.line, first.subject, first.key) == (
        ".buildkite/policy.yml", 3, ".buildkite/policy.yml#text", "txt",
    )  # fmt: skip
    assert first.message.startswith(
        "label 'text' asks for steps 'txt', and no step of any pipeline has such a key, label or group (known: "
    )
    assert (second.line, second.key) == (6, "*tts*")


def test_the_nearest_name_is_named(found):
    (one,) = found("CI008", STEPS, {".buildkite/policy.yml": "schema: 1\nlabels: {a: audio}\n"})
    assert one.endswith("(did you mean 'Audio'?)")


def test_key_label_group_and_slug_are_names_in_any_pipeline(found):
    policy = "schema: 1\nlabels: {a: [speech, Speech in, Audio, text-out, '*NPU*']}\n"
    other = "steps:\n  - {label: On NPU, commands: [z]}\n"
    files = {".buildkite/policy.yml": policy, ".buildkite/npu/test-ready.yml": other}
    assert found("CI008", STEPS, files) == []


def test_a_policy_beside_a_pipeline_is_that_pipelines(found):
    policy = "schema: 1\nlabels: {a: [On NPU]}\n"
    other = "steps:\n  - {label: On NPU, commands: [z]}\n"
    files = {".buildkite/cuda/policy.yml": policy, ".buildkite/npu/test-ready.yml": other}
    (one,) = found("CI008", STEPS, files)
    assert one.startswith("label 'a' asks for steps 'On NPU'")


def test_the_labels_of_the_package_are_not_judged(found):
    assert found("CI008", STEPS) == []
