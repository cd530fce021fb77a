"""Which backend an attention role gets, and by which rule: a pure function. Torch-free."""

from __future__ import annotations

from dataclasses import dataclass

from omni.attention.registry import default_for
from omni.config.attention import AttentionConfig, AttentionSpec, Source


@dataclass(frozen=True, slots=True)
class Selection:
    """A backend for a role; *spec* is None where the platform chose, which does not mean SDPA."""

    backend: str
    spec: AttentionSpec | None
    source: Source

    @property
    def because(self) -> str:
        """The rule, and where the wish was written when that is known."""
        origin = self.spec.origin if self.spec is not None else ""
        return f"{self.source} ({origin})" if origin else str(self.source)


def select(role: str, category: str, config: AttentionConfig, *, platform: str) -> Selection:
    """Return the backend for *role*: its own entry, its category's, the default, else the platform's choice."""
    spec, source = config.resolve(role, category)
    return Selection(default_for(platform) if spec is None else spec.backend, spec, source)
