"""The commands of a step as the environment of its job: what a runner in the pod reads instead of `commands:`.

The agent interpolates an environment value once, like a command, but this value is JSON: a quote in a branch's name, or
a backslash in whatever a variable holds, would end a text there or become another character. So `OMNI_COMMANDS` holds
nothing that upload replaces. Every `$` in it is doubled; `BUILDKITE_…` variables, which a job has as well, are left to
its shell where that makes the same of them; and a command with any other variable of upload travels as it is written,
in an `OMNI_COMMAND_<n>` of its own, which the list evaluates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from omni_ci.shell.expansions import LeftToTheJob

COMMANDS = "OMNI_COMMANDS"
ONE_COMMAND = "OMNI_COMMAND_"
ARTIFACTS = "OMNI_ARTIFACT_PATHS"
COMMANDS_AS_TEXT = "TEST_COMMANDS"
_EVALUATED = re.compile(rf'eval "\$\$({ONE_COMMAND}\d+)"')


def as_environment(commands: Sequence[str], *, as_text: bool = False) -> dict[str, str]:
    """Return the variables that carry *commands* through upload; *as_text* adds them as one text for older runners.

    Once the agent has interpolated it, `OMNI_COMMANDS` is a JSON array with one text a command, whatever the
    environment of the upload holds.
    """
    job = LeftToTheJob(commands)
    items: list[str] = []
    apart: dict[str, str] = {}
    for number, command in enumerate(commands, start=1):
        left = job.written(command)
        if left is None:
            apart[f"{ONE_COMMAND}{number}"] = command
        items.append(f'eval "$${ONE_COMMAND}{number}"' if left is None else left)
    text = {COMMANDS_AS_TEXT: "\n".join(commands)} if as_text else {}
    # a line a command: people read what was uploaded
    listed = ",\n ".join(json.dumps(item, ensure_ascii=False) for item in items)
    return {COMMANDS: f"[{listed}]", **apart, **text}


def artifacts_for_runner(paths: Sequence[str] | str | None) -> dict[str, str]:
    """Return the variable that tells a runner what the agent will look for in the checkout; none without *paths*.

    The agent interpolates it as it does `artifact_paths`; a value that is no JSON then, the runner refuses.
    """
    listed = [paths] if isinstance(paths, str) else list(paths or ())
    written = [path.replace("\\$", "$$") for path in listed]  # JSON doubles a backslash
    return {ARTIFACTS: json.dumps(written, ensure_ascii=False)} if listed else {}


def commands_as_written(step: Mapping[str, Any]) -> list[str]:
    """Return the commands of a rendered *step* as a file would write them, whether or not they travel in its env."""
    env = step.get("env")
    if isinstance(env, Mapping) and isinstance(env.get(COMMANDS), str):
        try:
            items = json.loads(env[COMMANDS])
        except ValueError:
            items = None
        if isinstance(items, list):
            return [_as_written(str(item), env) for item in items]
    written = [step.get(name) or () for name in ("command", "commands")]
    return [str(line) for one in written for line in ([one] if isinstance(one, str) else one)]


def _as_written(item: str, env: Mapping[str, Any]) -> str:
    evaluated = _EVALUATED.fullmatch(item)
    return str(env.get(evaluated[1], item)) if evaluated else item
