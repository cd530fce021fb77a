"""A secret that would stand as text in an uploaded pipeline, whatever brought it there; its value is never said."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from omni_ci.checks.findings import Finding, Placed, strings_of
from omni_ci.hardware.job_env import Setting, settings_of
from omni_ci.secrecy import is_secret, is_value, redacted, secret_in
from omni_ci.shell.runs import Script

_WAY_OUT = (
    "everybody who sees the build reads it; let the job get it from `secrets:` of its preset or of the policy"
)
_NO_SCRIPT = Script(commands=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """The variables that are secrets: by their names, and because policy says so (*named*)."""

    named: frozenset[str] = frozenset()

    def has(self, name: str) -> bool:
        """Return whether *name* is one of them; an option `--api-key` is called as a variable API_KEY would be."""
        variable = name[2:].replace("-", "_") if name.startswith("--") else name
        return name in self.named or is_secret(variable)

    def exposed(self, part: Mapping[str, Any], script: Script = _NO_SCRIPT) -> Iterator[Setting]:
        """Yield the settings of *part*, and those that *script* makes, that give a secret its value as text."""
        for setting in (*settings_of(part), *_set_by(script)):
            if setting.value and self.has(setting.name) and is_value(setting.value):
                yield setting


def check_secrets(
    top: Mapping[str, Any], steps: Sequence[Placed], secrets: Secrets, *, where: str
) -> Iterator[Finding]:
    """Yield an error for each secret that stands as text in *top*, the document without its steps, or in *steps*."""
    for message in _messages(top, secrets, _NO_SCRIPT):
        yield Finding(code="SECRET", where=where, message=message)
    for one in steps:
        for message in _messages(one.own, secrets, one.shell):
            yield one.finding("SECRET", message)


def without_secrets(
    findings: Sequence[Finding], top: Mapping[str, Any], steps: Sequence[Placed], secrets: Secrets
) -> Iterator[Finding]:
    """Yield *findings* with every secret of the document taken out of what they say."""
    values = {setting.value for setting in secrets.exposed(top) if setting.value}
    for one in steps:
        values |= {setting.value for setting in secrets.exposed(one.own, one.shell) if setting.value}
    for finding in findings:
        message = redacted(finding.message, values)
        yield finding if message == finding.message else replace(finding, message=message)


def _messages(part: Mapping[str, Any], secrets: Secrets, script: Script) -> Iterator[str]:
    values: Collection[str] = ()
    for setting in secrets.exposed(part, script):
        values = (*values, setting.value or "")
        yield f"{setting.place}: {setting.name} is a secret, and its value stands here as text; {_WAY_OUT}"
    for place, text in strings_of(part):
        found = secret_in(text)
        if found and not any(found[1] in value for value in values):
            yield f"{place} holds what has the form of a {found[0]}; {_WAY_OUT}"


def _set_by(script: Script) -> Iterator[Setting]:
    """Yield what the commands give a value: by `A=b` in front or as a word, and by an option called like a variable."""
    for command in script.commands:
        yield from (Setting("commands", name, value) for name, value in command.assigns)
        if command.name in {"echo", "printf"}:
            continue  # what is only said is judged by its form
        for word, following in zip(command.words[1:], [*command.words[2:], ""], strict=False):
            name, is_given, value = word.partition("=")
            if name.startswith("--") and not is_given:
                value = "" if following.startswith("-") else following
            if name.startswith(("--env", "-e")) and is_given and "=" in value:
                name, _, value = value.partition("=")
            yield Setting("commands", name, value)
