"""The pipeline, its reasons and the agent: everything is on disk before the agent is called."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from omni_ci.programs import Done, finish
from omni_hardware.errors import InfrastructureError, strip_controls

AGENT = "buildkite-agent"
FOLDER = ".omni-ci"
_SECONDS = 300
_SHOWN_LINES = 20
# Seconds before each further try of a call that failed.
_PAUSES: Sequence[float] = (2, 8)
# What the network or Buildkite's servers did. Whatever else ends an upload is its answer, and it stays.
_TRANSIENT = re.compile(
    r"timed? ?out|connection|network|\bEOF\b|\bTLS\b|no such host|unavailable|bad gateway|\b(?:429|50[0234])\b|"
    r"too many requests|internal server error",
    re.IGNORECASE,
)
# `meta-data exists` ends with this where there is no such key.
_NO_KEY = 100


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
        """Hand a saved pipeline to Buildkite, which refuses it when it holds a secret."""
        done = self._repeated(["pipeline", "upload", "--reject-secrets", str(path)], only=_TRANSIENT)
        if done.code != 0:
            raise InfrastructureError(
                f"{AGENT} pipeline upload ended with {done.code}; the pipeline is in {path}\n"
                f"{_tail(done.err or done.out)}"
            )

    def has_mark(self, key: str) -> bool:
        """Return whether the build's meta-data has *key*. Raises InfrastructureError where that cannot be known."""
        done = self._repeated(["meta-data", "exists", key], fine=(0, _NO_KEY))
        if done.code not in {0, _NO_KEY}:
            raise InfrastructureError(
                f"{AGENT} meta-data exists ended with {done.code}, so it is not known whether an earlier attempt of "
                f"this job has uploaded {self._saved.folder} already; retry the job\n{_tail(done.err, 1)}"
            )
        return done.code == 0

    def mark(self, key: str, value: str) -> str | None:
        """Put *key* into the build's meta-data; return why that failed, None when it did not."""
        return self._tried(
            "a retry of this job would upload once more: the build's meta-data was not taken",
            ["meta-data", "set", key, value],
        )

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
        return None if done.code == 0 else f"{failed}: {_tail(done.err, 1)}"

    def _repeated(
        self,
        arguments: Sequence[str],
        *,
        text: str | None = None,
        cwd: Path | None = None,
        fine: Sequence[int] = (0,),
        only: re.Pattern[str] | None = None,
    ) -> Done:
        """Return how the agent ended in the end; a failure is tried again, with *only*, where its words match."""
        done = self._run(arguments, text, cwd)
        for pause in _PAUSES:
            if done.code in fine or (only and not only.search(_tail(done.err or done.out))):
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
            raise InfrastructureError(
                f"{AGENT} {arguments[0]} gave no answer within {_SECONDS} s; {where}"
            ) from None
        except OSError as error:
            raise InfrastructureError(f"{program} cannot be run: {error.strerror}; {where}") from error


def _tail(said: bytes, lines: int = _SHOWN_LINES) -> str:
    return "\n".join(strip_controls(said.decode(errors="replace")).strip().splitlines()[-lines:])
