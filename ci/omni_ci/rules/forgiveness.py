"""What a script does with the status of a test run, where that is to forgive its failure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile

from omni_ci.shell.commands import Command, Script

# Of these a failure of what stands in them is not the status: a condition, or a text that runs another time.
_CONDITIONS = frozenset(["if", "while"])
_OF_THEIR_OWN = frozenset(["function", "trap"])
_ALWAYS_0 = frozenset([":", "true", "echo", "printf"])
_SAY = frozenset(["echo", "printf", "export", "local", "declare", "unset", "logger", "buildkite-agent"])
_TESTS = frozenset(["test", "[", "[["])
_LEAVES_A_LOOP = frozenset([("break",), ("exit", "0"), ("return", "0"), ("exit",), ("return",)])
_HAVE_A_STATUS = frozenset(["subshell", "$()", "bash -c", "bash <<", "function", "trap"])
_JOINS = frozenset(["&&", "||", "|", "|&"])
_NO_TESTS = "5"


def forgiven(
    script: Sequence[Command], at: int, tests: frozenset[tuple[str, ...]], *, by_agent: bool = True
) -> str | None:
    """Return how the failure of the test run at *at* of *script* is forgiven, None where it arrives.

    *tests* are the words of all its test runs: one that is run in the place of a failed one answers for both.
    by_agent: the agent's own shell runs it, whose `set -e` overlooks what stands before an `&&`.
    """
    run = script[at]
    following = script[at + 1] if at + 1 < len(script) else None
    depth = _condition(run.inside)
    if depth is not None and run.inside[depth] == "while":
        gives_up = following is not None and following.inside[depth:] == ("do",) and _fails(following)
        return None if gives_up else "a `while` or `until` repeats failed tests until they pass"
    if depth is not None:
        kept = _body_fails(script, at, depth, tests)
        return None if kept else "`if` takes their status, and no branch ends with another than 0"
    if run.is_inverted:
        ends = following is not None and following.before == "&&" and _fails(following)
        return None if ends else "`!` turns their status around"
    return _after_operator(script, at, tests, by_agent=by_agent)


def with_tests(script: Script, tests: frozenset[tuple[str, ...]]) -> frozenset[tuple[str, ...]]:
    """Return the words of all commands that run tests: *tests*, and the calls of functions that hold some."""
    found = tests
    while True:
        holding = {
            script.functions[number]
            for one in script.commands
            if one.words in found
            for number in one.within
            if number in script.functions
        }
        more = found | {one.words for one in script.commands if one.words[:1] and one.words[0] in holding}
        if more == found:
            return found
        found = more


def asked_for(name: str, rest: Sequence[Command]) -> bool:
    """Return whether a later command does more with variable *name* than to show it."""
    used = re.compile(rf"\$\{{?#?{name}\b|^\(*{name}\b")
    return any(
        used.search(text)
        for command in rest
        if command.name not in _SAY
        for text in (*command.words, *(value for _, value in command.assigns))
    )


def _condition(inside: Sequence[str]) -> int | None:
    """Return the depth of the condition whose answer a command is, None where it stands in none."""
    for depth in reversed(range(len(inside))):
        if inside[depth] in _CONDITIONS:
            return depth
        if inside[depth] in {"then", "do", "case", *_OF_THEIR_OWN}:
            return None
    return None


def _body_fails(script: Sequence[Command], at: int, depth: int, tests: frozenset[tuple[str, ...]]) -> bool:
    outer = script[at].within[:depth]
    body: list[Command] = []
    for command in script[at + 1 :]:
        if command.within[:depth] != outer or len(command.inside) == depth:
            break
        if command.inside[depth] == "then":
            body.append(command)
        elif body:
            break
    rest = script[script.index(body[-1]) + 1 :] if body else ()
    if script[at].is_inverted and any(command.words in tests for command in body):
        return True
    names = {name for command in body for name, _ in command.assigns}
    return any(_fails(command) for command in body) or any(asked_for(name, rest) for name in names)


def _after_operator(
    script: Sequence[Command], at: int, tests: frozenset[tuple[str, ...]], *, by_agent: bool
) -> str | None:
    handler = _handler(script, at)
    if handler is None:
        return _repeated(script, at) or (_overlooked(script, at) if by_agent else None)
    if how := _shadowed(script, at, handler[1]):
        return how
    commands = list(_handling(script, *handler))
    rest = script[handler[0] + len(commands) :]
    if any(_fails(command) or command.words in tests for command in commands):
        return None
    kept = (
        name for command in commands for name, value in command.assigns if value.strip("\"'") not in {"0", ""}
    )
    return None if any(asked_for(name, rest) for name in kept) else _said(commands)


def _repeated(script: Sequence[Command], at: int) -> str | None:
    """Return that the run is repeated: a loop is left once it passes, and not otherwise."""
    following = script[at + 1] if at + 1 < len(script) else None
    if "do" in script[at].inside and following and following.before == "&&":
        return "a loop repeats failed tests until they pass" if following.words in _LEAVES_A_LOOP else None
    return None


def _shadowed(script: Sequence[Command], at: int, depth: int) -> str | None:
    """Return that another command has the status of the group that `||` asks: before it no `set -e` holds."""
    run, following = script[at], script[at + 1]
    if "do" in run.inside[depth:]:
        return "`set -e` does not hold before `||`: only the last round of the loop counts"
    if _shared(run.within, following.within) <= depth or following.before in _JOINS or _asks(following):
        return None
    return (
        f"`set -e` does not hold before `||`: `{' '.join(following.words)}` takes the place of their status"
    )


def _asks(command: Command) -> bool:
    return any("$?" in text for text in (*command.words, *(value for _, value in command.assigns)))


def _overlooked(script: Sequence[Command], at: int) -> str | None:
    """Return that `set -e` does not see the failure, since `&&` follows, and that the script goes on after it."""
    run, last = script[at], at
    while last + 1 < len(script) and script[last + 1].before == "&&":
        last += 1
    apart = [depth for depth, what in enumerate(run.inside, 1) if what in _HAVE_A_STATUS]
    scope = run.within[: max(apart, default=0)]
    rest = [
        one for one in script[last + 1 :] if one.within[: len(scope)] == scope and not _is_instead(run, one)
    ]
    if last == at or not rest:
        return None
    names = {name for one in script[at + 1 : last + 1] for name, _ in one.assigns}
    if _asks(rest[0]) or any(asked_for(name, rest) for name in names):
        return None
    shown = " ".join(script[at + 1].words) or "…"
    follows = " ".join(rest[0].words) or "the next line"
    return f"`set -e` overlooks what fails before an `&&`: after `pytest … && {shown}` comes `{follows}`"


def _is_instead(one: Command, other: Command) -> bool:
    """Return whether *other* may stand in another branch of the condition that *one* is in."""
    shared = _shared(one.within, other.within)
    return one.inside[shared : shared + 1] in {("then",), ("case",)} and other.inside[
        shared : shared + 1
    ] in {("then",), ("if",), ("case",)}


def _handler(script: Sequence[Command], at: int) -> tuple[int, int] | None:
    """Return where what `||` does after the run at *at* begins, and how deep that `||` stands.

    The operator is the run's own, that of the list it stands in (`a && b ||`, `a | b ||`), or the one behind a group.
    """
    level, kinds, operator = script[at].within, script[at].inside, script[at].after
    for index, command in enumerate(script[at + 1 :], at + 1):
        shared = _shared(level, command.within)
        if shared == len(level):
            if command.before == "||" and operator in _JOINS:
                return index, len(level)
            if len(command.within) == len(level):
                operator = command.after if operator in _JOINS and command.before in _JOINS else ""
            continue  # deeper: a group of the list, or what the run's own words hold
        if any(map(_is_own, kinds[shared : len(level)])):
            return None
        level = level[:shared]
        if command.before == "||":
            return index, shared
        operator = command.after if command.before in _JOINS else ""
    return None


def _is_own(what: str) -> bool:
    return what in _CONDITIONS or what in _OF_THEIR_OWN


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = zip(one, other, strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _handling(script: Sequence[Command], at: int, depth: int) -> Iterator[Command]:
    """Yield the commands that run after the `||` at *depth*: one and those joined to it with `&&`, or a group."""
    first = script[at]
    yield first
    for previous, command in pairwise(script[at:]):
        is_of_group = len(first.within) > depth and command.within[: depth + 1] == first.within[: depth + 1]
        if not (previous.after == "&&" or is_of_group or len(command.within) > len(first.within)):
            return
        yield command


def _fails(command: Command) -> bool:
    if command.name == "false":
        return True
    if command.name not in {"exit", "return"}:
        return command.name == "kill"
    return len(command.words) < 2 or command.words[1] != "0"


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
