from __future__ import annotations

import copy
from typing import Any

import pytest

from omni_ci.checks.validation import validate
from omni_ci.hardware.pod_checks import check_pods
from omni_ci.policy import default_policy

SPEC: dict[str, Any] = {
    "agents": {"queue": "amd_mi300_2"},
    "env": {"VLLM_CI_EXPECTED_GPU_COUNT": "2"},
    "plugins": [
        {
            "kubernetes": {
                "podSpec": {
                    "containers": [
                        {
                            "name": "container-0",
                            "resources": {
                                "limits": {"amd.com/gpu": 2},
                                "requests": {"amd.com/gpu": "2", "cpu": "4"},
                            },
                            "env": [{"name": "VLLM_CI_EXPECTED_GPU_COUNT", "value": "2"}],
                            "volumeMounts": [{"name": "devshm", "mountPath": "/dev/shm"}],
                        }
                    ],
                    "volumes": [{"name": "devshm", "emptyDir": {"sizeLimit": "16Gi"}}],
                }
            }
        }
    ],
}


def pod(step: dict[str, Any]) -> dict[str, Any]:
    return step["plugins"][0]["kubernetes"]["podSpec"]


def container(step: dict[str, Any]) -> dict[str, Any]:
    return pod(step)["containers"][0]


def set_limit(step: dict[str, Any], limit: Any) -> None:
    container(step)["resources"]["limits"]["amd.com/gpu"] = limit


def drop_limit(step: dict[str, Any]) -> None:
    del container(step)["resources"]["limits"]


def mount_unknown(step: dict[str, Any]) -> None:
    container(step)["volumeMounts"][0]["name"] = "shm"


def name_twice(step: dict[str, Any]) -> None:
    container(step)["env"] *= 2


def bad_size(step: dict[str, Any]) -> None:
    pod(step)["volumes"][0]["emptyDir"]["sizeLimit"] = "16GB"


def as_patch(step: dict[str, Any], **changes: Any) -> None:
    config = step["plugins"][0]["kubernetes"]
    config["podSpecPatch"] = config.pop("podSpec")
    config["podSpecPatch"]["containers"][0].update(changes)


@pytest.mark.parametrize(
    ("break_it", "code", "message"),
    [
        (lambda step: set_limit(step, "one"), "S11", "limits amd.com/gpu: 'one' is no Kubernetes quantity"),
        (lambda step: set_limit(step, "1.5"), "S11", "1.5 is no whole number of devices"),
        (lambda step: set_limit(step, 4), "S11", "limit 4 and request 2 must be equal"),
        (drop_limit, "S11", "requests amd.com/gpu without a limit"),
        (mount_unknown, "S11", "mounts 'shm', a volume the pod does not declare"),
        (name_twice, "S11", "sets VLLM_CI_EXPECTED_GPU_COUNT twice"),
        (bad_size, "S11", "sizeLimit: '16GB' is no Kubernetes quantity"),
        (lambda step: as_patch(step, name="main"), "S11", "no container 'container-0'"),
        (lambda step: as_patch(step, command=["x"]), "S11", "may not set 'command'"),
        (lambda step: step["agents"].update(queue="amd_mi300_4"), "S14", "queue amd_mi300_4 4"),
        (lambda step: step["agents"].update(queue="gpu_1_queue"), "S14", "queue gpu_1_queue 1"),
        (lambda step: step["env"].update(VLLM_CI_EXPECTED_GPU_COUNT="1"), "S14", "of the job 1"),
        (lambda step: step["env"].update(VLLM_CI_EXPECTED_GPU_COUNT="two"), "S14", "of the job"),
        (lambda step: container(step)["env"][0].update(value="3"), "S14", "of container 'container-0' 3"),
    ],
)
def test_what_the_schema_lets_pass_is_found(break_it: Any, code: str, message: str) -> None:
    step = copy.deepcopy(SPEC)
    break_it(step)
    assert (code, True) in [(found, message in said) for found, said in check_pods(step, preset="mi300_2")], (
        list(check_pods(step, preset="mi300_2"))
    )


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("volumes", 1), {"name": "devshm"}, "two volumes are called 'devshm'"),
        (("volumes", 1), {"name": "spare"}, "no container mounts volume 'spare'"),
        (("containers", 1), {"name": "container-0"}, "two containers are called 'container-0'"),
        (("containers", 1), {"name": "checkout"}, "the stack adds one of this name itself"),
        (("initContainers", 0), {"name": "i", "volumeMounts": [{"name": "no"}]}, "'i' mounts 'no', a volume"),
        (
            ("initContainers", 0),
            {"name": "i", "resources": {"limits": {"cpu": "x"}}},
            "'i': limits cpu: 'x' is no",
        ),
        (
            ("containers", 0, "volumeMounts", 1),
            {"name": "workspace", "mountPath": "/dev/shm"},
            "two volumes at /dev/shm",
        ),
        (("containers", 0, "resources", "limits", "cpu"), "2", "cpu request 4 is above its limit 2"),
        (
            ("containers", 0, "env", 1),
            {"name": "A", "value": "1", "valueFrom": {"x": 1}},
            "a value and a valueFrom",
        ),
    ],
)
def test_what_a_cluster_would_refuse_is_found(where: tuple[Any, ...], value: Any, message: str) -> None:
    step = copy.deepcopy(SPEC)
    holder = pod(step)
    for part in where[:-1]:
        holder = holder.setdefault(part, []) if isinstance(holder, dict) else holder[part]
    if isinstance(holder, list):
        holder.insert(where[-1], value)
    else:
        holder[where[-1]] = value
    assert [code for code, said in check_pods(step, preset="mi300_2") if message in said] == ["S11"]


def test_a_patch_merges_by_name_and_a_volume_for_the_stacks_containers_is_fine() -> None:
    step = copy.deepcopy(SPEC)
    pod(step)["volumes"].append({"name": "spare", "emptyDir": {}})
    as_patch(step)
    assert list(check_pods(step, preset="mi300_2")) == []
    step["plugins"][0]["kubernetes"]["podSpecPatch"]["containers"].append({"image": "x"})
    assert [said for _, said in check_pods(step, preset="mi300_2")] == [
        "a container of the podSpecPatch has no name, by which it would be merged"
    ]


def test_extra_volume_mounts_mount_too() -> None:
    step = copy.deepcopy(SPEC)
    pod(step)["volumes"].append({"name": "spare", "emptyDir": {}})
    step["plugins"][0]["kubernetes"]["extraVolumeMounts"] = [{"name": "spare", "mountPath": "/x"}]
    assert list(check_pods(step, preset="mi300_2")) == []


def test_docker_may_not_set_a_variable_twice() -> None:
    config = {"image": "i", "environment": ["A=1", "B", "A=2"]}
    assert list(check_pods({"plugins": [{"docker#v5.2.0": config}]}, preset=None)) == [
        ("S11", "the docker plugin sets A twice")
    ]


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ((), 5, "podSpec must be a mapping, not 5"),
        (("containers",), 5, "containers must be a list, not 5"),
        (("containers", 0), 5, "containers[0] must be a mapping, not 5"),
        (("containers", 0, "resources"), [5], "containers[0].resources must be a mapping"),
        (("containers", 0, "resources", "limits"), 5, "containers[0].resources.limits must be a mapping"),
        (("containers", 0, "env"), 5, "containers[0].env must be a list"),
        (("containers", 0, "env", 0, "name"), [1], "containers[0].env[0].name must be text"),
        (("containers", 0, "name"), [1], "containers[0].name must be text"),
        (("containers", 0, "volumeMounts", 0, "name"), {}, "containers[0].volumeMounts[0].name must be text"),
        (("initContainers",), 5, "initContainers must be a list"),
        (("volumes",), 5, "volumes must be a list"),
        (("volumes", 0, "emptyDir"), 5, "volumes[0].emptyDir must be a mapping"),
        (("volumes", 0, "name"), [1], "volumes[0].name must be text"),
    ],
)
def test_a_wrong_shape_is_a_sentence_at_its_path(where: tuple[Any, ...], value: Any, message: str) -> None:
    step = {"label": "x", "commands": ["y"], "timeout_in_minutes": 1, **copy.deepcopy(SPEC)}
    holder = step["plugins"][0]["kubernetes"]
    path = ("podSpec", *where)
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = value
    found = validate({"steps": [step]}, policy=default_policy())
    assert any(finding.code == "S11" and message in finding.message for finding in found), found


@pytest.mark.parametrize("name", ["kubernetes", "docker#v5"])
def test_a_plugin_without_a_mapping_is_a_sentence(name: str) -> None:
    ((code, said),) = check_pods({"plugins": [{name: 5}]}, preset=None)
    assert (code, "plugin's configuration must be a mapping, not 5" in said) == ("S11", True)


def test_a_patch_may_mount_what_the_stack_declares() -> None:
    step = copy.deepcopy(SPEC)
    mount_unknown(step)
    as_patch(step)
    assert list(check_pods(step, preset="mi300_2")) == []


def test_a_queue_in_a_list_counts_too() -> None:
    step = {**copy.deepcopy(SPEC), "agents": ["queue=amd_mi300_4"]}
    assert [code for code, _ in check_pods(step, preset=None)] == ["S14"]


def test_a_sound_pod_passes() -> None:
    assert list(check_pods(SPEC, preset="mi300_2")) == []


def test_the_presets_number_counts_too() -> None:
    assert [code for code, _ in check_pods(SPEC, preset="mi300_4")] == ["S14"]


def test_a_queue_named_after_a_card_is_not_a_count() -> None:
    step = copy.deepcopy(SPEC)
    step["agents"]["queue"] = "mithril-h100-pool"
    assert list(check_pods(step, preset=None)) == []


def test_docker_counts_are_compared() -> None:
    config = {"image": "i", "gpus": "2", "environment": ["VLLM_CI_EXPECTED_GPU_COUNT=1"]}
    found = list(check_pods({"plugins": [{"docker#v5.2.0": config}]}, preset=None))
    assert [code for code, _ in found] == ["S14"]


def test_a_limit_of_one_in_words_is_refused_though_kubernetes_schema_takes_it() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    step = {
        "label": "x",
        "commands": ["true"],
        "timeout_in_minutes": 1,
        "plugins": copy.deepcopy(SPEC["plugins"]),
    }
    set_limit(step, "one")
    container(step)["resources"]["requests"]["amd.com/gpu"] = "one"
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod(step)}
    kubernetes_validate.validate(manifest, "1.34", strict=True)
    assert {finding.code for finding in validate({"steps": [step]})} == {"S11"}


def test_a_typo_in_a_pod_is_found_by_kubernetes_schema() -> None:
    pytest.importorskip("kubernetes_validate")
    step = {
        "label": "x",
        "commands": ["true"],
        "timeout_in_minutes": 1,
        "plugins": copy.deepcopy(SPEC["plugins"]),
    }
    container(step)["volumeMount"] = []
    (finding,) = validate({"steps": [step]})
    assert finding.code == "KUBERNETES"
    assert "unknown key 'volumeMount' (did you mean 'volumeMounts'?)" in finding.message
