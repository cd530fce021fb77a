from __future__ import annotations

from omni_ci.repository.changes import ChangeSet
from omni_ci.selection.facts import Rule
from omni_ci.selection.judging import Mode, Selection, Verdict
from omni_ci.showing.markdown import markdown


def test_one_table_a_file_in_which_nothing_anybody_wrote_means_anything() -> None:
    verdicts = [
        Verdict(
            file=f"{name}/__x__.yml",
            step="s",
            label="a|b *c* [d](e) <img src=x onerror=1>\n| forged |",
            group=None,
            runs=name == "one",
            because="x/__init__.py changed & `more`",
            rule=Rule.PREFIX,
        )
        for name in ("one", "two")
    ]
    made = Selection(
        changes=ChangeSet.of(["x"]),
        policy="p",
        config_from="head",
        mode=Mode.DIFF,
        labels=(),
        verdicts=tuple(verdicts),
    )
    row = (
        "| a\\|b \\*c\\* \\[d\\](e) &lt;img src=x onerror=1&gt; \\| forged \\| (s) | - | - "
        "| x/\\_\\_init\\_\\_.py changed &amp; \\`more\\` |"
    )
    assert markdown(made, notices=["a <b>"]).splitlines() == [
        "## What runs, and why",
        "",
        "1 of 2 steps run, 1 skip; 1 changed file, listed with --changed",
        "",
        "### one/\\_\\_x\\_\\_.yml",
        "",
        "| | step | hardware | GPU min | because |",
        "|---|---|---|---:|---|",
        f"| **run** {row}",
        "",
        "### two/\\_\\_x\\_\\_.yml",
        "",
        "| | step | hardware | GPU min | because |",
        "|---|---|---|---:|---|",
        f"| skip {row}",
        "",
        "### Notes",
        "",
        "- a &lt;b&gt;",
    ]
