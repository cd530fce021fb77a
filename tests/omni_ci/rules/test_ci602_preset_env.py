from __future__ import annotations

PRESETS = """\
schema: 1
fragments:
  h100_1: &h100
    agents: {{queue: h100}}
    plugins:
      - kubernetes:
          podSpec:
            containers:
              - resources: {{limits: {{nvidia.com/gpu: 1}}}}
                env:
                  - name: HF_TOKEN
                    valueFrom: {{secretKeyRef: {{name: hf, key: token}}}}
                  - {{name: HF_HOME, value: /mnt}}
  l4_1:
    agents: {{queue: l4}}
    plugins:
      - kubernetes:
          podSpec:
            containers:
              - resources: {{limits: {{nvidia.com/gpu: 1}}}}
                env: [{env}]
  cpu_1:
    agents: {{queue: cpu}}
"""
STEPS = "- {label: A, mirror_hardwares: h100_1, commands: [pytest a]}"
TOKEN = "{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf, key: token}}}"
HOME = "{name: HF_HOME, value: /mnt}"


def test_vllm_omni2008_a_secret_that_one_preset_lacks_is_found(asked):
    """The token's secret was missing on one card's preset only, which no step used yet."""
    (one,) = asked("CI602", STEPS, {".buildkite/presets.yml": PRESETS.format(env=HOME)})
    assert one.message == "preset 'l4_1' has no HF_TOKEN, which preset 'h100_1' takes from a secret"
    assert (one.file, one.subject, one.key) == (
        ".buildkite/presets.yml", ".buildkite/presets.yml#l4_1", "HF_TOKEN",
    )  # fmt: skip


def test_what_policy_requires_is_asked_of_every_preset_with_a_device(found):
    files = {
        ".buildkite/presets.yml": PRESETS.format(env=TOKEN),
        ".buildkite/policy.yml": "schema: 1\npods: {required_env: [HF_HOME]}\n",
    }
    assert found("CI602", STEPS, files) == ["preset 'l4_1' has no HF_HOME, which policy requires"]


def test_presets_of_one_environment_and_one_without_a_device_are_fine(found):
    assert found("CI602", STEPS, {".buildkite/presets.yml": PRESETS.format(env=f"{TOKEN}, {HOME}")}) == []
