"""From a preset to the `agents`, `env`, `plugins` and `retry` of a step, through one template a plugin shape."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jinja2 import DictLoader, StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from omni_ci.presets import Fragment, Preset, SkuPreset
from omni_ci.quantities import docker_size, multiplied
from omni_hardware.errors import InputError, did_you_mean

SUFFIX = ".yml.j2"
_SURROGATES = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRules:
    """What policy says about every pod: secrets by variable name, and the retry rules for lost machines."""

    secrets: Mapping[str, str]
    infra_retry: Sequence[Mapping[str, Any]]


def template_folder() -> Path:
    """Return the folder of the templates that ship with the package."""
    return Path(__file__).resolve().parent / "data" / "templates"


@cache
def package_templates() -> Mapping[str, str]:
    """Return the templates that ship with the package: name (`k8s-spec`) to text."""
    return {
        path.name.removesuffix(SUFFIX): path.read_text(encoding="utf-8")
        for path in sorted(template_folder().glob(f"*{SUFFIX}"))
    }


class Pods:
    """Renders presets; one preset is rendered once.

    *templates* maps a name to its Jinja2 text. They run sandboxed, an undefined name is an error, and every
    value goes in through `tojson`, so no value can change the document's structure.
    """

    def __init__(self, templates: Mapping[str, str], rules: PodRules) -> None:
        self._templates = templates
        self._rules = rules
        # The output is YAML and every value passes `tojson`; HTML escaping would corrupt it.
        self._jinja = SandboxedEnvironment(
            loader=DictLoader(dict(templates)),
            undefined=StrictUndefined,
            autoescape=False,
            trim_blocks=False,
        )
        self._jinja.filters["tojson"] = yaml_scalar
        self._rendered: dict[str, str] = {}

    def fragment(self, preset: Preset) -> dict[str, Any]:
        """Return the step keys of *preset*, a fresh copy each time. Raises InputError naming preset and template."""
        if preset.name not in self._rendered:
            self._rendered[preset.name] = json.dumps(self._render(preset))
        fragment: dict[str, Any] = json.loads(self._rendered[preset.name])
        return fragment

    def _render(self, preset: Preset) -> dict[str, Any]:
        if isinstance(preset.row, Fragment):
            return preset.row.model_dump(exclude_none=True)
        name = preset.row.template
        where = f"{preset.where}: preset {preset.name!r}"
        if name not in self._templates:
            raise InputError(f"{where}: unknown template {name!r}{did_you_mean(name, self._templates)}")
        try:
            text = self._jinja.get_template(name).render(_context(preset, preset.row, self._rules))
            document = yaml.safe_load(text)
        except (TemplateError, yaml.YAMLError, TypeError, ValueError, ArithmeticError) as error:
            raise InputError(f"{where}: template {name}{SUFFIX}: {' '.join(str(error).split())}") from error
        if not isinstance(document, dict):
            raise InputError(
                f"{where}: template {name}{SUFFIX} gave no mapping; it must write agents and plugins"
            )
        return document


def yaml_scalar(value: object) -> str:
    """Return *value* as one line of JSON that YAML reads back as the same value.

    JSON is almost YAML: a character above U+FFFF needs one escape instead of a pair, and DEL has to be escaped.
    """
    text = json.dumps(value, ensure_ascii=True)
    return _SURROGATES.sub(_astral, text).replace("\x7f", "\\u007f")


def _astral(pair: re.Match[str]) -> str:
    high, low = (int(half, 16) for half in pair.groups())
    return f"\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"


def _context(preset: Preset, row: SkuPreset, rules: PodRules) -> dict[str, Any]:
    cards = preset.cards
    assert cards is not None, "a preset of a SKU always has a count"
    per_card = {
        name: multiplied(value, cards) if value is not None else None
        for name, value in row.per_card.model_dump().items()
    }
    shm = per_card["shm"] or row.shm
    env = dict(row.env)
    if row.hf_cache:
        env.setdefault("HF_HOME", row.hf_cache.mount)
    return {
        "name": preset.name,
        "platform": row.platform,
        "sku": row.sku,
        "cards": cards,
        "queue": preset.queue,
        "agents": row.agents,
        "resource": preset.filled(row.resource),
        "image": preset.image,
        "cpu": per_card["cpu"],
        "memory": per_card["memory"],
        "shm": docker_size(shm) if shm and row.template == "docker" else shm,
        "env": env,
        "job_env": row.job_env,
        "secrets": _secrets({**rules.secrets, **row.secrets}, without=env),
        "node_selector": row.node_selector,
        "annotations": row.annotations,
        "priority_class": row.priority_class,
        "service_account": row.service_account,
        "image_pull_secrets": row.image_pull_secrets,
        "hf_cache": row.hf_cache.model_dump() if row.hf_cache else None,
        "retry": [dict(rule) for rule in rules.infra_retry] if row.retry == "infra" else [],
    }


def _secrets(sources: Mapping[str, str], *, without: Mapping[str, str]) -> list[dict[str, str]]:
    """Return one entry a secret variable, its `name/key` taken apart; a preset's own `env` wins over policy."""
    return [
        {"env": variable, "name": source.split("/")[0], "key": source.split("/")[1]}
        for variable, source in sources.items()
        if variable not in without
    ]
