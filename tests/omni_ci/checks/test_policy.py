from __future__ import annotations

from typing import Any

import pytest

from omni_ci.checks.policy import check_policy
from omni_ci.checks.validation import validate
from omni_ci.policy import default_policy, load_policy
from omni_hardware.errors import OmniError

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
        "volumes": [".:/src", "./a/..:/b", "cache_1:/x", "/mnt//hf-cache/:/y"],
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


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (
            docker_step(privileged=True),
            (
                "privileged is as good as the host path '/', which is not allowed by policy.yml: /mnt/hf-cache; to allow it "
                "all the same, list privileged under pods.allow.host_access"
            ),
        ),
        (
            docker_step(**{"mount-docker-sock": True}),
            "mount-docker-sock is as good as the host path '/var/run/docker.sock'",
        ),
        (
            docker_step(devices=["/dev/mem"]),
            "host path '/dev/mem' is not allowed by policy.yml: /mnt/hf-cache",
        ),
        (kubernetes(podSpecPatch={"hostNetwork": True}), "hostNetwork is as good as the host path '/'"),
        (
            {"plugins": ["docker-compose#v4"]},
            (
                "docker-compose cannot be judged by policy.yml, which limits images and host paths: its images, volumes "
                "and privileges are in a file of its own; to allow it all the same, list docker-compose under"
            ),
        ),
        (kubernetes(podTemplate="big"), "podTemplate cannot be judged by policy.yml"),
    ],
)
def test_no_way_to_the_host_passes_by_the_lists(step: Any, said: str) -> None:
    assert any(one.startswith(said) for one in check_policy(step, POLICY)), list(check_policy(step, POLICY))


ALLOWING = """
schema: 1
pods: {allow: {images: ["registry.example/*"], host_paths: [%s], host_access: [%s]}}
"""


@pytest.mark.parametrize(
    ("paths", "access", "step"),
    [
        ("/mnt", "privileged", docker_step(privileged=True)),
        ("/mnt", "'*'", docker_step(privileged=True, pid="host")),
        ("/mnt", "docker-compose", {"plugins": ["docker-compose#v4"]}),
        ("/var/run/docker.sock", "", docker_step(**{"mount-docker-sock": True})),
        ("'*'", "", docker_step(privileged=True, devices=["/dev/mem"], **{"mount-ssh-agent": True})),
        ("/dev/dri*", "", docker_step(devices=["/dev/dri/card0:/dev/dri/card0"])),
    ],
)
def test_a_way_to_the_host_is_allowed_by_its_word_or_by_its_path(paths: str, access: str, step: Any) -> None:
    assert list(check_policy(step, load_policy(ALLOWING % (paths, access), name="policy.yml"))) == []


def test_a_word_that_opens_nothing_is_refused_with_the_nearest() -> None:
    with pytest.raises(OmniError, match=r"unknown host access 'privileges' \(did you mean 'privileged'"):
        load_policy(ALLOWING % ("/mnt", "privileges"), name="policy.yml")


def test_a_star_crosses_slashes_in_every_list() -> None:
    policy = load_policy(ALLOWING % ("/mnt/*", ""), name="policy.yml")
    assert list(check_policy(docker_step(volumes=["/mnt/a/b:/x"]), policy)) == []
    assert list(check_policy({"image": "registry.example/a/b/c:1"}, policy)) == []


def test_a_plugin_that_nobody_knows_is_a_notice_once() -> None:
    steps = [
        {"label": title, "commands": ["true"], "plugins": ["podman#v1", {"artifacts#v1": {"upload": "x"}}]}
        for title in "ab"
    ]
    said = [str(one) for one in validate({"steps": steps}, policy=POLICY) if one.code == "POLICY"]
    assert said == [
        (
            "steps[0]: POLICY step 'a': what plugin 'podman' runs and mounts is not judged by policy.yml (nor in 1 more "
            "step)"
        )
    ]
    assert not [one for one in validate({"steps": steps}, policy=default_policy()) if one.code == "POLICY"]


@pytest.mark.parametrize(
    "name", ["BUILDKITE_PLUGIN_DOCKER_PRIVILEGED", "BUILDKITE_PLUGIN_DOCKER_VOLUMES_0", "BUILDKITE_PLUGINS"]
)
def test_an_option_in_a_variable_passes_by_no_list(name: str) -> None:
    """The plugin reads its options from the job's environment, where a step may write one that stands at no plugin."""
    step = {"label": "x", "commands": ["true"], "timeout_in_minutes": 5}
    said = f"env {name} is an option of a plugin, which policy.yml limits; write it at the plugin"
    assert list(check_policy({**step, "env": {name: "true"}}, POLICY)) == [said]
    whole = validate({"env": {name: "true"}, "steps": [step]}, policy=POLICY)
    assert [one.message for one in whole if one.code == "POLICY"] == [said]
    assert list(check_policy({**step, "env": {name: "true"}}, default_policy())) == []


def test_a_variable_of_the_file_is_there_for_its_resource_class() -> None:
    document = {
        "env": {"HF_HOME": "/hf"},
        "agents": {"resource_class": "npu-2"},
        "steps": [{"label": "x", "commands": ["true"], "timeout_in_minutes": 5}],
    }
    assert [one.message for one in validate(document, policy=POLICY) if one.code == "POLICY"] == []
