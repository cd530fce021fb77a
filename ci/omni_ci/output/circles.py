"""What waits for what, in an order: dependencies first, and what waits for each other together."""

from __future__ import annotations

from collections.abc import Sequence


def dependencies_first(waits: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the numbers of *waits* (what number N waits for) in circles, most of one, none before what it waits for.

    Numbers keep their order where nothing waits. Tarjan's algorithm, without recursion: a build has long chains.
    """
    entered: dict[int, int] = {}
    lowest: dict[int, int] = {}
    path: dict[int, None] = {}
    circles: list[list[int]] = []
    for start in range(len(waits)):
        todo = [(start, 0)]
        while todo:
            node, at = todo.pop()
            if at == 0:
                if node in entered:
                    continue
                entered[node] = lowest[node] = len(entered)
                path[node] = None
            elif (before := waits[node][at - 1]) in path:
                lowest[node] = min(lowest[node], lowest[before])
            if at < len(waits[node]):
                todo += [(node, at + 1), (waits[node][at], 0)]
            elif lowest[node] == entered[node]:
                circles.append(_closed(path, node))
    return circles


def _closed(path: dict[int, None], first: int) -> list[int]:
    """Take the circle that was entered by *first* off the end of *path*."""
    circle: list[int] = []
    while first in path:
        circle.append(path.popitem()[0])
    return sorted(circle)
