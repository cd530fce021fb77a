"""The same thing said of many steps, as one notice: how many, and where the first of them stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from omni_ci.yaml.model import Step

_SHOWN = 3


@dataclass(slots=True)
class ToldOnce:
    """Notices of steps by what they are about; of each, what is said and the steps it is said of, in file order."""

    _said: dict[str, tuple[dict[str, None], list[Step]]] = field(default_factory=dict)

    def add(self, step: Step, said: str, *, about: str) -> None:
        """Say *said* of *step*, together with what is said of other steps *about* the same."""
        sentences, steps = self._said.setdefault(about, ({}, []))
        sentences[said] = None
        steps.append(step)

    def notices(self) -> Iterator[str]:
        """Yield a notice for each thing that was said."""
        for sentences, steps in self._said.values():
            said = " or ".join(sentences)
            if len(steps) == 1:
                yield f"{place_of(steps[0])}: {said}"
            else:
                where = steps[0].where
                yield f"{where.file}:{where.line}: {len(steps)} steps: {said}: {_listed(steps)}"


def place_of(step: Step) -> str:
    """Return where *step* stands and what it is called."""
    return f"{step.where.file}:{step.where.line}: step {step.label or step.ident!r}"


def _listed(steps: list[Step]) -> str:
    shown = [f"{step.label or step.ident!r} (line {step.where.line})" for step in steps[:_SHOWN]]
    rest = len(steps) - len(shown)
    return f"{', '.join(shown)} and {rest} more" if rest else f"{', '.join(shown[:-1])} and {shown[-1]}"
