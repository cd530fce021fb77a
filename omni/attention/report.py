"""What became of every attention module of a pipeline's denoisers: the accounting people and tests read. Torch-free."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from omni.attention.selector import Selection


@dataclass(frozen=True, slots=True)
class Bound:
    """An attention module that runs the backend chosen for its role; *path* starts with the denoiser's name."""

    path: str
    role: str
    category: str
    selection: Selection


@dataclass(frozen=True, slots=True)
class Unreachable:
    """An attention module that keeps the library's own attention, and why."""

    path: str
    because: str


@dataclass(frozen=True, slots=True)
class ResolutionReport:
    """Every attention module once, either bound or unreachable; `str` gives the lines to print."""

    bound: tuple[Bound, ...]
    unreachable: tuple[Unreachable, ...]

    @property
    def total(self) -> int:
        return len(self.bound) + len(self.unreachable)

    def __str__(self) -> str:
        head = (
            f"attention: {self.total} modules = {len(self.bound)} bound by dispatch + "
            f"{len(self.unreachable)} unreachable"
        )
        groups = Counter((item.role, item.selection.backend, item.selection.because) for item in self.bound)
        rows = [(role, backend, f"{because}, x{count}") for (role, backend, because), count in groups.items()]
        widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
        lines = [f"  {role:<{widths[0]}}  {backend:<{widths[1]}}  {rest}" for role, backend, rest in rows]
        return "\n".join([head, *lines, *(f"  {item.path}: {item.because}" for item in self.unreachable)])
