"""What a project's own files tell pytest about markers, read without pytest."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

_HEADER = re.compile(r"\s*\[{1,2}(?P<name>[^\[\]=]+)\]{1,2}\s*(?:#.*)?")
_KEY = re.compile(r"""\s*(?P<name>[\w"'. -]+?)\s*=""")
_QUOTES = str.maketrans("", "", "\"' \t")


def own_markers(read: Callable[[str], str | None]) -> tuple[str, ...]:
    """Return the names under `markers` in a project's pytest settings, whichever of its files has them.

    *read* returns the text of a file at the project's root, None for one that is not there. Settings that cannot be
    read name none: pytest says what is wrong with them.
    """
    lines = (line for name, find in _FILES.items() if (text := read(name)) for line in find(text))
    return tuple(dict.fromkeys(name for line in lines if (name := _name(line))))


def markers_in(pyproject: str) -> tuple[str, ...]:
    r"""Return the names under `markers` in the pytest settings of the text of a pyproject.toml.

    >>> markers_in('[tool.pytest.ini_options]\nmarkers = ["process: forks", "wide(n)"]')
    ('process', 'wide')
    """
    return own_markers({"pyproject.toml": pyproject}.get)


def line_of(toml: str, path: str) -> int:
    r"""Return the line of *toml* on which *path* ("tool.omni.marks") begins, or the longest part of it that does.

    >>> line_of("[tool.omni]\nmarks = [1]\n", "tool.omni.marks")
    2
    """
    wanted, table = path.split("."), ""
    best, found = 0, 1
    for number, line in enumerate(toml.splitlines(), 1):
        if header := _HEADER.fullmatch(line):
            table = written = header["name"].translate(_QUOTES)
        elif key := _KEY.match(line):
            written = ".".join(filter(None, (table, key["name"].translate(_QUOTES))))
        else:
            continue
        parts = written.split(".")
        if len(parts) > best and parts == wanted[: len(parts)]:
            best, found = len(parts), number
    return found


def _name(line: str) -> str:
    return re.split(r"[:(]", line, maxsplit=1)[0].strip()


def _of_toml(text: str) -> Iterator[str]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    pytest = _table(_table(document, "tool"), "pytest")
    for settings in (_table(pytest, "ini_options"), pytest):
        yield from _lines(settings.get("markers"))


def _of_ini(section: str) -> Callable[[str], Iterable[str]]:
    def find(text: str) -> Iterator[str]:
        import configparser  # every pytest session of ours loads this module, none of them reads an ini file here

        parser = configparser.ConfigParser(interpolation=None, strict=False, allow_no_value=True)
        try:
            parser.read_string(text)
        except configparser.Error:
            return
        yield from _lines(parser.get(section, "markers", fallback=None))

    return find


_FILES: Mapping[str, Callable[[str], Iterable[str]]] = {
    "pyproject.toml": _of_toml,
    "pytest.ini": _of_ini("pytest"),
    ".pytest.ini": _of_ini("pytest"),
    "tox.ini": _of_ini("pytest"),
    "setup.cfg": _of_ini("tool:pytest"),
}


def _table(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = holder.get(key)
    return found if isinstance(found, Mapping) else {}


def _lines(value: object) -> list[str]:
    """Return the entries of a list as TOML and INI write them: an item each, or a line each."""
    if isinstance(value, str):
        return value.splitlines()
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
