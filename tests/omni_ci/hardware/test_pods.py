"""Presets to plugins: every field of the four shapes, and values that try to leave their place."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.checks.validation import validate
from omni_ci.hardware.pods import PodRules, Pods, package_templates
from omni_ci.hardware.presets import Presets, load_presets
from omni_ci.policy import default_policy
from omni_ci.yaml.emitting import yaml_scalar
from omni_hardware.errors import InputError

RULES = PodRules(
    secrets={"HF_TOKEN": "hf-token-secret/token"},
    infra_retry=[{"exit_status": -1, "limit": 1}, {"signal_reason": "agent_stop", "limit": 1}],
)
TEXT = """
schema: 1
skus:
  mi300:
    platform: rocm
    sku: MI300
    template: k8s-patch
    cards: [1, 8]
    queue: "amd_mi300_{cards}"
    resource: amd.com/gpu
    image: rocm/omni:$BUILDKITE_COMMIT
    shm: 16Gi
    image_pull_secrets: [docker-config]
    env: {AMD_CI_RUNTIME: native, NATIVE_CI: "true", HF_HOME: /home/buildkite-agent/huggingface, PYTORCH_ROCM_ARCH: ""}
    job_env: {VLLM_CI_REQUIRE_PERSISTENT_HF_CACHE: "1"}
  l4:
    platform: cuda
    sku: L4
    template: k8s-spec
    cards: [1, 2, 3]
    queue: l4-k8s
    resource: nvidia.com/gpu
    per_card: {cpu: 10, memory: 40Gi, shm: 24Gi}
    node_selector: {pool: l4x4}
    priority_class: ci
    service_account: buildkite-gpu-jobs
    annotations: {karpenter.sh/do-not-disrupt: "true"}
    hf_cache: {host: /fsx/hf_cache, mount: /fsx/hf_cache}
  l4_docker:
    platform: cuda
    sku: L4
    template: docker
    cards: [1, 4]
    queue: "gpu_{cards}_queue"
    image: registry.example/ci:$BUILDKITE_COMMIT
    shm: 8Gi
    hf_cache: {host: /fsx/hf_cache, mount: /hf}
    retry: none
  a3:
    platform: npu
    sku: A3
    template: k8s-class
    cards: [2, 16]
    queue: ascend-a3
    resource_class: npu-{cards}
    image: registry.example/npu:${BUILDKITE_COMMIT}-a3
    image_pull_secrets: [swr-secret]
  b60:
    platform: xpu
    sku: B60
    template: k8s-patch
    cards: [1, 4]
    queue: intel-gpu
    resource: gpu.intel.com/i915
    image: registry.example/xpu:$BUILDKITE_COMMIT
    runner: scripts/run-xpu-test.sh
    hf_cache: {host: /mnt/hf, mount: /hf}
    env: {ZE_FLAT_DEVICE_HIERARCHY: FLAT}
"""


def presets(text: str = TEXT) -> Presets:
    return load_presets(text, name="presets.yml")


def fragment(name: str, text: str = TEXT) -> dict:
    loaded = presets(text)
    return Pods(package_templates(), RULES).fragment(loaded.find(name, at="here"))


def step(name: str) -> dict:
    made = fragment(name)
    own = {} if "command" in made else {"commands": ["true"]}  # a preset's runner is the command
    return {"label": name, **own, "timeout_in_minutes": 5, **made}


def test_the_patch_has_every_field_of_the_native_contract() -> None:
    made = fragment("mi300_8")
    assert made["agents"] == {"queue": "amd_mi300_8"}
    assert made["env"] == {"VLLM_CI_EXPECTED_GPU_COUNT": "8", "VLLM_CI_REQUIRE_PERSISTENT_HF_CACHE": "1"}
    assert made["plugins"][0]["kubernetes"]["podSpecPatch"] == {
        "automountServiceAccountToken": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "imagePullSecrets": [{"name": "docker-config"}],
        "containers": [
            {
                "name": "container-0",
                "image": "rocm/omni:$BUILDKITE_COMMIT",
                "imagePullPolicy": "Always",
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"add": ["IPC_LOCK"]}},
                "resources": {"limits": {"amd.com/gpu": "8"}, "requests": {"amd.com/gpu": "8"}},
                "env": [
                    {"name": "VLLM_CI_DOCKER_DISABLED", "value": "1"},
                    {"name": "VLLM_CI_EXPECTED_GPU_COUNT", "value": "8"},
                    {"name": "AMD_CI_RUNTIME", "value": "native"},
                    {"name": "NATIVE_CI", "value": "true"},
                    {"name": "HF_HOME", "value": "/home/buildkite-agent/huggingface"},
                    {"name": "PYTORCH_ROCM_ARCH", "value": ""},
                    {
                        "name": "HF_TOKEN",
                        "valueFrom": {"secretKeyRef": {"name": "hf-token-secret", "key": "token"}},
                    },
                ],
                "volumeMounts": [{"name": "devshm", "mountPath": "/dev/shm"}],
            }
        ],
        "volumes": [{"name": "devshm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}],
    }


def test_the_whole_pod_scales_with_its_cards() -> None:
    made = fragment("l4_3")
    config = made["plugins"][0]["kubernetes"]
    assert config["metadata"] == {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
    pod = config["podSpec"]
    assert pod["priorityClassName"] == "ci"
    assert pod["serviceAccountName"] == "buildkite-gpu-jobs"
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert pod["nodeSelector"] == {"pool": "l4x4"}
    container = pod["containers"][0]
    assert container["resources"] == {
        "limits": {"nvidia.com/gpu": 3},
        "requests": {"nvidia.com/gpu": 3, "cpu": "30", "memory": "120Gi"},
    }
    assert {"name": "VLLM_CI_EXPECTED_GPU_COUNT", "value": "3"} in container["env"]
    assert {"name": "HF_HOME", "value": "/fsx/hf_cache"} in container["env"]
    assert pod["volumes"] == [
        {"name": "devshm", "emptyDir": {"medium": "Memory", "sizeLimit": "72Gi"}},
        {"name": "hf-cache", "hostPath": {"path": "/fsx/hf_cache", "type": "DirectoryOrCreate"}},
    ]
    assert made["retry"] == {"automatic": list(RULES.infra_retry)}


def test_the_docker_plugin_mounts_the_agent_and_counts_its_cards() -> None:
    made = fragment("l4_docker_4")
    assert made["agents"] == {"queue": "gpu_4_queue"}
    assert "retry" not in made
    (plugin,) = made["plugins"]
    assert plugin["docker#v5.2.0"] == {
        "image": "registry.example/ci:$BUILDKITE_COMMIT",
        "always-pull": True,
        "propagate-environment": True,
        "mount-buildkite-agent": True,
        "gpus": "4",
        "shm-size": "8gb",
        "environment": ["VLLM_CI_EXPECTED_GPU_COUNT=4", "HF_HOME=/hf", "HF_TOKEN"],
        "volumes": ["/fsx/hf_cache:/hf"],
    }


def test_npu_machines_get_a_class_an_image_of_the_step_and_their_pull_secret() -> None:
    made = fragment("a3_16")
    assert made["agents"] == {"queue": "ascend-a3", "resource_class": "npu-16"}
    assert made["image"] == "registry.example/npu:${BUILDKITE_COMMIT}-a3"
    assert made["plugins"] == [
        {
            "kubernetes": {
                "podSpecPatch": {
                    "imagePullSecrets": [{"name": "swr-secret"}],
                    "containers": [
                        {
                            "name": "container-0",
                            "env": [
                                {"name": "VLLM_CI_EXPECTED_GPU_COUNT", "value": "16"},
                                {
                                    "name": "HF_TOKEN",
                                    "valueFrom": {
                                        "secretKeyRef": {"name": "hf-token-secret", "key": "token"}
                                    },
                                },
                            ],
                        }
                    ],
                }
            }
        }
    ]
    assert "env" not in made


def test_xpu_pods_count_the_cards_of_their_driver_and_have_a_runner() -> None:
    made = fragment("b60_4")
    assert made["command"] == "bash scripts/run-xpu-test.sh"
    assert made["env"] == {"VLLM_CI_EXPECTED_GPU_COUNT": "4"}
    (container,) = made["plugins"][0]["kubernetes"]["podSpecPatch"]["containers"]
    assert container["resources"] == {
        "limits": {"gpu.intel.com/i915": "4"},
        "requests": {"gpu.intel.com/i915": "4"},
    }
    assert {entry["name"]: entry.get("value") for entry in container["env"]} == {
        "VLLM_CI_DOCKER_DISABLED": "1",
        "VLLM_CI_EXPECTED_GPU_COUNT": "4",
        "ZE_FLAT_DEVICE_HIERARCHY": "FLAT",
        "HF_HOME": "/hf",
        "HF_TOKEN": None,
    }


@pytest.mark.parametrize("template", ["k8s-spec", "k8s-patch", "k8s-class"])
def test_a_runner_is_told_that_its_pod_starts_no_containers(template: str) -> None:
    needs = "resource_class: c" if template == "k8s-class" else "resource: amd.com/gpu"
    text = (
        f"skus:\n  it: {{platform: rocm, sku: MI300, template: {template}, cards: [1], queue: q, image: i, {needs}, "
        "runner: run.sh}\n"
    )
    made = fragment("it_1", text)
    assert made["command"] == "bash run.sh"
    config = made["plugins"][0]["kubernetes"]
    (container,) = (config.get("podSpec") or config["podSpecPatch"])["containers"]
    assert {"name": "VLLM_CI_DOCKER_DISABLED", "value": "1"} in container["env"]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("resources: {limits: {amd.com/gpu: one}}", "S11 .*'one' is no Kubernetes quantity"),
        ("resources: {limits: {amd.com/gpu: 2}}", "S14 card counts differ: .* 2, preset l4_docker_1 1"),
        ("volumeMounts: [{name: a, mountPath: /x}]", "S11 .* mounts 'a', a volume the pod does not declare"),
    ],
)
def test_a_template_that_writes_what_a_cluster_refuses_renders_nothing(broken: str, message: str) -> None:
    template = (
        "{% set used = (image, shm, hf_cache) %}plugins: [{kubernetes: {podSpec: {containers: [{name: container-0, "
        + broken
        + "}]}}}]"
    )
    loaded = presets(TEXT.replace("template: docker", "template: own"))
    with pytest.raises(InputError, match=rf"'l4_docker_1': {message}"):
        Pods({"own": template}, RULES).fragment(loaded.find("l4_docker_1", at="here"))


@pytest.mark.parametrize(
    ("status", "reason", "is_retried"),
    [
        (-1, None, True),  # the agent was lost with its node
        (128, None, True),
        (255, "agent_stop", True),
        (-1, "agent_refused", True),
        (1, None, False),
        (137, None, False),
        (125, None, False),  # a guard of the runner: it would say the same again
        (5, None, False),
    ],
)
def test_agent_stack_k8s575_a_killed_pod_that_surfaces_as_1_is_a_failure_like_any_other(
    status: int, reason: str | None, is_retried: bool
) -> None:
    """The stack may report a pod's 137 as 1: a rule for 137 would never match, and one for 1 repeats failed tests."""
    policy = default_policy()
    rules = PodRules(
        secrets={}, infra_retry=[rule.model_dump(exclude_none=True) for rule in policy.retry.infra]
    )
    for name in ("mi300_1", "l4_1", "a3_2", "b60_1"):
        made = Pods(package_templates(), rules).fragment(presets().find(name, at="here"))
        automatic = made["retry"]["automatic"]
        assert all(rule["limit"] == 1 for rule in automatic)
        matching = [
            rule
            for rule in automatic
            if rule.get("exit_status", status) in {status, "*"}
            and rule.get("signal_reason", reason) in {reason, "*"}
        ]
        assert bool(matching) is is_retried, name


@pytest.mark.parametrize(
    "name",
    [
        "mi300_1",
        "mi300_8",
        "l4_1",
        "l4_2",
        "l4_docker_1",
        "l4_docker_4",
        "a3_2",
        "a3_16",
        "b60_1",
        "b60_4",
    ],
)
def test_every_shape_passes_all_checks(name: str) -> None:
    assert validate({"steps": [step(name)]}, presets={(0,): name}) == ()


@given(st.text())
@settings(max_examples=50)
def test_any_text_comes_back_from_yaml_as_it_went_in(text: str) -> None:
    assert yaml.safe_load(yaml_scalar({"value": [text]})) == {"value": [text]}


@pytest.mark.parametrize(
    "text", ["\x7f", "😀", "\u2028", "\u0085", "{{ 7 * 7 }}", '"\n- x: y', "!!python/object", "# no"]
)
def test_no_value_changes_the_structure(text: str) -> None:
    assert yaml.safe_load(f"a: {yaml_scalar(text)}\nb: 1\n") == {"a": text, "b": 1}


def test_a_value_with_quotes_and_a_template_in_it_stays_a_value() -> None:
    hostile = TEXT.replace("AMD_CI_RUNTIME: native", """AMD_CI_RUNTIME: '{{ cards }}"\\n  - name: x'""")
    container = fragment("mi300_1", hostile)["plugins"][0]["kubernetes"]["podSpecPatch"]["containers"][0]
    assert {"name": "AMD_CI_RUNTIME", "value": '{{ cards }}"\\n  - name: x'} in container["env"]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("agents: {{ no_such_name }}", "'no_such_name' is undefined"),
        ("agents: {{ ''.__class__.__mro__ }}", "unsafe"),
        ("agents: [", r"template own\.yml\.j2"),
        ("just words", "gave no mapping"),
        ("{% if %}", r"template own\.yml\.j2"),
        ("agents: {}\nagents: {}", "key 'agents' is written twice, on lines 1 and 2"),
        ("agents: &a [*a]", "refers to itself"),
        ("{% include 'own' %}", "recursion"),
        ("{{ '{}'.format() }}", "out of range"),
        ("{{ 1 // 0 }}", "zero"),
    ],
)
def test_a_broken_template_names_itself_and_the_preset(template: str, message: str) -> None:
    loaded = presets(TEXT.replace("template: docker", "template: own"))
    with pytest.raises(InputError, match=message) as refused:
        Pods({"own": template}, RULES).fragment(loaded.find("l4_docker_1", at="here"))
    assert "presets.yml:29" in str(refused.value)
    assert "'l4_docker_1'" in str(refused.value)


def test_a_date_in_a_template_is_text() -> None:
    loaded = presets(TEXT.replace("template: docker", "template: own"))
    used = "{% set used = (image, shm, hf_cache) %}"
    pods = Pods({"own": used + "agents: {day: 2024-01-01}"}, RULES)
    assert pods.fragment(loaded.find("l4_docker_1", at="here")) == {"agents": {"day": "2024-01-01"}}


def test_an_unknown_template_names_the_nearest() -> None:
    loaded = presets(TEXT.replace("template: docker", "template: dokcer"))
    with pytest.raises(InputError, match=r"unknown template 'dokcer' \(did you mean 'docker'\?\)"):
        Pods(package_templates(), RULES).fragment(loaded.find("l4_docker_1", at="here"))


def test_the_number_of_cards_is_filled_in_everywhere() -> None:
    text = TEXT.replace("l4_docker:", "other:").replace(
        "    node_selector: {pool: l4x4}\n",
        """    node_selector: {pool: "l4x{cards}"}
    agents: {resource_class: "npu-{cards}"}
    env: {FOO: "{cards}", BAR: "${cards}"}
    job_env: {JOB: "{cards}"}
    secrets: {S: "token-{cards}/k"}
    image: "reg/x:${cards}"
""",
    )
    made = fragment("l4_3", text)
    pod = made["plugins"][0]["kubernetes"]["podSpec"]
    assert made["agents"]["resource_class"] == "npu-3"
    assert made["env"] == {"JOB": "3"}
    assert pod["nodeSelector"] == {"pool": "l4x3"}
    (container,) = pod["containers"]
    assert container["image"] == "reg/x:${cards}"
    env = {
        entry["name"]: entry.get("value") or entry["valueFrom"]["secretKeyRef"]["name"]
        for entry in container["env"]
    }
    assert (env["FOO"], env["BAR"], env["S"]) == ("3", "${cards}", "token-3")


@pytest.mark.parametrize(
    "line",
    [
        "node_selector: {a: b}",
        "priority_class: ci",
        "annotations: {a: b}",
        "service_account: x",
        "image_pull_secrets: [x]",
        "per_card: {cpu: 1}",
        "per_card: {memory: 1Gi}",
        "resource: nvidia.com/gpu",
        "secrets: {T: a/b}",
    ],
)
def test_a_key_the_shape_has_no_use_for_is_refused(line: str) -> None:
    name = line.partition(":")[0] if "per_card" not in line else line.partition("{")[2].partition(":")[0]
    text = TEXT.replace("    template: docker\n", f"    template: docker\n    {line}\n")
    with pytest.raises(
        InputError, match=rf"template docker has no use for {name}; .*it uses .*hf_cache, image"
    ):
        fragment("l4_docker_1", text)


def test_a_template_that_builds_on_another_may_use_anything() -> None:
    loaded = presets(TEXT.replace("template: docker", "template: own"))
    templates = {**package_templates(), "own": "{% include 'docker' %}"}
    assert Pods(templates, RULES).fragment(loaded.find("l4_docker_1", at="here"))["agents"]


def test_a_copy_is_given_each_time() -> None:
    pods, preset = Pods(package_templates(), RULES), presets().find("l4_1", at="here")
    pods.fragment(preset)["agents"]["queue"] = "other"
    assert pods.fragment(preset)["agents"] == {"queue": "l4-k8s"}


def test_a_presets_own_secret_or_env_wins_over_policy() -> None:
    text = TEXT.replace("env: {AMD_CI_RUNTIME", 'env: {HF_TOKEN: "", AMD_CI_RUNTIME')
    container = fragment("mi300_1", text)["plugins"][0]["kubernetes"]["podSpecPatch"]["containers"][0]
    assert [entry for entry in container["env"] if entry["name"] == "HF_TOKEN"] == [
        {"name": "HF_TOKEN", "value": ""}
    ]
