"""`omni-ci upload`: the pipeline to buildkite-agent, its reasons on the build's page and beside it on disk."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

from omni_ci.annotating import annotation
from omni_ci.commands.making import KnownKeys, made_ready
from omni_ci.commands.selecting import Selecting
from omni_ci.model import slug
from omni_ci.report import nothing_selected, say, summary
from omni_ci.uploading import Agent, Saved, save


def upload(
    file: str,
    /,
    *,
    known_key: KnownKeys = None,
    selecting: Selecting | None = None,
) -> int:
    """Hand the pipeline to buildkite-agent, with its reasons.

    Parameters
    ----------
    file
        The pipeline file.
    known_key
        Keys of steps that live only in Buildkite, which `depends_on` may name.
    selecting
        What to select by.

    """
    made, generated = made_ready(file, known_key=known_key, selecting=selecting or Selecting())
    title = made.pipelines[0].name
    name = slug(title.removesuffix(".yml").removeprefix(".buildkite/"))
    saved = save(made.root, name, parts=generated.parts, selection=made.selection.to_json())
    agent = Agent(saved, os.environ)
    if not generated.parts:
        say(nothing_selected(made.selection))
    else:
        say(
            "\n".join(
                [*summary(made.selection), f"The pipeline is in {' and '.join(map(str, saved.pipelines))}"]
            )
        )
        _hand_over(agent, saved, name, os.environ)
    say(f"The reasons are in {saved.selection}")
    notices = (*made.notices, *generated.notices)
    problems = (
        agent.annotate(annotation(made.selection, title=title, notices=notices), context=f"omni-ci-{name}"),
        agent.keep(saved.selection, made.root),
    )
    for problem in filter(None, problems):
        say(f"warning: {problem}")
    return 0


def _hand_over(agent: Agent, saved: Saved, name: str, environ: Mapping[str, str]) -> None:
    """Upload every part that an earlier attempt of this job has not: a retry has the same step and another job."""
    step = environ.get("BUILDKITE_STEP_ID")
    is_retry = environ.get("BUILDKITE_RETRY_COUNT", "0") not in {"", "0"}
    for number, path in enumerate(saved.pipelines, start=1):
        mark = f"omni-ci-uploaded-{name}-{step}-{number}"
        if step and is_retry and agent.has_mark(mark):
            say(
                f"note: an earlier attempt of this job has uploaded {path.name} already, so it is not uploaded again"
            )
            continue
        agent.upload(path)
        if step and (problem := agent.mark(mark, hashlib.sha256(path.read_bytes()).hexdigest())):
            say(f"warning: {problem}")
