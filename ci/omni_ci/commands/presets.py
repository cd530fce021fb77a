"""`omni-ci presets`: the names a step can ask for, and what stands behind each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from omni_ci.configuration import load_configuration
from omni_ci.places import Tree
from omni_ci.planning import named_from_root, pipeline_names, repository_root
from omni_ci.presets import Preset, SkuPreset
from omni_ci.report import print_columns, say
from omni_ci.selection import ConfigKind
from omni_hardware.errors import InputError
from omni_hardware.project import load_project


def presets(*, presets: str | None = None) -> int:
    """List the hardware presets.

    Parameters
    ----------
    presets
        The presets file, instead of the one in .buildkite/.

    """
    here = Path.cwd()
    root = repository_root(here)
    given = {ConfigKind.PRESETS: named_from_root(presets, root=root, here=here)} if presets else {}
    loaded = load_configuration(Tree(root), pipeline_names(root), vocabulary=load_project(root), given=given)
    if not loaded.presets.by_name:
        raise InputError(f"no presets in {loaded.presets.file}; start with `omni-ci init`")
    for notice in loaded.notices:
        say(f"note: {notice}")
    for preset in loaded.presets.by_name.values():
        loaded.pods.fragment(preset)  # a template that cannot render is an error here too
    rows = [_row(preset) for preset in loaded.presets.by_name.values()]
    print_columns(("preset", "hardware", "cards", "queue", "template", "from"), rows, sys.stdout)
    print(f"{len(rows)} presets in {loaded.presets.file}")
    return 0


def _row(preset: Preset) -> Sequence[str]:
    cards = "-" if preset.cards is None else str(preset.cards)
    place = f"{preset.where.file}:{preset.where.line}"
    if isinstance(preset.row, SkuPreset):
        hardware = f"{preset.row.platform} {preset.row.sku}"
        return (preset.name, hardware, cards, preset.queue or "-", preset.row.template, place)
    return (preset.name, "-", cards, preset.queue or "-", "literal", place)
