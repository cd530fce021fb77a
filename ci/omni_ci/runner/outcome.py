"""What became of the items, and the one exit code that stands for all of them. Pure.

The code is the first status that is neither 0 nor 5; else 5 where an item ran no tests; else 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from omni_ci.runner.records import Kind, Record
from omni_ci.shell.runs import parse

NO_TESTS = 5
TIMED_OUT = 124  # as timeout(1) says it
SIGNALLED = 128
# An `exit` in these does not end the shell, or only when it ends anyway.
_APART = frozenset(["subshell", "$()", "bash -c", "bash <<", "trap"])


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemResult:
    """One item. status: None where it was not run. note: what a status alone does not say."""

    command: str
    status: int | None = None
    seconds: float = 0.0
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Every item in order, and the exit code.

    folders: where commands ran, in order of first use. leaked: the processes that were left behind, named; "" for
    none. notes: what else a person should know.
    """

    items: tuple[ItemResult, ...]
    status: int
    folders: tuple[str, ...] = ()
    leaked: str = ""
    notes: tuple[str, ...] = ()

    @property
    def without_tests(self) -> tuple[ItemResult, ...]:
        """Return the items that ended with 5."""
        return tuple(item for item in self.items if item.status == NO_TESTS)

    @property
    def not_run(self) -> tuple[ItemResult, ...]:
        """Return the items that were never started."""
        return tuple(item for item in self.items if item.status is None)

    def allowing_no_tests(self) -> Outcome:
        """Return the outcome where a 5 is no failure; any other status stays, and so does one with items not run."""
        return replace(self, status=0) if self.status == NO_TESTS and not self.not_run else self


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Why and how the runner itself ended the items: the status that says so, and a sentence."""

    status: int
    because: str


def aggregate(statuses: Iterable[int | None]) -> int:
    """Return the exit code for several statuses; None (not run) counts for nothing.

    >>> aggregate([5, 2, 1]), aggregate([0, 5, 0]), aggregate([0, None])
    (2, 5, 0)
    """
    known = [status for status in statuses if status is not None]
    real = next((status for status in known if status not in {0, NO_TESTS}), None)
    return real if real is not None else NO_TESTS if NO_TESTS in known else 0


def judge(
    commands: Sequence[str],
    records: Sequence[Record],
    *,
    shell: int,
    seconds: float = 0.0,
    stopped: Stopped | None = None,
) -> Outcome:
    """Return the outcome of *commands* from what the shell wrote aside and how it ended itself.

    shell: its exit status, negative for a signal. seconds: how long it ran.
    """
    code = exit_status(shell)
    ended = records[0].time + seconds if records else 0.0
    items = [
        _Item(number, command, [record for record in records if record.item == number], ended).result(
            code, stopped
        )
        for number, command in enumerate(commands, 1)
    ]
    folders = tuple(dict.fromkeys(record.text for record in records if record.kind.names_folder))
    status = aggregate(item.status for item in items)
    notes: tuple[str, ...] = ()
    if stopped:
        status = aggregate((status, stopped.status))
    elif _is_torn(len(commands), records):
        status = aggregate((status, code, 1))
        notes = (_why_torn(commands, records),)
    elif code == 0 and (unmeant := _ended_unasked(commands, records)):
        # green is said by the tests alone: not by a shell that went away before them
        status = aggregate((status, 1))
        notes = (unmeant,)
    elif aggregate((status, code)) != status:
        # a `trap … EXIT` of the user's
        status = aggregate((status, code))
        notes = (f"all items had ended when the shell itself ended with {code}",)
    return Outcome(items=tuple(items), status=status, folders=folders, notes=notes)


def _is_torn(count: int, records: Sequence[Record]) -> bool:
    """Return whether records are missing: the shell ends inside an item, or after the last one, never between two."""
    begun = {record.item for record in records if record.kind is Kind.BEGIN}
    ended = {record.item for record in records if record.kind is Kind.END}
    last = len(begun)
    in_order = begun == set(range(1, last + 1)) and ended in (begun, begun - {last})
    return not (in_order and last and (last == count or last not in ended))


def _why_torn(commands: Sequence[str], records: Sequence[Record]) -> str:
    number = max((record.item for record in records), default=0)
    problem = parse(commands[number - 1]).problem if 0 < number <= len(commands) else None
    if problem is not None:
        return f"item {number} cannot be read as shell ({problem}), and bash gave up on the rest"
    return "what the shell wrote aside is incomplete, so that an item may have run unseen; is the disk full?"


def _ended_unasked(commands: Sequence[str], records: Sequence[Record]) -> str | None:
    """Return a sentence where the shell ended with 0 inside an item that does not ask for it by `exit`.

    An `exec` asks for the end of its own item only: as the last one it takes nothing away.
    """
    last = max((record.item for record in records), default=0)
    if not last or any(record.item == last and record.kind is Kind.END for record in records):
        return None
    asked = [one for one in parse(commands[last - 1]).commands if not _APART.intersection(one.inside)]
    if any(one.name == "exit" and _may_be_0(one.words[1:]) for one in asked):
        return None
    rest = len(commands) - last
    if not rest and any(one.name == "exec" for one in asked):
        return None
    lost = "what follows in it" if not rest else "what follows it"
    return f"item {last} ended the shell with 0 though no `exit` stands in it, so that {lost} did not run"


def _may_be_0(words: Sequence[str]) -> bool:
    return not words or words[0] == "0" or words[0].startswith("$")


def exit_status(code: int) -> int:
    """Return a child's status as a shell says it: 137 for one that SIGKILL ended."""
    return SIGNALLED - code if code < 0 else code


@dataclass(frozen=True, slots=True)
class _Item:
    number: int
    command: str
    records: Sequence[Record]
    shell_ended: float

    def result(self, shell: int, stopped: Stopped | None) -> ItemResult:
        begin, end = self._only(Kind.BEGIN), self._only(Kind.END)
        if begin is None:
            return ItemResult(command=self.command)
        if end is not None:
            seconds = max(0.0, end.time - begin.time)
            return ItemResult(
                command=self.command, status=end.status, seconds=seconds, note=self._hidden(end.status)
            )
        if fatal := self._only(Kind.FATAL):
            note = f"`{fatal.text}` failed, so what follows would run in the wrong place"
            return self._cut_short(begin, fatal.status or 1, note)
        if stopped:
            return self._cut_short(begin, stopped.status, stopped.because)
        status = aggregate([*(one.status for one in self.records if one.kind is Kind.FAILED), shell])
        how = (
            "a signal ended the shell in it" if shell > SIGNALLED else f"ended the shell with status {shell}"
        )
        return self._cut_short(begin, status, how)

    def _cut_short(self, begin: Record, status: int, note: str) -> ItemResult:
        seconds = max(0.0, self.shell_ended - begin.time)
        return ItemResult(command=self.command, status=status, seconds=seconds, note=note)

    def _hidden(self, status: int) -> str:
        """Return the command that failed first, where the item has several."""
        failed = next((one for one in self.records if one.kind is Kind.FAILED and one.status == status), None)
        several = "\n" in self.command.strip() or ";" in self.command
        is_inner = failed is not None and not failed.text.startswith("eval -- ")
        return f"first failure: {failed.text}" if failed and several and is_inner else ""

    def _only(self, kind: Kind) -> Record | None:
        return next((record for record in self.records if record.kind is kind), None)
