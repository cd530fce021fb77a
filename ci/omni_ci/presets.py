"""Hardware presets: one block a SKU, one name a card count, and the literal fragments of older files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictInt, field_validator, model_validator

from omni_ci.document import LocatedDict, LocatedList, Problem, Where
from omni_ci.loading import LoadError, load_document
from omni_ci.model import Located, as_written
from omni_ci.quantities import value_of
from omni_ci.variables import check_names, check_secrets
from omni_hardware.errors import InputError, did_you_mean
from omni_hardware.vocabulary import ANY_SKU, DEFAULT, Vocabulary

# What the package's templates cannot do without; a template of the repository's own says so itself.
NEEDED = {"k8s-spec": "resource", "k8s-patch": "resource", "docker": "image"}
# `${name}` is Buildkite's, `{{name}}` a template's or a matrix's, and `{"a": 1}` is JSON in an environment.
_PLACEHOLDER = re.compile(r"(?<![${])\{([A-Za-z_][^{}\"':,\s]*)\}(?!\})")


def _quantity(value: object) -> str:
    value_of(value)
    return str(value)


def _texts(value: object) -> object:
    """Let YAML's numbers stand for the text they are written as: `1.10` is "1.10". A bool could be meant as either."""
    if not isinstance(value, Mapping):
        return value
    for name, item in value.items():
        if isinstance(item, bool):
            what = f"{name}: {str(item).lower()} is a bool here; quote what the variable shall hold"
            raise ValueError(what)  # noqa: TRY004 pydantic maps ValueError alone
    return as_written(value)


def strings_in(value: object) -> Iterator[str]:
    """Yield every text in nested mappings and sequences, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for pair in value.items() for one in pair for text in strings_in(one))
    elif isinstance(value, list | tuple):
        yield from (text for one in value for text in strings_in(one))


Quantity = Annotated[str, BeforeValidator(_quantity)]
Texts = Annotated[dict[str, str], BeforeValidator(_texts)]


class PerCard(Located):
    """What one card brings along; multiplied exactly by the number of cards."""

    cpu: Quantity | None = None
    memory: Quantity | None = None
    shm: Quantity | None = None


class HfCache(Located):
    """A host folder with downloaded models, and where the container sees it (`HF_HOME`)."""

    host: str = Field(pattern="^/")
    mount: str = Field(pattern="^/")


class SkuPreset(Located):
    """One SKU on one queue: the base of the presets `{name}_{cards}`."""

    platform: str
    sku: str
    template: str
    cards: tuple[StrictInt, ...] = Field(min_length=1)
    queue: str
    resource: str | None = None
    image: str | None = None
    shm: Quantity | None = None
    per_card: PerCard = Field(default_factory=PerCard)
    env: Texts = Field(default_factory=dict)
    job_env: Texts = Field(default_factory=dict)
    secrets: dict[str, str] = Field(default_factory=dict)
    agents: Texts = Field(default_factory=dict)
    node_selector: Texts = Field(default_factory=dict)
    annotations: Texts = Field(default_factory=dict)
    priority_class: str | None = None
    service_account: str | None = None
    image_pull_secrets: tuple[str, ...] = ()
    hf_cache: HfCache | None = None
    retry: Literal["infra", "none"] = "infra"

    @field_validator("cards")
    @classmethod
    def _counted_once(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(value)) != len(value):
            raise ValueError("a card count stands here twice")
        return value

    @field_validator("*")
    @classmethod
    def _one_placeholder(cls, value: object) -> object:
        shown = value.model_dump() if isinstance(value, Located) else value
        for name in (name for text in strings_in(shown) for name in _PLACEHOLDER.findall(text)):
            if name != "cards":
                raise ValueError(f"unknown placeholder {{{name}}}; {{cards}} is the only one")
        return value

    @field_validator("env", "job_env", "secrets")
    @classmethod
    def _environment_is_ours_to_set(cls, value: dict[str, str]) -> dict[str, str]:
        check_names(value)
        return value

    @field_validator("secrets")
    @classmethod
    def _secret_has_a_key(cls, value: dict[str, str]) -> dict[str, str]:
        check_secrets(value)
        return value

    @model_validator(mode="after")
    def _template_gets_what_it_needs(self) -> SkuPreset:
        needed = NEEDED.get(self.template)
        if needed and getattr(self, needed) is None:
            raise ValueError(f"template {self.template} needs `{needed}:`")
        if self.shm is not None and self.per_card.shm is not None:
            raise ValueError("shm is given twice, as `shm:` and as `per_card.shm`; keep one")
        if both := self.env.keys() & self.secrets.keys():
            raise ValueError(f"{min(both)} is under `env:` and under `secrets:`; keep one")
        return self


class Fragment(Located):
    """The literal keys of a step, taken as they are."""

    agents: dict[str, Any] | list[str] | None = None
    plugins: list[str | dict[str, Any]] | dict[str, Any] | None = None
    image: str | None = None
    retry: dict[str, Any] | None = None


class PresetsFile(Located):
    """presets.yml; a file with a top-level `mirror_hardwares:` loads too, as fragments."""

    schema_: Literal[1] = Field(1, alias="schema")
    skus: dict[str, SkuPreset] = Field(default_factory=dict)
    fragments: dict[str, Fragment] = Field(default_factory=dict)
    mirror_hardwares: dict[str, Fragment] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A name a step can ask for. *cards* is None for a literal fragment whose name ends in no number."""

    name: str
    cards: int | None
    row: SkuPreset | Fragment

    @property
    def where(self) -> Where:
        """Return where its block starts."""
        return self.row.where

    @property
    def queue(self) -> str | None:
        """Return the queue its jobs wait in, None where a fragment names none."""
        if isinstance(self.row, SkuPreset):
            return str(self.filled(self.row.queue))
        return self.row.agents.get("queue") if isinstance(self.row.agents, dict) else None

    @property
    def image(self) -> str | None:
        return None if self.row.image is None else str(self.filled(self.row.image))

    @property
    def platform(self) -> str | None:
        return self.row.platform if isinstance(self.row, SkuPreset) else None

    def filled(self, value: Any) -> Any:
        """Return *value* with `{cards}` replaced in every text of it; a literal fragment's texts stay as they are."""
        if isinstance(self.row, Fragment):
            return value
        if isinstance(value, str):
            return _PLACEHOLDER.sub(str(self.cards), value)
        if isinstance(value, Mapping):
            return {self.filled(key): self.filled(item) for key, item in value.items()}
        return [self.filled(item) for item in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Presets:
    """Every preset of one file, in the file's order."""

    file: str
    by_name: Mapping[str, Preset]
    notices: tuple[str, ...] = ()

    def find(self, name: str, *, at: str) -> Preset:
        """Return the preset called *name*; *at* ("file:line: step 'x'") is where it was asked for. Raises InputError."""
        if name not in self.by_name:
            raise InputError(
                f"{at}: unknown preset {name!r}{did_you_mean(name, self.by_name)}; presets are in {self.file}"
            )
        return self.by_name[name]


def load_presets(text: str | bytes, *, name: str, vocabulary: Vocabulary = DEFAULT) -> Presets:
    """Return the presets in *text*; *name* is the file's path for messages.

    Raises LoadError with all problems: unknown keys, platforms, SKUs, card counts and placeholders, quantities
    Kubernetes would refuse, and two presets of one name.
    """
    loaded = load_document(text, name, PresetsFile, check=partial(_against, vocabulary))
    every = list(_presets(loaded))
    by_name: dict[str, Preset] = {}
    twice: list[Problem] = []
    for preset in every:
        if preset.name in by_name:
            first = by_name[preset.name].where
            twice.append(
                Problem(preset.where, f"preset {preset.name!r} is already made by line {first.line}")
            )
        by_name.setdefault(preset.name, preset)
    if twice:
        raise LoadError(twice)
    notices = (f"{name}: mirror_hardwares: is read as fragments:",) if loaded.mirror_hardwares else ()
    return Presets(file=name, by_name=by_name, notices=notices)


def _presets(loaded: PresetsFile) -> Iterator[Preset]:
    for name, row in loaded.skus.items():
        for cards in row.cards:
            yield Preset(name=f"{name}_{cards}", cards=cards, row=row)
    for name, fragment in (*loaded.fragments.items(), *loaded.mirror_hardwares.items()):
        suffix = re.search(r"_(\d+)$", name)
        yield Preset(name=name, cards=int(suffix[1]) if suffix else None, row=fragment)


def _against(vocabulary: Vocabulary, document: Any) -> Iterator[Problem]:
    """Yield the words of the SKU blocks that *vocabulary* does not know."""
    blocks = document.get("skus") if isinstance(document, LocatedDict) else None
    for name, block in blocks.items() if isinstance(blocks, LocatedDict) else ():
        if isinstance(block, LocatedDict):
            yield from _block_against(vocabulary, f"skus.{name}", block)


def _block_against(vocabulary: Vocabulary, path: str, block: LocatedDict) -> Iterator[Problem]:
    platforms = [row.name for row in vocabulary.platforms if row.skus != (ANY_SKU,)]
    platform, sku, cards = block.get("platform"), block.get("sku"), block.get("cards")
    row = vocabulary.platform(platform) if isinstance(platform, str) and platform in platforms else None
    if isinstance(platform, str) and row is None:
        what = f"{path}.platform: unknown platform {platform!r}{did_you_mean(platform, platforms)}"
        yield Problem(block.keys_at["platform"], what)
    if row is not None and isinstance(sku, str) and sku not in row.skus:
        hint = did_you_mean(sku, row.skus)
        yield Problem(block.keys_at["sku"], f"{path}.sku: unknown SKU {sku!r} of platform {row.name!r}{hint}")
    if isinstance(cards, LocatedList):
        known = vocabulary.cards
        for count, where in zip(cards, cards.items_at, strict=True):
            if isinstance(count, int) and count not in known:
                yield Problem(where, f"{path}.cards: {count} is not among {known[0]}…{known[-1]}")
