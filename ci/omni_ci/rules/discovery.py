"""The rules of the package, found by their files' names; a broken one is an error, never a rule less."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType

from omni_ci.rules import __name__ as package
from omni_ci.rules import __path__ as folders
from omni_ci.rules.rule import Rule

_FILE = re.compile(r"(ci\d{3})_[a-z_]+")


class RuleError(Exception):
    """A rule of the package is broken: a mistake of its author, not of the person who lints."""


@cache
def rules() -> Mapping[str, Rule]:
    """Return every rule by its code, in their order. Raises RuleError."""
    names = sorted(one.name for one in pkgutil.iter_modules(folders) if _FILE.fullmatch(one.name))
    return collected(import_module(f"{package}.{name}") for name in names)


def collected(modules: Iterable[ModuleType]) -> dict[str, Rule]:
    """Return the rule of each of *modules* by its code.

    Raises RuleError for a module without exactly one rule, a code that is not the file's or is taken, and a rule
    that says neither what must hold nor why.
    """
    found: dict[str, Rule] = {}
    for module in modules:
        rule = _rule_of(module)
        if rule.code in found:
            raise RuleError(
                f"{module.__name__}: {rule.code} is also the code of {type(found[rule.code]).__module__}"
            )
        found[rule.code] = rule
    return found


def _rule_of(module: ModuleType) -> Rule:
    name = module.__name__
    kinds = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Rule) and kind.__module__ == name
    ]
    if len(kinds) != 1:
        raise RuleError(f"{name}: a rule's file holds one rule, this one {len(kinds)}")
    rule: Rule = kinds[0]()
    matched = _FILE.fullmatch(name.rpartition(".")[2])
    if matched is None or getattr(rule, "code", None) != matched[1].upper():
        raise RuleError(
            f"{name}: the rule's code must be that of its file, not {getattr(rule, 'code', None)!r}"
        )
    if not rule.title or not rule.remedy:
        raise RuleError(f"{name}: the docstring must say what must hold, and below why and what to do")
    return rule
