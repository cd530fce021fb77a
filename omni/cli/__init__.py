"""The `omni` command: gathers arguments, hands them to the runtime, turns errors into one message and an exit code.

Exit codes: 0 fine · 2 the input is wrong · 4 a port, a device, a network or a disk failed · 130 interrupted ·
141 nobody reads the output.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

from omni.cli.dotted import fold
from omni.cli.stdout import ReaderGone, guarded
from omni.errors import OmniError, strip_controls

if TYPE_CHECKING:
    import cyclopts

COMMANDS = {
    "generate": "omni.cli.generate:generate",
    "serve": "omni.cli.serve:serve",
    "tiny": "omni.cli.tiny:tiny",
}
"""Command name -> its function; none of these modules imports torch before it is called."""

_NESTED_OPTION = "--diffusion-attention-config"
_INTERRUPTED = 130


def main() -> None:
    """Run the command line of this process and exit."""
    sys.exit(run(sys.argv[1:]))


def run(argv: Sequence[str]) -> int:
    """Run *argv* and return the exit code; a user's mistake is one message on stderr, without a traceback."""
    try:
        import cyclopts
    except ModuleNotFoundError:
        return _fail("the runtime is not installed: pip install 'pytest-omni[runtime]'", 4)
    try:
        with guarded():
            _app()(
                fold(argv, _NESTED_OPTION),
                exit_on_error=False,
                print_error=False,
                result_action="return_value",
            )
    except ReaderGone as error:
        return error.exit_code
    except cyclopts.CycloptsError as error:
        return _fail(f"{_sentence(error)}; see {_help_of(argv)}", 2)
    except OmniError as error:
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


def _app() -> cyclopts.App:
    import cyclopts

    app = cyclopts.App(
        name="omni",
        help="Generate images with diffusion models, or serve them over the OpenAI API.",
        version=version("pytest-omni"),
        help_format="plaintext",
    )
    for name, place in COMMANDS.items():
        module, _, function = place.partition(":")
        app.command(getattr(import_module(module), function), name=name)
    return app


def _sentence(error: cyclopts.CycloptsError) -> str:
    import cyclopts

    if isinstance(error, cyclopts.UnusedCliTokensError) and error.unused_tokens:
        return f"unexpected argument {error.unused_tokens[0]!r}"
    return str(error).rstrip(".")


def _help_of(argv: Sequence[str]) -> str:
    command = f"omni {argv[0]}" if argv and argv[0] in COMMANDS else "omni"
    return f"`{command} --help`"


def _fail(message: str, code: int) -> int:
    with contextlib.suppress(OSError):  # the code still tells
        print(f"omni: {strip_controls(message)}", file=sys.stderr)
    return code
