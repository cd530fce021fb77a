"""`omni-ci presets`: the names a step can ask for, and what stands behind each."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from omni_ci.checks.presets import check_presets
from omni_ci.commands.arguments import one_named
from omni_ci.configuration import ConfigKind, Configuration
from omni_ci.hardware.presets import Preset, SkuPreset
from omni_ci.planning import configurations_of, named_from_root, pipeline_names, repository_root
from omni_ci.repository.places import Tree
from omni_ci.showing.report import print_columns, say
from omni_hardware.errors import CheckError, InputError

# Where there is no pipeline yet, the presets are looked for as one would.
_NONE_YET = ".buildkite/cuda/test-ready.yml"


def presets(*, presets: str | None = None) -> int:
    """List the hardware presets, and say what is wrong with any.

    Parameters
    ----------
    presets
        The presets file, instead of those that the pipelines find.

    """
    here = Path.cwd()
    root = repository_root(here)
    one_named("--presets", presets)
    given = {ConfigKind.PRESETS: named_from_root(presets, root=root, here=here)} if presets else {}
    names = pipeline_names(root) or [_NONE_YET]
    found = configurations_of(Tree(root), names, given=given).values()
    loaded = {one.presets.file: one for one in found}
    files = [file for file, one in loaded.items() if one.presets.by_name]
    if not files:
        raise InputError(f"no presets in {next(iter(loaded))}; start with `omni-ci init`")
    for notice in dict.fromkeys(notice for one in loaded.values() for notice in one.presets.notices):
        say(f"note: {notice}")
    # a template that cannot render is an error here too
    wrong = [str(finding) for one in loaded.values() for finding in _checked(one, root)]
    rows = [_row(preset) for file in files for preset in loaded[file].presets.by_name.values()]
    print_columns(("preset", "hardware", "cards", "queue", "template", "from"), rows, sys.stdout)
    print(f"{len(rows)} preset{'' if len(rows) == 1 else 's'} in {', '.join(files)}")
    if wrong:
        raise CheckError("\n".join(wrong))
    return 0


def _checked(configuration: Configuration, root: Path) -> Iterator[object]:
    yield from check_presets(configuration.presets, configuration.pods, configuration.policy)
    yield from _absent_runners(configuration.presets.by_name, root)


def _absent_runners(presets: Mapping[str, Preset], root: Path) -> Iterator[str]:
    told: set[int] = set()
    for preset in presets.values():
        runner = preset.row.runner if isinstance(preset.row, SkuPreset) else None
        if runner and not (root / runner).is_file() and id(preset.row) not in told:
            told.add(id(preset.row))
            yield f"{preset.where.file}:{preset.where.line}: preset {preset.name!r}: there is no runner {runner}"


def _row(preset: Preset) -> Sequence[str]:
    cards = "-" if preset.cards is None else str(preset.cards)
    place = f"{preset.where.file}:{preset.where.line}"
    if isinstance(preset.row, SkuPreset):
        hardware = f"{preset.row.platform} {preset.row.sku}"
        return (preset.name, hardware, cards, preset.queue or "-", preset.row.template, place)
    return (preset.name, "-", cards, preset.queue or "-", "literal", place)
