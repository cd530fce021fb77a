"""The `omni-ci` command line: one table of commands, each imported when it is called.

Cyclopts only gathers; what it cannot gather is printed by us, in one message, with exit code 2.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from omni_ci.errors import GuardError
from omni_hardware.errors import InfrastructureError, InputError, OmniError, did_you_mean, strip_controls

if TYPE_CHECKING:
    from cyclopts import App, CycloptsError

DISTRIBUTION = "pytest-omni"
ABOUT = "From one YAML dialect and a diff to a validated Buildkite pipeline, with a reason for every step."

# What the `ci` extra brings, by import name; the base install has none of it.
CI_MODULES = ("cyclopts", "rich", "pydantic", "yaml", "jinja2", "jsonschema", "buildkite_sdk")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A row of the command table: where the function is, and what `--help` says of it."""

    target: str
    about: str
    # Everything after `--` goes to the child command, untouched, as the parameter `forwarded`.
    forwards: bool = False
    # Reads its own words and needs no extra: it runs in images that hold the base install only.
    is_bare: bool = False
    # The exit code is that of a child, so that 125 is what says "nothing was run".
    is_transparent: bool = False
    # Its exit code 0 is an answer, which help and version, asked for among other words, must not give.
    answers_by_code: bool = False


COMMANDS: Mapping[str, Command] = MappingProxyType(
    {
        "plan": Command(target="omni_ci.commands.plan:plan", about="Show every step, run or skip, and why."),
        "generate": Command(
            target="omni_ci.commands.generate:generate",
            about="Write the Buildkite pipeline to standard output.",
        ),
        "upload": Command(
            target="omni_ci.commands.upload:upload",
            about="Hand the pipeline to buildkite-agent, with its reasons.",
        ),
        "bootstrap": Command(
            target="omni_ci.commands.bootstrap:bootstrap",
            about="Give the steps that upload pipelines their conditions.",
        ),
        "gate": Command(
            target="omni_ci.commands.gate:gate",
            about="Say by the exit code whether a level of a platform runs: 0 skip, 10 run.",
            answers_by_code=True,
        ),
        "lint": Command(
            target="omni_ci.commands.lint:lint",
            about="Say what is wrong with pipelines though they load and render.",
        ),
        "presets": Command(target="omni_ci.commands.presets:presets", about="List the hardware presets."),
        "init": Command(
            target="omni_ci.commands.init:init", about="Write a commented starter .buildkite folder."
        ),
        "exec": Command(
            target="omni_ci.commands.exec:exec_",
            about="Run a job's commands in its pod, each with a status of its own.",
            is_bare=True,
            is_transparent=True,
        ),
        "run": Command(
            target="omni_ci.commands.run:run",
            about="Run the selected steps that this machine can run.",
            is_transparent=True,
        ),
        "cov split": Command(
            target="omni_ci.commands.cov:split",
            about="Run a model's offline and online tests with a coverage report each.",
            forwards=True,
            is_transparent=True,
        ),
    }
)

# A command of two words belongs to a group; the group's line in `--help`.
GROUPS: Mapping[str, str] = MappingProxyType({"cov": "Coverage per model and mode."})


def main(tokens: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code; a user's mistake is one message."""
    try:
        words = sys.argv[1:] if tokens is None else list(tokens)
        _prepare_output(words)
        code = run(words)
        sys.stdout.flush()
    except OmniError as error:
        _say(f"omni-ci: {error}")
        code = error.exit_code
    except KeyboardInterrupt:
        _say("omni-ci: interrupted")
        code = 130
    except BrokenPipeError:
        _discard_output()  # the reader (`| head`) left
        code = 141
    except OSError as error:
        # files and programs have messages of their own by now: without a name this is standard output, on a full disk
        what = "standard output cannot be written" if error.filename is None else error.filename
        _say(f"omni-ci: {what}: {error.strerror}")
        _discard_output()
        code = InfrastructureError.exit_code
    sys.exit(code)


def run(tokens: list[str]) -> int:
    """Return the exit code of the command that *tokens* name; raises OmniError."""
    if tokens and (row := COMMANDS.get(tokens[0])) is not None and row.is_bare:
        return int(_loaded(row.target)(tokens[1:]))
    require_extra(CI_MODULES)
    require_known(tokens)
    _require_folder(tokens)
    import cyclopts

    own, forwarded = split_forwarded(tokens)
    try:
        command, bound, ignored = build_app().parse_args(own, exit_on_error=False, print_error=False)
    except cyclopts.CycloptsError as error:
        hint = "Arguments for the child go after `--`. " if _forwards(tokens) else ""
        raise InputError(f"{_in_our_words(error)}\n{hint}See `omni-ci --help`.") from None
    extra: dict[str, Any] = {"forwarded": forwarded} if "forwarded" in ignored else {}
    result = command(*bound.args, **bound.kwargs, **extra)
    if isinstance(result, int):
        return result
    is_asked = len(tokens) > 2 and any(row.answers_by_code for row in _rows(tokens))
    return InputError.exit_code if is_asked else 0


def require_extra(modules: Sequence[str], find: Callable[[str], object] = importlib.util.find_spec) -> None:
    """Raise InfrastructureError with the install line when a module of the `ci` extra is not installed."""
    if missing := [name for name in modules if find(name) is None]:
        raise InfrastructureError(
            f"the command line needs the `ci` extra ({', '.join(missing)} not installed for {sys.executable}).\n"
            f"Install it with: pip install '{DISTRIBUTION}[ci]'"
        )


def require_known(tokens: Sequence[str]) -> None:
    """Raise InputError when the leading words name no command; cyclopts would import all of them to say so."""
    known: set[str] = set(COMMANDS)
    for depth in (1, 2):
        word = tokens[depth - 1] if len(tokens) >= depth else "-"
        if word.startswith("-") or " ".join(tokens[: depth - 1]) in COMMANDS:
            return
        siblings = {name.split()[depth - 1] for name in known if len(name.split()) >= depth}
        if word not in siblings:
            raise InputError(
                f"no command {word!r}{did_you_mean(word, sorted(siblings))}\nSee `omni-ci --help`."
            )
        known = {name for name in known if name.split()[depth - 1] == word}


def _require_folder(tokens: Sequence[str]) -> None:
    """Raise where the folder that we were started in is gone: nothing can be looked for in it."""
    try:
        Path.cwd()
    except OSError as error:
        raise _refusal(tokens)(
            f"the folder that this was started in is gone: {error.strerror}; go to one that is there"
        ) from None


def _refusal(tokens: Sequence[str]) -> type[OmniError]:
    """Return the error for what is wrong around the command that *tokens* name, before it does anything."""
    is_transparent = any(row.is_transparent for row in _rows(tokens))
    return GuardError if is_transparent else InfrastructureError


def split_forwarded(tokens: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the tokens that are ours and those after `--` that a transparent command passes on."""
    if not _forwards(tokens) or "--" not in tokens:
        return list(tokens), ()
    at = list(tokens).index("--")
    return list(tokens[:at]), tuple(tokens[at + 1 :])


def build_app() -> App:
    """Return the cyclopts app over COMMANDS; no command module is imported yet."""
    import cyclopts

    # plain text: as Markdown, `coverage-<model id>` would lose the brackets and what is in them
    app = cyclopts.App(name="omni-ci", help=ABOUT, version=_version, help_format="plaintext")
    groups = {name: cyclopts.App(name=name, help=about) for name, about in GROUPS.items()}
    for group in groups.values():
        app.command(group)
    for name, row in COMMANDS.items():
        family, _, leaf = name.rpartition(" ")
        (groups[family] if family else app).command(row.target, name=leaf, help=row.about)
    return app


def _in_our_words(error: CycloptsError) -> str:
    """Return what is wrong with the arguments, in one line."""
    import cyclopts

    match error:
        case cyclopts.UnusedCliTokensError(unused_tokens=[word, *_]):
            return f"unexpected argument {word!r}"
        case cyclopts.MissingArgumentError(keyword=None, argument=argument) if (
            argument and not argument.tokens
        ):
            return f"`omni-ci {' '.join(error.command_chain or ())}` needs {argument.name}"
        case _:
            return " ".join(str(error).split())


def _forwards(tokens: Sequence[str]) -> bool:
    return any(row.forwards for row in _rows(tokens))


def _rows(tokens: Sequence[str]) -> list[Command]:
    words = f"{' '.join(tokens)} "
    return [row for name, row in COMMANDS.items() if words.startswith(f"{name} ")]


def _loaded(target: str) -> Callable[..., Any]:
    module, _, name = target.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def _version() -> str:
    from importlib.metadata import version

    return version(DISTRIBUTION)


def _prepare_output(tokens: Sequence[str]) -> None:
    """Let any text be printed in any locale. Raises where standard output is closed: nothing could be said."""
    if sys.stdout is None:
        raise _refusal(tokens)("standard output is closed; send it to a file or to /dev/null")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """Keep the interpreter's own flush at exit from complaining once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(message: str) -> None:
    if sys.stderr is not None:  # closed: print would take standard output instead
        with contextlib.suppress(OSError):  # on a full disk too, where the exit code has to do
            print(strip_controls(message), file=sys.stderr, flush=True)
