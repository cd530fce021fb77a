from __future__ import annotations

POLICY = {".buildkite/policy.yml": "schema: 1\npods: {secrets: {HF_TOKEN: hf-token-secret/token}}\n"}


def test_vllm_omni7118_an_environment_that_shadows_the_pods_secret_is_found(asked):
    """A build's own HF_TOKEN won over the pod's secret, and every download ended with 401."""
    steps = """
        - {label: A, mirror_hardwares: l4_1, commands: [pytest a]}
        - {label: B, mirror_hardwares: l4_1, env: {HF_TOKEN: ""}, commands: [pytest b]}
    """
    first, second = asked("CI601", steps, POLICY, top='env: {HF_TOKEN: ""}\n')
    assert (first.line, first.message) == (
        1, "step 'A': the file's env HF_TOKEN takes the place of the pod's secret of that name",
    )  # fmt: skip
    assert (second.line, second.message) == (
        4, "step 'B': env HF_TOKEN takes the place of the pod's secret of that name",
    )  # fmt: skip


def test_another_name_and_a_pod_without_the_secret_are_fine(found):
    steps = """
        - {label: A, mirror_hardwares: l4_1, env: {HF_HOME: /x}, commands: [pytest a]}
        - {label: B, agents: {queue: cpu}, env: {HF_TOKEN: ""}, commands: [pytest b]}
    """
    assert found("CI601", steps, POLICY) == []
