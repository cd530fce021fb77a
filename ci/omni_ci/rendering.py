"""From a pipeline file, and what runs of it, to the document Buildkite gets."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from omni_ci.document import Where
from omni_ci.model import UPLOADER_ONLY, Group, Leaf, PipelineFile, PlainStep
from omni_ci.pods import Pods
from omni_ci.presets import Preset, Presets
from omni_ci.sdk import through_sdk
from omni_ci.variables import GUARDS
from omni_ci.waiting import Running, Waiting
from omni_hardware.errors import InputError

# A step knows whether it is flaky, a preset only knows its machines: what the step says about these wins.
STEP_WINS = ("retry",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """What turns a preset's name into hardware. *platform* is that of the file's folder, None for any."""

    presets: Presets
    pods: Pods
    platform: str | None = None


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
    _refuse_guards(pipeline)
    draft = _Draft(equipment=equipment, file=pipeline.name, waiting=Waiting([(pipeline, runs), *beside]))
    leaves = [leaf for _, leaf in pipeline.leaves() if runs is None or leaf.ident in runs]
    if any(not (isinstance(leaf, PlainStep) and leaf.is_gate) for leaf in leaves):
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


def equipped(leaf: Leaf, equipment: Equipment) -> Any:
    """Return *leaf* as Buildkite would read it, with what its preset brings.

    The job's environment is the preset's, overridden by the step's. Raises InputError for a preset that does not
    exist, is another platform's, or whose guards the step overrides.
    """
    if isinstance(leaf, PlainStep):
        return leaf.body
    written = leaf.written()
    if leaf.mirror_hardwares is None:
        return written
    at = f"{place(leaf.where)}: step {leaf.label or leaf.ident!r}"
    preset = equipment.presets.find(leaf.mirror_hardwares, at=at)
    _refuse(preset, equipment.platform, written.get("env") or {}, at)
    fragment = equipment.pods.fragment(preset)
    env = {**(fragment.pop("env", None) or {}), **(written.get("env") or {})}
    for name in STEP_WINS:
        if name in written:
            fragment.pop(name, None)
    return {**written, **({"env": env} if env else {}), **fragment}


def place(where: Where) -> str:
    """Return "file:line"."""
    return f"{where.file}:{where.line}"


@dataclass(slots=True, kw_only=True)
class _Draft:
    """The document as meant, growing step by step."""

    equipment: Equipment
    file: str
    waiting: Waiting
    kept: Container[str] = frozenset()
    steps: list[Any] = field(default_factory=list)
    origins: dict[tuple[int, ...], str] = field(default_factory=dict)
    used: dict[tuple[int, ...], str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)

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
        # a bare `wait` is a word, and words do not know their line
        self.origins[path] = place(leaf.where) if leaf.where.file == self.file else self.file
        if not isinstance(leaf, PlainStep) and leaf.mirror_hardwares is not None:
            self.used[path] = leaf.mirror_hardwares
        step = equipped(leaf, self.equipment)
        return self._waits(step, leaf, self.origins[path], repr(leaf.label or leaf.ident))

    def _waits(self, step: Any, part: Group | Leaf, where: str, title: str) -> Any:
        """Return *step* waiting for what is uploaded, and say what became of the rest. Raises InputError."""
        left = self.waiting.left(part)
        if left.unnamed:
            lost = ", ".join(map(repr, left.unnamed))
            raise InputError(
                f"{where}: {title} waits for {lost} through a step that does not run, and it has no key to wait "
                "for; give it one"
            )
        if not left.is_changed:
            return step
        waits = f"waits for {', '.join(left.inherited)}" if left.inherited else ""
        does_not = f"does not wait for {', '.join(left.gone)}, which does not run" if left.gone else ""
        self.notices.append(f"{where}: {title} {'; it '.join(filter(None, (does_not, waits)))}")
        if not left.entries:
            return {key: value for key, value in step.items() if key != "depends_on"}
        return {key: left.entries if key == "depends_on" else value for key, value in step.items()}


def _refuse_guards(pipeline: PipelineFile) -> None:
    """A file's environment reaches every job, so that it would contradict what a preset counts."""
    presets = [leaf.mirror_hardwares for _, leaf in pipeline.leaves() if not isinstance(leaf, PlainStep)]
    for name in GUARDS:
        if name in (pipeline.env or {}) and any(presets):
            raise InputError(
                f"{pipeline.name}: `env: {name}` is set by the presets for every job; take it out"
            )


def _refuse(preset: Preset, platform: str | None, env: Mapping[str, Any], at: str) -> None:
    if platform and preset.platform and platform != preset.platform:
        raise InputError(
            f"{at}: preset {preset.name!r} is {preset.platform} hardware, and this folder's pipelines are {platform}"
        )
    for name in GUARDS:
        if name in env:
            raise InputError(
                f"{at}: `env: {name}` is set by preset {preset.name!r} for every job; take it out"
            )
