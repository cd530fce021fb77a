"""What a script does with the status of a test run, where that is to forgive its failure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile

from omni_ci.shell.runs import Command

# Of these a failure of what stands in them is not the status: a condition, or a text that runs another time.
_CONDITIONS = frozenset(["if", "while"])
_OF_THEIR_OWN = frozenset(["function", "trap"])
_ALWAYS_0 = frozenset([":", "true", "echo", "printf"])
_SAY = frozenset(["echo", "printf", "export", "local", "declare", "unset", "logger", "buildkite-agent"])
_TESTS = frozenset(["test", "[", "[["])
_LEAVES_A_LOOP = frozenset([("break",), ("exit", "0"), ("return", "0"), ("exit",), ("return",)])
_JOINS = frozenset(["&&", "||", "|", "|&"])
_NO_TESTS = "5"


def forgiven(script: Sequence[Command], at: int, tests: frozenset[tuple[str, ...]]) -> str | None:
    """Return how the failure of the test run at *at* of *script* is forgiven, None where it arrives.

    *tests* are the words of all its test runs: one that is run in the place of a failed one answers for both.
    """
    run = script[at]
    depth = _condition(run.inside)
    if depth is not None and run.inside[depth] == "while":
        return "a `while` or `until` repeats failed tests until they pass"
    if depth is not None:
        kept = _body_fails(script, at, depth, tests)
        return None if kept else "`if` takes their status, and no branch ends with another than 0"
    if run.is_inverted:
        return "`!` turns their status around"
    return _after_operator(script, at, tests)


def _condition(inside: Sequence[str]) -> int | None:
    """Return the depth of the condition whose answer a command is, None where it stands in none."""
    for depth in reversed(range(len(inside))):
        if inside[depth] in _CONDITIONS:
            return depth
        if inside[depth] in {"then", "do", "case", *_OF_THEIR_OWN}:
            return None
    return None


def _body_fails(script: Sequence[Command], at: int, depth: int, tests: frozenset[tuple[str, ...]]) -> bool:
    outer = script[at].inside[:depth]
    body: list[Command] = []
    for command in script[at + 1 :]:
        if command.inside[:depth] != outer or len(command.inside) == depth:
            break
        if command.inside[depth] == "then":
            body.append(command)
        elif body:
            break
    rest = script[script.index(body[-1]) + 1 :] if body else ()
    if script[at].is_inverted and any(command.words in tests for command in body):
        return True
    names = {name for command in body for name, _ in command.assigns}
    return any(_fails(command) for command in body) or any(_asked_for(name, rest) for name in names)


def _after_operator(script: Sequence[Command], at: int, tests: frozenset[tuple[str, ...]]) -> str | None:
    handler = _handler(script, at)
    if handler is None:
        return _repeated(script, at)
    commands = list(_handling(script, *handler))
    rest = script[handler[0] + len(commands) :]
    if any(_fails(command) or command.words in tests for command in commands):
        return None
    kept = (
        name for command in commands for name, value in command.assigns if value.strip("\"'") not in {"0", ""}
    )
    return None if any(_asked_for(name, rest) for name in kept) else _said(commands)


def _repeated(script: Sequence[Command], at: int) -> str | None:
    """Return that the run is repeated: a loop is left once it passes, and not otherwise."""
    following = script[at + 1] if at + 1 < len(script) else None
    if (
        script[at].after == "&&"
        and "do" in script[at].inside
        and following
        and following.words in _LEAVES_A_LOOP
    ):
        return "a loop repeats failed tests until they pass"
    return None


def _handler(script: Sequence[Command], at: int) -> tuple[int, int] | None:
    """Return where what `||` does after the run at *at* begins, and how deep that `||` stands.

    The operator is the run's own, that of the list it stands in (`a && b ||`, `a | b ||`), or the one behind a group.
    """
    level, operator = script[at].inside, script[at].after
    for index, (previous, command) in enumerate(pairwise(script[at:]), at + 1):
        shared = _shared(level, command.inside)
        if shared == len(level):
            is_closed = previous.inside == level and previous.after != "||" and bool(level)
            if command.before == "||" and (operator in _JOINS or (is_closed and not _is_own(level[-1]))):
                return index, len(level) - (operator not in _JOINS)
            if len(command.inside) == len(level):
                operator = command.after if operator in _JOINS and command.before in _JOINS else ""
            continue  # deeper: a group of the list, or what the run's own words hold
        if any(map(_is_own, level[shared:])):
            return None
        level = level[:shared]
        if command.before == "||":
            return index, shared
        operator = command.after if command.before in _JOINS else ""
    return None


def _is_own(what: str) -> bool:
    return what in _CONDITIONS or what in _OF_THEIR_OWN


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = zip(one, other, strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _handling(script: Sequence[Command], at: int, depth: int) -> Iterator[Command]:
    """Yield the commands that run after the `||` at *depth*: one and those joined to it with `&&`, or a group."""
    first = script[at]
    yield first
    for previous, command in pairwise(script[at:]):
        is_of_group = len(first.inside) > depth and command.inside[: depth + 1] == first.inside[: depth + 1]
        if not (previous.after == "&&" or is_of_group or len(command.inside) > len(first.inside)):
            return
        yield command


def _fails(command: Command) -> bool:
    if command.name == "false":
        return True
    if command.name not in {"exit", "return"}:
        return command.name == "kill"
    return len(command.words) < 2 or command.words[1] != "0"


def _asked_for(name: str, rest: Sequence[Command]) -> bool:
    """Return whether a later command does more with variable *name* than to show it."""
    used = re.compile(rf"\$\{{?#?{name}\b|^\(*{name}\b")
    return any(
        used.search(text)
        for command in rest
        if command.name not in _SAY
        for text in (*command.words, *(value for _, value in command.assigns))
    )


def _said(commands: Sequence[Command]) -> str:
    first = commands[0]
    assigned = " ".join(f"{name}={value}" for name, value in first.assigns)
    shown = " ".join(filter(None, (assigned, *first.words)))
    if not first.words:
        return f"`pytest … || {shown}` is always 0, and nothing asks for the variable afterwards"
    if first.name in _TESTS and _NO_TESTS in first.words:
        return f"`pytest … || {shown}` is 0 where no test ran"
    if first.name in _ALWAYS_0 or first.words[:2] in {("exit", "0"), ("return", "0")}:
        return f"`pytest … || {shown}` is always 0"
    return f"`pytest … || {shown}` has the status of `{first.name}`"
