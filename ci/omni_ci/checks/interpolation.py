"""What upload would do to the texts of a rendered pipeline: refuse them, empty them, or put a secret in (S9)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from omni_ci.checks.findings import Finding, Level, Placed, strings_of
from omni_ci.checks.secrets import Secrets
from omni_ci.hardware.job_env import settings_of
from omni_ci.hardware.variables import carries_commands
from omni_ci.interpolation import InterpolationError, Operator, Reference, portability, references

Said = tuple[Level, str]

_COMMANDS = frozenset(["command", "commands"])
# A job's own: where the uploading job has them, it has its own.
_OF_THE_JOB = re.compile(
    r"BUILDKITE_(?:AGENT_ID|AGENT_NAME|ARTIFACT_PATHS|BUILD_CHECKOUT_PATH|COMMAND|GROUP_ID|GROUP_KEY|GROUP_LABEL|JOB_ID|"
    r"LABEL|RETRY_COUNT|SCRIPT_PATH|STEP_ID|STEP_KEY|TIMEOUT)"
)
_OF_A_PARALLEL_JOB = re.compile(r"BUILDKITE_PARALLEL_JOB(?:_COUNT)?")
_OF_THE_SHELL = re.compile(
    r"BASHPID|BASH_SOURCE|EPOCHSECONDS|EUID|FUNCNAME|IFS|LINENO|OLDPWD|OPTARG|OPTIND|PIPESTATUS|PPID|RANDOM|REPLY|"
    r"SECONDS|UID"
)
_OF_THE_MACHINE = re.compile(r"HOME|HOSTNAME|LANG|LOGNAME|PATH|PWD|SHELL|TMPDIR|USER")


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """What is known of the upload: the variables its environment has, and those that are secrets."""

    known: frozenset[str]
    secrets: Secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """What surrounds a text: what is known at upload, what its step's script and job set later; is it the script?"""

    known: frozenset[str]
    secrets: Secrets
    script: frozenset[str] = frozenset()
    job: frozenset[str] = frozenset()
    is_script: bool = False


def check_interpolation(
    top: Mapping[str, Any], steps: Sequence[Placed], upload: Upload, *, where: str
) -> Iterator[Finding]:
    """Yield what upload would refuse or change in *top*, the document without its steps, and in *steps*.

    The agent reads `env` of the document first, one variable after the other: from there on they are known.
    """
    env = top.get("env")
    env = env if isinstance(env, Mapping) else {}
    known = upload.known
    for name, value in env.items():
        around = _Around(known=known, secrets=upload.secrets)
        yield from _of_document({"env": {name: value}}, around, where)
        known |= {str(name)}
    around = _Around(known=known, secrets=upload.secrets)
    yield from _of_document({key: value for key, value in top.items() if key != "env"}, around, where)
    for one in steps:
        yield from _of_step(one, known, upload.secrets)


def _of_document(part: Mapping[str, Any], around: _Around, where: str) -> Iterator[Finding]:
    for level, message in dict.fromkeys(_said(part, around)):
        yield Finding(code="S9", where=where, message=message, level=level)


def _of_step(one: Placed, known: frozenset[str], secrets: Secrets) -> Iterator[Finding]:
    own = one.own
    if not any("$" in text for _, text in strings_of(own)):
        return
    around = _Around(
        known=known,
        secrets=secrets,
        script=one.shell.assigned,
        job=frozenset(setting.name for setting in settings_of(own)),
    )
    for level, message in dict.fromkeys(_said(own, around)):
        yield one.finding("S9", message, level=level)


def _said(part: Mapping[str, Any], around: _Around) -> Iterator[Said]:
    for place, text in strings_of(part):
        if "$" not in text:
            continue
        try:
            found = references(text)
        except InterpolationError as error:
            way = f"write `$${error.excerpt[1:]}` if the shell shall see it"
            yield Level.ERROR, f"{place}: upload refuses `{error.excerpt}`: {error.reason}; {way}"
            continue
        at = replace(around, is_script=place in _COMMANDS or carries_commands(place.removeprefix("env.")))
        for reference in found:
            if (judged := _judged(reference, at)) is not None:
                yield judged[0], f"{place}: {judged[1]}"
        for message in portability(text):
            yield Level.NOTICE, f"{place}: {message}"


def _judged(one: Reference, around: _Around) -> Said | None:
    """Return what there is to say of one variable: that of the first rule it falls under."""
    rule = next(rule for rule in _RULES if rule.applies(one, around))
    if rule.sentence is None:
        return None
    level = rule.with_default if one.has_default else rule.level
    shown = one.text.partition("\n")[0]
    return level, rule.sentence.format(shown=f"`{shown}`", escaped=f"`${shown}`", name=one.name)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A kind of variable, and the sentence for it; none where it is fine."""

    applies: Callable[[Reference, _Around], bool]
    sentence: str | None = None
    level: Level = Level.NOTICE
    with_default: Level = Level.NOTICE


_RULES = (
    _Rule(
        lambda one, around: around.secrets.has(one.name) and around.is_script,
        "{shown} puts the value of a secret into the uploaded pipeline, where everybody who sees the build reads it; "
        "write {escaped}",
        Level.ERROR,
        Level.ERROR,
    ),
    _Rule(
        lambda one, around: around.secrets.has(one.name),
        "{shown} puts the value of a secret into the uploaded pipeline, where everybody who sees the build reads it; "
        "take it out, and let the job get it from `secrets:` of its preset or of the policy",
        Level.ERROR,
        Level.ERROR,
    ),
    _Rule(
        lambda one, _: _OF_A_PARALLEL_JOB.fullmatch(one.name) is not None,
        "{shown} is replaced at upload, when it is empty: nobody is a parallel job yet; write {escaped}",
        Level.ERROR,
        Level.ERROR,
    ),
    _Rule(
        lambda one, around: one.name in around.script,
        "{shown} is replaced at upload, before the commands have set {name}; write {escaped}",
        Level.ERROR,
    ),
    _Rule(
        lambda one, _: _OF_THE_JOB.fullmatch(one.name) is not None,
        "{shown} is replaced at upload by that of the uploading job; write {escaped} for the job's own",
    ),
    _Rule(
        lambda one, _: _OF_THE_MACHINE.fullmatch(one.name) is not None,
        "{shown} is replaced at upload by that of the uploading machine; write {escaped} for the job's own",
    ),
    _Rule(lambda one, around: one.name in around.known or one.name.startswith("BUILDKITE_")),
    _Rule(
        lambda one, _: _OF_THE_SHELL.fullmatch(one.name) is not None,
        "{shown} is replaced at upload, and only the job's shell knows it; write {escaped}",
        Level.ERROR,
    ),
    _Rule(
        lambda one, around: one.name in around.job,
        "{shown} is replaced at upload, when the {name} that this step sets for its job is not there; write {escaped}",
        Level.ERROR,
    ),
    _Rule(lambda one, _: one.has_default),
    _Rule(
        lambda one, _: one.operator is Operator.REQUIRED,
        "{shown} stops the upload where {name} is not in its environment",
    ),
    _Rule(
        lambda *_: True,
        "{shown} is empty unless {name} is set at upload; write {escaped} if the shell shall see it",
    ),
)
