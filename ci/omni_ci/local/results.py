"""What came of each job, and of all of them together. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omni_ci.local.jobs import LocalJob
from omni_ci.runner.outcome import Outcome, aggregate


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One shard of a job. outcome: None where it was not run, with the reason in *because*. log: its file's name."""

    job: LocalJob
    shard: int = 0
    outcome: Outcome | None = None
    because: str = ""
    seconds: float = 0.0
    log: str = ""

    @property
    def title(self) -> str:
        """Return the step's name, with the shard's number where it has several."""
        return f"{self.job.id} [{self.shard + 1}/{self.job.shards}]" if self.job.shards > 1 else self.job.id

    @property
    def status(self) -> int | None:
        return None if self.outcome is None else self.outcome.status

    @property
    def is_soft(self) -> bool:
        """Return whether it failed in a way that its step forgives."""
        return self.status is not None and self.job.is_soft(self.status)

    @property
    def has_failed(self) -> bool:
        """Return whether it failed for those that wait for it."""
        return self.status not in {None, 0} and not self.is_soft

    @property
    def word(self) -> str:
        """Return "passed", "failed 3", "failed 3 (soft)", "not run"."""
        if self.status is None:
            return "not run"
        if self.status == 0:
            return "passed"
        return f"failed {self.status}{' (soft)' if self.is_soft else ''}"


def code_of(results: Sequence[Result]) -> int:
    """Return the exit code of a run: the first failure in the order of the files that is neither 5 nor soft, else 5."""
    return aggregate(None if result.is_soft else result.status for result in results)
