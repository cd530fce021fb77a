"""Which steps are defined differently at the base: the whole rendered step, whatever file made the difference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from omni_ci.configuration import Configuration, Files
from omni_ci.hardware.equipping import Equipment, equipped
from omni_ci.hardware.inference import Fitted
from omni_ci.rendering.steps import own_of, top_of
from omni_ci.selection.judging import DefinitionChange
from omni_ci.yaml.model import Group, Leaf, step_id
from omni_ci.yaml.registry import Registry
from omni_hardware.errors import OmniError

UNREADABLE = "definition at base unreadable"


# From a text, its name and a configuration to the pipeline, with the hardware its steps get.
Read = Callable[[str, str, Configuration], Fitted]


def changed_definitions(
    fits: Iterable[Fitted],
    *,
    head: tuple[Files, Configuration],
    base: Files,
    load: Callable[[], Configuration],
    read: Read,
) -> dict[str, DefinitionChange]:
    """Return the steps of the pipelines *fits* that differ from those at *base*, by `file#ident`, with what differs.

    *load* loads the configuration of the base, *read* reads a pipeline with one. A base that cannot be loaded makes a
    difference of its own.
    """
    files, configuration = head
    fitted = tuple(fits)
    try:
        before = load()
    except OmniError as error:
        reason = _unreadable(error)
        pipelines = (fit.pipeline for fit in fitted)
        return {step_id(one.name, leaf.ident): reason for one in pipelines for _, leaf in one.leaves()}
    same = before.reads_like(configuration)
    found: dict[str, DefinitionChange] = {}
    for fit in fitted:
        name = fit.pipeline.name
        text = base.read(name)
        if same and text is not None and text == files.read(name):
            continue
        for ident, change in _in_file(fit, text, configuration, before, read):
            found[step_id(name, ident)] = change
    return found


def _in_file(
    fit: Fitted, text: str | None, head: Configuration, base: Configuration, read: Read
) -> Iterator[tuple[str, DefinitionChange]]:
    pipeline = fit.pipeline
    idents = [leaf.ident for _, leaf in pipeline.leaves()]
    if text is None:
        yield from ((ident, DefinitionChange(f"{pipeline.name} is new")) for ident in idents)
        return
    try:
        before = read(text, pipeline.name, base)
    except OmniError as error:
        yield from ((ident, _unreadable(error)) for ident in idents)
        return
    known = {leaf.ident: (group, leaf) for group, leaf in before.pipeline.leaves()}
    for group, leaf in pipeline.leaves():
        if leaf.ident not in known:
            yield leaf.ident, DefinitionChange("the step is new")
            continue
        now = _definition(fit, group, leaf, head)
        try:
            then = _definition(before, *known[leaf.ident], base)
        except OmniError as error:
            yield leaf.ident, _unreadable(error)
            continue
        if differing := [
            name for name in (*now, *(then.keys() - now.keys())) if now.get(name) != then.get(name)
        ]:
            yield leaf.ident, DefinitionChange(f"its definition changed ({', '.join(differing[:4])})")


def _definition(fit: Fitted, group: Group | None, leaf: Leaf, configuration: Configuration) -> dict[str, Any]:
    """Return everything that decides whether there is such a step, what it does and when, flat, one entry a key."""
    equipment: Equipment = configuration.equipment(fit.pipeline.name)
    step = equipped(leaf, equipment)
    parts: dict[str, Any] = {"hardware": leaf.ident not in fit.unfit}
    parts |= dict(step) if isinstance(step, Mapping) else {"step": step}
    parts |= {f"pipeline {key}": value for key, value in top_of(fit.pipeline).items()}
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
