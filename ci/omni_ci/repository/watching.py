"""Changed paths, sorted once, so that asking about a prefix costs a binary search."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_NESTED_LINKS = 2
_LAST = chr(sys.maxunicode)


class PathIndex:
    """A set of paths with prefix questions; a prefix is a file, a folder with or without its `/`, or "" for all."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._sorted = sorted(set(paths))
        self._set = frozenset(self._sorted)

    def __bool__(self) -> bool:
        return bool(self._sorted)

    def __contains__(self, path: str) -> bool:
        return path in self._set

    def first_under(self, prefix: str, excluding: Sequence[str] = ()) -> str | None:
        """Return the first path that is *prefix* or lies under it, and under none of *excluding*."""
        bare = prefix.rstrip("/")
        holes = [hole.rstrip("/") for hole in excluding]
        if bare in self._set and not any(_covers(hole, bare) for hole in holes):
            return bare
        start, end = self._span(bare)
        while start < end:
            path = self._sorted[start]
            hole = next((hole for hole in holes if _covers(hole, path)), None)
            if hole is None:
                return path
            # Everything under an excluded folder stands together: step over it at once.
            start = max(start + 1, self._span(hole)[1] if path != hole else start + 1)
        return None

    def holds(self, prefix: str) -> bool:
        """Return whether *prefix* is a path here, or a folder of one."""
        return self.first_under(prefix) is not None

    def under(self, start: str) -> list[str]:
        """Return the paths that start with the text *start*."""
        first = bisect_left(self._sorted, start)
        last = bisect_left(self._sorted, f"{start}{_LAST}", first)
        while last < len(self._sorted) and self._sorted[last].startswith(start):
            last += 1
        return self._sorted[first:last]

    def _span(self, folder: str) -> tuple[int, int]:
        if not folder:
            return 0, len(self._sorted)
        # "/" is followed by "0": the paths of a folder are the ones between them.
        return bisect_left(self._sorted, f"{folder}/"), bisect_left(self._sorted, f"{folder}0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """The symbolic links of a tree by what they lead to, and its submodules; all paths from the root, without `/`."""

    targets: Mapping[str, str] = field(default_factory=dict)
    submodules: frozenset[str] = frozenset()

    def names(self, paths: Iterable[str]) -> Iterator[str]:
        """Yield *paths*, and the further names they have through a link; through a link inside a link as well."""
        found = list(paths)
        yield from found
        if not self.targets:
            return
        for _ in range(_NESTED_LINKS):
            index = PathIndex(found)
            found = [
                link + path[len(target) :]
                for link, target in self.targets.items()
                for path in ([target] if target in index else []) + index.under(f"{target}/")
            ]
            yield from found

    def real(self, path: str) -> str:
        """Return the path in the tree that *path* leads to, through links."""
        for _ in range(_NESTED_LINKS):
            link = next((one for one in self.targets if _covers(one, path)), None)
            if link is None:
                break
            path = self.targets[link] + path[len(link) :]
        return path

    def submodule_of(self, path: str) -> str | None:
        """Return the submodule *path* lies in: its files are in no tree of ours, its commit is."""
        parts = path.rstrip("/").split("/")
        above = ("/".join(parts[:count]) for count in range(1, len(parts)))
        return next((folder for folder in above if folder in self.submodules), None)


NO_LINKS = Links()


def _covers(prefix: str, path: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")
