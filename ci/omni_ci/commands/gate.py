"""`omni-ci gate`: whether one level of one platform runs for this change. Exit 0 means skip, anything else run."""

from __future__ import annotations

import os
from pathlib import Path

from omni_ci.commands.changing import Changing
from omni_ci.showing.report import say
from omni_ci.starting.gating import gate_decision

SKIP, RUN = 0, 10


def gate(platform: str, level: str, /, *, changing: Changing | None = None) -> int:
    """Say by the exit code whether a level of a platform runs for this change.

    Exit code: 0 skip, 10 run. Whatever else happens (2 for a name that is not known, 4 for git, a crash) is not 0,
    so that a caller who skips on 0 alone runs the tests. A test file in --changed is more than skip marks.

    Parameters
    ----------
    platform
        A platform folder of the policy: cuda.
    level
        A level of the policy: l2.
    changing
        What changed.

    """
    asked = (changing or Changing()).asked()
    decision, notices = gate_decision(asked, platform, level, here=Path.cwd(), environ=os.environ)
    for notice in notices:
        say(f"note: {notice}")
    runs = decision.is_run(platform, level)
    print(f"{'run' if runs else 'skip'} {platform} {level}: {decision.because}")
    return RUN if runs else SKIP
