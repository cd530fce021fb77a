"""Which attention backend a user wants for which role: one parser for JSON, dotted flags, environment and Python.

A configuration is `{"default": SPEC, "per_role": {ROLE: SPEC}}`. SPEC is a backend's name or `{"backend": NAME}`;
`auto` means no wish. A role may be written dotted or nested: `{"ltx2": {"audio_to_video": SPEC}}` is the role
`ltx2.audio_to_video`, which is what `--diffusion-attention-config.per_role.ltx2.audio_to_video.backend X` gives.
Precedence: the exact role, its category, the default, the platform.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from omni.config import jsontext
from omni.errors import AttentionError, did_you_mean

ENVIRONMENT = "DIFFUSION_ATTENTION_BACKEND"
BACKEND_FLAG = "--diffusion-attention-backend"
CONFIG_FLAG = "--diffusion-attention-config"
AUTO = "AUTO"
_SPEC_KEYS = ("backend",)
_TOP_KEYS = ("default", "per_role")
_DEEPEST = 8  # segments of a role's name


class Source(StrEnum):
    """Which rule chose a backend."""

    EXACT = "per-role exact"
    CATEGORY = "category"
    DEFAULT = "default"
    PLATFORM = "platform default"


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """A wish for one backend, its name in capitals; *origin* is where it was written, for messages only."""

    backend: str
    origin: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.backend, str) or not self.backend.strip():
            raise _wrong(self.origin or "backend", "a backend's name", self.backend)
        object.__setattr__(self, "backend", self.backend.strip().upper())


@dataclass(frozen=True, slots=True)
class AttentionConfig:
    """What was asked for; a missing role or default is the platform's to choose.

    *environment_read* is set by `from_environment`, so that the variable is read once however often that is called.
    """

    default: AttentionSpec | None = None
    per_role: Mapping[str, AttentionSpec] = field(default_factory=dict)
    environment_read: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        for name, spec in (("default", self.default), *self.per_role.items()):
            if not isinstance(spec, AttentionSpec) and not (name == "default" and spec is None):
                raise _wrong(name, "an AttentionSpec (or use `parse`, which takes text and mappings)", spec)
        if self.default is not None and self.default.backend == AUTO:
            object.__setattr__(self, "default", None)
        kept = {role: spec for role, spec in self.per_role.items() if spec.backend != AUTO}
        object.__setattr__(self, "per_role", MappingProxyType(kept))

    @property
    def is_explicit(self) -> bool:
        """Whether anything at all was asked for."""
        return self.default is not None or bool(self.per_role)

    @property
    def specs(self) -> tuple[AttentionSpec, ...]:
        """Every wish, the default first."""
        return (*((self.default,) if self.default else ()), *self.per_role.values())

    def resolve(self, role: str, category: str | None = None) -> tuple[AttentionSpec | None, Source]:
        """Return the wish that governs *role* and the rule that found it; None leaves it to the platform."""
        if role in self.per_role:
            return self.per_role[role], Source.EXACT
        if category is not None and category in self.per_role:
            return self.per_role[category], Source.CATEGORY
        if self.default is not None:
            return self.default, Source.DEFAULT
        return None, Source.PLATFORM


def parse(value: object) -> AttentionConfig:
    """Return the configuration written in *value*: JSON text, a backend's name, a mapping, or one that is parsed.

    Raises AttentionError with the path inside the configuration. Never reads the environment.
    """
    if isinstance(value, AttentionConfig):
        return value
    if isinstance(value, AttentionSpec):
        return AttentionConfig(default=value)
    if isinstance(value, str):
        if not value.lstrip().startswith(("{", "[", '"')):
            return AttentionConfig(default=AttentionSpec(value, CONFIG_FLAG))
        value = _read_json(value)
    if value is None:
        return AttentionConfig()
    if not isinstance(value, Mapping):
        raise _wrong("attention config", "a mapping, its JSON text, or a backend's name", value)
    return _from_mapping(value)


def from_environment(
    cli_config: object, cli_backend: str | None, environ: Mapping[str, str]
) -> AttentionConfig:
    """Return the configuration of a command line or call, completed by the environment: the one place that reads it.

    The backend flag is short for `default.backend`; it may stand beside per_role, not beside a default. The
    variable DIFFUSION_ATTENTION_BACKEND is read once, and only where no default was given; `auto` changes nothing.
    """
    config = parse(cli_config)
    wish = None if cli_backend is None else AttentionSpec(cli_backend, BACKEND_FLAG)
    if wish is not None and wish.backend != AUTO:
        if config.default is not None:
            raise AttentionError(
                f"{BACKEND_FLAG} {wish.backend} and {config.default.origin or 'default.backend'} = "
                f"{config.default.backend} both set the default backend; give one of them"
            )
        config = replace(config, default=wish)
    if config.environment_read:
        return config
    if config.default is None and (named := (environ.get(ENVIRONMENT) or "").strip()):
        config = replace(config, default=AttentionSpec(named, ENVIRONMENT))
    return replace(config, environment_read=True)


def _from_mapping(value: Mapping[Any, Any]) -> AttentionConfig:
    content: dict[str, Any] = {}
    for key, entry in value.items():
        name = str(key).replace("-", "_")  # flags are written in kebab case as well
        if name not in _TOP_KEYS:
            raise AttentionError(
                f"attention config: unknown key {key!r}{did_you_mean(str(key), _TOP_KEYS)}; "
                f"valid keys: {', '.join(_TOP_KEYS)}"
            )
        if name in content:
            raise AttentionError(f"attention config: {name} is given twice, as per_role and as per-role")
        content[name] = entry
    default = content.get("default")
    roles = content.get("per_role")
    if roles is not None and not isinstance(roles, Mapping):
        raise _wrong("per_role", "a mapping of roles to backends", roles)
    return AttentionConfig(
        default=None if default is None else _spec(default, "default"),
        per_role=_collect(roles or {}),
    )


def _collect(roles: Mapping[Any, Any]) -> dict[str, AttentionSpec]:
    """Return flat roles; the same role written dotted and nested is refused."""
    found: dict[str, AttentionSpec] = {}
    for role, spec in _flatten(roles, ()):
        if role in found:
            raise AttentionError(f"per_role.{role} is given twice, once dotted and once nested; keep one")
        found[role] = spec
    return found


def _flatten(node: Mapping[Any, Any], above: tuple[str, ...]) -> Iterator[tuple[str, AttentionSpec]]:
    for key, entry in node.items():
        if not isinstance(key, str) or not all(part.strip() == part != "" for part in key.split(".")):
            raise _wrong(_path(above), "role names as text without empty parts", key)
        here = (*above, key)
        if len(here) > _DEEPEST:
            raise AttentionError(f"{_path(here)}: nested deeper than {_DEEPEST} levels; no role is")
        if isinstance(entry, Mapping) and entry and "backend" not in entry:
            yield from _flatten(entry, here)
        else:
            yield ".".join(here), _spec(entry, _path(here))


def _spec(entry: object, path: str) -> AttentionSpec:
    if isinstance(entry, AttentionSpec):
        return entry
    if isinstance(entry, str):
        return AttentionSpec(entry, path)
    if not isinstance(entry, Mapping):
        raise _wrong(path, "a backend's name or a mapping with the key 'backend'", entry)
    if not entry:
        raise AttentionError(f"{path}: is empty; give a backend's name, or leave the key out")
    if unknown := [str(key) for key in entry if key not in _SPEC_KEYS]:
        child = (
            " (a mapping with 'backend' is a spec and cannot hold child roles)" if "backend" in entry else ""
        )
        raise AttentionError(
            f"{path}: unknown key {unknown[0]!r}{child}; valid keys: {', '.join(_SPEC_KEYS)}"
        )
    backend = entry["backend"]
    if not isinstance(backend, str):
        raise _wrong(f"{path}.backend", "a backend's name", backend)
    return AttentionSpec(backend, f"{path}.backend")


def _read_json(text: str) -> object:
    try:
        return jsontext.loads(text)
    except json.JSONDecodeError as fault:
        raise AttentionError(
            f"attention config: not JSON at line {fault.lineno}, column {fault.colno}: {fault.msg}; "
            """expected text such as {"per_role": {"self": "TORCH_SDPA"}}"""
        ) from None
    except ValueError as fault:
        raise AttentionError(f"attention config: {fault}") from None


def _path(parts: tuple[str, ...]) -> str:
    return ".".join(("per_role", *parts))


def _wrong(path: str, expected: str, got: object) -> AttentionError:
    return AttentionError(f"{path}: expected {expected}, got {type(got).__name__} {got!r}")
