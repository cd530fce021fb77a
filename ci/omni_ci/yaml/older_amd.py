"""The older AMD shape of a pipeline file, read as ours: every translation is said, and nothing is lost on the way.

Its steps name a pool of machines (`agent_pool: mi300_1`), list the mirrors they run on (`mirror_hardwares:
[amdproduction]`) and say whether a failure blocks (`grade: Blocking`). A file is of this shape by what its steps
say, never by its name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from omni_ci.yaml.document import LocatedDict, LocatedList, Problem, Where, flattened
from omni_ci.yaml.kinds import PLAIN_KINDS
from omni_ci.yaml.model import Step
from omni_hardware.errors import InputError, did_you_mean, nearest

MIRROR_VARIABLE = "AMD_MIRROR_HW"
DEFAULT_MIRROR = "amdproduction"
KNOWN_MIRRORS = (DEFAULT_MIRROR, "amdtentative")
DEFAULT_POOL = "mi300_1"
GRADES = {"Blocking": False, "NonBlocking": True}
OWN_KEYS = ("agent_pool", "grade", "working_dir")
_POOL = re.compile(r"[A-Za-z][A-Za-z0-9-]*(?:_[A-Za-z0-9-]+)*_(?P<cards>[1-9][0-9]*)")
_KNOWN = frozenset({*OWN_KEYS, *Step.model_fields, "command", "if"})
_MACHINES = ("agents", "plugins", "image")
_NOT_CARRIED = (
    "read as the older AMD shape; what its generator added to every step (a prefix of the label, `priority: 100`, "
    "`depends_on: image-build`, `cd /app/vllm-omni`) is up to the presets"
)


@dataclass(slots=True)
class Translation:
    """A document in our shape; *mirrors* holds each step's list by the step's place, () for "none written"."""

    document: LocatedDict
    mirrors: dict[Where, tuple[str, ...]] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def is_older(document: LocatedDict) -> bool:
    """Return whether most steps of *document* have a pool, a grade or a list of mirrors.

    In a file of our shape a stray one of these is a mistake, and is told what to write instead.
    """
    older = [_is_older_step(step) for step in _command_steps(document)]
    return 2 * sum(older) > len(older)


def translated(document: LocatedDict) -> Translation:
    """Return *document* in our shape. Its problems: pools and grades that mean nothing, steps of our own shape."""
    made = Translation(document=document)
    first = next(step for step in _command_steps(document) if _is_older_step(step))
    made.problems += [_mixed(step, first) for step in _command_steps(document) if _is_newer_step(step)]
    if made.problems:
        return made
    made.notices.append(f"{document.where.file}: {_NOT_CARRIED}")
    made.document = _with_steps(document, lambda step: _step(step, made))
    return made


def require_mirror(mirror: str, listed: Iterable[tuple[str, ...] | None]) -> None:
    """Return where *mirror* is one that a step lists or that is known. Raises InputError: it would run nothing."""
    valid = dict.fromkeys((*KNOWN_MIRRORS, *(name for names in listed for name in names or ())))
    if mirror not in valid:
        raise InputError(
            f"{MIRROR_VARIABLE}={mirror!r} is a mirror that no step lists, so that nothing would run"
            f"{did_you_mean(mirror, list(valid))}"
        )


def left_out(mirrors: tuple[str, ...] | None, mirror: str) -> str | None:
    """Return why a step with this list does not run on *mirror*, or None where it does."""
    if mirrors is None or mirror in mirrors:
        return None
    if not mirrors:
        return f"it has no `mirror_hardwares:` list, so that no mirror runs it ({MIRROR_VARIABLE}={mirror})"
    hint = did_you_mean(mirror, mirrors) if nearest(mirror, mirrors) else ""
    return f"its mirrors are {', '.join(mirrors)}, and {MIRROR_VARIABLE} is {mirror}{hint}"


def _is_older_step(step: LocatedDict) -> bool:
    return bool({"agent_pool", "grade"} & step.keys()) or isinstance(step.get("mirror_hardwares"), list)


def _is_newer_step(step: LocatedDict) -> bool:
    return isinstance(step.get("mirror_hardwares"), str) or "tests" in step


def _mixed(step: LocatedDict, older: LocatedDict) -> Problem:
    key = "tests" if "tests" in step else "mirror_hardwares"
    mark = next((name for name in ("agent_pool", "grade") if name in older), "mirror_hardwares")
    says = f"{key}: {step[key]}" if isinstance(step[key], str) else key
    what = f"two shapes in one file: `{says}` here, and the older AMD shape's `{mark}` on line {older.keys_at[mark].line}"
    instead = "`commands:`" if key == "tests" else f"a list of mirrors (`[{DEFAULT_MIRROR}]`)"
    return Problem(step.keys_at[key], f"{what}; write {instead} here, or presets everywhere")


def _command_steps(document: LocatedDict) -> Iterator[LocatedDict]:
    steps = document.get("steps")
    for step in steps if isinstance(steps, list) else ():
        if not isinstance(step, LocatedDict):
            continue
        if "group" in step:
            yield from _command_steps(step)
        elif not set(PLAIN_KINDS) & step.keys():
            yield step


def _with_steps(holder: LocatedDict, change: Callable[[LocatedDict], LocatedDict]) -> LocatedDict:
    """Return *holder* with every command step changed."""
    inner = set(map(id, _command_steps(holder)))
    steps = holder.get("steps")
    if not isinstance(steps, LocatedList):
        return holder
    new = LocatedList(steps.where)
    new.items_at = steps.items_at
    for step in steps:
        if isinstance(step, LocatedDict) and "group" in step:
            new.append(_with_steps(step, change))
        else:
            new.append(change(step) if id(step) in inner else step)
    return _copy(holder, {"steps": new})


def _step(step: LocatedDict, made: Translation) -> LocatedDict:
    said: list[str] = []
    changes: dict[str, Any] = {}
    for translate in (_hardware, _blocking, _folder):
        changes |= translate(step, said, made.problems)
    for key in step.keys() - _KNOWN:
        if near := nearest(key, OWN_KEYS):
            made.problems.append(Problem(step.keys_at[key], f"{key}: unknown key (did you mean {near!r}?)"))
    made.mirrors[step.where] = _mirrors(step, made.problems)
    label = step.get("label") or step.get("key") or "a step"
    mirrors = ", ".join(made.mirrors[step.where]) or "none"
    place = f"{step.where.file}:{step.where.line}"
    made.notices.append(f"{place}: step {label!r}: {'; '.join([*said, f'runs on the mirrors: {mirrors}'])}")
    return _copy(
        step, changes, without=(*OWN_KEYS, *(() if "mirror_hardwares" in changes else ("mirror_hardwares",)))
    )


def _hardware(step: LocatedDict, said: list[str], problems: list[Problem]) -> dict[str, Any]:
    pool = step.get("agent_pool")
    if "agent_pool" not in step:
        if own := [name for name in _MACHINES if name in step]:
            said.append(f"no agent_pool: its own {', '.join(own)} stay")
            return {}
        said.append(f"no agent_pool → mirror_hardwares {DEFAULT_POOL}, the older generator's default")
        return {"mirror_hardwares": DEFAULT_POOL}
    if not isinstance(pool, str) or not _POOL.fullmatch(pool):
        what = f"agent_pool {pool!r} must be a pool and its number of cards, such as {DEFAULT_POOL}"
        problems.append(Problem(step.keys_at["agent_pool"], what))
        return {}
    said.append(f"agent_pool {pool} → mirror_hardwares {pool}")
    return {"mirror_hardwares": pool}


def _blocking(step: LocatedDict, said: list[str], problems: list[Problem]) -> dict[str, Any]:
    """`soft_fail` from the grade; without one the older generator let every failure pass, and did not say so."""
    if "grade" not in step:
        if "soft_fail" in step:
            said.append("no grade: soft_fail stays as written, where the older generator made it true")
            return {}
        said.append(
            "no grade → soft_fail true: its failures do not block, as the older generator had it silently"
        )
        return {"soft_fail": True}
    grade = step["grade"]
    if not isinstance(grade, str) or grade not in GRADES:
        hint = did_you_mean(str(grade), GRADES)
        what = f"grade {grade!r} is none, and the older generator would have let every failure pass{hint}"
        problems.append(Problem(step.keys_at["grade"], what))
        return {}
    if "soft_fail" in step and step["soft_fail"] is not GRADES[grade]:
        what = f"soft_fail contradicts `grade: {grade}` on line {step.keys_at['grade'].line}; keep one"
        problems.append(Problem(step.keys_at["soft_fail"], what))
    said.append(f"grade {grade} → soft_fail {str(GRADES[grade]).lower()}")
    return {"soft_fail": GRADES[grade]}


def _folder(step: LocatedDict, said: list[str], problems: list[Problem]) -> dict[str, Any]:
    if "working_dir" not in step:
        return {}
    folder = step["working_dir"]
    if not isinstance(folder, str) or not folder.strip():
        problems.append(Problem(step.keys_at["working_dir"], "working_dir must name a folder"))
        return {}
    name = next((name for name in ("commands", "command") if name in step), None)
    if name is None:
        return {}  # the step does nothing, which is told of as such
    first = f"cd {shlex.quote(folder)}".replace("$", "$$")
    said.append(f"working_dir → the first command is `{first}`")
    written = step[name]
    at = step.keys_at["working_dir"]
    commands = LocatedList(written.where if isinstance(written, LocatedList) else at)
    rest = list(written) if isinstance(written, list) else [written]
    commands.extend([first, *rest])
    commands.items_at = [
        at,
        *(written.items_at if isinstance(written, LocatedList) else [step.keys_at[name]] * len(rest)),
    ]
    return {name: commands}


def _mirrors(step: LocatedDict, problems: list[Problem]) -> tuple[str, ...]:
    if step.get("mirror_hardwares") is None:
        return ()
    found: list[str] = []
    for entry, where in flattened(step["mirror_hardwares"], step.keys_at["mirror_hardwares"]):
        if not isinstance(entry, str) or not entry.strip():
            problems.append(
                Problem(where, f"mirror_hardwares lists mirrors such as {DEFAULT_MIRROR}, not {entry!r}")
            )
        elif _POOL.fullmatch(entry):
            what = f"{entry!r} in a list of mirrors is a preset's name; write `mirror_hardwares: {entry}`, without a list"
            problems.append(Problem(where, what))
        else:
            found.append(entry)
    return tuple(dict.fromkeys(found))


def _copy(holder: LocatedDict, changes: Mapping[str, Any], without: tuple[str, ...] = ()) -> LocatedDict:
    made = LocatedDict(holder.where)
    made.size, made.depth, made.keys_at = holder.size, holder.depth, dict(holder.keys_at)
    made.texts = dict(holder.texts)
    for key, value in holder.items():
        if key in changes or key not in without:
            made[key] = changes.get(key, value)
    # the place of what was not written is that of the key it comes from
    origins = {"mirror_hardwares": "agent_pool", "soft_fail": "grade"}
    for key, value in changes.items():
        made[key] = value
        made.keys_at[key] = holder.keys_at.get(origins.get(key, key), holder.keys_at.get(key, holder.where))
    return made
