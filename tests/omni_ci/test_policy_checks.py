from __future__ import annotations

from typing import Any

import pytest

from omni_ci.policy import default_policy, load_policy
from omni_ci.policy_checks import check_policy

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


def test_the_package_allows_everything() -> None:
    assert list(check_policy(gpu_step(queue="q", image="i", path="/anything/at/all"), default_policy())) == []
