from __future__ import annotations

from omni_ci.repository.changes import ChangeSet
from omni_ci.selection.facts import Rule
from omni_ci.selection.judging import Mode, Selection, Verdict
from omni_ci.showing.annotating import BYTES, annotation


def verdict(
    step: str, *, runs: bool, because: str = "a reason", label: str = "L", group: str | None = None
) -> Verdict:
    return Verdict(
        file="a.yml", step=step, label=label, group=group, runs=runs, because=because, rule=Rule.PREFIX
    )


def selection(*verdicts: Verdict) -> Selection:
    return Selection(
        changes=ChangeSet.of(["x"]),
        policy="p",
        config_from="head",
        mode=Mode.DIFF,
        labels=(),
        verdicts=verdicts,
    )


def test_what_runs_stands_under_its_group_and_what_does_not_under_its_reason() -> None:
    text = annotation(
        selection(
            verdict("a", runs=True, label="one", group="Cards"),
            verdict("b", runs=False, label="two", because="nothing changed under docs/"),
            verdict("c", runs=False, label="three", because="nothing changed under docs/"),
        ),
        title="a.yml",
    )
    assert "<summary>Run 1</summary>" in text
    assert '<tr><th colspan="4">Cards</th></tr>' in text
    assert "<tr><td>2</td><td>nothing changed under docs/</td><td>two, three</td></tr>" in text
    assert text.index("Cards") < text.index("Skip 2")
    assert "nothing selected" not in text


def test_thousands_of_steps_stay_below_what_buildkite_takes() -> None:
    many = [
        verdict(f"s{index}", runs=index % 2 == 0, label="é<" * 150, because=f"{index} " + "ü&" * 150)
        for index in range(10_000)
    ]
    text = annotation(selection(*many), title="a.yml", notices=["<b>" * 400] * 100)
    assert len(text.encode()) <= BYTES
    assert "<summary>Run 5000</summary>" in text
    assert "<summary>Skip 5000</summary>" in text
    assert "more in selection.json" in text
    assert text.count("<table>") == text.count("</table>") == 2
    assert text.count("<details") == text.count("</details>") == 3


def test_an_annotation_escapes_what_people_wrote() -> None:
    text = annotation(
        selection(
            verdict("x", runs=True, label="<img onerror=x>\n\n# head", group="<i>", because="`|\u2028\n\n*a*")
        ),
        title="<b>",
        notices=["<script>alert(1)</script>\n\n</ul>"],
    )
    for tag in ("<img", "<i>", "<b></b>", "<script", "\u2028"):
        assert tag not in text
    assert "&lt;img onerror=x&gt; # head" in text
    assert "\n\n" not in text
    assert text.count("</ul>") == 1
