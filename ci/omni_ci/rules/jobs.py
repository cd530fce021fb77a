"""A command step as the rules see it: as written, as rendered, and as the shell reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omni_ci.hardware.plugins import docker_configs, mappings, pods_of
from omni_ci.hardware.presets import Preset, SkuPreset
from omni_ci.interpolation import at_run_time
from omni_ci.rendering.jobs import job_count
from omni_ci.rules.rule import Found
from omni_ci.selection.watches import Watch
from omni_ci.shell.runs import PytestRun, Script, parse, pytest_runs
from omni_ci.yaml.document import Where
from omni_ci.yaml.model import Group, PipelineFile, Step, step_id

# Options with which pytest runs no test.
_LOOKS = frozenset(
    ["--omni-doctor", "--collect-only", "--co", "--version", "-V", "--help", "-h", "--markers", "--fixtures"]
)
# What makes the jobs of a parallel step differ, and those of two steps.
_OF_THE_JOB = re.compile(r"BUILDKITE_(?:PARALLEL_JOB|JOB_ID)\b|\{\{ *matrix")
_OF_THE_STEP = re.compile(r"BUILDKITE_(?:STEP_ID|STEP_KEY|LABEL)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A command step with its file, group and hardware.

    *platform* and *sku* are what its preset gives it, None where nothing says. *rendered* is what Buildkite would
    get; *problem* says why that cannot be made, and *rendered* then is the step as written.
    """

    pipeline: PipelineFile
    group: Group | None
    step: Step
    preset: Preset | None
    platform: str | None
    sku: str | None
    watch: Watch
    rendered: Mapping[str, Any]
    problem: str | None

    @property
    def id(self) -> str:
        """The step's name across files."""
        return step_id(self.pipeline.name, self.step.ident)

    @property
    def title(self) -> str:
        """How people know the step."""
        return repr(self.step.label or self.step.ident)

    @property
    def cards(self) -> int | None:
        """The devices it gets, None where nothing says."""
        return self.preset.cards if self.preset else None

    @property
    def hardware(self) -> str:
        """Its preset, for messages."""
        return self.preset.name if self.preset else "its machine"

    @property
    def runner(self) -> str | None:
        """The script that runs its commands one by one, None where the agent's shell runs them (`bash -e`)."""
        row = self.preset.row if self.preset else None
        return row.runner if isinstance(row, SkuPreset) else None

    @property
    def is_one_text(self) -> bool:
        """Whether its runner takes the commands as one text (TEST_COMMANDS) and not one by one."""
        row = self.preset.row if self.preset else None
        return isinstance(row, SkuPreset) and row.test_commands

    @property
    def text(self) -> str:
        """Its commands as the shell reads them, those of its preset first, without the dollars that upload takes."""
        row = self.preset.row if self.preset else None
        setup = row.setup if isinstance(row, SkuPreset) else ()
        return at_run_time("\n".join((*setup, *self.step.commands)))

    @property
    def script(self) -> Script:
        """Its commands, parsed."""
        return parse(self.text)

    @property
    def runs(self) -> tuple[PytestRun, ...]:
        """What it gives pytest to run; a call that only looks runs nothing."""
        return tuple(run for run in pytest_runs(self.text) if not _LOOKS.intersection(run.words))

    @property
    def measures_coverage(self) -> bool:
        """Whether it runs a model's tests with a report for each mode."""
        return any(run.measures_coverage for run in self.runs)

    @property
    def count(self) -> int:
        """How many jobs Buildkite makes of it."""
        return job_count(self.step.parallelism, self.step.matrix)

    @property
    def artifacts(self) -> tuple[str, ...]:
        """The paths and patterns that it declares as artifacts, or gives the agent to upload."""
        paths = self.rendered.get("artifact_paths") or ()
        listed = [str(path) for path in ([paths] if isinstance(paths, str) else paths)]
        uploaded = [one.words[3] for one in self.script.commands if _is_upload(one.words)]
        both = (part.strip() for text in (*listed, *uploaded) for part in at_run_time(text).split(";"))
        return tuple(dict.fromkeys(part.removeprefix("./") for part in both if part))

    @property
    def docker(self) -> tuple[Mapping[str, Any], ...]:
        """The configurations of the docker plugin."""
        return tuple(docker_configs(self.rendered.get("plugins")))

    @property
    def containers(self) -> Iterator[Mapping[str, Any]]:
        """The containers of its pods."""
        for pod in pods_of(self.rendered.get("plugins")):
            yield from mappings(pod.spec.get("containers"))

    def found(self, key: str, message: str, *, where: Where | None = None) -> Found:
        """Return a finding about this step; *where* is its place, if not where the step begins."""
        at = where or self.step.where
        line = at.line if where or at.file == self.pipeline.name else 1
        file = at.file if where else self.pipeline.name
        return Found(file=file, line=line, subject=self.id, key=key, message=f"step {self.title}: {message}")


def differs_by_job(path: str) -> bool:
    """Return whether the jobs of a parallel step write *path* each under another name."""
    return bool(_OF_THE_JOB.search(path))


def differs_by_step(path: str) -> bool:
    """Return whether two steps write *path* each under another name."""
    return bool(_OF_THE_STEP.search(path)) or differs_by_job(path)


def _is_upload(words: tuple[str, ...]) -> bool:
    return len(words) > 3 and words[0].endswith("buildkite-agent") and words[1:3] == ("artifact", "upload")
