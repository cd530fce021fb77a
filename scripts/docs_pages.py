"""Run the commands of a page of the docs in an empty folder, and hold what they print against what the page shows.

    python scripts/docs_pages.py docs/user_guide/plugin.md      exit 0, or 3 with what is not as the page says

A fenced block with title="FILE" is written to that file first. In a console block, what follows `$ ` is a command, and
each line below it must stand in its output, in that order; `…` stands for anything, and other lines may be between. A
command has to exit 0. One that does not is written with `; echo "exit $?"` behind it, so that its code is shown.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 300
_BLOCK = re.compile(
    r"^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
_INSTALL = re.compile(r"^pip install (?P<words>.+)$", re.MULTILINE)
_SHOWS_CODE = '; echo "exit $?"'
# what says how the outer session was started, or which devices it sees, is none of the reader's
_FOREIGN = ("PYTEST_", "COV_", "COVERAGE_", "OMNI_", "BUILDKITE", "CI", "BUILD_NUMBER")


@dataclass(frozen=True, slots=True)
class File:
    """A file that the page shows, and so the reader has."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and the lines that the page shows of its output."""

    text: str
    shown: tuple[str, ...] = ()


def main(arguments: Sequence[str]) -> int:
    """Run each page named and return 0, or 3 when one of them is not as it says."""
    found = [
        problem for name in arguments for problem in check(Path(name).read_text(encoding="utf-8"), os.environ)
    ]
    print("\n".join(found), end="\n" if found else "")
    return 3 if found else 0


def check(page: str, environ: Mapping[str, str]) -> list[str]:
    """Return what is not as *page* says; its programs are those of PATH in *environ*."""
    read = list(steps(page))
    if not any(isinstance(step, Command) for step in read):
        return ["the page holds no command: running it proves nothing"]
    with tempfile.TemporaryDirectory(prefix="omni-page-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "repository").mkdir()
        status = _run(script(read, folder), folder / "repository", environ)
        return list(_problems(read, folder, status))


def requirements(page: str) -> list[str]:
    """Return what the page tells its reader to install."""
    return [word for match in _INSTALL.finditer(page) for word in shlex.split(match["words"])]


def steps(page: str) -> Iterator[File | Command]:
    """Yield the page's files and commands, in order."""
    for block in _BLOCK.finditer(page):
        if block["title"]:
            yield File(block["title"], block["body"])
        elif block["language"] == "console":
            for part in re.split(r"^\$ ", block["body"], flags=re.MULTILINE)[1:]:
                command, *shown = part.splitlines()
                yield Command(command, tuple(line for line in shown if line.strip()))


def script(read: Iterable[File | Command], folder: Path) -> str:
    """Return one bash script of all steps; what it needs and what it prints lies in *folder*, by number."""
    lines = ["set -uo pipefail"]
    for number, step in enumerate(read):
        if isinstance(step, File):
            (folder / f"file-{number}").write_text(step.text, encoding="utf-8")
            lines.append(
                f'set -e; mkdir -p "$(dirname {step.path})" && cp {folder / f"file-{number}"} {step.path}'
            )
        else:
            stops = "+" if step.text.endswith(_SHOWS_CODE) else "-"
            lines.append(f"set {stops}e; {{\n{step.text}\n}} >{_output(folder, number)} 2>&1")
    return "\n".join(lines) + "\n"


def unseen(shown: Iterable[str], output: str) -> list[str]:
    """Return the first of the lines *shown* that does not stand in *output* after the one before it; [] if all do."""
    left = iter(output.splitlines())
    for line in shown:
        pattern = re.compile(".*".join(re.escape(part) for part in line.strip().split("…")))
        if line.strip() != "…" and not any(pattern.search(printed) for printed in left):
            return [line]
    return []


def _run(text: str, folder: Path, environ: Mapping[str, str]) -> int:
    kept = {name: value for name, value in environ.items() if not name.startswith(_FOREIGN)}
    # A file, not a pipe: a page may leave its server running, as a reader would, and a pipe would wait for it.
    with (folder.parent / "log").open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-c", text],
            cwd=folder,
            env={**kept, "COLUMNS": "120"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(timeout=TIMEOUT_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)


def _problems(read: Sequence[File | Command], folder: Path, status: int) -> Iterator[str]:
    last = None
    for number, step in enumerate(read):
        if isinstance(step, File) or not _output(folder, number).exists():
            continue
        output = _output(folder, number).read_text(encoding="utf-8", errors="replace")
        last = f"$ {step.text}\n{output}"
        if step.text.endswith(_SHOWS_CODE) and not (step.shown and step.shown[-1].startswith("exit ")):
            yield f"$ {step.text}\nthe page must show the exit code"
        for line in unseen(step.shown, output):
            yield f"{last}--- the page shows here: {line}"
    if status:
        yield f"{last or (folder / 'log').read_text(encoding='utf-8', errors='replace')}--- exit {status}"


def _output(folder: Path, number: int) -> Path:
    return folder / f"output-{number}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
