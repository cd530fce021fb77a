"""Vendor tools that answer with what real ones were seen to print."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from omni_hardware.probes.tools import Output, Run

SAMPLES = Path(__file__).parents[1] / "smi"
VENDORS = {folder.name for folder in SAMPLES.iterdir() if folder.is_dir()}

Said = Callable[..., Run]


@pytest.fixture
def sample() -> Callable[[str], str]:
    """Return the text of a sample by its path below smi/."""
    return lambda name: (SAMPLES / name).read_text("utf-8")


@pytest.fixture
def said(sample: Callable[[str], str]) -> Said:
    """Make a Run from {words of a command: sample, Output or text}; the longest match answers, else "not found"."""

    def make(answers: dict[str, str | Output]) -> Run:
        def run(command: Sequence[str]) -> Output:
            line = " ".join(command)
            known = [key for key in answers if all(word in line.split() for word in key.split())]
            if not known:
                return Output(127, err=f"{command[0]}: not found")
            answer = answers[max(known, key=len)]
            if isinstance(answer, Output):
                return answer
            return Output(0, sample(answer) if answer.split("/")[0] in VENDORS else answer)

        return run

    return make
