"""Text that people wrote, made harmless for the place it is shown in."""

from __future__ import annotations

import html
import re

from omni_hardware.errors import strip_controls

_CELL_AT_MOST = 400
_MARKDOWN = re.compile(r"([\\`*_\[\]|~#])")
# Line breaks to HTML and Markdown, or to nobody: all of them become a space.
_BREAKS = re.compile("[\n\r\x0b\x0c\x85\u2028\u2029]+")
# Buildkite draws these; nobody else does.
_EMOJI = re.compile(r"(?<!\S):[a-z0-9_+-]+:(?:\s+|$)")


def one_line(text: str) -> str:
    """Return *text* without control characters, on one line."""
    return strip_controls(_BREAKS.sub(" ", text)).rstrip()


def cut(text: str, most: int = _CELL_AT_MOST) -> str:
    """Return *text* on one line, shortened where it is longer than anybody reads."""
    line = one_line(text)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def without_emoji(text: str) -> str:
    """Return *text* without Buildkite's emoji codes, unless nothing else is in it."""
    return _EMOJI.sub("", text).strip() or text


def html_cell(text: str, most: int = _CELL_AT_MOST) -> str:
    """Return *text* escaped for HTML inside Markdown, in which a pipe, a backtick or a blank line would have a say."""
    return (
        html.escape(cut(text, most))
        .replace("|", "&#124;")
        .replace("`", "&#96;")
        .encode("utf-8", "replace")
        .decode()
    )


def markdown_cell(text: str) -> str:
    """Return *text* escaped for a cell of a Markdown table."""
    bare = html.escape(_MARKDOWN.sub(r"\\\1", cut(text)), quote=False)
    return bare.replace("@", "&#64;").encode("utf-8", "replace").decode()
