"""`omni-ci exec`: a job's commands in its pod. Needs no extra: argparse, and imports of the runner's own kind."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from omni_ci.errors import GuardError
from omni_ci.runner.executing import Asked, execute
from omni_ci.runner.platforms import PLATFORMS
from omni_ci.runner.running import GRACE_S
from omni_ci.runner.stopping import heard_signals
from omni_hardware.errors import InputError, did_you_mean

_EPILOG = """\
What runs: the command after the options, else the JSON array in OMNI_COMMANDS, else TEST_COMMANDS as one unit.
Exit code: 2 for wrong arguments, 125 when a guard refused before the first command, then the first status that is
neither 0 nor 5, else 5 when a command ran no tests (0 with VLLM_CI_ALLOW_NO_TESTS=1), 124 for --timeout.
"""


_UNKNOWN = re.compile(r"unrecognized arguments: (-\S+)")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise InputError instead of ending the process with a usage of several lines."""
        if unknown := _UNKNOWN.match(message):
            hint = did_you_mean(unknown[1], sorted(self._option_string_actions))
            message = f"there is no option {unknown[1]}{hint}"
        raise InputError(f"{message}\nSee `omni-ci exec --help`.")


def exec_(tokens: Sequence[str]) -> int:
    """Run a job's commands in its pod, each with a status of its own."""
    options = parse(tokens)
    try:
        here = Path.cwd()
    except OSError as error:
        raise GuardError(f"the folder that this was started in is gone: {error.strerror}") from None
    with heard_signals() as stop:
        return execute(options, environ=dict(os.environ), cwd=here, stop=stop)


def parse(tokens: Sequence[str]) -> Asked:
    """Return what *tokens* ask for; everything from the first word that is no option on is the command."""
    parser = _Parser(
        prog="omni-ci exec",
        description=exec_.__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--platform", metavar="NAME", help=f"{', '.join(PLATFORMS)}: its guards and defaults")
    parser.add_argument(
        "--timeout",
        type=_seconds,
        metavar="S",
        help="seconds for all commands together; then TERM, then KILL",
    )
    parser.add_argument(
        "--grace",
        type=_seconds,
        default=GRACE_S,
        metavar="S",
        help=f"seconds from TERM to KILL ({GRACE_S:g})",
    )
    parser.add_argument(
        "--fail-on-leaks", action="store_true", help="1 when processes are left and tests were 0"
    )
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="[--] COMMAND", help="what to run instead"
    )
    found = parser.parse_args(list(tokens))
    words = found.command[1:] if found.command[:1] == ["--"] else found.command
    return Asked(
        platform=found.platform,
        timeout_s=found.timeout,
        grace_s=found.grace,
        fail_on_leaks=found.fail_on_leaks,
        words=tuple(words),
    )


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return found
