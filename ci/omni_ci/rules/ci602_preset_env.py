from __future__ import annotations

from collections.abc import Iterator

from omni_ci.configuration import Configuration
from omni_ci.hardware.holders import holders_of
from omni_ci.hardware.presets import Preset
from omni_ci.rules.context import Context
from omni_ci.rules.rule import Found, Rule
from omni_hardware.errors import OmniError


class PresetsHaveTheSameEnvironment(Rule):
    """Every preset with a device gives its pod the same secrets, and what policy requires.

    A variable that one preset lacks is missing the day a step moves there, and the test fails far from the cause.
    Add it to the preset, or to `pods.secrets` of the policy for all of them. Presets that no step uses are asked too.
    """

    code = "CI602"

    def check(self, context: Context) -> Iterator[Found]:
        asked = {context.configurations[name].presets.file: name for name in sorted(context.judged)}
        for name in asked.values():
            yield from _missing(context.configurations[name])


def _missing(configuration: Configuration) -> Iterator[Found]:
    environments = {
        preset.name: found
        for preset in configuration.presets.by_name.values()
        if (found := _environment(preset, configuration)) is not None
    }
    secrets = {
        name: by for by, found in environments.items() for name, is_secret in found.items() if is_secret
    }
    required = dict.fromkeys(configuration.policy.pods.required_env, "policy")
    for preset_name, found in environments.items():
        preset = configuration.presets.by_name[preset_name]
        for name, by in {**secrets, **required}.items():
            if name not in found:
                source = (
                    "which policy requires" if by == "policy" else f"which preset {by!r} takes from a secret"
                )
                yield Found(
                    file=preset.where.file,
                    line=preset.where.line,
                    subject=f"{preset.where.file}#{preset_name}",
                    key=name,
                    message=f"preset {preset_name!r} has no {name}, {source}",
                )


def _environment(preset: Preset, configuration: Configuration) -> dict[str, bool] | None:
    """Return the variables of the preset's job and of its containers with a device, and whether each is a secret."""
    try:
        fragment = configuration.pods.fragment(preset)
    except OmniError:
        return None  # CI205 says so where a step uses it
    holders = [holder for holder in holders_of(fragment) if holder.is_in_pod and holder.kind]
    if not holders:
        return None
    return {name: name in holder.secrets for holder in holders for name in sorted(holder.variables)}
