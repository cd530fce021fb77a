"""What only one preset of a file lacks is said with its name, whether or not a step uses it."""

from __future__ import annotations

import textwrap

import pytest

from omni_ci.checks.presets import check_presets
from omni_ci.hardware.pods import PodRules, Pods, package_templates
from omni_ci.hardware.presets import load_presets
from omni_ci.policy import Policy, default_policy, load_policy

CONTAINER = "{image: i, resources: {limits: {nvidia.com/gpu: 1}}, env: [{name: HF_HOME, value: /hf}%s]}"
TOKEN = ", {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf, key: token}}}"
CLASS = "{agents: {queue: q, resource_class: npu-1}, image: i}"


def fragment(more: str = TOKEN) -> str:
    return "{plugins: [{kubernetes: {podSpec: {containers: [" + CONTAINER % more + "]}}}]}"


def said(text: str, policy: Policy | None = None) -> list[str]:
    presets = load_presets(textwrap.dedent(text), name="p.yml")
    pods = Pods(package_templates(), PodRules(secrets={}, infra_retry=[]))
    return [str(finding) for finding in check_presets(presets, pods, policy or default_policy())]


def test_vllm_omni2008_the_one_preset_without_the_token_is_named() -> None:
    """One machine's jobs failed with 401: the Hugging Face secret was missing on its preset alone."""
    text = f"""\
        mirror_hardwares:
          l4_1: {fragment()}
          h100_1: {fragment()}
          b200_1: {fragment(more="")}
        """
    (found,) = said(text)
    assert found == (
        "p.yml:4: PRESET preset 'b200_1' has no HF_TOKEN, a secret that l4_1, h100_1 have; give it under `secrets:`, "
        "or to all by `pods.secrets` of the policy"
    )


def test_vllm_omni2008_what_policy_requires_is_missed_by_name() -> None:
    """All presets with a device must satisfy the same required environment."""
    policy = load_policy("schema: 1\npods: {required_env: [HF_HOME]}", name="policy.yml")
    text = f"""\
        skus:
          l4: {{platform: cuda, sku: L4, template: k8s-spec, cards: [1], queue: q, resource: nvidia.com/gpu, env: {{HF_HOME: /hf}}}}
          b200: {{platform: cuda, sku: B200, template: k8s-spec, cards: [1], queue: q, resource: nvidia.com/gpu}}
          mi300: {{platform: rocm, sku: MI300, template: k8s-patch, cards: [1], queue: q, resource: amd.com/gpu}}
          l4_docker: {{platform: cuda, sku: L4, template: docker, cards: [1], queue: q, image: i}}
        fragments:
          a3_npu_1: {CLASS}
          cpu: {{agents: {{queue: cpu}}}}
        """
    assert said(text, policy) == [
        "p.yml:3: POLICY preset 'b200_1': container 'container-0' has no HF_HOME, which policy.yml requires (pods.required_env)",
        "p.yml:4: POLICY preset 'mi300_1': container 'container-0' has no HF_HOME, which policy.yml requires (pods.required_env)",
        "p.yml:5: POLICY preset 'l4_docker_1': the docker container has no HF_HOME, which policy.yml requires (pods.required_env)",
        "p.yml:7: POLICY preset 'a3_npu_1': the pod of resource class 'npu-1' has no HF_HOME, which policy.yml requires (pods.required_env)",
    ]


def test_machines_of_another_kind_need_not_have_a_secret() -> None:
    text = (
        f"mirror_hardwares:\n  l4_1: {fragment()}\n  a3_npu_1: {CLASS}\n  cpu: {{agents: {{queue: cpu}}}}\n"
    )
    assert said(text) == []


def test_a_secret_under_another_way_is_there() -> None:
    env = ", {name: HF_TOKEN, value: ''}"
    assert said(f"mirror_hardwares:\n  l4_1: {fragment()}\n  l4x_1: {fragment(env)}\n") == []
    docker = "{plugins: [{docker#v5: {image: i, environment: [%s]}}]}"
    text = f"mirror_hardwares:\n  a: {docker % 'HF_TOKEN'}\n  b: {docker % 'HF_TOKEN=x'}\n  c: {docker % 'A=b'}\n"
    (found,) = said(text)
    assert found.startswith("p.yml:4: PRESET preset 'c' has no HF_TOKEN, a secret that a has")


@pytest.mark.parametrize("policy", ["{queues: [other]}", "{images: [other/*]}", "{host_paths: []}"])
def test_what_policy_forbids_is_said_before_any_step_asks(policy: str) -> None:
    text = """\
        skus:
          l4: {platform: cuda, sku: L4, template: k8s-spec, cards: [1], queue: q, resource: nvidia.com/gpu, image: i,
               hf_cache: {host: /mnt, mount: /mnt}}
        """
    loaded = load_policy(f"schema: 1\npods: {{allow: {policy}}}", name="policy.yml")
    (found,) = said(text, loaded)
    assert found.startswith("p.yml:2: POLICY ")
    assert "is not allowed by policy.yml" in found


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            fragment().replace("gpu: 1", "gpu: one"),
            "S11 preset 'l4_1': container 'container-0': limits nvidia.com/gpu: 'one'",
        ),
        (fragment().replace("gpu: 1", "gpu: 2"), "S14 preset 'l4_1': card counts differ"),
        (
            "{plugins: [{kubernetes: {podSpec: {containers: [{resources: [1]}]}}}]}",
            "S11 preset 'l4_1': containers[0].resources",
        ),
        ("{plugins: [{kubernetes: {podSpec: {containers: [{env: [{name: A, valueFrom: 5}]}]}}}]}", ""),
        ("{plugins: [{docker#v5: {image: i, environment: 5}}], agents: {queue: q}}", ""),
    ],
)
def test_a_literal_preset_is_read_whatever_it_holds(body: str, message: str) -> None:
    found = said(f"mirror_hardwares:\n  l4_1: {body}\n")
    assert [one for one in found if message in one] == found[:1]
