"""`omni-ci bootstrap`: the steps that upload the pipelines, each with the condition that starts it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from omni_ci.checks.validation import require_valid, validate
from omni_ci.commands.arguments import KnownKeys, known_keys_of
from omni_ci.commands.changing import Changing
from omni_ci.inputs import Inputs, read_inputs
from omni_ci.output.neighbours import keys_by_file
from omni_ci.output.uploading import Agent, save
from omni_ci.rendering.steps import render
from omni_ci.showing.report import say, write_document
from omni_ci.starting.bootstrap import Bootstrapped, annotation, bootstrapped, document, is_worth_a_note
from omni_ci.starting.builds import Situation, named_tiers
from omni_ci.starting.gating import decision_of, platform_of
from omni_ci.yaml.emitting import to_yaml
from omni_hardware.errors import InputError, did_you_mean


def bootstrap(
    file: str,
    /,
    *,
    upload: Annotated[bool, Parameter(negative="")] = False,
    platform: str | None = None,
    known_key: KnownKeys = None,
    changing: Changing | None = None,
) -> int:
    """Write the steps that upload the pipelines to standard output, each with the condition that starts it.

    Parameters
    ----------
    file
        The bootstrap file.
    upload
        Hand the steps to buildkite-agent instead.
    platform
        The platform folder of the policy (default: the one the file stands in).
    known_key
        Keys of steps that live only in Buildkite, which `depends_on` may name.
    changing
        What changed.

    """
    environ = os.environ
    known_keys = known_keys_of(known_key)
    inputs = read_inputs((changing or Changing()).asked(file), here=Path.cwd(), environ=environ)
    situation = _situation(inputs, platform, environ)
    made = bootstrapped(inputs.pipelines[0], situation, environ=environ)
    text, notices = _judged(made, inputs, known_keys)
    _tell((*inputs.notices, *inputs.changes.notices, *notices), made, situation)
    if upload:
        _upload(text, made, situation, inputs)
    elif text is not None:
        write_document(text)
    if text is None:
        say("no step is left, so there is nothing to upload")
    return 0


def _tell(notices: Iterable[str], made: Bootstrapped, situation: Situation) -> None:
    for notice in notices:
        say(f"note: {notice}")
    say(f"{situation.decision.kind}: {situation.decision.because}")
    for fate in made.fates:
        say(f"  {fate}")


def _situation(inputs: Inputs, platform: str | None, environ: Mapping[str, str]) -> Situation:
    """Return what the file is bootstrapped from. Raises InputError for an unknown platform or tier."""
    name = inputs.pipelines[0].name
    policy = inputs.configurations[name].policy
    if platform is None:
        platform = platform_of(name, policy)
    elif platform not in policy.platforms:
        hint = did_you_mean(platform, policy.platforms)
        raise InputError(f"--platform {platform}: there is no such platform in {policy.where.file}{hint}")
    return Situation(
        policy=policy,
        platform=platform,
        decision=decision_of(inputs.changes, policy=policy, root=inputs.tree.root, environ=environ),
        named=named_tiers(environ.get(policy.bootstrap.suites_env, ""), policy=policy, platform=platform),
    )


def _judged(made: Bootstrapped, inputs: Inputs, known_keys: Iterable[str]) -> tuple[str | None, list[str]]:
    """Return the YAML, None where no step is left, and what to say about it. Raises InputError and CheckError."""
    name = made.pipeline.name
    configuration = inputs.configurations[name]
    rendered = render(made.pipeline, configuration.equipment(name), runs=made.runs)
    if rendered.is_empty:
        return None, list(rendered.notices)
    beside = keys_by_file(inputs.tree.root)
    findings = validate(
        rendered.document,
        origins=rendered.origins,
        presets=rendered.presets,
        places=configuration.presets.places,
        known_keys=[*known_keys, *(key for file in beside if file != name for key in beside[file])],
        policy=configuration.policy,
    )
    require_valid(findings)
    return to_yaml(rendered.document), [*rendered.notices, *map(str, findings)]


def _upload(text: str | None, made: Bootstrapped, situation: Situation, inputs: Inputs) -> None:
    """Hand *text* to the agent, and tell the build's page what the change left out. Raises InfrastructureError."""
    name = f"bootstrap-{situation.platform}"
    kept = json.dumps(document(made, situation), indent=2, ensure_ascii=False) + "\n"
    saved = save(inputs.tree.root, name, parts=[] if text is None else [text], selection=kept)
    decision = saved.selection.rename(saved.folder / "decision.json")
    agent = Agent(saved, os.environ)
    for path in saved.pipelines:
        agent.upload(path)
        say(f"The pipeline is in {path}")
    say(f"The decision is in {decision}")
    if is_worth_a_note(situation.decision):
        shown = annotation(made, situation.decision, title=made.pipeline.name)
        if problem := agent.annotate(shown, context=f"omni-ci-{name}"):
            say(f"warning: {problem}")
