"""Brings what the commands wrote to where the agent looks for artifacts, and says which patterns find nothing.

The agent looks in the checkout; commands that went elsewhere wrote there, and an upload that matches nothing succeeds
(buildkite/agent#619).
"""

from __future__ import annotations

import glob
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from omni_ci.runner.given import parse_items

PATTERNS = "OMNI_ARTIFACT_PATHS"
CHECKOUT = "BUILDKITE_BUILD_CHECKOUT_PATH"
_SEPARATOR = ";"  # as the agent separates patterns in one text


@dataclass(slots=True)
class Collected:
    """What was copied (from, to), what a person should know, and what failed."""

    copied: list[tuple[Path, Path]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def patterns_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the step's artifact patterns. Raises GuardError where the variable is no JSON array of strings."""
    text = environ.get(PATTERNS, "")
    listed = parse_items(text, name=PATTERNS) if text else ()
    return tuple(one.strip() for item in listed for one in item.split(_SEPARATOR) if one.strip())


def collect(patterns: Sequence[str], *, checkout: Path, folders: Iterable[str]) -> Collected:
    """Copy what *patterns* find in *folders* to the same place below *checkout*; nothing there that is newer is lost.

    Never raises for what the file system refuses: a test's status must not depend on it (buildkite/agent#1099).
    """
    done = Collected()
    elsewhere = [folder for folder in map(Path, folders) if not _is_same(folder, checkout)]
    for pattern in patterns:
        if Path(pattern).is_absolute():
            if not _found(pattern, Path("/")):
                done.notes.append(_nothing(pattern, [Path("/")]))
            continue
        if ".." in Path(pattern).parts:
            done.notes.append(
                f"artifact_paths: {pattern!r} leads out of the checkout; it is left to the agent"
            )
            continue
        for folder in elsewhere:
            for name in _found(pattern, folder):
                _copy(folder / name, checkout / name, done)
        if not _found(pattern, checkout) and not done.problems:
            done.notes.append(_nothing(pattern, [checkout, *elsewhere]))
    return done


def _copy(source: Path, target: Path, done: Collected) -> None:
    try:
        if target.exists() and (
            target.samefile(source) or target.stat().st_mtime_ns >= source.stat().st_mtime_ns
        ):
            if not target.samefile(source):
                done.notes.append(f"{source} was not copied: {target} is newer")
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
    except OSError as error:
        done.problems.append(f"{source} could not be copied to {target}: {error.strerror}")
        return
    done.copied.append((source, target))


def _found(pattern: str, folder: Path) -> list[str]:
    """Return the files that *pattern* finds in *folder*, named from there; as for the agent, `**` is any depth."""
    names = glob.iglob(pattern, root_dir=folder, recursive=True)  # noqa: PTH207 - pathlib would find hidden files
    return [name for name in names if (folder / name).is_file()]


def _nothing(pattern: str, folders: Sequence[Path]) -> str:
    where = " nor in ".join(map(str, folders))
    return f"artifact_paths: {pattern!r} matches no file in {where}, so that nothing will be uploaded for it"


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return True  # a folder that is gone holds nothing


def described(done: Collected, *, at_most: int = 20) -> Iterator[str]:
    """Yield a line for each file copied, each note and each problem."""
    for source, target in done.copied[:at_most]:
        yield f"artifact: {source} copied to {target}"
    if more := len(done.copied[at_most:]):
        yield f"artifact: … and {more} more"
    yield from (f"note: {note}" for note in done.notes)
    yield from (f"problem: {problem}" for problem in done.problems)
