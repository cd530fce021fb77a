"""A step with what its preset brings: machines, environment, and the way its commands reach the pod."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omni_ci.hardware.command_env import artifacts_for_runner, as_environment, commands_as_written
from omni_ci.hardware.plugins import variables_of
from omni_ci.hardware.pods import Pods
from omni_ci.hardware.presets import Preset, Presets, SkuPreset
from omni_ci.hardware.variables import GUARDS, carries_commands
from omni_ci.yaml.document import Where
from omni_ci.yaml.model import Leaf, PlainStep
from omni_ci.yaml.waits import entries_of, keys_of
from omni_hardware.errors import InputError

# A step knows whether it is flaky or urgent, a preset only knows its machines: what the step says about these wins.
STEP_WINS = ("retry", "priority")


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """What turns a preset's name into hardware. *platform* is that of the file's folder, None for any."""

    presets: Presets
    pods: Pods
    platform: str | None = None


def equipped(leaf: Leaf, equipment: Equipment, *, file_env: Container[str] = ()) -> Any:
    """Return *leaf* as Buildkite would read it, with what its preset brings.

    The job's environment is the preset's, overridden by the file's (*file_env*, which every job gets) and the step's.
    Raises InputError for a preset that does not exist, is another platform's, or whose guards the step overrides.
    """
    if isinstance(leaf, PlainStep):
        return leaf.body
    written = leaf.written()
    if leaf.mirror_hardwares is None:
        return written
    waits = entries_of(written.get("depends_on"))
    if more := [key for key in leaf.preset_waits if key not in keys_of(waits)]:
        written["depends_on"] = [*waits, *more]
    at = f"{place(leaf.where)}: step {leaf.label or leaf.ident!r}"
    preset = equipment.presets.find(leaf.mirror_hardwares, at=at)
    _refuse_another(preset, equipment.platform, at)
    fragment = equipment.pods.shared(preset)
    _refuse_guards(written.get("env") or {}, preset, fragment, at)
    brought = {name: value for name, value in (fragment.get("env") or {}).items() if name not in file_env}
    return _joined(written, preset, {**fragment, "env": brought})


def missing_env(step: Mapping[str, Any], preset: Preset, *, file_env: Container[str]) -> Iterator[str]:
    """Yield the variables that *preset* requires and the job of the rendered *step* would not have."""
    if isinstance(preset.row, SkuPreset) and preset.row.required_env:
        there = variables_of(step)
        yield from (name for name in preset.row.required_env if name not in there and name not in file_env)


def place(where: Where) -> str:
    """Return "file:line"."""
    return f"{where.file}:{where.line}"


def _joined(written: Mapping[str, Any], preset: Preset, fragment: dict[str, Any]) -> dict[str, Any]:
    """Return the step as *written* with *fragment*, what its preset renders to.

    Where the fragment has a command, that runs the step's commands in the pod, and they travel in the environment.
    """
    row = preset.row if isinstance(preset.row, SkuPreset) else None
    step = dict(written)
    env = {**fragment.pop("env"), **(written.get("env") or {})}
    for name in STEP_WINS:
        if name in written:
            fragment.pop(name, None)
    if row is not None:
        step |= {name: value for name, value in _of_row(preset, row, written).items() if value}
    if "command" in fragment:
        env |= as_environment(commands_as_written(step), as_text=row is not None and row.test_commands)
        env |= artifacts_for_runner(written.get("artifact_paths"))
        step = {
            "command" if key == "commands" else key: fragment.pop("command") if key == "commands" else value
            for key, value in step.items()
        }
    return {**step, **({"env": env} if env else {}), **fragment}


def _of_row(preset: Preset, row: SkuPreset, written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a step that its preset's row adds to, as they become."""
    label, commands = written.get("label"), commands_as_written(written)
    return {
        "label": f"{preset.filled(row.label_prefix)}{label}" if label and row.label_prefix else None,
        "commands": [*preset.filled(row.setup), *commands] if row.setup and commands else None,
        "priority": written.get("priority", row.priority),
    }


def _refuse_another(preset: Preset, platform: str | None, at: str) -> None:
    if platform and preset.platform and platform != preset.platform:
        raise InputError(
            f"{at}: preset {preset.name!r} is {preset.platform} hardware, and this folder's pipelines are {platform}"
        )


def _refuse_guards(env: Mapping[str, Any], preset: Preset, fragment: Mapping[str, Any], at: str) -> None:
    for name in env:
        if name in GUARDS or ("command" in fragment and carries_commands(name)):
            raise InputError(
                f"{at}: `env: {name}` is set by preset {preset.name!r} for every job; take it out"
            )
