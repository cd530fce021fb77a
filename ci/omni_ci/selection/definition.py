"""Which steps are defined differently at the base: the whole rendered step, whatever file made the difference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from omni_ci.configuration import Configuration, Files
from omni_ci.hardware.equipping import Equipment, equipped
from omni_ci.hardware.inference import Fitted
from omni_ci.rendering.steps import own_of, top_of
from omni_ci.selection.judging import DefinitionChange
from omni_ci.yaml.model import Group, Leaf, PipelineFile, step_id
from omni_ci.yaml.registry import Registry
from omni_hardware.errors import OmniError

UNREADABLE = "definition at base unreadable"


# From a text, its name and a configuration to the pipeline, with the hardware its steps get.
Read = Callable[[str, str, Configuration], Fitted]


def changed_definitions(
    pipelines: Iterable[PipelineFile],
    *,
    head: tuple[Files, Configuration],
    base: Files,
    load: Callable[[Files], Configuration],
    read: Read,
) -> dict[str, DefinitionChange]:
    """Return the steps of *pipelines* that differ from those at *base*, by `file#ident`, with what differs.

    *load* loads the configuration of a side, *read* reads a pipeline with it. A base that cannot be loaded makes a difference
    of its own.
    """
    files, configuration = head
    try:
        before = load(base)
    except OmniError as error:
        reason = _unreadable(error)
        return {step_id(one.name, leaf.ident): reason for one in pipelines for _, leaf in one.leaves()}
    same = before.texts == configuration.texts
    found: dict[str, DefinitionChange] = {}
    for pipeline in pipelines:
        text = base.read(pipeline.name)
        if same and text is not None and text == files.read(pipeline.name):
            continue
        for ident, change in _in_file(pipeline, text, configuration, before, read):
            found[step_id(pipeline.name, ident)] = change
    return found


def _in_file(
    pipeline: PipelineFile, text: str | None, head: Configuration, base: Configuration, read: Read
) -> Iterator[tuple[str, DefinitionChange]]:
    idents = [leaf.ident for _, leaf in pipeline.leaves()]
    if text is None:
        yield from ((ident, DefinitionChange(f"{pipeline.name} is new")) for ident in idents)
        return
    try:
        before = read(text, pipeline.name, base).pipeline
    except OmniError as error:
        yield from ((ident, _unreadable(error)) for ident in idents)
        return
    known = {leaf.ident: (group, leaf) for group, leaf in before.leaves()}
    for group, leaf in pipeline.leaves():
        if leaf.ident not in known:
            yield leaf.ident, DefinitionChange("the step is new")
            continue
        now = _definition(pipeline, group, leaf, head)
        try:
            then = _definition(before, *known[leaf.ident], base)
        except OmniError as error:
            yield leaf.ident, _unreadable(error)
            continue
        if differing := [
            name for name in (*now, *(then.keys() - now.keys())) if now.get(name) != then.get(name)
        ]:
            yield leaf.ident, DefinitionChange(f"its definition changed ({', '.join(differing[:4])})")


def _definition(
    pipeline: PipelineFile, group: Group | None, leaf: Leaf, configuration: Configuration
) -> dict[str, Any]:
    """Return everything that decides what the step does and when, flat, one entry a key."""
    equipment: Equipment = configuration.equipment(pipeline.name)
    step = equipped(leaf, equipment)
    parts: dict[str, Any] = dict(step) if isinstance(step, Mapping) else {"step": step}
    parts |= {f"pipeline {key}": value for key, value in top_of(pipeline).items()}
    if group is not None:
        parts |= {f"group {key}": value for key, value in own_of(group).items()}
        parts["group source_file_dependencies"] = _opened(
            group.source_file_dependencies, configuration.registry
        )
    parts["source_file_dependencies"] = _opened(leaf.source_file_dependencies, configuration.registry)
    return parts


def _opened(entries: tuple[str, ...] | None, registry: Registry) -> list[str] | None:
    keys = registry.keys
    return None if entries is None else [path for entry in entries for path in keys.get(entry, (entry,))]


def _unreadable(error: OmniError) -> DefinitionChange:
    return DefinitionChange(f"{UNREADABLE}: {str(error).splitlines()[0]}")
