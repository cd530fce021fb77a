"""Names of environment variables and the secrets behind them, read alike in presets and policy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

# What the templates write into every pod themselves; a preset or a step that sets one would contradict it.
GUARDS = ("VLLM_CI_EXPECTED_GPU_COUNT", "VLLM_CI_DOCKER_DISABLED")
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = re.compile(r"[^/\s]+/[^/\s]+")


def check_names(names: Iterable[str]) -> None:
    """Return nothing when *names* may be set for a job. Raises ValueError."""
    for name in names:
        if name in GUARDS:
            raise ValueError(f"{name} is set by the pod template from the number of cards; take it out")
        if not ENV_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of an environment variable")


def check_secrets(sources: Mapping[str, str]) -> None:
    """Return nothing when every variable of *sources* has a secret's `name/key`. Raises ValueError."""
    for name, source in sources.items():
        if not _SECRET.fullmatch(source):
            raise ValueError(f"{name}: write the secret as `name/key`, not {source!r}")
