"""The lines at the top of a job's log: what runs, for which commit, with which caches, after how long a wait."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from omni_ci.runner.caches import Caches
from omni_ci.runner.platforms import EXPECTED
from omni_hardware.errors import strip_controls
from omni_hardware.redaction import redact

# What is said, and the variables it stands in, the first one that is set.
_FACTS = {
    "commit": ("BUILDKITE_COMMIT", "VLLM_CI_COMMIT"),
    "branch": ("BUILDKITE_BRANCH",),
    "build": ("BUILDKITE_BUILD_URL",),
    "step": ("BUILDKITE_LABEL", "BUILDKITE_STEP_KEY"),
    "job": ("BUILDKITE_JOB_ID",),
    "shard": ("BUILDKITE_PARALLEL_JOB",),
    "agent": ("BUILDKITE_AGENT_NAME",),
    "devices expected": (EXPECTED,),
    "models in": ("HF_HOME",),
}
_CREATED, _STARTED = "BUILDKITE_BUILD_CREATED_AT", "BUILDKITE_JOB_STARTED_AT"
_GIT_LIMIT_S = 5.0


def heading(
    environ: Mapping[str, str], caches: Caches, *, platform: str | None, count: int, source: str
) -> Iterator[str]:
    """Yield the lines, without secrets."""
    yield f"--- omni-ci exec: {count} item{'' if count == 1 else 's'} from {source}"
    facts = {name: _first(environ, names) for name, names in _FACTS.items()}
    facts["commit"] = facts["commit"] or _commit()
    facts["platform"] = platform or ""
    facts["waited"] = waited(environ)
    facts["caches"] = str(caches.root)
    for name, value in facts.items():
        if value:
            yield f"{name}: {strip_controls(redact(value))}"
    yield from (f"{name}: kept as the job set it, {environ[name]}" for name in caches.kept)


def waited(environ: Mapping[str, str], *, now: datetime | None = None) -> str:
    """Return how long the job waited between the build's creation and its own start; "" where that is not known.

    >>> waited({"BUILDKITE_BUILD_CREATED_AT": "2026-01-01T00:00:00Z", "BUILDKITE_JOB_STARTED_AT": "2026-01-01T00:02:05Z"})
    '125 s from the build to this job'
    """
    created = _time(environ.get(_CREATED, ""))
    if created is None:
        return ""
    started = _time(environ.get(_STARTED, "")) or now or datetime.now(UTC)
    return f"{max(0, round((started - created).total_seconds()))} s from the build to this job"


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((environ[name] for name in names if environ.get(name)), "")


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _commit() -> str:
    """Return the commit of the folder, "" where git is not installed or this is no checkout of ours."""
    git = shutil.which("git")
    if git is None:
        return ""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False, timeout=_GIT_LIMIT_S
        )
        return done.stdout.strip() if done.returncode == 0 else ""
    return ""
