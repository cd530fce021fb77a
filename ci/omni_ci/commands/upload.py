"""`omni-ci upload`: the pipeline to buildkite-agent, its reasons on the build's page and beside it on disk."""

from __future__ import annotations

import os

from omni_ci.commands.making import KnownKeys, made_ready
from omni_ci.commands.selecting import Selecting
from omni_ci.model import slug
from omni_ci.report import annotation, counted, nothing_selected, say
from omni_ci.uploading import Agent, save


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
    name = slug(made.pipelines[0].name.removesuffix(".yml").removeprefix(".buildkite/"))
    saved = save(made.root, name, pipeline=generated.text, selection=made.selection.to_json())
    agent = Agent(saved, os.environ)
    if generated.text is None:
        say(nothing_selected(made.selection))
    else:
        say(f"{counted(made.selection)}\nThe pipeline is in {saved.pipeline}")
        agent.upload()
    say(f"The reasons are in {saved.selection}")
    problems = (
        agent.annotate(annotation(made.selection, title=made.pipelines[0].name), context=f"omni-ci-{name}"),
        agent.keep(saved.selection, made.root),
    )
    for problem in filter(None, problems):
        say(f"warning: {problem}")
    return 0
