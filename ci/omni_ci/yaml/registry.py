"""The dependency registry: names for lists of watched paths, shared between steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pydantic import Field

from omni_ci.yaml.dialect import entry_problem
from omni_ci.yaml.document import LocatedDict, Problem, flattened
from omni_ci.yaml.fields import Dependencies, Located
from omni_ci.yaml.loading import LoadError, load_document
from omni_ci.yaml.model import PipelineFile
from omni_hardware.errors import did_you_mean

FALLBACK = "source_filter_fallback"


class Registry(Located):
    """Keys and the paths each stands for. Anchors and top-level `x-…` lists are the file's own business."""

    version: int = Field(default=1, alias="schema", ge=1, le=1)
    source_file_dependencies: dict[str, Dependencies]

    @property
    def keys(self) -> dict[str, tuple[str, ...]]:
        """The keys a step may name."""
        return {key: paths for key, paths in self.source_file_dependencies.items() if key != FALLBACK}

    @property
    def run_all(self) -> tuple[str, ...]:
        """Paths whose change selects every step that declares dependencies."""
        return self.source_file_dependencies.get(FALLBACK, ())

    @property
    def notices(self) -> tuple[str, ...]:
        """What a reader of another dialect should know."""
        if not self.run_all:
            return ()
        does = "its paths select every step that declares dependencies, whatever else matched"
        return (f"{self.where.file}: {FALLBACK} is read as part of the union: {does}",)


NO_REGISTRY = Registry(source_file_dependencies={})


def load_registry(text: str | bytes, *, name: str) -> Registry:
    """Return the registry in *text*. Raises LoadError: a doubled key, an empty list, an entry that cannot match."""
    return load_document(text, name, Registry, check=_problems)


def is_key(entry: str) -> bool:
    """Return whether *entry* of a dependency list is written like a registry key."""
    return not any(mark in entry for mark in "/.!")


def check_keys(
    pipelines: tuple[PipelineFile, ...], registry: Registry, is_path: Callable[[str], bool]
) -> None:
    """Raise LoadError naming every registry key that does not exist; *is_path* says what is a path after all."""
    found = [problem for pipeline in pipelines for problem in _unknown_keys(pipeline, registry, is_path)]
    if found:
        raise LoadError(found)


def _unknown_keys(
    pipeline: PipelineFile, registry: Registry, is_path: Callable[[str], bool]
) -> Iterator[Problem]:
    keys = registry.keys
    holders = {id(holder): holder for pair in pipeline.leaves() for holder in pair if holder is not None}
    for holder in holders.values():
        for entry in holder.source_file_dependencies or ():
            if not is_key(entry) or entry in keys or is_path(entry):
                continue
            label = getattr(holder, "group", None) or getattr(holder, "label", None) or "a step"
            where = holder.dependency_place(entry)
            yield Problem(where, f"{label!r} names {_unknown(entry, keys)}")


def _unknown(entry: str, keys: dict[str, tuple[str, ...]]) -> str:
    if entry == FALLBACK:
        return f"{FALLBACK}, which is not a key for steps; its paths count for every step already"
    if not keys:
        return (
            f"{entry!r}, which is no path here, and there is no registry (dependencies.yml) with such a key"
        )
    return f"the unknown registry key {entry!r}{did_you_mean(entry, keys)}"


def _problems(document: LocatedDict) -> Iterator[Problem]:
    lists = document.get("source_file_dependencies")
    if not isinstance(lists, LocatedDict):
        return
    for key, value in lists.items():
        where = lists.keys_at[key]
        leaves = [] if value is None else list(flattened(value, where))
        if not leaves:
            yield Problem(where, f"{key} has no paths; name some or remove the key")
        if not is_key(key):
            yield Problem(where, f"the key {key!r} would be read as a path; leave out '/', '.' and '!'")
        for entry, at in leaves:
            if what := entry_problem(entry):
                yield Problem(at, f"{key}: {what}")
