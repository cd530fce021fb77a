"""The lines under pytest's header: what was asked for, what is here, how deep it goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from omni_hardware.errors import strip_controls
from omni_hardware.inventory import Inventory, describe
from pytest_omni.arming import arming_of
from pytest_omni.machine import Machine, machine_of
from pytest_omni.options import Settings, settings_of
from pytest_omni.run_level import RunLevel, level_of
from pytest_omni.sharding.asking import asked_of


def header(config: pytest.Config) -> list[str]:
    """Return the two lines for *config*."""
    settings = settings_of(config)
    facts = [depth_line(level_of(config)), *shard_facts(config, settings)]
    if settings.strict:
        facts.append(f"strict ({settings.sources['strict']})")
    return [
        strip_controls(f"omni: {platform_line(machine_of(config))}"),
        strip_controls(f"omni: {', '.join(facts)}; armed by {arming_of(config).because}"),
    ]


def platform_line(machine: Machine) -> str:
    """Return "platform cuda (-m names cuda), detected cpu; devices none (probe)"."""
    line = f"platform {machine.asked} ({machine.because})"
    if machine.detected != machine.asked:
        line += f", detected {machine.detected}"
    return f"{line}; devices {sight(machine.inventory)}"


def sight(inventory: Inventory) -> str:
    """Return "H100×2 (CUDA_VISIBLE_DEVICES=2,3 of 8; file two.json)"; devices that are made up always say so."""
    if inventory.error is not None:
        return f"unknown: {inventory.error}"
    facts = [inventory.limit] if inventory.limit else []
    if inventory.source.startswith("file "):
        facts.append(f"from file {Path(inventory.source).name}")
    shown = describe(inventory.seen)
    return f"{shown} ({'; '.join(facts)})" if facts else shown


def depth_line(level: RunLevel) -> str:
    """Return "run level core_model (default: -m names no level), weights dummy or tiny"."""
    return f"run level {level} ({level.because}), weights {level.weights}"


def shard_facts(config: pytest.Config, settings: Settings) -> list[str]:
    """Return "shard 1 of 4 by group" where there are shards; 0-based, as ``--shard-id`` is."""
    asked = asked_of(config)
    return [f"shard {asked.shard} of {asked.shards} by {settings.shard_by}"] if asked.shards > 1 else []
