"""Changed paths, sorted once, so that asking about a prefix costs a binary search."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence


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
        last = first
        while last < len(self._sorted) and self._sorted[last].startswith(start):
            last += 1
        return self._sorted[first:last]

    def _span(self, folder: str) -> tuple[int, int]:
        if not folder:
            return 0, len(self._sorted)
        # "/" is followed by "0": the paths of a folder are the ones between them.
        return bisect_left(self._sorted, f"{folder}/"), bisect_left(self._sorted, f"{folder}0")


def _covers(prefix: str, path: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")
