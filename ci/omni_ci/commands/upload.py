"""`omni-ci upload`: the pipeline to buildkite-agent, its reasons on the build's page and beside it on disk."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from omni_ci.commands.arguments import KnownKeys
from omni_ci.commands.making import made_ready
from omni_ci.commands.selecting import Selecting
from omni_ci.output.uploading import Agent, NoAnswerError, Saved, save
from omni_ci.showing.annotating import annotation
from omni_ci.showing.report import nothing_selected, say, summary
from omni_ci.yaml.model import slug
from omni_hardware.errors import InfrastructureError

# What a mark says until the agent has ended well; then it is the SHA-256 of what was uploaded.
_STARTED = "started"
_NOT_TAKEN = "not taken"


def upload(
    file: str,
    /,
    *more: str,
    known_key: KnownKeys = None,
    selecting: Selecting | None = None,
) -> int:
    """Hand the pipeline to buildkite-agent, with its reasons.

    Parameters
    ----------
    file
        The pipeline file.
    more
        Further files of the same build, to go into the same upload: a job that two of them have runs once.
    known_key
        Keys of steps that live only in Buildkite, which `depends_on` may name.
    selecting
        What to select by.

    """
    made, generated = made_ready(file, *more, known_key=known_key, selecting=selecting or Selecting())
    names = [one.name for one in made.pipelines]
    title = " + ".join(names)
    name = slug(" ".join(one.removesuffix(".yml").removeprefix(".buildkite/") for one in names))
    saved = save(made.root, name, parts=generated.parts, selection=made.selection.to_json())
    agent = Agent(saved, os.environ)
    if generated.parts:
        where = f"The pipeline is in {' and '.join(map(str, saved.pipelines))}"
        say("\n".join([*summary(made.selection), where]))
        _hand_over(agent, saved, name, os.environ)
    else:
        say(nothing_selected(made.selection))
    say(f"The reasons are in {saved.selection}")
    shown = annotation(made.selection, title=title, notices=(*made.notices, *generated.notices))
    _warn(agent.annotate(shown, context=f"omni-ci-{name}"))
    _warn(agent.keep(saved.selection, made.root))
    return 0


def _hand_over(agent: Agent, saved: Saved, name: str, environ: Mapping[str, str]) -> None:
    """Upload every part that an earlier attempt of this job has not: a retry has the same step and another job.

    Raises InfrastructureError for a part that such an attempt may have uploaded.
    """
    step = environ.get("BUILDKITE_STEP_ID")
    is_retry = environ.get("BUILDKITE_RETRY_COUNT", "0") not in {"", "0"}
    for number, path in enumerate(saved.pipelines, start=1):
        if not step:
            agent.upload(path)
            continue
        mark = f"omni-ci-uploaded-{name}-{step}-{number}"
        value = agent.mark_of(mark) if is_retry else None
        if value == _STARTED:
            raise InfrastructureError(
                f"{path.name} may be uploaded already: an earlier attempt of this job handed it over and did not learn "
                "whether Buildkite took it, so it is not uploaded again\n"
                f"Look at the build; where its steps are missing, start a new one. The pipeline is in {path}"
            )
        if value not in {None, _NOT_TAKEN}:
            say(
                f"note: an earlier attempt of this job has uploaded {path.name} already, so it is not uploaded again"
            )
            continue
        _upload_marked(agent, path, mark)


def _upload_marked(agent: Agent, path: Path, mark: str) -> None:
    """Upload *path* between two marks, so that an attempt that is lost in between is seen by the next one."""
    unmarked = agent.mark(mark, _STARTED)
    if unmarked:
        _warn(f"a retry of this job would upload once more: {unmarked}")
    try:
        agent.upload(path)
    except NoAnswerError:
        raise
    except InfrastructureError:
        if not unmarked and (problem := agent.mark(mark, _NOT_TAKEN)):
            _warn(f"a retry of this job would not upload: {problem}")
        raise
    problem = agent.mark(mark, hashlib.sha256(path.read_bytes()).hexdigest())
    if problem and not unmarked:
        _warn(f"a retry of this job would end with 4, not knowing what became of {path.name}: {problem}")


def _warn(problem: str | None) -> None:
    if problem:
        say(f"warning: {problem}")
