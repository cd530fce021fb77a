"""Several pipeline files as one upload: the suites of a build, with each job once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from omni_ci.hardware.equipping import place
from omni_ci.output.neighbours import step_keys
from omni_ci.output.same_jobs import Work, around_of, work_of
from omni_ci.rendering.jobs import job_count
from omni_ci.rendering.steps import Rendered
from omni_ci.yaml.kinds import GATES, plain_kind
from omni_ci.yaml.model import PipelineFile
from omni_ci.yaml.waits import entries_of, key_of
from omni_hardware.errors import InputError

Suite = tuple[PipelineFile, Rendered]
_Path = tuple[int, ...]


def joined(suites: Sequence[Suite]) -> Rendered:
    """Return *suites* as one document, in their order; a job that an earlier file has is left out, with a notice.

    Raises InputError for what one document cannot say for all of them: an environment in which they differ, and a
    `wait` or `block`, which would hold for the steps of the other files too.
    """
    said = tuple(notice for _, rendered in suites for notice in rendered.notices)
    full = [suite for suite in suites if not suite[1].is_empty]
    if len(full) <= 1:
        return replace(full[0][1] if full else suites[0][1], notices=said)
    for _, rendered in full:
        _refuse_gates(rendered)
    draft = _Draft()
    for pipeline, rendered in full:
        draft.add(pipeline.name, rendered)
    return Rendered(
        document={**_top(full), "steps": draft.renamed_steps()},
        origins=draft.origins,
        presets=draft.presets,
        notices=(*said, *_spread(full), *draft.notices),
    )


def _top(suites: Sequence[Suite]) -> dict[str, Any]:
    """Return what the files say for all of their steps. Raises InputError where they differ."""
    first, document = suites[0][0], suites[0][1].document
    top = {key: value for key, value in document.items() if key not in {"env", "steps"}}
    for pipeline, rendered in suites[1:]:
        other = {key: value for key, value in rendered.document.items() if key not in {"env", "steps"}}
        for key in {**top, **other}:
            if top.get(key) != other.get(key):
                raise InputError(
                    f"{place(pipeline.place(key))}: `{key}:` is not what {place(first.place(key))} says, and both go into one upload; "
                    "write the same in both, or say it at the steps"
                )
    env: dict[str, str] = {}
    by: dict[str, PipelineFile] = {}
    for pipeline, rendered in suites:
        for name, value in (rendered.document.get("env") or {}).items():
            if env.setdefault(name, value) != value:
                raise InputError(
                    f"{place(pipeline.place('env'))}: env {name} is not what {place(by[name].place('env'))} says, and both go into one "
                    "upload; write the same in both, or give it to the steps"
                )
            by.setdefault(name, pipeline)
    return {**({"env": env} if env else {}), **top}


def _spread(suites: Sequence[Suite]) -> Iterator[str]:
    """Yield which variables of a file reach the steps of others, which is what one upload means."""
    for pipeline, rendered in suites:
        for other, beside in suites:
            names = [
                one
                for one in rendered.document.get("env") or {}
                if one not in (beside.document.get("env") or {})
            ]
            if names:
                yield f"{place(pipeline.place('env'))}: env {', '.join(names)} is also that of the steps of {other.name}"


def _refuse_gates(rendered: Rendered) -> None:
    for index, item in enumerate(rendered.document["steps"]):
        if not _is_group(item) and plain_kind(item) in GATES:
            raise InputError(
                f"{rendered.origins.get((index,), f'steps[{index}]')}: several files go into one upload, and this orders "
                "steps by their place, those of the other files too; use depends_on"
            )


@dataclass(slots=True, kw_only=True)
class _Kept:
    """A step that is uploaded, in the list that holds it."""

    within: list[Any]
    index: int
    where: str

    @property
    def step(self) -> dict[str, Any]:
        found: dict[str, Any] = self.within[self.index]
        return found

    def take_key(self, key: str) -> str:
        """Return the key by which the step is known, *key* where it had none."""
        if "key" not in self.step:
            self.within[self.index] = {**self.step, "key": key}
        return str(self.step["key"])


@dataclass(slots=True)
class _Draft:
    """The one document, growing file by file; *renamed* are keys of steps left out, each with that of the one kept."""

    steps: list[Any] = field(default_factory=list)
    origins: dict[_Path, str] = field(default_factory=dict)
    presets: dict[_Path, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    _kept: dict[Work, _Kept] = field(default_factory=dict)

    def add(self, name: str, rendered: Rendered) -> None:
        """Take the steps of one more file."""
        new: dict[Work, _Kept] = {}
        left_out: list[tuple[Any, str]] = []
        for old, item in enumerate(rendered.document["steps"]):
            children = item["steps"] if _is_group(item) else [item]
            paths = [(old, inner) for inner in range(len(children))] if _is_group(item) else [(old,)]
            within: list[Any] = [] if _is_group(item) else self.steps
            at = len(self.steps)
            for child, path in zip(children, paths, strict=True):
                where = rendered.origins.get(path, name)
                work = work_of(child, around_of(item), self.renamed)
                if work is not None and (kept := self._kept.get(work)) is not None:
                    left_out.append((child, self._leave_out(child, where, kept)))
                    continue
                self._place(rendered, path, (at, len(within)) if _is_group(item) else (at,))
                within.append(child)
                if work is not None:
                    new.setdefault(work, _Kept(within=within, index=len(within) - 1, where=where))
            if _is_group(item) and within:
                self._place(rendered, (old,), (at,))
                self.steps.append({**item, "steps": within})
        self._kept |= new
        if left_out:
            self.notices.append(_told(name, left_out))

    def _leave_out(self, step: Mapping[str, Any], where: str, kept: _Kept) -> str:
        """Let *kept* stand for *step*, and return what to say of that."""
        renamed = ""
        if isinstance(key := step.get("key"), str) and (stays := kept.take_key(key)) != key:
            self.renamed[key] = stays
            renamed = f", which a step that waits for {key!r} waits for as {stays!r}"
        return f"{_title(step)!r} ({where}) is {_title(kept.step)!r} ({kept.where}){renamed}"

    def _place(self, rendered: Rendered, old: _Path, new: _Path) -> None:
        for source, target in ((rendered.origins, self.origins), (rendered.presets, self.presets)):
            if old in source:
                target[new] = source[old]

    def renamed_steps(self) -> list[Any]:
        """Return the steps, waiting for what is uploaded. Raises InputError for a key of two jobs, one of them left out."""
        for key in step_keys(self.steps):
            if key in self.renamed:
                raise InputError(
                    f"key {key!r} is that of a step which is left out, for {self.renamed[key]!r} does the same, and of "
                    "another step that is not; give them keys of their own"
                )
        return _renamed(self.steps, self.renamed) if self.renamed else self.steps


def _told(name: str, left_out: Sequence[tuple[Any, str]]) -> str:
    jobs = sum(job_count(step.get("parallelism"), step.get("matrix")) for step, _ in left_out)
    one = len(left_out) == 1
    return (
        f"{name}: {len(left_out)} step{'' if one else 's'} ({jobs} job{'' if jobs == 1 else 's'}) "
        f"{'does' if one else 'do'} what a step of an earlier file does, and {'is' if one else 'are'} left out: "
        f"{'; '.join(said for _, said in left_out)}"
    )


def _renamed(items: Sequence[Any], names: Mapping[str, str]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        new = item
        if isinstance(item, dict) and "depends_on" in item:
            entries = [_renamed_entry(one, names) for one in entries_of(item["depends_on"])]
            new = {**item, "depends_on": [one for at, one in enumerate(entries) if one not in entries[:at]]}
        found.append({**new, "steps": _renamed(new["steps"], names)} if _is_group(new) else new)
    return found


def _renamed_entry(entry: Any, names: Mapping[str, str]) -> Any:
    key = key_of(entry)
    if key is None or key not in names:
        return entry
    return {**entry, "step": names[key]} if isinstance(entry, dict) else names[key]


def _title(step: Mapping[str, Any]) -> str:
    return str(step.get("label") or step.get("key") or "a step")


def _is_group(item: Any) -> bool:
    return isinstance(item, dict) and "group" in item
