"""What a presets file may say: a block a SKU, literal fragments, and the placeholder between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    field_validator,
    model_validator,
)

from omni_ci.hardware.quantities import value_of
from omni_ci.hardware.variables import ENV_NAME, check_names, check_sources, check_values
from omni_ci.yaml.fields import Located, as_written
from omni_ci.yaml.fields import Texts as OneOrMany

# What the package's templates cannot do without; a template of the repository's own says so itself.
NEEDED: Mapping[str, tuple[str, ...]] = {
    "k8s-spec": ("resource",),
    "k8s-patch": ("resource",),
    "k8s-class": ("resource_class", "image"),
    "docker": ("image",),
}
# `${name}` is Buildkite's, `{{name}}` a template's or a matrix's, and `{"a": 1}` is JSON in an environment.
PLACEHOLDER = re.compile(r"(?<![${])\{([A-Za-z_][^{}\"':,\s]*)\}(?!\})")
# One word of a command line, below the root of the checkout.
_SCRIPT = re.compile(r"(?!.*(?:^|/)\.\.(?:/|$))[A-Za-z0-9_.][A-Za-z0-9_./-]*")


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
    # the pod
    resource: str | None = None
    resource_class: str | None = None
    image: str | None = None
    shm: Quantity | None = None
    per_card: PerCard = Field(default_factory=PerCard)
    env: Texts = Field(default_factory=dict)
    secrets: dict[str, str] = Field(default_factory=dict)
    node_selector: Texts = Field(default_factory=dict)
    annotations: Texts = Field(default_factory=dict)
    priority_class: str | None = None
    service_account: str | None = None
    image_pull_secrets: tuple[str, ...] = ()
    hf_cache: HfCache | None = None
    runner: StrictStr | None = None
    # the job
    agents: Texts = Field(default_factory=dict)
    job_env: Texts = Field(default_factory=dict)
    retry: Literal["infra", "none"] = "infra"
    priority: StrictInt | None = None
    depends_on: OneOrMany = ()
    label_prefix: StrictStr = ""
    setup: OneOrMany = ()
    test_commands: StrictBool = False
    required_env: OneOrMany = ()

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
        for name in (name for text in strings_in(shown) for name in PLACEHOLDER.findall(text)):
            if name != "cards":
                raise ValueError(f"unknown placeholder {{{name}}}; {{cards}} is the only one")
        return value

    @field_validator("env", "job_env", "secrets")
    @classmethod
    def _environment_is_ours_to_set(cls, value: dict[str, str]) -> dict[str, str]:
        check_names(value)
        return value

    @field_validator("env", "job_env")
    @classmethod
    def _no_secret_is_written_here(cls, value: dict[str, str]) -> dict[str, str]:
        check_values(value)
        return value

    @field_validator("secrets")
    @classmethod
    def _secret_has_a_key(cls, value: dict[str, str]) -> dict[str, str]:
        check_sources(value)
        return value

    @field_validator("runner")
    @classmethod
    def _is_one_script(cls, value: str | None) -> str | None:
        if value is not None and not _SCRIPT.fullmatch(value):
            raise ValueError(f"{value!r} is no path of a script from the repository's root, without spaces")
        return value

    @field_validator("required_env")
    @classmethod
    def _names_variables(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not ENV_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name of an environment variable")
        return value

    @model_validator(mode="after")
    def _is_of_one_piece(self) -> SkuPreset:
        for needed in NEEDED.get(self.template, ()):
            if getattr(self, needed) is None:
                raise ValueError(f"template {self.template} needs `{needed}:`")
        if self.shm is not None and self.per_card.shm is not None:
            raise ValueError("shm is given twice, as `shm:` and as `per_card.shm`; keep one")
        blocks = {"env": self.env, "job_env": self.job_env, "secrets": self.secrets}
        for one, other in (("env", "secrets"), ("env", "job_env"), ("job_env", "secrets")):
            if both := blocks[one].keys() & blocks[other].keys():
                raise ValueError(f"{min(both)} is under `{one}:` and under `{other}:`; keep one")
        if self.test_commands and self.runner is None:
            raise ValueError("`test_commands:` is for a `runner:` that reads them, and there is none")
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
