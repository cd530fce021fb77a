"""What the doctor looks at, in the order of the screen: one row of CHECKS each."""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from omni_hardware import visibility
from omni_hardware.errors import OmniError
from omni_hardware.expression import unknown_names
from omni_hardware.inventory import Device, Inventory, gibibytes
from omni_hardware.vocabulary import PLATFORMS
from pytest_omni.arguments import misspelt
from pytest_omni.arming import LINE_TO_ADD, arming_of
from pytest_omni.diagnosis import coverage_probe
from pytest_omni.diagnosis.doctor import Finding, State
from pytest_omni.heading import depth_line, platform_line
from pytest_omni.machine import CPU, Machine, machine_of
from pytest_omni.marks import FRESH_PROCESS, MARK
from pytest_omni.options import OPTIONS, given_to, settings_of
from pytest_omni.run_level import level_of
from pytest_omni.selection.mark_names import declared


@dataclass(frozen=True, slots=True)
class Check:
    """One part of the screen."""

    topic: str
    make: Callable[[pytest.Config], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A plugin that we meet: its distribution, the names that pytest may know it by, and what to know about it."""

    package: str
    names: tuple[str, ...]
    here: str = ""
    missing: str = ""


NEIGHBOURS: tuple[Neighbour, ...] = (
    Neighbour("pytest-shard", ("pytest-shard", "pytest_shard.pytest_shard")),
    Neighbour(
        "pytest-xdist", ("xdist", "xdist.plugin"), missing="no -n: cards are not shared out to workers"
    ),
    Neighbour("pytest-cov", ("pytest_cov", "pytest_cov.plugin")),
    Neighbour("pytest-asyncio", ("asyncio", "pytest_asyncio.plugin")),
    Neighbour(
        "pytest-timeout",
        ("timeout", "pytest_timeout"),
        here="its method `thread` ends pytest at once: no fixture is torn down, servers end with pytest",
    ),
    Neighbour(
        "pytest-rerunfailures",
        ("rerunfailures", "pytest_rerunfailures"),
        here="to run the last test of a file again it tears down the file's fixtures: its server starts again",
    ),
    Neighbour(
        "pytest-randomly",
        ("randomly", "pytest_randomly"),
        here="shards divide alike whatever the seed, but for node ids drawn at random: then give all one --randomly-seed",
    ),
    Neighbour(
        "pytest-split",
        ("pytest-split", "pytest_split.plugin"),
        here="it divides what --num-shards has divided: use one of the two",
    ),
    Neighbour(
        "pytest-forked",
        ("pytest_forked", "pytest-forked"),
        here="--forked forks whatever runs here: mark tests fresh_process instead",
    ),
)
_GUESS = "did you mean"
_SHARD_PLUGIN = "pytest_shard.pytest_shard"
_AUTOLOAD_OFF = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"


def project(config: pytest.Config) -> Iterator[Finding]:
    """Yield who asked for the plugin, and the versions at work."""
    arming = arming_of(config)
    python = ".".join(map(str, sys.version_info[:3]))
    versions = f"pytest-omni {_version('pytest-omni')}, pytest {pytest.__version__}, Python {python}"
    yield Finding("project", f"armed by {arming.because}; {versions}")
    if set(given_to(config)) == {"doctor"} and not arming.because.endswith(LINE_TO_ADD):
        text = (
            "nothing but this look arms the plugin: in every other run here its marks and fixtures do nothing"
        )
        yield Finding("project", text, State.PROBLEM, arming.remedy)
    elif not arming.because.endswith(LINE_TO_ADD) and not _set_by_ini(config):
        yield Finding(
            "project",
            f"other runs here are not armed: nothing says {LINE_TO_ADD}; {arming.remedy}",
            State.NOTE,
        )
    if arming.problem:
        yield Finding("project", arming.problem, State.PROBLEM)


def _set_by_ini(config: pytest.Config) -> bool:
    """Return whether the ini file has a setting of ours, which arms every run of the project."""
    inis = {row.ini for row in OPTIONS if row.ini}
    return any(given.source.split()[0] in inis for given in given_to(config).values())


def platform(config: pytest.Config) -> Iterator[Finding]:
    """Yield which platform is asked for, and what is here of it."""
    machine = machine_of(config)
    yield from platform_findings(machine)
    if machine.expression is not None:
        # other plugins declare their markers later than this: only what looks like a known word is doubted
        known = {*declared(config), *arming_of(config).vocabulary.words(), FRESH_PROCESS, MARK}
        doubted = [line for line in unknown_names(machine.expression, known) if _GUESS in line]
        yield from (Finding("-m", message, State.PROBLEM) for message in doubted)


def platform_findings(machine: Machine) -> Iterator[Finding]:
    """Yield the same from a machine's facts."""
    inventory = machine.inventory
    if machine.problem or inventory.error:
        yield Finding("platform", machine.problem or str(inventory.error), State.PROBLEM)
        return
    yield Finding("platform", platform_line(machine).removeprefix("platform "))
    if machine.asked not in {machine.detected, CPU}:
        text = f"no {machine.asked} device is here: what needs one is skipped, and fails under --omni-strict"
        yield Finding("platform", text, State.NOTE)
    yield from (Finding("devices", _device(row, inventory)) for row in inventory.devices)
    if inventory.devices and not inventory.seen:
        text = f"none of the {len(inventory.devices)} devices is seen: {inventory.limit}"
        yield Finding("devices", text, State.PROBLEM, "unset the variable, or name devices that are there")


def probes(config: pytest.Config) -> Iterator[Finding]:
    """Yield how far the answers about devices can be trusted."""
    from omni_hardware.probes import vendor_of

    inventory = machine_of(config).inventory
    if inventory.source.startswith("file "):
        yield Finding(
            "probe",
            f"none: the devices are those of {Path(inventory.source.removeprefix('file ')).name}",
            State.NOTE,
        )
        return
    vendor = vendor_of(inventory.platform)
    if vendor is None:
        yield Finding("probe", "no vendor's device node or tool is here")
    elif vendor.proven:
        yield Finding("probe", f"{vendor.platform}: proven on real devices")
    else:
        text = f"{vendor.platform}: never run on a real device, only its parser was, on published outputs"
        yield Finding(
            "probe", text, State.NOTE, "compare the devices above with what the vendor's tool shows"
        )


def variables(config: pytest.Config) -> Iterator[Finding]:
    """Yield the variables that decide what a process sees, and their contradictions."""
    inventory = machine_of(config).inventory
    yield from variable_findings(os.environ, inventory)


def variable_findings(environ: Mapping[str, str], inventory: Inventory) -> Iterator[Finding]:
    """Yield the same from an environment."""
    names = dict.fromkeys(name for platform in PLATFORMS for name in visibility.variables(platform))
    present = [f"{name}={environ[name]!r}" for name in names if name in environ]
    yield Finding("visibility", ", ".join(present) if present else "no variable limits what is seen")
    # without devices nothing says which vendor's reading counts
    scope = inventory if inventory.devices else None
    for problem in visibility.problems(environ, inventory=scope):
        if problem.mended is None:
            yield Finding("visibility", f"{problem.platform}: {problem.message}", State.PROBLEM)
        else:
            changes = ", ".join(
                f"unset {name}" if to is None else f"{name}={to}" for name, to in problem.mended.items()
            )
            yield Finding(
                "visibility",
                f"{problem.platform}: {problem.message}",
                State.NOTE,
                f"processes of ours get: {changes}",
            )


def depth(config: pytest.Config) -> Iterator[Finding]:
    """Yield the run level and what it means for weights."""
    yield Finding("run level", depth_line(level_of(config)).removeprefix("run level "))


def settings(config: pytest.Config) -> Iterator[Finding]:
    """Yield each setting that is no default, with its source."""
    found = settings_of(config)
    rows = [row for row in OPTIONS if row.name in found.sources and row.name != "doctor"]
    if not rows:
        yield Finding("settings", "all defaults")
    for row in rows:
        source = found.sources[row.name]
        said = "on the command line" if source == row.flag else f"by {source}"
        value = getattr(found, row.name)
        shown = os.path.relpath(value, config.invocation_params.dir) if isinstance(value, Path) else value
        yield Finding("settings", f"{row.flag} {shown} ({said})")
    yield from (Finding("settings", problem, State.PROBLEM) for problem in misspelt(os.environ))


def plugins(config: pytest.Config) -> Iterator[Finding]:
    """Yield the plugins we work beside, and those that get in the way."""
    manager = config.pluginmanager
    loaded = [row for row in NEIGHBOURS if any(manager.has_plugin(name) for name in row.names)]
    shown = ", ".join(f"{row.package} {_version(row.package)}" for row in loaded)
    yield Finding("plugins", shown or "none that we know")
    if not hasattr(config.option, "num_shards"):
        text = "pytest-shard is not loaded: there is no --num-shards, no --shard-id and no shard"
        yield Finding(
            "plugins",
            text,
            State.PROBLEM,
            f"add -p {_SHARD_PLUGIN} to addopts, or take -p no:pytest-shard out",
        )
    if off := _autoload_off(config):
        text = f"plugin autoload is off ({off}): only what -p names is here"
        yield Finding("plugins", text, State.NOTE)
    for row in NEIGHBOURS:
        if row in loaded and row.here:
            yield Finding("plugins", f"{row.package}: {row.here}", State.NOTE)
        if row not in loaded and row.missing:
            yield Finding("plugins", f"{row.package} is not loaded: {row.missing}", State.NOTE)


def coverage(config: pytest.Config) -> Iterator[Finding]:
    """Yield whether the coverage of a child that is stopped by SIGTERM is recorded: one is started, stopped, read."""
    given = getattr(config.option, "cov_config", None)
    yield from coverage_probe.judge(
        coverage_probe.run(config.rootpath, rcfile=given),
        asked=bool(getattr(config.option, "cov_source", None)),
    )


CHECKS: tuple[Check, ...] = (
    Check("project", project),
    Check("platform", platform),
    Check("probe", probes),
    Check("visibility", variables),
    Check("run level", depth),
    Check("settings", settings),
    Check("plugins", plugins),
    Check("coverage", coverage),
)


def inventory_lines(config: pytest.Config) -> Iterator[str]:
    """Yield the inventory as a fenced block, one device a line; nothing where there is none to show."""
    try:
        document = machine_of(config).inventory.to_json()
    except (OmniError, pytest.UsageError):
        return
    yield "inventory.json, as --omni-inventory takes it:"
    yield "```json"
    yield _pretty(document)
    yield "```"


def _pretty(document: Mapping[str, object]) -> str:
    rows = []
    for key, value in document.items():
        if isinstance(value, list) and value:
            inner = ",\n".join(f"  {json.dumps(row)}" for row in value)
            rows.append(f" {json.dumps(key)}: [\n{inner}\n ]")
        else:
            rows.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(rows) + "\n}"


def _device(row: Device, inventory: Inventory) -> str:
    facts = [row.label, row.uuid]
    if row.memory_mib is not None:
        used = "" if row.used_mib is None else f", {gibibytes(row.used_mib)} of it in use"
        facts.append(f"{gibibytes(row.memory_mib)}{used}")
    hidden = "" if row in inventory.seen or row in inventory.listed else "  (hidden by a variable)"
    unknown = "" if row.sku else "  (no SKU of the vocabulary: [tool.omni.skus] can add one)"
    return f"{row.index}  {'  '.join(facts)}{hidden}{unknown}"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def _autoload_off(config: pytest.Config) -> str:
    if os.environ.get(_AUTOLOAD_OFF):
        return _AUTOLOAD_OFF
    return "--disable-plugin-autoload" if getattr(config.option, "disable_plugin_autoload", False) else ""
