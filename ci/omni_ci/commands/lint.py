"""`omni-ci lint`: what is wrong with pipelines though they load, render and run."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from omni_ci.commands.arguments import KnownKeys, known_keys_of, one_named
from omni_ci.commands.changing import given
from omni_ci.configuration import ConfigKind
from omni_ci.rules.baseline import Compared, Entry, baseline_text, compared, load_baseline
from omni_ci.rules.lint_findings import FORMATS, LintFinding, counted
from omni_ci.rules.linting import LintedRepository, chosen, findings, load_repository
from omni_ci.rules.rule import Rule
from omni_ci.showing.report import print_columns, say, write_document
from omni_hardware.errors import CheckError, InputError

Codes = Annotated[tuple[str, ...], Parameter(negative="")]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Which rules are asked, and what they need not report.

    Parameters
    ----------
    select
        Only these rules: CI001,CI002; repeatable.
    ignore
        Not these rules, likewise.
    baseline
        A file of findings to live with; what it names is not reported.

    """

    select: Codes = ()
    ignore: Codes = ()
    baseline: str | None = None

    def chosen(self) -> tuple[Rule, ...]:
        """Return the rules. Raises InputError for a code that there is not."""
        return chosen(_codes("--select", self.select), _codes("--ignore", self.ignore))

    def known(self) -> Counter[Entry]:
        """Return the findings of the baseline. Raises InputError."""
        name = one_named("--baseline", self.baseline)
        return Counter() if name is None else load_baseline(_read(name), name=name)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What is known beside the pipelines.

    Parameters
    ----------
    known_key
        Keys of steps that live only in Buildkite, which `depends_on` may name.
    presets
        The presets file, instead of the one found beside the pipeline or in .buildkite/.
    dependencies
        The registry of watched paths, likewise.
    policy
        The policy file, likewise.

    """

    known_key: KnownKeys = None
    presets: str | None = None
    dependencies: str | None = None
    policy: str | None = None

    def repository(self, files: tuple[str, ...]) -> LintedRepository:
        """Return *files* with all that stands beside them. Raises InputError."""
        paths = {
            ConfigKind.PRESETS: self.presets,
            ConfigKind.REGISTRY: self.dependencies,
            ConfigKind.POLICY: self.policy,
        }
        known_keys = known_keys_of(self.known_key)
        return load_repository(Path.cwd(), files, given=given(paths), known_keys=known_keys)


def lint(
    *files: str,
    list_rules: Annotated[bool, Parameter(name="--list", negative="")] = False,
    output: Annotated[Literal["text", "json", "annotation"], Parameter(name="--format")] = "text",
    rules: Rules | None = None,
    write_baseline: str | None = None,
    beside: Beside | None = None,
) -> int:
    """Say what is wrong with pipelines though they load and render; exit 3 where there is something.

    Parameters
    ----------
    files
        Pipeline files; without any, every .buildkite/*/test-*.yml of the repository.
    list_rules
        Show the rules instead.
    output
        Lines for people, JSON, or Markdown for a build's page.
    rules
        Which rules are asked.
    write_baseline
        Write all findings to this file instead of reporting them.
    beside
        What is known beside the pipelines.

    """
    rules = rules or Rules()
    if list_rules:
        rows = [(rule.code, rule.title) for rule in rules.chosen()]
        print_columns(("rule", "what must hold"), rows, sys.stdout)
        return 0
    return _linted(files, rules, beside or Beside(), output=output, write_baseline=write_baseline)


def _linted(
    files: tuple[str, ...], rules: Rules, beside: Beside, *, output: str, write_baseline: str | None
) -> int:
    one_named("--write-baseline", write_baseline)
    asked, known = rules.chosen(), rules.known()
    repository = beside.repository(files)
    for notice in repository.notices:
        say(f"note: {notice}")
    asked = _answerable(asked, bool(files))
    if not asked:
        raise InputError(
            "no rule is left to ask, so that nothing would be checked; see --select and --ignore"
        )
    found = findings(repository.context, asked)
    if write_baseline is not None:
        return _write(write_baseline, found)
    judged = compared(found, known, codes=[rule.code for rule in asked] if not files else ())
    return _report(judged, output, len(asked))


def _report(judged: Compared, output: str, asked: int) -> int:
    for entry in judged.stale:
        say(f"note: the baseline's {entry} is not found any more; take it out, or write the baseline anew")
    text = FORMATS[output](judged)
    if text:
        write_document(text)
    say(f"{counted(judged)} by {asked} rule{'' if asked == 1 else 's'}")
    return CheckError.exit_code if judged.new else 0


def _answerable(asked: tuple[Rule, ...], is_partial: bool) -> tuple[Rule, ...]:
    """Leave out the rules that ask about all pipelines where only some were named, and say so."""
    left = tuple(rule for rule in asked if not (is_partial and rule.asks_about_all))
    for rule in asked:
        if rule not in left:
            say(f"note: {rule.code} asks about all pipelines at once; name no files to have it answered")
    return left


def _write(path: str, found: tuple[LintFinding, ...]) -> int:
    if Path(path).exists():
        _require_baseline(path)
    try:
        Path(path).write_text(baseline_text(found), encoding="utf-8")
    except OSError as error:
        raise InputError(f"--write-baseline {path}: cannot be written: {error.strerror}") from error
    say(f"{len(found)} finding{'' if len(found) == 1 else 's'} written to {path}")
    return 0


def _require_baseline(path: str) -> None:
    """Return where *path* is a baseline already. Raises InputError: anything else is not ours to overwrite."""
    try:
        load_baseline(_read(path), name=path)
    except InputError as error:
        raise InputError(
            f"--write-baseline {path}: is there and no baseline, so it is kept ({error})"
        ) from error


def _codes(flag: str, values: tuple[str, ...]) -> tuple[str, ...]:
    codes = tuple(code.strip() for value in values for code in value.split(","))
    if not all(codes or ("x",)):
        raise InputError(f"{flag} names nothing; give it a rule's code, or leave it out")
    return codes


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InputError(f"--baseline {path}: cannot be read: {why}") from error
