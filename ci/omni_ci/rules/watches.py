"""What a step watches, as the selection reads it: its list within its group's, keys opened, exclusions taken out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from omni_ci.repository.watching import PathIndex
from omni_ci.yaml.model import Group, Leaf
from omni_ci.yaml.registry import Registry, is_key


@dataclass(frozen=True, slots=True)
class Watched:
    """One watched path and what is taken out of it; "" is everything."""

    path: str
    excluding: tuple[str, ...] = ()

    def covers(self, path: str) -> bool:
        """Return whether a change of *path* counts."""
        return _under(path, self.path) and not any(_under(path, hole) for hole in self.excluding)


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
        """Yield every watched path, without a slash at its end."""
        yield from (one.path for entries in self.lists for one in entries if one.path)


def watch_of(group: Group | None, leaf: Leaf, registry: Registry) -> Watch:
    """Return what *leaf* watches."""
    holders = (group.source_file_dependencies if group else None, leaf.source_file_dependencies)
    return Watch(tuple(tuple(opened(entries, registry)) for entries in holders if entries))


def opened(entries: Sequence[str], registry: Registry) -> Iterator[Watched]:
    """Yield the paths of a dependency list, its keys opened; its exclusions hold for its keys too."""
    holes = _excluded(entries)
    wanted = [entry for entry in entries if not entry.startswith("!")]
    if not wanted:
        yield Watched("", holes)
    for entry in wanted:
        listed = registry.keys.get(entry) if is_key(entry) else None
        if listed is None:
            yield Watched(entry.rstrip("/"), holes)
            continue
        inner = (*holes, *_excluded(listed))
        yield from (Watched(path.rstrip("/"), inner) for path in listed if not path.startswith("!"))


def _excluded(entries: Sequence[str]) -> tuple[str, ...]:
    return tuple(entry[1:].rstrip("/") for entry in entries if entry.startswith("!"))


def _innermost(paths: Sequence[str]) -> str | None:
    """Return the one of *paths* that lies under all the others, None where none does."""
    last = max(paths, key=len)
    return last if all(_under(last, path) for path in paths) else None


def _under(path: str, prefix: str) -> bool:
    return not prefix or path == prefix or path.startswith(f"{prefix}/")
