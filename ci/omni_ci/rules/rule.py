"""What a rule is, and what it finds."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from omni_ci.rules.context import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One thing a rule found.

    *subject* is what it is about: a step (`file#ident`) or a path; with *key* it names the finding for a baseline,
    so neither holds a line number.
    """

    file: str
    line: int
    subject: str
    key: str
    message: str


class Rule(ABC):
    """A question about the pipelines.

    The docstring of a rule is its documentation: the first line says what must hold, the rest why it hurts and what
    to do.
    """

    code: ClassVar[str]
    # Whether the answer needs every pipeline of the repository.
    asks_about_all: ClassVar[bool] = False

    @abstractmethod
    def check(self, context: Context) -> Iterator[Found]:
        """Yield what does not hold."""

    @property
    def title(self) -> str:
        """What must hold."""
        return self._documentation[0]

    @property
    def remedy(self) -> str:
        """Why it hurts, and what to do."""
        return re.sub(r"\s+", " ", self._documentation[1]).strip()

    @property
    def _documentation(self) -> tuple[str, str]:
        title, _, rest = inspect.cleandoc(type(self).__doc__ or "").partition("\n")
        return title, rest
