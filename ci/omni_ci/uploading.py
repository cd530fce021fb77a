"""The pipeline, its reasons and the agent: everything is on disk before the agent is called."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from omni_ci.programs import Done, finish
from omni_hardware.errors import InfrastructureError, strip_controls

AGENT = "buildkite-agent"
FOLDER = ".omni-ci"
_SECONDS = 300
_SHOWN_LINES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """Where the artefacts of one upload lie."""

    pipeline: Path
    selection: Path


def save(root: Path, name: str, *, pipeline: str | None, selection: str) -> Saved:
    """Return where the texts were written (a *pipeline* of None: nothing to upload): `.omni-ci/<name>/` under *root*, which git ignores by itself.

    Raises InfrastructureError when the folder cannot be written.
    """
    folder = root / FOLDER / name
    saved = Saved(pipeline=folder / "pipeline.yml", selection=folder / "selection.json")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (root / FOLDER / ".gitignore").write_text("*\n", encoding="utf-8")
        saved.pipeline.unlink(missing_ok=True)
        if pipeline is not None:
            saved.pipeline.write_text(pipeline, encoding="utf-8", errors="backslashreplace")
        saved.selection.write_text(selection, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise InfrastructureError(f"{folder}: cannot write the pipeline: {error.strerror}") from error
    return saved


class Agent:
    """The buildkite-agent on this machine. Raises InfrastructureError naming what is already on disk."""

    def __init__(self, saved: Saved, environ: Mapping[str, str]) -> None:
        self._saved = saved
        self._environ = environ

    def upload(self) -> None:
        """Hand the saved pipeline to Buildkite, which refuses it when it holds a secret."""
        done = self._run(["pipeline", "upload", "--reject-secrets", str(self._saved.pipeline)])
        if done.code != 0:
            raise InfrastructureError(
                f"{AGENT} pipeline upload ended with {done.code}; the pipeline is in {self._saved.pipeline}\n"
                f"{_tail(done.err or done.out)}"
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
            done = self._run(arguments, text, cwd)
        except InfrastructureError as error:
            return f"{failed}: {str(error).splitlines()[0]}"
        return None if done.code == 0 else f"{failed}: {_tail(done.err, 1)}"

    def _run(self, arguments: Sequence[str], text: str | None = None, cwd: Path | None = None) -> Done:
        where = f"the pipeline is in {self._saved.pipeline}, the reasons are in {self._saved.selection}"
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
