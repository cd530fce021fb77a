"""Whether the jobs of a parallel step divide its tests (S8)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from omni_ci.checks.findings import Finding, Placed
from omni_ci.shell.runs import Command, pytest_runs

_SHARDS = re.compile(r"BUILDKITE_PARALLEL_JOB(?:_COUNT)?\b|--shard[= ]auto\b")
_SHARD_WITH_DEFAULT = re.compile(r"\$\{BUILDKITE_PARALLEL_JOB(?:_COUNT)?:?-")
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)|(?P<name>\w+))", re.ASCII)
_ADDOPTS = "PYTEST_ADDOPTS"
_LONGEST = 60


def check_shards(steps: Sequence[Placed]) -> Iterator[Finding]:
    """Yield each parallel step whose jobs would run the same tests, and each step that is one job and takes a share."""
    for placed in steps:
        if not placed.runs_commands:
            continue
        jobs, commands = placed.step.get("parallelism"), placed.commands
        if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1):
            yield placed.finding("S8", f"parallelism is {jobs!r}; write 1 or more")
        elif (jobs or 1) > 1 and (whole := _unshared(placed)):
            yield placed.finding(
                "S8",
                f"parallelism {jobs}, yet `{whole}` does not use $$BUILDKITE_PARALLEL_JOB: every job would run all of "
                "its tests; give it `--shard auto`, or run it in a step of its own",
            )
        elif jobs is None and _SHARDS.search(_SHARD_WITH_DEFAULT.sub("", commands)):
            yield placed.finding("S8", "uses $$BUILDKITE_PARALLEL_JOB without `parallelism:`")


def _unshared(placed: Placed) -> str | None:
    """Return the first pytest run of a parallel step that each of its jobs would make as a whole."""
    shares = {
        name for command in placed.shell.commands for name, value in _set_by(command) if _SHARDS.search(value)
    }
    env = placed.step.get("env")
    given = {str(name): str(value) for name, value in env.items()} if isinstance(env, dict) else {}
    shares |= {name for name, value in given.items() if _SHARDS.search(value)}
    for run in pytest_runs(placed.script):
        text = " ".join(run.words)
        names = {found["braced"] or found["name"] for found in _VARIABLE.finditer(text)}
        if not (_SHARDS.search(text) or names & shares or _ADDOPTS in shares):
            bare = " ".join(text.split())
            return bare if len(bare) <= _LONGEST else f"{bare[:_LONGEST]}…"
    return None


def _set_by(command: Command) -> Iterator[tuple[str, str]]:
    """Yield the variables that *command* gives a value."""
    yield from command.assigns
    for word in command.words[1:] if command.name in {"export", "declare", "readonly", "local"} else ():
        name, is_given, value = word.partition("=")
        if is_given:
            yield name, value
