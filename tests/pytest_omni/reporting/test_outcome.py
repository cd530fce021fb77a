from __future__ import annotations

import pytest

from pytest_omni.reporting.ledger import Kind, Ledger, Result, State, Withheld
from pytest_omni.reporting.outcome import Facts, conclude, facts_of

PLUGIN = ("pytest_omni.plugin",)
XDIST = ("xdist.plugin", *PLUGIN)
WORKERS = pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])
OWED = {"a.py::t": Withheld(State.SKIPPED, "needs cuda H100×4, sees none", Kind.HARDWARE, owed=True)}
TITLE = "omni: tests that did not run"


def facts(exit_: int = 0, *, owed=None, strict=False, max_skips=None, files=0, **counts: int) -> Facts:
    return Facts(
        exit=exit_,
        counts={State(name): count for name, count in counts.items()},
        owed=owed or {},
        strict=strict,
        max_skips=max_skips,
        skipped_files=files,
        ran=sum(counts.get(name, 0) for name in ("passed", "failed", "error", "xfailed", "xpassed")),
    )


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        # nothing to say
        (facts(passed=2), 0, ""),
        (facts(passed=1, skipped=5), 0, ""),
        (facts(passed=1, skipped=5, strict=True), 0, ""),
        (facts(passed=1, skipped=2, max_skips=2), 0, ""),
        (facts(passed=1, skipped=1, owed=OWED), 0, ""),
        # a promise broken
        (facts(passed=1, skipped=1, owed=OWED, strict=True), 1, "1 test selected here cannot run"),
        (facts(5, deselected=1, owed=OWED, strict=True), 1, "1 test selected here cannot run"),
        # a budget spent
        (facts(passed=1, skipped=3, max_skips=2), 1, "--omni-max-skips 2: 3 tests skipped"),
        (facts(passed=1, skipped=1, max_skips=0), 1, "--omni-max-skips 0: 1 test skipped"),
        (facts(passed=1, skipped=1, files=1, max_skips=1), 1, "2 tests skipped"),
        # d: all skipped
        (facts(skipped=2), 0, "nothing ran: every selected test was skipped (2); --omni-strict fails"),
        (facts(skipped=2, strict=True), 1, "--omni-strict: nothing ran"),
        (facts(xfailed=1, skipped=2, strict=True), 0, ""),
        # a, b, c
        (facts(5), 5, "nothing was collected: no test in the paths"),
        (facts(5, files=1), 5, "every file with tests was skipped"),
        (facts(5, deselected=3), 5, "nothing is left: 3 tests collected, every one deselected"),
        (
            facts(5, deselected=3, other_shard=2),
            0,
            "this shard is empty: 2 tests selected, all in other shards",
        ),
        (facts(5, deselected=3, other_shard=2, strict=True), 0, "this shard is empty"),
        # what pytest already calls red stays as it is
        (facts(1, failed=1, skipped=3, max_skips=0, owed=OWED, strict=True), 1, ""),
        (facts(2, skipped=3, max_skips=0, strict=True), 2, ""),
        (facts(3, other_shard=2), 3, ""),
        (facts(4, strict=True, owed=OWED), 4, ""),
    ],
)
def test_a_session_ends_with_the_code_that_it_deserves(given, code, words):
    outcome = conclude(given)
    assert outcome.exit == code
    assert words in " | ".join(outcome.because)
    assert bool(words) == bool(outcome.because)
    assert outcome.failed == (code == 1 and given.exit != 1)


def test_every_reason_for_a_failure_is_told():
    outcome = conclude(facts(skipped=1, owed=OWED, strict=True, max_skips=0))
    # what cannot run here is told once: that nothing else ran either is no news
    assert [sentence.partition(":")[0] for sentence in outcome.because] == [
        "--omni-strict",
        "--omni-max-skips 0",
    ]
    assert outcome.missing == {"a.py::t"}


def test_the_book_gives_the_facts():
    ledger = Ledger()
    ledger.collected.update(dict.fromkeys(["a", "b", "c", "d"]))
    ledger.withhold_all(["a"], "deselected", "another SKU", "hardware", owed=True)
    ledger.withhold("b", "other_shard", "shard 1 of 2", "shard")
    ledger.results["c"] = Result(State.XFAILED, "[NOTRUN] not yet")
    ledger.results["d"] = Result(State.PASSED)
    found = facts_of(ledger, exit=0)
    assert found.counts == {State.DESELECTED: 1, State.OTHER_SHARD: 1, State.XFAILED: 1, State.PASSED: 1}
    assert found.ran == 1  # xfail(run=False) has run nothing
    assert set(found.owed) == {"a"}


@WORKERS
def test_nothing_but_skips_is_a_warning_and_in_strict_mode_red(armed, inner, workers):
    armed.makepyfile(
        "import pytest\ndef test_a(): pytest.skip('no weights')\n@pytest.mark.skip(reason='later')\ndef test_b(): pass"
    )
    lenient = inner(*workers, plugins=XDIST)
    assert lenient.ret == 0
    lenient.stdout.fnmatch_lines_random(
        [
            f"*{TITLE}*",
            "1 skipped (user): no weights",
            "1 skipped (user): later",
            "nothing ran: every selected test was skipped (2); --omni-strict fails such a session",
        ]
    )
    strict = inner(*workers, "--omni-strict", plugins=XDIST)
    assert strict.ret == pytest.ExitCode.TESTS_FAILED
    strict.stdout.fnmatch_lines(["--omni-strict: nothing ran, every selected test was skipped (2)"])


@WORKERS
def test_a_budget_of_skips_counts_every_kind(armed, inner, cards, workers):
    armed.makepyfile(
        test_a="import pytest\n@pytest.mark.cuda\ndef test_cuda(): pass\n"
        "def test_user(): pytest.skip('later')\ndef test_runs(): pass",
        test_b="import pytest\npytest.skip('no such library', allow_module_level=True)",
    )
    flags = (*cards(0, platform="cpu"), "--omni-platform", "cuda", *workers)
    assert inner(*flags, "--omni-max-skips", "3", plugins=XDIST).ret == 0
    result = inner(*flags, "--omni-max-skips", "2", plugins=XDIST)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "test_b.py skipped while it was collected (user): no such library",
            "--omni-max-skips 2: 3 tests skipped",
        ]
    )


@WORKERS
def test_empty_selections_are_told_apart(armed, inner, workers):
    (armed.path / "empty").mkdir()
    nothing = inner(*workers, "empty", plugins=XDIST)
    assert nothing.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    nothing.stdout.fnmatch_lines(["nothing was collected: *"])

    armed.makepyfile("def test_a(): pass\ndef test_b(): pass")
    deselected = inner(*workers, "-k", "other", plugins=XDIST)
    assert deselected.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    deselected.stdout.fnmatch_lines(
        ["2 deselected (user): not selected by -k 'other'", "nothing is left: 2 tests collected, *"]
    )

    armed.makeconftest(SHARD)
    shard = inner(*workers, plugins=XDIST)
    assert shard.ret == 0
    shard.stdout.fnmatch_lines(
        ["2 in other shards (shard): *", "this shard is empty: 2 tests selected, all in *"]
    )
    assert inner(*workers, "-k", "other", plugins=XDIST).ret == pytest.ExitCode.NO_TESTS_COLLECTED


SHARD = """
import pytest
from pytest_omni.reporting.ledger import ledger_of

@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    if items:
        ledger_of(config).withhold_all([i.nodeid for i in items], "other_shard", "runs in shard 1 of 2", "shard")
        config.hook.pytest_deselected(items=list(items))
        items.clear()
"""


def test_what_a_person_selects_by_hand_needs_no_section(armed, inner):
    armed.makepyfile("def test_a(): pass\ndef test_b(): pass")
    result = inner("-k", "test_a", "-v")
    assert result.ret == 0
    assert TITLE not in result.stdout.str()


def test_listing_tests_is_judged_by_nobody(armed, inner, cards):
    armed.makepyfile("import pytest\n@pytest.mark.cuda\ndef test_a(): pass")
    result = inner("--co", "-q", "-m", "cuda", "--omni-strict", *cards(0, platform="cpu"))
    assert result.ret == 0
    assert TITLE not in result.stdout.str()


def test_a_failure_keeps_its_code_beside_a_broken_promise(armed, inner, cards):
    armed.makepyfile(
        "import pytest\n@pytest.mark.cuda\ndef test_a(): pass\ndef test_b(): assert 0\n"
        "def test_c(): raise KeyboardInterrupt"
    )
    flags = (*cards(0, platform="cpu"), "--omni-strict", "--omni-platform", "cuda")
    assert inner(*flags, "-k", "not test_c").ret == pytest.ExitCode.TESTS_FAILED
    assert inner(*flags).ret == pytest.ExitCode.INTERRUPTED
