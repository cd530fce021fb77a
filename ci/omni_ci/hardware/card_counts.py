"""The cards of a step: one number wherever it appears, or a finding (S14)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from omni_ci.hardware.plugins import (
    COMMAND_CONTAINER,
    docker_configs,
    is_device,
    mappings,
    pods_of,
    tags_of,
    wrong_shapes,
)
from omni_ci.hardware.variables import EXPECTED_COUNT
from omni_hardware.vocabulary import CARDS

# A number at the end of a name is a count where a machine could have as many cards: `ascend_910` names a chip.
_AT_THE_END = re.compile(r"(?:^|[_-])(\d+)(?:_queue)?$")

# A pod may also ask for network devices (rdma/hca), as many as it likes.
_CARD = re.compile(r"gpu|npu|ascend|/mig-", re.IGNORECASE)


def check_counts(step: Mapping[str, Any], *, preset: str | None) -> Iterator[tuple[str, str]]:
    """Yield ("S14", message) when the counts of cards that *step*, which asked for *preset*, names are not one."""
    agents = step.get("agents")
    counts = {
        **_of_pods(step.get("plugins")),
        **_of_docker(step.get("plugins")),
        **_of_job(step.get("env")),
        **_of_names("resource class", tags_of(agents, "resource_class")),
    }
    # names alone may count anything; beside a number of cards they count cards
    if counts:
        counts |= _of_names("queue", tags_of(agents, "queue"))
        counts |= _of_names("preset", [preset] if preset else [])
    if len(set(counts.values())) > 1:
        yield "S14", "card counts differ: " + ", ".join(f"{where} {count}" for where, count in counts.items())


def _of_pods(plugins: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for pod in pods_of(plugins):
        if any(wrong_shapes(pod)):
            continue  # S11 says so
        for container in mappings(pod.spec.get("containers")):
            name = container.get("name", COMMAND_CONTAINER)
            resources = container.get("resources") or {}
            for resource, quantity in (resources.get("limits") or {}).items():
                # S11 names a quantity that is no number
                if is_device(resource) and _CARD.search(resource) and str(quantity).isdecimal():
                    found[f"limit {resource} of container {name!r}"] = _count(quantity)
            for entry in mappings(container.get("env")):
                if entry.get("name") == EXPECTED_COUNT:
                    found[f"{EXPECTED_COUNT} of container {name!r}"] = _count(entry.get("value"))
    return found


def _of_docker(plugins: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for config in docker_configs(plugins):
        environment = config.get("environment")
        for entry in map(str, environment if isinstance(environment, list) else ()):
            name, _, count = entry.partition("=")
            if name == EXPECTED_COUNT and count:
                found[f"{EXPECTED_COUNT} of the docker plugin"] = _count(count)
        gpus = str(config.get("gpus", "all")).strip("\"'")
        if gpus.startswith("device="):
            found["gpus of the docker plugin"] = str(len(gpus.split(",")))
        elif gpus != "all":
            found["gpus of the docker plugin"] = _count(gpus)
    return found


def _of_job(env: Any) -> dict[str, str]:
    if not isinstance(env, Mapping) or EXPECTED_COUNT not in env:
        return {}
    return {f"{EXPECTED_COUNT} of the job": _count(env[EXPECTED_COUNT])}


def _of_names(what: str, names: list[str]) -> dict[str, str]:
    ends = {name: _AT_THE_END.search(name) for name in names}
    return {f"{what} {name}": _count(end[1]) for name, end in ends.items() if end and int(end[1]) in CARDS}


def _count(value: Any) -> str:
    """Return a count as every place would write it: "2" for 2, "2" and "02"; what is no number stays as it is."""
    text = str(value)
    return str(int(text)) if text.isdecimal() else repr(text)
