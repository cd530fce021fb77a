"""Write the tables of the docs from the code they describe, or check that they are current.

A page marks a table with `<!-- table: NAME -->` … `<!-- /table -->`; what lies between belongs to this script.

    python scripts/docs_tables.py            rewrite the pages that drifted
    python scripts/docs_tables.py --check    exit 3 and name them instead
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import field_reports
import plugin_tables
from lanes import TEST_LANES, TestLane

from omni.attention.registry import BACKENDS
from omni.models.catalog import CATALOG
from omni_ci.rules.discovery import rules
from omni_hardware import errors, vocabulary
from omni_hardware.errors import did_you_mean

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- table: (?P<name>[\w-]+) -->\n).*?(<!-- /table -->)", re.DOTALL)


def main(arguments: Sequence[str]) -> int:
    """Return 0 when every page is current (or was made so), 3 when `--check` found drift."""
    parser = argparse.ArgumentParser(description="Write the tables of the docs from the code they describe.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 3 and name what drifted")
    is_check = parser.parse_args(arguments).check
    drifted = []
    for page in sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")]):
        before = page.read_text(encoding="utf-8")
        after = BLOCK.sub(partial(_filled, page), before)
        if after != before:
            drifted.append(page.relative_to(ROOT))
            if not is_check:
                page.write_text(after, encoding="utf-8")
    for page in drifted:
        print(f"{page}: {'out of date; run python scripts/docs_tables.py' if is_check else 'rewritten'}")
    return 3 if drifted and is_check else 0


def _filled(page: Path, match: re.Match[str]) -> str:
    name = match["name"]
    if name not in TABLES:
        sys.exit(f"{page}: unknown table {name!r}{did_you_mean(name, TABLES)}")
    return f"{match[1]}{TABLES[name]()}\n{match[3]}"


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "–"


def platforms() -> str:
    return _markdown(
        ["platform", "`gpu` mark", "SKUs", "visibility variables"],
        [
            [f"`{row.name}`", "yes" if row.gpu else "no", _codes(row.skus), _codes(row.visibility)]
            for row in vocabulary.DEFAULT.platforms
        ],
    )


def marks() -> str:
    words = vocabulary.DEFAULT
    return _markdown(
        ["kind", "marks"],
        [
            ["run levels, shallow to deep", _codes(words.levels)],
            ["selection", _codes(words.selection)],
            ["topics", _codes(words.topics)],
            ["cards", f"`cards_{min(words.cards)}` … `cards_{max(words.cards)}`"],
        ],
    )


def exit_codes() -> str:
    kinds = [errors.InputError, errors.CheckError, errors.InfrastructureError]
    return _markdown(
        ["exit code", "kind", "meaning"],
        [["0", "–", "fine; nothing selected is fine too, and said"]]
        + [
            [str(kind.exit_code), f"`{kind.__name__}`", (kind.__doc__ or "").splitlines()[0]]
            for kind in kinds
        ],
    )


def backends() -> str:
    return _markdown(
        ["backend", "implementation"], [[f"`{name}`", f"`{row.target}`"] for name, row in BACKENDS.items()]
    )


def families() -> str:
    return _markdown(
        ["pipeline class", "family", "attention roles"],
        [[f"`{row.pipeline}`", f"`{row.family}`", _codes(row.role_names)] for row in CATALOG.values()],
    )


def lanes() -> str:
    return _markdown(
        ["lane", "tests", "marks", "how"],
        [
            [
                lane.name,
                _paths(lane.paths) + (f" without {_paths(lane.without)}" if lane.without else ""),
                f"`{lane.marks}`",
                _how(lane),
            ]
            for lane in TEST_LANES
        ],
    )


def _paths(paths: Iterable[str]) -> str:
    return ", ".join(f"`{path}/`" for path in paths)


def _how(lane: TestLane) -> str:
    return ", ".join(
        [
            "two workers" if "-n2" in lane.options else "one at a time",
            *(["in `--fast`"] if lane.fast else []),
            *([f"only with `--{lane.name}`"] if lane.opt_in else []),
        ]
    )


def lint_rules() -> str:
    return _markdown(
        ["rule", "what must hold", "why, and what to do"],
        [[f"`{code}`", rule.title, rule.remedy] for code, rule in rules().items()],
    )


def _written(table: Callable[[], plugin_tables.Table]) -> str:
    return _markdown(*table())


TABLES: dict[str, Callable[[], str]] = {
    "platforms": platforms,
    "marks": marks,
    "exit-codes": exit_codes,
    "backends": backends,
    "families": families,
    "lanes": lanes,
    "lint-rules": lint_rules,
    "field-reports": lambda: _markdown(*field_reports.table()),
    "not-ours": lambda: _markdown(*field_reports.not_ours()),
    **{name: partial(_written, table) for name, table in plugin_tables.TABLES.items()},
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
