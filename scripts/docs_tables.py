"""Write the tables of the docs from the code they describe, or check that they are current.

A page marks a table with `<!-- table: NAME -->` … `<!-- /table -->`; what lies between belongs to this script.

    python scripts/docs_tables.py            rewrite the pages that drifted
    python scripts/docs_tables.py --check    exit 3 and name them instead
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from omni.attention.registry import BACKENDS
from omni.models.catalog import CATALOG
from omni_hardware import errors, vocabulary
from omni_hardware.errors import did_you_mean

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- table: (?P<name>[\w-]+) -->\n).*?(<!-- /table -->)", re.DOTALL)
REPORT = re.compile(r"^\s*def (test_(?P<repo>[a-z]+)(?P<number>\d{2,})_(?P<what>\w+))", re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    """Return 0 when every page is current (or was made so), 3 when `--check` found drift."""
    drifted = []
    for page in sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]):
        before = page.read_text(encoding="utf-8")
        after = BLOCK.sub(partial(_filled, page), before)
        if after != before:
            drifted.append(page.relative_to(ROOT))
            if "--check" not in arguments:
                page.write_text(after, encoding="utf-8")
    for page in drifted:
        print(
            f"{page}: {'out of date; run python scripts/docs_tables.py' if '--check' in arguments else 'rewritten'}"
        )
    return 3 if drifted and "--check" in arguments else 0


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


def field_reports() -> str:
    rows = [
        [
            f"{match['repo']} #{match['number']}",
            match["what"].replace("_", " "),
            f"`{path.relative_to(ROOT)}`",
        ]
        for path in sorted(ROOT.glob("tests/**/test_*.py"))
        for match in REPORT.finditer(path.read_text(encoding="utf-8"))
    ]
    return _markdown(["public report", "what our test holds", "test file"], sorted(rows))


TABLES: dict[str, Callable[[], str]] = {
    "platforms": platforms,
    "marks": marks,
    "exit-codes": exit_codes,
    "backends": backends,
    "families": families,
    "field-reports": field_reports,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
