"""Pipelines read by their paths, with the problems of all of them at once."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from omni_ci.repository.places import Tree
from omni_ci.selection.pipelines import each, read_pipeline, required_names
from omni_ci.yaml.loading import LoadError
from omni_hardware.errors import InputError

READY = ".buildkite/cuda/test-ready.yml"
MERGE = ".buildkite/cuda/test-merge.yml"
WEEKLY = ".buildkite/cuda/test-weekly.yml"


def test_every_wrong_file_is_told_at_once(scratch: Any) -> None:
    wrong = "steps:\n  - {label: x, comands: [y]}\n"
    scratch.write({MERGE: wrong, WEEKLY: wrong})
    tree = Tree(scratch.root)
    assert required_names(tree) == [MERGE, READY, WEEKLY]
    assert [one.name for one in each(partial(read_pipeline, tree), [READY])] == [READY]
    with pytest.raises(LoadError) as refused:
        each(partial(read_pipeline, tree), [MERGE, READY, WEEKLY])
    assert {problem.where.file for problem in refused.value.problems} == {MERGE, WEEKLY}


def test_a_file_that_is_not_there_has_a_near_name(scratch: Any) -> None:
    with pytest.raises(InputError) as refused:
        read_pipeline(Tree(scratch.root), ".buildkite/cuda/test-redy.yml")
    assert str(refused.value) == (
        f".buildkite/cuda/test-redy.yml: there is no such pipeline file (did you mean {READY!r}?)"
    )


def test_a_repository_without_pipelines_is_told_what_to_do(scratch: Any) -> None:
    (scratch.root / READY).unlink()
    with pytest.raises(
        InputError, match=r"no pipeline matches .*; name a file, or start with `omni-ci init`"
    ):
        required_names(Tree(scratch.root))
