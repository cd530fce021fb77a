from __future__ import annotations

from typing import Any

import pytest

from omni_ci.hardware.plugins import docker_configs, pods_of, tags_of, variables_of

CONTAINERS = [
    {"name": "container-0", "env": [{"name": "A"}, {"name": "B"}]},
    {"name": "side", "env": [{"name": "C"}]},
]


@pytest.mark.parametrize(
    ("step", "names"),
    [
        ({}, set()),
        (
            {"env": {"X": "1"}, "plugins": [{"kubernetes": {"podSpec": {"containers": CONTAINERS}}}]},
            {"X", "A", "B"},
        ),
        ({"plugins": {"kubernetes": {"podSpecPatch": {"containers": CONTAINERS[:1]}}}}, {"A", "B"}),
        # the stack calls a container without a name as it calls the commands'
        ({"plugins": [{"kubernetes": {"podSpec": {"containers": [{"env": [{"name": "A"}]}]}}}]}, {"A"}),
        ({"plugins": [{"docker#v5": {"environment": ["A=1", "B"]}}]}, {"A", "B"}),
        ({"plugins": [{"docker#v5": {"environment": 5}}, "other#v1", 7], "env": 5}, set()),
    ],
)
def test_a_jobs_variables_are_found_wherever_they_stand(step: dict[str, Any], names: set[str]) -> None:
    assert variables_of(step) == names


@pytest.mark.parametrize(
    ("agents", "found"),
    [
        ({"resource_class": "npu-2", "queue": "q"}, ["npu-2"]),
        (["queue=q", "resource_class=npu-2"], ["npu-2"]),
        ("resource_class = npu-2", ["npu-2"]),
        ({"queue": "q"}, []),
        (None, []),
    ],
)
def test_a_tag_is_read_from_a_mapping_or_a_list(agents: Any, found: list[str]) -> None:
    assert tags_of(agents, "resource_class") == found


def test_a_plugin_is_known_however_it_is_spelled() -> None:
    plugins = [
        {"https://github.com/buildkite-plugins/docker-buildkite-plugin.git#v5": {"image": "a"}},
        {"buildkite-plugins/Docker#v5": {"image": "b"}},
        {"docker-compose#v5": {"image": "c"}},
        {"kubernetes": {"podSpec": {}, "podSpecPatch": {}}},
    ]
    assert [config["image"] for config in docker_configs(plugins)] == ["a", "b"]
    assert [pod.is_patch for pod in pods_of(plugins)] == [False, True]
