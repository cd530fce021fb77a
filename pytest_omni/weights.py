"""Which weights a server gets at a run level: dummy, tiny or real; decided from values, with the reason.

The shallowest level spares the weights where there is a way to: a test marked `diffusion` gets a tiny model, stages
of a deploy config get `load_format: dummy`. Deeper levels get real ones. Where nothing was changed, nothing is claimed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from omni_hardware.errors import InputError, did_you_mean
from omni_hardware.vocabulary import RUN_LEVELS
from pytest_omni.servers.params import OmniServerParams

TINY_MARK = "diffusion"
CONFIG_FLAGS = ("--deploy-config", "--stage-configs-path", "--stage-configs")
DUMMY = "dummy"
_KEY = "load_format"
_NAME_FLAG = "--served-model-name"
_FORMAT_FLAG = "--load-format"
_INHERITED = "base_config"
_LISTS = ("stages", "stage_args")  # today's schema and the one before it

Tiny = Callable[[str], str | None]
Read = Callable[[Path], str]


class Weights(StrEnum):
    """What a server loads; the words of report.json."""

    DUMMY = "dummy"  # the real architecture, random values
    TINY = "tiny"  # a small random checkpoint
    REAL = "real"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A deploy config as it shall be: *text* replaces what *original* says."""

    original: Path
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Patched:
    """What to start instead of what the test asked for; *because* is shown to people and never empty.

    config: a deploy config that still has to be written; `written` does it and names it in the parameters.
    """

    params: OmniServerParams
    weights: Weights
    because: str
    config: ConfigFile | None = None

    def written(self, folder: Path) -> OmniServerParams:
        """Return the parameters to start with, the patched config in *folder*; without one, the parameters as they are."""
        if self.config is None:
            return self.params
        target = folder / self.config.original.name
        target.write_text(self.config.text, encoding="utf-8")
        if self.params.deploy_config is not None:
            return replace(self.params, deploy_config=target)
        return replace(self.params, server_args=_with_config(self.params.server_args, str(target)))


def patched(
    params: OmniServerParams,
    level: str,
    marks: Collection[str],
    tiny: Tiny | None = None,
    *,
    levels: Sequence[str] = RUN_LEVELS,
    read: Read | None = None,
) -> Patched:
    """Return what to start at *level* for a test with *marks*, which weights that loads, and why.

    tiny: returns the folder of a tiny model for a model's name, None where it has none. levels: shallow to deep.
    Raises InputError for a deploy config that is not there or cannot be read as what its name says.
    """
    place = config_path(params)
    document = {} if place is None else _loaded(place, read or _text)
    if level != levels[0]:
        return _real(params, place, document, level)
    wants_tiny = TINY_MARK in marks
    small = tiny(params.model) if tiny and wants_tiny else None
    if small is not None:
        args = _named(params.server_args, params.model)
        return Patched(
            params=replace(params, model=small, server_args=args),
            weights=Weights.TINY,
            because=f"{level} and the mark {TINY_MARK}: {params.model} is replaced by {small}",
        )
    if place is None:
        why = f"no tiny model is known for {params.model}, and " if wants_tiny else ""
        return _as_asked(params, f"{level}: {why}there is no deploy config to patch: real weights")
    return _dummy(params, place, document, level)


def deepest(seen: Collection[str]) -> str | None:
    """Return the one word for a session whose servers loaded *seen*: the most real of them, None without any."""
    return next((word.value for word in reversed(Weights) if word in seen), None)


def config_path(params: OmniServerParams) -> Path | None:
    """Return the deploy config of *params*: the field, else the last flag of the command line that names one."""
    if params.deploy_config is not None:
        return Path(params.deploy_config)
    found = [value for flag, value in _flags(params.server_args) if flag in CONFIG_FLAGS]
    return Path(found[-1]) if found else None


def _flags(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if equals:
            yield name, value
        elif at + 1 < len(words):
            yield word, words[at + 1]


def _with_config(words: Sequence[str], path: str) -> tuple[str, ...]:
    changed, value_next = list[str](), False
    for word in words:
        name, equals, _ = word.partition("=")
        changed.append(path if value_next else f"{name}={path}" if equals and name in CONFIG_FLAGS else word)
        value_next = word in CONFIG_FLAGS
    return tuple(changed)


def _named(words: Sequence[str], model: str) -> tuple[str, ...]:
    given = any(word.partition("=")[0] == _NAME_FLAG for word in words)
    return tuple(words) if given else (*words, _NAME_FLAG, model)


def _as_asked(params: OmniServerParams, because: str) -> Patched:
    """Return the parameters untouched, and what the test itself makes of them."""
    if (_FORMAT_FLAG, DUMMY) in _flags(params.server_args):
        because = f"the test itself passes {_FORMAT_FLAG} {DUMMY}"
        return Patched(params=params, weights=Weights.DUMMY, because=because)
    return Patched(params=params, weights=Weights.REAL, because=because)


def _dummy(params: OmniServerParams, place: Path, document: dict[str, Any], level: str) -> Patched:
    stages = list(_stages(document))
    if _INHERITED in document:
        what = f"{place.name} inherits stages from {document[_INHERITED]}, which nobody patches"
        return _as_asked(params, f"{level}: {what}: real weights")
    listed = sum(len(rows) for key in _LISTS if isinstance(rows := document.get(key), list))
    if not stages or len(stages) < listed:
        some = f"only {len(stages)} of the {listed} stages of {place.name} can be patched"
        what = some if stages else f"{place.name} has no stages to patch"
        return _as_asked(params, f"{level}: {what}: real weights")
    for stage in (*stages, *(stage for stage in _overrides(document) if _KEY in stage)):
        stage[_KEY] = DUMMY
    return Patched(
        params=params,
        weights=Weights.DUMMY,
        because=f"{level}: {_KEY} is {DUMMY} in {_counted(len(stages))} of {place.name}",
        config=ConfigFile(place, _dumped(place, document)),
    )


def _real(params: OmniServerParams, place: Path | None, document: dict[str, Any], level: str) -> Patched:
    because = f"run level {level} loads real weights"
    spared = [stage for stage in (*_stages(document), *_overrides(document)) if stage.get(_KEY) == DUMMY]
    for stage in spared:
        stage.pop(_KEY, None)  # two stages may be one by a YAML alias
    asked = _as_asked(params, because)
    if place is None or not spared or asked.weights is Weights.DUMMY:
        return asked
    return replace(
        asked,
        because=f"{because}: {_KEY}: {DUMMY} taken out of {_counted(len(spared))} of {place.name}",
        config=ConfigFile(place, _dumped(place, document)),
    )


def _stages(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the mapping of each stage that holds load_format, in the new schema and the old one."""
    new, old = _LISTS
    yield from _mappings(document.get(new))
    for stage in _mappings(document.get(old)):
        if stage.get("engine_args") is None:
            stage["engine_args"] = {}
        yield from _mappings([stage["engine_args"]])


def _overrides(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the stages below `platforms`, which are laid over the others."""
    platforms = document.get("platforms")
    for row in _mappings(list(platforms.values()) if isinstance(platforms, dict) else None):
        yield from _stages(row)


def _mappings(rows: object) -> Iterator[dict[str, Any]]:
    if isinstance(rows, list):
        yield from (row for row in rows if isinstance(row, dict))


def _counted(stages: int) -> str:
    return f"{stages} stage{'s' if stages > 1 else ''}"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _loaded(place: Path, read: Read) -> dict[str, Any]:
    where = f"deploy config {place}"
    load = _FORMATS[_suffix(place)].load
    try:
        document = load(read(place))
    except FileNotFoundError as error:
        raise InputError(f"{where}: no such file{_neighbour(place)}") from error
    except OSError as error:
        raise InputError(f"{where}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors too
        raise InputError(f"{where}: not {place.suffix[1:].upper()}: {error}") from error
    if not isinstance(document, dict):
        raise InputError(f"{where}: must hold a mapping with `stages`, not {type(document).__name__}")
    return document


def _dumped(place: Path, document: dict[str, Any]) -> str:
    return _FORMATS[_suffix(place)].dump(document)


def _neighbour(place: Path) -> str:
    folder = place.parent
    return did_you_mean(place.name, sorted(row.name for row in folder.iterdir())) if folder.is_dir() else ""


def _suffix(place: Path) -> str:
    suffix = place.suffix.lower()
    if suffix not in _FORMATS:
        raise InputError(f"deploy config {place}: must end in one of {', '.join(_FORMATS)}")
    return suffix


def _load_yaml(text: str) -> object:
    yaml = _yaml()
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def _dump_yaml(document: dict[str, Any]) -> str:
    return str(_yaml().safe_dump(document, sort_keys=False, allow_unicode=True))


def _yaml() -> Any:
    try:
        import yaml  # an extra: the plugin itself needs none
    except ImportError as error:
        raise InputError(
            "a deploy config in YAML needs PyYAML, which is not installed: pip install pyyaml, or write it as .json"
        ) from error
    return yaml


@dataclass(frozen=True, slots=True)
class _Format:
    load: Callable[[str], object]
    dump: Callable[[dict[str, Any]], str]


_YAML = _Format(_load_yaml, _dump_yaml)
_JSON = _Format(json.loads, lambda document: json.dumps(document, indent=1))
_FORMATS: Mapping[str, _Format] = {".yml": _YAML, ".yaml": _YAML, ".json": _JSON}
