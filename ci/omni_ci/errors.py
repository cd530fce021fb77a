"""What the orchestrator adds to the shared error tree.

OmniError
└── GuardError             exit 125  a transparent command refused before its first child ran
"""

from __future__ import annotations

from typing import ClassVar

from omni_hardware.errors import OmniError


class GuardError(OmniError):
    """A guard of a transparent command (`cov split`) refused; nothing was run.

    125 is no child's own status, so a reader of the exit code can tell "refused" from "the tests failed".
    """

    exit_code: ClassVar[int] = 125
