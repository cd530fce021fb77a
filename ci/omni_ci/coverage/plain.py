"""The tests of a split where nothing is to be measured: all of its paths in one plain pytest run."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from omni_ci.coverage import tally as tallying
from omni_ci.coverage.run import Children
from omni_ci.coverage.split import (
    OFF,
    VARIABLE,
    Counts,
    Half,
    Mode,
    Outcome,
    Plan,
    Verdict,
    judge,
    judge_half,
)
from omni_ci.coverage.upload import Say
from omni_hardware.errors import InputError, did_you_mean


def is_off(environ: Mapping[str, str]) -> bool:
    """Return whether *environ* says that nothing is to be measured. Raises InputError for any other word."""
    word = environ.get(VARIABLE, "")
    if word not in {"", "on", OFF}:
        raise InputError(f"{VARIABLE} is {word!r}; it must be on or off{did_you_mean(word, ('on', OFF))}")
    return word == OFF


def run_plain(plan: Plan, children: Children, *, environ: Mapping[str, str], say: Say) -> Verdict:
    """Run the tests of both halves in one pytest and return how that ended: its own code, 5 when none was executed."""
    paths = tuple(dict.fromkeys(path for half in plan.halves for path in half.paths))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-s",
        "-v",
        *paths,
        *plan.forwarded,
        "-p",
        tallying.__name__,
    ]
    say(f"--- {plan.model_id} without coverage ({VARIABLE}={OFF}): {shlex.join(command)}")
    with tempfile.TemporaryDirectory(prefix="cov-split-") as scratch:
        tally = Path(scratch) / "tally.json"
        status = children.run(command, environ={**environ, tallying.ENVIRONMENT: str(tally)})
        counts = Counts(**json.loads(tally.read_text(encoding="utf-8"))) if tally.is_file() else None
    ran = Outcome(half=Half(mode=Mode.OFFLINE, paths=paths, xml=""), status=status, counts=counts)
    return judge([], interrupted=children.received) if children.received else judge_half(ran)
