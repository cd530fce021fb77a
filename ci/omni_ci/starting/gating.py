"""What the change of a checkout may leave out: git and the policy read, the decision made."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path, PurePosixPath

from omni_ci.configuration import load_configuration
from omni_ci.policy import Policy
from omni_ci.repository.changes import Build, ChangeSet, changed_files, listed_changes, tree_links
from omni_ci.repository.git import Repository
from omni_ci.repository.places import FOLDER, Tree
from omni_ci.repository.roots import named_from_root, repository_root
from omni_ci.repository.skip_marks import only_adds_skips
from omni_ci.repository.watching import NO_LINKS
from omni_ci.selection.asking import Asked
from omni_ci.selection.only import VARIABLE, keys_from
from omni_ci.selection.origin import origin_of
from omni_ci.starting.builds import is_scheduled
from omni_ci.starting.skipping import Decision, Kind, decide
from omni_hardware.errors import InputError, did_you_mean


def decision_of(changes: ChangeSet, *, policy: Policy, root: Path, environ: Mapping[str, str]) -> Decision:
    """Return what *changes* leave out; nothing where *environ* asks for steps by name. Raises InputError."""
    if keys_from(environ):
        return Decision(kind=Kind.NORMAL, because=f"{VARIABLE} asks for steps by name")
    if odd := [path for path in changes.absent if path not in policy.places()]:
        # several paths in one word look like one of whatever the last of them is
        because = f"what was listed is nowhere, here or in the last commit: {odd[0]}; run normal CI"
        return Decision(kind=Kind.NORMAL, because=because)
    return decide(
        changes.files if changes.known else None,
        skip_only=partial(_only_adds_skips, root, changes),
        policy=policy,
        unknown=changes.reason,
        links=tree_links(root) if changes.files else NO_LINKS,
    )


def gate_decision(
    asked: Asked, platform: str, level: str, *, here: Path, environ: Mapping[str, str]
) -> tuple[Decision, tuple[str, ...]]:
    """Return what the change asked about leaves out, and what to say beside it.

    Raises InputError for a platform or level that the policy does not know, and where it cannot be loaded.
    """
    root = repository_root(here)
    tree, build = Tree(root), Build.of(environ)
    given = {kind: named_from_root(path, root=root, here=here) for kind, path in asked.given.items()}
    # read as a pipeline in the platform's folder would be
    pipeline = f"{FOLDER}/{platform}/gate"
    load = partial(load_configuration, pipelines=[pipeline], given=given)

    def diff(main_branch: str) -> ChangeSet:
        return changed_files(root, base=asked.base, head=asked.head, build=build, main_branch=main_branch)

    origin = origin_of(
        tree,
        asked=asked.config_from,
        environ=environ,
        find=lambda: diff(build.base_branch or load(tree).policy.main_branch),
    )
    policy = load(origin.files).policy
    for what, name, known in (("platform", platform, policy.platforms), ("level", level, policy.levels)):
        if name not in known:
            raise InputError(f"there is no {what} {name!r} in {policy.where.file}{did_you_mean(name, known)}")
    if asked.changed:
        changes = listed_changes(asked.changed, root, here=here)
    else:
        changes = origin.changes or diff(policy.main_branch)
    decision = decision_of(changes, policy=policy, root=root, environ=environ)
    if decision.kind is Kind.SKIP_ALL and is_scheduled(policy, environ):
        # a schedule tests a branch, whatever its last commit was
        decision = Decision(kind=Kind.NORMAL, because="a schedule started this build")
    return decision, (*origin.notices, *changes.notices)


def platform_of(file: str, policy: Policy) -> str:
    """Return the platform folder that the bootstrap *file* stands in. Raises InputError where it stands in none."""
    folders = PurePosixPath(file).parts[:-1]
    found = next((part for part in reversed(folders) if part in policy.platforms), None)
    if found is None:
        known = ", ".join(policy.platforms)
        raise InputError(
            f"{file}: none of its folders is a platform of {policy.where.file} ({known}); "
            "move it, or name the platform with --platform"
        )
    return found


def _only_adds_skips(root: Path, changes: ChangeSet, path: str) -> bool:
    """Whether the test file *path* got nothing but skip marks between the two commits; without those, it did not."""
    if changes.base is None or changes.head is None:
        return False
    repository = Repository(root)
    base, head = (repository.show(rev, path) for rev in (changes.base, changes.head))
    # marks in a conftest skip nothing
    return only_adds_skips(base, head, may_be_new=PurePosixPath(path).name != "conftest.py")
