"""The step dialect: what a pipeline file may say.

A file holds command steps, groups of them one level deep, and `wait`, `block`, `input` and `trigger` steps that
pass through as written. `source_file_dependencies`, `mirror_hardwares`, `imports` and `tests` are ours and never
reach Buildkite.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Discriminator,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
    model_validator,
)

from omni_ci.yaml.document import LocatedDict, Where, flattened
from omni_ci.yaml.fields import Dependencies, Environment, Json, Located, Texts, one_or_many
from omni_ci.yaml.kinds import BARE_WORDS, DIVIDING, GATES, WAITS, plain_kind
from omni_ci.yaml.tests_block import Suite, command_of

UPLOADER_ONLY = ("source_file_dependencies", "mirror_hardwares", "tests", "imports")


class Watching(Located):
    """A part that may say which paths concern it."""

    source_file_dependencies: Dependencies | None = None
    _dependency_places: dict[str, Where] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _remember_dependencies(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        made = handler(data)
        if isinstance(data, LocatedDict) and "source_file_dependencies" in data:
            where = data.keys_at["source_file_dependencies"]
            leaves = flattened(data["source_file_dependencies"], where)
            made._dependency_places.update(leaves)  # noqa: SLF001 - the one place that sets it
        return made

    @property
    def is_gate(self) -> bool:
        """Whether it only holds, parts or asks, so that alone it means nothing."""
        return False

    @property
    def is_wait(self) -> bool:
        """Whether it is a gate that asks nobody: it holds nothing back but what stands before it."""
        return False

    @property
    def divides(self) -> bool:
        """Whether it waits for all that stand before it, and all behind it for it, by their place."""
        return False

    @property
    def goes_along(self) -> bool:
        """Whether the steps around it decide about it: a gate that does not say which paths concern it."""
        return self.is_gate and self.source_file_dependencies is None

    def dependency_place(self, entry: str) -> Where:
        """Return where *entry* of the dependency list is written."""
        return self._dependency_places.get(entry, self.where)


class _Identified(Watching):
    _ident: str = PrivateAttr(default="")

    @property
    def ident(self) -> str:
        """The step's name within its file: its key, else a slug of its label; unique there."""
        return self._ident or self._wish()

    def _wish(self) -> str:
        key, label = getattr(self, "key", None), getattr(self, "label", None)
        return key or slug(label or "") or "step"


class Step(_Identified):
    """A command step. Field names are Buildkite's; None or () means "not written"."""

    label: StrictStr | None = None
    key: StrictStr | None = None
    commands: Texts = Field(default=(), validation_alias=AliasChoices("commands", "command"))
    tests: Annotated[tuple[Suite, ...], BeforeValidator(one_or_many)] = ()
    mirror_hardwares: StrictStr | None = None
    imports: Literal["report", "union"] | None = None
    depends_on: Json = None
    allow_dependency_failure: StrictBool | None = None
    if_: StrictStr | None = Field(default=None, alias="if")
    if_changed: Json = None
    branches: Json = None
    env: Environment | None = None
    agents: Json = None
    image: StrictStr | None = None
    plugins: Json = None
    timeout_in_minutes: Annotated[StrictInt, Field(ge=1)] | None = None
    parallelism: Annotated[StrictInt, Field(ge=1)] | None = None
    matrix: Json = None
    artifact_paths: Texts | None = None
    retry: Json = None
    soft_fail: StrictBool | list[Json] | None = None
    priority: StrictInt | None = None
    concurrency: Annotated[StrictInt, Field(ge=1)] | None = None
    concurrency_group: StrictStr | None = None
    concurrency_method: StrictStr | None = None
    cancel_on_build_failing: StrictBool | None = None
    skip: StrictBool | StrictStr | None = None
    notify: Json = None
    secrets: Json = None
    cache: Json = None
    checkout: Json = None
    _mirrors: tuple[str, ...] | None = PrivateAttr(default=None)
    _preset_waits: tuple[str, ...] = PrivateAttr(default=())
    _is_generated: bool = PrivateAttr(default=False)

    @model_validator(mode="after")
    def _generate(self) -> Self:
        """Put the shell of the `tests:` behind the commands; once, since a built step is validated again."""
        if self.tests and not self._is_generated:
            self._is_generated = True
            shards = next((suite.shards for suite in self.tests if suite.shards), self.parallelism)
            made = {"commands": (*self.commands, *map(command_of, self.tests)), "parallelism": shards}
            made = {name: value for name, value in made.items() if value is not None}
            self.__dict__.update(made)  # frozen for everybody else
            self.__pydantic_fields_set__.update(made)
        return self

    @property
    def mirrors(self) -> tuple[str, ...] | None:
        """The mirrors that an older AMD file runs the step on, () for "on none"; None for every other file."""
        return self._mirrors

    @property
    def preset_waits(self) -> tuple[str, ...]:
        """The keys its preset has it wait for, beside what it waits for itself."""
        return self._preset_waits

    def waiting_for(self, keys: tuple[str, ...]) -> Self:
        """Return the step with these `preset_waits`."""
        made = self.model_copy()
        made._preset_waits = keys  # noqa: SLF001
        return made

    def written(self) -> dict[str, Any]:
        """Return the step as Buildkite would read it: only what was written, without the keys that are ours."""
        return self.model_dump(by_alias=True, exclude_unset=True, exclude=set(UPLOADER_ONLY), mode="json")


class PlainStep(_Identified):
    """A wait, block, input or trigger step: passed through as written."""

    kind: str
    body: Json
    label: StrictStr | None = None
    key: StrictStr | None = None
    depends_on: Json = None

    @model_validator(mode="before")
    @classmethod
    def _from_yaml(cls, data: Any) -> Any:
        if isinstance(data, str):
            return {"kind": data, "body": data}
        if not isinstance(data, Mapping) or "body" in data:
            return data
        kind = plain_kind(data)
        shown = {
            name: data[name] for name in ("key", "depends_on", "source_file_dependencies") if name in data
        }
        title = data.get("label", data.get(kind))
        body = {name: value for name, value in data.items() if name != "source_file_dependencies"}
        return {"kind": kind, "body": body, "label": title if title != "" else None, **shown}

    @property
    def is_gate(self) -> bool:
        return self.kind in GATES

    @property
    def is_wait(self) -> bool:
        return self.kind in WAITS

    @property
    def divides(self) -> bool:
        return self.kind in DIVIDING

    def _wish(self) -> str:
        return self.key or slug(self.label or "") or self.kind


def kind_of(data: Any) -> str | None:
    """Return the tag of the model that reads this step; None for what cannot be a step."""
    if isinstance(data, Group | PlainStep | Step):
        return {Group: "<group>", PlainStep: "<plain>", Step: "<step>"}[type(data)]
    if isinstance(data, str):
        return "<plain>" if data in BARE_WORDS else None
    if not isinstance(data, Mapping):
        return None
    if "group" in data:
        return "<group>"
    return "<plain>" if plain_kind(data) else "<step>"


Leaf = Step | PlainStep
_LeafInput = Annotated[
    Annotated[Step, Tag("<step>")] | Annotated[PlainStep, Tag("<plain>")], Discriminator(kind_of)
]


class Group(Watching):
    """Steps shown under one title; its own dependencies gate what its steps declare."""

    group: StrictStr
    key: StrictStr | None = None
    depends_on: Json = None
    allow_dependency_failure: StrictBool | None = None
    if_: StrictStr | None = Field(default=None, alias="if")
    if_changed: Json = None
    skip: StrictBool | StrictStr | None = None
    notify: Json = None
    steps: Annotated[tuple[_LeafInput, ...], Field(min_length=1)]


_TopInput = Annotated[
    Annotated[Step, Tag("<step>")] | Annotated[PlainStep, Tag("<plain>")] | Annotated[Group, Tag("<group>")],
    Discriminator(kind_of),
]


class PipelineFile(Located):
    """One pipeline file."""

    env: Environment | None = None
    agents: Json = None
    image: StrictStr | None = None
    priority: StrictInt | None = None
    notify: Json = None
    secrets: Json = None
    steps: Annotated[tuple[_TopInput, ...], Field(min_length=1)]
    _notices: tuple[str, ...] = PrivateAttr(default=())

    @model_validator(mode="after")
    def _name_steps(self) -> Self:
        taken = {leaf.key for _, leaf in self.leaves() if leaf.key}
        seen: Counter[str] = Counter()
        for _, leaf in self.leaves():
            name = wish = leaf._wish()  # noqa: SLF001 - a file names its steps
            while not leaf.key and name in taken:
                seen[wish] += 1
                name = f"{wish}-{seen[wish] + 1}"
            taken.add(name)
            leaf._ident = name  # noqa: SLF001
        return self

    @property
    def name(self) -> str:
        """The path the file was loaded under."""
        return self.where.file

    @property
    def notices(self) -> tuple[str, ...]:
        """What was read as something else than it says, "file:line: what" each."""
        return self._notices

    def note(self, notices: Iterable[str], mirrors: Mapping[Where, tuple[str, ...]]) -> None:
        """Keep what the reader of an older shape says, and the mirrors of the steps at these places."""
        self._notices = tuple(notices)
        for _, leaf in self.leaves():
            if isinstance(leaf, Step):
                leaf._mirrors = mirrors.get(leaf.where)  # noqa: SLF001

    def leaves(self) -> Iterator[tuple[Group | None, Leaf]]:
        """Yield every step with its group, in file order."""
        for step in self.steps:
            if isinstance(step, Group):
                yield from ((step, leaf) for leaf in step.steps)
            else:
                yield None, step


def step_id(file: str, ident: str) -> str:
    """Return the name of a step across files: `cuda/test-merge.yml#bagel`."""
    return f"{file}#{ident}"


def slug(label: str) -> str:
    """Return *label* as a name: emoji codes and shard placeholders gone, words joined by dashes."""
    bare = re.sub(r":[a-z0-9_+-]+:|%[nNtT]", " ", label)
    return "-".join(re.findall(r"\w+", bare.casefold()))
