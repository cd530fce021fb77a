"""A document as YAML text: the same bytes every time, without anchors, read alike by every YAML version.

PyYAML's emitter takes 1.4 ms a step, ten times as long as all else that happens to one. What is written here needs
little of YAML: block mappings and sequences, and four ways to write a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import yaml

# Buildkite's agent reads YAML 1.2, PyYAML writes 1.1: text that either could take for a number is quoted, or a
# commit such as 12e4567 would become a float on its way. A colon or a hash next to a space would end a plain text.
_PLAIN = re.compile(r"(?!.*(?: #|:(?:\s|$)|\s$))[^\W\d_][^\n]*|[/$_][^\n:#]*(?<!\s)")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_LIKE_A_NUMBER = re.compile(r"[-+]?[.\d]")
_SURROGATES = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})")


def to_yaml(document: Mapping[str, Any]) -> str:
    """Return *document* as YAML, keys in their order, non-ASCII characters as they are."""
    return "".join(f"{line}\n" for line in _block(document, ""))


def yaml_scalar(value: object) -> str:
    """Return *value* as one line of JSON that YAML reads back as the same value.

    JSON is almost YAML: a character above U+FFFF needs one escape instead of a pair, and DEL has to be escaped.
    """
    text = json.dumps(value, ensure_ascii=True)
    return _SURROGATES.sub(_astral, text).replace("\x7f", "\\u007f")


def _block(value: Any, indent: str) -> Iterator[str]:
    """Yield the lines of a mapping or sequence that is not empty."""
    deeper = f"{indent}  "
    if isinstance(value, Mapping):
        for key, item in value.items():
            name = f"{indent}{_text(key, '') if isinstance(key, str) else yaml_scalar(key)}:"
            if isinstance(item, Mapping | list | tuple) and item:
                yield name
                yield from _block(item, deeper)
            else:
                yield f"{name} {_scalar(item, deeper)}"
        return
    for item in value:
        if isinstance(item, Mapping | list | tuple) and item:
            lines = _block(item, deeper)
            yield f"{indent}- {next(lines)[len(deeper) :]}"
            yield from lines
        else:
            yield f"{indent}- {_scalar(item, deeper)}"


def _scalar(value: Any, indent: str) -> str:
    if isinstance(value, str):
        return _text(value, indent)
    if isinstance(value, float):
        return str(yaml.safe_dump(value)).partition("\n")[0]
    return yaml_scalar(list(value) if isinstance(value, tuple) else value)


@lru_cache(maxsize=1024)
def _text(text: str, indent: str) -> str:
    """Return *text* plain, quoted, or as a block whose lines start with *indent*; a key has none and no block."""
    if text.isprintable() and not _LIKE_A_NUMBER.match(text) and "\ufeff" not in text:
        if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
            return text
        quoted = text.replace("'", "''")
        return f"'{quoted}'"
    lines = text.removesuffix("\n").split("\n")
    is_block = indent and "\n" in text and lines[0] and lines[-1] and not lines[0].startswith(" ")
    if is_block and all(
        line.isprintable() and not line.endswith(" ") and "\ufeff" not in line for line in lines
    ):
        body = "\n".join(f"{indent}{line}" if line else "" for line in lines)
        return f"{'|' if text.endswith(chr(10)) else '|-'}\n{body}"
    return yaml_scalar(text)


def _astral(pair: re.Match[str]) -> str:
    high, low = (int(half, 16) for half in pair.groups())
    return f"\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"
