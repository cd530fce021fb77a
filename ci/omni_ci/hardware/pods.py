"""From a preset to the `agents`, `env`, `plugins` and `retry` of a step, through one template a plugin shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import DictLoader, StrictUndefined, TemplateError, meta, nodes
from jinja2.sandbox import SandboxedEnvironment

from omni_ci.hardware.pod_checks import check_pods
from omni_ci.hardware.preset_rows import NEEDED
from omni_ci.hardware.presets import Fragment, Preset, SkuPreset
from omni_ci.hardware.quantities import docker_size, multiplied
from omni_ci.yaml.document import plain
from omni_ci.yaml.emitting import yaml_scalar
from omni_ci.yaml.reading import read
from omni_hardware.errors import InputError, did_you_mean

SUFFIX = ".yml.j2"
# Every block has these, whatever its template makes of them: its own, and what rendering does with a step.
_ALWAYS = frozenset({"platform", "sku", "template", "cards", "queue", "per_card", "retry"})
_OF_THE_STEP = frozenset({"priority", "depends_on", "label_prefix", "setup", "test_commands", "required_env"})
_OPTIONAL = frozenset({*SkuPreset.model_fields, "cpu", "memory"}) - _ALWAYS - _OF_THE_STEP
# What a template can raise: it is a program, if a small one.
_FAILURES = (
    TemplateError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRules:
    """What policy says about every pod: secrets by variable name, and the retry rules for lost machines."""

    secrets: Mapping[str, str]
    infra_retry: Sequence[Mapping[str, Any]]


def template_folder() -> Path:
    """Return the folder of the templates that ship with the package."""
    return Path(__file__).resolve().parents[1] / "data" / "templates"


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
        self._rendered: dict[str, Mapping[str, Any]] = {}
        self._keys: dict[str, frozenset[str]] = {}

    def fragment(self, preset: Preset) -> dict[str, Any]:
        """Return the step keys of *preset*, a fresh copy each time. Raises InputError naming preset and template."""
        copied: dict[str, Any] = plain(self.shared(preset))
        return copied

    def shared(self, preset: Preset) -> Mapping[str, Any]:
        """Return what `fragment` does, one for all: thousands of steps hold the same pod, and nobody changes it."""
        if preset.name not in self._rendered:
            self._rendered[preset.name] = self._render(preset)
        return self._rendered[preset.name]

    def _render(self, preset: Preset) -> dict[str, Any]:
        if isinstance(preset.row, Fragment):
            return {name: plain(value) for name, value in preset.row.model_dump(exclude_none=True).items()}
        where = f"{preset.where}: preset {preset.name!r}"
        document = self._document(preset, preset.row, where)
        if unused := sorted(_written(preset.row) - (used := self._used(preset.row.template))):
            uses = ", ".join(sorted((used & _OPTIONAL) | _ALWAYS - {"per_card"}))
            raise InputError(
                f"{where}: template {preset.row.template} has no use for {', '.join(unused)}; take it out "
                f"(it uses {uses})"
            )
        # what a cluster would refuse, or two counts of cards, never leaves here
        if wrong := [f"{code} {message}" for code, message in check_pods(document, preset=preset.name)]:
            raise InputError(f"{where}: {'; '.join(wrong)}")
        return document

    def _document(self, preset: Preset, row: SkuPreset, where: str) -> dict[str, Any]:
        """Return what the template of *preset* writes. Raises InputError beginning with *where*."""
        name = row.template
        if name not in self._templates:
            raise InputError(f"{where}: unknown template {name!r}{did_you_mean(name, self._templates)}")
        try:
            text = self._jinja.get_template(name).render(_context(preset, row, self._rules))
        except _FAILURES as error:
            raise InputError(f"{where}: template {name}{SUFFIX}: {' '.join(str(error).split())}") from error
        # read like every other file: a key written twice is an error, and a date is text
        document, problems = read(text, f"template {name}{SUFFIX} as rendered")
        if problems:
            raise InputError(f"{where}: {problems[0]}")
        if not isinstance(document, dict):
            raise InputError(
                f"{where}: template {name}{SUFFIX} gave no mapping; it must write agents and plugins"
            )
        return {str(key): plain(value) for key, value in document.items()}

    def _used(self, name: str) -> frozenset[str]:
        """Return the keys of a block that template *name* reads; all of them where it builds on another template."""
        if name not in self._keys:
            self._keys[name] = self._read_by(name)
        return self._keys[name]

    def _read_by(self, name: str) -> frozenset[str]:
        tree = self._jinja.parse(self._templates[name])
        if any(tree.find_all((nodes.Include, nodes.Extends, nodes.Import, nodes.FromImport))):
            return _OPTIONAL
        read_names = frozenset(meta.find_undeclared_variables(tree))
        # docker hands a secret's variable on, and has no use for where Kubernetes would keep it
        reads_secrets = any(one.attr == "key" for one in tree.find_all(nodes.Getattr))
        return (read_names | set(NEEDED.get(name, ()))) - (set() if reads_secrets else {"secrets"})


def _written(row: SkuPreset) -> set[str]:
    """Return the optional keys that *row* gives a value, those of `per_card` by their own names."""
    given = {name for name in row.model_fields_set & _OPTIONAL if getattr(row, name)}
    return given | {name for name, value in row.per_card.model_dump().items() if value is not None}


def _context(preset: Preset, row: SkuPreset, rules: PodRules) -> dict[str, Any]:
    cards = preset.cards
    assert cards is not None, "a preset of a SKU always has a count"
    per_card = {
        name: multiplied(value, cards) if value is not None else None
        for name, value in row.per_card.model_dump().items()
    }
    shm = per_card["shm"] or row.shm
    own = preset.filled(row.model_dump())
    if own["hf_cache"]:
        own["env"].setdefault("HF_HOME", own["hf_cache"]["mount"])
    return {
        **own,
        "name": preset.name,
        "cards": cards,
        "cpu": per_card["cpu"],
        "memory": per_card["memory"],
        "shm": docker_size(shm) if shm and row.template == "docker" else shm,
        "secrets": _secrets({**rules.secrets, **own["secrets"]}, without=own["env"]),
        "retry": [dict(rule) for rule in rules.infra_retry] if row.retry == "infra" else [],
    }


def _secrets(sources: Mapping[str, str], *, without: Mapping[str, str]) -> list[dict[str, str]]:
    """Return one entry a secret variable, its `name/key` taken apart; a preset's own `env` wins over policy."""
    return [
        {"env": variable, "name": source.split("/")[0], "key": source.split("/")[1]}
        for variable, source in sources.items()
        if variable not in without
    ]
