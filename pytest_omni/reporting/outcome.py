"""Whether a session may end as it did: a run in which nothing ran, or less than was promised, is not green.

pytest says 5 for every empty selection. They are told apart here (a nothing collected, b all deselected, c this shard
got nothing although others did, d all skipped), since only c is fine and d looks fine (vllm#32040, vllm#55638).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_omni.reporting.ledger import RAN, Ledger, State, Withheld

OK, FAILED, NO_TESTS = 0, 1, 5  # pytest.ExitCode, the three that a guard may judge
_NOT_RUN = "[NOTRUN]"  # what pytest writes before the reason of xfail(run=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a session was asked for and how it went.

    exit is pytest's own; ran counts the tests that came to a result which says something about the code.
    """

    exit: int
    counts: Mapping[State, int]
    owed: Mapping[str, Withheld]
    ran: int
    strict: bool = False
    max_skips: int | None = None
    skipped_files: int = 0

    @property
    def skipped(self) -> int:
        """How many tests were skipped, for whatever reason; a file skipped while it was collected is one."""
        return self.counts.get(State.SKIPPED, 0) + self.skipped_files

    @property
    def other_shards(self) -> int:
        """How many selected tests belong to other shards."""
        return self.counts.get(State.OTHER_SHARD, 0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The exit code that the session deserves, the sentences that say why, and the tests that strict mode misses."""

    exit: int
    because: tuple[str, ...] = ()
    missing: frozenset[str] = frozenset()

    @property
    def failed(self) -> bool:
        """Whether a guard turned the session red."""
        return self.exit == FAILED and bool(self.because)


def facts_of(ledger: Ledger, *, exit: int, strict: bool = False, max_skips: int | None = None) -> Facts:  # noqa: A002 pytest's word
    """Return the facts of a book, and what the session was asked for."""
    results = [result for _, result in ledger.rows()]
    return Facts(
        exit=exit,
        counts=Counter(result.state for result in results),
        owed={nodeid: entry for nodeid, entry in ledger.withheld.items() if entry.owed},
        ran=sum(
            result.state in RAN and not (result.because or "").startswith(_NOT_RUN) for result in results
        ),
        strict=strict,
        max_skips=max_skips,
        skipped_files=len(ledger.skipped_files),
    )


def conclude(facts: Facts) -> Outcome:
    """Return what the session ends with; a code that says failed, interrupted or misused is never changed."""
    if facts.exit not in (OK, NO_TESTS):
        return Outcome(facts.exit)
    failures = [sentence for guard in _GUARDS if (sentence := guard(facts))]
    if failures:
        return Outcome(FAILED, tuple(failures), frozenset(facts.owed if facts.strict else ()))
    if facts.exit == NO_TESTS:
        return _empty(facts)
    if facts.skipped and not facts.ran:
        return Outcome(OK, (f"nothing ran: {_all_skipped(facts)}; --omni-strict fails such a session",))
    return Outcome(facts.exit)


def _broken_promise(facts: Facts) -> str:
    if not facts.strict or not facts.owed:
        return ""
    return f"--omni-strict: {_tests(len(facts.owed))} selected here cannot run on this machine, see above"


def _too_many_skips(facts: Facts) -> str:
    if facts.max_skips is None or facts.skipped <= facts.max_skips:
        return ""
    return f"--omni-max-skips {facts.max_skips}: {_tests(facts.skipped)} skipped"


def _nothing_ran(facts: Facts) -> str:
    if not facts.strict or facts.ran or not facts.skipped or facts.owed:  # those have been told
        return ""
    return f"--omni-strict: nothing ran, {_all_skipped(facts)}"


_GUARDS = (_broken_promise, _too_many_skips, _nothing_ran)


def _empty(facts: Facts) -> Outcome:
    total = sum(facts.counts.values())
    if facts.other_shards:
        return Outcome(
            OK, (f"this shard is empty: {_tests(facts.other_shards)} selected, all in other shards",)
        )
    if not total and facts.skipped_files:
        return Outcome(NO_TESTS, ("nothing was collected: every file with tests was skipped",))
    if not total:
        return Outcome(NO_TESTS, ("nothing was collected: no test in the paths that were given",))
    return Outcome(NO_TESTS, (f"nothing is left: {_tests(total)} collected, every one deselected",))


def _all_skipped(facts: Facts) -> str:
    return f"every selected test was skipped ({facts.skipped})"


def _tests(count: int) -> str:
    return f"{count} test{'' if count == 1 else 's'}"
