"""The types of fields, and the parts of a document that know their place: what the models are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ModelWrapValidatorHandler,
    PrivateAttr,
    StrictStr,
    model_validator,
)

from omni_ci.yaml.document import LocatedDict, LocatedList, Where, flattened, plain


def one_or_many(value: Any) -> Any:
    """Return a lone text or mapping as a list of it."""
    return [value] if isinstance(value, str | Mapping) else value


def _flat(value: Any) -> Any:
    leaves = list(value) if isinstance(value, tuple) else [leaf for leaf, _ in flattened(value, Where(""))]
    # Anything but text stays in, for the field's type to refuse.
    return [leaf for index, leaf in enumerate(leaves) if leaf not in leaves[:index]]


def as_written(value: Any) -> Any:
    """Return a mapping with its numbers and bools as the text they are written as: `1.10` is "1.10"."""
    if not isinstance(value, Mapping):
        return value
    texts = value.texts if isinstance(value, LocatedDict) else {}
    return {
        key: texts.get(key, str(item).lower() if isinstance(item, bool) else str(item))
        if isinstance(item, bool | int | float)
        else item
        for key, item in value.items()
    }


Json = Annotated[Any, AfterValidator(plain)]
Texts = Annotated[tuple[StrictStr, ...], BeforeValidator(one_or_many)]
Dependencies = Annotated[tuple[StrictStr, ...], BeforeValidator(_flat)]
Environment = Annotated[dict[str, StrictStr], BeforeValidator(as_written)]


class Located(BaseModel):
    """A part of a document that knows its place; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    _where: Where = PrivateAttr(default=Where("<memory>"))
    _keys_at: Mapping[str, Where] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _remember_place(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        made = handler(data)
        if isinstance(data, LocatedDict):
            made._where, made._keys_at = data.where, data.keys_at  # noqa: SLF001 - one of three places that set them
            for key, value in data.items():
                if isinstance(value, LocatedDict):
                    _place_at_names(getattr(made, key, None), value)
                elif isinstance(value, LocatedList):
                    _place_words(getattr(made, key, None), value)
        return made

    @property
    def where(self) -> Where:
        """The place this part starts at."""
        return self._where

    def place(self, key: str) -> Where:
        """Return where *key* is written, the part's start for one that is not."""
        return self._keys_at.get(key, self._where)


def _place_at_names(parts: Any, written: LocatedDict) -> None:
    """Let each part of a mapping start where its name is written, and not at the first key below it."""
    for name, part in parts.items() if isinstance(parts, dict) else ():
        if isinstance(part, Located):
            part._where = written.keys_at[name]  # noqa: SLF001 - the second


def _place_words(parts: Any, written: LocatedList) -> None:
    """Let a part that is written as a bare word start where the word stands: words do not know their place."""
    for part, item, where in zip(
        parts if isinstance(parts, tuple) else (), written, written.items_at, strict=False
    ):
        if isinstance(part, Located) and isinstance(item, str):
            part._where = where  # noqa: SLF001 - the third
