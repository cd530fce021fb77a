"""A stored selection.json asked again: the same verdicts, and what has changed since it was written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, StrictBool, StrictInt, StrictStr, ValidationError

from omni_ci.repository.changes import ChangeSet
from omni_ci.selection.facts import Decision, Reason, Rule
from omni_ci.selection.judging import MinutesFrom, Mode, Verdict
from omni_hardware.errors import InputError, did_you_mean

_SHOWN = 20


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StoredDiff(_Part):
    """What had changed."""

    known: StrictBool
    base: StrictStr | None
    head: StrictStr | None
    reason: StrictStr | None
    files: tuple[StrictStr, ...]


class StoredConfig(_Part):
    """The policy's digest, and the side that the configuration was read from."""

    policy: StrictStr
    from_: Literal["base", "head"]

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=lambda name: name.rstrip("_"))


class StoredStep(_Part):
    """The verdict on one step."""

    file: StrictStr
    key: StrictStr
    label: StrictStr
    group: StrictStr | None
    runs: StrictBool
    because: StrictStr
    rule: Rule
    preset: StrictStr | None
    cards: StrictInt | None = None
    jobs: StrictInt = 1
    minutes: float | None
    minutes_from: MinutesFrom | None = None
    depends_on: tuple[StrictStr, ...]


class StoredSelection(_Part):
    """A whole selection.json."""

    version: Literal[1]
    diff: StoredDiff
    config: StoredConfig
    mode: Mode
    labels: tuple[StrictStr, ...]
    only: tuple[StrictStr, ...]
    steps: tuple[StoredStep, ...]

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=lambda name: "schema" if name == "version" else name
    )

    @property
    def files(self) -> tuple[str, ...]:
        """The pipeline files it judged, in order."""
        return tuple(dict.fromkeys(step.file for step in self.steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A selection.json to go by, and the name it was read under."""

    name: str
    stored: StoredSelection

    def changes(self) -> ChangeSet:
        """Return what had changed."""
        diff = self.stored.diff
        if not diff.known:
            return ChangeSet.unknown(diff.reason or "not said", base=diff.base, head=diff.head)
        return ChangeSet(
            known=True, files=diff.files, base=diff.base, head=diff.head, basis=f"as {self.name} has it"
        )

    def decided(self, ids: Iterable[str]) -> dict[str, Decision]:
        """Return what it says about the steps *ids* (`file#ident`). Raises InputError for a step that is gone.

        A step that it does not know is new, and runs.
        """
        present = set(ids)
        files = {one.partition("#")[0] for one in present}
        stored = {f"{step.file}#{step.key}": step for step in self.stored.steps if step.file in files}
        gone = [one for one in stored if one not in present]
        if gone:
            lines = [
                f"{self.name}: there is no step {one} any more{_near(one, present)}" for one in gone[:_SHOWN]
            ]
            raise InputError("\n".join([*lines, *_rest(len(gone) - _SHOWN)]))
        new = (True, Reason(Rule.SELF, f"the step is new: {self.name} does not know it"))
        known = {one: (step.runs, Reason(step.rule, step.because)) for one, step in stored.items()}
        return {one: known.get(one, new) for one in present}

    def differences(
        self,
        verdicts: Sequence[Verdict],
        *,
        policy: str,
        side: str,
        commit: Callable[[str], str | None] = lambda _: None,
    ) -> tuple[str, ...]:
        """Return a sentence for everything that is not as it was; the verdicts themselves are.

        *commit* resolves what names a commit; where it does not even know HEAD, nobody can say what this tree is.
        """
        stored = {f"{step.file}#{step.key}": step for step in self.stored.steps}
        found = [*self._another_commit(commit)]
        found += [
            line
            for verdict in verdicts
            if (step := stored.get(verdict.id)) is not None
            for line in self._compared(step, verdict)
        ]
        new = [verdict.id for verdict in verdicts if verdict.id not in stored and not verdict.is_gate]
        found += [f"{one} is not in {self.name}, so it runs" for one in new]
        if side != self.stored.config.from_:
            found.append(
                f"configuration is read from the {side}, in {self.name} from the {self.stored.config.from_}"
            )
        # one of several pipelines is judged by one of several policies
        then, now = (set(one.split(", ")) for one in (self.stored.config.policy, policy))
        if self.stored.config.policy and not now <= then:
            found.append(f"the policy is not the one of {self.name}")
        return (*found[:_SHOWN], *_rest(len(found) - _SHOWN))

    def _another_commit(self, commit: Callable[[str], str | None]) -> Iterator[str]:
        then, here = self.stored.diff.head, commit("HEAD")
        if then is None or here is None or (found := commit(then)) == here:
            return
        unknown = "" if found else ", which is no commit of this clone"
        yield f"{self.name} was made for {then[:12]}{unknown}, and this is {here[:12]}"

    def _compared(self, step: StoredStep, verdict: Verdict) -> Iterator[str]:
        if step.runs != verdict.runs:
            yield f"{verdict.id} {'ran' if step.runs else 'did not run'} in {self.name}: now {verdict.because}"
        pairs: Mapping[str, tuple[Any, Any]] = {
            "label": (step.label, verdict.label),
            "group": (step.group, verdict.group),
            "preset": (step.preset, verdict.preset),
            "depends_on": (step.depends_on, verdict.depends_on),
        }
        for name, (then, now) in pairs.items():
            if then != now:
                yield f"{verdict.id}: {name} is {_said(now)}, in {self.name} {_said(then)}"


def load_selection(text: str, *, name: str) -> Replay:
    """Return the selection in *text*. Raises InputError with every key and value that is wrong."""
    try:
        document = json.loads(text, object_pairs_hook=_once)
    except _TwiceError as error:
        raise InputError(f"{name}: the key {error} stands there twice; keep one") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise InputError(f"{name}: must be what `omni-ci plan --format json` prints, a mapping")
    try:
        stored = StoredSelection.model_validate(document)
    except ValidationError as error:
        lines = [f"{name}: {_problem(one)}" for one in error.errors()]
        raise InputError("\n".join([*lines[:_SHOWN], *_rest(len(lines) - _SHOWN)])) from None
    diff = stored.diff
    if diff.known == bool(diff.reason) or (not diff.known and diff.files):
        raise InputError(f'{name}: "diff" is either known, or has a reason and no files')
    if nameless := next((step for step in stored.steps if not step.because.strip()), None):
        raise InputError(f"{name}: the verdict on {nameless.key!r} has no reason")
    if twice := next(
        (one for one, count in Counter((s.file, s.key) for s in stored.steps).items() if count > 1), None
    ):
        raise InputError(f"{name}: the step {'#'.join(twice)} stands there twice; keep one verdict")
    return Replay(name=name, stored=stored)


class _TwiceError(Exception):
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [key for key, _ in pairs]
        raise _TwiceError(repr(next(key for key in names if names.count(key) > 1)))
    return found


def _problem(error: Any) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"]).lstrip(".")
    match error["type"]:
        case "extra_forbidden":
            return f"{path}: unknown key{did_you_mean(str(error['loc'][-1]), _names(error['loc']))}"
        case "missing":
            return f"{path} is missing"
        case _:
            return f"{path} is {_said(error['input'])}; {error['msg'][:1].lower()}{error['msg'][1:]}"


def _names(loc: Sequence[str | int]) -> list[str]:
    parts: dict[Any, type[BaseModel]] = {"diff": StoredDiff, "config": StoredConfig, "steps": StoredStep}
    model = parts.get(loc[0], StoredSelection) if len(loc) > 1 else StoredSelection
    return [field.alias or name for name, field in model.model_fields.items()]


def _near(one: str, present: Iterable[str]) -> str:
    hint = did_you_mean(one, sorted(present))
    return hint if "did you mean" in hint else ""


def _said(value: Any) -> str:
    shown = repr(list(value) if isinstance(value, tuple) else value)
    return shown if len(shown) <= 80 else f"{shown[:79]}…"


def _rest(count: int) -> tuple[str, ...]:
    return (f"… and {count} more",) if count > 0 else ()
