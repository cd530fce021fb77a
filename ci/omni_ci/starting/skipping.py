"""What a change may leave out before anything is planned: everything, some levels of some platforms, or nothing.

A diff of nothing but documentation and skip marks runs nothing. One of pipeline files runs the levels those files
are of, on their platforms. Everything else is normal: each step is then judged by what it watches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from omni_ci.policy import Policy
from omni_ci.repository.patterns import matches
from omni_ci.repository.watching import NO_LINKS, Links

Pair = tuple[str, str]
_FOLDER = ".buildkite/"
_PROSE = (".md", ".rst", ".txt")


class Kind(StrEnum):
    NORMAL = "normal"
    SKIP_ALL = "skip_all"
    GATED = "gated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a change runs, and why.

    A gated one runs the (platform folder, level) pairs of *run*, and of the levels in *levels* no others; levels
    beyond those are started by schedules and labels, whatever the diff. *run* and *levels* are empty otherwise.
    """

    kind: Kind
    because: str
    run: frozenset[Pair] = frozenset()
    levels: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.because.strip():
            raise ValueError("a decision needs a reason")

    def is_run(self, platform: str, level: str) -> bool:
        """Return whether *level* runs on *platform*, a folder of the policy's."""
        if self.kind is Kind.SKIP_ALL:
            return False
        return self.kind is Kind.NORMAL or level not in self.levels or (platform, level) in self.run


def decide(
    files: Sequence[str] | None,
    *,
    skip_only: Callable[[str], bool],
    policy: Policy,
    unknown: str | None = None,
    links: Links = NO_LINKS,
) -> Decision:
    """Return what the changed *files* run; None: they are not known, *unknown* says why. Pure but for *skip_only*.

    A file is whatever it is under any of its names, as in the selection: *links* says which further ones there are.

    *skip_only* says of a test file whether only skip marks were added to it; it is asked when nothing else has
    settled the matter.
    """
    if files is None:
        why = f" ({unknown})" if unknown else ""
        return Decision(kind=Kind.NORMAL, because=f"could not resolve changed files{why}; run normal CI")
    if not files:
        return Decision(kind=Kind.NORMAL, because="no file changed; run normal CI")
    places, own = policy.places(), frozenset(files)
    names = tuple(dict.fromkeys(links.names(files)))
    pipelines = [name for name in names if name in places]
    rest = [
        name
        for name in names
        if name not in places and (_steers(name, policy) or not matches(name, policy.docs))
    ]
    other = [name for name in rest if _steers(name, policy) or not matches(name, policy.skip_marks)]
    # a test file costs two calls of git, so the first one that does not qualify is enough
    tests = dict.fromkeys(name if name in own else links.real(name) for name in rest)
    other = other or list(islice((file for file in tests if not skip_only(file)), 1))
    if other:
        more = f" and {len(other) - 1} more" if len(other) > 1 else ""
        because = f"product or non-whitelisted changes present: {other[0]}{more}"
        return Decision(kind=Kind.NORMAL, because=because)
    if not pipelines:
        because = "CI skipped — docs or pytest skip-mark changes only"
        return Decision(kind=Kind.SKIP_ALL, because=because)
    return _gated(pipelines, policy, is_alone=len(pipelines) == len(names))


def _steers(file: str, policy: Policy) -> bool:
    """Return whether *file* says what runs, so that no pattern can call it documentation or a test."""
    return file == policy.where.file or (file.startswith(_FOLDER) and not file.endswith(_PROSE))


def _gated(pipelines: Iterable[str], policy: Policy, *, is_alone: bool) -> Decision:
    """Return the decision of a diff of *pipelines*, alone or beside documentation and skip marks."""
    places = policy.places()
    levels = tuple(dict.fromkeys(tier.level for tier in policy.tiers.values() if tier.on))
    changed: dict[str, list[str]] = {}
    run: dict[Pair, None] = {}
    for file in pipelines:
        platform, tier = places[file]
        level = policy.tiers[tier].level
        changed.setdefault(level, []).append(file)
        if level in levels:
            run[platform, level] = None
    said = ", ".join(f"{level.upper()}=[{', '.join(found)}]" for level, found in sorted(changed.items()))
    runs = ", ".join(f"{platform}/{level}" for platform, level in run) or "nothing"
    what = "only CI config YAML changed" if is_alone else "mixed doc/skip-mark and CI config YAML"
    return Decision(
        kind=Kind.GATED,
        because=f"{what} — changed: {said}; run: {runs}; skip: every other {' and '.join(levels)}",
        run=frozenset(run),
        levels=frozenset(levels),
    )
