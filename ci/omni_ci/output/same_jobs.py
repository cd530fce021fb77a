"""Whether two rendered steps are one job: the same commands, environment and hardware, under the same conditions."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from typing import Any

from omni_ci.hardware.command_env import commands_as_written
from omni_ci.yaml.kinds import GATES, plain_kind
from omni_ci.yaml.waits import entries_of, key_of

Work = Hashable
# What a step is called, and how it is handled: not what it does. Everything else must be equal.
_MAY_DIFFER = frozenset(
    {"label", "name", "key", "id", "identifier", "timeout_in_minutes", "priority", "retry"}
)
_COMPARED_APART = frozenset({"command", "commands", "env", "depends_on"})


def work_of(step: Any, around: Mapping[str, Any] | None, renamed: Mapping[str, str]) -> Work | None:
    """Return what *step* does as a value to compare, None for one that must stay where it is.

    *around* is what its group says, None where the group cannot do without it; *renamed* are keys that stand for
    others. Conditions and `soft_fail` count: a step that does not block stands for none that does.
    """
    if around is None or not isinstance(step, Mapping) or plain_kind(step) is not None:
        return None
    commands = "\n".join(commands_as_written(step))
    if not commands.strip():
        return None
    rest = {key: value for key, value in step.items() if key not in _MAY_DIFFER | _COMPARED_APART}
    waits = [
        _renamed(entry, renamed) for value in (step, around) for entry in entries_of(value.get("depends_on"))
    ]
    beside = {key: value for key, value in around.items() if key != "depends_on"}
    # the whole environment, since a runner reads commands from more variables than we do
    found = (rest, step.get("env") or {}, waits, beside)
    return json.dumps(found, sort_keys=True, default=str), commands.strip("\n")


def around_of(item: Any) -> Mapping[str, Any] | None:
    """Return what a group says for its steps, {} for a step by itself, None where its steps hang together.

    They do in a group that others wait for by its key, and where a gate orders them.
    """
    if not isinstance(item, Mapping) or "group" not in item:
        return {}
    if "key" in item or any(plain_kind(child) in GATES for child in item["steps"]):
        return None
    return {key: value for key, value in item.items() if key not in {"group", "steps"}}


def _renamed(entry: Any, names: Mapping[str, str]) -> str:
    key = key_of(entry)
    named = names.get(key, key) if key is not None else None
    return json.dumps({**entry, "step": named} if isinstance(entry, Mapping) else named or entry, default=str)
