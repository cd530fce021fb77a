"""Which shard of how many this session is asked to run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from omni_hardware.errors import InputError
from pytest_omni.options import Settings, settings_of
from pytest_omni.session import is_worker

JOB, COUNT = "BUILDKITE_PARALLEL_JOB", "BUILDKITE_PARALLEL_JOB_COUNT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The division that was asked for: this run is *shard* of *shards*, counted from 0."""

    shard: int
    shards: int
    by: str
    plan_only: bool = False
    durations: Path | None = None

    @property
    def divides(self) -> bool:
        """Return whether the selection has to be divided at all."""
        return self.shards > 1 or self.plan_only

    def __str__(self) -> str:
        """Return "shard 0 of 4"."""
        return f"shard {self.shard} of {self.shards} (counted from 0) by {self.by}"


_ASKED = pytest.StashKey[Asked]()
_LINES = pytest.StashKey[list[str]]()


def asked_of(config: pytest.Config) -> Asked:
    """Return what this session was asked for; pytest.UsageError for numbers that cannot be."""
    if _ASKED not in config.stash:
        option = config.option
        flags = (getattr(option, "shard_id", 0), getattr(option, "num_shards", 1))
        try:
            config.stash[_ASKED] = asked(
                *flags, settings_of(config), os.environ, chosen=is_worker(config) or _names_shard(config)
            )
        except InputError as error:
            raise pytest.UsageError(str(error)) from None
    return config.stash[_ASKED]


def lines_of(config: pytest.Config) -> list[str]:
    """Return what to tell about the division, to read and to append to."""
    return config.stash.setdefault(_LINES, [])


def is_controller(config: pytest.Config) -> bool:
    """Return whether workers of pytest-xdist collect and run the tests, not this process."""
    option = config.option
    return (
        not is_worker(config) and getattr(option, "dist", "no") != "no" and bool(getattr(option, "tx", None))
    )


def notice(config: pytest.Config) -> str | None:
    """Return what to say about a method on the command line that has nothing to divide, or None."""
    asked, settings = asked_of(config), settings_of(config)
    if asked.divides or settings.sources.get("shard_by") != "--shard-by" or is_worker(config):
        return None
    return f"--shard-by {asked.by} divides nothing without --num-shards or --shard auto: every test runs here"


def asked(
    shard: int, shards: int, settings: Settings, environ: Mapping[str, str], *, chosen: bool = True
) -> Asked:
    """Return the division that pytest-shard's flags or ``--shard auto`` ask for; InputError names the range.

    chosen: whether anybody said which shard; pytest-shard itself takes that for the first, in every job of a matrix.
    """
    names = ("--shard-id", "--num-shards")
    if settings.shard is not None:
        if (shard, shards) != (0, 1):
            raise InputError(
                "--shard auto takes shard and count from Buildkite: leave --shard-id and --num-shards out"
            )
        names = (JOB, COUNT)
        shard, shards = _parallel_job(environ)
    if shards < 1:
        raise InputError(f"{names[1]} {shards}: needs at least 1 shard")
    if not 0 <= shard < shards:
        raise InputError(
            f"{names[0]} {shard} of {names[1]} {shards}: shards are counted from 0, give 0 to {shards - 1}"
        )
    if shards > 1 and settings.shard is None and not (chosen or settings.shard_plan):
        raise InputError(
            f"--num-shards {shards}: which of them? Give --shard-id 0 to {shards - 1}, or on Buildkite --shard auto; "
            "--shard-plan shows all"
        )
    return Asked(
        shard=shard,
        shards=shards,
        by=settings.shard_by,
        plan_only=settings.shard_plan,
        durations=settings.shard_durations,
    )


def _names_shard(config: pytest.Config) -> bool:
    # as the parser's default is a shard too, the words have to be asked
    words = [*config.invocation_params.args, *config.getini("addopts")]
    words += shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))
    return any(str(word).partition("=")[0] == "--shard-id" for word in words)


def _parallel_job(environ: Mapping[str, str]) -> tuple[int, int]:
    problems = []
    for name in (JOB, COUNT):
        value = environ.get(name)
        if not value:
            problems.append(f"{name} is not set")
        elif not (value.isascii() and value.isdigit()):
            problems.append(f"{name} is {value!r}, not a number")
    if problems:
        raise InputError(
            f"--shard auto: {' and '.join(problems)}; Buildkite sets both for a step with `parallelism`, "
            "elsewhere give --num-shards and --shard-id"
        )
    return int(environ[JOB]), int(environ[COUNT])
