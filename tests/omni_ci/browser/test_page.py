"""The page and the annotation in a real browser: nothing that people wrote runs, and its sorting and filters work."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest

from omni_ci.repository.changes import ChangeSet
from omni_ci.selection.facts import Rule
from omni_ci.selection.judging import Mode, Selection, Verdict
from omni_ci.showing.annotating import annotation
from omni_ci.showing.page import page

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
# Each would show itself in the title, which the page's own script never touches.
ATTACK = "<img src=x onerror=\"document.title='stolen'\">.py"
SCRIPT = "</script><script>document.title='stolen'</script>"
BREAKOUT = "\"><svg onload=document.title='stolen'>'\n\n</table></details><b>&lt;"


@dataclass
class Dom(HTMLParser):
    """The page as the browser had it in the end: its tags, its title, and the rows of its table."""

    tags: list[str] = field(default_factory=list)
    rows: list[tuple[str, bool]] = field(default_factory=list)
    sorts: dict[str, str] = field(default_factory=dict)
    text: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self._inside = tag
        if tag == "tr" and "data-state" in given:
            self.rows.append(("", "hidden" not in given))
        if tag == "th" and "aria-sort" in given:
            self.sorts[str(given["data-name"])] = str(given["aria-sort"])

    def handle_endtag(self, tag: str) -> None:
        self._inside = f"behind {tag}"

    def handle_data(self, data: str) -> None:
        if self._inside == "b" and self.rows and not self.rows[-1][0]:
            self.rows[-1] = (data, self.rows[-1][1])
        if self._inside == "title":
            self.title += data
        elif self._inside not in {"style", "script"}:
            self.text += data

    @property
    def shown(self) -> list[str]:
        return [label for label, is_shown in self.rows if is_shown]


@pytest.fixture(scope="session")
def chromium() -> str:
    found = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"none of {', '.join(PROGRAMS)} is installed (Debian: apt-get install chromium)")
    return found


def opened(chromium: str, folder: Path, text: str, fragment: str = "") -> Dom:
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    command = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=2000", "--dump-dom", f"{path.as_uri()}{fragment}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    dom = Dom()
    dom.feed(done.stdout)
    return dom


def verdict(
    label: str, *, runs: bool, cards: int | None, because: str, rule: Rule, group: str | None = None
) -> Verdict:
    return Verdict(
        file=f".buildkite/cuda/{ATTACK}",
        step=label,
        label=label,
        group=group,
        runs=runs,
        because=because,
        rule=rule,
        preset=f"l4_{cards}" if cards else None,
        cards=cards,
        minutes=10,
        minutes_from="timeout",
    )


SELECTION = Selection(
    changes=ChangeSet(
        known=True, files=(ATTACK, SCRIPT), base="a" * 40, head="b" * 40, basis="since a parent"
    ),
    policy="sha256:0",
    config_from="base",
    mode=Mode.DIFF,
    labels=(SCRIPT,),
    verdicts=(
        verdict("Bagel", runs=True, cards=2, because=f"{ATTACK} changed", rule=Rule.PREFIX, group=BREAKOUT),
        verdict("Zebra", runs=False, cards=None, because="nothing changed under docs/", rule=Rule.PREFIX),
        verdict("Apple", runs=True, cards=10, because="its definition changed (env)", rule=Rule.SELF),
        verdict(SCRIPT, runs=False, cards=4, because=BREAKOUT, rule=Rule.KEY),
    ),
)


@pytest.fixture(scope="module")
def text() -> str:
    return page(SELECTION, notices=[SCRIPT, BREAKOUT])


def test_nothing_that_people_wrote_becomes_a_tag_or_runs(chromium: str, tmp_path: Path, text: str) -> None:
    dom = opened(chromium, tmp_path, text)
    assert dom.title == "What runs, and why"
    assert dom.tags.count("script") == 1
    assert not {"img", "svg", "iframe"} & set(dom.tags)
    assert dom.tags.count("table") == 1
    assert ATTACK in dom.text
    assert "4 of 4 steps shown" in dom.text
    assert "&lt;" in dom.text  # what was an entity in the text stays one
    for word in ("http:", "https:", "url(", "@import", "src="):
        assert word not in text.replace(ATTACK, "").replace("img src=x", "")


@pytest.mark.parametrize(
    ("fragment", "shown"),
    [
        ("", ["Bagel", "Zebra", "Apple", SCRIPT]),
        ("#filter=DEFINITION", ["Apple"]),
        ("#filter=changed%20docs", ["Zebra"]),
        ("#filter=nowhere", []),
        ("#state=run", ["Bagel", "Apple"]),
        ("#rule=prefix", ["Bagel", "Zebra"]),
        ("#rule=prefix&state=skip", ["Zebra"]),
        ("#sort=minutes", ["Zebra", "Bagel", SCRIPT, "Apple"]),
        ("#sort=-minutes", ["Apple", SCRIPT, "Bagel", "Zebra"]),
        ("#sort=step", [SCRIPT, "Apple", "Bagel", "Zebra"]),
        ("#sort=state&state=run", ["Bagel", "Apple"]),
        ("#sort=nothing", ["Bagel", "Zebra", "Apple", SCRIPT]),
    ],
)
def test_the_address_says_what_is_shown_and_in_which_order(
    chromium: str, tmp_path: Path, text: str, fragment: str, shown: list[str]
) -> None:
    dom = opened(chromium, tmp_path, text, fragment)
    assert dom.shown == shown
    assert len(dom.rows) == 4
    assert f"{len(shown)} of 4 steps shown" in dom.text


def test_a_sorted_column_says_so_to_a_screen_reader(chromium: str, tmp_path: Path, text: str) -> None:
    sorts = opened(chromium, tmp_path, text, "#sort=-minutes").sorts
    assert sorts.pop("minutes") == "descending"
    assert set(sorts.values()) == {"none"}
    assert opened(chromium, tmp_path, text, "#sort=step").sorts["step"] == "ascending"


CLICKS = """
<script>
addEventListener("load", () => {
  const head = document.querySelector("th[data-name=minutes] button");
  head.click(); head.click();
  const filter = document.querySelector("#filter");
  filter.value = "l4"; filter.dispatchEvent(new Event("input"));
});
</script>
"""


def test_a_click_sorts_and_a_word_filters(chromium: str, tmp_path: Path, text: str) -> None:
    # our script is the only one that the page lets run, so the test's needs the policy gone
    start, end = text.index("<meta http-equiv"), text.index("<meta name")
    dom = opened(chromium, tmp_path, text[:start] + text[end:].replace("</body>", f"{CLICKS}</body>"))
    assert dom.shown == ["Apple", SCRIPT, "Bagel"]


def test_a_script_that_got_in_would_not_run(chromium: str, tmp_path: Path, text: str) -> None:
    dom = opened(
        chromium, tmp_path, text.replace("</main>", "<script>document.title='stolen'</script></main>")
    )
    assert dom.title == "What runs, and why"


def test_the_annotation_in_a_plain_page(chromium: str, tmp_path: Path) -> None:
    made = annotation(SELECTION, title=ATTACK, notices=[SCRIPT])
    dom = opened(chromium, tmp_path, f"<!doctype html><title>Build</title><body>{made}</body>")
    assert dom.title == "Build"
    assert not {"img", "svg", "script"} & set(dom.tags)
    assert dom.tags.count("b") == 1
    assert dom.tags.count("table") == 2
    assert ATTACK in dom.text
    assert "2 of 4 steps run, 2 skip" in dom.text
