"""The pipeline, its reasons and the agent: everything is on disk before the agent is called."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from omni_ci.repository.programs import Done, finish
from omni_hardware.errors import InfrastructureError, strip_controls

AGENT = "buildkite-agent"
FOLDER = ".omni-ci"
_SECONDS = 300
_SHOWN_LINES = 20
# Seconds before each further try of a call that failed.
_PAUSES: Sequence[float] = (2, 8)
# Lines of an agent whose request never reached Buildkite, or was sent back before anything was made of it.
_UNSENT = re.compile(
    r"\bdial (?:tcp|udp)\b|connection refused|no such host|no route to host|network is unreachable|"
    r"TLS handshake|\b(?:429|503)\b|too many requests|service unavailable",
    re.IGNORECASE,
)
# Lines of one that lost the answer: Buildkite may hold the steps all the same.
_LOST = re.compile(
    r"timed? ?out|deadline exceeded|\bEOF\b|connection|broken pipe|stream error|\b(?:408|50[0-9])\b|"
    r"bad gateway|internal server error",
    re.IGNORECASE,
)
# What a shell makes of the signal that ended a program.
_SIGNALLED = 128
# What `meta-data get` is told to say where there is no such key.
_NO_MARK = "none"


class NoAnswerError(InfrastructureError):
    """The agent was called and its answer is not known: what was asked may be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """Where the artefacts of one upload lie; *pipelines* are its parts in order, none where nothing runs."""

    folder: Path
    pipelines: tuple[Path, ...]
    selection: Path


def save(root: Path, name: str, *, parts: Sequence[str], selection: str) -> Saved:
    """Return where the texts were written: `.omni-ci/<name>/` under *root*, which git ignores by itself.

    Raises InfrastructureError when the folder cannot be written.
    """
    folder = root / FOLDER / name
    names = ["pipeline.yml"] if len(parts) == 1 else [f"pipeline-{at + 1}.yml" for at in range(len(parts))]
    saved = Saved(
        folder=folder,
        pipelines=tuple(folder / one for one in names),
        selection=folder / "selection.json",
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (root / FOLDER / ".gitignore").write_text("*\n", encoding="utf-8")
        for old in folder.glob("pipeline*.yml"):
            old.unlink()
        for path, text in zip(saved.pipelines, parts, strict=True):
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
        saved.selection.write_text(selection, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise InfrastructureError(f"{folder}: cannot write the pipeline: {error.strerror}") from error
    return saved


class Agent:
    """The buildkite-agent on this machine. Raises InfrastructureError naming what is already on disk."""

    def __init__(self, saved: Saved, environ: Mapping[str, str]) -> None:
        self._saved = saved
        self._environ = environ

    def upload(self, path: Path) -> None:
        """Hand a saved pipeline to Buildkite, which refuses it when it holds a secret.

        Tried again only where Buildkite has none of it, since a further call is a further upload. Raises
        NoAnswerError where it may have been taken, and InfrastructureError where it was not.
        """
        done = self._repeated(["pipeline", "upload", "--reject-secrets", str(path)], if_=_is_unsent)
        if done.code == 0:
            return
        ended = f"{AGENT} pipeline upload {_ended(done)}"
        said = _tail(done.err or done.out)
        if not _may_be_taken(done):
            raise InfrastructureError(f"{ended}; the pipeline is in {path}\n{said}")
        raise NoAnswerError(
            f"{ended}, and Buildkite may have taken it all the same, so it is not tried again; look at the build. "
            f"The pipeline is in {path}\n{said}"
        )

    def mark_of(self, key: str) -> str | None:
        """Return what *key* is in the build's meta-data. Raises InfrastructureError where that cannot be known."""
        done = self._repeated(["meta-data", "get", key, "--default", _NO_MARK])
        if done.code != 0:
            raise InfrastructureError(
                f"{AGENT} meta-data get ended with {done.code}, so it is not known whether an earlier attempt of "
                f"this job has uploaded {self._saved.folder} already; retry the job\n{_tail(done.err, 1)}"
            )
        value = done.out.decode(errors="replace").strip()
        return None if value == _NO_MARK else value

    def mark(self, key: str, value: str) -> str | None:
        """Put *key* into the build's meta-data; return why that failed, None when it did not."""
        return self._tried("the build's meta-data was not taken", ["meta-data", "set", key, value])

    def annotate(self, text: str, *, context: str) -> str | None:
        """Show *text* (Markdown) on the build; return why that failed, None when it did not."""
        return self._tried(
            "the annotation was not taken", ["annotate", "--context", context, "--style", "info"], text
        )

    def keep(self, path: Path, folder: Path) -> str | None:
        """Upload *path* as an artifact named from *folder*; return why that failed, None when it did not."""
        arguments = ["artifact", "upload", path.relative_to(folder).as_posix()]
        return self._tried(f"{path.name} was not kept as an artifact", arguments, cwd=folder)

    def _tried(
        self, failed: str, arguments: Sequence[str], text: str | None = None, cwd: Path | None = None
    ) -> str | None:
        """Return None, or what *failed* and why: no reason to fail a build whose steps are on their way."""
        try:
            done = self._repeated(arguments, text=text, cwd=cwd)
        except InfrastructureError as error:
            return f"{failed}: {str(error).splitlines()[0]}"
        return (
            None
            if done.code == 0
            else f"{failed}: {_tail(done.err, 1) or f'{AGENT} {_ended(done)} without a word'}"
        )

    def _repeated(
        self,
        arguments: Sequence[str],
        *,
        text: str | None = None,
        cwd: Path | None = None,
        if_: Callable[[Done], bool] = lambda _: True,
    ) -> Done:
        """Return how the agent ended in the end; a failure is tried again, with *if_*, where that says so."""
        done = self._run(arguments, text, cwd)
        for pause in _PAUSES:
            if done.code == 0 or not if_(done):
                break
            time.sleep(pause)
            done = self._run(arguments, text, cwd)
        return done

    def _run(self, arguments: Sequence[str], text: str | None = None, cwd: Path | None = None) -> Done:
        where = f"pipeline and reasons are in {self._saved.folder}"
        program = shutil.which(AGENT, path=self._environ.get("PATH"))
        if program is None:
            raise InfrastructureError(
                f"{AGENT} is not on PATH, so nothing was uploaded; {where}\n"
                "Run this inside a Buildkite job, or use `omni-ci generate` to see the pipeline."
            )
        try:
            return finish(
                [program, *arguments], seconds=_SECONDS, environ=self._environ, cwd=cwd, text=text or ""
            )
        except subprocess.TimeoutExpired:
            raise NoAnswerError(
                f"{AGENT} {arguments[0]} gave no answer within {_SECONDS} s; {where}"
            ) from None
        except OSError as error:
            raise InfrastructureError(f"{program} cannot be run: {error.strerror}; {where}") from error


def _is_unsent(done: Done) -> bool:
    """Return whether no try of the agent's own came through: one lost answer among them is enough to doubt it."""
    return not _may_be_taken(done) and bool(_UNSENT.search(_tail(done.err or done.out, 1)))


def _may_be_taken(done: Done) -> bool:
    lines = _lines(done.err) or _lines(done.out)
    is_killed = done.code < 0 or done.code > _SIGNALLED
    return is_killed or not lines or any(_LOST.search(line) and not _UNSENT.search(line) for line in lines)


def _ended(done: Done) -> str:
    return f"was ended by signal {-done.code}" if done.code < 0 else f"ended with {done.code}"


def _lines(said: bytes) -> list[str]:
    return strip_controls(said.decode(errors="replace")).strip().splitlines()


def _tail(said: bytes, lines: int = _SHOWN_LINES) -> str:
    return "\n".join(_lines(said)[-lines:])
