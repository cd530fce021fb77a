"""A rendered pipeline in uploads that Buildkite takes: at most 500 jobs each, and nothing waits for a later one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from omni_ci.checks.steps import JOBS_PER_UPLOAD, depends_on
from omni_ci.output.circles import dependencies_first
from omni_ci.output.neighbours import step_keys
from omni_ci.rendering.jobs import job_count
from omni_ci.rendering.steps import Rendered
from omni_ci.yaml.kinds import GATES, plain_kind
from omni_hardware.errors import InputError

# Said once for the build, not once an upload.
_ONCE = ("notify",)
_LISTED_AT_MOST = 3


def split(rendered: Rendered, *, most: int = JOBS_PER_UPLOAD) -> tuple[Rendered, ...]:
    """Return *rendered* in parts of at most *most* jobs each, in an order in which nothing waits for a later part.

    A group stays whole where it fits and nothing beside it stands between its steps, and else goes on under the same
    title. Raises InputError for what several uploads cannot keep: a `wait` or `block` orders by place, a group's key
    is one key, a step is not divided, and neither are steps that wait for each other.
    """
    if sum(map(_jobs, rendered.document["steps"])) <= most:
        return (rendered,)
    parts: list[list[_Atom]] = []
    room = 0
    for circle in _circles(rendered, most):
        jobs = sum(atom.jobs for atom in circle)
        if jobs > room:
            parts.append([])
            room = most
        parts[-1] += circle
        room -= jobs
    return tuple(_part(rendered, atoms, is_first=index == 0) for index, atoms in enumerate(parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Atom:
    """What is in one upload: a step, a group that fits, or a step of one that is divided.

    *index* is the place it had in the file, *inner* those that its steps had in their group.
    """

    item: Any
    index: int
    inner: tuple[int, ...] = ()
    keys: frozenset[str]
    waits: tuple[str, ...]
    jobs: int


def _circles(rendered: Rendered, most: int) -> list[list[_Atom]]:
    """Return the atoms that must be in one upload together, dependencies first. Raises InputError where they do not fit.

    Groups are divided as far as that takes: two that wait for each other's steps may fit step by step.
    """
    steps = rendered.document["steps"]
    divided = {index for index, item in enumerate(steps) if _is_group(item) and _jobs(item) > most}
    while True:
        atoms = [
            atom
            for index, item in enumerate(steps)
            for atom in _atoms(item, index, rendered, most, is_divided=index in divided)
        ]
        owner = {key: at for at, atom in enumerate(atoms) for key in atom.keys}
        waits = [[owner[key] for key in atom.waits if key in owner] for atom in atoms]
        circles = [[atoms[at] for at in circle] for circle in dependencies_first(waits)]
        large = [circle for circle in circles if sum(atom.jobs for atom in circle) > most]
        if not large:
            return circles
        more = {atom.index for circle in large for atom in circle if _is_dividable(atom.item)} - divided
        if not more:
            raise InputError(_too_tight(large[0], rendered, most))
        divided |= more


def _atoms(item: Any, index: int, rendered: Rendered, most: int, *, is_divided: bool) -> Iterator[_Atom]:
    where = rendered.origins.get((index,), f"steps[{index}]")
    if _is_gate(item):
        raise InputError(
            f"{where}: {_too_many(rendered, most)}, and this orders steps by their place; use depends_on"
        )
    children = item["steps"] if _is_group(item) else []
    for step in children or [item]:
        _refuse_large(step, where, most)
    if not is_divided:
        waits = (key for part in (item, *children) for key in depends_on(part))
        yield _Atom(
            item=item,
            index=index,
            inner=tuple(range(len(children))),
            keys=frozenset(step_keys([item])),
            waits=tuple(dict.fromkeys(waits)),
            jobs=_jobs(item),
        )
        return
    if not _is_dividable(item):
        what = (
            "its key cannot stand for both halves" if "key" in item else "a gate in it orders steps by place"
        )
        raise InputError(
            f"{where}: group {item['group']!r} has more than the {most} jobs that an upload takes, and {what}"
        )
    for inner, child in enumerate(children):
        yield _Atom(
            item=child,
            index=index,
            inner=(inner,),
            keys=frozenset(step_keys([child])),
            waits=tuple(dict.fromkeys((*depends_on(item), *depends_on(child)))),
            jobs=_jobs(child),
        )


def _is_dividable(item: Any) -> bool:
    return _is_group(item) and "key" not in item and not any(map(_is_gate, item["steps"]))


def _too_tight(circle: Sequence[_Atom], rendered: Rendered, most: int) -> str:
    """Return what is wrong with steps that would have to be in one upload and do not fit."""
    where = rendered.origins.get((circle[0].index,), f"steps[{circle[0].index}]")
    shown = ", ".join(repr(_title(atom.item)) for atom in circle[:_LISTED_AT_MOST])
    more = f" and {len(circle) - _LISTED_AT_MOST} more" if len(circle) > _LISTED_AT_MOST else ""
    kept = [atom.item["group"] for atom in circle if _is_group(atom.item)]
    way_out = f"; group {kept[0]!r} could be divided if it had no key and no gate in it" if kept else ""
    return (
        f"{where}: {shown}{more} wait for each other, so that they are uploaded together, and make "
        f"{sum(atom.jobs for atom in circle)} jobs, where Buildkite takes {most} an upload{way_out}"
    )


def _part(rendered: Rendered, atoms: Sequence[_Atom], *, is_first: bool) -> Rendered:
    """Return one upload; what it has of a group is one group, in the order of the file."""
    origins: dict[tuple[int, ...], str] = {}
    presets: dict[tuple[int, ...], str] = {}
    steps: list[Any] = []
    inner_of: dict[int, list[int]] = {}
    for atom in atoms:
        inner_of.setdefault(atom.index, []).extend(atom.inner)
    for new, (old, inner) in enumerate(inner_of.items()):
        item = rendered.document["steps"][old]
        children = sorted(inner)
        steps.append({**item, "steps": [item["steps"][at] for at in children]} if _is_group(item) else item)
        _move(rendered, (old,), (new,), origins, presets)
        for place, at in enumerate(children):
            _move(rendered, (old, at), (new, place), origins, presets)
    top = {key: value for key, value in rendered.document.items() if is_first or key not in _ONCE}
    return replace(
        rendered,
        document={**top, "steps": steps},
        origins=origins,
        presets=presets,
        notices=rendered.notices if is_first else (),
    )


def _move(
    rendered: Rendered,
    old: tuple[int, ...],
    new: tuple[int, ...],
    origins: dict[tuple[int, ...], str],
    presets: dict[tuple[int, ...], str],
) -> None:
    for source, target in ((rendered.origins, origins), (rendered.presets, presets)):
        if old in source:
            target[new] = source[old]


def _refuse_large(step: Any, where: str, most: int) -> None:
    if _jobs(step) > most:
        raise InputError(
            f"{where}: {_title(step)!r} makes {_jobs(step)} jobs, and Buildkite takes {most} an upload"
        )


def _title(item: Any) -> str:
    return str(item.get("group") or item.get("label") or item.get("key") or "a step")


def _too_many(rendered: Rendered, most: int) -> str:
    return f"{sum(map(_jobs, rendered.document['steps']))} jobs need several uploads ({most} each)"


def _jobs(item: Any) -> int:
    if _is_group(item):
        return sum(map(_jobs, item["steps"]))
    return job_count(item.get("parallelism"), item.get("matrix")) if isinstance(item, dict) else 1


def _is_group(item: Any) -> bool:
    return isinstance(item, dict) and "group" in item


def _is_gate(item: Any) -> bool:
    return not _is_group(item) and plain_kind(item) in GATES
