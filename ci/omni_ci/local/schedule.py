"""Runs jobs side by side: each when what it waits for is done and its devices are free."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from omni_ci.errors import GuardError
from omni_ci.local.jobs import LocalJob
from omni_ci.local.machine import Machine
from omni_ci.local.results import Result
from omni_ci.runner.caches import caches_of, make
from omni_ci.runner.outcome import Outcome
from omni_ci.runner.platforms import ALLOW_NO_TESTS, DEFAULTS
from omni_ci.runner.running import run_items
from omni_ci.runner.stopping import Stop

_LOOK_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Where jobs run and write: the repository, the folder of logs, and one for their caches."""

    root: Path
    logs: Path
    caches: Path


@dataclass(slots=True, kw_only=True)
class Schedule:
    """The shards of all jobs and what became of them. *watch* hears of every change, and regularly."""

    jobs: Sequence[LocalJob]
    machine: Machine
    folders: Folders
    stop: Stop
    watch: Callable[[Schedule, Sequence[Result]], None]
    results: dict[tuple[str, int], Result] = field(default_factory=dict)
    running: dict[tuple[str, int], float] = field(default_factory=dict)

    def run(self, *, side_by_side: int) -> list[Result]:
        """Return the result of every shard in the order of the jobs."""
        pending: dict[Future[Result], tuple[int, ...]] = {}
        with ThreadPoolExecutor(max_workers=side_by_side) as pool:
            while True:
                new = self._settled()
                for job, shard in self._ready():
                    if len(pending) >= side_by_side or (devices := self.machine.take(job.need)) is None:
                        continue
                    self.running[job.id, shard] = time.monotonic()
                    pending[pool.submit(self._one, job, shard, devices)] = devices
                self.watch(self, new)
                if not pending:
                    break
                done, _ = wait(pending, timeout=_LOOK_S, return_when=FIRST_COMPLETED)
                self.watch(self, [self._take(future, pending.pop(future)) for future in done])
        return [self.results[key] for key in self._keys()]

    def _take(self, future: Future[Result], devices: tuple[int, ...]) -> Result:
        result = future.result()
        self.machine.give_back(devices)
        del self.running[result.job.id, result.shard]
        self.results[result.job.id, result.shard] = result
        return result

    def _settled(self) -> list[Result]:
        """Settle what will never run: a job that does not fit, whose dependency failed, or after a stop."""
        found: list[Result] = []
        while new := [
            Result(job=job, shard=shard, because=because)
            for job, shard in self._open()
            if (because := self._why_never(job))
        ]:
            self.results |= {(result.job.id, result.shard): result for result in new}
            found += new
        return found

    def _why_never(self, job: LocalJob) -> str:
        if job.unfit:
            return job.unfit
        if self.stop.number is not None:
            return f"the run was ended by {self.stop.name}"
        for other, is_tolerated in job.waits.items():
            bad = next((one for one in self._of(other) if one.has_failed or one.status is None), None)
            if bad is not None and not is_tolerated:
                how = "was not run" if bad.status is None else f"failed with {bad.status}"
                return f"it waits for {other}, which {how}"
        return ""

    def _ready(self) -> Iterator[tuple[LocalJob, int]]:
        if self.stop.number is not None:
            return
        by_id = {job.id: job for job in self.jobs}
        for job, shard in self._open():
            if all(len(self._of(other)) == by_id[other].shards for other in job.waits if other in by_id):
                yield job, shard

    def _open(self) -> Iterator[tuple[LocalJob, int]]:
        for job in self.jobs:
            for shard in range(job.shards):
                if (job.id, shard) not in self.results and (job.id, shard) not in self.running:
                    yield job, shard

    def _of(self, name: str) -> list[Result]:
        return [result for (one, _), result in self.results.items() if one == name]

    def _keys(self) -> Iterator[tuple[str, int]]:
        yield from ((job.id, shard) for job in self.jobs for shard in range(job.shards))

    def _one(self, job: LocalJob, shard: int, devices: tuple[int, ...]) -> Result:
        log = log_name(job, shard)
        began = time.monotonic()
        environ = {
            **DEFAULTS,
            **self.machine.environment(devices),
            **job.environ,
            **shard_environ(job, shard),
        }
        caches = caches_of({**environ, "BUILDKITE_JOB_ID": Path(log).stem}, base=self.folders.caches)
        try:
            make(caches)
            outcome = run_items(
                job.commands,
                cwd=self.folders.root,
                environ={**environ, **caches.variables},
                timeout_s=job.timeout_s,
                log=self.folders.logs / log,
                stop=self.stop,
            )
        except GuardError as error:
            return Result(
                job=job,
                shard=shard,
                because=str(error),
                outcome=Outcome(items=(), status=GuardError.exit_code),
            )
        if environ.get(ALLOW_NO_TESTS) == "1":
            outcome = outcome.allowing_no_tests()
        return Result(job=job, shard=shard, outcome=outcome, seconds=time.monotonic() - began, log=log)


def log_name(job: LocalJob, shard: int) -> str:
    """Return the name of a shard's log file."""
    return f"{job.name}-{shard}.log" if job.shards > 1 else f"{job.name}.log"


def shard_environ(job: LocalJob, shard: int) -> Mapping[str, str]:
    """Return what tells a shard its number, as Buildkite does."""
    if job.shards == 1:
        return {}
    return {"BUILDKITE_PARALLEL_JOB": str(shard), "BUILDKITE_PARALLEL_JOB_COUNT": str(job.shards)}
