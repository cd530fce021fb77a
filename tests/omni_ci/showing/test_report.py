from __future__ import annotations

import io
from dataclasses import replace

import pytest

from omni_ci.repository.changes import ChangeSet
from omni_ci.selection.judging import Mode, Selection, Verdict
from omni_ci.selection.reasons import Rule
from omni_ci.showing.report import counted, plain_lines, print_table


def verdict(
    step: str, *, runs: bool, because: str = "a reason", label: str = "L", gate: bool = False
) -> Verdict:
    return Verdict(
        file="a.yml",
        step=step,
        label=label,
        group=None,
        runs=runs,
        because=because,
        rule=Rule.PREFIX,
        is_gate=gate,
    )


def selection(*verdicts: Verdict, changes: ChangeSet | None = None, mode: Mode = Mode.DIFF) -> Selection:
    known = ChangeSet(known=True, files=("x",), base="a" * 40, head="b" * 40, basis="since the first parent")
    return Selection(
        changes=changes or known,
        policy="sha256:0",
        config_from="head",
        mode=mode,
        labels=(),
        verdicts=verdicts,
    )


def test_every_step_has_a_line_and_gates_have_none() -> None:
    out = io.StringIO()
    print_table(
        selection(
            verdict("one", runs=True), verdict("longer", runs=False), verdict("wait", runs=True, gate=True)
        ),
        out,
    )
    assert out.getvalue().splitlines() == [
        "run   a.yml#one     -  -  a reason",
        "skip  a.yml#longer  -  -  a reason",
        "1 of 2 steps run, 1 skip; 1 changed file from aaaaaaaaaaaa to bbbbbbbbbbbb, since the first parent",
    ]


@pytest.mark.parametrize(
    ("changes", "mode", "sentence"),
    [
        (ChangeSet.unknown("no git"), Mode.DIFF, "the changes are unknown (no git), so everything runs"),
        (ChangeSet.of(["a", "b"]), Mode.DIFF, "2 changed files, listed with --changed"),
        (ChangeSet.of([]), Mode.ALL, "everything was asked for"),
        (ChangeSet.of([]), Mode.E2E, "the end-to-end groups were asked for"),
    ],
)
def test_the_count_says_of_what_change(changes: ChangeSet, mode: Mode, sentence: str) -> None:
    assert (
        counted(selection(verdict("x", runs=True), changes=changes, mode=mode))
        == f"1 of 1 step run, 0 skip; {sentence}"
    )


def test_no_text_can_forge_a_line_or_move_the_cursor() -> None:
    (line,) = plain_lines([verdict("x", runs=True, because="a\nrun  b\x1b[2J\r")])
    assert line == "run  a.yml#x  -  -  a run  b[2J"


def test_what_a_step_costs_has_a_unit() -> None:
    one = replace(verdict("x", runs=True), preset="l4_2", cards=2, minutes=30, minutes_from="timeout")
    assert plain_lines([one]) == ["run  a.yml#x  l4_2  ≤60 GPU min  a reason"]
