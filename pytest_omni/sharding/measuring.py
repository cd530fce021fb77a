"""From a run to durations.json: who measures, who collects it from workers, who writes the file."""

from __future__ import annotations

from typing import Any

import pytest

from omni_hardware.errors import OmniError
from pytest_omni.sharding.asking import asked_of, is_controller
from pytest_omni.sharding.dividing import affinities_of, durations_of
from pytest_omni.sharding.durations import Durations, parse, part_path, save, update
from pytest_omni.sharding.recording import Recorder

_SENT = "omni_durations"
_RECORDER = pytest.StashKey[Recorder]()
_RECEIVED = pytest.StashKey[Durations]()
_NOTES = pytest.StashKey[list[str]]()


def start(config: pytest.Config) -> None:
    """Read what is known, and measure in the process that runs the tests; pytest.UsageError for a wrong file."""
    durations_of(config)
    if not (config.option.collectonly or is_controller(config)):
        config.stash[_RECORDER] = Recorder(affinities_of(config))
        config.pluginmanager.register(config.stash[_RECORDER], "omni-durations")


def notes_of(config: pytest.Config) -> list[str]:
    """Return what to tell about the file, to read and to append to."""
    return config.stash.setdefault(_NOTES, [])


def receive(config: pytest.Config, output: dict[str, Any]) -> None:
    """Take over what a worker measured."""
    if sent := output.get(_SENT):
        found = parse(sent, source="worker")
        config.stash[_RECEIVED] = config.stash.get(_RECEIVED, Durations()).updated(found)


def finish(config: pytest.Config, output: dict[str, Any] | None) -> None:
    """Send the measurements to the controller, or write them."""
    measured = config.stash.get(_RECEIVED, Durations())
    if recorder := config.stash.get(_RECORDER, None):
        measured = measured.updated(recorder.measured)
    if output is not None:
        output[_SENT] = measured.to_json()
    elif measured.tests or measured.fixtures:
        _write(config, measured)


def _write(config: pytest.Config, measured: Durations) -> None:
    asked = asked_of(config)
    if asked.durations is None:
        return
    path = part_path(asked.durations, asked.shard, asked.shards)
    what = f"{len(measured.tests)} tests and {len(measured.fixtures)} shared fixtures"
    try:
        # a shard's own file holds this run only
        (update if asked.shards == 1 else save)(path, measured)
    except OmniError as error:
        notes_of(config).append(f"WARNING durations of {what} are lost: {error}")
    else:
        notes_of(config).append(f"durations of {what} written to {path}")
