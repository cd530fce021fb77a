"""What a dependency list watches, keys opened and exclusions taken out: the one reading, for selection and rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from omni_ci.repository.watching import PathIndex
from omni_ci.yaml.model import Group, Leaf
from omni_ci.yaml.registry import Registry, is_key


@dataclass(frozen=True, slots=True)
class Watched:
    """One watched path and what is taken out of it; "" is everything.

    Paths without a slash at their end. entry: the path as people know it; key: the registry key that it comes from.
    """

    path: str
    excluding: tuple[str, ...] = ()
    entry: str = ""
    key: str | None = None

    @property
    def is_nothing(self) -> bool:
        """Whether all of it is taken out again."""
        return any(_under(self.path, hole) for hole in self.excluding)

    def covers(self, path: str) -> bool:
        """Return whether a change of *path* counts."""
        return _under(path, self.path) and not any(_under(path, hole) for hole in self.excluding)

    def __str__(self) -> str:
        return f"{self.entry} of {self.key!r}" if self.key else self.entry


@dataclass(frozen=True, slots=True)
class Watch:
    """The lists that a change must hit: the step's own, and its group's; none is a step that always runs."""

    lists: tuple[tuple[Watched, ...], ...]

    @property
    def is_declared(self) -> bool:
        """Whether anything is watched at all."""
        return bool(self.lists)

    def covers(self, path: str) -> bool:
        """Return whether a change of *path* selects the step by itself."""
        return all(any(one.covers(path) for one in entries) for entries in self.lists)

    def reaches(self, folder: str, index: PathIndex) -> bool:
        """Return whether *index* has a path in *folder* whose change selects the step by itself."""
        return any(
            index.first_under(path, holes) is not None
            for combined in product(*self.lists)
            if (path := _innermost((folder, *(one.path for one in combined)))) is not None
            for holes in [[hole for one in combined for hole in one.excluding]]
        )

    def paths(self) -> Iterator[str]:
        """Yield every watched path."""
        yield from (one.path for entries in self.lists for one in entries if one.path)


def watch_of(group: Group | None, leaf: Leaf, registry: Registry) -> Watch:
    """Return what *leaf* watches."""
    holders = (group.source_file_dependencies if group else None, leaf.source_file_dependencies)
    return Watch(tuple(tuple(opened(entries, registry)) for entries in holders if entries))


def opened(entries: Sequence[str], registry: Registry) -> Iterator[Watched]:
    """Yield the paths of a dependency list, its keys opened; its exclusions hold for its keys too."""
    keys = registry.keys
    holes = _excluded(entries)
    wanted = [entry for entry in entries if not entry.startswith("!")]
    for entry in wanted or ["."]:
        listed = keys.get(entry) if is_key(entry) else None
        if listed is None:
            path = bare(entry)
            yield Watched(path, holes, entry if path else _all_but(entries))
            continue
        inner = (*holes, *_excluded(listed))
        named = (path for path in listed if not path.startswith("!"))
        yield from (Watched(bare(path), inner, path, entry) for path in named)


def bare(entry: str) -> str:
    """Return the path that *entry* names, without a slash at its end; "" for `.`, which is everything."""
    path = entry.removeprefix("!").rstrip("/")
    return "" if path == "." else path


def listing(entries: Sequence[str]) -> str:
    """Return a few of *entries* and how many more there are."""
    few, more = entries[:3], len(entries) - 3
    return ", ".join(few) + (f" and {more} more" if more > 0 else "")


def _all_but(entries: Sequence[str]) -> str:
    out = tuple(entry.removeprefix("!") for entry in entries if entry.startswith("!"))
    return f"anything but {listing(out)}" if out else "anything"


def _excluded(entries: Sequence[str]) -> tuple[str, ...]:
    return tuple(bare(entry) for entry in entries if entry.startswith("!"))


def _innermost(paths: Sequence[str]) -> str | None:
    """Return the one of *paths* that lies under all the others, None where none does."""
    last = max(paths, key=len)
    return last if all(_under(last, path) for path in paths) else None


def _under(path: str, prefix: str) -> bool:
    return not prefix or path == prefix or path.startswith(f"{prefix}/")
