from __future__ import annotations

from collections.abc import Iterator

from omni_ci.configuration import ConfigKind, Configuration
from omni_ci.rules.context import Context
from omni_ci.rules.rule import Found, Rule
from omni_ci.selection.watches import bare, opened
from omni_ci.yaml.document import LocatedDict, Where, flattened
from omni_ci.yaml.model import Watching
from omni_ci.yaml.reading import read
from omni_ci.yaml.registry import FALLBACK, Registry, is_key
from omni_hardware.errors import did_you_mean


class WatchedPathsExist(Rule):
    """A watched path exists.

    A path that was moved or deleted never changes again, so that the step runs for too much or, in a generator that
    only compares prefixes, for nothing. Name the path that took its place; the message has the nearest one. A path
    that an exclusion of its own list takes out counts for nothing either.
    """

    code = "CI001"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            for holder in (job.step, job.group):
                for entry, said in _dead(holder, context.configuration(job).registry, context):
                    yield job.found(entry, said, where=holder.dependency_place(entry) if holder else None)
        for name in sorted(context.judged):
            yield from _registry(context.configurations[name], context)


def _dead(holder: Watching | None, registry: Registry, context: Context) -> Iterator[tuple[str, str]]:
    """Yield the entries of a list that cannot count, and why."""
    entries, keys = (holder.source_file_dependencies if holder else None) or (), registry.keys
    for entry in entries:
        if not (is_key(entry) and entry in keys) and (said := _problem(entry, keys, context)):
            yield entry, said
    watched = list(opened(entries, registry))
    # of a key that several steps share, one may take out what it wants, if something is left
    keys_count = all(one.is_nothing for one in watched)
    for one in watched:
        entry = one.key or one.entry
        if one.is_nothing and entry in entries and (keys_count or not one.key):
            yield entry, f"watches {one}, which an exclusion of the list takes out: it counts for nothing"


def _registry(configuration: Configuration, context: Context) -> Iterator[Found]:
    """Yield the dead paths of the registry, each once, whoever names its key."""
    file = next((path for path, kind in configuration.sources.items() if kind is ConfigKind.REGISTRY), None)
    if file is None:
        return
    for key, path, where in _registered(configuration.texts[file], file):
        if said := _problem(path, {}, context):
            message = f"registry key {key!r} {said}"
            yield Found(file=file, line=where.line, subject=f"{file}#{key}", key=path, message=message)


def _registered(text: str, file: str) -> Iterator[tuple[str, str, Where]]:
    document, _ = read(text, file)
    keys = document.get("source_file_dependencies") if isinstance(document, dict) else None
    if isinstance(keys, LocatedDict):
        for key, value in keys.items():
            yield from ((key, path, where) for path, where in flattened(value, keys.keys_at[key]))


def _problem(entry: str, keys: dict[str, tuple[str, ...]], context: Context) -> str | None:
    path = entry.removeprefix("!")
    if not bare(path) or context.exists(path):
        return None
    verb = "excludes" if entry.startswith("!") else "watches"
    if is_key(path) and keys and path != FALLBACK:
        return f"{verb} {path!r}, which is neither a path here nor a registry key{did_you_mean(path, keys)}"
    return f"{verb} {path}, which does not exist{context.nearest(path)}"
