"""From a pipeline file, and what runs of it, to the document Buildkite gets."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from omni_ci.hardware.equipping import Equipment, equipped, missing_env, place
from omni_ci.hardware.preset_waits import with_preset_waits
from omni_ci.hardware.presets import Preset, SkuPreset
from omni_ci.hardware.variables import GUARDS, carries_commands
from omni_ci.rendering.sdk import through_sdk
from omni_ci.rendering.waiting import Running, Waiting
from omni_ci.yaml.model import UPLOADER_ONLY, Group, Leaf, PipelineFile, PlainStep
from omni_hardware.errors import InputError

_SET_FREE = "since with the `depends_on` of its preset its place no longer holds it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The document, and where its steps come from by their indices: (2,), or (2, 0) inside a group."""

    document: dict[str, Any]
    origins: Mapping[tuple[int, ...], str]
    presets: Mapping[tuple[int, ...], str]
    notices: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to upload."""
        return not self.document["steps"]


def render(
    pipeline: PipelineFile,
    equipment: Equipment,
    *,
    runs: Container[str] | None = None,
    beside: Iterable[Running] = (),
) -> Rendered:
    """Return the document with the steps of *pipeline* whose ident is in *runs* (None: all).

    *beside* are other pipelines of the build, for what a step waits for in them.
    A group left without steps goes, with a notice; where only gates (`wait`, `block`) are left nothing is. Raises
    InputError for an unknown preset, for a step without a key that another one would have to wait for, and for
    values Buildkite's classes refuse, DroppedKeyError for a lost key.
    """
    composed = compose(pipeline, equipment, runs=runs, beside=beside)
    return replace(composed, document=through_sdk(composed.document, composed.origins))


def compose(
    pipeline: PipelineFile,
    equipment: Equipment,
    *,
    runs: Container[str] | None = None,
    beside: Iterable[Running] = (),
) -> Rendered:
    """Return what `render` does, before the typed classes have seen it. Raises InputError."""
    pipeline = with_preset_waits(pipeline, equipment.presets)
    _refuse_guards(pipeline, equipment)
    draft = _Draft(equipment=equipment, pipeline=pipeline, waiting=Waiting([(pipeline, runs), *beside]))
    leaves = [leaf for _, leaf in pipeline.leaves() if runs is None or leaf.ident in runs]
    if any(not leaf.is_gate for leaf in leaves):
        draft.kept = frozenset(leaf.ident for leaf in leaves)
        for item in pipeline.steps:
            draft.add(item)
    return Rendered(
        document={**top_of(pipeline), "steps": draft.steps},
        origins=draft.origins,
        presets=draft.used,
        notices=tuple(draft.notices),
    )


def top_of(pipeline: PipelineFile) -> dict[str, Any]:
    """Return what the file says for all of its steps: env, agents, notify, …"""
    return pipeline.model_dump(by_alias=True, exclude_unset=True, exclude={"steps"}, mode="json")


def own_of(group: Group) -> dict[str, Any]:
    """Return a group's keys without its steps, as Buildkite would read them."""
    return group.model_dump(by_alias=True, exclude_unset=True, exclude={"steps", *UPLOADER_ONLY}, mode="json")


@dataclass(slots=True, kw_only=True)
class _Draft:
    """The document as meant, growing step by step."""

    equipment: Equipment
    pipeline: PipelineFile
    waiting: Waiting
    kept: Container[str] = frozenset()
    steps: list[Any] = field(default_factory=list)
    origins: dict[tuple[int, ...], str] = field(default_factory=dict)
    used: dict[tuple[int, ...], str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    said: set[str] = field(default_factory=set)

    def add(self, item: Group | Leaf) -> None:
        path = (len(self.steps),)
        if not isinstance(item, Group):
            if item.ident in self.kept:
                self.steps.append(self._leaf(item, path))
            return
        children = [leaf for leaf in item.steps if leaf.ident in self.kept]
        if not children:
            self.notices.append(
                f"{place(item.where)}: group {item.group!r} is left out: none of its steps runs"
            )
            return
        self.origins[path] = place(item.where)
        steps = [self._leaf(leaf, (*path, index)) for index, leaf in enumerate(children)]
        own = self._waits(own_of(item), item, self.origins[path], repr(item.group))
        self.steps.append({**own, "steps": steps})

    def _leaf(self, leaf: Leaf, path: tuple[int, ...]) -> Any:
        self.origins[path] = place(leaf.where)
        step = equipped(leaf, self.equipment, file_env=self.pipeline.env or ())
        if not isinstance(leaf, PlainStep) and leaf.mirror_hardwares is not None:
            self.used[path] = leaf.mirror_hardwares
            self._preset(
                leaf.mirror_hardwares, step, f"{self.origins[path]}: step {leaf.label or leaf.ident!r}"
            )
        return self._waits(step, leaf, self.origins[path], repr(leaf.label or leaf.ident))

    def _preset(self, name: str, step: Mapping[str, Any], at: str) -> None:
        """Look at what became of a preset in *step*. Raises InputError for a variable it requires."""
        preset = self.equipment.presets.find(name, at=at)
        if missing := list(missing_env(step, preset, file_env=self.pipeline.env or ())):
            raise InputError(
                f"{at}: preset {name!r} ({place(preset.where)}) requires {', '.join(missing)}; give it under `env:` of "
                "the step, the file or the preset"
            )
        if preset.is_the_packages and name not in self.said:
            self.said.add(name)
            self.notices.append(
                f"{at}: preset {name!r} is not in {self.equipment.presets.file}; the package's own is used"
                f"{_waits_of(preset)}"
            )

    def _waits(self, step: Any, part: Group | Leaf, where: str, title: str) -> Any:
        """Return *step* waiting for what is uploaded, and say what became of the rest. Raises InputError."""
        left = self.waiting.left(part)
        unnamed = ", ".join(map(repr, left.unnamed))
        if left.lost:
            self.notices.append(
                f"{where}: {title} stands behind a step that does not run, and does not wait for what that one waited "
                f"for: {', '.join(left.lost)}; for that give {unnamed} a key"
            )
        elif left.unnamed:
            way = _SET_FREE if left.is_set_free else "through a step that does not run"
            raise InputError(
                f"{where}: {title} waits for {unnamed} {way}, and it has no key to wait for; give it one"
            )
        if not left.is_changed:
            return step
        by_key = f" by key, {_SET_FREE}" if left.is_set_free else ""
        waits = f"waits for {', '.join(left.inherited)}{by_key}" if left.inherited else ""
        does_not = f"does not wait for {', '.join(left.gone)}, which does not run" if left.gone else ""
        self.notices.append(f"{where}: {title} {'; it '.join(filter(None, (does_not, waits)))}")
        if not left.entries:
            return {key: value for key, value in step.items() if key != "depends_on"}
        return {**step, "depends_on": left.entries}


def _waits_of(preset: Preset) -> str:
    """Return what a preset of the package does about `depends_on`, for its notice."""
    keys = preset.filled(preset.row.depends_on) if isinstance(preset.row, SkuPreset) else []
    return f", which waits for {', '.join(keys)} where a step waits for nothing" if keys else ""


def _refuse_guards(pipeline: PipelineFile, equipment: Equipment) -> None:
    """A file's environment reaches every job, so that it would contradict what a preset counts or hands over."""
    if not pipeline.env:
        return
    names = {leaf.mirror_hardwares: None for _, leaf in pipeline.leaves() if not isinstance(leaf, PlainStep)}
    used = [equipment.presets.get(name) for name in names if name is not None]
    has_runner = any(preset is not None and getattr(preset.row, "runner", None) for preset in used)
    for name in pipeline.env:
        if used and (name in GUARDS or (has_runner and carries_commands(name))):
            raise InputError(
                f"{pipeline.name}: `env: {name}` is set by the presets for every job; take it out"
            )
