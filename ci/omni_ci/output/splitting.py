"""A rendered pipeline in uploads that Buildkite takes: at most 500 jobs each, and nothing waits for a later one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from omni_ci.checks.steps import JOBS_PER_UPLOAD, depends_on
from omni_ci.rendering.jobs import job_count
from omni_ci.rendering.steps import Rendered
from omni_hardware.errors import InputError

_GATES = ("wait", "waiter", "block", "input", "manual")
# Said once for the build, not once an upload.
_ONCE = ("notify",)


def split(rendered: Rendered, *, most: int = JOBS_PER_UPLOAD) -> tuple[Rendered, ...]:
    """Return *rendered* in parts of at most *most* jobs each, in an order in which nothing waits for a later part.

    A group stays whole where it fits, and else goes on under the same title. Raises InputError for what several
    uploads cannot keep: a `wait` or `block` orders by place, a group's key is one key, and a step is not divided.
    """
    if sum(map(_jobs, rendered.document["steps"])) <= most:
        return (rendered,)
    units = [
        unit
        for index, item in enumerate(rendered.document["steps"])
        for unit in _units(item, index, rendered, most)
    ]
    parts: list[list[_Unit]] = []
    room = 0
    for unit in _dependencies_first(units):
        if unit.jobs > room:
            parts.append([])
            room = most
        parts[-1].append(unit)
        room -= unit.jobs
    return tuple(_part(rendered, units, is_first=index == 0) for index, units in enumerate(parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unit:
    """A step, a group or a piece of one; *paths* are the places its steps had: its own, then its children's."""

    item: Any
    path: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]
    jobs: int


def _units(item: Any, index: int, rendered: Rendered, most: int) -> Iterator[_Unit]:
    where = rendered.origins.get((index,), f"steps[{index}]")
    if _is_gate(item):
        raise InputError(
            f"{where}: {_too_many(rendered, most)}, and this orders steps by their place; use depends_on"
        )
    if not _is_group(item):
        _refuse_large(item, where, most)
        yield _Unit(item=item, path=(index,), children=(), jobs=_jobs(item))
        return
    children = item["steps"]
    pieces = [list(range(len(children)))]
    if _jobs(item) > most:
        if any(map(_is_gate, children)) or "key" in item:
            what = (
                "its key cannot stand for both halves"
                if "key" in item
                else "a gate in it orders steps by place"
            )
            raise InputError(
                f"{where}: group {item['group']!r} has more than the {most} jobs that an upload takes, and {what}"
            )
        pieces = list(_packed(children, where, most))
    for piece in pieces:
        steps = [children[inner] for inner in piece]
        yield _Unit(
            item={**item, "steps": steps},
            path=(index,),
            children=tuple((index, inner) for inner in piece),
            jobs=sum(map(_jobs, steps)),
        )


def _packed(children: Sequence[Any], where: str, most: int) -> Iterator[list[int]]:
    piece: list[int] = []
    room = most
    for index, child in enumerate(children):
        _refuse_large(child, where, most)
        jobs = _jobs(child)
        if jobs > room:
            yield piece
            piece, room = [], most
        piece.append(index)
        room -= jobs
    yield piece


def _dependencies_first(units: Sequence[_Unit]) -> list[_Unit]:
    """Return *units* in their order, but what one waits for before it: Buildkite refuses a key that is yet to come."""
    owner = {key: at for at, unit in enumerate(units) for key in _keys(unit.item)}
    done: dict[int, _Unit] = {}
    entered: set[int] = set()
    for start in range(len(units)):
        todo = [start]
        while todo:
            at = todo[-1]
            first = at not in entered
            entered.add(at)
            missing = [owner[key] for key in _waits(units[at].item) if key in owner] if first else []
            if missing := [one for one in dict.fromkeys(missing) if one not in entered]:
                todo += reversed(missing)
                continue
            todo.pop()
            done.setdefault(at, units[at])
    return list(done.values())


def _part(rendered: Rendered, units: Sequence[_Unit], *, is_first: bool) -> Rendered:
    origins: dict[tuple[int, ...], str] = {}
    presets: dict[tuple[int, ...], str] = {}
    for index, unit in enumerate(units):
        moved = {unit.path: (index,), **{old: (index, inner) for inner, old in enumerate(unit.children)}}
        for old, new in moved.items():
            _move(rendered.origins, old, origins, new)
            _move(rendered.presets, old, presets, new)
    top = {key: value for key, value in rendered.document.items() if is_first or key not in _ONCE}
    return replace(
        rendered,
        document={**top, "steps": [unit.item for unit in units]},
        origins=origins,
        presets=presets,
        notices=rendered.notices if is_first else (),
    )


def _move(
    source: Mapping[tuple[int, ...], str],
    old: tuple[int, ...],
    target: dict[tuple[int, ...], str],
    new: tuple[int, ...],
) -> None:
    if old in source:
        target[new] = source[old]


def _refuse_large(step: Any, where: str, most: int) -> None:
    if _jobs(step) > most:
        title = step.get("label") or step.get("key") or "a step"
        raise InputError(f"{where}: {title!r} makes {_jobs(step)} jobs, and Buildkite takes {most} an upload")


def _too_many(rendered: Rendered, most: int) -> str:
    return f"{sum(map(_jobs, rendered.document['steps']))} jobs need several uploads ({most} each)"


def _jobs(item: Any) -> int:
    if _is_group(item):
        return sum(map(_jobs, item["steps"]))
    return job_count(item.get("parallelism"), item.get("matrix")) if isinstance(item, dict) else 1


def _is_group(item: Any) -> bool:
    return isinstance(item, dict) and "group" in item


def _is_gate(item: Any) -> bool:
    return isinstance(item, str) or (not _is_group(item) and any(name in item for name in _GATES))


def _parts_of(item: Any) -> Iterable[Any]:
    return (item, *item["steps"]) if _is_group(item) else (item,)


def _keys(item: Any) -> list[str]:
    return [
        part["key"] for part in _parts_of(item) if isinstance(part, dict) and isinstance(part.get("key"), str)
    ]


def _waits(item: Any) -> list[str]:
    return [key for part in _parts_of(item) for key in depends_on(part)]
