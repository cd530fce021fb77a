"""Names of environment variables and the secrets behind them, read alike in presets and policy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from omni_ci.hardware.command_env import ARTIFACTS, COMMANDS, COMMANDS_AS_TEXT, ONE_COMMAND
from omni_ci.secrecy import is_secret, is_value

EXPECTED_COUNT = "VLLM_CI_EXPECTED_GPU_COUNT"
# What the templates write into every pod themselves; a preset or a step that sets one would contradict it.
GUARDS = (EXPECTED_COUNT, "VLLM_CI_DOCKER_DISABLED")
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = re.compile(r"[^/\s]+/[^/\s]+")


def check_names(names: Iterable[str]) -> None:
    """Return nothing when *names* may be set for a job. Raises ValueError."""
    for name in names:
        if name in GUARDS:
            raise ValueError(f"{name} is set by the pod template from the number of cards; take it out")
        if carries_commands(name):
            raise ValueError(
                f"{name} is set from a step's commands where a preset has a `runner:`; take it out"
            )
        if not ENV_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of an environment variable")


def carries_commands(name: str) -> bool:
    """Return whether a runner reads its step, commands and artifacts, from the variable *name*."""
    return name in {COMMANDS, COMMANDS_AS_TEXT, ARTIFACTS} or name.startswith(ONE_COMMAND)


def check_values(env: Mapping[str, str]) -> None:
    """Return nothing when no variable of *env* is a secret with its value beside it. Raises ValueError."""
    for name, value in env.items():
        if is_secret(name) and (is_value(value) or "$" in value):
            raise ValueError(
                f"{name} is a secret, and this text is uploaded; write `{name}: name/key` under `secrets:`"
            )


def check_sources(sources: Mapping[str, str]) -> None:
    """Return nothing when every variable of *sources* has a secret's `name/key`. Raises ValueError."""
    for name, source in sources.items():
        if not _SECRET.fullmatch(source):
            raise ValueError(f"{name}: write the secret as `name/key`, not {source!r}")
