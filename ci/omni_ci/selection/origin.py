"""Where presets, registry, policy, templates and the project's own words are read from: the head, or the base a fork branched off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from omni_ci.configuration import Files
from omni_ci.repository.changes import ChangeSet
from omni_ci.repository.forks import fork_of
from omni_ci.repository.git import Repository
from omni_ci.repository.places import Commit, Tree
from omni_ci.selection.asking import Side
from omni_hardware.errors import InfrastructureError

_WHAT = "presets, dependencies, policy, templates and [tool.omni]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The *files* of one *side*, why in *notices*, and the *changes* that were looked up to find the base.

    *tests* are the files that pipelines and tests are of, where that is the other side.
    """

    files: Files
    tests: Files | None = None
    side: Side = "head"
    changes: ChangeSet | None = None
    notices: tuple[str, ...] = ()


def origin_of(
    tree: Tree, *, asked: Side | None, environ: Mapping[str, str], find: Callable[[], ChangeSet]
) -> Origin:
    """Return where the configuration is read from: as *asked*, else the base for a pull request from a fork.

    Raises InfrastructureError where the base is meant and *find* cannot tell it: with the head's configuration a
    fork would choose queues, images and secrets itself.
    """
    fork = fork_of(environ)
    if asked == "head" or (asked is None and fork is None):
        if fork is None:
            return Origin(files=tree)
        what = f"{_WHAT} are read from the head of {fork}, as --config-from head asks"
        return Origin(files=tree, notices=(what,))
    why = "as --config-from base asks" if asked else f"since the pull request comes from {fork}"
    changes = find()
    if changes.base is None:
        reason = changes.reason or "the changes were listed by hand"
        raise InfrastructureError(
            f"{_WHAT} would be read from the merge base, {why}, which is not known: {reason}\n"
            "Fetch more history, or trust the head with --config-from head."
        )
    what = f"{_WHAT} are read from the merge base {changes.base[:12]}, {why}"
    commit = Commit(Repository(tree.root), changes.base)
    return Origin(files=commit, tests=tree, side="base", changes=changes, notices=(what,))
