"""What a project adds to the vocabulary in ``[tool.omni]`` of its pyproject.toml.

[tool.omni]
levels = ["smoke", "core_model", "full_model"]   # shallow to deep; replaces the built-in levels
topics = ["speech"]                              # added
marks = ["quarantined"]                          # selection marks, added
[tool.omni.skus]
cuda = ["GB300"]                                 # added to the platform
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from omni_hardware.errors import InputError, did_you_mean, strip_controls
from omni_hardware.own_markers import line_of
from omni_hardware.vocabulary import ANY_SKU, DEFAULT, Platform, Vocabulary

_KEYS = ("skus", "levels", "topics", "marks")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_TAKEN = {
    **dict.fromkeys(("and", "or", "not", "True", "False", "None"), "a word of -m expressions"),
    **dict.fromkeys(
        ("parametrize", "skip", "skipif", "xfail", "usefixtures", "filterwarnings"),
        "a marker of pytest's own",
    ),
    "hardware": "the marker that hardware_test writes",
    ANY_SKU: "the SKU of a platform that has none to tell apart",
}
_OWN = {
    "skus": ("a SKU", "[tool.omni.skus] {platform}"),
    "levels": ("a level", "[tool.omni] levels"),
    "marks": ("a word", "[tool.omni] topics or marks, or into pytest's `markers`,"),
}
_TABLE_HEADER = re.compile(r"^\s*\[{1,2}\s*tool\s*\.\s*omni\s*[.\]]", re.MULTILINE)
_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)")


def load_project(root: Path) -> Vocabulary:
    """Return the built-in vocabulary plus what *root*'s pyproject.toml adds; without a table, the built-in one.

    Raises InputError naming file, table and key, with every problem of the table at once.
    """
    path = root / "pyproject.toml"
    return _extended(_raw(path), _shown(path))


def vocabulary_in(pyproject: str | None, *, source: str) -> Vocabulary:
    """Return what `load_project` does for the text of a pyproject.toml, which messages call *source*; None: no file.

    Bytes that are no UTF-8 are given as lone surrogates.
    """
    return _extended(
        None if pyproject is None else _ours(pyproject.encode("utf-8", "surrogateescape")), source
    )


def is_armed(root: Path) -> bool:
    """Return whether *root*'s pyproject.toml has a ``[tool.omni]`` table.

    A file that cannot be read as TOML arms nothing unless it visibly holds the table: then InputError, and so it is
    for a `tool.omni` that is no table.
    """
    path = root / "pyproject.toml"
    raw = _raw(path)
    if raw is None:
        return False
    try:
        document = _parsed(raw, _shown(path))
    except InputError:
        if _TABLE_HEADER.search(raw.decode("utf-8", errors="replace")):
            raise
        return False
    return _table_in(document, raw, _shown(path)) is not None


def own_words(key: str, platform: str | None = None) -> str:
    """Return where a project writes a word of its own, to end the message about one that is not known.

    >>> own_words("skus", "cuda")
    'a SKU of your own goes into [tool.omni.skus] cuda of pyproject.toml'
    """
    what, where = _OWN[key]
    return f"{what} of your own goes into {where.format(platform=platform)} of pyproject.toml"


def extend(table: Mapping[str, Any], *, source: str, text: str | None = None) -> Vocabulary:
    """Return DEFAULT extended by a ``[tool.omni]`` table; InputError holds one line a problem.

    *text* is the TOML that *table* stands in, for the line of each.
    """
    problems = [_unknown_key(key) for key in table if key not in _KEYS]
    found = {key: list(_names(table[key], key, problems)) for key in _KEYS[1:] if key in table}
    platforms = _with_skus(table.get("skus", {}), problems)
    vocabulary = dataclasses.replace(
        DEFAULT,
        platforms=platforms,
        levels=tuple(found.get("levels", DEFAULT.levels)),
        topics=_added(DEFAULT.topics, found.get("topics", ())),
        selection=_added(DEFAULT.selection, found.get("marks", ())),
    )
    if "levels" in found and not found["levels"] and not any(p.startswith("levels") for p in problems):
        problems.append("levels: needs at least one run level, shallow to deep")
    problems += _clashes(vocabulary)
    if problems:
        raise InputError(
            "\n".join(
                strip_controls(f"{source}{_line(text, problem)}: [tool.omni] {problem}")
                for problem in problems
            )
        )
    return vocabulary


def _shown(path: Path) -> str:
    """Return *path* as a person would type it: from the working directory, where it is below that."""
    here = Path.cwd()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else str(path)


def _line(text: str | None, problem: str) -> str:
    """Return ":3", the line at which what *problem* is about begins; nothing without the text."""
    if text is None:
        return ""
    key = problem.partition(":")[0]
    return f":{line_of(text, f'tool.omni.{key}')}"


def _raw(path: Path) -> bytes | None:
    """Return what is in *path*; None for a file that is not there or never says our name."""
    try:
        raw = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"{_shown(path)}: cannot be read: {error.strerror}") from error
    return _ours(raw)


def _ours(raw: bytes) -> bytes | None:
    # most projects: no need to parse; a NUL is UTF-16, in which our name would not be seen
    return raw if b"omni" in raw or b"\0" in raw else None


def _extended(raw: bytes | None, source: str) -> Vocabulary:
    table = None if raw is None else _table_in(_parsed(raw, source), raw, source)
    return DEFAULT if table is None else extend(table, source=source, text=(raw or b"").decode())


def _table_in(document: Mapping[str, Any], raw: bytes, source: str) -> Mapping[str, Any] | None:
    tool = document.get("tool", {})
    table = tool.get("omni") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        line = line_of(raw.decode(), "tool.omni")
        raise InputError(
            f"{source}:{line}: [tool] omni: must be a table, not {_kind(table)}; write [tool.omni]"
        )
    return table


def _parsed(raw: bytes, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError(f"{source}:{line}: not UTF-8, which TOML demands") from error
    except tomllib.TOMLDecodeError as error:
        text = str(error)
        at = _POSITION.search(text)
        end = raw.rstrip(b"\n").count(b"\n") + 1
        where = f"{at[1]}:{at[2]}" if at and at[1] else f"{end}"
        raise InputError(f"{source}:{where}: not TOML: {_POSITION.sub('', text)}") from error


def _unknown_key(key: str) -> str:
    return f"{key}: unknown key{did_you_mean(key, _KEYS)}"


def _names(value: object, key: str, problems: list[str]) -> Iterator[str]:
    if not isinstance(value, list):
        problems.append(f"{key}: must be a list of names, not {_kind(value)}")
        return
    seen: set[str] = set()
    for name in value:
        if not isinstance(name, str):
            problems.append(f"{key}: {name!r} is {_kind(name)}, not a name; put it in quotes")
        elif not _NAME.fullmatch(name):
            problems.append(f"{key}: {name!r} cannot be a marker: letters, digits and _ . - only")
        elif name in _TAKEN:
            problems.append(f"{key}: {name!r} is {_TAKEN[name]}")
        elif name in seen:
            problems.append(f"{key}: {name!r} is listed twice")
        else:
            seen.add(name)
            yield name


def _with_skus(value: object, problems: list[str]) -> tuple[Platform, ...]:
    if not isinstance(value, dict):
        problems.append(f"skus: must be a table of platforms, not {_kind(value)}")
        return DEFAULT.platforms
    names = [row.name for row in DEFAULT.platforms]
    problems += [
        f"skus.{key}: unknown platform{did_you_mean(key, names)}" for key in value if key not in names
    ]
    problems += [
        f"skus.{row.name}: {row.name} has no SKUs to tell apart, only {ANY_SKU!r}; add to another platform"
        for row in DEFAULT.platforms
        if row.skus == (ANY_SKU,) and value.get(row.name)
    ]
    return tuple(
        dataclasses.replace(
            row, skus=_added(row.skus, _names(value.get(row.name, []), f"skus.{row.name}", problems))
        )
        for row in DEFAULT.platforms
    )


def _added(known: tuple[str, ...], new: Iterator[str] | list[str] | tuple[str, ...]) -> tuple[str, ...]:
    # a name that is there already stays once: a project must not break the day we ship its SKU
    return tuple(dict.fromkeys((*known, *new)))


def _clashes(vocabulary: Vocabulary) -> Iterator[str]:
    """Yield one line for each name that would mean two things; -m could not tell them apart."""
    homes: dict[str, tuple[str, str]] = {}
    for home, name in _homes(vocabulary):
        other = homes.setdefault(name.lower(), (home, name))
        if other != (home, name):
            alike = "" if other[1] == name else f" (as {other[1]!r}; names must differ by more than case)"
            yield f"{home}: {name!r} is already in {other[0]}{alike}"


def _homes(vocabulary: Vocabulary) -> Iterator[tuple[str, str]]:
    yield from (("platforms", row.name) for row in vocabulary.platforms)
    yield "platforms", "gpu"
    yield from (("cards", f"cards_{count}") for count in vocabulary.cards)
    # built-in names first, so that the addition is the one called the newcomer
    for known in (DEFAULT, vocabulary):
        for row in known.platforms:
            yield from ((f"skus.{row.name}", sku) for sku in row.skus if sku != ANY_SKU)
        if known is vocabulary or vocabulary.levels == DEFAULT.levels:
            yield from (("levels", level) for level in known.levels)
        yield from (("marks", mark) for mark in known.selection)
        yield from (("topics", topic) for topic in known.topics)


def _kind(value: object) -> str:
    kinds = {
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "a list",
        dict: "a table",
    }
    return kinds.get(type(value), f"a {type(value).__name__}")
