"""Pipelines by their paths: found, read, and the problems of all of them told at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from omni_ci.repository.places import Tree
from omni_ci.repository.roots import PIPELINES, pipeline_names
from omni_ci.yaml.document import Problem
from omni_ci.yaml.loading import LoadError, load_pipeline
from omni_ci.yaml.model import PipelineFile
from omni_hardware.errors import InputError, did_you_mean

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


def required_names(tree: Tree) -> list[str]:
    """Return every pipeline of the repository. Raises InputError where it has none."""
    found = pipeline_names(tree.root)
    if not found:
        raise InputError(
            f"{tree.root}: no pipeline matches {PIPELINES}; name a file, or start with `omni-ci init`"
        )
    return found


def read_pipeline(tree: Tree, name: str) -> PipelineFile:
    """Return the pipeline file *name*. Raises InputError where it does not exist, LoadError where it is wrong."""
    text = tree.read(name)
    if text is None:
        near = did_you_mean(name, pipeline_names(tree.root))
        raise InputError(f"{name}: there is no such pipeline file{near}")
    return load_pipeline(text, name=name)


def each(make: Callable[[_Given], _Made], of: Iterable[_Given]) -> list[_Made]:
    """Return what *make* makes of each. Raises one LoadError with the problems of all of them."""
    made: list[_Made] = []
    problems: list[Problem] = []
    for given in of:
        try:
            made.append(make(given))
        except LoadError as error:
            problems += error.problems
    if problems:
        raise LoadError(problems)
    return made
