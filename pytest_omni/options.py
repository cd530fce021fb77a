"""Every setting of the plugin in one table: a flag beats a variable, a variable beats the ini file."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from omni_hardware.errors import did_you_mean, strip_controls
from omni_hardware.vocabulary import Vocabulary

AUTO = "auto"
SHARD_METHODS = ("group", "duration", "file", "hash")
YES = ("true", "1", "yes", "on")
NO = ("false", "0", "no", "off")
_QUOTED = re.compile(r"'[^']*'$")


class Kind(StrEnum):
    """What a setting's text means; the value is also the type of its ini key, where pytest has one."""

    WORD = "string"
    PATH = "path"
    SWITCH = "bool"
    COUNT = "int"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One row: where a setting may come from, and what it may be."""

    name: str
    flag: str
    help: str
    kind: Kind = Kind.WORD
    ini: str | None = None
    env: str | None = None
    default: Any = None
    words: Callable[[Vocabulary], tuple[str, ...]] | None = None
    metavar: str | None = None
    noun: str | None = None

    @property
    def dest(self) -> str:
        """Return the attribute of ``config.option``."""
        return f"omni_{self.name}"

    @property
    def long_help(self) -> str:
        """Return the help with the names of ini key and variable."""
        also = [f"ini {self.ini}"] * bool(self.ini) + [f"env {self.env}"] * bool(self.env)
        return f"{self.help} ({', '.join(also)})" if also else self.help

    @property
    def is_common(self) -> bool:
        """Return whether another plugin or a conftest may well have a flag of that name."""
        return not self.flag.startswith("--omni-")


OPTIONS: tuple[Option, ...] = (
    Option(
        name="run_level",
        flag="--run-level",
        ini="omni_run_level",
        env="OMNI_RUN_LEVEL",
        default=AUTO,
        words=lambda vocabulary: (*vocabulary.levels, AUTO),
        metavar="LEVEL",
        help="how deep the tests go; auto: the deepest level that -m asks for, else the first level",
    ),
    Option(
        name="platform",
        flag="--omni-platform",
        ini="omni_platform",
        env="OMNI_PLATFORM",
        default=AUTO,
        words=lambda vocabulary: (*(row.name for row in vocabulary.platforms), AUTO),
        metavar="NAME",
        help="the platform whose tests are asked for; auto: the one that -m names, else the detected one",
    ),
    Option(
        name="strict",
        flag="--omni-strict",
        kind=Kind.SWITCH,
        ini="omni_strict",
        env="OMNI_STRICT",
        default=False,
        help="fail the session where a selected test cannot run on this machine",
    ),
    Option(
        name="inventory_path",
        flag="--omni-inventory",
        kind=Kind.PATH,
        env="OMNI_INVENTORY",
        metavar="FILE",
        help="take the devices from this inventory file instead of a probe",
    ),
    Option(
        name="max_skips",
        flag="--omni-max-skips",
        kind=Kind.COUNT,
        ini="omni_max_skips",
        env="OMNI_MAX_SKIPS",
        metavar="N",
        help="fail the session when more tests than this are skipped",
    ),
    Option(
        name="report",
        flag="--omni-report",
        kind=Kind.PATH,
        ini="omni_report",
        env="OMNI_REPORT",
        metavar="FILE",
        help="write what happened to every collected test to this JSON file",
    ),
    Option(
        name="shard_by",
        flag="--shard-by",
        ini="omni_shard_by",
        env="OMNI_SHARD_BY",
        default=SHARD_METHODS[0],
        words=lambda _: SHARD_METHODS,
        metavar="METHOD",
        noun="method",
        help="how --num-shards divides the tests: group, duration, file or hash",
    ),
    Option(
        name="shard_plan",
        flag="--shard-plan",
        kind=Kind.SWITCH,
        default=False,
        help="print which shard runs what, and run nothing",
    ),
    Option(
        name="shard_durations",
        flag="--shard-durations",
        kind=Kind.PATH,
        ini="omni_shard_durations",
        metavar="FILE",
        help="how long tests and fixtures took, read for the plan and written afterwards",
    ),
    Option(
        name="shard",
        flag="--shard",
        words=lambda _: (AUTO,),
        metavar=AUTO,
        help="auto: take shard and number of shards from BUILDKITE_PARALLEL_JOB and its _COUNT",
    ),
    Option(
        name="doctor",
        flag="--omni-doctor",
        kind=Kind.SWITCH,
        default=False,
        help="say what the plugin sees on this machine and in this project, and run nothing",
    ),
)

_MEANING = {Kind.SWITCH: "true or false", Kind.COUNT: "a whole number of 0 or more"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What this session was asked for; *sources* says where each value that is no default comes from."""

    run_level: str = AUTO
    platform: str = AUTO
    strict: bool = False
    inventory_path: Path | None = None
    max_skips: int | None = None
    report: Path | None = None
    shard_by: str = SHARD_METHODS[0]
    shard_plan: bool = False
    shard_durations: Path | None = None
    shard: str | None = None
    doctor: bool = False
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Given:
    """A value as somebody wrote it; *source* is the words for a message, *folder* what a path is relative to.

    *problem* is what pytest itself had to say about it.
    """

    text: str
    source: str
    folder: Path
    problem: str | None = None


_GIVEN = pytest.StashKey[dict[str, Given]]()
_SETTINGS = pytest.StashKey[Settings]()


def settings_of(config: pytest.Config) -> Settings:
    """Return the session's settings; pytest.UsageError with one line for each bad value, naming its source."""
    if _SETTINGS not in config.stash:
        from pytest_omni.arming import arming_of  # arming asks this module what was given

        config.stash[_SETTINGS] = resolve(given_to(config), arming_of(config).vocabulary)
    return config.stash[_SETTINGS]


def overrule(config: pytest.Config, **values: Any) -> None:
    """Replace settings of this session, whatever they came from: for a process that does one part of another's."""
    config.stash[_SETTINGS] = replace(settings_of(config), **values)


def given_to(config: pytest.Config) -> dict[str, Given]:
    """Return what flags, variables and ini file say, by name of the setting; defaults are not among them."""
    if _GIVEN not in config.stash:
        config.stash[_GIVEN] = dict(_given(config, config.option))
    return config.stash[_GIVEN]


def read(config: pytest.Config, namespace: argparse.Namespace) -> None:
    """Take the settings from *namespace* and the surroundings; forgets what was read earlier."""
    config.stash[_GIVEN] = dict(_given(config, namespace))
    if _SETTINGS in config.stash:
        del config.stash[_SETTINGS]


def resolve(given: Mapping[str, Given], vocabulary: Vocabulary) -> Settings:
    """Return the settings that *given* makes; pytest.UsageError lists every bad value."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    for row in OPTIONS:
        if row.name in given:
            try:
                values[row.name] = _value(row, given[row.name], vocabulary)
            except ValueError as error:
                problems.append(strip_controls(f"{given[row.name].source}: {error}"))
    if problems:
        raise pytest.UsageError("\n".join(problems))
    return Settings(**values, sources={name: item.source for name, item in given.items()})


def _given(config: pytest.Config, namespace: argparse.Namespace) -> Iterator[tuple[str, Given]]:
    here = config.invocation_params.dir
    for row in OPTIONS:
        flag = getattr(namespace, row.dest, None)
        if flag is not None:
            yield row.name, Given(flag, row.flag, here)
        elif row.env and os.environ.get(row.env, "").strip():
            yield row.name, Given(os.environ[row.env], f"environment variable {row.env}", here)
        elif row.ini:
            text, problem = _ini_value(config, row)
            file = config.inipath
            where = f"{row.ini} in {file.name}" if file else f"ini key {row.ini}"
            if text:
                yield row.name, Given(text, where, file.parent if file else here, problem)


def _ini_value(config: pytest.Config, row: Option) -> tuple[str, str | None]:
    """Return an ini key's text, "" where it is not set, and why pytest could not read it as a number or a bool."""
    try:
        value = config.getini(row.ini or "")
    except (TypeError, ValueError, pytest.UsageError) as error:
        quoted = _QUOTED.search(str(error))  # pytest, or Python, says what it could not read, and more
        return "?", f"{quoted[0] if quoted else error} is not {_MEANING[row.kind]}"
    return "" if value is None else str(value).strip(), None


def _value(row: Option, given: Given, vocabulary: Vocabulary) -> Any:
    text = given.text.strip()
    if given.problem:
        raise ValueError(given.problem)
    if not text:
        raise ValueError("needs a value")
    if row.kind is Kind.PATH:
        return given.folder / Path(text).expanduser()
    if row.kind is Kind.SWITCH:
        if text.lower() not in {*YES, *NO}:
            raise ValueError(f"{text!r} is not {_MEANING[row.kind]}")
        return text.lower() in YES
    if row.kind is Kind.COUNT:
        if not (text.isascii() and text.isdigit()):
            raise ValueError(f"{text!r} is not {_MEANING[row.kind]}")
        return int(text)
    known = row.words(vocabulary) if row.words else (text,)
    if row.metavar == AUTO and text != AUTO:
        raise ValueError(
            f"takes only {AUTO}, not {text!r}; give --num-shards and --shard-id for one by number"
        )
    if text not in known:
        noun = row.noun or row.name.replace("_", " ")
        raise ValueError(f"unknown {noun} {text!r}{did_you_mean(text, known)}")
    return text
