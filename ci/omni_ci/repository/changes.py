"""What changed, between which commits, and why those; or why that cannot be known."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from omni_ci.repository.forks import is_pull_request
from omni_ci.repository.git import GitError, Repository
from omni_ci.repository.watching import NO_LINKS, Links, PathIndex
from omni_hardware.errors import InputError, did_you_mean

_NOWHERE = "there is no such path here or in the last commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """The changed paths, from the repository's root with `/`, sorted; both paths of a renamed file.

    Unknown changes carry the reason and no files: everything runs then. *basis* says how the base was chosen.
    A set without *base* was listed by hand; *absent* are those of its paths that are neither here nor in the last commit.
    """

    known: bool
    files: tuple[str, ...] = ()
    base: str | None = None
    head: str | None = None
    reason: str | None = None
    basis: str = ""
    notices: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.known == bool(self.reason):
            raise ValueError("unknown changes need a reason, known ones have none")
        if not self.known and self.files:
            raise ValueError("unknown changes list no files")

    @classmethod
    def of(cls, files: Iterable[str], *, basis: str = "listed with --changed") -> ChangeSet:
        """Return a set listed by hand, with no base to compare with."""
        return cls(known=True, files=tuple(sorted(set(files))), basis=basis)

    @classmethod
    def unknown(cls, reason: str, *, base: str | None = None, head: str | None = None) -> ChangeSet:
        """Return the set that makes everything run, and why."""
        return cls(known=False, reason=reason, base=base, head=head)

    @property
    def is_listed(self) -> bool:
        """Whether the paths were listed by hand."""
        return self.known and self.base is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What Buildkite says about this build; all empty on a developer's machine."""

    commit: str | None = None
    branch: str | None = None
    is_pull_request: bool = False
    base_branch: str | None = None

    @classmethod
    def of(cls, environ: Mapping[str, str] | None = None) -> Build:
        """Return the build *environ* (default: this process's) describes."""
        values = os.environ if environ is None else environ
        return cls(
            commit=values.get("BUILDKITE_COMMIT") or None,
            branch=values.get("BUILDKITE_BRANCH") or None,
            is_pull_request=is_pull_request(values),
            base_branch=values.get("BUILDKITE_PULL_REQUEST_BASE_BRANCH") or None,
        )


def changed_files(
    start: Path,
    *,
    base: str | None = None,
    head: str | None = None,
    build: Build | None = None,
    main_branch: str = "main",
) -> ChangeSet:
    """Return what changed up to *head* in the repository around *start*; never raises, an unknown set says why.

    With *base*: since its merge base with *head*. In a pull request's build: since the merge base with the
    freshly fetched base branch. In a build of *main_branch*: since the first parent. Elsewhere: since the merge
    base with *main_branch*, or the first parent when the head is that branch itself.
    """
    build = build or Build()
    wanted = head if head is not None else build.commit or "HEAD"
    try:
        repository = Repository.around(start)
        head_commit = repository.commit(wanted)
        if head_commit is None:
            return ChangeSet.unknown(_no_such(repository, wanted), base=base, head=head)
        found = _find_base(repository, head_commit, base, build, main_branch)
        if found.commit is None:
            return ChangeSet.unknown(found.why, head=head_commit)
        files = repository.changed(found.commit, head_commit)
        is_local = base is None and head is None and build.commit is None
        notices = (*found.notices, *_uncommitted(repository, is_local=is_local))
    except GitError as error:
        return ChangeSet.unknown(str(error), base=base, head=head)
    return ChangeSet(
        known=True,
        files=tuple(sorted(set(files))),
        base=found.commit,
        head=head_commit,
        basis=found.why,
        notices=notices,
    )


def listed_changes(paths: Iterable[str], root: Path, *, here: Path | None = None) -> ChangeSet:
    """Return the paths a user listed, read from folder *here*; a folder stands for the files in it.

    A path that is neither here nor in the last commit is kept, with a notice. Raises InputError for an empty path
    and for one outside *root*.
    """
    start = (here or root).resolve()
    top = root.resolve()
    files: list[str] = []
    absent: list[str] = []
    for path in paths:
        if not path:
            raise InputError("--changed '' is empty; name a file or a folder")
        full = Path(os.path.normpath(start / path))
        if not full.is_relative_to(top):
            raise InputError(f"--changed {path!r} is outside the repository {top}")
        full = _unlinked(full, top)
        if os.path.isdir(full) and not os.path.islink(full):  # noqa: PTH112, PTH114 - Path's raise for a long name
            files += [_name(file, top) for file in _files_in(full)]
            continue
        files.append(_name(full, top))
        if not os.path.lexists(full):
            absent.append(files[-1])
    nowhere = tuple(_nowhere(absent, top))
    notices = (f"--changed {path}: {_NOWHERE}" for path in nowhere)
    return replace(ChangeSet.of(files), notices=tuple(notices), absent=nowhere)


def tree_links(start: Path) -> Links:
    """Return the links and submodules of the working tree around *start*; none where git cannot say."""
    try:
        repository = Repository.around(start)
        links, submodules = repository.links_here()
    except GitError:
        return NO_LINKS
    top = repository.root.resolve()
    leads = {link: Path(os.path.realpath(top / link)) for link in links}
    inside = {link: to.relative_to(top).as_posix() for link, to in leads.items() if top in to.parents}
    return Links(targets=inside, submodules=frozenset(submodules))


def tree_files(start: Path, rev: str | None = None) -> frozenset[str] | None:
    """Return every path at *rev* (default: in the working tree), or None where git cannot say."""
    try:
        repository = Repository.around(start)
        return repository.files_here() if rev is None else repository.files_at(rev)
    except GitError:
        return None


@dataclass(frozen=True, slots=True)
class _Base:
    """The chosen commit and why it; without a commit, why there is none."""

    commit: str | None
    why: str
    notices: tuple[str, ...] = ()


def _unlinked(full: Path, top: Path) -> Path:
    """Return *full* as git knows it, not through a linked folder; as it is where that leads out of the repository."""
    real = Path(os.path.realpath(full.parent)) / full.name
    return real if real.is_relative_to(top) else full


def _files_in(folder: Path) -> Iterator[Path]:
    """Yield the files of *folder*, links as they are: one that leads nowhere is a path of the repository too."""
    for file in sorted(folder.rglob("*")):
        if ".git" not in file.parts and (file.is_symlink() or not file.is_dir()):
            yield file


def _name(full: Path, top: Path) -> str:
    """Return the path as git's listings have it, bytes that are no text escaped."""
    return os.fsencode(full.relative_to(top).as_posix()).decode(errors="backslashreplace")


def _nowhere(absent: Sequence[str], top: Path) -> Iterator[str]:
    """Return the paths that the last commit does not have either."""
    known = PathIndex((tree_files(top, "HEAD") or ()) if absent else ())
    return (path for path in absent if not known.holds(path))


def _find_base(repository: Repository, head: str, base: str | None, build: Build, main_branch: str) -> _Base:
    if base is not None:
        return _since_merge_base(repository, base, head)
    if build.is_pull_request:
        return _pull_request(repository, build.base_branch or main_branch, head)
    if build.branch == main_branch:
        return _since_parent(repository, head, f"a build of {main_branch}")
    for ref in (f"origin/{main_branch}", main_branch):
        if repository.commit(ref) is not None:
            found = _since_merge_base(repository, ref, head)
            if found.commit == head:
                return _since_parent(repository, head, f"the head is part of {ref}")
            return found
    return _since_parent(repository, head, f"there is no branch {main_branch}")


def _pull_request(repository: Repository, branch: str, head: str) -> _Base:
    # A stale origin/<base> would add other people's changes to this pull request's.
    failed = repository.refresh(branch)
    found = _since_merge_base(repository, f"origin/{branch}", head)
    if failed is None:
        return found
    if found.commit is None:
        return _Base(None, f"{found.why} (fetching {branch} failed: {failed})")
    notice = f"origin/{branch} could not be refreshed ({failed}); the diff may hold changes of others"
    return _Base(found.commit, found.why, (notice,))


def _since_merge_base(repository: Repository, ref: str, head: str) -> _Base:
    commit = repository.commit(ref)
    if commit is None:
        return _Base(None, _no_such(repository, ref))
    ancestor = repository.merge_base(commit, head)
    if ancestor is not None:
        return _Base(ancestor, f"since the merge base with {ref}")
    if repository.is_shallow():
        return _Base(None, f"this clone is shallow and holds no merge base with {ref}; fetch more history")
    return _Base(None, f"{ref} and {head[:12]} have no common ancestor")


def _since_parent(repository: Repository, head: str, because: str) -> _Base:
    parent = repository.parent(head)
    if parent is not None:
        return _Base(parent, f"since the first parent ({because})")
    if repository.is_shallow():
        return _Base(None, f"the parent of {head[:12]} is not in this shallow clone; fetch with --depth=2")
    return _Base(None, f"{head[:12]} is the first commit and has no parent")


def _no_such(repository: Repository, ref: str) -> str:
    if ref == "HEAD":
        return "the repository has no commit yet"
    known = repository.branches()
    return f"{ref!r} is not a commit in this clone{did_you_mean(ref, known) if known else ''}"


def _uncommitted(repository: Repository, *, is_local: bool) -> tuple[str, ...]:
    count = repository.uncommitted() if is_local else 0
    if not count:
        return ()
    return (f"{count} uncommitted {'path is' if count == 1 else 'paths are'} not part of this diff",)
