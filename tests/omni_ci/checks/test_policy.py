from __future__ import annotations

from typing import Any

import pytest

from omni_ci.checks.policy import check_policy
from omni_ci.checks.validation import validate
from omni_ci.policy import default_policy, load_policy

POLICY = load_policy(
    """
schema: 1
pods:
  required_env: [HF_HOME]
  allow: {queues: ["l4-*"], images: ["registry.example/omni/*"], host_paths: [/mnt/hf-cache]}
""",
    name="policy.yml",
)
IMAGE = "registry.example/omni/deep/ci:1"


def gpu_step(
    queue: str = "l4-k8s", image: str = IMAGE, path: str = "/mnt/hf-cache", env: str = "HF_HOME"
) -> Any:
    container = {
        "name": "container-0",
        "image": image,
        "resources": {"limits": {"nvidia.com/gpu": 1}},
        "env": [{"name": env, "value": "x"}],
    }
    volumes = [{"name": "hf", "hostPath": {"path": path}}]
    plugin = {"kubernetes": {"podSpec": {"containers": [container], "volumes": volumes}}}
    return {"label": "x", "commands": ["true"], "agents": {"queue": queue}, "plugins": [plugin]}


def docker_step(**config: Any) -> Any:
    return {"label": "x", "commands": ["true"], "plugins": [{"docker#v5.2.0": {"image": IMAGE, **config}}]}


def test_what_policy_allows_passes() -> None:
    assert list(check_policy(gpu_step(), POLICY)) == []
    config = {"environment": ["HF_HOME=/hf"], "volumes": ["/mnt/hf-cache:/hf", "named:/x"]}
    assert list(check_policy(docker_step(**config), POLICY)) == []


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (gpu_step(queue="h100-k8s"), "queue 'h100-k8s' is not allowed by policy.yml: l4-*"),
        (gpu_step(image="evil.example/x"), "image 'evil.example/x' is not allowed"),
        (gpu_step(path="/"), "host path '/' is not allowed"),
        (gpu_step(env="OTHER"), "container 'container-0' has no HF_HOME, which policy.yml requires"),
        ({"commands": ["x"], "image": "evil.example/x"}, "image 'evil.example/x' is not allowed"),
        (docker_step(environment=["HF_HOME=/hf"], volumes=["/etc:/etc"]), "host path '/etc' is not allowed"),
        (docker_step(), "the docker container has no HF_HOME"),
    ],
)
def test_what_it_does_not_is_said(step: Any, message: str) -> None:
    assert any(message in said for said in check_policy(step, POLICY)), list(check_policy(step, POLICY))


def kubernetes(**config: Any) -> Any:
    return {"plugins": [{"kubernetes": config}]}


DOCKER = {"image": "evil/x"}


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"agents": ["queue=evil"]}, "queue 'evil'"),
        ({"agents": "queue=evil"}, "queue 'evil'"),
        ({"agents": {"queue": "evil"}}, "queue 'evil'"),
        (kubernetes(podSpec={"initContainers": [{"image": "evil/x"}]}), "image 'evil/x'"),
        (kubernetes(podSpecPatch={"containers": [{"image": "evil/x"}]}), "image 'evil/x'"),
        (kubernetes(podSpec={"volumes": [{"image": {"reference": "evil/x"}}]}), "image 'evil/x'"),
        (kubernetes(sidecars=[{"image": "evil/x"}]), "image 'evil/x'"),
        ({"plugins": {"kubernetes": {"sidecars": [{"image": "evil/x"}]}}}, "image 'evil/x'"),
        *(
            ({"plugins": [{name: DOCKER}]}, "image 'evil/x'")
            for name in (
                "docker",
                "docker#v5",
                "buildkite-plugins/docker#v5",
                "https://github.com/buildkite-plugins/docker-buildkite-plugin.git#v5",
                "git@github.com:buildkite-plugins/Docker-buildkite-plugin.git",
            )
        ),
        (gpu_step(path="/mnt/hf-cache/../../etc"), "host path '/mnt/hf-cache/../../etc'"),
        (gpu_step(path="/mnt/hf-cache/$X"), "host path '/mnt/hf-cache/$X'"),
        (gpu_step(path="mnt"), "host path 'mnt'"),
        *(
            (docker_step(volumes=volumes), f"host path {source!r}")
            for volumes, source in (
                (["../../../etc:/x"], "../../../etc"),
                (["./a/../../etc:/x"], "./a/../../etc"),
                (["~/.ssh:/y"], "~/.ssh"),
                (["$HOME:/z"], "$HOME"),
                (["./$X:/z"], "./$X"),
                (["/mnt/hf-cache/../x:/z"], "/mnt/hf-cache/../x"),
                ("/etc:/x", "/etc"),
            )
        ),
    ],
)
def test_no_spelling_passes_by_the_lists(step: Any, message: str) -> None:
    assert any(f"{message} is not allowed" in said for said in check_policy(step, POLICY))


def test_a_jobs_own_checkout_and_dockers_volumes_are_no_host_paths() -> None:
    config = {
        "environment": ["HF_HOME=/hf"],
        "volumes": [".:/src", "./a/../b:/b", "cache_1:/x", "/mnt//hf-cache/:/y"],
    }
    assert list(check_policy(docker_step(**config), POLICY)) == []


def test_a_container_without_a_device_needs_no_variable_and_a_job_may_give_it() -> None:
    step = gpu_step(env="OTHER")
    step["plugins"][0]["kubernetes"]["podSpec"]["containers"][0]["resources"] = {"limits": {"cpu": 1}}
    assert list(check_policy(step, POLICY)) == []
    assert list(check_policy({**gpu_step(env="OTHER"), "env": {"HF_HOME": "/x"}}, POLICY)) == []


@pytest.mark.parametrize("how", ["--model-id z_imag", "--model-id=z_imag", "--model-id 'z_imag'"])
def test_a_model_that_is_not_listed_is_not_measured(how: str) -> None:
    policy = load_policy("schema: 1\ncoverage: {model_ids: [z_image]}", name="policy.yml")
    (said,) = check_policy({"commands": [f"scripts/run_cov_split.sh {how}"]}, policy)
    assert said.startswith(
        "--model-id z_imag is not in coverage.model_ids of policy.yml (did you mean 'z_image'"
    )
    assert not list(check_policy({"commands": f"omni-ci cov split {how}"}, POLICY))
    assert not list(check_policy({"command": "omni-ci cov split --model-id z_image"}, policy))


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (gpu_step(env="OTHER"), "container 'container-0' has no HF_HOME, which policy.yml requires"),
        (gpu_step(queue="rtxx"), "queue 'rtxx' is not allowed by policy.yml: l4-*"),
        (gpu_step(image="evil/x"), "image 'evil/x' is not allowed by policy.yml: registry.example/omni/*"),
        (gpu_step(path="/etc"), "host path '/etc' is not allowed by policy.yml: /mnt/hf-cache"),
    ],
)
def test_the_preset_is_named_for_what_its_machines_are(step: Any, said: str) -> None:
    (found,) = check_policy(step, POLICY, whose="preset 'l4_1' (presets.yml:3): ")
    assert found.startswith(f"preset 'l4_1' (presets.yml:3): {said}")
    placed = validate(
        {"steps": [step]}, presets={(0,): "l4_1"}, places={"l4_1": "presets.yml:3"}, policy=POLICY
    )
    (finding,) = [one for one in placed if one.code == "POLICY"]
    assert finding.message.startswith(f"step 'x': preset 'l4_1' (presets.yml:3): {said}")


def test_a_class_of_the_controller_holds_devices_too() -> None:
    step = {"commands": ["x"], "agents": {"resource_class": "npu-2"}, "image": IMAGE}
    (said,) = check_policy(step, POLICY)
    assert said.startswith("the pod of resource class 'npu-2' has no HF_HOME")
    env = [{"name": "HF_HOME", "value": "/hf"}]
    patch = {"podSpecPatch": {"containers": [{"name": "container-0", "env": env}]}}
    assert not list(check_policy({**step, "plugins": [{"kubernetes": patch}]}, POLICY))


def test_a_model_is_read_from_commands_that_travel_in_the_environment() -> None:
    policy = load_policy("schema: 1\ncoverage: {model_ids: [z_image]}", name="policy.yml")
    env = {"OMNI_COMMANDS": '["scripts/run_cov_split.sh --model-id other"]'}
    (said,) = check_policy({"command": "bash run.sh", "env": env}, policy)
    assert said.startswith("--model-id other is not in coverage.model_ids")


def test_the_package_allows_everything() -> None:
    assert list(check_policy(gpu_step(queue="q", image="i", path="/anything/at/all"), default_policy())) == []
