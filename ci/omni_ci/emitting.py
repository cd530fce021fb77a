"""A document as YAML text: the same bytes every time, without anchors, read alike by every YAML version."""

from __future__ import annotations

import re
from typing import Any

import yaml

# Buildkite's agent reads YAML 1.2, PyYAML writes 1.1: text that either could take for a number is quoted, or a
# commit such as 12e4567 would become a float on its way.
_LIKE_A_NUMBER = re.compile(r"[-+]?[.\d]")
# Line breaks to YAML 1.1 and plain characters to 1.2: only escaped do both read them alike.
_OTHER_BREAKS = re.compile("[\x85\u2028\u2029]")


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, indentless=False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = None
    if _OTHER_BREAKS.search(value) or ("\n" not in value and _LIKE_A_NUMBER.match(value)):
        style = '"'
    elif "\n" in value:
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(document: Any) -> str:
    """Return *document* as YAML, keys in their order, non-ASCII characters as they are."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return text
