"""From files and a diff to a judged plan: the one path that `plan`, `generate` and `upload` share."""

from __future__ import annotations

import posixpath
import tomllib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from omni_ci.configuration import Configuration, Configurations
from omni_ci.inputs import Inputs, configurations_of, read_inputs
from omni_ci.repository.changes import tree_files, tree_links
from omni_ci.repository.git import Repository
from omni_ci.repository.imports import ImportGraph, source_roots
from omni_ci.repository.places import Commit
from omni_ci.repository.pytest_settings import PytestSettings
from omni_ci.repository.roots import named_from_root, pipeline_names, repository_root
from omni_ci.selection.asking import Asked
from omni_ci.selection.costs import costed
from omni_ci.selection.deciding import settle
from omni_ci.selection.definition import changed_definitions
from omni_ci.selection.judging import DefinitionChange, Evidence, Mode, Selection, Verdict, judge
from omni_ci.yaml.model import PipelineFile, Step

_Member = TypeVar("_Member")

__all__ = [
    "Asked",
    "Plan",
    "configurations_of",
    "make_plan",
    "named_from_root",
    "pipeline_names",
    "repository_root",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything known about one change and the pipelines it was judged for; *configurations* by their names."""

    root: Path
    pipelines: tuple[PipelineFile, ...]
    configurations: Mapping[str, Configuration]
    selection: Selection
    notices: tuple[str, ...]
    again: Callable[[str], Plan]  # the same question about another file


def make_plan(asked: Asked, *, here: Path, environ: Mapping[str, str]) -> Plan:
    """Return the plan for *asked*, read from folder *here*.

    Raises InputError for a file that does not exist or cannot be loaded and for an unknown preset or key. That
    the changes cannot be known is no error: everything runs, and the selection says why.
    """
    inputs = read_inputs(asked, here=here, environ=environ)
    settled = settle(asked, inputs.fits, replay=inputs.replay, tree=inputs.tree)
    base = _base(inputs)
    definitions, more = _definitions(inputs, base)
    tree = tree_files(inputs.tree.root)
    asked_labels, question = _question(inputs, environ)
    evidence = partial(
        Evidence,
        changes=inputs.changes,
        tree=tree,
        imports=_imports(inputs, tree or frozenset()),
        definitions=definitions,
        labels=asked_labels,
        links=tree_links(inputs.tree.root),
        decided=settled.by_id,
        pytest=PytestSettings(inputs.tree.read),
        pytest_before=PytestSettings(base.read) if base else None,
    )
    selection = _judged(inputs, evidence, partial(judge, config_from=inputs.origin.side, **question))
    said = (
        *inputs.notices,
        *settled.notices,
        *selection.notices,
        *more,
        *_since_stored(inputs, selection),
    )
    return Plan(
        root=inputs.tree.root,
        pipelines=inputs.pipelines,
        configurations=inputs.configurations,
        selection=selection,
        again=partial(_again, asked, inputs.tree.root, here, environ),
        notices=tuple(dict.fromkeys(said)),
    )


def _since_stored(inputs: Inputs, selection: Selection) -> tuple[str, ...]:
    """Return what is not as the selection that is replayed has it."""
    if inputs.replay is None:
        return ()
    return inputs.replay.differences(
        selection.verdicts,
        policy=selection.policy,
        side=inputs.origin.side,
        commit=Repository(inputs.tree.root).commit,
    )


def _again(asked: Asked, root: Path, here: Path, environ: Mapping[str, str], name: str) -> Plan:
    return make_plan(replace(asked, files=(str(root / name),)), here=here, environ=environ)


def _question(inputs: Inputs, environ: Mapping[str, str]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the labels and what else the selection says it was asked: by a stored one, or the command line."""
    asked = inputs.asked
    if inputs.replay is not None:
        stored = inputs.replay.stored
        return tuple(stored.labels), {"mode": stored.mode, "only": stored.only}
    labels = tuple(dict.fromkeys((*asked.labels, *_labels(environ))))
    return labels, {"mode": Mode.ONLY if asked.only else asked.mode, "only": asked.only}


def _base(inputs: Inputs) -> Commit | None:
    """Return the commit that the head is compared with; None where there is none."""
    changes = inputs.changes
    if not changes.known or changes.base is None or inputs.replay is not None:
        return None
    return Commit(Repository(inputs.tree.root), changes.base)


def _imports(inputs: Inputs, files: frozenset[str]) -> ImportGraph | None:
    """Return the import statements of the tree; None where neither a policy nor a step counts them."""
    steps = (leaf for one in inputs.pipelines for _, leaf in one.leaves() if isinstance(leaf, Step))
    said = (
        *(one.policy.imports for one in inputs.configurations.values()),
        *(step.imports for step in steps),
    )
    if "union" not in said:
        return None
    try:
        pyproject = tomllib.loads(inputs.tree.read("pyproject.toml") or "")
    except tomllib.TOMLDecodeError:
        pyproject = {}
    return ImportGraph(files, inputs.tree.read, source_roots(pyproject))


def _definitions(inputs: Inputs, base: Commit | None) -> tuple[dict[str, DefinitionChange], tuple[str, ...]]:
    """Return the steps that are defined differently at *base*; nothing where there is none."""
    if base is None:
        return {}, ()
    root, changes = inputs.tree.root, inputs.changes
    before = Configurations(base, given=inputs.given)
    found: dict[str, DefinitionChange] = {}
    for inside in _grouped(inputs.fits, lambda fit: posixpath.dirname(fit.pipeline.name)).values():
        name = inside[0].pipeline.name
        found |= changed_definitions(
            inside,
            head=(inputs.tree, inputs.configurations[name]),
            base=base,
            load=partial(before.of, name),
            read=inputs.mirrors.read,
        )
    if changes.head is not None and Repository(root).commit("HEAD") != changes.head:
        short = changes.head[:12]
        return found, (f"pipelines and presets are read from the working tree, which is not at {short}",)
    return found, ()


def _judged(inputs: Inputs, evidence: Callable[..., Evidence], judged: Callable[..., Selection]) -> Selection:
    """Return the verdicts on all pipelines in their order, judged together where their configuration is the same."""
    pipelines, configurations = inputs.pipelines, inputs.configurations
    selections = [
        judged(
            inside,
            evidence(
                policy=configurations[inside[0].name].policy,
                registry=configurations[inside[0].name].registry,
                configs=configurations[inside[0].name].sources,
            ),
        )
        for inside in _grouped(
            pipelines, lambda one: frozenset(configurations[one.name].texts.items())
        ).values()
    ]
    rank = {one.name: index for index, one in enumerate(pipelines)}
    verdicts = sorted((v for one in selections for v in one.verdicts), key=lambda verdict: rank[verdict.file])
    return replace(
        selections[0],
        policy=", ".join(dict.fromkeys(one.policy for one in selections)),
        verdicts=costed(verdicts, durations=inputs.durations, cards=partial(_cards, configurations)),
        notices=tuple(dict.fromkeys(notice for one in selections for notice in one.notices)),
    )


def _cards(configurations: Mapping[str, Configuration], verdict: Verdict) -> int | None:
    preset = configurations[verdict.file].presets.get(verdict.preset or "")
    return preset.cards if preset else None


def _grouped(members: Iterable[_Member], by: Callable[[_Member], Hashable]) -> dict[Hashable, list[_Member]]:
    groups: dict[Hashable, list[_Member]] = {}
    for one in members:
        groups.setdefault(by(one), []).append(one)
    return groups


def _labels(environ: Mapping[str, str]) -> Sequence[str]:
    """Return the pull request's labels, as Buildkite hands them to the job."""
    listed = environ.get("BUILDKITE_PULL_REQUEST_LABELS", "")
    return [label.strip() for label in listed.split(",") if label.strip()]
