"""YAML text read into located values.

Scalars are read as Buildkite's agent reads them (YAML 1.2 core: `on` and `yes` are text, and `1.10` in an
environment keeps its zero). The values are built from parser events with an explicit stack, so neither depth
nor aliases can exhaust the process.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml

from omni_ci.yaml.document import LocatedDict, LocatedList, Problem, Where

MAX_CHARACTERS = 4_000_000
MAX_DEPTH = 64
MAX_VALUES = 250_000  # aliases expanded; a 500-step pipeline holds about 10,000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {text: text.lower() == "true" for text in ("true", "True", "TRUE", "false", "False", "FALSE")}
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?\Z")
_COLLECTION_TAGS = frozenset({"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})
_STRING_TAGS = frozenset({"!", "tag:yaml.org,2002:str"})


def read(source: str | bytes, name: str) -> tuple[Any, list[Problem]]:
    """Return the one document in *source* as located values, and every problem its text has.

    A problem that hides what follows (bad syntax, an alias bomb) ends the reading; the value is then None.
    """
    builder = _Builder(name)
    try:
        text = _decoded(source, name)
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
        if builder.root in (None, ""):
            builder.problems.append(Problem(Where(name), "the file is empty"))
    except _Unreadable as stop:
        return None, [*builder.problems, stop.problem]
    except yaml.YAMLError as error:
        return None, [*builder.problems, _syntax_problem(error, text, name)]
    return builder.root, builder.problems


class _Unreadable(Exception):  # noqa: N818 - a stop, not an error of its own
    def __init__(self, where: Where, what: str) -> None:
        super().__init__(what)
        self.problem = Problem(where, what)


@dataclass(slots=True)
class _Open:
    """A collection whose end has not come yet."""

    value: LocatedDict | LocatedList
    anchor: str | None
    key: str | None = None
    key_where: Where | None = None
    is_merge: bool = False


class _Builder:
    def __init__(self, name: str) -> None:
        self.name = name
        self.root: Any = None
        self.problems: list[Problem] = []
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, str]] = {}
        self._merges: dict[int, list[tuple[Any, Where]]] = {}
        self._documents = 0

    def take(self, event: Any) -> None:
        match event:
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.MappingStartEvent():
                self._start(event, LocatedDict(self._where(event)))
            case yaml.SequenceStartEvent():
                self._start(event, LocatedList(self._where(event)))
            case yaml.CollectionEndEvent():
                self._end()
            case yaml.AliasEvent():
                self._alias(event)
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise _Unreadable(self._where(event), "a second document starts here; keep one a file")

    def _where(self, event: Any) -> Where:
        return Where(self.name, event.start_mark.line + 1, event.start_mark.column + 1)

    def _scalar(self, event: Any) -> None:
        where = self._where(event)
        value = _scalar_value(event, where)
        if event.anchor:
            self._anchors[event.anchor] = (value, event.value)
        # Only a bare `<<` merges; a quoted one is a key like any other.
        self._put(value, event.value, where, bare=bool(event.implicit[0]))

    def _start(self, event: Any, value: LocatedDict | LocatedList) -> None:
        if event.tag and event.tag not in _COLLECTION_TAGS:
            raise _Unreadable(value.where, f"the tag {event.tag!r} is not understood; remove it")
        if len(self._open) >= MAX_DEPTH:
            raise _Unreadable(value.where, f"nested more than {MAX_DEPTH} levels deep")
        top = self._open[-1] if self._open else None
        if top is not None and isinstance(top.value, LocatedDict) and top.key is None:
            raise _Unreadable(value.where, "a key must be plain text (quote a value that starts with { or [)")
        if event.anchor:
            self._anchors.pop(event.anchor, None)
        self._open.append(_Open(value, event.anchor))

    def _end(self) -> None:
        done = self._open.pop()
        if isinstance(done.value, LocatedDict):
            for layer, where in self._merges.pop(id(done.value), []):
                self._merge(done.value, layer, where)
        if done.anchor:
            self._anchors[done.anchor] = (done.value, "")
        self._put(done.value, "", done.value.where)

    def _alias(self, event: Any) -> None:
        where = self._where(event)
        if event.anchor not in self._anchors:
            inside = any(one.anchor == event.anchor for one in self._open)
            what = "refers to itself" if inside else "has no anchor above it"
            raise _Unreadable(where, f"the alias *{event.anchor} {what}")
        value, text = self._anchors[event.anchor]
        self._put(value, text, where)

    def _put(self, value: Any, text: str, where: Where, *, bare: bool = False) -> None:
        if not self._open:
            self.root = value
            return
        top = self._open[-1]
        _grow(top.value, value, where)
        if isinstance(top.value, LocatedList):
            top.value.append(value)
            top.value.items_at.append(where)
        elif top.key is None:
            top.key, top.key_where = text, where
            top.is_merge = bare and text == "<<"
        else:
            self._pair(top, value, text)

    def _pair(self, top: _Open, value: Any, text: str) -> None:
        mapping, key, where = top.value, top.key, top.key_where
        top.key = None
        assert isinstance(mapping, LocatedDict)
        assert key is not None
        assert where is not None
        if key in mapping.keys_at:
            first = mapping.keys_at[key].line
            self.problems.append(
                Problem(where, f"key {key!r} is written twice, on lines {first} and {where.line}; keep one")
            )
            return
        mapping.keys_at[key] = where
        if top.is_merge:
            layers = value if isinstance(value, LocatedList) else [value]
            self._merges.setdefault(id(mapping), []).extend((layer, where) for layer in layers)
            return
        mapping[key] = value
        if value is not None and not isinstance(value, str | LocatedDict | LocatedList):
            mapping.texts[key] = text

    def _merge(self, mapping: LocatedDict, layer: Any, where: Where) -> None:
        mapping.keys_at.pop("<<", None)
        if not isinstance(layer, LocatedDict):
            self.problems.append(Problem(where, "`<<` takes a mapping, or a list of mappings"))
            return
        for key in [key for key in layer if key not in mapping]:
            mapping[key] = layer[key]
            mapping.keys_at[key] = layer.keys_at[key]
            if key in layer.texts:
                mapping.texts[key] = layer.texts[key]


def _grow(collection: LocatedDict | LocatedList, value: Any, where: Where) -> None:
    """Count *value* into *collection*, so that a document of aliases cannot be larger or deeper than one without."""
    if isinstance(value, LocatedDict | LocatedList):
        collection.depth = max(collection.depth, value.depth + 1)
        collection.size += value.size
    else:
        collection.size += 1
    if collection.size > MAX_VALUES:
        raise _Unreadable(where, f"more than {MAX_VALUES:,} values once its aliases are expanded")
    if collection.depth > MAX_DEPTH:
        raise _Unreadable(where, f"nested more than {MAX_DEPTH} levels deep")


def _scalar_value(event: Any, where: Where) -> Any:
    text: str = event.value
    if event.tag and event.tag not in _STRING_TAGS:
        raise _Unreadable(where, f"the tag {event.tag!r} is not understood; remove it")
    if not event.implicit[0] or event.tag:
        return text
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.match(text):
        return int(text) if len(text) < 20 else text  # int() refuses huge ones
    return float(text) if _FLOAT.match(text) else text


def _decoded(source: str | bytes, name: str) -> str:
    if isinstance(source, bytes):
        try:
            text = source.decode("utf-8")
        except UnicodeDecodeError as error:
            line = source.count(b"\n", 0, error.start) + 1
            raise _Unreadable(
                Where(name, line), f"byte {error.start} is not UTF-8; save the file as UTF-8"
            ) from error
    else:
        text = source
    if len(text) > MAX_CHARACTERS:
        raise _Unreadable(Where(name), f"more than {MAX_CHARACTERS:,} characters")
    bad = re.search(r"[\ud800-\udfff]", text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        raise _Unreadable(Where(name, line), "not UTF-8 here; save the file as UTF-8")
    return text.removeprefix("\ufeff")


def _syntax_problem(error: yaml.YAMLError, text: str, name: str) -> Problem:
    if isinstance(error, yaml.reader.ReaderError):
        return Problem(Where(name, text.count("\n", 0, error.position) + 1), "a control character; remove it")
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    where = Where(name, mark.line + 1, mark.column + 1) if mark else Where(name)
    lines = text.splitlines()
    line = lines[where.line - 1] if where.line <= len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return Problem(where, "a tab; YAML is indented with spaces")
    said = ", ".join(filter(None, (getattr(error, "context", None), getattr(error, "problem", None))))
    return Problem(where, f"not valid YAML: {said or 'cannot be read'}")
